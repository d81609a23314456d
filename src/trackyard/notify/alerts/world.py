"""What the loop knows between two passes: rules, what they remember, which runs are running.

Owns how rules are found for a subject without looking at all of them. Holds no connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from trackyard.core.alerts import Condition, ConditionKind
from trackyard.notify.alerts.evaluate import AlertChange, Fact, RuleMemory, evaluate
from trackyard.notify.alerts.records import AlertRule, IncidentSubject
from trackyard.tracking.watched import LatestPoint, WatchedRun

#: How often changes that decide nothing are written, and how many of them in one pass.
MINOR_MS, MINOR_WRITES = 60_000, 300


@dataclass(slots=True)
class RulesInForce:
    """The rules in force, by what they are about."""

    by_id: dict[str, AlertRule] = field(default_factory=dict)
    by_scope: dict[str, list[AlertRule]] = field(default_factory=dict)
    by_team: dict[int | None, list[AlertRule]] = field(default_factory=dict)
    kinds: set[ConditionKind] = field(default_factory=set)

    @classmethod
    def of(cls, rules: Iterable[AlertRule]) -> RulesInForce:
        """Sort rules by what they are about."""
        found = cls()
        for rule in rules:
            found.add(rule)
        return found

    def add(self, rule: AlertRule) -> None:
        """Take one more rule into account."""
        self.by_id[rule.id] = rule
        self.kinds.add(rule.condition.kind)
        if rule.scope:
            self.by_scope.setdefault(rule.scope, []).append(rule)
        else:
            self.by_team.setdefault(rule.team_id, []).append(rule)

    def about(self, subject: IncidentSubject, *kinds: ConditionKind) -> Iterator[AlertRule]:
        """Return the rules of some kinds that a subject falls under."""
        if not self.kinds.intersection(kinds):
            return
        found = [rule for scope in subject.scopes for rule in self.by_scope.get(scope, ())]
        found += self.by_team.get(None, ())
        if subject.team_id is not None:
            found += self.by_team.get(subject.team_id, ())
        else:
            # Nodes belong to nobody: a team's rule on nodes is about all of them.
            found += [one for team, rules in self.by_team.items() if team for one in rules]
        for rule in found:
            if rule.condition.kind in kinds:
                yield rule

    def conditions(self, kind: ConditionKind) -> Iterator[Condition]:
        """Return the conditions of one kind."""
        for rule in self.by_id.values():
            if rule.condition.kind is kind:
                yield rule.condition


@dataclass(slots=True)
class MetricWatch:
    """A rule on a metric of a run, and what it saw last."""

    rule: AlertRule
    subject: IncidentSubject
    run: WatchedRun
    #: what it remembers before its first look
    first: RuleMemory
    name_ids: list[int] = field(default_factory=list)
    seen: list[LatestPoint | None] | None = None


@dataclass(slots=True)
class AlertState:
    """All that is known after a pass."""

    cursor: int
    rules: RulesInForce
    memories: dict[tuple[str, str], RuleMemory]
    #: runs that are running, by their id, and the subject that each stands for
    runs: dict[str, WatchedRun]
    subjects: dict[str, IncidentSubject]
    #: up to where each log was searched
    logs: dict[tuple[str, int], int] = field(default_factory=dict)
    by_subject: dict[str, set[str]] = field(default_factory=dict)
    #: rules on metrics with the runs they look at; None: to be made anew
    watches: list[MetricWatch] | None = None
    metrics: dict[str, list[int]] = field(default_factory=dict)
    #: when what a rule remembers was last written
    written: dict[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rule_id, subject in self.memories:
            self.by_subject.setdefault(subject, set()).add(rule_id)


@dataclass(slots=True)
class AlertFindings:
    """What a pass found, to be applied in one transaction."""

    cursor: int
    now_ms: int
    outcomes: list[tuple[AlertRule, IncidentSubject, AlertChange, bool]] = field(
        default_factory=list
    )
    memories: dict[tuple[str, str], RuleMemory | None] = field(default_factory=dict)
    new_rules: list[AlertRule] = field(default_factory=list)
    #: scopes of rules whose job, array or run ended
    ended: list[str] = field(default_factory=list)
    #: mentions in notes: team, names, title, link, about
    mentions: list[tuple[int, list[str], str, str, str]] = field(default_factory=list)
    #: up to where logs were searched; None: they were not looked at
    logs: dict[tuple[str, int], int] | None = None
    #: the part of `memories` that is written down
    kept: dict[tuple[str, str], RuleMemory | None] = field(default_factory=dict)
    runs_over: set[str] = field(default_factory=set)
    rules_changed: bool = False
    is_more: bool = False

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to write but how far the log was read."""
        return not (self.outcomes or self.kept or self.new_rules or self.ended or self.mentions)


def choose_kept(world: AlertState, found: AlertFindings) -> None:
    """Choose what is written of what rules remember.

    What decides about an incident always is; marks and extremes, which may change with every
    look, now and then, some at a time.
    """
    minor = MINOR_WRITES
    for key, memory in found.memories.items():
        before = world.memories.get(key)
        if memory is None:
            found.kept[key] = None
        elif _decides(before, memory):
            found.kept[key] = memory
        elif minor and found.now_ms - world.written.get(key, 0) >= MINOR_MS:
            minor -= 1
            found.kept[key] = memory


def _decides(before: RuleMemory | None, after: RuleMemory) -> bool:
    known = before or RuleMemory()
    return (known.is_firing, known.bad_since_ms) != (after.is_firing, after.bad_since_ms)


def judge(
    world: AlertState,
    found: AlertFindings,
    rule: AlertRule,
    subject: IncidentSubject,
    fact: Fact,
    *,
    key: str = "",
    ended: bool = False,
    first: RuleMemory | None = None,
) -> None:
    """Judge a rule by one fact and note what follows; `key` replaces the subject's id."""
    place = (rule.id, key or subject.id)
    known = found.memories.get(place) if place in found.memories else world.memories.get(place)
    before = known or first or RuleMemory()
    after, outcome = evaluate(rule.condition, before, fact, found.now_ms)
    if after != before:
        found.memories[place] = after
    if outcome is not None:
        found.outcomes.append((rule, subject, outcome, ended))
