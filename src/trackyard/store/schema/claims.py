"""The table of claims: nodes that a running attempt asked for after it had started.

Owns its shape; knows no query. Shares the metadata of `schema`, which imports this module.
"""

from __future__ import annotations

from sqlalchemy import Index, PrimaryKeyConstraint, Table, UniqueConstraint

from trackyard.store.schema.columns import integer, ref, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "claims",
    shared,
    #: the claim's own row in the queue, and the attempt it is for
    ref("job", "jobs.id"),
    ref("attempt", "attempts.id"),
    #: what the attempt calls this demand, and which of its asking it is
    words("key"),
    integer("generation"),
    #: `gate` if the attempt asked and waits, `watch` if it was seen to take what it did not ask
    words("source"),
    #: workers wanted, the least that will do, and how many it waits for or has
    integer("workers"),
    integer("least"),
    integer("granted", nullable=True),
    #: what one worker needs, and how workers may share nodes; JSON of
    #: queue.submit.gang_shapes.WorkerRequest
    words("ask"),
    integer("released_ms", nullable=True),
    PrimaryKeyConstraint("job"),
    UniqueConstraint("attempt", "key", "generation"),
    Index(None, "attempt", "released_ms"),
)
