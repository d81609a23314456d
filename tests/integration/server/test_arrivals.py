"""Large arrays are written in parts: others' writes come in between, and one array comes of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server.platform import Answer, Platform, new_run, open_platform
from trackyard.queue.submit import arrays
from trackyard.store.database import Tx

COUNT = 1250
WISH = {
    "command": ["true"],
    "array": f"0-{COUNT - 1}",
    "hold": True,
    "key": "once",
    "name": "many",
}


class Died(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a server die before it writes a part; the list holds which one, counted from 1."""
    doomed: list[int] = []
    real, written = arrays.ArrayWriter._next, [0]

    def next_part(self: Any, tx: Tx, array: str) -> bool:
        written[0] += 1
        # A write that fails is tried once more by itself.
        if written[0] in doomed or written[0] - 1 in doomed:
            raise Died
        return real(self, tx, array)

    monkeypatch.setattr(arrays.ArrayWriter, "_next", next_part)
    return doomed


async def shown(platform: Platform, state: str) -> int:
    """Count the jobs in a state, page by page."""
    sql = "SELECT count(*) FROM jobs WHERE state = ?"
    row = await platform.services.database.read(lambda reader: reader.one(sql, (state,)))
    assert row is not None
    return int(row[0])


async def left(platform: Platform) -> int:
    row = await platform.services.database.read(
        lambda reader: reader.one("SELECT count(*) FROM arriving_arrays")
    )
    assert row is not None
    return int(row[0])


async def test_others_write_between_the_parts(platform: Platform) -> None:
    """A caller who writes one thing after the other waits for a part, not for the array."""
    other = await platform.caller("ada", "lab", "member")
    submitting = asyncio.create_task(platform.admin("POST", "/api/v1/jobs", WISH))
    between = 0
    while not submitting.done():
        await new_run(other)
        between += 1
    made = (await submitting).json()
    assert between >= COUNT // arrays.PART
    assert len(made["job_ids"]) == 1000, "an answer shows the first thousand"
    assert made["job_ids"][-1] == f"{made['array_id']}-999"
    assert (await shown(platform, "queued"), await left(platform)) == (COUNT, 0)
    runs = await platform.services.database.read(
        lambda reader: reader.one("SELECT count(DISTINCT run_uuid), count(*) FROM jobs")
    )
    assert runs == (COUNT, COUNT)


async def test_a_repeated_submission_completes_the_array(
    platform: Platform, dying: list[int]
) -> None:
    dying.append(3)
    answer = await platform.admin("POST", "/api/v1/jobs", WISH)
    assert answer.status == 500
    assert await shown(platform, "queued") == 3 * arrays.PART
    again = (await platform.admin("POST", "/api/v1/jobs", WISH)).json()
    assert again["repeated"] is True
    assert (await shown(platform, "queued"), await left(platform)) == (COUNT, 0)


async def test_a_change_of_an_array_is_one_of_all_its_jobs(
    platform: Platform, dying: list[int]
) -> None:
    """Whoever stops an array, or waits for it, means those jobs too that were not written yet."""
    dying.append(2)
    assert (await platform.admin("POST", "/api/v1/jobs", WISH)).status == 500
    after = {"command": ["true"], "after": [{"job": "many", "when": "success"}], "dry_run": True}
    assert (await platform.admin("POST", "/api/v1/jobs", after)).status == 200
    assert await shown(platform, "queued") == COUNT
    assert (await platform.admin("POST", "/api/v1/jobs/many/stop", {})).status == 200
    assert await shown(platform, "cancelled") == COUNT


async def test_the_next_server_completes_what_one_left(
    database_url: str, tmp_path: Path, dying: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_platform(database_url, tmp_path / "home") as first:
        dying.append(2)
        answer: Answer = await first.admin("POST", "/api/v1/jobs", WISH)
        assert answer.status == 500
    async with open_platform(database_url, tmp_path / "second") as second:
        monkeypatch.setattr(arrays, "LEFT_MS", -1)
        await second.services.jobs._arrivals.take_over()
        assert (await shown(second, "queued"), await left(second)) == (COUNT, 0)
