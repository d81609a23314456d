"""What a queue and a team allow one job: class, budget, CPUs, memory, and being stopped or not.

Owns the check that submit and requeue share. What can be said of a job only beside others
(quotas, jobs at once) is the scheduler's.
"""

from __future__ import annotations

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput
from trackyard.core.job import PriorityClass
from trackyard.core.resources import WHOLE
from trackyard.queue.shares.classes import check_budget, check_class
from trackyard.queue.shares.queues import load_queues, load_shares
from trackyard.queue.shares.settings import QueueSettings, TeamShare
from trackyard.queue.specification import JobSpec
from trackyard.store.database import ReadConnection, Tx

_GIB = 2**30


def queue_rules(reader: ReadConnection | Tx, name: str) -> QueueSettings:
    """Return a queue's rules, or say which queues there are."""
    known = load_queues(reader)
    if name not in known:
        names = ", ".join(sorted(known))
        raise InvalidInput(f"there is no queue {name[:80]!r}; there are {names}")
    return known[name]


def check_rules(
    reader: ReadConnection | Tx,
    principal: Principal,
    spec: JobSpec,
    level: PriorityClass,
    *,
    queue: str,
    team_id: int,
    now_ms: int,
    jobs: int = 1,
    but_job: int | None = None,
) -> None:
    """Refuse a job that its queue or team does not allow; say what to do instead."""
    rules = queue_rules(reader, queue)
    row = reader.one("SELECT name FROM teams WHERE id = ?", (team_id,))
    team = row[0] if row else principal.team
    share = load_shares(reader).get(team, TeamShare())
    check_class(principal, level, queue_name=queue, queue=rules, share=share)
    if level is PriorityClass.URGENT:
        check_budget(reader, team_id, team, share, spec, now_ms=now_ms, jobs=jobs, but_job=but_job)
    _check_amounts(spec, rules, queue)
    _check_site(spec, rules)


def _check_site(spec: JobSpec, rules: QueueSettings) -> None:
    """Refuse at once what the site's batch system would refuse, in the site's own words."""
    named = {} if rules.slurm is None else rules.slurm.rules
    asked = {
        "max_wall_seconds": (spec.time_limit_seconds, rules.max_wall_seconds, "--time"),
        "max_nodes_per_job": (spec.nodes, rules.max_nodes_per_job, "--nodes"),
        "max_gpus_per_job": (
            spec.gpus * spec.nodes * spec.gpu_milli / WHOLE,
            rules.max_gpus_per_job,
            "--gpus",
        ),
    }
    for name, (value, most, flag) in asked.items():
        if name not in named or most is None:
            continue
        if value is None:
            raise InvalidInput(f"the site's rule is {named[name]}: give {flag}")
        if value > most:
            raise InvalidInput(f"the site's rule is {named[name]}: ask for less with {flag}")
    whole = named.get("whole_nodes")
    if whole and (spec.memory_bytes or spec.gpu_milli != WHOLE):
        raise InvalidInput(f"the site's rule is {whole}: leave --memory and parts of GPUs out")


def _check_amounts(spec: JobSpec, rules: QueueSettings, queue: str) -> None:
    """Hold what a job states against the queue's limits; defaults keep to them by themselves."""
    if not (rules.zero_cpus or spec.cpu_milli or spec.default_cpus):
        raise InvalidInput(
            f"queue {queue} takes no jobs without CPUs: ask for some with --cpus, or leave --cpus"
            " out for the queue's default"
        )
    most = rules.max_cpus_per_job
    if most is not None and spec.cpu_milli * spec.nodes > most * WHOLE:
        asked = spec.cpu_milli * spec.nodes / WHOLE
        raise InvalidInput(
            f"it asks for {asked:g} CPUs and queue {queue} allows {most:g} in one job: ask for"
            " less, or use another queue"
        )
    memory = rules.max_memory_per_job_bytes
    if memory is not None and spec.memory_bytes * spec.nodes > memory:
        asked = spec.memory_bytes * spec.nodes / _GIB
        raise InvalidInput(
            f"it asks for {asked:.3g} GiB of memory and queue {queue} allows"
            f" {memory / _GIB:.3g} GiB in one job: ask for less, or use another queue"
        )


def with_whole_nodes(spec: JobSpec, rules: QueueSettings) -> JobSpec:
    """Give a job its nodes alone where the site's partition allocates whole nodes.

    Slurm would otherwise keep a second job waiting for a node that looks half free here.
    """
    if rules.slurm is None or "whole_nodes" not in rules.slurm.rules:
        return spec
    return msgspec.structs.replace(spec, exclusive=True)


def with_preemption(
    spec: JobSpec, rules: QueueSettings, queue: str, wanted: bool | None
) -> JobSpec:
    """Settle whether a job may be stopped for others: its own word, else the queue's."""
    if wanted is False and rules.preemptible_default == "always":
        raise InvalidInput(
            f"every job of queue {queue} may be stopped for others: leave --not-preemptible out,"
            " or use another queue"
        )
    settled = rules.preemptible_default != "no" if wanted is None else wanted
    return msgspec.structs.replace(spec, preemptible=settled)
