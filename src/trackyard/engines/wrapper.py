"""How engines start the runner: its command line, its SPEC.json, and the bundle for other nodes.

Owns the translation from LaunchSpec to the runner's own words. Must not import the runner:
it runs in its own process, under an interpreter that may have nothing else installed.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trackyard.core.ports import DataRef, LaunchSpec, PackageRef, ReportTo

SPEC_VERSION = 1
PACKAGE_DIR = Path(__file__).resolve().parent.parent

# Skips trackyard/__init__.py, whose imports the runner neither needs nor can count on.
_BOOT = (
    "import sys, types; package = types.ModuleType('trackyard'); "
    "package.__path__ = [sys.argv.pop(1)]; sys.modules['trackyard'] = package; "
    "from trackyard.runner.__main__ import main; sys.exit(main())"
)

#: variables a command inherits from the engine's own process; all others may hold secrets
INHERITED_NAMES = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR VIRTUAL_ENV LD_LIBRARY_PATH "
    "HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE HF_HOME HF_HUB_OFFLINE "
    "HF_HUB_CACHE TORCH_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_RUNTIME_DIR".split()
)
INHERITED_PREFIXES = ("LC_", "CUDA_", "NCCL_", "NVIDIA_", "ROCM_", "HIP_", "PIP_", "UV_", "OMP_")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPlace:
    """Where one member of an attempt runs, as its engine arranged it."""

    member: int
    state_dir: Path
    cache_dir: Path
    addresses: Sequence[str]
    port: int
    #: by which the members of one attempt know each other, the same for all of them
    secret: str = ""
    #: folder with all members' state folders `m0`, `m1`, …, if they share a disk
    gang_dir: Path | None = None
    #: vendor of the node's GPUs; None: the engine hands out GPUs by itself
    gpu_vendor: str | None = "nvidia"
    checkpoint_dir: Path | None = None
    #: folder for those that outlive attempts
    lasting_dir: Path | None = None
    base_env: Mapping[str, str]
    python: str
    echo: bool = False
    #: how the runner looks at the node: `limits` and `gpu_file`; None: it does not
    health: Mapping[str, Any] | None = None


def command(*arguments: str, python: str | None = None) -> list[str]:
    """Return the words that start the runner from this installation."""
    return [python or sys.executable, "-I", "-S", "-c", _BOOT, str(PACKAGE_DIR), *arguments]


def runner_spec(spec: LaunchSpec, place: MemberPlace) -> dict[str, Any]:
    """Return SPEC.json for one member."""
    share = spec.placement[place.member]
    gpus = None
    if place.gpu_vendor is not None:
        gpus = [
            {"index": gpu.index, "fraction": gpu.fraction, "vendor": place.gpu_vendor}
            for gpu in share.gpus
        ]
    checkpoint = spec.checkpoint_dir or place.checkpoint_dir
    return {
        "version": SPEC_VERSION,
        "attempt_id": spec.attempt_id,
        "epoch": spec.epoch,
        "job_id": spec.job_id,
        "argv": list(spec.argv),
        "state_dir": str(place.state_dir),
        "cache_dir": str(place.cache_dir),
        "base_env": dict(place.base_env),
        "env": dict(spec.env),
        "secrets": list(spec.secrets),
        "platform_env": dict(spec.platform_env),
        "package": None if spec.package is None else _package(spec.package),
        "modules": [_package(module) for module in spec.modules],
        "data": [_data(one) for one in spec.data],
        "data_cache_bytes": spec.data_cache_bytes,
        "ray_rules": spec.ray is not None,
        "pip": list(spec.pip),
        "pip_system_site_packages": spec.pip_system_site_packages,
        "python": place.python,
        "gpus": gpus,
        "cpus": share.cpus,
        "memory_bytes": share.memory_bytes if share.limits_memory else 0,
        "gang": {
            "member": place.member,
            "members": len(spec.placement),
            "launcher": spec.launcher.value,
            "processes": spec.processes_per_node,
            "addresses": list(place.addresses),
            "port": place.port,
            "folder": None if place.gang_dir is None else str(place.gang_dir),
            "nodes": [share.node_id for share in spec.placement],
            "secret": place.secret,
            "preflight": spec.preflight,
        },
        "grace_seconds": spec.grace_seconds,
        "time_limit_seconds": spec.time_limit_seconds,
        "progress_seconds": spec.progress_seconds,
        "checkpoint_dir": None if checkpoint is None else str(checkpoint),
        "saved_exit_code": spec.saved_exit_code,
        "report": None if spec.report is None else _report(spec.report),
        "echo": place.echo,
        "health": place.health,
        "interactive": None if spec.interactive is None else dict(spec.interactive),
        "work_dir": _lasting(spec, place),
    }


def _lasting(spec: LaunchSpec, place: MemberPlace) -> str | None:
    if not spec.lasting_folder or place.lasting_dir is None:
        return None
    return str(place.lasting_dir / spec.lasting_folder)


def _report(report: ReportTo) -> dict[str, Any]:
    """Return what the runner is told; how that was sealed is for those who open it."""
    return {name: value for name, value in asdict(report).items() if name not in ("ticket", "key")}


def _data(ref: DataRef) -> dict[str, Any]:
    return asdict(ref)


def _package(ref: PackageRef) -> dict[str, str]:
    return {"digest": ref.digest, "location": ref.location, "format": ref.format}


def inherited_environment(source: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what a command may inherit, with this interpreter first on its PATH."""
    values = {
        name: value
        for name, value in (os.environ if source is None else source).items()
        if name in INHERITED_NAMES or name.startswith(INHERITED_PREFIXES)
    }
    own = str(Path(sys.executable).parent)
    path = values.get("PATH", os.defpath).split(os.pathsep)
    values["PATH"] = os.pathsep.join([own, *(part for part in path if part != own)])
    if sys.prefix != sys.base_prefix:
        values["VIRTUAL_ENV"] = sys.prefix
    return values


@cache
def bundle() -> bytes:
    """Return the runner as one runnable zip, the same bytes each time, for nodes elsewhere."""
    target = io.BytesIO()
    main = "from trackyard.runner.__main__ import main\nimport sys\nsys.exit(main())\n"
    files = {"__main__.py": main.encode(), "trackyard/__init__.py": b""}
    for source in sorted((PACKAGE_DIR / "runner").rglob("*.py")):
        files[f"trackyard/{source.relative_to(PACKAGE_DIR).as_posix()}"] = source.read_bytes()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), files[name])
    return target.getvalue()


def bundle_digest() -> str:
    """Return the bundle's SHA-256, which names it on nodes."""
    return hashlib.sha256(bundle()).hexdigest()
