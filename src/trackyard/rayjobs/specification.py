"""What a stock Ray client asks for, said in the words of our own queue. Pure.

Owns the shape of Ray's submit body, the meaning of its metadata and of its runtime environment,
and every refusal of them. Knows neither storage nor HTTP. Each refusal is one sentence without a
full stop, because Ray's client prints one after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.core.ids import JOB_NAME
from trackyard.queue.specification import RESERVED, Archive, JobRequest, RaySpec, parse_priority
from trackyard.queue.submit.gang_shapes import parse_gang
from trackyard.store.bounds import Figures, Free, Labels, Text, Word

PREFIX = "trackyard."
#: metadata keys that speak to the queue, each with what it sets
KEYS = {
    "team": "the team that the job is charged to",
    "queue": "the queue it waits in",
    "priority": "scavenge, low, normal, high or urgent",
    "time": "its time limit, as in 45m or 2h30m",
    "gang": "workers that the script starts by itself, as in 2x1gpu,8cpu",
    "name": "its name",
    "experiment": "the experiment of its run",
    "preemptible": "true if it may be stopped for others and go on later",
    "retries": "how often it is tried again after a failure",
    "lease": "the lease it runs on",
}
#: keys that mean something without the prefix as well, if their value makes sense
SHORT = ("queue", "priority", "time", "gang", "experiment", "preemptible", "retries")
SUBMISSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@=+-]{0,199}\Z")
_PACKAGE = re.compile(r"gcs://([A-Za-z0-9_][A-Za-z0-9._+-]{0,254})\Z")
_RESOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_ACCELERATOR, _ACCELERATOR_LABEL = "accelerator_type:", "ray.io/accelerator-type"
_TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_TIME = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+\Z")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)\Z")
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")
#: of a runtime environment: read by Ray's client alone, or of no weight here
_IDLE = frozenset(("excludes", "config"))


class RayBody(msgspec.Struct, forbid_unknown_fields=True):
    """POST /api/jobs/ as Ray's clients send it, 2.42 to 2.60."""

    entrypoint: Text
    submission_id: Word | None = None
    #: an old name of the same
    job_id: Word | None = None
    runtime_env: Free | None = None
    metadata: Labels | None = None
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: float | None = None
    entrypoint_resources: Figures | None = None
    entrypoint_label_selector: Labels | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformState:
    """What a body is held against: what there is, at this moment."""

    #: whether the work runs on Ray, which can do more with a runtime environment than we
    on_ray: bool
    queues: Sequence[str]
    #: labels of each node
    nodes: Sequence[Mapping[str, str]]
    #: the team's package of a `gcs://` address; raises if there is none
    package: Callable[[str], Archive]


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedBody:
    """A body in our own words."""

    wish: JobRequest
    ray: RaySpec
    modules: list[Archive] = field(default_factory=list)


def submission_id_of(body: RayBody) -> str:
    """Return what the client calls the job; empty if it leaves that to us."""
    wanted = body.submission_id or body.job_id or ""
    if wanted and not SUBMISSION_ID.match(wanted):
        raise InvalidInput(
            f"submission_id {wanted[:80]!r} is not allowed: 1-200 letters, digits and . _ - : @ ="
        )
    return wanted


def translate(body: RayBody, yard: PlatformState) -> TranslatedBody:
    """Turn a body into a wish, or say what about it cannot be done."""
    if not body.entrypoint.strip():
        raise InvalidInput("entrypoint is empty: give the command after `--`")
    wish = JobRequest(command=["/bin/sh", "-c", body.entrypoint])
    _take_resources(wish, body, yard)
    metadata = body.metadata or {}
    _take_metadata(wish, metadata, yard.queues)
    ray = RaySpec(
        submission_id=submission_id_of(body),
        entrypoint=body.entrypoint,
        runtime_env=body.runtime_env or {},
        resources=_custom(body.entrypoint_resources or {}),
        metadata=metadata,
    )
    environment = _Environment(yard)
    environment.read(wish, ray.runtime_env)
    ray = msgspec.structs.replace(ray, packages=environment.packages)
    return TranslatedBody(wish=wish, ray=ray, modules=environment.modules)


# -- resources --------------------------------------------------------------------------------


def _take_resources(wish: JobRequest, body: RayBody, yard: PlatformState) -> None:
    for name in ("entrypoint_num_cpus", "entrypoint_num_gpus", "entrypoint_memory"):
        amount = getattr(body, name)
        if amount is not None and not 0 <= amount < 2**50:
            raise InvalidInput(f"{name} {amount:g} is not an amount: write 0 or more")
    wish.cpus = body.entrypoint_num_cpus or 0
    wish.gpus = body.entrypoint_num_gpus or 0
    wish.memory_bytes = int(body.entrypoint_memory or 0)
    for name, amount in (body.entrypoint_resources or {}).items():
        if name.startswith(_ACCELERATOR):
            wish.gpu_types.append(name.removeprefix(_ACCELERATOR))
        else:
            _take_resource(wish, name, amount, yard.nodes)
    for key, selector in (body.entrypoint_label_selector or {}).items():
        _take_selector(wish, key, selector)


def _take_resource(
    wish: JobRequest, name: str, amount: float, nodes: Sequence[Mapping[str, str]]
) -> None:
    """Ask for a node that declares a custom resource; odd names can end a whole Ray node."""
    if "_group_" in name or name.startswith("node:"):
        raise InvalidInput(
            f"resource {name[:80]!r} is Ray's own and cannot be asked for:"
            " name a node by a label or a resource that it declares"
        )
    if name in ("CPU", "GPU", "memory", "object_store_memory"):
        flag = {"CPU": "--entrypoint-num-cpus", "GPU": "--entrypoint-num-gpus"}.get(name)
        raise InvalidInput(
            f"resource {name!r} has a field of its own: use {flag or '--entrypoint-memory'}"
        )
    totals = [float(node.get(f"resource-total/{name}", "inf")) for node in _declaring(name, nodes)]
    if not _RESOURCE.match(name) or not totals:
        known = sorted({name for node in nodes for name in _declared(node)})
        raise InvalidInput(
            f"no node declares the resource {name[:80]!r};"
            f" {'they declare ' + ', '.join(known[:20]) if known else 'they declare none'}"
        )
    if not 0 < amount <= max(totals):
        raise InvalidInput(
            f"{amount:g} of resource {name!r} is not possible: a node has at most {max(totals):g}"
        )
    wish.labels[f"resource/{name}"] = "yes"


def _declaring(name: str, nodes: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    return [node for node in nodes if node.get(f"resource/{name}") == "yes"]


def _declared(node: Mapping[str, str]) -> list[str]:
    return [key.removeprefix("resource/") for key in node if key.startswith("resource/")]


def _custom(resources: Mapping[str, float]) -> dict[str, float]:
    return {
        name: amount for name, amount in resources.items() if not name.startswith(_ACCELERATOR)
    }


def _take_selector(wish: JobRequest, key: str, selector: str) -> None:
    choices = [selector]
    if selector.startswith("in(") and selector.endswith(")"):
        choices = [part.strip() for part in selector[3:-1].split(",") if part.strip()]
    if selector.startswith("!") or not choices or (len(choices) > 1 and key != _ACCELERATOR_LABEL):
        raise InvalidInput(
            f"label selector {key[:80]}={selector[:80]} is not possible here: give one value,"
            f" or in(a,b) for {_ACCELERATOR_LABEL}"
        )
    if key == _ACCELERATOR_LABEL:
        wish.gpu_types += choices
    else:
        wish.labels[key] = choices[0]


# -- metadata ---------------------------------------------------------------------------------


def _take_metadata(wish: JobRequest, metadata: Mapping[str, str], queues: Sequence[str]) -> None:
    """Obey what speaks to the queue; everything else is the user's own."""
    if metadata.get("job_name"):
        wish.name = re.sub(r"[^A-Za-z0-9._-]+", "-", metadata["job_name"]).strip("-._")[:128]
    for key in SHORT:
        if key in metadata and f"{PREFIX}{key}" not in metadata:
            _take_short(wish, key, metadata[key], queues)
    for key, value in metadata.items():
        if not key.startswith(PREFIX):
            continue
        word = key.removeprefix(PREFIX)
        if word not in KEYS:
            known = ", ".join(PREFIX + name for name in KEYS)
            raise InvalidInput(f"metadata key {key[:80]!r} is not known; there are {known}")
        _take_key(wish, word, value.strip())


def _take_short(wish: JobRequest, key: str, value: str, queues: Sequence[str]) -> None:
    """Obey a key without the prefix where its value can only be meant for the queue."""
    if key == "queue" and value not in queues:
        return
    probe = JobRequest(command=wish.command)
    try:
        _take_key(probe, key, value.strip())
        if key == "gang":
            parse_gang(value)
    except InvalidInput:
        return
    _take_key(wish, key, value.strip())


def _take_key(wish: JobRequest, key: str, value: str) -> None:
    shown = f"metadata {PREFIX}{key} {value[:80]!r}"
    match key:
        case "team" | "queue" | "lease" | "experiment" | "gang":
            if not value:
                raise InvalidInput(f"{shown} is empty: leave it out, or give {KEYS[key]}")
            setattr(wish, key, value)
        case "priority":
            parse_priority(value)
            wish.priority = value.lower()
        case "name":
            if not JOB_NAME.match(value):
                raise InvalidInput(f"{shown} is not allowed: letters, digits and . _ -")
            wish.name = value
        case "time":
            wish.time_limit_seconds = _seconds(value, shown)
        case "preemptible":
            if value.lower() not in _TRUE + _FALSE:
                raise InvalidInput(f"{shown} is neither true nor false")
            wish.preemptible = value.lower() in _TRUE
        case _:
            if not (value.isascii() and value.isdigit() and len(value) < 4):
                raise InvalidInput(f"{shown} is not a small whole number")
            wish.retries = int(value)


def _seconds(value: str, shown: str) -> float:
    clock = _CLOCK.match(value)
    if clock:
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        return float(days * 86_400 + hours * 3600 + minutes * 60 + rest)
    if not _TIME.match(value.lower()):
        raise InvalidInput(f"{shown} is not a length of time: write it as 90s, 45m, 2h30m or 1d")
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhdw])", value.lower())
    return sum(float(count) * _TIMES[unit] for count, unit in parts)


# -- runtime environment ----------------------------------------------------------------------


class _Environment:
    """Reads a runtime environment into a wish."""

    def __init__(self, yard: PlatformState) -> None:
        self._yard = yard
        #: every package it names, by address
        self.packages: dict[str, Archive] = {}
        self.modules: list[Archive] = []

    def read(self, wish: JobRequest, given: Mapping[str, Any]) -> None:
        """Take every key we can honour; leave the rest to Ray, or refuse it."""
        for key, value in given.items():
            if value in (None, "", [], {}) or key in _IDLE or key.startswith("_"):
                continue
            match key:
                case "working_dir":
                    self._working_dir(wish, value)
                case "py_modules":
                    self._py_modules(value)
                case "env_vars":
                    wish.env = _variables(value)
                case "pip" | "uv":
                    wish.pip += self._requirements(key, value)
                case _:
                    self._leave(f"runtime_env key {key[:40]!r}")

    def _leave(self, what: str) -> None:
        """Leave something to Ray, or refuse it where there is no Ray."""
        if not self._yard.on_ray:
            raise InvalidInput(
                f"{what} needs a Ray cluster, and this server runs jobs by itself: use"
                " working_dir, py_modules, env_vars, pip or uv"
            )

    def _working_dir(self, wish: JobRequest, value: Any) -> None:
        found = self._package("working_dir", value)
        if found is not None:
            wish.package, wish.package_format = found.digest, found.format

    def _py_modules(self, value: Any) -> None:
        if not isinstance(value, list):
            raise InvalidInput("runtime_env py_modules is not a list")
        for one in value:
            found = self._package("py_modules", one)
            if found is not None:
                self.modules.append(found)

    def _package(self, key: str, value: Any) -> Archive | None:
        address = value if isinstance(value, str) else ""
        if not _PACKAGE.match(address):
            if "://" not in address or address.startswith("gcs://"):
                raise InvalidInput(f"runtime_env {key} {str(value)[:80]!r} is no package address")
            self._leave(f"runtime_env {key} at {address.partition('://')[0]}://")
            return None
        found = self.packages[address] = self._yard.package(address)
        return found

    def _requirements(self, key: str, value: Any) -> list[str]:
        options: Mapping[str, Any] = value if isinstance(value, dict) else {"packages": value}
        lines = options.get("packages")
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise InvalidInput(f"runtime_env {key} holds no list of packages")
        for name, option in options.items():
            if option and name not in ("packages", f"{key}_check"):
                self._leave(f"runtime_env {key} option {name[:40]!r}")
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def package_name(address: str) -> str:
    """Return the name in a `gcs://` address, or raise."""
    match = _PACKAGE.match(address)
    if match is None:
        raise InvalidInput(f"{address[:80]!r} is no package address")
    return match[1]


def package_format(name: str) -> str:
    """Tell a package's kind from its name."""
    for ending, kind in ((".zip", "zip"), (".whl", "zip"), (".tar.gz", "tar.gz")):
        if name.endswith(ending):
            return kind
    if name.endswith(".tgz"):
        return "tar.gz"
    if name.endswith(".tar"):
        return "tar"
    raise InvalidInput(f"package {name[-40:]!r} is none of zip, whl, tar, tar.gz and tgz")


def set_aside(given: Mapping[str, Any]) -> list[str]:
    """Return the variables of a runtime environment that the platform sets itself."""
    variables = given.get("env_vars") or {}
    return sorted(name for name in variables if name in RESERVED)


def _variables(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise InvalidInput("runtime_env env_vars is not a mapping of names to text")
    # Scripts that name a tracking server of their own still log to the job's run.
    return {str(name): text for name, text in value.items() if name not in RESERVED}
