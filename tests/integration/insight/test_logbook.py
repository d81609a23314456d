"""Logbooks over HTTP, on both databases: two attempts, curves, notes, teams, digests, causes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.jobs.test_routes import Site, site
from tests.integration.server.platform import Caller, Platform, new_run, open_platform
from trackyard.core.clock import SYSTEM_CLOCK
from trackyard.core.ports import ExitCause
from trackyard.testing.engine import fake_node

__all__ = ["site"]


@pytest.fixture
async def platform(database_url: str, tmp_path: Path) -> AsyncIterator[Platform]:
    """A platform with its first admin."""
    async with open_platform(database_url, tmp_path / "home") as found:
        yield found


async def log_curve(caller: Caller, run_id: str, values: list[float], first: int = 0) -> None:
    now = SYSTEM_CLOCK.time_ms()
    metrics = [
        {"key": "loss", "value": value, "step": first + at, "timestamp": now + at}
        for at, value in enumerate(values)
    ]
    answer = await caller.mlflow("POST", "runs/log-batch", {"run_id": run_id, "metrics": metrics})
    assert answer.status == 200, answer.body


async def book_of(caller: Caller, run_id: str, query: str = "") -> dict[str, Any]:
    answer = await caller("GET", f"/api/v1/runs/{run_id}/logbook?{query}")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json()
    return found


def words(book: dict[str, Any]) -> list[str]:
    return [entry["sentence"] for entry in book["entries"]]


async def test_a_job_with_two_attempts_writes_its_logbook(site: Site) -> None:
    """A lost node, a resumed attempt and its loss, a note between them; lanes beside."""
    admin = site.platform.admin
    site.engine.add_node(fake_node("n2", gpus=2))
    await site.tick()
    job = await site.submit(gpus=2, name="opt", pip=["numpy==2.3"])
    first = site.runner(job)
    saved = {"name": "step-40", "step": 40, "size_bytes": 1000}
    await first.post("heartbeat", {"state": "running", "checkpoint": saved})
    await log_curve(first.script, job["run_id"], [2.0 - at / 50 for at in range(53)])
    note = {"text": "watching this, @admin", "step": 40}
    noted = await admin("POST", f"/api/v1/runs/{job['run_id']}/notes", note)
    assert noted.status == 200, noted.body
    site.engine.finish(first.spec.attempt_id, exit_code=1, cause=ExitCause.NODE_LOST)
    await site.tick()
    second = site.runner(job, 2)
    await second.post("heartbeat", {"state": "running"})
    await log_curve(second.script, job["run_id"], [1.2] * 5, first=41)
    book = await book_of(admin, job["run_id"])
    told = words(book)
    assert told[0].startswith("admin submitted job opt to queue default: 2 GPUs")
    lost = next(one for one in told if "lost node" in one)
    assert "resumed on" in lost
    assert "from step 40; 12 steps" in lost
    assert any(one.startswith("Attempt 1 saved a checkpoint at step 40") for one in told)
    assert "admin noted about step 40:" in told
    lanes = [lane["name"] for lane in book["lanes"]]
    assert [name for name in lanes if name in ("Starting", "Running", "Checkpoints", "Notes")] == [
        "Starting",
        "Running",
        "Checkpoints",
        "Notes",
    ]
    # Nothing but events and points decides it: settled points give the same logbook.
    await site.platform.services.tracking.settle_all()
    assert words(await book_of(admin, job["run_id"])) == told
    team = (await admin("GET", "/api/v1/logbook")).json()
    assert any(one.startswith("Attempt 1 lost node") for one in words(team))
    digest = (await admin("GET", "/api/v1/logbook/digest?week=this")).json()
    assert digest["jobs"]["submitted"] == 1
    assert digest["lost_steps"] == 12
    assert digest["notes"][0]["run_name"] == "opt"


async def test_curves_are_read_and_explained(platform: Platform) -> None:
    """A spike becomes an entry, and what else changed then can be asked for."""
    admin = platform.admin
    run_id = await new_run(admin)
    values = [2.0 - at / 100 for at in range(60)]
    values[40] = 9.0
    await log_curve(admin, run_id, values)
    book = await book_of(admin, run_id, "kind=curve")
    assert "loss spiked to 9 at step 40 from about 1.705; it was back by step 41." in words(book)
    assert book["counts"]["curve"] == len(book["entries"])
    assert (await book_of(admin, run_id, "q=spiked%20nowhere"))["entries"] == []
    answer = await admin("GET", f"/api/v1/runs/{run_id}/why-worse?step=40")
    assert (answer.json()["metric"], answer.json()["step"]) == ("loss", 40)
    assert answer.json()["missing"]
    refused = await admin("GET", f"/api/v1/runs/{run_id}/why-worse?step=4&metric=none")
    assert (refused.status, "no metric" in refused.json()["message"]) == (400, True)
    assert (await admin("GET", f"/api/v1/runs/{run_id}/why-worse")).status == 400


async def test_notes_tell_members_and_can_be_changed_by_their_author(platform: Platform) -> None:
    admin = platform.admin
    ada = await platform.caller("ada", "default", "member")
    bob = await platform.caller("bob", "default", "member")
    run_id = await new_run(ada)
    where = f"/api/v1/runs/{run_id}/notes"
    body = {"text": "look, @bob and @stranger", "pictures": ["notes/curve.png"]}
    made = (await ada("POST", where, body)).json()["id"]
    told = (await admin("GET", "/api/v1/events?kind=note.mentioned")).json()["events"]
    assert [event["subject_id"] for event in told] == ["bob"]
    assert (await bob("PUT", f"{where}/{made}", {"text": "mine now"})).status == 403
    assert (await ada("PUT", f"{where}/{made}", {"text": "look, @bob!"})).status == 200
    again = (await admin("GET", "/api/v1/events?kind=note.mentioned")).json()["events"]
    assert len(again) == 1
    (entry,) = (await book_of(ada, run_id, "kind=note"))["entries"]
    assert (entry["id"], entry["detail"]) == (made, "look, @bob!")
    assert (await admin("DELETE", f"{where}/{made}")).status == 200
    assert (await book_of(ada, run_id, "kind=note"))["entries"] == []
    assert (await ada("DELETE", f"{where}/{made}")).status == 404
    for bad in ({"text": " "}, {"text": "x", "pictures": ["../../etc/passwd"]}):
        assert (await ada("POST", where, bad)).status == 400
    stranger = await platform.caller("sven", "other", "owner")
    assert (await stranger("POST", where, {"text": "hi"})).status == 404
    assert (await stranger("GET", f"/api/v1/runs/{run_id}/logbook")).status == 404
    await ada("POST", "/api/v1/logbook/notes", {"text": "team note"})
    assert "team note" in str((await bob("GET", "/api/v1/logbook")).json())
    assert "team note" not in str((await stranger("GET", "/api/v1/logbook")).json())


async def test_a_lineage_reads_as_one_logbook(platform: Platform) -> None:
    """A run tagged as a fork tells what changed, and its lineage tells of both."""
    admin = platform.admin
    base, fork = await new_run(admin), await new_run(admin)
    for run_id, rate in ((base, "3e-4"), (fork, "1e-4")):
        param = {"run_id": run_id, "key": "lr", "value": rate}
        await admin.mlflow("POST", "runs/log-parameter", param)
    tag = {"run_id": fork, "key": "yard.fork_of", "value": base}
    await admin.mlflow("POST", "runs/set-tag", tag)
    book = await book_of(admin, base, "lineage=1")
    assert [run["relation"] for run in book["runs"]] == ["", "fork of"]
    assert any("a fork of" in one and "lr 3e-4 → 1e-4" in one for one in words(book))
    assert (await book_of(admin, base))["subject"] == "run"


async def test_exports_are_files_and_periods_are_checked(platform: Platform) -> None:
    admin = platform.admin
    run_id = await new_run(admin)
    await admin("POST", f"/api/v1/runs/{run_id}/notes", {"text": "<img src=x onerror=alert(1)>"})
    page = await admin("GET", f"/api/v1/runs/{run_id}/logbook?format=html")
    assert "<img" not in page.body.decode()
    assert (page.header("content-disposition") or "").startswith("attachment")
    text = await admin("GET", "/api/v1/logbook?format=markdown")
    assert text.body.decode().startswith("# Logbook of team default")
    digest = await admin("GET", "/api/v1/logbook/digest?month=this&format=markdown")
    assert digest.body.decode().startswith("# default: ")
    for query in ("week=soon", "month=2026-13", "week=this&month=this", "format=pdf"):
        assert (await admin("GET", f"/api/v1/logbook/digest?{query}")).status == 400
    for query in ("kind=gossip", "limit=0"):
        assert (await admin("GET", f"/api/v1/runs/{run_id}/logbook?{query}")).status == 400
