"""What the drivers' faults mean to a caller: a sentence and a status each. Knows no table."""

from __future__ import annotations

import sqlite3

from trackyard.core.errors import InternalFault, OutOfSpace, TooBusy, YardError

_SYNC = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
#: psycopg's faults of a database that is away, by name: the driver may not be installed.
_AWAY = frozenset(
    (
        "OperationalError",
        "AdminShutdown",
        "CannotConnectNow",
        "CrashShutdown",
        "ConnectionException",
        "ConnectionFailure",
        "ConnectionTimeout",
        "IdleInTransactionSessionTimeout",
        "InterfaceError",
        "SetupError",
        "TooManyConnections",
    )
)
#: psycopg's faults of pages that are not as they were written.
_ROTTEN = frozenset(("DataCorrupted", "IndexCorrupted"))
_MET = frozenset(("DeadlockDetected", "SerializationFailure", "LockNotAvailable"))


class SyncFault(TooBusy):
    """The disk did not confirm a commit. What it holds is unknown, so no more is taken."""


class CommitUnknown(TooBusy):
    """The database went away between the commit and its confirmation."""


def is_sync_fault(fault: BaseException) -> bool:
    """Tell whether the disk failed to flush: asking it again would hide what was lost."""
    return isinstance(fault, sqlite3.Error) and getattr(fault, "sqlite_errorcode", 0) in _SYNC


def is_away(fault: BaseException) -> bool:
    """Tell whether the database could not be reached at all."""
    return any(kind.__name__ in _AWAY for kind in type(fault).__mro__) and not isinstance(
        fault, sqlite3.Error
    )


def is_damaged(fault: BaseException) -> bool:
    """Tell whether the database met a page that is not as it was written."""
    if isinstance(fault, sqlite3.DatabaseError):
        return getattr(fault, "sqlite_errorcode", 0) & 0xFF in _DAMAGED
    return type(fault).__name__ in _ROTTEN


def damaged() -> InternalFault:
    """Return the answer to a request that met a damaged page."""
    return InternalFault(
        "the database file is damaged where this request looked; an admin can restore it from a"
        " backup, and `yard verify` names what is damaged"
    )


def is_full(fault: BaseException) -> bool:
    """Tell whether SQLite found no room on its disk."""
    return isinstance(fault, sqlite3.OperationalError) and (
        getattr(fault, "sqlite_errorcode", 0) in _FULL or "full" in str(fault)
    )


def no_room() -> OutOfSpace:
    """Return the answer while the database's disk is full."""
    return OutOfSpace(
        "the disk that holds the database is full; nothing was written. Free space (what is"
        " deleted may still be), or ask an admin to",
        retry_after=30,
    )


def explain_write(fault: BaseException) -> YardError:
    """Return the answer to a write that failed."""
    if isinstance(fault, YardError):
        return fault
    if isinstance(fault, sqlite3.OperationalError):
        if is_full(fault):
            return no_room()
        return TooBusy(f"the database cannot write now ({fault})", retry_after=2)
    if is_damaged(fault):
        return damaged()
    if type(fault).__name__ == "DiskFull":
        return OutOfSpace("the database's disk is full; nothing was written", retry_after=30)
    if type(fault).__name__ in _MET:
        return TooBusy("the write met another one; repeat it", retry_after=1)
    if is_away(fault):
        return away()
    return InternalFault("the write failed inside the server; its log has the details")


def explain_read(fault: BaseException, seconds: float | None) -> YardError | None:
    """Return the answer to a read that failed, or None when it is no fault of the database."""
    is_late = isinstance(fault, sqlite3.OperationalError) and "interrupted" in str(fault)
    if is_late or type(fault).__name__ == "QueryCanceled":
        return TooBusy(
            f"this query took over {seconds or 0:.0f} seconds and was ended; narrow it: fewer"
            " experiments, a simpler filter or a smaller page",
            retry_after=10,
        )
    if is_damaged(fault):
        return damaged()
    if isinstance(fault, sqlite3.OperationalError):
        return TooBusy(f"the database cannot be read now ({fault})", retry_after=2)
    return away() if is_away(fault) else None


def away() -> TooBusy:
    """Return the answer while the database cannot be reached."""
    return TooBusy("the database is away; the request can be repeated", retry_after=2)


def unconfirmed() -> CommitUnknown:
    """Return the answer to a write whose commit nobody can tell."""
    return CommitUnknown(
        "the database went away before it confirmed this write, so it may be there or not;"
        " repeating it is safe",
        retry_after=5,
    )


def not_kept() -> SyncFault:
    """Return the answer of a server whose disk failed to keep a commit."""
    return SyncFault(
        "the disk that holds the database failed to flush a commit, so no more writes are taken;"
        " an admin must check the disk and start the server again",
        retry_after=30,
    )
