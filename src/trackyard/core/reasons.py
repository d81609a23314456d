"""Why a job is not running: the catalogue of codes, and the Reason that the queue hands out.

Owns every code with its tier, sentence and remedy. Sentences are filled from the reason's own
numbers, so the text can never disagree with them. Knows nothing of how a reason is found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum


class Tier(StrEnum):
    """How grave a reason is, worst first."""

    #: wrong as written; waiting will not help
    MISCONFIGURED = "misconfigured"
    #: no present hardware could ever hold it
    INFEASIBLE = "infeasible"
    #: a limit of the team, queue or user is reached
    OVER_QUOTA = "over_quota"
    #: nodes are promised to someone else
    LEASE_CONFLICT = "lease_conflict"
    #: waits for another job, a time or its owner
    DEPENDENCY = "dependency"
    #: jobs ahead of it come first
    PRIORITY = "priority"
    #: the hardware is in use
    CAPACITY = "capacity"
    #: the fitting hardware is out of service
    UNHEALTHY = "unhealthy"
    #: the engine's own word
    ENGINE = "engine"
    #: not looked at yet
    EVALUATING = "evaluating"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return _RANK[self]


_RANK = {tier: rank for rank, tier in enumerate(Tier)}


@dataclass(frozen=True, slots=True)
class ReasonEntry:
    """One line of the catalogue."""

    #: how grave
    tier: Tier
    #: what is so, with {fields} of the reason
    sentence: str
    #: what to do about it
    remedy: str


class Code(StrEnum):
    """Every reason there is."""

    BAD_REQUEST = "bad_request"
    SET_ASIDE = "set_aside"
    UNKNOWN_QUEUE = "unknown_queue"
    UNKNOWN_TEAM = "unknown_team"
    QUEUE_CLOSED = "queue_closed"
    UNKNOWN_GPU_TYPE = "unknown_gpu_type"
    UNKNOWN_LABEL = "unknown_label"
    UNKNOWN_LEASE = "unknown_lease"
    LEASE_OVER = "lease_over"
    UNKNOWN_DEPENDENCY = "unknown_dependency"
    WALL_TIME_OVER_LIMIT = "wall_time_over_limit"
    WALL_TIME_MISSING = "wall_time_missing"
    NODES_OVER_LIMIT = "nodes_over_limit"
    GPUS_OVER_LIMIT = "gpus_over_limit"
    TOO_LARGE = "too_large"
    LARGER_THAN_QUOTA = "larger_than_quota"
    TEAM_QUOTA = "team_quota"
    BORROW_LIMIT = "borrow_limit"
    QUOTA_LENT = "quota_lent"
    TEAM_JOBS = "team_jobs"
    BUDGET_USED_UP = "budget_used_up"
    QUEUE_QUOTA = "queue_quota"
    QUEUE_JOBS = "queue_jobs"
    USER_GPUS = "user_gpus"
    USER_JOBS = "user_jobs"
    ARRAY_CAP = "array_cap"
    RUNS_INTO_LEASE = "runs_into_lease"
    LEASED_TO_OTHERS = "leased_to_others"
    LEASE_NOT_STARTED = "lease_not_started"
    WAITS_FOR_JOB = "waits_for_job"
    DEPENDENCY_NEVER = "dependency_never"
    NOT_BEFORE = "not_before"
    HELD = "held"
    BEHIND_JOBS = "behind_jobs"
    BEHIND_RESERVATION = "behind_reservation"
    BEHIND_HEAD = "behind_head"
    NO_FREE_GPUS = "no_free_gpus"
    FRAGMENTED = "fragmented"
    NO_FREE_CPU_OR_MEMORY = "no_free_cpu_or_memory"
    NO_FREE_CPUS = "no_free_cpus"
    NOT_TOGETHER = "not_together"
    NODE_SHARED = "node_shared"
    PREEMPTING = "preempting"
    NODES_UNHEALTHY = "nodes_unhealthy"
    MORE_NODES_OUT = "more_nodes_out"
    AVOIDS_NODES = "avoids_nodes"
    ENGINE_REFUSED = "engine_refused"
    EVALUATING = "evaluating"


CATALOGUE: Mapping[Code, ReasonEntry] = {
    Code.BAD_REQUEST: ReasonEntry(
        Tier.MISCONFIGURED,
        "The request makes no sense: {what}",
        "Submit it again with the request corrected",
    ),
    Code.SET_ASIDE: ReasonEntry(
        Tier.MISCONFIGURED,
        "The scheduler cannot weigh it and has set it aside, while all others go on: {what}",
        "Stop it, or change what it asks for with `yard requeue`; if it asks for nothing unusual,"
        " report the words after the colon",
    ),
    Code.UNKNOWN_QUEUE: ReasonEntry(
        Tier.MISCONFIGURED,
        "There is no queue `{what}`",
        "Pick a queue that exists (`yard queue ls`), or ask an admin to create it",
    ),
    Code.UNKNOWN_TEAM: ReasonEntry(
        Tier.MISCONFIGURED,
        "There is no team `{what}`",
        "Submit it for a team you belong to",
    ),
    Code.QUEUE_CLOSED: ReasonEntry(
        Tier.MISCONFIGURED,
        "Queue `{what}` does not take jobs of team `{team}`",
        "Use another queue, or ask an admin to open this one to the team",
    ),
    Code.UNKNOWN_GPU_TYPE: ReasonEntry(
        Tier.MISCONFIGURED,
        "No node has GPUs of type {what}; there are {present}",
        "Ask for a type that exists, or leave the type open",
    ),
    Code.UNKNOWN_LABEL: ReasonEntry(
        Tier.MISCONFIGURED,
        "No node carries the label {what}",
        "Correct the label, or have an admin put it on a node",
    ),
    Code.UNKNOWN_LEASE: ReasonEntry(
        Tier.MISCONFIGURED,
        "There is no lease `{what}` for team `{team}`",
        "Name a lease that the team holds (`yard lease ls`), or none",
    ),
    Code.LEASE_OVER: ReasonEntry(
        Tier.MISCONFIGURED,
        "Lease `{what}` ended at {until}",
        "Extend the lease, or submit the job without it",
    ),
    Code.UNKNOWN_DEPENDENCY: ReasonEntry(
        Tier.MISCONFIGURED,
        "It waits for job `{what}`, which does not exist",
        "Drop the dependency or name an existing job",
    ),
    Code.WALL_TIME_OVER_LIMIT: ReasonEntry(
        Tier.MISCONFIGURED,
        "It asks for {needed} of run time; queue `{what}` allows {free}",
        "Lower the time limit, or use a queue for longer jobs",
    ),
    Code.WALL_TIME_MISSING: ReasonEntry(
        Tier.MISCONFIGURED,
        "Queue `{what}` takes only jobs with a time limit of at most {free}, and it has none",
        "Set a time limit",
    ),
    Code.NODES_OVER_LIMIT: ReasonEntry(
        Tier.MISCONFIGURED,
        "It asks for {needed} nodes; queue `{what}` allows {free} in one job",
        "Ask for fewer nodes, or use a queue for larger jobs",
    ),
    Code.GPUS_OVER_LIMIT: ReasonEntry(
        Tier.MISCONFIGURED,
        "It asks for {needed} GPUs; queue `{what}` allows {free} in one job",
        "Ask for fewer GPUs, or use a queue for larger jobs",
    ),
    Code.TOO_LARGE: ReasonEntry(
        Tier.INFEASIBLE,
        "It needs {needed} nodes with {what} each; even idle, the cluster has {free} of"
        " them{where}",
        "Ask for less; it stays listed as demand and starts when nodes that fit join",
    ),
    Code.LARGER_THAN_QUOTA: ReasonEntry(
        Tier.OVER_QUOTA,
        "It needs {needed} GPUs; {what} may never hold more than {free}",
        "Ask for fewer GPUs, or have the limit raised",
    ),
    Code.TEAM_QUOTA: ReasonEntry(
        Tier.OVER_QUOTA,
        "It needs {needed} GPUs; team `{what}` has {free} of its quota of {limit} left",
        "Wait for the team's own jobs, stop one, or have the quota raised",
    ),
    Code.QUOTA_LENT: ReasonEntry(
        Tier.CAPACITY,
        "It is within the quota of team `{what}`, whose GPUs are lent to {holders} until about "
        "{until}",
        "Wait for them to come back, or use a higher priority class, which takes them at once",
    ),
    Code.BORROW_LIMIT: ReasonEntry(
        Tier.OVER_QUOTA,
        "Its {needed} GPUs are beyond the quota of team `{what}` ({limit}), and jobs that may not "
        "be preempted can borrow only {free} more",
        "Submit it with --preemptible, or wait for the team's own jobs to end",
    ),
    Code.TEAM_JOBS: ReasonEntry(
        Tier.OVER_QUOTA,
        "Team `{what}` runs {limit} jobs, its limit",
        "Wait for one of them, or stop one",
    ),
    Code.BUDGET_USED_UP: ReasonEntry(
        Tier.OVER_QUOTA,
        "Team `{what}` has used up its budget of the month: {used} of {budget}",
        "Wait for the next month, or have an admin raise the budget: `yard budget set`",
    ),
    Code.QUEUE_QUOTA: ReasonEntry(
        Tier.OVER_QUOTA,
        "It needs {needed} GPUs; queue `{what}` has {free} of its {limit} left",
        "Wait for jobs of this queue, or use another queue",
    ),
    Code.QUEUE_JOBS: ReasonEntry(
        Tier.OVER_QUOTA,
        "Queue `{what}` runs {limit} jobs, its limit",
        "Wait for one of them, or use another queue",
    ),
    Code.USER_GPUS: ReasonEntry(
        Tier.OVER_QUOTA,
        "It needs {needed} GPUs; {what} has {free} of {limit} left in this queue",
        "Wait for your own jobs, or stop one",
    ),
    Code.USER_JOBS: ReasonEntry(
        Tier.OVER_QUOTA,
        "{what} runs {limit} jobs in this queue, the limit for one user",
        "Wait for one of your own jobs, or stop one",
    ),
    Code.ARRAY_CAP: ReasonEntry(
        Tier.OVER_QUOTA,
        "{limit} jobs of array `{what}` run at once, its own cap",
        "Wait for one of them, or raise the array's cap",
    ),
    Code.RUNS_INTO_LEASE: ReasonEntry(
        Tier.LEASE_CONFLICT,
        "On the nodes that fit it would still run when lease `{what}` starts at {until}",
        "Set a time limit that ends before then, or wait until the lease is over",
    ),
    Code.LEASED_TO_OTHERS: ReasonEntry(
        Tier.LEASE_CONFLICT,
        "The nodes that fit belong to lease `{what}` of team `{team}` until {until}",
        "Wait until the lease ends, or ask its holder to release it",
    ),
    Code.LEASE_NOT_STARTED: ReasonEntry(
        Tier.LEASE_CONFLICT,
        "Its lease `{what}` starts at {until}",
        "Nothing to do: it starts with the lease",
    ),
    Code.WAITS_FOR_JOB: ReasonEntry(
        Tier.DEPENDENCY,
        "It waits for job {holders} to end",
        "Wait, or drop the dependency",
    ),
    Code.DEPENDENCY_NEVER: ReasonEntry(
        Tier.DEPENDENCY,
        "It waits for job {holders} to end in {what}, and that job has ended otherwise",
        "Cancel it, or submit it again without the dependency",
    ),
    Code.NOT_BEFORE: ReasonEntry(
        Tier.DEPENDENCY,
        "It is not to start before {until}",
        "Wait, or submit it again with an earlier time",
    ),
    Code.HELD: ReasonEntry(
        Tier.DEPENDENCY,
        "Its owner holds it back",
        "Release it: `yard release`",
    ),
    Code.BEHIND_JOBS: ReasonEntry(
        Tier.PRIORITY,
        "The {what} that were free went to {ahead} jobs ahead of it",
        "Wait, or ask for a higher priority class",
    ),
    Code.BEHIND_RESERVATION: ReasonEntry(
        Tier.PRIORITY,
        "It would fit, but would still run at {until}, when it is reserved for job {holders}",
        "Set a time limit that ends before then, or wait for that job",
    ),
    Code.BEHIND_HEAD: ReasonEntry(
        Tier.PRIORITY,
        "Queue `{what}` keeps strict order and job {holders} is ahead of it",
        "Wait for that job, or use a queue that backfills",
    ),
    Code.NO_FREE_GPUS: ReasonEntry(
        Tier.CAPACITY,
        "It needs {needed} GPUs and finds {free} free; what would fit is held by {holders}, "
        "until about {until}",
        "Wait, or ask for fewer GPUs",
    ),
    Code.FRAGMENTED: ReasonEntry(
        Tier.CAPACITY,
        "It needs {what}; {free} GPUs are free but not in such blocks (the largest is {block}); "
        "{holders} are in the way, until about {until}",
        "Ask for smaller blocks or more nodes with fewer GPUs each",
    ),
    Code.NO_FREE_CPU_OR_MEMORY: ReasonEntry(
        Tier.CAPACITY,
        "Enough GPUs are free, but not with {what} beside them; {holders} hold that, "
        "until about {until}",
        "Ask for less CPU or memory per GPU",
    ),
    Code.NOT_TOGETHER: ReasonEntry(
        Tier.CAPACITY,
        "It needs {needed} nodes with {what} each under one `{label}`; the best one, {best}, has"
        " {free} nodes free; {holders} are in the way, until about {until}",
        "Wait, ask for fewer nodes, or drop --same",
    ),
    Code.NO_FREE_CPUS: ReasonEntry(
        Tier.CAPACITY,
        "It needs {what} and no node has that free; {holders} hold it, until about {until}",
        "Wait, or ask for less CPU or memory",
    ),
    Code.NODE_SHARED: ReasonEntry(
        Tier.CAPACITY,
        "It wants {needed} nodes to itself and {free} are empty; {holders} are on the others, "
        "until about {until}",
        "Wait, or drop the exclusive wish",
    ),
    Code.PREEMPTING: ReasonEntry(
        Tier.CAPACITY,
        "Room is being made: {holders} save their checkpoints and stop by {until}",
        "Nothing to do: it starts when they have stopped",
    ),
    Code.NODES_UNHEALTHY: ReasonEntry(
        Tier.UNHEALTHY,
        "Only nodes that are out of service would fit: {what}",
        "Return a node to service (`yard undrain NODE`), or ask for something else",
    ),
    Code.MORE_NODES_OUT: ReasonEntry(
        Tier.UNHEALTHY,
        "Nodes out of service would fit as well: {what}",
        "Return a node to service (`yard undrain NODE`)",
    ),
    Code.AVOIDS_NODES: ReasonEntry(
        Tier.UNHEALTHY,
        "It failed on {what} before and avoids them; no other node fits",
        "Wait for another node, or clear the list with `yard requeue --anywhere`",
    ),
    Code.ENGINE_REFUSED: ReasonEntry(
        Tier.ENGINE,
        "The engine says: {what}",
        "See the engine's own queue; the job is offered again at the next pass",
    ),
    Code.EVALUATING: ReasonEntry(
        Tier.EVALUATING,
        "It has not been looked at yet",
        "Nothing to do: the next pass is seconds away",
    ),
}


_ONE = re.compile(r"(?<![\d.,])1 (node|GPU|job|CPU)s\b")

_EACH = re.compile(r"((?<![\d.,])1 node with [^;]*?) each(?=[; ])")


def in_singular(sentence: str) -> str:
    """Return a sentence in which one thing is not spoken of as several."""
    return _EACH.sub(r"\1", _ONE.sub(r"1 \1", sentence))


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Why one job waits, in numbers; sentence and remedy come from the catalogue."""

    #: which of the catalogue
    code: Code
    #: how much it needs (GPUs, nodes or seconds, by code)
    needed: float | None = None
    #: how much there is
    free: float | None = None
    #: the limit that is reached
    limit: float | None = None
    #: jobs that hold what it needs, or stand before it (at most a few are named)
    holders: tuple[str, ...] = ()
    #: how many holders there are in all
    holder_count: int = 0
    #: when this clears, as far as known (seconds since the epoch)
    until: float | None = None
    #: jobs ahead of it in the line
    ahead: int = 0
    #: what the sentence is about: a queue, team, lease, label or amount
    what: str = ""
    #: further words for the sentence
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def tier(self) -> Tier:
        """How grave it is."""
        return CATALOGUE[self.code].tier

    @property
    def sentence(self) -> str:
        """Say it to a person."""
        return in_singular(CATALOGUE[self.code].sentence.format_map(_Fields(self)))

    @property
    def remedy(self) -> str:
        """Say what to do."""
        return CATALOGUE[self.code].remedy

    @property
    def unit(self) -> str:
        """What its numbers count: gpus, nodes, jobs or seconds."""
        return _UNITS.get(self.code, "gpus")

    @property
    def needs_action(self) -> bool:
        """Whether waiting alone never helps: someone must change something."""
        return self.tier in _NEED_ACTION_TIERS or self.code in _NEED_ACTION_CODES

    def as_dict(self) -> dict[str, object]:
        """Return it as plain JSON values."""
        return {
            "code": self.code.value,
            "tier": self.tier.value,
            "sentence": self.sentence,
            "remedy": self.remedy,
            "needed": self.needed,
            "free": self.free,
            "limit": self.limit,
            "unit": self.unit,
            "holders": list(self.holders),
            "holder_count": max(self.holder_count, len(self.holders)),
            "until": self.until,
            "ahead": self.ahead,
        }


EVALUATING = Reason(code=Code.EVALUATING)
#: Tiers and codes of jobs that no free GPU would start: something else must happen first.
_OUT_OF_LINE_TIERS = (Tier.MISCONFIGURED, Tier.INFEASIBLE, Tier.DEPENDENCY, Tier.UNHEALTHY)
_NEED_ACTION_TIERS = (Tier.MISCONFIGURED, Tier.INFEASIBLE)
_NEED_ACTION_CODES = (Code.LARGER_THAN_QUOTA, Code.DEPENDENCY_NEVER)
_UNITS: Mapping[Code, str] = {
    **dict.fromkeys(
        (Code.NODES_OVER_LIMIT, Code.TOO_LARGE, Code.NOT_TOGETHER, Code.NODE_SHARED), "nodes"
    ),
    **dict.fromkeys((Code.NODES_UNHEALTHY, Code.MORE_NODES_OUT, Code.AVOIDS_NODES), "nodes"),
    **dict.fromkeys((Code.TEAM_JOBS, Code.QUEUE_JOBS, Code.USER_JOBS, Code.ARRAY_CAP), "jobs"),
    **dict.fromkeys(
        (Code.WALL_TIME_OVER_LIMIT, Code.WALL_TIME_MISSING, Code.RUNS_INTO_LEASE), "seconds"
    ),
}
_OUT_OF_LINE_CODES = (
    Code.LARGER_THAN_QUOTA,
    Code.LEASE_NOT_STARTED,
    Code.BUDGET_USED_UP,
)


def stands_in_line(reasons: Sequence[Reason] | None) -> bool:
    """Tell whether a waiting job starts when its turn comes and there is room."""
    if not reasons:
        return True
    first = reasons[0]
    return first.tier not in _OUT_OF_LINE_TIERS and first.code not in _OUT_OF_LINE_CODES


class _Fields(dict[str, str]):
    """The words of one reason, made when the sentence asks for them."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.facts)
        self._reason = reason

    def __missing__(self, key: str) -> str:
        reason = self._reason
        if key == "where":
            return ""
        if key == "holders":
            return _names(reason.holders, max(reason.holder_count, len(reason.holders)))
        value = getattr(reason, key, None)
        if value is None:
            return "an unknown time" if key == "until" else "?"
        if key == "until":
            return datetime.fromtimestamp(value, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
        if key in ("needed", "free") and reason.code in _SECONDS:
            return duration_words(value)
        return f"{value:g}" if isinstance(value, float) else str(value)


_SECONDS = (Code.WALL_TIME_OVER_LIMIT, Code.WALL_TIME_MISSING)


def duration_words(seconds: float) -> str:
    """Say a length of time in its largest fitting units: 90 s, 45 min, 1 h 30 min, 3 d 4 h."""
    if seconds < 120:
        return f"{seconds:g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def _names(holders: tuple[str, ...], count: int) -> str:
    """List a few names and count the rest."""
    if not holders:
        return "other jobs"
    named = ", ".join(f"`{holder}`" for holder in holders)
    return f"{named} and {count - len(holders)} more" if count > len(holders) else named
