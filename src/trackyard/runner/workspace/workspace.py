"""The folder and the Python environment a command runs in, with caches keyed by content.

Owns fetching, checking and unpacking packages, and building pip environments once for all
jobs that ask for the same. Runs programs only through the function it is given.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import http.client
import os
import platform
import re
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from trackyard.runner.spec import PackageSpec, RunnerSpec
from trackyard.runner.workspace import archive

DOWNLOAD_SECONDS = 60.0
DOWNLOAD_TRIES = 5
COPY_TRIES = 5
CHUNK_BYTES = 1024 * 1024
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
RunProgram = Callable[[List[str], Path, Dict[str, str]], "tuple[int, str]"]
#: called while waiting; raises if the attempt is to stop
Pause = Callable[[float], None]


class WorkspaceError(Exception):
    """The workspace cannot be made ready; the message says what to do."""


def prepare_folder(spec: RunnerSpec, pause: Pause) -> Path:
    """Return the folder the command runs in, unpacked from its package if it has one."""
    folder = spec.state_dir / "work"
    if spec.work_dir is not None:
        # It outlives the attempt: what is in it is the user's, and nothing is put over it.
        spec.work_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        return spec.work_dir
    if spec.package is None and spec.source_dir is not None:
        _copy(spec.source_dir, folder, pause)
        return folder
    if spec.package is None:
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    return _unpacked(spec.package, spec, folder, pause)


def _copy(source: Path, folder: Path, pause: Pause) -> None:
    """Copy a folder that another program may replace at any time: whole, or not at all."""
    trouble = f"{source} changed while it was read"
    for attempt in range(COPY_TRIES):
        if attempt:
            pause(0.5)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            before = source.stat().st_ino
            shutil.copytree(source, folder, symlinks=True)
            if source.stat().st_ino == before:
                return
        except (OSError, shutil.Error) as fault:
            trouble = str(fault)
    raise WorkspaceError(f"The job's folder could not be copied: {trouble}.")


def prepare_modules(spec: RunnerSpec, pause: Pause) -> List[Path]:
    """Return the folders that Python imports from, unpacked from the job's modules."""
    home = spec.state_dir / "modules"
    return [
        _unpacked(module, spec, home / str(number), pause)
        for number, module in enumerate(spec.modules)
    ]


def _unpacked(package: PackageSpec, spec: RunnerSpec, folder: Path, pause: Pause) -> Path:
    packed = fetch(package, spec, pause)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        archive.unpack(packed, folder, kind=package.format)
    except archive.BadArchiveError as fault:
        shutil.rmtree(folder, ignore_errors=True)
        raise WorkspaceError(f"The job's package was refused: {fault}.") from fault
    except OSError as fault:
        raise WorkspaceError(f"The job's package could not be unpacked: {fault}.") from fault
    return folder


def fetch(package: PackageSpec, spec: RunnerSpec, pause: Pause) -> Path:
    """Return the package's archive from the cache, fetched and checked if it is not there."""
    folder = spec.cache_dir / "packages"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = folder / f"{package.digest}.{package.format}"
    with _locked(folder / f".{package.digest}.lock", pause):
        if kept.exists() and _digest(kept) == package.digest:
            os.utime(kept)
            return kept
        beside = folder / f".{package.digest}.part"
        _fetch(package, spec, beside, pause)
        found = _digest(beside)
        if found != package.digest:
            beside.unlink()
            raise WorkspaceError(
                f"The package at {package.location} has digest {found[:12]}…, not "
                f"{package.digest[:12]}…: it was damaged or replaced; submit the job again."
            )
        beside.replace(kept)
    return kept


def _fetch(package: PackageSpec, spec: RunnerSpec, target: Path, pause: Pause) -> None:
    if not package.location.startswith(("http://", "https://")):
        try:
            shutil.copyfile(package.location, target)
        except OSError as fault:
            raise WorkspaceError(f"The job's package cannot be read: {fault}.") from fault
        return
    trouble = ""
    for attempt in range(DOWNLOAD_TRIES):
        if attempt:
            pause(min(2.0**attempt * 0.25, 5.0))
        try:
            status = _download(package.location, spec, target, pause)
        except (OSError, http.client.HTTPException) as error:
            trouble = str(error)
            continue
        if status == 200:
            return
        trouble = f"the server answered {status}"
        if 400 <= status < 500 and status not in (408, 429):
            break
    raise WorkspaceError(
        f"The job's package cannot be fetched from {package.location}: {trouble}."
    )


def _download(location: str, spec: RunnerSpec, target: Path, pause: Pause) -> int:
    parts = urlsplit(location)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=DOWNLOAD_SECONDS)
    headers = {"X-Yard-Epoch": str(spec.epoch)}
    # The credential goes to our own server and nowhere else.
    if spec.report is not None and _same_place(location, spec.report.url):
        headers["Authorization"] = f"Bearer {spec.report.token}"
    try:
        query = f"?{parts.query}" if parts.query else ""
        connection.request("GET", (parts.path or "/") + query, headers=headers)
        response = connection.getresponse()
        if response.status == 200:
            with target.open("wb") as sink:
                for chunk in iter(lambda: response.read(CHUNK_BYTES), b""):
                    sink.write(chunk)
                    pause(0)
        return response.status
    finally:
        connection.close()


def _same_place(location: str, server: str) -> bool:
    one, other = urlsplit(location), urlsplit(server)
    return (one.scheme, one.hostname, one.port) == (other.scheme, other.hostname, other.port)


def prepare_python(
    spec: RunnerSpec, folder: Path, env: Dict[str, str], *, run: RunProgram, pause: Pause
) -> Optional[Path]:
    """Return the environment with the job's pip requirements, or None if it has none."""
    if not spec.pip:
        return None
    base = shutil.which(spec.python, path=env.get("PATH")) or spec.python
    home = spec.cache_dir / "environments"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    place = home / environment_key(spec, base)
    done = place / ".complete"
    with _locked(home / f".{place.name}.lock", pause):
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)
            try:
                _build(spec, place, EnvironmentBuild(base, folder, env, run))
            except WorkspaceError:
                shutil.rmtree(place, ignore_errors=True)
                raise
            done.touch()
        os.utime(done)
    return place


def environment_key(spec: RunnerSpec, base: str) -> str:
    """Return the content key of a pip environment."""
    lines = sorted(line.strip() for line in spec.pip if line.strip())
    facts = [platform.python_version(), platform.machine(), base, *lines]
    facts.append("site" if spec.pip_system_site_packages else "bare")
    # A requirement on a local path depends on what lies there, which the package names.
    if spec.package is not None and any(_is_local(line) for line in lines):
        facts.append(spec.package.digest)
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:40]


def _is_local(line: str) -> bool:
    local = (".", "/", "-e", "--editable", "-r", "-c", "file:")
    return line.startswith(local) or "@ file:" in line


class EnvironmentBuild:
    """What is needed to build an environment."""

    def __init__(self, base: str, folder: Path, env: Dict[str, str], run: RunProgram) -> None:
        self.base = base
        self.folder = folder
        self.env = env
        self.run = run

    def check(self, line: List[str], failure: str) -> str:
        """Run a program; raise with its last lines if it fails."""
        code, output = self.run(line, self.folder, self.env)
        if code != 0:
            said = " | ".join(part for part in output.strip().splitlines()[-6:] if part.strip())
            raise WorkspaceError(f"{failure} (exit code {code}). It said: {said[-1500:]}")
        return output


def _build(spec: RunnerSpec, place: Path, build: EnvironmentBuild) -> None:
    line = [build.base, "-m", "venv"]
    paths: List[str] = []
    if spec.pip_system_site_packages:
        line.append("--system-site-packages")
        paths = _site_packages(build)
    has_pip = spec.pip_system_site_packages and _has_pip(build)
    if has_pip:
        # ensurepip takes seconds; the base's own pip serves the new environment too.
        line.append("--without-pip")
    build.check([*line, str(place)], "The Python environment could not be made")
    python = str(place / "bin" / "python")
    if paths:
        _see_base_packages(build, python, paths)
    wanted = place / "requirements.txt"
    wanted.write_text("\n".join(spec.pip) + "\n")
    installer = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    build.check(
        [*installer, "-r", str(wanted)],
        "The job's pip requirements could not be installed; check names, versions and the "
        "node's package index",
    )


def _site_packages(build: EnvironmentBuild) -> List[str]:
    # A venv made from a venv sees the system's packages, not those of the venv it came from.
    code = (
        "import site, sys\n"
        "if sys.prefix != sys.base_prefix: print('\\n'.join(site.getsitepackages()))"
    )
    output = build.check([build.base, "-c", code], "The Python interpreter could not be run")
    return [line for line in output.strip().splitlines() if line.startswith("/")]


def _has_pip(build: EnvironmentBuild) -> bool:
    return build.run([build.base, "-m", "pip", "--version"], build.folder, build.env)[0] == 0


def _see_base_packages(build: EnvironmentBuild, python: str, paths: List[str]) -> None:
    code = "import site; print(site.getsitepackages()[0])"
    own = build.check([python, "-c", code], "The new Python environment could not be run")
    # Sorted after the environment's own folder, so that what pip installs there wins.
    Path(own.strip().splitlines()[-1]).joinpath("zz_base.pth").write_text("\n".join(paths) + "\n")


@contextlib.contextmanager
def _locked(path: Path, pause: Pause) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pause(0.1)
        yield
    finally:
        os.close(descriptor)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(lambda: file.read(CHUNK_BYTES), b""):
            digest.update(chunk)
    return digest.hexdigest()


def own_variables(spec: RunnerSpec) -> Dict[str, str]:
    """Return what every command is told of its attempt; makes the folder of checkpoints."""
    values = {
        "YARD_ATTEMPT_ID": spec.attempt_id,
        "YARD_JOB_ID": spec.job_id,
        "YARD_EPOCH": str(spec.epoch),
        "YARD_GRACE_SECONDS": f"{spec.grace_seconds:g}",
        "YARD_NOTICE_FILE": str(spec.state_dir / "notice.json"),
        "YARD_SAVED_EXIT_CODE": str(spec.saved_exit_code),
    }
    if spec.checkpoint_dir is not None:
        spec.checkpoint_dir.mkdir(parents=True, exist_ok=True)
        values["YARD_CHECKPOINT_DIR"] = str(spec.checkpoint_dir)
    return values


def job_environment(
    spec: RunnerSpec,
    *,
    venv: Optional[Path],
    own: Dict[str, str],
    imports: Sequence[Path] = (),
) -> Dict[str, str]:
    """Return the command's variables: base, then the user's, then ours over both."""
    values = dict(spec.base_env)
    for name, text in spec.env.items():
        if not _reserved(name):
            values[name] = _filled(text, spec.base_env) if spec.ray_rules else text
    if imports:
        paths = [str(path) for path in imports]
        values["PYTHONPATH"] = os.pathsep.join([*paths, *_listed(values.get("PYTHONPATH"))])
    values.setdefault("PYTHONUNBUFFERED", "1")
    if spec.cpus:
        values.setdefault("OMP_NUM_THREADS", str(max(1, int(spec.cpus))))
    values.update(_gpu_variables(spec, values))
    if venv is not None:
        values["VIRTUAL_ENV"] = str(venv)
        values["PATH"] = f"{venv / 'bin'}:{values.get('PATH', os.defpath)}"
        values.pop("PYTHONHOME", None)
    values.update(spec.platform_env)
    values.update(own)
    return values


def _filled(text: str, base: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda match: base.get(match[1], ""), text)


def _listed(paths: Optional[str]) -> List[str]:
    return [paths] if paths else []


def _reserved(name: str) -> bool:
    return name.startswith("YARD_")


def _gpu_variables(spec: RunnerSpec, values: Dict[str, str]) -> Dict[str, str]:
    if spec.gpus is None:
        return {}
    listed: Tuple[Any, ...] = spec.gpus
    chosen = ",".join(str(gpu.index) for gpu in listed)
    found = {"YARD_GPUS": chosen}
    if not listed:
        found.update(CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
    elif any(gpu.vendor == "amd" for gpu in listed):
        # ROCm reads both of these; naming the devices in both would filter twice.
        found["HIP_VISIBLE_DEVICES"] = chosen
        values.pop("CUDA_VISIBLE_DEVICES", None)
        values.pop("ROCR_VISIBLE_DEVICES", None)
    else:
        found.update(CUDA_VISIBLE_DEVICES=chosen, CUDA_DEVICE_ORDER="PCI_BUS_ID")
    if listed and listed[0].fraction < 1:
        share = f"{listed[0].fraction:g}"
        found["YARD_GPU_FRACTION"] = share
        # JAX would otherwise take three quarters of the GPU at once.
        values.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{listed[0].fraction * 0.9:.2f}")
    return found
