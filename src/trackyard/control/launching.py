"""What an attempt is started with: spec, placement and credentials in the engine's own words.

Owns the environment a job sees. Pure but for the rows it is given; starts nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trackyard.core.ports import (
    BatchOptions,
    DataRef,
    GpuShare,
    Launcher,
    LaunchSpec,
    NodeGrant,
    PackageRef,
    RayOptions,
    ReportTo,
)
from trackyard.core.resources import WHOLE, Placement
from trackyard.queue.specification import Archive, JobSpec
from trackyard.queue.submit.gang_shapes import parse_gang
from trackyard.queue.submit.interactive import facts_for_runner, folder_of
from trackyard.queue.submit.variables import digests
from trackyard.queue.transitions import Admitted

#: Variables of the platform's own that a spec may carry; users cannot name them.
_CARRIED = ("YARD_CHECKPOINT_UPLOAD",)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSite:
    """Where jobs reach the platform, and how often they report."""

    url: str
    #: path under which a proxy mounts the server, for pages of apps
    prefix: str = ""
    heartbeat_seconds: float = 3.0
    sample_seconds: float = 5.0
    #: bytes that data sets may take in a node's cache; 0: as many as the disk holds
    data_cache_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContext:
    """What surrounds one attempt: names that its row does not hold."""

    team: str
    experiment_id: str
    #: bytes of the packages it may fetch, by digest
    package_sizes: Mapping[str, int] = field(default_factory=dict)
    array_size: int = 0
    #: leases whose nodes it may use
    leases: tuple[str, ...] = ()
    #: what its queue asks of a batch system beneath the engine
    batch: BatchOptions = field(default_factory=BatchOptions)
    #: values of the secrets it names
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def launch_spec(
    admitted: Admitted, spec: JobSpec, context: LaunchContext, site: LaunchSite
) -> LaunchSpec:
    """Return everything the engine needs to start the attempt."""
    job, attempt, tokens = admitted.job, admitted.attempt, admitted.tokens
    assert tokens is not None, "nothing is started without tokens"

    def ref(archive: Archive) -> PackageRef:
        return PackageRef(
            digest=archive.digest,
            location=f"{site.url}/api/v1/packages/{archive.digest}",
            size_bytes=context.package_sizes.get(archive.digest, 0),
            format=archive.format,
        )

    package = Archive(spec.package, spec.package_format) if spec.package else None
    return LaunchSpec(
        attempt_id=attempt.attempt_id,
        epoch=attempt.epoch,
        job_id=job.job_id,
        argv=tuple(spec.command),
        placement=_places(attempt.where, spec),
        report=ReportTo(
            url=site.url,
            token=tokens.runner,
            ticket=tokens.ticket,
            key=tokens.key,
            heartbeat_seconds=site.heartbeat_seconds,
            sample_seconds=site.sample_seconds,
        ),
        env={
            **{name: value for name, value in spec.env.items() if name not in _CARRIED},
            **context.secrets,
        },
        secrets=tuple(context.secrets),
        platform_env={
            **platform_env(admitted, context, site, token=tokens.command),
            **_gang_env(spec),
            **{name: spec.env[name] for name in _CARRIED if name in spec.env},
        },
        package=None if package is None else ref(package),
        modules=tuple(ref(module) for module in spec.modules),
        data=_data(spec, site),
        data_cache_bytes=site.data_cache_bytes,
        ray=_ray_wish(spec, ref),
        pip=tuple(spec.pip),
        pip_system_site_packages=spec.pip_system_site_packages,
        launcher=Launcher(spec.launcher),
        preflight=spec.preflight,
        processes_per_node=spec.processes_per_node,
        grace_seconds=spec.grace_seconds,
        time_limit_seconds=spec.time_limit_seconds,
        progress_seconds=spec.progress_seconds,
        name=job.name,
        team=context.team,
        leases=context.leases,
        batch=context.batch,
        interactive=(
            facts_for_runner(spec.interactive, job.job_id, site.prefix)
            if spec.interactive
            else None
        ),
        lasting_folder=(
            folder_of(job, context.team, spec.interactive) if spec.interactive else ""
        ),
    )


def _data(spec: JobSpec, site: LaunchSite) -> tuple[DataRef, ...]:
    return tuple(
        DataRef(
            name=one.name,
            version=one.version,
            digest=one.digest,
            location=f"{site.url}/api/v1/data/{one.name}/versions/v{one.version}",
            size_bytes=one.size_bytes,
            variable=one.variable,
        )
        for one in spec.data
    )


def _ray_wish(spec: JobSpec, ref: Callable[[Archive], PackageRef]) -> RayOptions | None:
    if spec.ray is None:
        return None
    return RayOptions(
        submission_id=spec.ray.submission_id,
        entrypoint=spec.ray.entrypoint,
        runtime_env=spec.ray.runtime_env,
        packages={uri: ref(archive) for uri, archive in spec.ray.packages.items()},
        resources=spec.ray.resources,
        metadata=spec.ray.metadata,
    )


def _places(placement: Placement, spec: JobSpec) -> tuple[NodeGrant, ...]:
    """Return where the engine starts something: of a declared gang, the command alone."""
    if not spec.gang:
        return engine_shares(placement, limits_memory=not spec.default_memory)
    cpus = spec.own_cpu_milli / WHOLE
    return (NodeGrant(node_id=placement.shares[0].node, cpus=cpus),)


def _gang_env(spec: JobSpec) -> dict[str, str]:
    """Tell a job of its declared gang; Ray Tune keeps no more trials in wait than it can run."""
    if not spec.gang:
        return {}
    values = {"YARD_GANG": spec.gang}
    if "TUNE_MAX_PENDING_TRIALS_PG" not in spec.env:
        values["TUNE_MAX_PENDING_TRIALS_PG"] = str(parse_gang(spec.gang).workers)
    return values


def platform_env(
    admitted: Admitted, context: LaunchContext, site: LaunchSite, *, token: str
) -> dict[str, str]:
    """Return the variables by which stock MLflow and our own calls find the job's run."""
    job, attempt = admitted.job, admitted.attempt
    values = {
        "MLFLOW_TRACKING_URI": site.url,
        "MLFLOW_RUN_ID": job.run_uuid,
        "MLFLOW_EXPERIMENT_ID": context.experiment_id,
        "MLFLOW_TRACKING_TOKEN": token,
        # MLflow prefers these two over the token, so a stray pair would win.
        "MLFLOW_TRACKING_USERNAME": "attempt",
        "MLFLOW_TRACKING_PASSWORD": token,
        "YARD_URL": site.url,
        "YARD_TOKEN": token,
        "YARD_RUN_ID": job.run_uuid,
        "YARD_JOB_NAME": job.name,
        "YARD_TEAM": context.team,
        "YARD_ATTEMPT": str(attempt.number),
    }
    if attempt.resume_step is not None:
        values["YARD_RESUME_STEP"] = str(attempt.resume_step)
    if job.array_index is not None:
        values["YARD_ARRAY_ID"] = job.array_id
        values["YARD_ARRAY_INDEX"] = str(job.array_index)
        values["YARD_ARRAY_SIZE"] = str(context.array_size)
    return values


def engine_shares(placement: Placement, *, limits_memory: bool = True) -> tuple[NodeGrant, ...]:
    """Say a placement in the engine port's words."""
    return tuple(
        NodeGrant(
            node_id=share.node,
            gpus=tuple(
                GpuShare(index=index, fraction=share.gpu_milli / WHOLE) for index in share.gpus
            ),
            cpus=share.cpu_milli / WHOLE,
            memory_bytes=share.memory_bytes,
            limits_memory=limits_memory,
        )
        for share in placement.shares
    )


def environment_of(spec: JobSpec, labels: dict[str, dict[str, str]]) -> str:
    """Return what an attempt's environment is made of, as JSON with one digest over all of it.

    Of the values of variables appears enough to see most changes and too little to guess them
    by: they may be secrets.
    """
    parts: dict[str, Any] = {
        "command": spec.command,
        "package": spec.package,
        "pip": sorted(line.strip() for line in spec.pip if line.strip()),
        "env": spec.env if spec.sealed else digests(spec.env),
        "launcher": spec.launcher,
        "commit": spec.source.commit if spec.source else "",
        "nodes": labels,
    }
    if spec.secrets:
        parts["secrets"] = sorted(spec.secrets)
    if spec.data:
        parts["data"] = [f"{one.name}@v{one.version} {one.digest}" for one in spec.data]
    if spec.modules:
        parts["modules"] = [module.digest for module in spec.modules]
    digest = hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()
    return msgspec.json.encode({"digest": digest, **parts}, order="sorted").decode()
