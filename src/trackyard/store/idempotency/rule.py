"""Retries of create calls. Owns `lost_answers` and the one rule by which a second equal call gets
what the first one made; knows nothing of what is created.

Stock clients repeat a POST whose answer they did not get, with no key on the wire. Two equal calls
may as well be two honest ones: proxies and connection pools close connections after every answer.
So a call is taken for a retry only with proof that the first answer was handed to nobody:

- the server saw the first caller's connection end before it wrote the answer to it, or answered
  with an error; or
- the process died before it began to write the answer (`store.idempotency.pending`), and the
  machine did not.

A proof is used once. Wherever there is none, the call makes something new: a second empty run is
cheaper than two scripts in one.
"""

from __future__ import annotations

import enum
import hashlib
import logging
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from trackyard.core.errors import YardError
from trackyard.store.database import Database, Tx
from trackyard.store.idempotency.pending import PendingCreate, PendingFile

log = logging.getLogger(__name__)

#: How long a proof is kept: longer than any stock client goes on trying.
WINDOW_MS = 15 * 60 * 1000
_encode = msgspec.json.Encoder(order="sorted").encode


def digest_of(*parts: Any) -> str:
    """Return one fingerprint of a caller, a route and a request's words (JSON-ready values)."""
    return hashlib.sha256(_encode(parts)).hexdigest()


class _State(enum.Enum):
    """How far a create call has come."""

    OPEN = "not answered yet"
    ANSWERED = "its answer began to leave"
    LOST = "its answer will never leave"
    PROVEN = "lost, and in the table"
    TAKEN = "lost, and given to its retry"


class Create:
    """One create call, from its arrival until its answer leaves or is lost."""

    __slots__ = ("_creates", "_first", "_is_gone", "_slot", "_state", "digest", "result")

    def __init__(self, creates: Creates, digest: str, is_gone: Callable[[], bool]) -> None:
        self._creates = creates
        self._is_gone = is_gone
        self._state = _State.OPEN
        self._slot: int | None = None
        #: the call whose lost answer this one was given
        self._first: Create | None = None
        self.digest = digest
        #: what was made, once it was
        self.result: str | None = None

    def is_first(self) -> bool:
        """Tell, without looking at the database, whether this is no retry."""
        return self._creates.is_new(self)

    def retried(self, tx: Tx, is_usable: Callable[[str], bool]) -> str | None:
        """Return what an earlier equal call made, if its answer was handed to nobody.

        `is_usable` tells whether that is still there as it was made.
        """
        self.result = None
        found = self._creates.find(tx, self, is_usable)
        if found is not None:
            self.made(found)
        return found

    def made(self, result: str) -> None:
        """Note what this call makes; to be called before its commit."""
        self.result = result
        self._slot = self._creates.file.put(self._slot, PendingCreate(self.digest, result))

    def claim(self) -> bool:
        """Ask, right before the answer leaves, whether it may."""
        creates = self._creates
        with creates.lock:
            if self._state is not _State.OPEN:
                return False
            self._state = _State.ANSWERED
        self._close()
        return True

    async def unanswered(self) -> None:
        """Note that the answer was not handed over and never will be."""
        with self._creates.lock:
            is_lost = self._state is not _State.TAKEN and self.result is not None
            if is_lost:
                self._state = _State.LOST
        if is_lost:
            try:
                await self._creates.prove(self)
            except YardError as fault:
                # The entry in the file stays, and is a proof after the next start.
                log.warning("cannot note that an answer was lost: %s", fault.message)
                self._creates.drop(self)
                return
        self._close()

    def give_to(self, retry: Create) -> str | None:
        """Return what was made if its answer was lost, and let no other call have it."""
        with self._creates.lock:
            if self._state is _State.OPEN and self.result is not None and self._is_gone():
                self._state = _State.LOST
            if self._state is not _State.LOST:
                return None
            self._state = _State.TAKEN
        retry._first = self
        return self.result

    def prove(self, tx: Tx) -> None:
        """Write the proof, unless a retry has come first."""
        with self._creates.lock:
            if self._state not in (_State.LOST, _State.PROVEN):
                return
            self._state = _State.PROVEN
        assert self.result is not None
        write_proof(tx, self.digest, self.result)

    @property
    def inherited(self) -> str | None:
        """What the first call made whose lost answer this one was given before."""
        return self._first.result if self._first is not None else None

    def _close(self) -> None:
        self._creates.file.clear(self._slot)
        self._slot = None
        self._creates.drop(self)


class Creates:
    """The create calls under way in this process, and the proofs in the database."""

    def __init__(self, database: Database, file: PendingFile | None = None) -> None:
        self._database = database
        self.file = file or PendingFile()
        #: guards the states: on PostgreSQL writes run in a thread
        self.lock = threading.Lock()
        self._open: dict[str, list[Create]] = {}
        #: digests for which there may be a proof; others of this database are not among them
        self._proven: set[str] = set()

    async def recover(self) -> None:
        """Turn what an earlier process did not answer into proofs, before the first call comes."""
        left = self.file.recover()
        if left:
            log.info("%d create calls were cut off by the end of the last process", len(left))

        def change(tx: Tx) -> list[Any]:
            for digest, result in left:
                write_proof(tx, digest, result)
            return tx.all("SELECT digest FROM lost_answers")

        self._proven = {row[0] for row in await self._database.write(change)}

    def begin(self, digest: str, is_gone: Callable[[], bool]) -> Create:
        """Take in a create call; `is_gone` tells whether its caller's connection has ended."""
        create = Create(self, digest, is_gone)
        self._open.setdefault(digest, []).append(create)
        return create

    def drop(self, create: Create) -> None:
        """Forget a call that has come to its end."""
        equal = self._open.get(create.digest)
        if equal is not None and create in equal:
            equal.remove(create)
            if not equal:
                del self._open[create.digest]

    def is_new(self, create: Create) -> bool:
        """Tell whether nothing equal is under way or proven."""
        return len(self._open.get(create.digest, ())) < 2 and create.digest not in self._proven

    def find(self, tx: Tx, create: Create, is_usable: Callable[[str], bool]) -> str | None:
        """Return the result of an equal call that was lost, once."""
        found = create.inherited
        if found is not None and is_usable(found):
            return found  # the transaction that took it was undone
        for other in list(self._open.get(create.digest, ())):
            if other is not create:
                found = other.give_to(create)
                if found is not None and is_usable(found):
                    return found
        found = _take_proof(tx, create.digest, is_usable)
        if found is None:
            self._proven.discard(create.digest)
        return found

    async def prove(self, create: Create) -> None:
        """Write the proof that a call's answer was lost."""
        self._proven.add(create.digest)
        await self._database.write(create.prove)


def write_proof(tx: Tx, digest: str, result: str) -> None:
    """Write that the answer to a create call was handed to nobody, and sweep old proofs."""
    tx.run(
        "INSERT INTO lost_answers (digest, result, created_ms) VALUES (?, ?, ?)"
        " ON CONFLICT (digest, result) DO UPDATE SET created_ms = excluded.created_ms",
        (digest, result, tx.now_ms),
    )
    tx.run("DELETE FROM lost_answers WHERE created_ms < ?", (tx.now_ms - WINDOW_MS,))


def _take_proof(tx: Tx, digest: str, is_usable: Callable[[str], bool]) -> str | None:
    """Use up the oldest proof for a digest whose result is still as it was made."""
    rows = tx.all(
        "SELECT result FROM lost_answers WHERE digest = ? AND created_ms >= ?"
        f" ORDER BY created_ms, result{tx.dialect.for_update}",
        (digest, tx.now_ms - WINDOW_MS),
    )
    for (result,) in rows:
        tx.run("DELETE FROM lost_answers WHERE digest = ? AND result = ?", (digest, result))
        if is_usable(result):
            return str(result)
    return None
