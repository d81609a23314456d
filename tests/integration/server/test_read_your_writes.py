"""What a 2xx confirmed is what every later read shows, through every cache."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server.platform import Caller, Platform, open_platform
from tests.integration.server.test_quick_writes import STEPS, post, served
from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput
from trackyard.store.database import ReadConnection, Tx
from trackyard.store.migrate import prepare
from trackyard.store.sqlite.changes import EVERYTHING, RUN_TABLES
from trackyard.tracking.retention import purge_runs
from trackyard.tracking.runs import find_run, load_runs


async def _run(caller: Caller, experiment: str, number: int) -> str:
    body = {"experiment_id": experiment, "start_time": number, "run_name": f"r{number}"}
    return str((await post(caller, "runs/create", body))["run"]["info"]["run_id"])


@pytest.fixture
async def experiment(platform: Platform) -> str:
    """An experiment whose runs are created by the quick form: one was made carefully before."""
    made = await post(platform.admin, "experiments/create", {"name": "reads"})
    await _run(platform.admin, made["experiment_id"], 0)
    return str(made["experiment_id"])


async def _principal(platform: Platform) -> Principal:
    found = await platform.services.directory.authenticate(platform.admin.token or "")
    assert isinstance(found, Principal)
    return found


async def _searched(caller: Caller, experiment: str, run_id: str) -> Any:
    found = await post(caller, "runs/search", {"experiment_ids": [experiment]})
    return next(run for run in found["runs"] if run["info"]["run_id"] == run_id)


@pytest.mark.parametrize("is_loaded_late", [True, False])
async def test_a_search_under_way_leaves_no_stale_run_behind(
    platform: Platform, experiment: str, is_loaded_late: bool
) -> None:
    """A search that began before the end of a run and reads after it must not hide that end."""
    caller, tracking = platform.admin, platform.services.tracking
    run_id = await _run(caller, experiment, 1)
    principal = await _principal(platform)
    began, go_on = threading.Event(), threading.Event()

    def slowly(reader: ReadConnection) -> None:
        inner = find_run(reader, principal, run_id).id
        if is_loaded_late:
            began.set()
            assert go_on.wait(60)
            load_runs(reader, principal, [inner], tracking.cache)
            return

        def rows(*args: Any) -> Any:
            found = all_rows(*args)
            began.set()
            assert go_on.wait(60)
            return found

        all_rows, reader.all = reader.all, rows  # type: ignore[method-assign]
        try:
            load_runs(reader, principal, [inner], tracking.cache)
        finally:
            reader.all = all_rows  # type: ignore[method-assign]

    search = asyncio.ensure_future(platform.services.database.read(slowly))
    await asyncio.to_thread(began.wait, 60)
    change = {"run_id": run_id, "status": "FINISHED", "end_time": 77}
    await post(caller, "runs/update", change)
    go_on.set()
    await search
    assert (await _searched(caller, experiment, run_id))["info"]["status"] == "FINISHED"
    assert (await served(caller, run_id))["info"]["status"] == "FINISHED"


async def test_a_failed_write_of_the_same_group_hides_nothing(
    platform: Platform, experiment: str
) -> None:
    """A write that changes something and then fails has its whole group run again, one by one."""
    caller, database = platform.admin, platform.services.database
    run_id = await _run(caller, experiment, 2)
    assert (await served(caller, run_id))["info"]["status"] == "RUNNING"

    def fail(tx: Tx) -> None:
        tx.run("INSERT INTO names (name) VALUES ('never there')")
        raise InvalidInput("changed my mind")

    change = {"run_id": run_id, "status": "FINISHED", "end_time": 77}
    ended = asyncio.ensure_future(post(caller, "runs/update", change))
    # The call is queued once its coroutine has run as far as the write.
    while not database._queue:  # noqa: ASYNC110
        await asyncio.sleep(0)
    failed = database.write(fail)
    await ended
    with pytest.raises(InvalidInput):
        await failed
    assert (await served(caller, run_id))["info"]["status"] == "FINISHED"
    assert (await _searched(caller, experiment, run_id))["info"]["status"] == "FINISHED"


async def test_a_change_that_marks_nothing_is_seen(platform: Platform, experiment: str) -> None:
    """Whatever statement changes a run, and whoever runs it, the caches hear of it."""
    caller, database = platform.admin, platform.services.database
    run_id = await _run(caller, experiment, 3)
    changes = (
        "UPDATE runs SET status = 'KILLED' WHERE uuid = '{}'",
        (
            "INSERT INTO tags (run_id, name_id, value) SELECT r.id, (SELECT min(id) FROM names),"
            " 'x' FROM runs r WHERE r.uuid = '{}'"
            " ON CONFLICT (run_id, name_id) DO UPDATE SET value = 'x'"
        ),
        "DELETE FROM tags WHERE run_id = (SELECT id FROM runs WHERE uuid = '{}')",
        (
            "INSERT INTO params (run_id, name_id, value) SELECT r.id, (SELECT min(id) FROM names),"
            " 'p' FROM runs r WHERE r.uuid = '{}'"
        ),
        (
            "INSERT INTO run_models (run_id, model_id, direction, step)"
            " SELECT id, 'm-1', 'output', 1 FROM runs WHERE uuid = '{}'"
        ),
    )
    before = await served(caller, run_id)
    for change in changes:
        await database.write(lambda tx, change=change: tx.run(change.format(run_id)))  # type: ignore[misc]
        after = await served(caller, run_id)
        assert after != before, change
        before = after
    await database.write(lambda tx: tx.run("DELETE FROM runs WHERE uuid = ?", (run_id,)))
    assert (await caller.mlflow("GET", f"runs/get?run_id={run_id}")).status == 404


async def test_what_the_quick_form_knows_follows_every_change(
    platform: Platform, experiment: str
) -> None:
    """A parameter and a state written by other means count for the next quick write."""
    caller, database = platform.admin, platform.services.database
    run_id = await _run(caller, experiment, 4)
    await post(caller, "runs/log-parameter", {"run_id": run_id, "key": "lr", "value": "1"})
    await database.write(
        lambda tx: tx.run(
            "UPDATE params SET value = '2' WHERE run_id = (SELECT id FROM runs WHERE uuid = ?)",
            (run_id,),
        )
    )
    same = {"run_id": run_id, "key": "lr"}
    await post(caller, "runs/log-parameter", {**same, "value": "2"})
    await post(caller, "runs/log-parameter", {**same, "value": "1"}, 400)
    await database.write(
        lambda tx: tx.run("UPDATE experiments SET lifecycle = 'deleted' WHERE name = 'reads'")
    )
    body = {"experiment_id": experiment, "start_time": 9, "run_name": "late"}
    await post(caller, "runs/create", body, 400)


@pytest.fixture
async def sqlite_platform(tmp_path: Path) -> AsyncIterator[Platform]:
    """A platform on SQLite, where whole runs are kept in memory."""
    url = f"sqlite:///{tmp_path / 'yard.db'}"
    prepare(url)
    async with open_platform(url, tmp_path / "home") as found:
        yield found


class Oracle:
    """Triggers that note which runs the writer's statements really change, and what was told."""

    def __init__(self, platform: Platform) -> None:
        self.changed: set[int] = set()
        self.told: set[int] = set()
        database = platform.services.database
        raw = database._writer.raw()
        assert isinstance(raw, sqlite3.Connection)
        raw.create_function("changed", 1, self.changed.add)
        for table, column in RUN_TABLES.items():
            for verb, row in (("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old")):
                if (table, verb) != ("runs", "INSERT"):
                    raw.execute(
                        f"CREATE TEMP TRIGGER see_{table}_{verb} AFTER {verb} ON {table}"
                        f" BEGIN SELECT changed({row}.{column}); END"
                    )
        database.commit_hooks.append(self.told.update)

    def check(self, after: str) -> None:
        """Insist that the caches were told of every run that has changed."""
        assert EVERYTHING in self.told or self.changed <= self.told, after
        assert self.changed, f"{after} changed nothing"
        self.changed.clear()
        self.told.clear()


async def test_the_caches_are_told_of_every_row_that_changes(
    sqlite_platform: Platform,
) -> None:
    """All that can be done to a run by the routes, compared with what the database itself saw."""
    platform = sqlite_platform
    caller, oracle = platform.admin, Oracle(platform)
    experiment = (await post(caller, "experiments/create", {"name": "told"}))["experiment_id"]
    run_id = await _run(caller, experiment, 1)
    await served(caller, run_id)
    oracle.check("runs/create")
    dataset = {"name": "d", "digest": "x", "source_type": "s", "source": "s"}
    model = f"m-{'0' * 32}"
    about_run: list[tuple[str, dict[str, Any]]] = [
        *((path, change) for path, change, status in STEPS if status == 200),
        ("runs/log-inputs", {"datasets": [{"dataset": dataset, "tags": []}]}),
        ("runs/outputs", {"models": [{"model_id": model, "step": 1}]}),
        ("runs/delete", {}),
    ]
    for path, change in about_run:
        await post(caller, path, {"run_id": run_id, **change})
        await served(caller, run_id)
        if change != {"key": "lr", "value": "0.1"}:
            oracle.check(path)
    await platform.services.database.write(
        lambda tx: tx.run("UPDATE runs SET deleted_ms = 1 WHERE uuid = ?", (run_id,))
    )
    oracle.check("an update")
    await post(caller, "experiments/delete", {"experiment_id": experiment})
    await post(caller, "experiments/restore", {"experiment_id": experiment})
    oracle.check("experiments/restore")
    await post(caller, "runs/delete", {"run_id": run_id})
    await purge_runs(
        platform.services.database, 2**62, actor="test", forget=lambda _tx, _run: None
    )
    oracle.check("a purge")
    assert (await caller.mlflow("GET", f"runs/get?run_id={run_id}")).status == 404
