"""From a launch to the body of `POST /api/jobs/`: pure, so that it can be looked at.

Owns the entrypoint, the runtime environment, the pin to a node and what is written into the
job's metadata, from which any server finds the attempt again. Sends nothing.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from trackyard.core.ports import GpuShare, LaunchRefused, LaunchSpec, NodeGrant, RayOptions
from trackyard.engines import wrapper
from trackyard.engines.ray.api import ClusterInfo
from trackyard.engines.ray.nodes import RayNode
from trackyard.engines.ray.sealing import seal

#: keys of a job's metadata that are ours
ATTEMPT = "trackyard.attempt"
SITE = "trackyard.site"
JOB = "trackyard.job"
LEASE = "trackyard.lease"
NODES = "trackyard.nodes"
#: begin and end of the lease that a job keeps the nodes of, in milliseconds
TIMES = "trackyard.times"
#: GPUs held by a lease's keeper that the attempt has, by member and name
GIVEN = "trackyard.given"
EPOCH = "trackyard.epoch"
PLACEMENT = "trackyard.placement"
REPORTS = "trackyard.reports"
SPEC_VARIABLE = "YARD_SPEC"
STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
#: how long after a stop's grace Ray itself kills what is left
STOP_SLACK_SECONDS = 5
#: the kernel takes no longer variable; a little is left for its name
MOST_SPEC_BYTES = 120 * 1024
#: the folder of the runner inside its package: its modules must not be importable by the job
RUNNER_FOLDER = "yard_runner_files"
_RESERVED = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySite:
    """What submissions of this installation have alike."""

    #: tells our jobs from those of another Trackyard on the same cluster
    name: str
    #: folder on the nodes; empty: one below their temporary folder
    folder: str = ""
    #: an attempt that reaches neither server nor cluster for so long ends itself
    renew_within_seconds: float | None = None
    #: limits of the health checks that runners make, where they are not the built-in ones
    limits: Mapping[str, float] = field(default_factory=dict)
    #: whether jobs past the queue are stopped on the nodes of a lease that has begun
    clears_leases: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenGpu:
    """A GPU that a lease's keeper holds in Ray's books, and an attempt uses."""

    name: str
    vendor: str
    fraction: float


#: what each member was given; None: Ray must find room for it
Given = Sequence[Sequence[GivenGpu] | None]


@cache
def runner_package() -> tuple[str, bytes]:
    """Return name and content of the package that brings the runner to the nodes."""
    with zipfile.ZipFile(io.BytesIO(wrapper.bundle())) as bundle:
        files = {name: bundle.read(name) for name in bundle.namelist()}
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
        for name in sorted(files):
            where = zipfile.ZipInfo(f"{RUNNER_FOLDER}/{name}", (1980, 1, 1, 0, 0, 0))
            where.external_attr = 0o644 << 16
            package.writestr(where, files[name])
    content = target.getvalue()
    return package_name(hashlib.sha256(content).hexdigest()), content


def package_name(digest: str, suffix: str = "zip") -> str:
    """Return what a package of ours is called in the cluster: by its whole content."""
    return f"_ray_pkg_{digest[:32]}.{suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedFiles:
    """What was brought into the cluster for one attempt."""

    #: address in the job's own runtime environment -> address in the cluster; those that are
    #: too large for it are missing, and the runner fetches them from the server
    uris: Mapping[str, str] = field(default_factory=dict)
    #: packages of ours for every process of the job
    modules: tuple[str, ...] = ()
    #: variables of ours for every process of the job
    variables: Mapping[str, str] = field(default_factory=dict)


def submission(
    spec: LaunchSpec,
    nodes: Sequence[RayNode],
    cluster: ClusterInfo,
    site: RaySite,
    carried: CarriedFiles,
    *,
    given: Given | None = None,
) -> dict[str, Any]:
    """Return the body that starts this attempt, pinned to the first of its nodes.

    A member with `given` GPUs, even none, runs on what a lease's keeper holds and asks Ray for
    nothing.
    """
    is_gang = len(spec.placement) > 1
    share = spec.placement[0]
    gpus = gpu_amount(share)
    asks = not is_gang and given is None
    body: dict[str, Any] = {
        "submission_id": spec.attempt_id,
        "entrypoint": entrypoint("--ray-gang" if is_gang else "--ray"),
        "metadata": metadata(spec, site, given),
        "runtime_env": runtime_env(spec, nodes, site, carried, given),
        # A gang's resources are held by its placement group, not by the launcher.
        "entrypoint_num_cpus": share.cpus if asks else 0,
    }
    resources: dict[str, float] = {}
    if asks and gpus:
        body["entrypoint_num_gpus"] = gpus
    if asks and share.memory_bytes:
        body["entrypoint_memory"] = share.memory_bytes
    if not is_gang and spec.ray is not None:
        resources.update(spec.ray.resources)
    if cluster.is_at_least(2, 54):
        body["entrypoint_label_selector"] = {"ray.io/node-id": nodes[0].ray_id}
    else:
        resources[f"node:{nodes[0].address}"] = _RESERVED
    if resources:
        body["entrypoint_resources"] = resources
    return body


def entrypoint(role: str) -> str:
    """Return the shell line that finds the runner among the job's modules and becomes it."""
    # All but the runner itself need the cluster's own packages; the runner wants none of them.
    python = "python3 -I -S" if role == "--ray" else "python3"
    return (
        f'IFS=:; for d in $PYTHONPATH; do if [ -d "$d/{RUNNER_FOLDER}" ]; '
        f'then exec {python} "$d/{RUNNER_FOLDER}" {role}; fi; done; '
        "echo 'the runner did not reach this node' >&2; exit 70"
    )


def metadata(spec: LaunchSpec, site: RaySite, given: Given | None = None) -> dict[str, str]:
    """Return what any server needs to find the attempt again."""
    placement = [
        [
            share.node_id,
            [[gpu.index, gpu.fraction] for gpu in share.gpus],
            share.cpus,
            share.memory_bytes,
        ]
        for share in spec.placement
    ]
    return {
        **(spec.ray.metadata if spec.ray is not None else {}),
        "job_name": spec.name or spec.job_id,
        ATTEMPT: spec.attempt_id,
        SITE: site.name,
        JOB: spec.job_id,
        EPOCH: str(spec.epoch),
        PLACEMENT: json.dumps(placement, separators=(",", ":")),
        REPORTS: "yes" if spec.report is not None else "no",
        **({} if given is None else {GIVEN: json.dumps([_names(one) for one in given])}),
    }


def _names(given: Sequence[GivenGpu] | None) -> list[str] | None:
    return None if given is None else [gpu.name for gpu in given]


def given_of(words: Mapping[str, str]) -> list[tuple[NodeGrant, list[str]]]:
    """Read back which members were given which GPUs."""
    told: list[list[str] | None] = json.loads(words.get(GIVEN, "[]"))
    shares = zip(placement_of(words), told, strict=False)
    return [(share, names) for share, names in shares if names is not None]


def placement_of(words: Mapping[str, str]) -> tuple[NodeGrant, ...]:
    """Read a placement back from a job's metadata."""
    return tuple(
        NodeGrant(
            node_id=node_id,
            gpus=tuple(GpuShare(index=index, fraction=part) for index, part in gpus),
            cpus=cpus,
            memory_bytes=memory,
        )
        for node_id, gpus, cpus, memory in json.loads(words[PLACEMENT])
    )


def runtime_env(
    spec: LaunchSpec,
    nodes: Sequence[RayNode],
    site: RaySite,
    carried: CarriedFiles,
    given: Given | None = None,
) -> dict[str, Any]:
    """Return the environment Ray makes: the user's own if the job came as a Ray job, and ours."""
    values = dict(spec.ray.runtime_env) if spec.ray is not None else {}
    variables = dict(values.pop("env_vars", None) or {})
    variables.update(carried.variables)
    variables[SPEC_VARIABLE] = encode_for(spec, node_spec(spec, nodes, site, carried, given))
    variables[STOP_WAIT] = str(math.ceil(spec.grace_seconds) + STOP_SLACK_SECONDS)
    values["env_vars"] = variables
    folder = values.pop("working_dir", None)
    if folder is not None and (place := _carried(folder, carried)) is not None:
        values["working_dir"] = place
    listed = [_carried(one, carried) for one in values.get("py_modules") or ()]
    name, _ = runner_package()
    values["py_modules"] = [*filter(None, listed), *carried.modules, f"gcs://{name}"]
    return values


def _carried(address: str, carried: CarriedFiles) -> str | None:
    """Return where a package lies for the cluster; None: only the server has it."""
    return carried.uris.get(address) if address.startswith("gcs://") else address


def node_spec(
    spec: LaunchSpec,
    nodes: Sequence[RayNode],
    site: RaySite,
    carried: CarriedFiles,
    given: Given | None = None,
) -> dict[str, Any]:
    """Return SPEC.json as it travels: folders and devices are filled in on the node."""
    if spec.report is not None and site.renew_within_seconds is not None:
        spec = replace(
            spec, report=replace(spec.report, renew_within_seconds=site.renew_within_seconds)
        )
    place = wrapper.MemberPlace(
        member=0,
        state_dir=Path("attempts") / spec.attempt_id / "m0",
        cache_dir=Path("cache"),
        addresses=["127.0.0.1"] * len(spec.placement),
        port=29500,
        gpu_vendor="nvidia",
        checkpoint_dir=Path("checkpoints") / spec.job_id,
        lasting_dir=Path("folders"),
        base_env={},
        python="python3",
        echo=len(spec.placement) == 1,
        health={"limits": dict(site.limits)},
    )
    data = wrapper.runner_spec(spec, place)
    data["ray"] = {
        "folder": site.folder,
        "members": [
            {
                "ray_id": node.ray_id,
                "gpus": gpu_amount(share),
                "cpus": share.cpus,
                "memory_bytes": share.memory_bytes,
                "limits_memory": share.limits_memory,
            }
            for share, node in zip(spec.placement, nodes, strict=True)
        ],
    }
    for member, gpus in zip(data["ray"]["members"], given or (), strict=False):
        if gpus is not None:
            member["given"] = [
                {"index": int(gpu.name), "fraction": gpu.fraction, "vendor": gpu.vendor}
                for gpu in gpus
            ]
    if spec.ray is not None:
        _leave_to_ray(data, spec.ray, carried)
    return data


def _leave_to_ray(data: dict[str, Any], wish: RayOptions, carried: CarriedFiles) -> None:
    """Drop what Ray makes from the job's own runtime environment, for its workers as well."""
    handed = wish.runtime_env
    # Ray has set these already, with `${NAME}` filled in; a team's secrets are ours to set.
    data["env"] = {name: data["env"][name] for name in data["secrets"]}
    if any(handed.get(key) for key in ("pip", "uv", "conda")):
        data["pip"] = []
    folder = handed.get("working_dir")
    if folder is not None and _carried(folder, carried) is not None:
        # Tasks run in Ray's own copy. The driver does not: it can be replaced while it runs.
        data["ray"]["has_folder"] = True
        data["ray"]["copies"] = data["package"] is None
    if all(_carried(one, carried) is not None for one in handed.get("py_modules") or ()):
        data["modules"] = []


def gpu_amount(share: NodeGrant) -> float:
    """Return how many GPUs to ask Ray for; Ray gives parts of one GPU, or whole ones."""
    if not share.gpus:
        return 0.0
    fractions = {gpu.fraction for gpu in share.gpus}
    if len(share.gpus) > 1 and fractions != {1.0}:
        raise LaunchRefused(
            "Ray cannot give parts of several GPUs to one job; ask for a part of one GPU or for "
            "whole GPUs"
        )
    return round(sum(gpu.fraction for gpu in share.gpus), 4)


def encode_for(spec: LaunchSpec, data: Mapping[str, Any]) -> str:
    """Pack what a runner is told: sealed, since whoever reads the list of jobs reads it too."""
    report = spec.report
    if report is None or not report.ticket:
        return encode(data)
    sealed = seal(report.key, zlib.compress(json.dumps(data).encode(), 6))
    return _fitting(
        json.dumps(
            {
                "url": report.url,
                "attempt_id": spec.attempt_id,
                "epoch": spec.epoch,
                "ticket": report.ticket,
                "sealed": base64.b64encode(sealed).decode(),
            }
        )
    )


def encode(data: Mapping[str, Any]) -> str:
    """Pack a spec into one environment variable."""
    return _fitting(base64.b64encode(zlib.compress(json.dumps(data).encode(), 6)).decode())


def _fitting(packed: str) -> str:
    if len(packed) > MOST_SPEC_BYTES:
        raise LaunchRefused(
            "the job's command, variables and requirements are too large to be sent to Ray; "
            "put long values into a file of the job's folder"
        )
    return packed
