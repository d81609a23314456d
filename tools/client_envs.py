"""Builds the environments of other software that tests and benchmarks drive, one per file in
tests/envs/ (stock clients) and bench/envs/ (servers to measure beside ours).

Owns where they lie and when they are stale; what runs in them is not known here. Each is a plain
virtual environment at .cache/envs/NAME (or under the folder that YARD_TEST_ENVS names). What is
large and the same in several lies once, in one of tests/envs/shared/, on whose top they are made.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTED = ROOT / "tests" / "envs"
REQUIREMENTS = [TESTED, TESTED / "shared", ROOT / "bench" / "envs"]
#: The line by which an environment says that it is made on top of a shared one.
ON_TOP = re.compile(r"^# on top of: (\w+)$", re.MULTILINE)


def envs_folder() -> Path:
    """Where the environments lie."""
    return Path(os.environ.get("YARD_TEST_ENVS") or ROOT / ".cache" / "envs")


def requirements_of(name: str) -> Path:
    """Find the file that lists what an environment holds."""
    for folder in REQUIREMENTS:
        if (folder / f"{name}.txt").is_file():
            return folder / f"{name}.txt"
    raise LookupError(f"neither tests/envs/{name}.txt nor bench/envs/{name}.txt exists")


def shared_below(requirements: Path) -> str | None:
    """Name the shared environment that this one is made on top of, if there is one."""
    found = ON_TOP.search(requirements.read_text())
    return found[1] if found is not None else None


def wanted_stamp(requirements: Path) -> str:
    """What an up-to-date environment's stamp says: these requirements, this Python."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    content = requirements.read_bytes()
    if (lock := lock_of(requirements)) is not None:
        content += lock.read_bytes()
    if (shared := shared_below(requirements)) is not None:
        content += wanted_stamp(requirements_of(shared)).encode()
    return f"{version} {hashlib.sha256(content).hexdigest()}"


def lock_of(requirements: Path) -> Path | None:
    """Find the versions that these requirements are held to, if they are held to any."""
    lock = requirements.parent / "locks" / requirements.name
    return lock if lock.is_file() else None


def pinned_torch(requirements: Path) -> str | None:
    """Find the line that pins torch."""
    lines = (line.strip() for line in requirements.read_text().splitlines())
    return next((line for line in lines if line.startswith("torch==")), None)


def ensure(name: str) -> str:
    """Build one environment if it is absent or stale; say in a word what was done."""
    requirements = requirements_of(name)
    home = envs_folder() / name
    stamp = home / ".stamp"
    wanted = wanted_stamp(requirements)
    if stamp.is_file() and stamp.read_text() == wanted:
        return "up to date"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True, symlinks=True)
    if (shared := shared_below(requirements)) is not None:
        if build(shared) != 0:
            raise subprocess.CalledProcessError(1, f"pip install of {shared}")
        # pip counts what this line leads to as installed, and puts other versions before it.
        (modules_of(home) / "shared.pth").write_text(f"{modules_of(envs_folder() / shared)}\n")
    # torch goes first and alone: beside the rest, pip may choose a build for other hardware.
    torch = pinned_torch(requirements)
    if torch is not None:
        install(python, torch)
    lock = lock_of(requirements)
    held = [] if lock is None else ["--constraint", str(lock)]
    install(python, "--requirement", str(requirements), *held)
    stamp.write_text(wanted)
    return "built"


def modules_of(home: Path) -> Path:
    """Where an environment's modules lie."""
    major, minor = sys.version_info[:2]
    return home / "lib" / f"python{major}.{minor}" / "site-packages"


def install(python: Path, *what: str) -> None:
    """Run pip in an environment, quietly."""
    # Modules are compiled when they are first imported, which most of them never are.
    flags = ["--disable-pip-version-check", "-qq", "--no-compile"]
    subprocess.run([python, "-m", "pip", "install", *flags, *what], check=True)


def build(name: str) -> int:
    """Build one environment, alone even if two callers ask at once, and say how long it took."""
    started = time.monotonic()
    with (envs_folder() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            outcome = ensure(name)
        except subprocess.CalledProcessError:
            print(f"client_envs: {name} could not be built, see pip's words", file=sys.stderr)
            return 1
    print(f"client_envs: {name} {outcome} in {time.monotonic() - started:.1f} s", flush=True)
    return 0


def main(names: list[str]) -> int:
    """Build the named environments, or all that the tests need, two at a time."""
    # What others are made on top of goes first, so that none waits longer for it than it must.
    every = [
        *sorted((TESTED / "shared").glob("*.txt")),
        *sorted(TESTED.glob("*.txt"), reverse=True),
    ]
    chosen = names or [path.stem for path in every]
    try:
        for name in chosen:
            requirements_of(name)
    except LookupError as error:
        print(f"client_envs: {error}", file=sys.stderr)
        return 2
    envs_folder().mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=2) as pool:
        return max(pool.map(build, chosen), default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
