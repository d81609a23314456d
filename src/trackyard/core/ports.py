"""The engine port: what the queue asks of whatever runs attempts (this machine, Ray, Slurm).

Owns the Engine protocol, the value objects that cross it and the errors an engine may raise.
Must not know how any engine works, nor the store. Calls may block on I/O: make them from a
worker thread, never inside a transaction.

The attempt id is the engine's own id for the attempt. A launch whose answer was lost is looked
up by that id; launching the same id again adopts what runs and never starts a second process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from trackyard.core.health import CheckReport, read_checks
from trackyard.core.node import NodeState

ATTEMPT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\Z")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
DIGEST = re.compile(r"[0-9a-f]{64}\Z")

#: the exit code by which a job says "my state is saved, put me back in the queue"
SAVED_EXIT_CODE = 85


class EngineError(Exception):
    """The engine could not do what was asked; the message says what to do."""


class EngineUnavailable(EngineError):
    """The engine did not answer: what was asked may or may not have happened. Look it up."""


class LaunchRefused(EngineError):
    """The engine will not start this attempt as asked; nothing was started."""


class Launcher(StrEnum):
    """Who starts the processes of a gang on each node."""

    PLAIN = "plain"
    TORCHRUN = "torchrun"
    ACCELERATE = "accelerate"
    MPIRUN = "mpirun"
    #: the command runs once, on the first node, and starts the rest by itself
    BATCH = "batch"


class ExitCause(StrEnum):
    """Why an attempt ended, as the runner judged it."""

    SUCCEEDED = "succeeded"
    #: the command ended with a code other than 0
    EXIT_CODE = "exit_code"
    #: a signal that nobody here sent ended the command
    SIGNAL = "signal"
    OUT_OF_MEMORY = "out_of_memory"
    TIME_LIMIT = "time_limit"
    PREEMPTED = "preempted"
    STOPPED = "stopped"
    #: the command could not be started: not found, or not a program
    COMMAND = "command"
    #: the package or the pip environment could not be made ready
    SETUP = "setup"
    #: another member of the gang failed
    GANG = "gang"
    #: a newer attempt holds the job; this one was told so and ended its processes
    FENCED = "fenced"
    #: the node or the runner went away without a record
    NODE_LOST = "node_lost"
    #: the engine failed
    ENGINE = "engine"
    #: a check of the node failed before the command was started
    NODE_UNFIT = "node_unfit"


class AttemptPhase(StrEnum):
    """Where an attempt is, as far as the engine can tell."""

    STARTING = "starting"
    RUNNING = "running"
    #: the runner left its exit record
    EXITED = "exited"
    #: it was started and is gone without a record
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReport:
    """One GPU as a node reports it."""

    index: int
    #: `nvidia`, `amd`, or `declared` where the operator said so and there is none
    vendor: str
    model: str
    memory_bytes: int
    uuid: str | None = None
    #: part of this GPU that no attempt of ours holds, 0 to 1
    free: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignUse:
    """What someone past the queue holds on a node, where the engine lets others in as well."""

    #: as its owner would know it
    name: str
    #: the GPUs it holds, each with this share
    gpus: tuple[int, ...] = ()
    fraction: float = 1.0
    cpus: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """One node: what it has and what of it is free."""

    node_id: str
    hostname: str
    address: str
    state: NodeState = NodeState.READY
    cpus: float
    memory_bytes: int
    gpus: tuple[GpuReport, ...] = ()
    free_cpus: float
    free_memory_bytes: int
    #: driver, CUDA or ROCm version, operating system, architecture, operator's labels
    labels: Mapping[str, str] = field(default_factory=dict)
    #: sentences on what does not hold here, such as limits that cannot be enforced
    notes: tuple[str, ...] = ()
    #: what is held here past the queue; it is not free
    foreign: tuple[ForeignUse, ...] = ()
    #: the last look at its health, where the engine looks
    checks: tuple[CheckReport, ...] = ()
    #: GPUs it should have, where the engine knows; None: the most that were ever seen
    expected_gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuShare:
    """A GPU, or a part of one, given to an attempt."""

    index: int
    fraction: float = 1.0

    def __post_init__(self) -> None:
        if self.index < 0 or not 0 < self.fraction <= 1:
            raise ValueError("a GPU share needs an index from 0 and a fraction above 0 up to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGrant:
    """What one member of the gang gets on its node."""

    node_id: str
    gpus: tuple[GpuShare, ...] = ()
    #: 0 sets no limit
    cpus: float = 0.0
    #: 0 sets no limit
    memory_bytes: int = 0
    #: whether going beyond that memory ends the job; False: it is only reserved
    limits_memory: bool = True

    def __post_init__(self) -> None:
        if not NODE_ID.match(self.node_id):
            raise ValueError(f"{self.node_id!r} is no node id")
        if self.cpus < 0 or self.memory_bytes < 0:
            raise ValueError("cpus and memory cannot be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageRef:
    """The job's working folder as an archive, named by its content."""

    #: SHA-256 of the archive, 64 hex digits
    digest: str
    #: where the runner gets it: an http(s) address on the server, or a path on the node
    location: str
    size_bytes: int
    #: `zip`, `tar` or `tar.gz`
    format: str = "zip"

    def __post_init__(self) -> None:
        if not DIGEST.match(self.digest):
            raise ValueError("a package digest is 64 hex digits")
        if self.format not in ("zip", "tar", "tar.gz"):
            raise ValueError(f"a package is a zip, tar or tar.gz, not {self.format!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRef:
    """A version of a data set that the command reads from a folder of its node."""

    name: str
    version: int
    #: SHA-256 of its manifest, 64 hex digits
    digest: str
    #: address of the server's routes for it: `/manifest` below it names its files
    location: str
    size_bytes: int
    #: the environment variable that holds the folder's path
    variable: str

    def __post_init__(self) -> None:
        if not DIGEST.match(self.digest) or not ENV_NAME.match(self.variable):
            raise ValueError("a data set needs a digest of 64 hex digits and a variable's name")


@dataclass(frozen=True, slots=True, kw_only=True)
class RayOptions:
    """What a stock Ray client asked for, in its own words, for engines that speak them."""

    #: what the client calls the job, within its team; the engine's own id is the attempt's
    submission_id: str
    #: the user's shell line
    entrypoint: str
    #: as the client sent it; all that can be said in LaunchSpec's own fields is there as well
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    #: where the bytes of each `gcs://` address in `runtime_env` are
    packages: Mapping[str, PackageRef] = field(default_factory=dict)
    #: custom resources of the entrypoint, each declared by some node
    resources: Mapping[str, float] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTo:
    """Where the runner reports, and with what credential."""

    url: str
    token: str = field(repr=False)
    heartbeat_seconds: float = 3.0
    sample_seconds: float = 5.0
    #: how long a finished runner keeps trying to deliver what the server has not got
    linger_seconds: float = 3600.0
    #: traded at the server for the key, once, by a runner whose spec is sealed with it
    ticket: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    #: stop the job when no heartbeat was accepted for so long; None runs on through an outage
    renew_within_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """What a queue asks of a batch system beneath it, in that system's own words."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    constraint: str = ""
    #: further options, each as `--name=value`
    directives: tuple[str, ...] = ()
    #: longest time limit that the batch system accepts; None: not known
    most_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """Everything an engine needs to start one attempt."""

    attempt_id: str
    #: grows with each claim of the job; the server refuses reports with a lower one
    epoch: int
    job_id: str
    argv: tuple[str, ...]
    #: one share per gang member, member 0 first
    placement: tuple[NodeGrant, ...]
    report: ReportTo | None = None
    #: the user's own variables; they reach the command alone, never the runner
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: names among them whose values are kept out of the log
    secrets: tuple[str, ...] = ()
    #: tracking address, run id, narrow token: set over the user's own
    platform_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    package: PackageRef | None = None
    #: archives whose roots Python imports from
    modules: tuple[PackageRef, ...] = ()
    #: data sets, brought to each node before the command starts
    data: tuple[DataRef, ...] = ()
    #: bytes that data sets may take in a node's cache; 0: as many as the disk holds
    data_cache_bytes: int = 0
    #: set for jobs of Ray's own clients
    ray: RayOptions | None = None
    #: lines of a pip requirements file
    pip: tuple[str, ...] = ()
    pip_system_site_packages: bool = True
    launcher: Launcher = Launcher.PLAIN
    #: look at the nodes and what is between them before the command starts
    preflight: bool = False
    #: processes on each node for torchrun, accelerate and mpirun; None: one per GPU, at least 1
    processes_per_node: int | None = None
    grace_seconds: float = 30.0
    time_limit_seconds: float | None = None
    #: promised interval between signs of progress; None promises nothing
    progress_seconds: float | None = None
    #: folder shared by the job's attempts; None: the engine picks one per job
    checkpoint_dir: str | None = None
    saved_exit_code: int = SAVED_EXIT_CODE
    #: what the attempt is called where the engine shows names
    name: str = ""
    #: whose job it is: engines that keep jobs apart do so by team
    team: str = ""
    #: leases whose nodes it may use: its holder's own, and those that are lent
    leases: tuple[str, ...] = ()
    #: of the job's queue, for engines that hand attempts to a batch system
    batch: BatchOptions = field(default_factory=BatchOptions)
    #: of a job that people reach into: what its runner is told
    interactive: Mapping[str, Any] | None = None
    #: the command's folder, below the engine's own, where it outlives the attempt; empty: not
    lasting_folder: str = ""

    def __post_init__(self) -> None:
        for what, value in (("attempt", self.attempt_id), ("job", self.job_id)):
            if not ATTEMPT_ID.match(value):
                raise ValueError(f"{value!r} is no {what} id: letters, digits, '.', '_', '-'")
        if not self.argv or any("\0" in part for part in self.argv):
            raise ValueError("the command is empty or holds a NUL byte")
        if not self.placement:
            raise ValueError("an attempt needs at least one node to run on")
        for name, value in (*self.env.items(), *self.platform_env.items()):
            if not ENV_NAME.match(name) or "\0" in value:
                raise ValueError(f"{name!r} is no environment variable that can be set")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord:
    """How one member of an attempt ended: the runner's fsynced word, which is the truth."""

    attempt_id: str
    epoch: int
    member: int
    cause: ExitCause
    exit_code: int | None
    signal: int | None
    #: one plain sentence for people
    sentence: str
    started_ms: int
    ended_ms: int
    duration_seconds: float
    #: the job said its state is saved, so it may be queued again at once
    saved: bool = False
    log_bytes: int = 0
    log_lost_bytes: int = 0
    peak_memory_bytes: int = 0
    #: processes that outlived the command and were ended by the runner
    stragglers: int = 0
    #: last line that looks like an error, from the end of the log
    error_line: str | None = None
    notes: tuple[str, ...] = ()
    #: the job's last complete checkpoint, as the runner describes it
    checkpoint: Mapping[str, Any] | None = None
    #: the last step that the command told its runner of
    step: int | None = None
    #: the node's health as the runner found it after a failure
    health: tuple[CheckReport, ...] = ()

    @property
    def succeeded(self) -> bool:
        """Tell whether the member did its work."""
        return self.cause is ExitCause.SUCCEEDED

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ExitRecord:
        """Read a record as the runner wrote it; unknown keys are ignored."""
        try:
            return cls(
                attempt_id=str(data["attempt_id"]),
                epoch=int(data["epoch"]),
                member=int(data.get("member", 0)),
                cause=ExitCause(data["cause"]),
                exit_code=_int_or_none(data.get("exit_code")),
                signal=_int_or_none(data.get("signal")),
                sentence=str(data["sentence"]),
                started_ms=int(data["started_ms"]),
                ended_ms=int(data["ended_ms"]),
                duration_seconds=float(data["duration_seconds"]),
                saved=bool(data.get("saved", False)),
                log_bytes=int(data.get("log_bytes", 0)),
                log_lost_bytes=int(data.get("log_lost_bytes", 0)),
                peak_memory_bytes=int(data.get("peak_memory_bytes", 0)),
                stragglers=int(data.get("stragglers", 0)),
                error_line=None if data.get("error_line") is None else str(data["error_line"]),
                notes=tuple(str(note) for note in data.get("notes", ())),
                checkpoint=saved if isinstance(saved := data.get("checkpoint"), dict) else None,
                step=_int_or_none(data.get("step")),
                health=read_checks(data.get("health")),
            )
        except (KeyError, TypeError, ValueError) as fault:
            raise ValueError(f"not an exit record: {fault!r}") from fault


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport:
    """One attempt as the engine sees it now."""

    attempt_id: str
    epoch: int
    job_id: str
    phase: AttemptPhase
    placement: tuple[NodeGrant, ...]
    #: records of the members that ended, by member
    exits: tuple[ExitRecord, ...] = ()
    #: the engine's own word, a hint where there is no record
    detail: str = ""

    @property
    def exit(self) -> ExitRecord | None:
        """Return the record that decides: the first failure, else the last success."""
        return deciding_exit(self.exits)


class NoticeKind(StrEnum):
    """What an engine noticed by itself."""

    NODE_JOINED = "node_joined"
    NODE_CHANGED = "node_changed"
    NODE_LOST = "node_lost"
    ATTEMPT_STARTED = "attempt_started"
    ATTEMPT_ENDED = "attempt_ended"
    #: someone runs past the queue on the nodes of a lease; the detail says who
    LEASE_CROSSED = "lease_crossed"
    #: what keeps others off the nodes of a lease was lost; the detail says what became of it
    LEASE_SHAKEN = "lease_shaken"
    #: what the engine stands on does not answer; the detail says what that means for jobs
    ENGINE_SILENT = "engine_silent"
    #: it answers again
    ENGINE_ANSWERS = "engine_answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineNotice:
    """A hint that something changed: look again. Never the truth by itself."""

    kind: NoticeKind
    #: node id, attempt id or lease id
    subject: str
    at: datetime
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHold:
    """Nodes promised to someone, for engines that can keep others off them."""

    lease_id: str
    node_ids: tuple[str, ...]
    starts_at: datetime
    ends_at: datetime
    users: tuple[str, ...] = ()


Listener = Callable[[EngineNotice], None]
Unsubscribe = Callable[[], None]


class Engine(Protocol):
    """Runs attempts somewhere. Implementations: local, Ray, Slurm, and the fake for tests."""

    @property
    def name(self) -> str:
        """Return the engine's short name."""
        ...

    @property
    def loses_sight(self) -> bool:
        """Tell whether what it calls lost may still run, out of its sight."""
        ...

    @property
    def shows_specs(self) -> bool:
        """Tell whether others can read what it is given to start an attempt with."""
        ...

    def nodes(self) -> Sequence[NodeReport]:
        """Describe every node with its totals and what is free now."""
        ...

    def launch(self, spec: LaunchSpec) -> AttemptReport:
        """Start an attempt, or adopt it if this id was launched before.

        Raises LaunchRefused (nothing started) or EngineUnavailable (look it up, then decide).
        """
        ...

    def lookup(self, attempt_id: str) -> AttemptReport | None:
        """Return what the engine knows of an attempt, or None if it never started here."""
        ...

    def attempts(self) -> Sequence[AttemptReport]:
        """List every attempt the engine knows, in one call, ended ones until forgotten."""
        ...

    def stop(self, attempt_id: str, *, grace_seconds: float, reason: ExitCause) -> None:
        """Ask for a graceful end: notice, SIGTERM, grace, SIGKILL of the whole tree.

        Returns at once. Stopping an id that has not started keeps it from ever starting.
        Asking again may shorten the grace, never lengthen it.
        """
        ...

    def read_log(self, attempt_id: str, member: int, *, offset: int, limit: int) -> bytes:
        """Return log bytes the engine still holds from `offset`; empty if it holds none."""
        ...

    def forget(self, attempt_id: str) -> None:
        """Drop what the engine keeps of an ended attempt. Refused while it runs."""
        ...

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Call `listener` from any thread when something changes; notices may repeat."""
        ...

    def hold_lease(self, hold: LeaseHold) -> None:
        """Keep others off the nodes of a lease, where the engine can; else do nothing."""
        ...

    def drop_lease(self, lease_id: str) -> None:
        """End such a hold; unknown ids are fine."""
        ...

    def close(self) -> None:
        """Let go of threads and connections; attempts run on."""
        ...


def deciding_exit(exits: Sequence[ExitRecord]) -> ExitRecord | None:
    """Return the record that decides a gang's end: the earliest real failure, else a success."""
    if not exits:
        return None
    failures = [record for record in exits if not record.succeeded]
    own = [record for record in failures if record.cause is not ExitCause.GANG]
    if own or failures:
        return min(own or failures, key=lambda record: (record.ended_ms, record.member))
    return max(exits, key=lambda record: (record.ended_ms, -record.member))


def _int_or_none(value: Any) -> int | None:
    return None if value is None else int(value)
