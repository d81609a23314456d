"""What a pass sees: jobs, nodes, teams, queues, leases and the time.

Owns the input types. A snapshot is complete: deciding needs nothing else. Times are seconds since
the epoch, GPUs in quotas are whole numbers or fractions of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trackyard.core.job import Job, JobState
from trackyard.core.lease import Lease
from trackyard.core.node import Node
from trackyard.core.resources import Placement
from trackyard.scheduling.forecast.durations import DurationModel
from trackyard.scheduling.policy import Policy, QueueOrder


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetHold:
    """A budget that is used up."""

    #: the team or department whose budget it is
    team: str
    #: in words, with the unit
    used: str
    budget: str
    #: when the next month begins
    until: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """A tenant and its claim on the GPUs."""

    #: id
    id: str
    #: the team that is its department, whose quota, limits and weight hold for all below it;
    #: empty: none
    parent: str = ""
    #: GPUs that are its own; None: no quota, it competes by share alone
    quota_gpus: float | None = None
    #: most GPUs at once, borrowed ones included; None: all that others leave
    limit_gpus: float | None = None
    #: GPUs of its quota that others may borrow for jobs that may not be preempted
    lendable_gpus: float = 0.0
    #: weight among its siblings for fair share
    weight: float = 1.0
    #: jobs at once; None: no limit
    max_running: int | None = None
    #: GPU-seconds used so far, decayed with the policy's half-life up to the snapshot's time
    usage_gpu_seconds: float = 0.0
    #: the budget that keeps its jobs from starting; None: they may
    budget_hold: BudgetHold | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """A named line of jobs with its limits; None means no limit."""

    #: name
    name: str = "default"
    #: teams that may use it; empty: all
    teams: tuple[str, ...] = ()
    #: among jobs of one class, the queue with the lower rank goes first
    rank: int = 0
    #: order within this queue; None: the policy's
    order: QueueOrder | None = None
    #: GPUs at once
    quota_gpus: float | None = None
    #: jobs at once
    max_running: int | None = None
    #: nodes in one job
    max_nodes_per_job: int | None = None
    #: GPUs in one job
    max_gpus_per_job: float | None = None
    #: run time of one job; jobs here must state a time limit within it
    max_wall_seconds: float | None = None
    #: GPUs of one user at once
    max_gpus_per_user: float | None = None
    #: jobs of one user at once
    max_running_per_user: int | None = None
    #: CPUs and memory of a job without GPUs that states none; None: 1 CPU and no memory
    default_cpus: float | None = None
    default_memory_bytes: int | None = None
    #: the same for each GPU of a job with GPUs; None: the GPU's part of its node
    default_cpus_per_gpu: float | None = None
    default_memory_per_gpu_bytes: int | None = None
    #: CPUs and memory of one job, all nodes together; checked when it is submitted
    max_cpus_per_job: float | None = None
    max_memory_per_job_bytes: int | None = None


#: Earlier stops of a job that are told; older ones make no difference.
MOST_STOPS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingJob:
    """A job in the line."""

    #: the job
    job: Job
    #: run time of earlier attempts that its checkpoint keeps
    attained_seconds: float = 0.0
    #: nodes where it failed before
    avoid: tuple[str, ...] = ()
    #: the engine's own reason for refusing it at the last try; empty: none
    engine_note: str = ""
    #: seconds between its checkpoints; 0: it saves when told to stop; None: never known to save
    save_seconds: float | None = None
    #: when it was stopped for others, the last of these times at the end
    stops: tuple[float, ...] = ()
    #: the job it was last stopped for, while that one has not ended; empty: none
    stopped_for: str = ""
    #: someone was stopped for it, and it has not started since: it goes first in its class
    is_owed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ActiveJob:
    """A job that holds resources, also while it starts or stops."""

    #: the job
    job: Job
    #: what it holds
    placement: Placement
    #: start of this attempt
    started_at: float
    #: run time of earlier attempts that its checkpoint kept
    attained_seconds: float = 0.0
    #: last complete checkpoint; None: none in this attempt
    checkpoint_at: float | None = None
    #: seconds between its checkpoints; 0: it saves when told to stop; None: not known
    save_seconds: float | None = None
    #: when it was told to stop it is gone by then; None: it was not told
    stops_at: float | None = None
    #: the job that its resources are meant for after that; empty: nobody
    stops_for: str = ""
    #: when earlier attempts were stopped for others, the last of these times at the end
    stops: tuple[float, ...] = ()
    #: the job it was last stopped for, while that one has not ended; empty: none
    stopped_for: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """All that a decision depends on."""

    #: the time of the decision
    now: float
    #: hardware
    nodes: tuple[Node, ...]
    #: jobs in the line, in any order
    waiting: tuple[WaitingJob, ...] = ()
    #: jobs that hold resources
    running: tuple[ActiveJob, ...] = ()
    #: tenants
    teams: tuple[Team, ...] = ()
    #: lines
    queues: tuple[Queue, ...] = (Queue(),)
    #: leases that have not ended
    leases: tuple[Lease, ...] = ()
    #: how jobs ended or stand that others depend on and that are neither waiting nor running here
    outcomes: Mapping[str, JobState] = field(default_factory=dict)
    #: what is known of run times
    durations: DurationModel = field(default_factory=DurationModel)
    #: the rules
    policy: Policy = field(default_factory=Policy)
