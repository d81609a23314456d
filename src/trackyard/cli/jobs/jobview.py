"""How jobs look in the terminal: rows, the page of one, the answer to "why", the plan.

Owns words and layout; takes what the server sent and asks it nothing. Functions that return text
are pure but for the clock they are given.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from trackyard.cli.amounts import gpu_words, size_words
from trackyard.cli.output import duration, table

FINAL = ("succeeded", "failed", "stopped")
ACTIVE = ("queued", "starting", "running")
#: Columns of `yard ps`, and those that -v adds.
HEADERS = ("job", "name", "state", "why / progress", "wait", "wall", "gpus", "starts")
MORE_HEADERS = ("team", "user", "queue", "priority", "attempt", "nodes", "run")
#: Characters of a story in a pipe, and its place in a row.
_SENTENCE, _STORY = 60, 3
#: Parameters of trials that a table has room for.
_PARAMS = 6


def now_ms() -> int:
    """Return the time as the server counts it."""
    return int(time.time() * 1000)


def request_words(job: dict[str, Any]) -> str:
    """Say what a job asks for; the server counts its GPUs over all nodes."""
    nodes = job.get("nodes") or 1
    return gpu_words((job.get("gpus") or 0) / nodes, job.get("gpu_types"), nodes)


def state_word(job: dict[str, Any]) -> str:
    """Say where a job stands in one word."""
    if job["state"] == "queued" and job.get("held"):
        return "held"
    if job.get("stopping"):
        return "stopping"
    if job["state"] == "running" and job.get("stalled"):
        return "stalled"
    return str(job["state"])


def story(job: dict[str, Any]) -> str:
    """Say why it waits, how far it is, or how it ended."""
    if job["state"] == "queued":
        reason = job.get("reason")
        return f"{reason['tier']}: {reason['sentence']}" if reason else "evaluating"
    if job["state"] in FINAL:
        return "" if job["state"] == "succeeded" else str(job.get("sentence") or "")
    words = [f"held for {job['parent']}"] if job.get("parent") else []
    if job.get("stalled"):
        words.append("no sign of progress")
    if job.get("step") is not None:
        words.append(f"step {job['step']}")
    if (job.get("attempt") or 0) > 1:
        words.append(f"attempt {job['attempt']}")
    return ", ".join(words)


def wait_seconds(job: dict[str, Any], now: int) -> float:
    """Return how long a job waited for its first start, or waits until now."""
    until: int = job.get("started_ms") or job.get("ended_ms") or now
    return max(0.0, (until - int(job["submitted_ms"])) / 1000)


def wall_seconds(job: dict[str, Any], now: int) -> float | None:
    """Return how long ago it started first, up to its end."""
    if not job.get("started_ms"):
        return None
    until: int = job.get("ended_ms") or now
    return max(0.0, (until - int(job["started_ms"])) / 1000)


def when(time_ms: int | None, now: int) -> str:
    """Say a moment the way people do: `now`, `14:20`, `Tue 14:20`, `2026-03-01 14:20`."""
    if time_ms is None:
        return "?"
    if time_ms <= now + 5000:
        return "now"
    moment = datetime.fromtimestamp(time_ms / 1000, UTC).astimezone()
    today = datetime.fromtimestamp(now / 1000, UTC).astimezone()
    days = (moment.date() - today.date()).days
    if days == 0:
        return f"{moment:%H:%M}"
    return f"{moment:%a %H:%M}" if days < 7 else f"{moment:%Y-%m-%d %H:%M}"


def start_words(eta: dict[str, Any] | None, now: int) -> str:
    """Say when a waiting job is foreseen to start, as a range."""
    if not eta or eta.get("start_ms") is None:
        return "nobody can tell yet"
    likely = when(eta["start_ms"], now)
    low, high = when(eta.get("earliest_ms"), now), when(eta.get("latest_ms"), now)
    if likely == "now" and high in ("now", "?"):
        return "now"
    if low == high:
        return f"about {likely}"
    return f"about {likely} ({low} to {high})"


def label(job: dict[str, Any]) -> str:
    """Say a job's name, with its place in an array."""
    index = job.get("array_index")
    return f"{job['name']}[{index}]" if index is not None else str(job["name"])


def draw_jobs(jobs: Sequence[dict[str, Any]], *, is_wide: bool = False, empty: str = "") -> None:
    """Print jobs as a table."""
    now = now_ms()
    headers = [*HEADERS, *MORE_HEADERS] if is_wide else list(HEADERS)
    rows = [_row(job, now, is_wide=is_wide) for job in jobs]
    if not is_wide:
        room = _room(rows)
        for row in rows:
            row[_STORY] = _cut(row[_STORY], room)
    table(headers, rows, empty=empty)


def _room(rows: list[list[Any]]) -> int:
    """Return how long a story may be for a job to stay on one line of the terminal."""
    if not sys.stdout.isatty():
        return _SENTENCE
    others = [index for index in range(len(HEADERS)) if index != _STORY]
    width = sum(max(len(str(row[index])) for row in [list(HEADERS), *rows]) for index in others)
    return max(20, shutil.get_terminal_size().columns - width - 2 * len(others))


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _row(job: dict[str, Any], now: int, *, is_wide: bool) -> list[Any]:
    eta = job.get("eta")
    position = job.get("position")
    starts = "-"
    if job["state"] == "queued":
        starts = when(eta["start_ms"], now) if eta else f"#{position}" if position else "?"
    row = [
        job["job_id"],
        label(job),
        state_word(job),
        story(job),
        duration(wait_seconds(job, now)),
        duration(wall_seconds(job, now)),
        request_words(job),
        starts,
    ]
    if is_wide:
        row += [job["team"], job["user"], job["queue"], job["priority"], job["attempt"]]
        row += [",".join(job.get("on") or []) or "-", job["run_id"]]
    return row


def draw_job(page: dict[str, Any]) -> None:
    """Print the page of one job."""
    now = now_ms()
    job = page["job"]
    for name, value in _facts(page, job, now):
        if value not in (None, ""):
            print(f"{name:<11} {value}")
    if job["state"] == "queued" and page.get("reasons"):
        print()
        print(why_text(page, now))
    if page["attempts"]:
        print()
        table(
            ["attempt", "state", "where", "started", "took", "from", "step", "end"],
            [_attempt(one, now) for one in page["attempts"]],
        )
    if page.get("trials"):
        print()
        draw_trials(page["trials"])
    if page.get("claims"):
        print()
        table(
            ["held for it", "job", "state", "where", "gpu-hours", "how"],
            [_claim(one) for one in page["claims"]],
        )
    if page["checkpoints"]:
        print()
        table(
            ["checkpoint", "step", "attempt", "size", "saved"],
            [
                (
                    one["name"],
                    one["step"],
                    one["attempt"],
                    size_words(one["size_bytes"]),
                    f"{duration((now - one['created_ms']) / 1000)} ago",
                )
                for one in page["checkpoints"]
            ],
        )


def _facts(page: dict[str, Any], job: dict[str, Any], now: int) -> list[tuple[str, Any]]:
    spec = page.get("spec") or {}
    source = spec.get("source") or {}
    array = f", {job['array_index']} of array {job['array_id']}" if job["array_id"] else ""
    limit = job.get("time_limit_seconds")
    ended = job["state"] in FINAL
    return [
        ("job", f"{label(job)}  ({job['job_id']}{array})"),
        ("state", state_word(job)),
        ("ended", job.get("sentence") if ended else None),
        ("hint", page.get("hint")),
        ("command", job["command"]),
        ("asks for", _request(job)),
        ("limit", duration(limit) if limit else None),
        ("team", f"{job['team']}, user {job['user']}"),
        ("queue", f"{job['queue']}, priority {job['priority']}"),
        ("part of", job.get("parent")),
        ("after", ", ".join(page.get("waits_for") or [])),
        ("submitted", f"{duration((now - job['submitted_ms']) / 1000)} ago"),
        ("wait", duration(page["waited_ms"] / 1000)),
        ("wall", duration(page["wall_ms"] / 1000) if job.get("started_ms") else None),
        ("gpu-hours", f"{page['gpu_seconds'] / 3600:.3f}" if page["attempts"] else None),
        ("on", ", ".join(job.get("on") or [])),
        ("progress", story(job) if job["state"] in ("starting", "running") else None),
        ("commit", _commit(source)),
        ("run", job["run_id"]),
    ]


def _request(job: dict[str, Any]) -> str:
    words = [request_words(job)]
    if job.get("cpus"):
        words.append(f"{job['cpus']:g} cpus")
    if job.get("memory_bytes"):
        words.append(size_words(job["memory_bytes"]))
    if job.get("preemptible"):
        words.append("preemptible")
    return ", ".join(words)


def _commit(source: dict[str, Any]) -> str | None:
    if not source.get("commit"):
        return None
    branch = f" on {source['branch']}" if source.get("branch") else ""
    return f"{source['commit'][:12]}{branch}{' with changes' if source.get('dirty') else ''}"


def _claim(claim: dict[str, Any]) -> list[Any]:
    how = "taken without asking" if claim["source"] == "watch" else "asked"
    return [
        claim["demand"],
        claim["job_id"],
        claim["state"],
        ", ".join(claim["nodes"]) or "-",
        f"{claim['gpu_seconds'] / 3600:.3f}",
        f"{how} by attempt {claim['attempt']}",
    ]


def draw_trials(trials: Sequence[dict[str, Any]]) -> None:
    """Print the trials of a search: what was chosen for each, how it stands, what it reached."""
    chosen = list(dict.fromkeys(name for one in trials for name in one["params"]))[:_PARAMS]
    metric = next((one["metric"] for one in trials if one["metric"]), "") or next(
        (name for one in trials for name in one["metrics"]), ""
    )
    table(
        ["trial", "state", *chosen, metric or "metric", "iterations", "took"],
        [
            [
                one["number"],
                one["state"],
                *(_value(one["params"].get(name)) for name in chosen),
                _value(one["metrics"].get(metric)),
                one["iterations"],
                duration(one["seconds"]),
            ]
            for one in trials
        ],
    )


def _value(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else _cut(str(value), _SENTENCE)


def _attempt(attempt: dict[str, Any], now: int) -> list[Any]:
    began, ended = attempt.get("started_ms"), attempt.get("ended_ms")
    return [
        attempt["number"],
        attempt["state"],
        _where(attempt),
        f"{duration((now - began) / 1000)} ago" if began else "-",
        duration(((ended or now) - began) / 1000) if began else "-",
        f"step {attempt['resume_step']}" if attempt.get("resume_step") is not None else "start",
        _reached(attempt),
        attempt.get("error_line") or attempt.get("sentence") or "-",
    ]


def _reached(attempt: dict[str, Any]) -> str | None:
    if attempt.get("step") is None:
        return None
    lost = attempt.get("lost_steps")
    return f"{attempt['step']} ({lost} lost)" if lost else str(attempt["step"])


def _where(attempt: dict[str, Any]) -> str:
    parts = []
    for share in attempt.get("placement") or []:
        gpus = ",".join(str(index) for index in share["gpus"])
        part = f" gpu {gpus}" if gpus else ""
        if gpus and share["share"] < 1:
            part += f" ({share['share']:g})"
        parts.append(f"{share['node']}{part}")
    return "; ".join(parts) or "-"


def why_text(page: dict[str, Any], now: int) -> str:
    """Say why a job waits, behind whom, until when, and what would help."""
    job = page["job"]
    if job["state"] != "queued":
        verb = "has ended" if job["state"] in FINAL else "does not wait"
        tail = f": {job['sentence']}" if job.get("sentence") else ""
        later = [
            f"\n  later      {one['demand']} waits: `yard why {one['job_id']}`"
            for one in page.get("claims") or []
            if one["state"] == "waiting"
        ]
        return f"{label(job)} {verb}: it is {state_word(job)}{tail}{''.join(later)}"
    reasons = page.get("reasons") or []
    if not reasons:
        return f"{label(job)} was not looked at yet; the next look is a second away"
    first = reasons[0]
    lines = [f"{label(job)} waits ({first['tier']}): {_sentence(first)}"]
    if page.get("position"):
        lines.append(
            f"  position   {page['position']} of {page['waiting']} in line, queue {job['queue']}"
        )
    if first["tier"] not in ("misconfigured", "infeasible"):
        lines.append(f"  starts     {start_words(page.get('eta'), now)}")
    lines.append(f"  remedy     {first['remedy']}")
    lines += [f"  smaller    {text}" for text in smaller_words(page.get("smaller"))]
    lines += [f"  also       ({more['tier']}) {_sentence(more)}" for more in reasons[1:]]
    return "\n".join(lines)


def smaller_words(smaller: Any) -> list[str]:
    """Say which smaller requests would start at once."""
    if not smaller:
        return []
    found = smaller if isinstance(smaller, list) else [smaller]
    return [str(one["sentence"]) for one in found]


def _sentence(reason: dict[str, Any]) -> str:
    text = str(reason["sentence"])
    return text if text.endswith(".") else f"{text}."
