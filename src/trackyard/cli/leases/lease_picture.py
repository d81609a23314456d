"""The calendar as a picture of characters: nodes as rows, time as columns. Owns the drawing; asks
nobody.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from string import ascii_lowercase
from typing import Any

from trackyard.cli.leases.lease_times import Zone, say

FREE, RUNNING, PREDICTED, OUT = "·", "=", "~", "x"
MARKS = ascii_lowercase.replace("x", "")


def draw(calendar: dict[str, Any], zone: Zone, width: int) -> list[str]:
    """Return the picture's lines, the legend last."""
    rows = calendar["rows"]
    if not rows:
        return ["no node fits"]
    labels = [f"{row['node_id']} {_kind(row)}" for row in rows]
    left = min(max(len(label) for label in labels), 34)
    cells = max(24, min(width - left - 2, 168))
    marks = _marks(rows)
    start, end = calendar["from_ms"], calendar["to_ms"]
    lines = [" " * (left + 2) + line for line in _scale(start, end, cells, zone)]
    for label, row in zip(labels, rows, strict=True):
        bar = _bar(row, marks, start, end, cells)
        lines.append(f"{label[:left]:<{left}}  {bar}")
    return [*lines, "", *_legend(rows, marks, zone)]


def _kind(row: dict[str, Any]) -> str:
    gpus = f"{row['gpus']}x{row['gpu_type']}" if row["gpus"] else "cpu"
    return gpus if row["state"] == "ready" else f"{gpus} ({row['state']})"


def _marks(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Give each lease a letter; one's own are capital."""
    found: dict[str, str] = {}
    leases = sorted(
        (lease for row in rows for lease in row["leases"]),
        key=lambda lease: (lease["kind"] != "pool", lease["starts_ms"], lease["lease_id"]),
    )
    for lease in leases:
        if lease["lease_id"] not in found:
            letter = MARKS[len(found) % len(MARKS)]
            found[lease["lease_id"]] = letter.upper() if lease["mine"] else letter
    return found


def _bar(row: dict[str, Any], marks: dict[str, str], start: int, end: int, cells: int) -> str:
    bar = [FREE] * cells

    def fill(begin: int, stop: int | None, mark: str) -> None:
        first = (max(begin, start) - start) * cells // (end - start)
        last = -(-(min(end if stop is None else stop, end) - start) * cells // (end - start))
        for at in range(max(0, first), max(0, min(cells, max(last, first + 1)))):
            bar[at] = mark

    for job in row["jobs"]:
        fill(job["starts_ms"], job["ends_ms"], RUNNING if job["phase"] == "running" else PREDICTED)
    # What was handed out is drawn over the pool it came from.
    for lease in sorted(row["leases"], key=lambda one: one["kind"] != "pool"):
        fill(lease["starts_ms"], lease["ends_ms"], marks[lease["lease_id"]])
    for outage in row["outages"]:
        fill(outage["from_ms"], outage["to_ms"], OUT)
    return "".join(bar)


def _scale(start: int, end: int, cells: int, zone: Zone) -> list[str]:
    """Return the line of days and the line of hours."""
    days, hours = [" "] * cells, [" "] * cells
    hour_ms = 3_600_000
    span = end - start
    step = next(
        (n for n in (1, 2, 3, 6, 12) if cells * n * hour_ms / span >= 4),
        24,
    )
    moment = datetime.fromtimestamp(start / 1000, zone.info).replace(minute=0, second=0)
    while moment.timestamp() * 1000 < end:
        at = int((moment.timestamp() * 1000 - start) * cells / span)
        if 0 <= at < cells:
            if moment.hour == 0 or at < cells * hour_ms / span:
                _write(days, at, f"{moment:%a} {moment.day} {moment:%b}")
            if moment.hour % step == 0 and step < 24:
                _write(hours, at, f"{moment:%H}")
        moment = (moment.astimezone(zone.info) + timedelta(hours=1)).replace(minute=0)
    lines = ["".join(days).rstrip()]
    return [*lines, "".join(hours).rstrip()] if step < 24 else lines


def _write(line: list[str], at: int, words: str) -> None:
    if any(mark != " " for mark in line[max(0, at - 1) : at + len(words)]):
        return
    for offset, mark in enumerate(words):
        if at + offset < len(line):
            line[at + offset] = mark


def _legend(rows: list[dict[str, Any]], marks: dict[str, str], zone: Zone) -> list[str]:
    leases = {lease["lease_id"]: lease for row in rows for lease in row["leases"]}
    lines = []
    for lease_id, mark in marks.items():
        lease = leases[lease_id]
        words = [lease["state"]]
        words += ["pool"] * (lease["kind"] == "pool") + ["degraded"] * lease["degraded"]
        words += ["lent"] * lease["lent"]
        lines.append(
            f"{mark} {lease['name']} of {lease['user']} ({lease['team']}):"
            f" {say(lease['starts_ms'], zone)} to {say(lease['ends_ms'], zone)},"
            f" {', '.join(words)}"
        )
    lines.append(
        f"{FREE} free  {RUNNING} job runs  {PREDICTED} job foreseen  {OUT} out of service"
        "  letters: leases, yours in capitals"
    )
    return lines
