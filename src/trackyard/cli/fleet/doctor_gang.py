"""The part of `yard doctor` that looks at several nodes as a gang.

It submits a job of its own, whose runners make the look before a command that does nothing, and
reads what they found. A node that is found at fault twice is quarantined, if the caller may.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from trackyard.cli.jobs import joblog
from trackyard.cli.jobs.jobview import FINAL
from trackyard.cli.jobs.listing import get_job
from trackyard.cli.jobs.waiting import ask
from trackyard.cli.output import emit_json, say, table
from trackyard.client.api import Api, ApiFault
from trackyard.core.errors import SetupError

MARK = "[yard] preflight "
#: looks after which a node at fault is quarantined
LOOKS = 2
TIME_LIMIT = 1800.0


def check_gang(nodes: int, *, gpus: int, queue: str, as_json: bool) -> int:
    """Look at so many nodes as a gang; 0 takes all that take work. Return 1 if one is at fault."""
    api = Api.from_environment()
    count = nodes or _ready(api)
    if count < 2:
        raise SetupError(
            f"a gang has at least two nodes, and {count} would take part",
            hint="`yard nodes` shows which take work; `yard doctor --node` looks at one",
        )
    wish: dict[str, Any] = {
        "command": ["true"],
        "name": "preflight",
        "nodes": count,
        "gpus": gpus,
        "preflight": True,
        "time_limit_seconds": TIME_LIMIT,
    }
    if queue:
        wish["queue"] = queue
    found = [_look_once(api, wish)]
    if found[0]["faults"]:
        say("a node was at fault; looking a second time")
        found.append(_look_once(api, wish))
    guilty = repeated(found)
    report: dict[str, Any] = {"looks": found, "ok": bool(found[-1]["ok"])}
    report["quarantined"] = [node for node in guilty if _quarantine(api, node, guilty[node])]
    if as_json:
        emit_json(report)
    else:
        _draw(report)
    return 0 if report["ok"] else 1


def _look_once(api: Api, wish: dict[str, Any]) -> dict[str, Any]:
    job = str(api.post("/api/v1/jobs", {**wish, "key": uuid.uuid4().hex})["job_ids"][0])
    say(f"{job} looks at {wish['nodes']} nodes")
    try:
        return {"job": job, **watch(api, job)}
    finally:
        _stop(api, job)


def watch(api: Api, job: str, *, sleep: Callable[[float], None] = time.sleep) -> dict[str, Any]:
    """Return the verdict of the job's first attempt, once that is over."""
    told = ""
    while True:
        page = ask(lambda: get_job(api, job), sleep=sleep)
        over = [one for one in page["attempts"] if one["ended_ms"]]
        if over:
            return look(api, job, over[0])
        if page["job"]["state"] in FINAL:
            return _unheard("it ended before it started")
        reasons = page.get("reasons") or []
        words = str(reasons[0]["sentence"]) if reasons else ""
        if words and words != told and page["job"]["state"] == "queued":
            say(f"it waits: {words}")
            told = words
        sleep(0.5)


def look(api: Api, job: str, attempt: dict[str, Any]) -> dict[str, Any]:
    """Return one attempt's verdict, from its log; without one, how it ended."""
    text = b"".join(joblog.read(api, job, joblog.LogPart(attempt=attempt["number"])))
    for line in text.decode("utf-8", "replace").splitlines():
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            names = [row["node"] for row in found["nodes"]]
            found["faults"] = {names[int(key)]: said for key, said in found["faults"].items()}
            return found
    return _unheard(str(attempt["sentence"]))


def _unheard(words: str) -> dict[str, Any]:
    return {"ok": False, "nodes": [], "faults": {}, "between": [words]}


def repeated(looks: list[dict[str, Any]]) -> dict[str, str]:
    """Return the nodes that were at fault in every one of two looks, with what was said."""
    if len(looks) < LOOKS:
        return {}
    first, second = looks[:LOOKS]
    return {node: said for node, said in second["faults"].items() if node in first["faults"]}


def _ready(api: Api) -> int:
    return sum(row["state"] == "ready" for row in api.get("/api/v1/nodes")["nodes"])


def _stop(api: Api, job: str) -> None:
    try:
        api.post(f"/api/v1/jobs/{quote(job, safe='')}/stop", {"grace_seconds": 0})
    except ApiFault as fault:
        if fault.status not in (404, 409):
            raise


def _quarantine(api: Api, node: str, words: str) -> bool:
    try:
        api.post(
            f"/api/v1/nodes/{quote(node, safe='')}/quarantine",
            {"why": f"failed two looks at a gang: {words}"[:500]},
        )
    except ApiFault as fault:
        say(f"{node} was at fault twice; ask an operator to run `yard quarantine {node}`: {fault}")
        return False
    return True


def _draw(report: dict[str, Any]) -> None:
    last = report["looks"][-1]
    rows = [
        [
            row["node"],
            row["python"],
            row["torch"] or "-",
            row["driver"] or "-",
            f"{row['clock_seconds']:+.2f} s",
            _speed(row.get("reduce")),
            last["faults"].get(row["node"], "ok"),
        ]
        for row in last["nodes"]
    ]
    if rows:
        table(["node", "python", "torch", "driver", "clock", "all-reduce", "verdict"], rows)
    for words in last["between"]:
        print(f"BAD  {words}")
    for node in report["quarantined"]:
        print(f"{node} failed twice and is quarantined; `yard undrain {node}` gives it back")
    if report["ok"]:
        print("the gang is well: its nodes reach each other, agree and add up")


def _speed(found: dict[str, Any] | None) -> str:
    if not found:
        return "no torch"
    speed = found.get("megabytes_per_second")
    return "failed" if speed is None else f"{speed:g} MB/s"
