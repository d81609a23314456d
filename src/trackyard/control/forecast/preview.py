"""The answer before queueing: feasible or not, about when, behind whom, and what would start now.

Owns the shape of that answer. Decides nothing: it asks the scheduler's own code what it would do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.job import Dependency, DependsOn, Job
from trackyard.core.reasons import Reason, Tier
from trackyard.core.resources import WHOLE
from trackyard.fleet.nodes import match_types
from trackyard.queue.shares.promises import stop_words
from trackyard.queue.specification import JobRequest, JobSpec, parse_priority
from trackyard.queue.views import EtaView, ReasonView, SmallerRequestView, reason_view
from trackyard.scheduling.forecast import eta
from trackyard.scheduling.forecast.eta import StartForecast, forecast, lesser, what_if
from trackyard.scheduling.shares.requests import DefaultRequests
from trackyard.scheduling.snapshot import Snapshot

#: Events a forecast may run ahead: enough for a day of a busy yard, short enough to wait for.
FORECAST_EVENTS = 2000
#: Above so many waiting jobs a plain submission is answered without running ahead.
FEW_WAITING = 100
_CANDIDATE = "this job"
#: Tiers in which no waiting helps.
_NEVER = (Tier.MISCONFIGURED, Tier.INFEASIBLE)


class JobPreview(msgspec.Struct):
    """What would become of a job if it were submitted now."""

    #: whether the present nodes and limits could ever hold it
    feasible: bool
    sentence: str
    starts_now: bool = False
    #: place in the line it would take, 1 is next
    position: int | None = None
    waiting: int = 0
    eta: EtaView | None = None
    reasons: list[ReasonView] = []
    #: lesser requests that would start now, the largest first
    smaller: list[SmallerRequestView] = []
    #: CPUs and memory on each node, its queue's defaults filled in
    cpus: float = 0.0
    memory_bytes: int = 0
    #: whether it may be stopped for others, and what that means
    preemption: str = ""


def brief(snapshot: Snapshot) -> JobPreview:
    """Answer a plain submission to a long queue: it is looked at in the next pass."""
    waiting = len(snapshot.waiting)
    return JobPreview(
        feasible=True,
        sentence=f"It joins {waiting} waiting jobs; `yard why` tells more in a moment.",
        waiting=waiting,
    )


def full(snapshot: Snapshot, principal: Principal, wish: JobRequest, spec: JobSpec) -> JobPreview:
    """Ask the scheduler what it would do with this job, and when."""
    job = _candidate(snapshot, principal, wish, spec)
    answer = _answer(snapshot, job)
    answer.cpus = job.request.cpu_milli / WHOLE
    answer.memory_bytes = job.request.memory_bytes
    answer.preemption = stop_words(snapshot.policy, is_preemptible=job.preemptible)
    return answer


def _answer(snapshot: Snapshot, job: Job) -> JobPreview:
    found = what_if(snapshot, job, most_events=FORECAST_EVENTS)
    waiting = len(snapshot.waiting)
    if found.placement is not None:
        nodes = ", ".join(found.placement.nodes)
        return JobPreview(
            feasible=True,
            starts_now=True,
            sentence=f"It starts at once, on {nodes}.",
            waiting=waiting,
            eta=eta_view(found.forecast),
        )
    first = found.reasons[0]
    feasible = first.tier not in _NEVER
    reasons = agreeing(found.reasons, found.forecast.expected)
    return JobPreview(
        feasible=feasible,
        sentence=reasons[0].sentence + ".",
        position=found.position,
        waiting=found.in_line,
        eta=eta_view(found.forecast) if feasible else None,
        reasons=[reason_view(reason) for reason in reasons],
        smaller=[_smaller(one) for one in found.smaller],
    )


def lessen(snapshot: Snapshot, job_id: str) -> list[SmallerRequestView]:
    """Say which lesser requests of a waiting job would start now."""
    return [_smaller(one) for one in lesser(snapshot, job_id)]


def _smaller(found: eta.SmallerRequest) -> SmallerRequestView:
    return SmallerRequestView(
        gpus=found.request.gpus * found.request.gpu_milli / WHOLE,
        nodes=found.request.nodes,
        gpu_types=list(found.request.gpu_types),
        time_limit_seconds=found.time_limit_seconds,
        sentence=found.sentence[:1].upper() + found.sentence[1:] + ".",
    )


def foresee_many(snapshot: Snapshot, jobs: Collection[str]) -> dict[str, EtaView | None]:
    """Foresee when several waiting jobs start, in one run ahead."""
    found = forecast(snapshot, jobs, most_events=FORECAST_EVENTS)
    return {job: eta_view(one) for job, one in found.items()}


def agreeing(reasons: Sequence[Reason], expected: float | None) -> list[Reason]:
    """Let no holder be said to stay beyond the expected start: it will be stopped for the job."""
    return [
        replace(reason, until=expected)
        if expected is not None
        and reason.tier is Tier.CAPACITY
        and reason.until is not None
        and reason.until > expected
        else reason
        for reason in reasons
    ]


def eta_view(found: StartForecast) -> EtaView | None:
    """Say a forecast as the API does; None where no start is in sight."""
    if found.expected is None and found.earliest is None:
        return None

    def moment(value: float | None) -> int | None:
        return None if value is None else int(value * 1000)

    return EtaView(
        start_ms=moment(found.expected),
        earliest_ms=moment(found.earliest),
        latest_ms=moment(found.latest),
        confidence=round(found.confidence, 3),
    )


def _candidate(snapshot: Snapshot, principal: Principal, wish: JobRequest, spec: JobSpec) -> Job:
    types = {node.gpu_type for node in snapshot.nodes if node.gpus}
    request = spec.request
    if request.gpu_types:
        request = replace(request, gpu_types=match_types(request.gpu_types, types))
    request = DefaultRequests(snapshot.nodes, snapshot.queues).fill(
        request, wish.queue, cpus=spec.default_cpus, memory=spec.default_memory
    )
    return Job(
        id=_CANDIDATE,
        team=principal.team,
        user=principal.name,
        queue=wish.queue,
        priority=parse_priority(wish.priority),
        request=request,
        default_cpus=spec.default_cpus,
        default_memory=spec.default_memory,
        submitted_at=snapshot.now,
        time_limit_seconds=spec.time_limit_seconds,
        estimate_seconds=spec.estimate_seconds,
        preemptible=spec.preemptible,
        not_before=wish.not_before_ms / 1000,
        held=wish.hold,
        dependencies=tuple(
            Dependency(job=one.job, when=DependsOn(one.when)) for one in spec.after
        ),
        lease=spec.lease,
        name=wish.name,
    )
