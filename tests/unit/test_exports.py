"""The public names of the package, locked: adding or removing one is a decision made here."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import trackyard

EXPORTS = ["__version__"]


def test_the_public_names_are_these() -> None:
    assert sorted(trackyard.__all__) == sorted(EXPORTS)


def test_every_public_name_exists() -> None:
    assert all(hasattr(trackyard, name) for name in trackyard.__all__)


def test_the_version_is_the_one_installed() -> None:
    assert metadata.version("trackyard") == trackyard.__version__


def test_the_package_says_it_is_typed() -> None:
    assert (Path(trackyard.__file__).parent / "py.typed").is_file()


def test_importing_the_package_loads_nothing_heavy() -> None:
    """A training script pays next to nothing for the import."""
    script = "import sys, trackyard; print(*sorted(name.split('.')[0] for name in sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    heavy = {"numpy", "sqlalchemy", "uvicorn", "obstore", "torch", "mlflow", "rich"}
    assert heavy.isdisjoint(answer.stdout.split())
