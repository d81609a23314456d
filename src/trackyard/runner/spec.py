"""SPEC.json: what one runner is told, checked before anything is done with it.

Owns the shape and the defaults; README.md beside this file documents every key. Must not act.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

SPEC_VERSION = 1
LAUNCHERS = ("plain", "torchrun", "accelerate", "mpirun", "batch")
ATTEMPT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")


class BadSpecError(Exception):
    """SPEC.json cannot be used; the message names the key."""


@dataclass(frozen=True)
class PackageSpec:
    """The archive of the working folder."""

    digest: str
    location: str
    format: str = "zip"


@dataclass(frozen=True)
class DataSet:
    """A version of a data set that the command reads."""

    name: str
    version: int
    digest: str
    #: address of the server's routes for it
    location: str
    size_bytes: int
    variable: str

    @property
    def label(self) -> str:
        """The version as people write it."""
        return f"{self.name}@v{self.version}"


@dataclass(frozen=True)
class SpecGpu:
    """One GPU given to this member."""

    index: int
    fraction: float = 1.0
    vendor: str = "nvidia"


@dataclass(frozen=True)
class GangMember:
    """This member's place among all members of the attempt."""

    member: int = 0
    members: int = 1
    launcher: str = "plain"
    processes: Optional[int] = None
    addresses: Tuple[str, ...] = ("127.0.0.1",)
    port: int = 29500
    #: folder whose `m<N>` subfolders hold all members' records, where members share a disk
    folder: Optional[Path] = None
    #: names of the members' nodes, for people
    nodes: Tuple[str, ...] = ()
    #: by which members know each other; without it they do not meet before they start
    secret: str = field(repr=False, default="")
    #: how long members wait for each other
    meet_seconds: float = 300.0
    #: look at nodes and network between the meeting and the command
    preflight: bool = False


@dataclass(frozen=True)
class ReportSpec:
    """Where to report and how often."""

    url: str
    #: the runner's own credential, which the command never gets
    token: str = field(repr=False, default="")
    #: a file that holds it in place of the spec, read once and removed
    token_file: Optional[Path] = None
    #: leave reports in the state folder: this node cannot reach the server
    by_folder: bool = False
    heartbeat_seconds: float = 3.0
    sample_seconds: float = 5.0
    #: how long after its command's end a runner tries to deliver what the server has not got
    linger_seconds: float = 3600.0
    #: the same, where there is a witness and it does not answer: the cluster is gone
    alone_seconds: float = 300.0
    renew_within_seconds: Optional[float] = None


@dataclass(frozen=True)
class HealthChecks:
    """How the node is looked at around the command."""

    #: what checks are judged by, over the defaults
    limits: Mapping[str, float] = field(default_factory=dict)
    #: a file that tells of GPUs whose driver is not known here
    gpu_file: Optional[Path] = None


@dataclass(frozen=True)
class RunAsUser:
    """The user that the runner becomes."""

    uid: int
    gid: int
    groups: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Sandbox:
    """What a command is not shown, and what of that it is shown all the same."""

    hide: Tuple[Path, ...] = ()
    show: Tuple[Path, ...] = ()


@dataclass(frozen=True)
class InteractiveSpec:
    """What people reach while the command runs: its terminal, or an app it serves."""

    #: `terminal` or `app`
    kind: str
    #: of an app: where its pages lie on the server, with a slash at both ends
    path: str = "/"
    #: the app is JupyterLab, whose flags and secret are the runner's to set
    is_notebook: bool = False
    #: stop it when nobody has used it for so long
    idle_seconds: Optional[float] = None


@dataclass(frozen=True)
class RunnerSpec:
    """Everything one runner needs to know."""

    attempt_id: str
    epoch: int
    job_id: str
    argv: Tuple[str, ...]
    state_dir: Path
    cache_dir: Path
    #: the variables the command starts from, before the user's and the platform's
    base_env: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: names in `env` whose values are kept out of the log
    secrets: Tuple[str, ...] = ()
    platform_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    package: Optional[PackageSpec] = None
    #: archives whose roots Python imports from
    modules: Tuple[PackageSpec, ...] = ()
    #: data sets to bring here before the command starts, and how much of them may lie here
    data: Tuple[DataSet, ...] = ()
    data_cache_bytes: int = 0
    #: as Ray does: import from the working folder too, and fill in ${NAME} in variables
    ray_rules: bool = False
    #: what to copy into the command's folder if there is no package; None: nothing
    source_dir: Optional[Path] = None
    pip: Tuple[str, ...] = ()
    pip_system_site_packages: bool = True
    python: str = "python3"
    #: None leaves the choice of GPUs to the engine that started the runner
    gpus: Optional[Tuple[SpecGpu, ...]] = None
    cpus: float = 0.0
    memory_bytes: int = 0
    gang: GangMember = GangMember()
    grace_seconds: float = 30.0
    time_limit_seconds: Optional[float] = None
    progress_seconds: Optional[float] = None
    checkpoint_dir: Optional[Path] = None
    saved_exit_code: int = 85
    report: Optional[ReportSpec] = None
    stop_scope: str = "main"
    #: also write the command's output to the runner's own, for engines that keep it
    echo: bool = False
    #: `host:port` that, while it answers, shows that this node is not cut off
    witness: str = ""
    #: signals to the runner mean nothing by themselves: a stop file brings their reason
    signals_explained: bool = False
    #: how long word of a lost node may come after the death of the command
    loss_news_seconds: float = 2.0
    #: False keeps off cgroups and systemd, as where neither is allowed
    kernel_limits: bool = True
    #: None does not look at the node
    health: Optional[HealthChecks] = None
    #: None stays who started the runner
    account: Optional[RunAsUser] = None
    #: None shows the command all that its user may see
    sandbox: Optional[Sandbox] = None
    #: None: nobody reaches into the job
    interactive: Optional[InteractiveSpec] = None
    #: the command's folder where that outlives the attempt
    work_dir: Optional[Path] = None


def mark(spec: RunnerSpec) -> str:
    """Return what marks this member's processes, unlike any other's on the machine.

    Ids alone would not do: two servers on one machine may give the same.
    """
    facts = f"{spec.state_dir.absolute()}\n{spec.attempt_id}\n{spec.gang.member}"
    return hashlib.sha256(facts.encode()).hexdigest()[:24]


def with_credential(spec: RunnerSpec) -> RunnerSpec:
    """Return the spec with the runner's credential, and remove the file that held it."""
    report = spec.report
    if report is None or report.token_file is None:
        return spec
    try:
        token = report.token_file.read_text().strip()
        report.token_file.unlink()
    except OSError as fault:
        raise BadSpecError(f"the runner's credential cannot be read: {fault}") from fault
    return replace(spec, report=replace(report, token=token))


def load(path: Path) -> RunnerSpec:
    """Read and check SPEC.json."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as fault:
        raise BadSpecError(f"{path} cannot be read as JSON: {fault}") from fault
    return parse(data)


def parse(data: Any) -> RunnerSpec:
    """Turn the JSON object into a Spec."""
    if not isinstance(data, dict):
        raise BadSpecError("the spec is not a JSON object")
    if data.get("version") != SPEC_VERSION:
        raise BadSpecError(
            f"spec version {data.get('version')!r} is not {SPEC_VERSION}: "
            "server and runner come from different releases"
        )
    try:
        return _parse(data)
    except (KeyError, TypeError, ValueError) as fault:
        raise BadSpecError(f"the spec has a missing or wrong value: {fault!r}") from fault


def _parse(data: Dict[str, Any]) -> RunnerSpec:
    for key in ("attempt_id", "job_id"):
        if not ATTEMPT_ID.match(str(data[key])):
            raise BadSpecError(f"{key} {data[key]!r} is no id")
    gpus = data.get("gpus")
    return RunnerSpec(
        attempt_id=data["attempt_id"],
        epoch=int(data["epoch"]),
        job_id=data["job_id"],
        argv=_argv(data["argv"]),
        state_dir=Path(data["state_dir"]),
        cache_dir=Path(data["cache_dir"]),
        base_env=_environment(data, "base_env"),
        env=_environment(data, "env"),
        secrets=tuple(str(name) for name in data.get("secrets") or ()),
        platform_env=_environment(data, "platform_env"),
        package=_package(data.get("package")),
        modules=tuple(_required(module) for module in data.get("modules") or ()),
        data=tuple(_data_set(one) for one in data.get("data") or ()),
        data_cache_bytes=int(data.get("data_cache_bytes") or 0),
        ray_rules=bool(data.get("ray_rules", False)),
        source_dir=_path(data.get("source_dir")),
        pip=tuple(str(line) for line in data.get("pip") or ()),
        pip_system_site_packages=bool(data.get("pip_system_site_packages", True)),
        python=str(data.get("python") or "python3"),
        gpus=None if gpus is None else tuple(_gpu(gpu) for gpu in gpus),
        cpus=float(data.get("cpus") or 0),
        memory_bytes=int(data.get("memory_bytes") or 0),
        gang=_gang(data.get("gang") or {}),
        grace_seconds=float(data.get("grace_seconds", 30.0)),
        time_limit_seconds=_number(data.get("time_limit_seconds")),
        progress_seconds=_number(data.get("progress_seconds")),
        checkpoint_dir=_path(data.get("checkpoint_dir")),
        saved_exit_code=int(data.get("saved_exit_code", 85)),
        report=_report(data.get("report")),
        stop_scope=_one_of(data.get("stop_scope", "main"), "stop_scope", ("main", "group")),
        echo=bool(data.get("echo", False)),
        witness=str(data.get("witness") or ""),
        signals_explained=bool(data.get("signals_explained", False)),
        loss_news_seconds=float(data.get("loss_news_seconds", 2.0)),
        kernel_limits=bool(data.get("kernel_limits", True)),
        health=_health(data.get("health")),
        account=_account(data.get("account")),
        sandbox=_sandbox(data.get("sandbox")),
        interactive=_interactive(data.get("interactive")),
        work_dir=_path(data.get("work_dir")),
    )


def _argv(value: Any) -> Tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(a, str) for a in value):
        raise BadSpecError("argv is not a list of at least one string")
    if any("\0" in part for part in value):
        raise BadSpecError("argv holds a NUL byte")
    return tuple(value)


def _environment(data: Dict[str, Any], key: str) -> Dict[str, str]:
    values: Dict[str, str] = {}
    for name, value in (data.get(key) or {}).items():
        if key != "base_env" and not ENV_NAME.match(name):
            raise BadSpecError(f"{key} has {name!r}, which is no variable name")
        if "\0" in str(value):
            raise BadSpecError(f"{key} {name} holds a NUL byte")
        values[name] = str(value)
    return values


def _package(data: Optional[Dict[str, Any]]) -> Optional[PackageSpec]:
    return None if data is None else _required(data)


def _required(data: Dict[str, Any]) -> PackageSpec:
    digest = str(data["digest"])
    if not re.match(r"[0-9a-f]{64}\Z", digest):
        raise BadSpecError("the package digest is not 64 hex digits")
    return PackageSpec(digest, str(data["location"]), str(data.get("format", "zip")))


def _data_set(data: Dict[str, Any]) -> DataSet:
    digest, variable = str(data["digest"]), str(data["variable"])
    if not re.match(r"[0-9a-f]{64}\Z", digest):
        raise BadSpecError("the digest of a data set is not 64 hex digits")
    if not ENV_NAME.match(variable):
        raise BadSpecError(f"data has {variable!r}, which is no variable name")
    return DataSet(
        name=str(data["name"]),
        version=int(data["version"]),
        digest=digest,
        location=str(data["location"]).rstrip("/"),
        size_bytes=int(data["size_bytes"]),
        variable=variable,
    )


def _gpu(data: Dict[str, Any]) -> SpecGpu:
    return SpecGpu(
        int(data["index"]), float(data.get("fraction", 1.0)), str(data.get("vendor", "nvidia"))
    )


def _gang(data: Dict[str, Any]) -> GangMember:
    addresses: List[str] = [str(address) for address in data.get("addresses") or ["127.0.0.1"]]
    gang = GangMember(
        member=int(data.get("member", 0)),
        members=int(data.get("members", 1)),
        launcher=_one_of(data.get("launcher", "plain"), "launcher", LAUNCHERS),
        processes=None if data.get("processes") is None else int(data["processes"]),
        addresses=tuple(addresses),
        port=int(data.get("port", 29500)),
        folder=_path(data.get("folder")),
        nodes=tuple(str(name) for name in data.get("nodes") or ()),
        secret=str(data.get("secret") or ""),
        meet_seconds=float(data.get("meet_seconds") or 300.0),
        preflight=bool(data.get("preflight", False)),
    )
    if not 0 <= gang.member < gang.members or len(addresses) != gang.members:
        raise BadSpecError("gang member, members and addresses do not fit together")
    return gang


def _report(data: Optional[Dict[str, Any]]) -> Optional[ReportSpec]:
    if data is None:
        return None
    url = str(data["url"]).rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise BadSpecError(f"report url {url!r} is not http or https")
    return ReportSpec(
        url=url,
        token=str(data.get("token", "")),
        token_file=_path(data.get("token_file")),
        by_folder=bool(data.get("by_folder", False)),
        heartbeat_seconds=float(data.get("heartbeat_seconds", 3.0)),
        sample_seconds=float(data.get("sample_seconds", 5.0)),
        linger_seconds=float(data.get("linger_seconds", 3600.0)),
        alone_seconds=float(data.get("alone_seconds", 300.0)),
        renew_within_seconds=_number(data.get("renew_within_seconds")),
    )


def _health(data: Optional[Dict[str, Any]]) -> Optional[HealthChecks]:
    if data is None:
        return None
    limits = {str(name): float(value) for name, value in (data.get("limits") or {}).items()}
    return HealthChecks(limits=limits, gpu_file=_path(data.get("gpu_file")))


def _account(data: Optional[Dict[str, Any]]) -> Optional[RunAsUser]:
    if data is None:
        return None
    found = RunAsUser(
        int(data["uid"]), int(data["gid"]), tuple(int(one) for one in data["groups"])
    )
    if found.uid <= 0 or found.gid <= 0:
        raise BadSpecError("account is root, whom no job runs as")
    return found


def _sandbox(data: Optional[Dict[str, Any]]) -> Optional[Sandbox]:
    if data is None:
        return None
    return Sandbox(
        hide=tuple(Path(path) for path in data.get("hide") or ()),
        show=tuple(Path(path) for path in data.get("show") or ()),
    )


def _interactive(data: Optional[Dict[str, Any]]) -> Optional[InteractiveSpec]:
    if data is None:
        return None
    return InteractiveSpec(
        kind=_one_of(data.get("kind"), "interactive kind", ("terminal", "app")),
        path=str(data.get("path") or "/"),
        is_notebook=bool(data.get("is_notebook", False)),
        idle_seconds=_number(data.get("idle_seconds")),
    )


def _one_of(value: Any, key: str, allowed: Tuple[str, ...]) -> str:
    if value not in allowed:
        raise BadSpecError(f"{key} {value!r} is not one of {', '.join(allowed)}")
    return str(value)


def _number(value: Any) -> Optional[float]:
    return None if value is None else float(value)


def _path(value: Any) -> Optional[Path]:
    return None if value is None else Path(str(value))
