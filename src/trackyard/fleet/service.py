"""The fleet as the server uses it: takes reports, looks and heartbeats, and ticks.

Owns the checks that only the server can make (lost GPUs, clocks, failed attempts), and when they
are made. What is done to a node is decided in `verdicts`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from trackyard.core.health import CheckName, CheckReport, CheckVerdict
from trackyard.core.node import NodeState
from trackyard.core.ports import NodeReport
from trackyard.core.reasons import in_singular
from trackyard.fleet import evidence, nodes, verdicts
from trackyard.fleet.evidence import EvidenceReporter
from trackyard.fleet.nodes import NodeRow
from trackyard.fleet.policy import HealthPolicy
from trackyard.store.database import Tx

PRUNE_MS = 3_600_000
MAX_REMEMBERED = 20_000
#: Heartbeats, each perhaps late, after which a clock that looks slow is called so.
ENOUGH_BEATS = 3


class Clocks:
    """How far nodes' clocks are from ours, from heartbeats.

    A heartbeat can only arrive late, which makes its clock look slow; so of the heartbeats between
    two looks the one furthest ahead is nearest the truth, and one alone proves no slowness.
    """

    def __init__(self) -> None:
        self._ahead: dict[tuple[str, EvidenceReporter], tuple[int, int]] = {}

    def note(self, node_id: str, reporter: EvidenceReporter, ahead_ms: int) -> None:
        """Take a heartbeat's own time less ours."""
        most, count = self._ahead.get((node_id, reporter), (ahead_ms, 0))
        self._ahead[node_id, reporter] = (max(ahead_ms, most), count + 1)

    def collect(self) -> dict[str, list[tuple[EvidenceReporter, int]]]:
        """Return what attempts on each node told by now, and begin anew with those."""
        found: dict[str, list[tuple[EvidenceReporter, int]]] = {}
        for (node, reporter), (most, count) in list(self._ahead.items()):
            if most >= 0 or count >= ENOUGH_BEATS:
                found.setdefault(node, []).append((reporter, most))
                del self._ahead[node, reporter]
        return found


class Fleet:
    """Nodes and their health."""

    def __init__(self, policy: HealthPolicy | None = None) -> None:
        self.policy = policy or HealthPolicy()
        self.clocks = Clocks()
        self._pruned_ms = 0
        self._taken: OrderedDict[tuple[str, int], int] = OrderedDict()

    def record(self, tx: Tx, engine: str, reports: Sequence[NodeReport]) -> bool:
        """Write down what the engine says of its nodes; return whether something changed."""
        changed = nodes.record(tx, engine, reports)
        for report in reports:
            if report.checks:
                changed |= self.take(tx, report.node_id, report.checks, source="engine")
        return changed

    def take(
        self,
        tx: Tx,
        node_id: str,
        checks: Iterable[CheckReport],
        *,
        source: str,
        reporter: EvidenceReporter | None = None,
    ) -> bool:
        """Take a look at one node; return whether its state changed."""
        return verdicts.take(tx, self.policy, node_id, checks, source=source, reporter=reporter)

    def is_news(self, attempt_id: str, member: int, checks: Sequence[CheckReport]) -> bool:
        """Tell whether a runner's look was not taken yet; it sends the same one many times."""
        return _newest(checks) > self._taken.get((attempt_id, member), 0)

    def note_taken(self, attempt_id: str, member: int, checks: Sequence[CheckReport]) -> None:
        """Remember a runner's look that was written down."""
        self._taken[attempt_id, member] = _newest(checks)
        while len(self._taken) > MAX_REMEMBERED:
            self._taken.popitem(last=False)

    def set_state(
        self,
        tx: Tx,
        node_id: str,
        state: NodeState,
        *,
        note: str,
        actor: str,
        until_ms: int | None = None,
    ) -> None:
        """Do to a node what an operator says; giving it back accepts what was counted so far."""
        nodes.set_state(tx, node_id, state, note=note, actor=actor, until_ms=until_ms)
        if state is NodeState.READY:
            verdicts.accept(tx, node_id)

    def tick(self, tx: Tx) -> bool:
        """Make the server's own checks and end what is over; return whether a node changed."""
        changed = bool(nodes.end_drains(tx))
        skews = self.clocks.collect()
        failed = evidence.count(tx, tx.now_ms - self.policy.jobs_ms)
        known = verdicts.load_checks(tx)
        for row in nodes.load(tx):
            if row.engine_state == nodes.DOWN:
                continue
            has = {check.name for check in known.get(row.id, [])}
            checks = [
                *self._gpus(row, tx.now_ms),
                *self._jobs(tx, row, failed.get(row.id, 0), CheckName.JOBS in has),
            ]
            for reporter, ahead_ms in skews.get(row.id, ()):
                clock = self._clock(ahead_ms, tx.now_ms)
                changed |= self.take(
                    tx, row.id, [clock], source=verdicts.SERVER, reporter=reporter
                )
            if checks or has:
                changed |= verdicts.take(
                    tx,
                    self.policy,
                    row.id,
                    checks,
                    source=verdicts.SERVER,
                    before=None if row.id in skews else known.get(row.id, []),
                )
        if tx.now_ms - self._pruned_ms > PRUNE_MS:
            self._pruned_ms = tx.now_ms
            verdicts.prune(tx, self.policy)
        return changed

    def _gpus(self, row: NodeRow, now_ms: int) -> list[CheckReport]:
        if not row.expected_gpus:
            return []
        present = len(row.facts.gpus)
        gone = max(0, row.expected_gpus - present)
        sentence = f"All {row.expected_gpus} GPUs are there."
        if gone:
            verb = "is" if gone == 1 else "are"
            sentence = f"{gone} of {row.expected_gpus} GPUs {verb} gone; it reports {present}."
        return [
            CheckReport(
                name=CheckName.GPUS,
                verdict=CheckVerdict.FAIL if gone else CheckVerdict.OK,
                sentence=in_singular(sentence.replace("All 1 GPUs are", "Its GPU is")),
                number=float(gone),
                unit="GPUs",
                at_ms=now_ms,
            )
        ]

    def _clock(self, ahead_ms: int, now_ms: int) -> CheckReport:
        seconds = ahead_ms / 1000
        verdict = CheckVerdict.OK
        if abs(seconds) >= self.policy.clock_warn_seconds:
            verdict = CheckVerdict.WARN
        if abs(seconds) >= self.policy.clock_fail_seconds:
            verdict = CheckVerdict.FAIL
        way = "ahead of" if seconds > 0 else "behind"
        return CheckReport(
            name=CheckName.CLOCK,
            verdict=verdict,
            sentence=f"Its clock is {abs(seconds):.1f} s {way} the server's.",
            number=round(seconds, 3),
            unit="s",
            at_ms=now_ms,
        )

    def _jobs(self, tx: Tx, row: NodeRow, count: int, has_row: bool) -> list[CheckReport]:
        since_ms = evidence.since(self.policy, row, tx.now_ms)
        if count and row.state != NodeState.QUARANTINED:
            count = evidence.count_one(tx, row.id, since_ms)
        if not count and not has_row:
            return []
        verdict = CheckVerdict.WARN if count else CheckVerdict.OK
        is_enough = count >= self.policy.jobs_fail > 0
        is_confirmed = is_enough and evidence.is_confirmed(tx, row.id, CheckName.JOBS, since_ms)
        if is_confirmed:
            verdict = CheckVerdict.FAIL
        hours = f"{self.policy.jobs_hours:g} h"
        sentence = f"No attempt ended there as on broken hardware within {hours}."
        if count:
            ends = "attempt" if count == 1 else "attempts"
            sentence = f"{count} {ends} ended there as on broken hardware within {hours}."
            if is_enough and not is_confirmed:
                sentence = f"{sentence} {verdicts.SUSPICION}"
        return [
            CheckReport(
                name=CheckName.JOBS,
                verdict=verdict,
                sentence=sentence,
                number=float(count),
                unit="attempts",
                at_ms=tx.now_ms,
            )
        ]


def _newest(checks: Sequence[CheckReport]) -> int:
    return max((check.at_ms for check in checks), default=0)
