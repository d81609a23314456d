"""Fixed histories that the queue once failed, or that an admin meets in the first week.

Owns the scenarios and what each must come to. They run through the same machine and the same
invariants as random ones.
"""

from __future__ import annotations

from dataclasses import replace

from trackyard.core.job import Job, PriorityClass
from trackyard.core.node import Node, NodeGpu
from trackyard.core.resources import WHOLE, ResourceRequest
from trackyard.scheduling import Policy, Team
from trackyard.simulate.check.history import (
    HOUR,
    CheckHistory,
    EventKind,
    HistoryEvent,
    PlannedJob,
    StopReply,
)

GIB = 2**30


def live_policy() -> Policy:
    """Return the policy of a server with its defaults."""
    return Policy()


def node(name: str, gpus: int) -> Node:
    """Return a node with ample CPUs and memory."""
    return Node(
        id=name,
        gpus=tuple(NodeGpu(index=index, type="a") for index in range(gpus)),
        cpu_milli=64 * WHOLE,
        memory_bytes=256 * GIB,
    )


def submit(
    name: str,
    *,
    at: float,
    work: float,
    gpus: int = 1,
    team: str = "lab",
    priority: PriorityClass = PriorityClass.NORMAL,
    preemptible: bool = False,
    limit: float | None = None,
    saves_every: float | None = None,
    reply: StopReply = StopReply.ENDS,
) -> HistoryEvent:
    """Return the submission of one job."""
    job = Job(
        id=name,
        team=team,
        user=f"{team}-a",
        name=name.rstrip("0123456789"),
        priority=priority,
        request=ResourceRequest(gpus=gpus),
        preemptible=preemptible,
        time_limit_seconds=limit,
    )
    planned = PlannedJob(job=job, work_seconds=work, saves_every=saves_every, reply=reply)
    return HistoryEvent(at=at, kind=EventKind.SUBMIT, planned=planned)


def twins(limit: float | None = None) -> CheckHistory:
    """Two identical preemptible jobs of 150 s on one GPU."""
    return CheckHistory(
        name="twins",
        nodes=(node("n0", 1),),
        teams=(Team(id="lab"),),
        policy=live_policy(),
        events=tuple(
            submit(f"twin{number}", at=0.0, work=150.0, preemptible=True, limit=limit)
            for number in range(2)
        ),
    )


def eight_and_one() -> CheckHistory:
    """Eight identical preemptible jobs on eight GPUs, then one of two GPUs by another team."""
    eight = [submit(f"eight{number}", at=0.0, work=HOUR, preemptible=True) for number in range(8)]
    one = submit("other", at=60.0, work=300.0, gpus=2, team="guests")
    return CheckHistory(
        name="eight and one",
        nodes=(node("n0", 8),),
        teams=(Team(id="lab"), Team(id="guests")),
        policy=live_policy(),
        events=(*eight, one),
    )


def urgent_and_sixty() -> CheckHistory:
    """Four GPUs: one urgent job that needs all of them, and sixty low jobs of one GPU."""
    first = [
        submit(f"first{number}", at=0.0, work=300.0 + 200 * number, priority=PriorityClass.LOW)
        for number in range(4)
    ]
    urgent = submit("urgent", at=60.0, work=600.0, gpus=4, priority=PriorityClass.URGENT)
    sixty = [
        submit(f"low{number}", at=60.0 + number, work=900.0, priority=PriorityClass.LOW)
        for number in range(60)
    ]
    return CheckHistory(
        name="urgent and sixty",
        nodes=(node("n0", 4),),
        teams=(Team(id="lab"),),
        policy=live_policy(),
        events=(*first, urgent, *sixty),
    )


def lent_for_hours() -> CheckHistory:
    """A job that may not be preempted borrows; the owner's urgent job comes an hour later."""
    borrower = submit("borrower", at=0.0, work=12 * HOUR, gpus=4, team="guests")
    owner = submit(
        "owner", at=HOUR, work=600.0, gpus=2, team="owners", priority=PriorityClass.URGENT
    )
    return CheckHistory(
        name="lent for hours",
        nodes=(node("n0", 4),),
        teams=(Team(id="owners", quota_gpus=2.0), Team(id="guests", quota_gpus=2.0)),
        policy=live_policy(),
        events=(borrower, owner),
    )


#: Eight GPUs: two teams of a department with two each, another department with four.
_DEPARTMENTS = (
    Team(id="vision", quota_gpus=4.0),
    Team(id="faces", parent="vision", quota_gpus=2.0),
    Team(id="maps", parent="vision", quota_gpus=2.0),
    Team(id="speech", quota_gpus=4.0),
    Team(id="voices", parent="speech", quota_gpus=4.0),
)


def lent_to_a_sibling() -> CheckHistory:
    """A team takes all of its department and more; its sibling and the others want theirs."""
    first = [
        submit(f"faces{number}", at=0.0, work=6 * HOUR, team="faces", preemptible=True)
        for number in range(8)
    ]
    sibling = submit("maps", at=HOUR, work=600.0, gpus=2, team="maps")
    others = submit("voices", at=HOUR, work=600.0, gpus=4, team="voices")
    return CheckHistory(
        name="lent to a sibling",
        nodes=(node("n0", 8),),
        teams=_DEPARTMENTS,
        policy=live_policy(),
        events=(*first, sibling, others),
    )


def lent_across_departments() -> CheckHistory:
    """Fixed jobs of one department want what the other leaves, and the owners come later."""
    fixed = [submit(f"fixed{number}", at=0.0, work=6 * HOUR, team="faces") for number in range(8)]
    loose = [
        submit(f"loose{number}", at=60.0, work=6 * HOUR, team="maps", preemptible=True)
        for number in range(6)
    ]
    owner = submit("voices", at=HOUR, work=600.0, gpus=4, team="voices")
    return CheckHistory(
        name="lent across departments",
        nodes=(node("n0", 4), node("n1", 4)),
        teams=_DEPARTMENTS,
        policy=live_policy(),
        events=(*fixed, *loose, owner),
    )


SCENARIOS = {
    "twins": twins,
    "twins with a limit": lambda: replace(twins(600.0), name="twins with a limit"),
    "eight and one": eight_and_one,
    "urgent and sixty": urgent_and_sixty,
    "lent for hours": lent_for_hours,
    "lent to a sibling": lent_to_a_sibling,
    "lent across departments": lent_across_departments,
}
