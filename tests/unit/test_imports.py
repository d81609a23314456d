"""Who may import whom: the contracts in pyproject.toml, and what core and runner may use."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "trackyard"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS: list[dict[str, Any]] = PROJECT["tool"]["importlinter"]["contracts"]

#: Packages written with the standard library alone, so that they load anywhere.
BARE = ["core", "runner"]

#: What our plug-ins are loaded by, so that it is there when they are.
HOSTS = {"mlflow"}

#: Modules that run inside a Ray cluster alone, on the cluster's own Ray.
IN_CLUSTER = {
    SOURCE / "runner" / "ray" / "gang.py",
    SOURCE / "runner" / "ray" / "host.py",
    SOURCE / "runner" / "ray" / "keep.py",
    SOURCE / "engines" / "ray_gate" / "gate.py",
}
#: A program that a job's own Python runs, with the torch that this one has, if it has.
IN_JOBS = SOURCE / "runner" / "gang" / "preflight.py"

HEAVY = {"lightning", "matplotlib", "peft", "ray", "torch", "transformers"}


def packages() -> set[str]:
    return {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def is_present(module: str) -> bool:
    path = ROOT / "src" / Path(*module.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def pruned(contract: dict[str, Any]) -> dict[str, Any] | None:
    """The contract without the packages that are not in the tree, or none if nothing is left."""
    left = dict(contract)
    if contract["type"] == "layers":
        rows = [[name.strip() for name in row.split("|")] for row in contract["layers"]]
        kept = [[name for name in row if name in packages()] for row in rows]
        left["layers"] = [" | ".join(row) for row in kept if row]
        return left if len(left["layers"]) > 1 else None
    for key in ("source_modules", "forbidden_modules"):
        left[key] = [module for module in contract[key] if is_present(module)]
    return left if left["source_modules"] and left["forbidden_modules"] else None


def written(contracts: list[dict[str, Any]]) -> str:
    lines = ["[tool.importlinter]", 'root_package = "trackyard"']
    for contract in contracts:
        lines.append("[[tool.importlinter.contracts]]")
        lines += [f"{key} = {value!r}" for key, value in contract.items()]
    return "\n".join(lines) + "\n"


def lint(contracts: list[dict[str, Any]], folder: Path, source: Path) -> tuple[int, str]:
    config = folder / "contracts.toml"
    config.write_text(written(contracts))
    command = [Path(sys.executable).parent / "lint-imports", "--config", config, "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    answer = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return answer.returncode, answer.stdout + answer.stderr


def test_every_import_keeps_the_contracts(tmp_path: Path) -> None:
    contracts = [left for contract in CONTRACTS if (left := pruned(contract)) is not None]
    status, words = lint(contracts, tmp_path, ROOT / "src")
    assert status == 0, words


def test_a_broken_contract_is_found(tmp_path: Path) -> None:
    """An import of the server by core fails the same check."""
    package = tmp_path / "trackyard"
    for name in ("core", "server"):
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "core" / "job.py").write_text("import trackyard.server\n")
    layers = {**CONTRACTS[0], "layers": ["server", "core"]}
    status, words = lint([layers], tmp_path, tmp_path)
    assert status != 0
    assert "trackyard.core.job -> trackyard.server" in words


def test_every_package_stands_under_a_contract() -> None:
    named = {
        module.removeprefix("trackyard.")
        for contract in CONTRACTS
        for module in contract.get("source_modules", []) + contract.get("forbidden_modules", [])
    }
    assert packages() <= named


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("package", BARE)
def test_bare_packages_use_the_standard_library_alone(package: str) -> None:
    for path in sorted((SOURCE / package).rglob("*.py")):
        for name in imported(ast.walk(ast.parse(path.read_text()))):
            own = name == f"trackyard.{package}" or name.startswith(f"trackyard.{package}.")
            known = name.split(".")[0] in sys.stdlib_module_names
            first = name.split(".")[0]
            hosted = (path in IN_CLUSTER and first == "ray") or (
                path == IN_JOBS and first == "torch"
            )
            assert own or known or hosted, f"{path.name}: {name}"


def test_heavy_extras_are_imported_late() -> None:
    """Outside fine-tuning, no module needs torch and its kin merely to be loaded."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.is_relative_to(SOURCE / "finetune") or path in IN_CLUSTER:
            continue
        loaded = {name.split(".")[0] for name in imported(ast.parse(path.read_text()).body)}
        assert loaded.isdisjoint(HEAVY), path.relative_to(ROOT)


def plain(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def test_every_dependency_that_is_imported_is_declared() -> None:
    """What src imports comes with the package or with one of its extras."""
    declared = {plain(line) for line in PROJECT["project"]["dependencies"]}
    for extra in PROJECT["project"]["optional-dependencies"].values():
        declared |= {plain(line) for line in extra}
    installed = metadata.packages_distributions()
    undeclared = set()
    for path in sorted(SOURCE.rglob("*.py")):
        for name in imported(ast.walk(ast.parse(path.read_text()))):
            top = name.split(".")[0]
            if top != "trackyard" and top not in sys.stdlib_module_names | HOSTS:
                owners = {plain(owner) for owner in installed.get(top, [top])}
                if owners.isdisjoint(declared):
                    undeclared.add(f"{path.relative_to(ROOT)}: {top}")
    assert undeclared == set()
