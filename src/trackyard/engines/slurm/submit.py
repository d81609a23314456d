"""An attempt as a batch job: sbatch's options, the script, and the files its runners read.

Owns what is written into an attempt's folder before it is handed over, and how our id travels in
the job's name and comment. Runs nothing.
"""

from __future__ import annotations

import math
import secrets
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from trackyard.core.ports import LaunchSpec, NodeGrant
from trackyard.engines import wrapper
from trackyard.engines.slurm.parse import MEGABYTE, SlurmJob
from trackyard.engines.slurm.site import SlurmSite, merge
from trackyard.engines.statefolder import AttemptFolder, write_json, write_private

PREFIX = "yard:"
OUTPUT = "slurm.out"
#: what Slurm's own limit leaves our runner to end a job in, beyond its grace
SLACK_SECONDS = 60.0


def comment(site: SlurmSite, spec: LaunchSpec) -> str:
    """Return what tells our jobs from all others, and each from its like."""
    return f"{PREFIX}{site.name}:{spec.attempt_id}"


def attempt_of(job: SlurmJob, site_name: str) -> str | None:
    """Return the attempt that a job of Slurm's stands for; None: it is not ours."""
    start = f"{PREFIX}{site_name}:"
    return job.comment[len(start) :] if job.comment.startswith(start) else None


def arguments(
    spec: LaunchSpec,
    site: SlurmSite,
    folder: Path,
    *,
    gpu_type: str = "",
    reservation: str = "",
    minutes: int | None = None,
) -> list[str]:
    """Return sbatch's options for an attempt."""
    members = len(spec.placement)
    options = merge(spec.batch, site.defaults)
    found = [
        f"--job-name={spec.attempt_id}",
        f"--comment={comment(site, spec)}",
        f"--output={folder / OUTPUT}",
        f"--chdir={folder}",
        "--open-mode=append",
        "--no-requeue",
        "--export=ALL",
        f"--nodes={members}",
        f"--signal=B:USR2@{notice_seconds(spec)}",
    ]
    if members > 1 or not site.whole_nodes:
        found += [f"--ntasks={members}", "--ntasks-per-node=1"]
    if not site.is_behind:
        names = sorted({share.node_id for share in spec.placement})
        found.append(f"--nodelist={','.join(names)}")
    if minutes is not None:
        found.append(f"--time={minutes}")
    found += _resources(spec.placement[0], site, gpu_type)
    named = {
        "partition": options.partition,
        "account": options.account,
        "qos": options.qos,
        "reservation": reservation or options.reservation,
        "constraint": options.constraint,
    }
    found += [f"--{key}={value}" for key, value in named.items() if value]
    return [*found, *options.directives]


def _resources(share: NodeGrant, site: SlurmSite, gpu_type: str) -> list[str]:
    """Return what each node gives; nothing where the site gives whole nodes alone."""
    if site.whole_nodes:
        return []
    found = [f"--cpus-per-task={max(1, math.ceil(share.cpus))}"]
    if share.memory_bytes:
        found.append(f"--mem={max(1, math.ceil(share.memory_bytes / MEGABYTE))}M")
    if share.gpus:
        kind = f"{gpu_type}:" if gpu_type else ""
        found.append(f"--gres=gpu:{kind}{len(share.gpus)}")
    return found


def notice_seconds(spec: LaunchSpec) -> int:
    """Return how long before its own limit Slurm gives notice: the grace, and a little."""
    return min(65535, math.ceil(spec.grace_seconds) + 15)


def limit_minutes(spec: LaunchSpec, seconds_left: float | None = None) -> int | None:
    """Return Slurm's limit for a job: later than the runner's own, which says so and ends it.

    Where a lease takes the nodes before that, the limit is that moment.
    """
    whole = None
    if spec.time_limit_seconds is not None:
        whole = math.ceil((spec.time_limit_seconds + spec.grace_seconds + SLACK_SECONDS) / 60)
    if seconds_left is not None and (whole is None or whole * 60 > seconds_left):
        whole = math.floor(seconds_left / 60)
    return None if whole is None else max(1, whole)


def script(site: SlurmSite, runner: Path, folder: Path) -> str:
    """Return the batch script."""
    start = f"exec {shlex.quote(site.python)} -I -S {shlex.quote(str(runner))}"
    line = f"{start} --slurm {shlex.quote(str(folder))}"
    if not site.setup:
        return f"#!/bin/sh\n{line}\n"
    # Modules are functions of the login shell.
    return "\n".join(["#!/bin/bash -l", *site.setup, line, ""])


def write_specs(spec: LaunchSpec, site: SlurmSite, folder: AttemptFolder, *, is_cut: bool) -> None:
    """Leave in the shared folder what the runners read.

    A job whose limit was cut for a lease goes back into the queue at Slurm's notice of it.
    """
    secret = secrets.token_hex(16) if len(spec.placement) > 1 else ""
    for number in range(len(spec.placement)):
        member = folder.member(number)
        member.path.mkdir(exist_ok=True, mode=0o700)
        place = wrapper.MemberPlace(
            member=number,
            state_dir=member.path,
            cache_dir=site.folder / "cache",
            addresses=[""] * len(spec.placement),
            port=29500,
            secret=secret,
            gang_dir=folder.path,
            checkpoint_dir=site.folder / "checkpoints" / spec.job_id,
            lasting_dir=site.folder / "folders",
            base_env={},
            python=site.python,
            health={"limits": dict(site.limits)} if site.limits else None,
        )
        data = wrapper.runner_spec(spec, place)
        # Slurm's own cgroups hold the job; leaving them would take it out of Slurm's hands.
        data["kernel_limits"] = False
        _write_spec(data, site, folder, number)
    write_json(
        folder.path / "slurm.json",
        {
            "members": len(spec.placement),
            "nodes": [] if site.is_behind else [share.node_id for share in spec.placement],
            "whole_nodes": site.whole_nodes,
            "grace_seconds": spec.grace_seconds,
            "notice": "preempted" if is_cut else "time_limit",
        },
    )


def _write_spec(data: dict[str, Any], site: SlurmSite, folder: AttemptFolder, number: int) -> None:
    """Write a spec with its credential apart, or left out where the server reads the folder."""
    report = data["report"]
    if report is not None and site.nodes_reach_server:
        place = folder.path / f"m{number}.credential"
        write_private(place, report["token"])
        data["report"] = {**report, "token": "", "token_file": str(place)}
    elif report is not None:
        data["report"] = {**report, "token": "", "by_folder": True}
    write_json(folder.path / f"m{number}.spec.json", data)


def with_packages(spec: LaunchSpec, places: dict[str, Path]) -> LaunchSpec:
    """Return a launch whose packages lie where nodes without a way to the server find them."""
    package = spec.package
    if package is not None and package.digest in places:
        package = replace(package, location=str(places[package.digest]))
    modules = tuple(
        replace(one, location=str(places[one.digest])) if one.digest in places else one
        for one in spec.modules
    )
    return replace(spec, package=package, modules=modules)
