"""What someone may ask of the queue: the fields of a submission, each checked.

Owns Wish (as it comes over the wire), JobSpec (as it is kept, never changed) and the rules
between them. Knows neither storage nor how a job runs. Every refusal names the field and what to
write instead.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trackyard.core.alerts import MAX_TEXT
from trackyard.core.alerts import parse as parse_alert
from trackyard.core.errors import InvalidInput
from trackyard.core.ids import JOB_NAME, QUEUE_NAME, TEAM_NAME
from trackyard.core.job import DependsOn, PriorityClass
from trackyard.core.ports import DIGEST, ENV_NAME, Launcher
from trackyard.core.resources import (
    MAX_CPUS,
    MAX_GPUS,
    MAX_MEMORY_BYTES,
    MAX_NODES,
    WHOLE,
    ResourceRequest,
    Style,
)
from trackyard.queue.submit.data_inputs import DataInput, read_inputs
from trackyard.queue.submit.gang_shapes import parse_gang
from trackyard.store.bounds import Int64, Labels, Lines, Text, Word, Words

MAX_COMMAND_BYTES = 128 * 1024
MAX_ENV_BYTES = 256 * 1024
MAX_ENV = 1000
MAX_PIP = 500
MAX_TAGS = 100
MAX_AFTER = 1000
MAX_ARRAY = 10_000
MAX_RETRIES = 100
MAX_DIFF = 512 * 1024
MAX_ALERTS = 20
YEAR = 366 * 86_400.0
DAY = 86_400.0

#: set by the platform in every job; a user's own value would send its metrics elsewhere
RESERVED = frozenset(
    "MLFLOW_TRACKING_URI MLFLOW_RUN_ID MLFLOW_EXPERIMENT_ID MLFLOW_EXPERIMENT_NAME"
    " MLFLOW_TRACKING_TOKEN MLFLOW_TRACKING_USERNAME MLFLOW_TRACKING_PASSWORD"
    " MLFLOW_TRACKING_AUTH MLFLOW_TRACKING_SERVER_CERT_PATH".split()
)
RESERVED_PREFIX = "YARD_"
#: hooks by which a value becomes code of another program than the job's own
#: what is shown in place of a value
HIDDEN = "•••"
LOADER_HOOKS = frozenset(
    "LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES BASH_ENV ENV PROMPT_COMMAND PYTHONSTARTUP"
    " PYTHONHOME PERL5OPT RUBYOPT NODE_OPTIONS GIT_SSH_COMMAND".split()
)

_ARRAY = re.compile(r"([0-9]{1,7})-([0-9]{1,7})(?:%([0-9]{1,5}))?\Z")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}\Z")
_GPU_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,63}\Z")
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_EXPERIMENT = re.compile(r"[^\x00-\x1f\x7f]{1,500}\Z")


#: A command line, and the environment it runs in, as they come over the wire.
Command = Annotated[
    list[Annotated[str, Meta(max_length=MAX_COMMAND_BYTES)]], Meta(max_length=MAX_COMMAND_BYTES)
]
Environment = Annotated[
    dict[Word, Annotated[str, Meta(max_length=MAX_ENV_BYTES)]], Meta(max_length=10 * MAX_ENV)
]


#: Alerts of a job, each one line.
Alerts = Annotated[list[Annotated[str, Meta(max_length=MAX_TEXT)]], Meta(max_length=MAX_ALERTS)]


class After(msgspec.Struct, frozen=True):
    """A job to wait for, by id, name or array, and how it must end."""

    job: Word
    when: Word = "success"


class SourceCode(msgspec.Struct, frozen=True):
    """The git state of the working folder."""

    commit: Word = ""
    branch: Word | None = None
    remote: Word | None = None
    dirty: bool = False
    diff: Text = ""


class InteractiveOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How people reach into a job while it runs."""

    #: `terminal`, `app` or `notebook`
    kind: Word
    #: stop it when nobody has used it for so long; null: never
    idle_seconds: float | None = None
    #: name of a folder of its user that lasts, in place of a package
    folder: Word = ""


class JobRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A submission as it comes over the wire; only `command` is needed."""

    command: Command
    name: Word = ""
    team: Word = ""
    queue: Word = "default"
    priority: Word = "normal"
    gpus: float = 0
    gpu_types: Words = []
    #: null leaves CPUs and memory to the queue's defaults; 0 asks for none
    cpus: float | None = None
    memory_bytes: Int64 | None = None
    nodes: Int64 = 1
    labels: Labels = {}
    same: Word = ""
    exclusive: bool = False
    style: Word = ""
    time_limit_seconds: float | None = None
    estimate_seconds: float | None = None
    #: null leaves it to the queue
    preemptible: bool | None = None
    retries: Int64 = 0
    after: Annotated[list[After], Meta(max_length=1000)] = []
    array: Word = ""
    not_before_ms: Int64 = 0
    hold: bool = False
    lease: Word = ""
    #: workers that the command starts by itself elsewhere, as in 2x1gpu,8cpu
    gang: Word = ""
    env: Environment = {}
    #: names of the team's secrets, each handed over in a variable of that name
    secrets: Words = []
    #: data sets it reads, each as [VARIABLE=]NAME[@VERSION]
    data: Words = []
    pip: Lines = []
    pip_system_site_packages: bool = True
    package: Word = ""
    package_format: Word = "zip"
    launcher: Word = "plain"
    #: look at its nodes and what is between them before each start
    preflight: bool = False
    processes_per_node: Int64 | None = None
    grace_seconds: float = 30.0
    progress_seconds: float | None = None
    experiment: Word = ""
    tags: Labels = {}
    source: SourceCode | None = None
    #: null: nobody reaches into it
    interactive: InteractiveOptions | None = None
    #: conditions to be told of, as in `loss > 10 for 5m`
    alerts: Alerts = []
    #: what the client calls this submission; repeating it submits nothing twice
    key: Word = ""
    dry_run: bool = False


class Archive(msgspec.Struct, frozen=True):
    """A package of the job's team."""

    digest: str
    format: str = "zip"


class RaySpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a stock Ray client asked for, in its own words."""

    submission_id: str
    entrypoint: str
    runtime_env: dict[str, Any] = {}
    #: `gcs://` address -> the package it stood for when the job was submitted
    packages: dict[str, Archive] = {}
    resources: dict[str, float] = {}
    metadata: dict[str, str] = {}


class JobSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a wish: all that its attempts need, shared by the members of an array."""

    command: list[str]
    gpus: int = 0
    gpu_milli: int = WHOLE
    gpu_types: list[str] = []
    cpu_milli: int = 0
    memory_bytes: int = 0
    #: it stated no CPUs, or no memory: the queue's defaults hold at the moment it is placed
    default_cpus: bool = False
    default_memory: bool = False
    nodes: int = 1
    labels: dict[str, str] = {}
    same: str = ""
    exclusive: bool = False
    style: str = ""
    time_limit_seconds: float | None = None
    estimate_seconds: float | None = None
    preemptible: bool = False
    retries: int = 0
    #: resolved to job ids
    after: list[After] = []
    lease: str = ""
    #: the declared gang, held for the workers that the command starts elsewhere
    gang: str = ""
    #: what the command itself needs beside its gang
    own_cpu_milli: int = 0
    env: dict[str, str] = {}
    #: the values of `env`, sealed; `env` then holds four digits of a hash of each
    sealed: str = ""
    #: names of the team's secrets, each handed over in a variable of that name
    secrets: list[str] = []
    #: data sets it reads, resolved to versions
    data: list[DataInput] = []
    pip: list[str] = []
    pip_system_site_packages: bool = True
    package: str = ""
    package_format: str = "zip"
    launcher: str = "plain"
    preflight: bool = False
    processes_per_node: int | None = None
    grace_seconds: float = 30.0
    progress_seconds: float | None = None
    source: SourceCode | None = None
    interactive: InteractiveOptions | None = None
    #: conditions to be told of
    alerts: list[str] = []
    #: archives whose roots Python imports from
    modules: list[Archive] = []
    #: set for jobs of Ray's own clients
    ray: RaySpec | None = None

    @property
    def line(self) -> str:
        """The command as people see it."""
        return shlex.join(self.command) if self.ray is None else self.ray.entrypoint

    @property
    def digests(self) -> list[str]:
        """Every package its attempts may fetch."""
        found = [self.package] if self.package else []
        found += [module.digest for module in self.modules]
        if self.ray is not None:
            found += [archive.digest for archive in self.ray.packages.values()]
        return list(dict.fromkeys(found))

    @property
    def request(self) -> ResourceRequest:
        """What it asks of the hardware."""
        return ResourceRequest(
            nodes=self.nodes,
            gpus=self.gpus,
            gpu_milli=self.gpu_milli,
            gpu_types=tuple(self.gpu_types),
            cpu_milli=self.cpu_milli,
            memory_bytes=self.memory_bytes,
            labels=tuple(sorted(self.labels.items())),
            same=self.same,
            exclusive=self.exclusive,
            style=Style(self.style) if self.style else None,
        )


class Array(msgspec.Struct, frozen=True):
    """A-B%C: indices from A to B, at most C at once (0: no cap)."""

    first: int
    last: int
    cap: int = 0

    @property
    def indices(self) -> range:
        """Every index."""
        return range(self.first, self.last + 1)


def parse_array(text: str) -> Array:
    """Read `0-9`, or `0-9%2` for two at once."""
    match = _ARRAY.match(text)
    if match is None:
        raise InvalidInput(f"array {text[:40]!r} is not of the form FIRST-LAST or FIRST-LAST%CAP")
    first, last, cap = int(match[1]), int(match[2]), int(match[3] or 0)
    if last < first:
        raise InvalidInput(f"array {text!r} ends before it begins: write the lower index first")
    if last - first >= MAX_ARRAY:
        raise InvalidInput(f"array {text!r} has over {MAX_ARRAY} jobs: submit it in parts")
    if match[3] is not None and cap < 1:
        raise InvalidInput("an array's cap must be at least 1")
    return Array(first, last, cap)


def parse_priority(text: str) -> PriorityClass:
    """Read a priority class by its name."""
    try:
        return PriorityClass[text.upper()]
    except KeyError:
        names = ", ".join(level.name.lower() for level in PriorityClass)
        raise InvalidInput(f"priority {text[:40]!r} is none of {names}") from None


def check(wish: JobRequest) -> JobSpec:
    """Check every field and return what is kept; dependencies are resolved by the caller."""
    _check_names(wish)
    _check_command(wish.command)
    check_env(wish.env)
    _check_secrets(wish)
    _check_files(wish)
    _check_times(wish)
    parse_priority(wish.priority)
    for one in wish.after:
        _check_after(one)
    _bounded("after", len(wish.after), 0, MAX_AFTER)
    _bounded("retries", wish.retries, 0, MAX_RETRIES)
    if wish.array:
        parse_array(wish.array)
    _check_tags(wish.tags)
    gpus, milli = split_gpus(wish.gpus)
    spec = JobSpec(
        command=wish.command,
        gpus=gpus,
        gpu_milli=milli,
        gpu_types=_gpu_types(wish.gpu_types),
        cpu_milli=_milli("cpus", wish.cpus or 0),
        memory_bytes=_bounded("memory_bytes", wish.memory_bytes or 0, 0, MAX_MEMORY_BYTES),
        default_cpus=wish.cpus is None and not wish.gang,
        default_memory=wish.memory_bytes is None and not wish.gang,
        nodes=_bounded("nodes", wish.nodes, 1, MAX_NODES),
        labels=check_labels(wish.labels),
        same=wish.same,
        exclusive=wish.exclusive,
        style=_one_of("style", wish.style, ["", *Style]),
        time_limit_seconds=wish.time_limit_seconds,
        estimate_seconds=wish.estimate_seconds,
        preemptible=bool(wish.preemptible),
        retries=wish.retries,
        lease=wish.lease,
        gang=_gang(wish),
        env=wish.env,
        secrets=wish.secrets,
        data=_data(wish),
        pip=wish.pip,
        pip_system_site_packages=wish.pip_system_site_packages,
        package=wish.package,
        package_format=wish.package_format,
        launcher=_one_of("launcher", wish.launcher, list(Launcher)),
        preflight=wish.preflight,
        processes_per_node=wish.processes_per_node,
        grace_seconds=wish.grace_seconds,
        progress_seconds=wish.progress_seconds,
        source=_source(wish.source),
        interactive=wish.interactive,
        alerts=_alerts(wish.alerts),
    )
    check_spec(spec)
    return spec


def _alerts(texts: list[str]) -> list[str]:
    for text in texts:
        parse_alert(text)
    return list(dict.fromkeys(texts))


def check_spec(spec: JobSpec) -> None:
    """Refuse what no job may ask for, however it comes: submitted, queued again or declared."""
    for field in ("time_limit_seconds", "estimate_seconds", "progress_seconds"):
        value = getattr(spec, field)
        if value is not None and not 1 <= value <= YEAR:
            raise InvalidInput(f"{field} must lie between one second and a year")
    fault = spec.request.fault()
    if fault:
        raise InvalidInput(f"the request makes no sense: {fault}")


def _gang(wish: JobRequest) -> str:
    if not wish.gang:
        return ""
    parse_gang(wish.gang)
    if wish.gpus or wish.memory_bytes or wish.nodes != 1:
        raise InvalidInput(
            "gang says what the job's workers need: leave gpus, memory and nodes out; cpus are"
            " for the command itself"
        )
    return wish.gang


def _data(wish: JobRequest) -> list[DataInput]:
    found = read_inputs(wish.data)
    chosen = [one.variable for one in found if not one.variable.startswith(RESERVED_PREFIX)]
    check_env(dict.fromkeys(chosen, ""))
    both = sorted(set(chosen) & {*wish.env, *wish.secrets})
    if both:
        raise InvalidInput(f"{both[0]} is to hold both a data set's path and a value of your own")
    return found


def _check_secrets(wish: JobRequest) -> None:
    check_env(dict.fromkeys(wish.secrets, ""))
    both = sorted(set(wish.env) & set(wish.secrets))
    if both:
        raise InvalidInput(f"{both[0]} is both a variable and a secret: leave one of them out")


def check_env(env: Mapping[str, str]) -> None:
    """Refuse variables that cannot be set, that are ours, or that hook into other programs."""
    if len(env) > MAX_ENV or sum(len(k) + len(v) for k, v in env.items()) > MAX_ENV_BYTES:
        raise InvalidInput(
            f"env is too large: at most {MAX_ENV} variables and {MAX_ENV_BYTES // 1024} KiB;"
            " put data into files of the working folder"
        )
    for name, value in env.items():
        if not ENV_NAME.match(name):
            raise InvalidInput(
                f"env name {name[:80]!r} is not allowed: letters, digits and _, not first a digit"
            )
        if name in RESERVED or name.startswith(RESERVED_PREFIX):
            raise InvalidInput(f"env {name} is set by the platform: choose another name")
        if name in LOADER_HOOKS:
            raise InvalidInput(
                f"env {name} hooks into every program that starts: set it inside your command"
                f" instead, as in `env {name}=… python train.py`"
            )
        if "\0" in value:
            raise InvalidInput(f"env {name} holds a NUL byte")
        if value == HIDDEN:
            raise InvalidInput(
                f"env {name} has no value: values are not shown once a job is submitted, so write"
                " it again, or store it with `yard secret set`"
            )


def split_gpus(value: float) -> tuple[int, int]:
    """Return whole GPUs and the share of each in thousandths."""
    milli = round(value * WHOLE) if 0 <= value <= MAX_GPUS else -1
    if milli < 0 or (milli > WHOLE and milli % WHOLE) or (value > 0 and milli == 0):
        raise InvalidInput(
            f"gpus {value:g} is not possible: write a whole number up to {MAX_GPUS}, or a"
            " fraction below 1"
        )
    return (1, milli) if milli % WHOLE else (milli // WHOLE, WHOLE)


def _check_names(wish: JobRequest) -> None:
    rules = (
        ("name", wish.name, JOB_NAME, "1-128 letters, digits and . _ -, no blanks"),
        ("queue", wish.queue, QUEUE_NAME, "1-63 of a-z, 0-9, _ and -"),
        ("team", wish.team, TEAM_NAME, "1-63 of a-z, 0-9, _ and -"),
        ("lease", wish.lease, _KEY, "a lease as `yard lease ls` shows it"),
        ("same", wish.same, _LABEL, "the name of a node label"),
        ("key", wish.key, _KEY, "1-128 letters, digits and . _ -"),
        ("experiment", wish.experiment, _EXPERIMENT, "a name on one line, at most 500 long"),
    )
    for field, value, rule, hint in rules:
        if value == "" and field != "queue":
            continue
        if not rule.match(value):
            raise InvalidInput(f"{field} {value[:80]!r} is not allowed: {hint}")


def _check_command(command: list[str]) -> None:
    if not command or not command[0].strip():
        raise InvalidInput("command is empty: give the program and its arguments as a list")
    if any("\0" in part for part in command):
        raise InvalidInput("command holds a NUL byte")
    if sum(len(part.encode()) + 1 for part in command) > MAX_COMMAND_BYTES:
        raise InvalidInput(
            f"command is over {MAX_COMMAND_BYTES // 1024} KiB: put it into a script of the"
            " working folder"
        )


def _check_files(wish: JobRequest) -> None:
    if wish.package and not DIGEST.match(wish.package):
        raise InvalidInput("package is not a SHA-256 digest: 64 hex digits, lower case")
    _one_of("package_format", wish.package_format, ["zip", "tar", "tar.gz"])
    _bounded("pip", len(wish.pip), 0, MAX_PIP)
    for line in wish.pip:
        if len(line) > 1000 or not line.isprintable():
            raise InvalidInput(f"pip line {line[:80]!r} is not one line of a requirements file")
    if wish.processes_per_node is not None:
        _bounded("processes_per_node", wish.processes_per_node, 1, MAX_GPUS)


def _check_times(wish: JobRequest) -> None:
    if not 0 <= wish.grace_seconds <= DAY:
        raise InvalidInput("grace_seconds must lie between 0 and a day")
    if not 0 <= wish.not_before_ms <= 2**53:
        raise InvalidInput("not_before_ms is no time in milliseconds since 1970")


def _check_after(after: After) -> None:
    if not JOB_NAME.match(after.job):
        raise InvalidInput(f"after {after.job[:80]!r} is neither a job's id nor its name")
    _one_of("after.when", after.when, list(DependsOn))


def _check_tags(tags: Mapping[str, str]) -> None:
    _bounded("tags", len(tags), 0, MAX_TAGS)
    for key in tags:
        if key.startswith(("mlflow.", "yard.")):
            raise InvalidInput(f"tag {key[:80]!r} is set by the platform: choose another name")


def _gpu_types(types: list[str]) -> list[str]:
    _bounded("gpu_types", len(types), 0, 16)
    for one in types:
        if not _GPU_TYPE.match(one):
            raise InvalidInput(
                f"gpu type {one[:80]!r} is not allowed: name it as `yard nodes` shows it"
            )
    return types


def check_labels(labels: dict[str, str]) -> dict[str, str]:
    """Refuse labels that no node can carry."""
    _bounded("labels", len(labels), 0, 32)
    for name, value in labels.items():
        if not _LABEL.match(name) or not _LABEL.match(value):
            raise InvalidInput(f"label {name[:80]}={value[:80]} is not allowed")
    return labels


def _source(source: SourceCode | None) -> SourceCode | None:
    if source is None:
        return None
    if len(source.diff.encode()) > MAX_DIFF:
        raise InvalidInput(f"source.diff is over {MAX_DIFF // 1024} KiB: cut it")
    for value in (source.commit, source.branch or "", source.remote or ""):
        if len(value) > 1000 or not (value.isprintable() or value == ""):
            raise InvalidInput("source.commit, branch and remote are short single lines")
    return source


def _milli(field: str, value: float) -> int:
    if not 0 <= value <= MAX_CPUS:
        raise InvalidInput(f"{field} must lie between 0 and {MAX_CPUS}")
    return round(value * WHOLE)


def _bounded(field: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise InvalidInput(f"{field} must lie between {low} and {high}, not {value}")
    return value


def _one_of(field: str, value: str, allowed: list[Any]) -> str:
    names = [str(one) for one in allowed]
    if value not in names:
        choices = ", ".join(name for name in names if name)
        raise InvalidInput(f"{field} {value[:40]!r} is none of {choices}")
    return value
