"""What the settings in force promise a team in a queue, in words.

Owns the sentences of `yard explain-policy` and of a submission's plan. Every number comes from
the policy and the settings it is given; it reads nothing itself and decides nothing. A test holds
that each field of Preemption is either spoken of here or listed as of no weight to users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from trackyard.core.job import PriorityClass
from trackyard.core.reasons import duration_words, in_singular
from trackyard.queue.shares.classes import BUDGET_DAYS, rule_of
from trackyard.queue.shares.settings import QueueSettings, TeamShare, quota_of
from trackyard.scheduling.policy import HOUR, Backfill, Policy, PreemptionRules, QueueOrder
from trackyard.scheduling.shares.requests import DEFAULT_CPUS, LEFT_FOR_OTHERS

_GIB = 2**30
_ORDERS = {
    QueueOrder.FIFO: "the job that was submitted first",
    QueueOrder.FAIR: "a job of the team that has used least for its share (use counts half after"
    " {half_life})",
    QueueOrder.DOMINANT: "a job of the team that holds the smallest part of GPUs, CPUs or memory"
    " for its share",
    QueueOrder.SHORTEST: "the job that is predicted to be shortest",
    QueueOrder.DEFAULT: "a job of the team that has used least for its share, where shares differ,"
    " and else the job with the fewest predicted GPU-seconds, stretched or shrunk up to"
    " {stretch:g} times by how far its team is above or below its share",
}
#: Fields of Preemption that bound the work of a pass, and promise users nothing.
SILENT = frozenset(("attempts_per_pass", "max_victims"))
#: Fields of Preemption that `_preemption` and `stop_words` speak of.
SPOKEN = frozenset(
    (
        "lower_classes",
        "reclaim",
        "reclaim_after_seconds",
        "yield_to_shorter",
        "yield_ratio",
        "loss_ratio",
        "restart_seconds",
        "max_stops_per_hour",
        "min_run_seconds",
        "grace_seconds",
    )
)


class QueuePromise(msgspec.Struct, frozen=True):
    """What is promised about one thing."""

    topic: str
    sentences: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class PromiseTerms:
    """All that the promises to one team in one queue depend on."""

    policy: Policy
    queue: str
    rules: QueueSettings
    team: str
    share: TeamShare
    #: every team with its claim
    shares: Mapping[str, TeamShare]


def promises(terms: PromiseTerms) -> list[QueuePromise]:
    """Say what the settings promise, one topic after the other."""
    found = (
        ("order", _order(terms)),
        ("reservation", _reservation(terms)),
        ("waiting", _waiting(terms)),
        ("preemption", _preemption(terms.policy.preemption)),
        ("preemptible", _preemptible(terms)),
        ("quota", _quota(terms)),
        ("borrowing", _borrowing(terms)),
        ("classes", _classes(terms)),
        ("default requests", _requests(terms.rules)),
        ("limits", _limits(terms)),
    )
    return [QueuePromise(topic, list(sentences)) for topic, sentences in found if sentences]


def stop_words(policy: Policy, *, is_preemptible: bool) -> str:
    """Say whether a job may be stopped for others, and what that means for it."""
    rules = policy.preemption
    if not rules.is_on:
        return "Not preemptible: under this server's policy nobody is stopped for others."
    if not is_preemptible:
        return (
            "Not preemptible: once it runs it is not stopped for other jobs. With --preemptible"
            " it may be, and goes on later from its last checkpoint."
        )
    return (
        f"Preemptible: it may be stopped for {_any_of(_claimants(rules))}, but not before it ran"
        f" {duration_words(rules.min_run_seconds)}, with {_grace(rules)} to save; it goes on later"
        " from its last checkpoint. Without a checkpoint it starts over."
    )


def _claimants(rules: PreemptionRules) -> list[str]:
    found = []
    if rules.lower_classes:
        found.append("a job of a higher class")
    if rules.reclaim:
        found.append("a team whose quota it borrows")
    if rules.yield_to_shorter:
        found.append("a much shorter job of its class")
    return found


def _order(terms: PromiseTerms) -> Sequence[str]:
    policy, rules = terms.policy, terms.rules
    order = QueueOrder(rules.order) if rules.order else policy.order
    words = _ORDERS[order].format(
        half_life=duration_words(policy.half_life_seconds), stretch=policy.share_stretch
    )
    classes = ", ".join(level.name.lower() for level in sorted(PriorityClass, reverse=True))
    return (
        f"Higher priority classes go first: {classes}.",
        (
            "Within a class, jobs within their team's quota go first, then those that borrow from"
            " their own department, then those that borrow from others, and among these"
            f" queues by rank (queue {terms.queue} has rank {rules.rank}; lower goes first)."
        ),
        f"After that the next one is {words} (order {order.value}).",
    )


def _reservation(terms: PromiseTerms) -> Sequence[str]:
    policy = terms.policy
    if policy.backfill is Backfill.STRICT:
        return ("Order is strict: nothing passes the first job that waits.",)
    if policy.backfill is Backfill.SKIP:
        return ("Whatever fits may pass a job that does not; no room is kept for anyone.",)
    who = "the first waiting job of each class and of each team within its quota"
    if policy.backfill is Backfill.CONSERVATIVE:
        who = f"each of the first {policy.reservations} waiting jobs"
    return (
        (
            f"Room is kept for {who}; others may pass only if they are predicted to end before"
            " that room is needed, or do not touch it."
        ),
    )


def _waiting(terms: PromiseTerms) -> Sequence[str]:
    policy = terms.policy
    order = QueueOrder(terms.rules.order) if terms.rules.order else policy.order
    if order is not QueueOrder.DEFAULT:
        return ("There is no bound on waiting besides the order and the reservation.",)
    day = duration_words(policy.passing_seconds(24 * HOUR))
    return (
        (
            f"Every {duration_words(policy.halving_seconds)} of waiting halve a job's predicted"
            " length in the order, so nobody is passed for ever."
        ),
        (
            "A job predicted to take a day on one GPU can be passed only by jobs of its class"
            f" that were submitted less than {day} after it; a shorter one by fewer."
        ),
    )


def _preemption(rules: PreemptionRules) -> Sequence[str]:
    if not rules.is_on:
        return ("Nobody is stopped for another job.",)
    found = []
    if rules.lower_classes:
        found.append("A job may stop preemptible jobs of lower classes.")
    if rules.reclaim:
        found.append(
            "A team within its quota may stop preemptible jobs of teams beyond theirs: of lower"
            " classes at once, of the same class when its own job has waited"
            f" {duration_words(rules.reclaim_after_seconds)}."
        )
    if rules.yield_to_shorter:
        found.append(
            "Within a class a job may stop a preemptible one that has saved and is predicted to"
            f" run on, within its time limit, for more than {rules.yield_ratio:g} times as long as"
            " it needs itself, plus"
            f" {rules.loss_ratio:g} times what the stop loses (work since the last checkpoint and"
            f" {duration_words(rules.restart_seconds)} to start again). Jobs of one array, name or"
            " command never stop each other, and nobody is stopped again before the job it was"
            " stopped for has ended."
        )
    found.append(
        "For a job of its own class nobody is stopped before it ran"
        f" {duration_words(rules.min_run_seconds)}, twice as long after each stop; for any job at"
        f" most {rules.max_stops_per_hour} times an hour. Those that lose least work are stopped"
        f" first, with {_grace(rules)} to save."
    )
    return found


def _grace(rules: PreemptionRules) -> str:
    if not rules.grace_seconds:
        return "no time"
    return f"{duration_words(rules.grace_seconds)} (or the job's own --grace, if shorter)"


def _preemptible(terms: PromiseTerms) -> Sequence[str]:
    words = {
        "no": "Jobs are not preemptible unless they say so (--preemptible).",
        "yes": "Jobs are preemptible unless they opt out (--not-preemptible).",
        "always": "All jobs are preemptible; they cannot opt out.",
    }
    return (words[terms.rules.preemptible_default],)


def _quota(terms: PromiseTerms) -> Sequence[str]:
    share, team = terms.share, terms.team
    found = list(_departments(terms))
    if share.quota_gpus is None:
        found.append(f"Team {team} has no quota: it competes by its share of {share.share:g}.")
    else:
        found.append(
            f"{share.quota_gpus:g} GPUs are team {team}'s own; its share beyond that is"
            f" {share.share:g}."
        )
    if share.limit_gpus is not None:
        found.append(f"It never holds more than {share.limit_gpus:g} GPUs.")
    if share.max_running is not None:
        found.append(f"It never runs more than {share.max_running} jobs at once.")
    return found


def _departments(terms: PromiseTerms) -> Iterator[str]:
    """Say where the team stands in the tree, and what that means for its share."""
    shares, team, parent = terms.shares, terms.team, terms.share.parent
    below = [name for name, one in shares.items() if one.parent == team]
    if below:
        yield (
            f"Team {team} is a department of {', '.join(below)}: its quota, limits and share hold"
            " for all of them together."
        )
    if not parent:
        return
    quota = quota_of(parent, shares)
    owns = f"has {quota:g} GPUs of its own" if quota else "has no quota"
    siblings = [f"{name} {one.share:g}" for name, one in shares.items() if one.parent == parent]
    yield (
        f"Team {team} is in department {parent}, which {owns} and a share of"
        f" {shares[parent].share:g}; within it the shares are {', '.join(siblings)}."
    )
    yield (
        "Which department is next is decided first, by what its teams used together for its share,"
        " and then which team in it."
    )


def _borrowing(terms: PromiseTerms) -> Sequence[str]:
    rules, share, shares = terms.policy.preemption, terms.share, terms.shares
    top = [name for name, one in shares.items() if not one.parent]
    others = sum(quota_of(name, shares) for name in top) - (share.quota_gpus or 0.0)
    lent = sum(one.lendable_gpus for name, one in shares.items() if name != terms.team)
    first = f", those of department {share.parent} first" if share.parent else ""
    found = [
        (
            f"Its preemptible jobs may borrow what other teams leave of their quotas, {others:g}"
            f" GPUs in all{first}."
        ),
        (
            "Jobs that may not be preempted stay within the team's own quota, what no quota"
            f" promises to anyone, and what others lend to such jobs ({lent:g} GPUs)."
        ),
    ]
    if share.lendable_gpus:
        found.append(
            f"It lends {share.lendable_gpus:g} GPUs of its quota to jobs of others that may not be"
            " preempted; these come back when such a job ends."
        )
    if not rules.reclaim:
        found.append("What is lent comes back when the borrower's job ends.")
    elif terms.share.quota_gpus:
        found.append(
            "What others borrow of its quota comes back"
            f" {duration_words(rules.reclaim_after_seconds)} after its own job began to wait, at"
            f" once for a job of a higher class, plus {_grace(rules)} to save."
        )
    return found


def _classes(terms: PromiseTerms) -> Sequence[str]:
    found = []
    for level in sorted(PriorityClass, reverse=True):
        rule = rule_of(level, terms.rules, terms.share)
        if rule.role != "member":
            who = "admins" if rule.role == "admin" else f"the role {rule.role} and above"
            found.append(f"Priority {level.name.lower()} is for {who} (set by the {rule.source}).")
    found.append("The other classes are open to every member; admins may use all.")
    budget = terms.share.urgent_gpu_hours
    if budget is None:
        found.append("Urgent jobs have no budget.")
    else:
        found.append(
            f"Urgent jobs of the team may use {budget:g} GPU-hours in {BUDGET_DAYS} days; they"
            " state a time limit, and what open ones may still use counts."
        )
    return found


def _requests(rules: QueueSettings) -> Sequence[str]:
    cpus = DEFAULT_CPUS if rules.default_cpus is None else rules.default_cpus
    memory = rules.default_memory_bytes or 0
    found = [
        f"A job without GPUs that states nothing gets {_amounts(cpus, memory)}.",
    ]
    per_gpu, memory_per_gpu = rules.default_cpus_per_gpu, rules.default_memory_per_gpu_bytes
    part = f"its GPUs' part of the node's {{}}, of which 1/{LEFT_FOR_OTHERS} is left to others"
    found.append(
        "A job with GPUs gets "
        + (part.format("CPUs") if per_gpu is None else f"{per_gpu:g} CPUs for each GPU")
        + " and "
        + (
            part.format("memory")
            if memory_per_gpu is None
            else f"{memory_per_gpu / _GIB:.3g} GiB for each GPU"
        )
        + "."
    )
    found.append(
        "CPUs are a limit as well as a reservation; memory is one only where the job states it."
    )
    if not rules.zero_cpus:
        found.append("Jobs must hold CPUs: --cpus 0 is refused.")
    return found


def _limits(terms: PromiseTerms) -> Sequence[str]:
    rules = terms.rules
    found = []
    if rules.teams:
        found.append(f"The queue takes jobs of {', '.join(rules.teams)} alone.")
    words = (
        (rules.quota_gpus, "{:g} GPUs in use by the queue at once"),
        (rules.max_running, "{:g} jobs of the queue at once"),
        (rules.max_gpus_per_job, "{:g} GPUs in one job"),
        (rules.max_nodes_per_job, "{:g} nodes in one job"),
        (rules.max_cpus_per_job, "{:g} CPUs in one job"),
        (rules.max_gpus_per_user, "{:g} GPUs of one user at once"),
        (rules.max_running_per_user, "{:g} jobs of one user at once"),
    )
    bounds = [text.format(value) for value, text in words if value is not None]
    if rules.max_memory_per_job_bytes is not None:
        bounds.append(f"{rules.max_memory_per_job_bytes / _GIB:.3g} GiB of memory in one job")
    if rules.max_wall_seconds is not None:
        bounds.append(f"a stated time limit of at most {duration_words(rules.max_wall_seconds)}")
    if bounds:
        found.append(in_singular(f"At most {', '.join(bounds)}."))
    return found


def _amounts(cpus: float, memory: int) -> str:
    word = f"{cpus:g} CPU{'' if cpus == 1 else 's'}"
    return f"{word} and {memory / _GIB:.3g} GiB" if memory else f"{word} and no memory of its own"


def _any_of(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"
