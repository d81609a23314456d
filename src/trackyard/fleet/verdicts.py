"""Verdicts on nodes: how each check stands, the log of them, and what follows by the policy.

Owns `node_checks` and `node_verdicts`. A node is quarantined after enough failed looks in a row
and given back after enough good ones; what an operator did by hand is left alone. What an attempt
reports is a suspicion until others confirm it (`evidence`), changes nothing where the engine or
the server looks for itself, and is told to other teams in our words alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from trackyard.core.health import COUNTED, CheckName, CheckReport, CheckVerdict, worst
from trackyard.core.node import NodeState
from trackyard.fleet import evidence
from trackyard.fleet.evidence import EvidenceReporter
from trackyard.fleet.nodes import (
    HEALTH,
    SYSTEM,
    NodeRow,
    accept_gpus,
    find,
    node_event,
    set_state,
)
from trackyard.fleet.policy import AUTO, HealthPolicy
from trackyard.store.database import ReadConnection, Tx

UNKNOWN = "unknown"
RUNNER, SERVER = "runner", "server"
SUSPICION = "This is a suspicion until the node's own check or another team's job confirms it."
#: Engine and server look more often than this at what they check themselves.
OWN_LOOK_MS = 3_600_000
#: A check that goes on holding is written down again only this often.
REFRESH_MS = 600_000
_DAY_MS = 86_400_000


class CheckRow(NamedTuple):
    """How one check of a node stands."""

    node_id: str
    name: str
    verdict: str
    sentence: str
    number: float | None
    unit: str
    source: str
    at_ms: int
    since_ms: int
    failed: int
    passed: int
    accepted: float


class VerdictRow(NamedTuple):
    """One line of the log."""

    id: int
    node_id: str
    name: str
    verdict: str
    sentence: str
    number: float | None
    unit: str
    source: str
    attempt_id: str
    at_ms: int
    job_id: str
    #: the team whose attempt said so; None for the engine's and the server's own looks
    team_id: int | None


class _Look(NamedTuple):
    node_id: str
    source: str
    reporter: EvidenceReporter | None
    #: found to fail by an attempt, and not confirmed
    is_suspicion: bool = False


_CHECKS = ", ".join(CheckRow._fields)
_VERDICTS = ", ".join(VerdictRow._fields)


def load_checks(
    reader: ReadConnection | Tx, node_id: str | None = None
) -> dict[str, list[CheckRow]]:
    """Return how checks stand, by node; of one node or of all."""
    where, values = ("", ()) if node_id is None else (" WHERE node_id = ?", (node_id,))
    found: dict[str, list[CheckRow]] = {}
    for row in reader.all(
        f"SELECT {_CHECKS} FROM node_checks{where} ORDER BY node_id, name", values
    ):
        found.setdefault(str(row[0]), []).append(CheckRow(*row))
    return found


def load_verdicts(
    reader: ReadConnection | Tx, node_id: str, *, limit: int = 100, name: str = ""
) -> list[VerdictRow]:
    """Return a node's log of verdicts, newest first."""
    where, values = ("", ()) if not name else (" AND name = ?", (name,))
    rows = reader.all(
        f"SELECT {_VERDICTS} FROM node_verdicts WHERE node_id = ?{where} ORDER BY id DESC LIMIT ?",
        (node_id, *values, limit),
    )
    return [VerdictRow(*row) for row in rows]


def overall(checks: Sequence[CheckRow]) -> str:
    """Say in one word how a node is: ok, warn, fail, or unknown where nobody looked."""
    if not checks:
        return UNKNOWN
    return worst(CheckVerdict(check.verdict) for check in checks).value


def take(
    tx: Tx,
    policy: HealthPolicy,
    node_id: str,
    checks: Iterable[CheckReport],
    *,
    source: str,
    reporter: EvidenceReporter | None = None,
    before: Sequence[CheckRow] | None = None,
) -> bool:
    """Take a look at a node's health and do what follows; return whether its state changed.

    `reporter` is the attempt whose word it is, if it is one's. `before` is how the node's checks
    stood, where the caller has just read that.
    """
    if before is None:
        before = load_checks(tx, node_id).get(node_id, [])
    known = {row.name: row for row in before}
    node = find(tx, node_id)
    for found in checks:
        row = known.get(found.name)
        check, look = found, _Look(node_id, source, reporter)
        if reporter is not None:
            check, look = _hear(tx, policy, node, look, found)
            if row is not None and _looks_itself(row, tx.now_ms):
                continue
        if row is None or min(check.at_ms, tx.now_ms) > row.at_ms:
            known[check.name] = _take_one(tx, policy, look, check, row)
    return _follow(tx, policy, find(tx, node_id), list(known.values()))


def accept(tx: Tx, node_id: str) -> None:
    """An operator has looked: what was counted so far is no fault any more; looks count anew."""
    names = tuple(name.value for name in COUNTED)
    marks = ",".join("?" * len(names))
    tx.run(
        f"UPDATE node_checks SET accepted = number WHERE node_id = ? AND name IN ({marks})"
        " AND number > accepted",
        (node_id, *names),
    )
    tx.run("UPDATE node_checks SET failed = 0, passed = 0 WHERE node_id = ?", (node_id,))
    accept_gpus(tx, find(tx, node_id))


def prune(tx: Tx, policy: HealthPolicy) -> None:
    """Forget verdicts that are older than the policy keeps."""
    tx.run(
        "DELETE FROM node_verdicts WHERE at_ms < ?",
        (tx.now_ms - int(policy.keep_days * _DAY_MS),),
    )


# -- the word of attempts ---------------------------------------------------------------------


def _hear(
    tx: Tx, policy: HealthPolicy, node: NodeRow, look: _Look, check: CheckReport
) -> tuple[CheckReport, _Look]:
    """Note what an attempt says, and return what may be told to all: a fault that nobody
    confirmed is a warning, and the attempt's own words stay in its team.
    """
    is_fail = check.verdict is CheckVerdict.FAIL
    is_suspicion = False
    if is_fail and look.reporter is not None:
        evidence.note_failure(tx, node.id, look.reporter, check)
        since_ms = evidence.since(policy, node, tx.now_ms)
        is_suspicion = not evidence.is_confirmed(tx, node.id, check.name, since_ms)
    sentence = check.sentence if look.source == SERVER else _in_our_words(check)
    if is_suspicion:
        sentence = f"{sentence} {SUSPICION}"
    heard = replace(
        check,
        verdict=CheckVerdict.WARN if is_suspicion else check.verdict,
        sentence=sentence,
        unit=check.unit if look.source == SERVER else "",
    )
    return heard, look._replace(source=RUNNER, is_suspicion=is_suspicion)


def _in_our_words(check: CheckReport) -> str:
    verb = {CheckVerdict.OK: "holds", CheckVerdict.WARN: "warns", CheckVerdict.FAIL: "fails"}[
        check.verdict
    ]
    number = "" if check.number is None else f" ({check.number:g})"
    return f"A job's runner found that the check `{check.name}` {verb}{number}."


def _looks_itself(row: CheckRow, now_ms: int) -> bool:
    """Tell whether engine or server make this check themselves, so that theirs decides."""
    return row.source != RUNNER and now_ms - row.at_ms < OWN_LOOK_MS


# -- one check --------------------------------------------------------------------------------


def _take_one(
    tx: Tx,
    policy: HealthPolicy,
    look: _Look,
    check: CheckReport,
    before: CheckRow | None,
) -> CheckRow:
    verdict, sentence = check.verdict, check.sentence
    accepted = before.accepted if before else 0.0
    if verdict is CheckVerdict.FAIL and check.name in COUNTED and (check.number or 0) <= accepted:
        verdict, sentence = (
            CheckVerdict.WARN,
            f"{sentence} An operator has seen and accepted this.",
        )
    is_fail = verdict is CheckVerdict.FAIL
    is_bad = is_fail or look.is_suspicion
    is_same = before is not None and before.verdict == verdict
    row = CheckRow(
        node_id=look.node_id,
        name=check.name.value,
        verdict=verdict.value,
        sentence=sentence,
        number=check.number,
        unit=check.unit,
        source=look.source,
        at_ms=min(check.at_ms, tx.now_ms),
        since_ms=before.since_ms if before and is_same else tx.now_ms,
        failed=(before.failed if before else 0) + 1 if is_bad else 0,
        passed=0 if is_bad else (before.passed if before else 0) + 1,
        accepted=accepted,
    )
    if before and _is_old_news(policy, before, row):
        return before
    marks = ", ".join("?" * len(row))
    news = ", ".join(f"{column} = excluded.{column}" for column in CheckRow._fields[2:])
    tx.run(
        f"INSERT INTO node_checks ({_CHECKS}) VALUES ({marks})"
        f" ON CONFLICT (node_id, name) DO UPDATE SET {news}",
        row,
    )
    # A fault that an attempt reported is in the log already, in its own words.
    is_logged = look.reporter is not None and is_bad
    if not is_logged and (not is_same or (is_fail and row.failed <= policy.quarantine_after)):
        _log(tx, row, look.reporter)
    _tell(tx, row, CheckVerdict(before.verdict) if before else CheckVerdict.OK)
    return row


def _is_old_news(policy: HealthPolicy, before: CheckRow, row: CheckRow) -> bool:
    return (
        row.verdict == before.verdict == CheckVerdict.OK
        and before.passed >= policy.lift_after
        and row.at_ms - before.at_ms < REFRESH_MS
    )


def _log(tx: Tx, row: CheckRow, reporter: EvidenceReporter | None) -> None:
    tx.run(
        "INSERT INTO node_verdicts (node_id, name, verdict, sentence, number, unit, source,"
        " attempt_id, job_id, team_id, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            row.node_id,
            row.name,
            row.verdict,
            row.sentence,
            row.number,
            row.unit,
            row.source,
            *(reporter or ("", "", None)),
            tx.now_ms,
        ),
    )


def _tell(tx: Tx, row: CheckRow, before: CheckVerdict) -> None:
    now = CheckVerdict(row.verdict)
    if now.rank > before.rank:
        kind = "node.check_failed"
    elif now is CheckVerdict.OK and before is not CheckVerdict.OK:
        kind = "node.check_passed"
    else:
        return
    node_event(
        tx,
        kind,
        row.node_id,
        check=row.name,
        verdict=row.verdict,
        sentence=row.sentence,
        number=row.number,
        unit=row.unit,
        source=row.source,
    )


# -- what follows -----------------------------------------------------------------------------


def _follow(tx: Tx, policy: HealthPolicy, node: NodeRow, checks: Sequence[CheckRow]) -> bool:
    if node.state == NodeState.READY:
        guilty = quarantines(policy, checks)
        if guilty is None:
            return False
        set_state(
            tx,
            node.id,
            NodeState.QUARANTINED,
            note=f"{guilty.name}: {guilty.sentence}"[:500].rstrip("."),
            actor=SYSTEM,
            by=HEALTH,
            check=guilty.name,
            sentence=_quarantine_sentence(node.id, guilty),
        )
        return True
    if node.state == NodeState.QUARANTINED and node.state_by == HEALTH:
        if not lifts(policy, checks, state_ms=node.state_ms, now_ms=tx.now_ms):
            return False
        words = f"{node.id} takes work again: its checks hold."
        set_state(tx, node.id, NodeState.READY, note="", actor=SYSTEM, by=HEALTH, sentence=words)
        return True
    return False


def _quarantine_sentence(node_id: str, guilty: CheckRow) -> str:
    looks = f" ({guilty.failed} looks in a row)" if guilty.failed > 1 else ""
    return (
        f"{node_id} is quarantined: {guilty.sentence.rstrip('.')}{looks}."
        " What runs there goes on; nothing new starts."
    )


#: Failed attempts are counted already, so one look at the count is enough; a preflight is made by
#: whole gangs, and its second failure is no accident.
_NEEDED: dict[str, int] = {CheckName.JOBS: 1, CheckName.PREFLIGHT: 2}


def quarantines(policy: HealthPolicy, checks: Sequence[CheckRow]) -> CheckRow | None:
    """Return the check for which a node is to be quarantined, if any."""
    if not policy.quarantine_after:
        return None
    for check in checks:
        needed = _NEEDED.get(check.name, policy.quarantine_after)
        if check.verdict == CheckVerdict.FAIL and check.failed >= needed:
            return check
    return None


def lifts(policy: HealthPolicy, checks: Sequence[CheckRow], *, state_ms: int, now_ms: int) -> bool:
    """Tell whether a quarantine that health made may be lifted by itself."""
    if policy.lift != AUTO:
        return False
    return all(_holds_again(policy, check, state_ms, now_ms) for check in checks)


def _holds_again(policy: HealthPolicy, check: CheckRow, state_ms: int, now_ms: int) -> bool:
    if check.source == RUNNER:
        # Only a job would make a runner look again, and none starts there: try it after a while.
        waited = now_ms - max(check.at_ms, state_ms) >= policy.probation_minutes * 60_000
        if waited:
            return True
    if check.verdict == CheckVerdict.FAIL:
        return False
    return check.since_ms < state_ms or check.passed >= policy.lift_after
