"""An attempt as a batch job: sbatch's options, the script, and the files its runners read.

Owns what is written into an attempt's folder before submission, and how the attempt's id is kept
in the job's name and comment. Runs nothing.
"""

from __future__ import annotations

import math
import secrets
import shlex
from collections.abc import Mapping
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
#: how much later than the runner's limit and grace period Slurm's own limit is
SLACK_SECONDS = 60.0


def comment(site: SlurmSite, spec: LaunchSpec) -> str:
    """Return the comment that identifies our jobs, and each attempt among them."""
    return f"{PREFIX}{site.name}:{spec.attempt_id}"


def attempt_of(job: SlurmJob, site_name: str) -> str | None:
    """Return the attempt of a Slurm job; None if the job is not ours."""
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


def destination(asked: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a submission says of partition, account and QOS, which limit it together."""
    names = ("--partition=", "--account=", "--qos=")
    return tuple(word for word in asked.get("arguments", ()) if word.startswith(names))


def _resources(share: NodeGrant, site: SlurmSite, gpu_type: str) -> list[str]:
    """Return the resources of each node; none on whole-node sites."""
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
    """Return how long before its limit Slurm gives notice: the grace period and a margin."""
    return min(65535, math.ceil(spec.grace_seconds) + 15)


def limit_minutes(spec: LaunchSpec, seconds_left: float | None = None) -> int | None:
    """Return Slurm's limit for a job: later than the runner's own, which ends it and says so.

    Where a lease takes the nodes before that, the limit is that moment. A job that asks for all
    that the site allows gets no more than that: Slurm's notice then leaves it its grace.
    """
    whole = None
    if spec.time_limit_seconds is not None:
        whole = math.ceil((spec.time_limit_seconds + spec.grace_seconds + SLACK_SECONDS) / 60)
        most = spec.batch.most_seconds
        if most is not None and whole * 60 > most:
            whole = math.floor(most / 60)
    if seconds_left is not None and (whole is None or whole * 60 > seconds_left):
        whole = math.floor(seconds_left / 60)
    return None if whole is None else max(1, whole)


def script(site: SlurmSite, runner: Path, folder: Path) -> str:
    """Return the batch script."""
    start = f"exec {shlex.quote(site.python)} -I -S {shlex.quote(str(runner))}"
    line = f"{start} --slurm {shlex.quote(str(folder))}"
    if not site.setup:
        return f"#!/bin/sh\n{line}\n"
    # Environment modules are functions of the login shell.
    return "\n".join(["#!/bin/bash -l", *site.setup, line, ""])


def write_specs(spec: LaunchSpec, site: SlurmSite, folder: AttemptFolder, *, is_cut: bool) -> None:
    """Write the files that the runners read.

    A job whose limit was cut for a lease goes back into the queue when Slurm gives notice.
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
        # Slurm's own cgroups hold the job; moving it would take it out of Slurm's control.
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
    """Write a spec with its credential in a separate file, or none if reports go by folder."""
    report = data["report"]
    if report is not None and site.nodes_reach_server:
        place = folder.path / f"m{number}.credential"
        write_private(place, report["token"])
        data["report"] = {**report, "token": "", "token_file": str(place)}
    elif report is not None:
        data["report"] = {**report, "token": "", "by_folder": True}
    write_json(folder.path / f"m{number}.spec.json", data)


def with_packages(spec: LaunchSpec, places: dict[str, Path]) -> LaunchSpec:
    """Return the launch with packages at places that nodes can read without the server."""
    package = spec.package
    if package is not None and package.digest in places:
        package = replace(package, location=str(places[package.digest]))
    modules = tuple(
        replace(one, location=str(places[one.digest])) if one.digest in places else one
        for one in spec.modules
    )
    return replace(spec, package=package, modules=modules)
