"""Exit records as runners send them: with the last member's, the attempt is over.

Owns the `exit` column of attempt_members. What an end means for the job is `life`'s to decide.
"""

from __future__ import annotations

import msgspec

from trackyard.core.ports import ExitRecord, deciding_exit
from trackyard.queue.attempts import heartbeats, hints, log_policies
from trackyard.queue.records import attempt_of
from trackyard.queue.transitions import end_attempt
from trackyard.store.database import Tx


def take_exit(tx: Tx, attempt_id: str, record: ExitRecord, raw: bytes) -> None:
    """Keep a member's exit record, and end the attempt once all members have sent theirs."""
    attempt = attempt_of(tx, attempt_id, lock=True)
    if attempt is None:
        return
    tx.run(
        "UPDATE attempt_members SET exit = ? WHERE attempt = ? AND member = ? AND exit IS NULL",
        (raw.decode(), attempt.id, record.member),
    )
    heartbeats.take_last_signs(tx, record)
    rows = tx.all("SELECT exit FROM attempt_members WHERE attempt = ?", (attempt.id,))
    if any(row[0] is None for row in rows):
        return
    records = [ExitRecord.from_json(msgspec.json.decode(row[0])) for row in rows]
    deciding = deciding_exit(records)
    if deciding is not None:
        verdict = log_policies.judged(tx, deciding, hints.judged(tx, deciding))
        end_attempt(tx, attempt_id, verdict)
