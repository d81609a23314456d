"""A job's log as it comes: attempt after attempt, rank beside rank, whatever the server does.

Owns where in a log we are and how lines of several ranks are told apart; the verb `logs` and
`submit --follow` use it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import quote

from trackyard.cli.jobs.jobview import FINAL
from trackyard.cli.jobs.listing import get_job
from trackyard.cli.jobs.waiting import LAST_SECONDS, ask
from trackyard.cli.output import say
from trackyard.client.api import Api, Unreachable

_POLL_SECONDS = 0.2
#: A job that starts within so many looks is not said to wait.
_QUIET_LOOKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Which part of a log is wanted."""

    attempt: int
    rank: int = 0
    #: lines from the end; None: all
    tail: int | None = None
    #: what its number counts: under torchrun and accelerate a node runs several ranks
    word: str = "rank"


def read(api: Api, job: str, part: LogPart, *, is_followed: bool = False) -> Iterator[bytes]:
    """Yield a part's bytes; followed, until the attempt is over, through restarts and all."""
    # Where the last lines begin is settled once, so that a cut can go on by offset.
    offset = 0 if part.tail is None else _tail_offset(api, job, part)
    place: dict[str, Any] = {"attempt": part.attempt, "rank": part.rank}
    if is_followed:
        place["follow"] = "1"
    while True:
        got = 0
        try:
            for piece in api.pieces(_path(job), {**place, "offset": offset}):
                got += len(piece)
                offset += len(piece)
                yield piece
        except Unreachable:
            if not is_followed:
                raise
            time.sleep(LAST_SECONDS)
            ask(lambda: get_job(api, job))
            continue
        # One answer carries a bounded stretch unless it is followed; an empty one is the end.
        if is_followed or not got:
            return


def follow(
    api: Api,
    job: str,
    *,
    ranks: list[int] | None = None,
    tail: int | None = None,
    is_quiet: bool = False,
    out: BinaryIO | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Print a job's log until the job ends, each attempt after the last."""
    target = out or sys.stdout.buffer
    number, looks, told = 0, 0, ""
    while True:
        page = ask(lambda: get_job(api, job), sleep=sleep)
        attempts = [one for one in page["attempts"] if one["number"] > number]
        if number == 0 and len(attempts) > 1:
            attempts = attempts[-1:]
        if not attempts:
            if page["job"]["state"] in FINAL:
                return
            looks += 1
            reason = _reason(page)
            if looks >= _QUIET_LOOKS and reason != told and not is_quiet:
                say(f"{job} waits: {reason}")
                told = reason
            sleep(_POLL_SECONDS)
            continue
        looks = 0
        for attempt in attempts:
            if number and not is_quiet:
                say(f"--- attempt {attempt['number']} ---")
            number = attempt["number"]
            wanted = ranks if ranks is not None else list(range(attempt["ranks"]))
            word = mark_of(page)
            parts = [LogPart(attempt=number, rank=rank, tail=tail, word=word) for rank in wanted]
            _print_parts(api, job, parts, target)
            tail = None


def _reason(page: dict[str, Any]) -> str:
    reasons = page.get("reasons") or []
    if page["job"]["state"] != "queued" or not reasons or reasons[0]["tier"] == "evaluating":
        return ""
    return str(reasons[0]["sentence"])


def _print_parts(api: Api, job: str, parts: list[LogPart], out: BinaryIO) -> None:
    if len(parts) == 1:
        for piece in read(api, job, parts[0], is_followed=True):
            out.write(piece)
            out.flush()
        return
    lock = threading.Lock()
    workers = [
        threading.Thread(
            target=_print_prefixed,
            args=(Api(api.url, api.token), job, part),
            kwargs={"out": out, "lock": lock},
            daemon=True,
        )
        for part in parts
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _print_prefixed(
    api: Api, job: str, part: LogPart, *, out: BinaryIO, lock: threading.Lock
) -> None:
    for line in lines(read(api, job, part, is_followed=True)):
        with lock:
            out.write(prefixed(part, line))
            out.flush()


def lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield whole lines of a stream of pieces, the last one with or without its end."""
    held = b""
    for piece in pieces:
        *whole, held = (held + piece).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if held:
        yield held + b"\n"


def mark_of(page: dict[str, Any]) -> str:
    """Return what the parts of a job's log stand for: ranks, or nodes with ranks of their own."""
    launcher = (page.get("spec") or {}).get("launcher")
    return "node" if launcher in ("torchrun", "accelerate") else "rank"


def prefixed(part: LogPart, line: bytes) -> bytes:
    """Put a rank in front of a line, unless its launcher has marked it."""
    if line.startswith(b"[rank "):
        return line
    return b"[%s %d] %s" % (part.word.encode(), part.rank, line)


def _path(job: str) -> str:
    return f"/api/v1/jobs/{quote(job, safe='')}/logs"


def _tail_offset(api: Api, job: str, part: LogPart) -> int:
    place = {"attempt": part.attempt, "rank": part.rank, "tail": part.tail}
    return int(api.get(_path(job), {**place, "format": "json", "limit": 1})["offset"])
