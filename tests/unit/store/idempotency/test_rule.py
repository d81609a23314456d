"""The rule by which an equal create call gets what another one made: never without proof."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from trackyard.core.clock import SystemClock
from trackyard.core.errors import InvalidInput
from trackyard.store.database import Database, Tx
from trackyard.store.idempotency.pending import PendingFile
from trackyard.store.idempotency.rule import WINDOW_MS, Create, Creates, digest_of
from trackyard.store.migrate import prepare


class Maker:
    """Makes numbered things, each call on a connection of its own."""

    def __init__(self, database: Database, path: Path) -> None:
        self.database = database
        self.creates = Creates(database, PendingFile(path, boot=b"this boot"))
        self.made = 0

    def call(self, *, gone: bool = False, digest: str = "d") -> Create:
        return self.creates.begin(digest, lambda: gone)

    def change(self, tx: Tx, create: Create, *, usable: bool = True) -> str:
        first = create.retried(tx, lambda _: usable)
        if first is not None:
            return first
        self.made += 1
        create.made(str(self.made))
        return str(self.made)

    async def run(self, create: Create, *, usable: bool = True) -> str:
        return await self.database.write(lambda tx: self.change(tx, create, usable=usable))


@pytest.fixture
async def maker(tmp_path: Path) -> AsyncIterator[Maker]:
    url = f"sqlite:///{tmp_path / 'yard.db'}"
    prepare(url)
    database = Database(url, clock=SystemClock())
    database.start()
    yield Maker(database, tmp_path / "pending")
    await database.close()


async def test_equal_calls_that_were_answered_make_two(maker: Maker) -> None:
    """However soon the second comes, and though the first connection is closed by then."""
    first = maker.call(gone=False)
    assert await maker.run(first) == "1"
    assert first.claim()
    assert await maker.run(maker.call()) == "2"


async def test_an_equal_call_while_the_first_still_waits_makes_a_second(maker: Maker) -> None:
    first, second = maker.call(), maker.call()
    assert await asyncio.gather(maker.run(first), maker.run(second)) == ["1", "2"]
    assert first.claim()
    assert second.claim()


async def test_a_lost_answer_goes_to_the_retry_once(maker: Maker) -> None:
    first = maker.call()
    await maker.run(first)
    await first.unanswered()
    retry = maker.call()
    assert not retry.is_first()
    assert await maker.run(retry) == "1"
    assert retry.claim()
    assert await maker.run(maker.call()) == "2"


async def test_every_lost_answer_has_its_own_retry(maker: Maker) -> None:
    calls = [maker.call() for _ in range(3)]
    for call in calls:
        await maker.run(call)
    await asyncio.gather(*(call.unanswered() for call in calls))
    again = [await maker.run(maker.call()) for _ in range(4)]
    assert sorted(again) == ["1", "2", "3", "4"]


async def test_a_retry_whose_answer_is_lost_too_is_retried(maker: Maker) -> None:
    for _ in range(3):
        call = maker.call()
        assert await maker.run(call) == "1"
        await call.unanswered()


async def test_a_retry_may_come_before_the_server_tried_to_answer(maker: Maker) -> None:
    """The first connection is known to have ended: its answer can no longer leave."""
    first = maker.call(gone=True)
    retry = maker.call()
    assert await asyncio.gather(maker.run(first), maker.run(retry)) == ["1", "1"]
    assert not first.claim()
    await first.unanswered()
    assert retry.claim()
    assert await maker.run(maker.call()) == "2"


async def test_a_group_that_is_run_again_keeps_to_its_rule(maker: Maker) -> None:
    """The group of first try and retry is undone by a third write: still one is made of both."""

    def fail(tx: Tx) -> None:
        tx.run("INSERT INTO names (name) VALUES ('never')")
        raise InvalidInput("no")

    first, retry = maker.call(gone=True), maker.call()
    one, two = asyncio.ensure_future(maker.run(first)), asyncio.ensure_future(maker.run(retry))
    await asyncio.sleep(0)
    third = maker.database.write(fail)
    with pytest.raises(InvalidInput):
        await third
    assert await one == await two


async def test_other_words_are_no_retry(maker: Maker) -> None:
    first = maker.call()
    await maker.run(first)
    await first.unanswered()
    other = maker.call(digest="e")
    assert other.is_first()
    assert await maker.run(other) == "2"


async def test_what_was_changed_since_is_not_given_again(maker: Maker) -> None:
    first = maker.call()
    await maker.run(first)
    await first.unanswered()
    assert await maker.run(maker.call(), usable=False) == "2"
    assert await maker.run(maker.call()) == "3"


async def test_a_proof_past_its_time_counts_no_more(maker: Maker) -> None:
    first = maker.call()
    await maker.run(first)
    await first.unanswered()
    await maker.database.write(
        lambda tx: tx.run("UPDATE lost_answers SET created_ms = created_ms - ?", (WINDOW_MS + 1,))
    )
    assert await maker.run(maker.call()) == "2"


async def test_a_killed_process_proves_what_it_did_not_answer(
    maker: Maker, tmp_path: Path
) -> None:
    answered, cut_off = maker.call(digest="a"), maker.call(digest="b")
    await maker.run(answered)
    await maker.run(cut_off)
    assert answered.claim()
    again = Maker(maker.database, tmp_path / "pending")
    again.made = 2
    await again.creates.recover()
    assert await again.run(again.call(digest="a")) == "3"
    retry = again.call(digest="b")
    assert not retry.is_first()
    assert await again.run(retry) == "2"


async def test_another_server_of_the_database_uses_a_proof_and_nothing_else(
    maker: Maker, tmp_path: Path
) -> None:
    other = Maker(maker.database, tmp_path / "other")
    other.made = 10
    waiting = maker.call(gone=True)
    await maker.run(waiting)
    assert await other.run(other.call()) == "11"
    await waiting.unanswered()
    assert await other.run(other.call()) == "1"
    assert await maker.run(maker.call()) == "2"


def test_a_digest_knows_every_part_and_no_order_of_keys() -> None:
    assert digest_of("r", 1, {"a": 1, "b": 2}) == digest_of("r", 1, {"b": 2, "a": 1})
    assert digest_of("r", 1, {"a": 1}) != digest_of("r", 2, {"a": 1})
    assert digest_of("ab", "c") != digest_of("a", "bc")
