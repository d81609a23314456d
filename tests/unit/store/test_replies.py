"""The rule that tells a retried create call from a second wish."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from trackyard.store import replies
from trackyard.store.connection import SqliteConnection
from trackyard.store.database import Tx
from trackyard.store.replies import LatestRequests, connection_is_open, digest_of
from trackyard.store.schema import metadata

START = 1_700_000_000_000
FIRST, SECOND = "10.0.0.1:4001", "10.0.0.1:4002"


@pytest.fixture
def conn() -> Iterator[SqliteConnection]:
    memory = SqliteConnection(Path(":memory:"))
    table = metadata.tables["replies"]
    memory.run(str(CreateTable(table).compile(dialect=sqlite.dialect())))
    yield memory
    memory.close()


def retry(
    conn: SqliteConnection,
    *,
    after_ms: int = 1000,
    peer: str = SECOND,
    is_open: bool | None = False,
    is_latest: bool = True,
    is_fresh: bool = True,
    boot: str = "b1",
    digest: str = "d",
    is_running: bool = False,
) -> str | None:
    replies.remember(Tx(conn, START), "d", "first", peer=FIRST, boot="b1")
    return replies.find_retry(
        Tx(conn, START + after_ms),
        digest,
        peer=peer,
        is_latest=is_latest,
        is_fresh=lambda result: is_fresh and result == "first",
        boot=boot,
        is_open=lambda _: is_open,
        is_running=lambda _tx, name: is_running and name == "b1",
    )


def test_the_same_words_on_a_new_connection_are_a_retry(conn: SqliteConnection) -> None:
    assert retry(conn) == "first"


def test_a_second_wish_on_the_same_connection_is_no_retry(conn: SqliteConnection) -> None:
    assert retry(conn, peer=FIRST) is None


def test_while_the_first_connection_lives_it_is_no_retry(conn: SqliteConnection) -> None:
    assert retry(conn, is_open=True) is None


def test_another_request_in_between_ends_the_retry(conn: SqliteConnection) -> None:
    assert retry(conn, is_latest=False) is None


def test_what_was_changed_since_was_answered(conn: SqliteConnection) -> None:
    assert retry(conn, is_fresh=False) is None
    assert retry(conn, is_fresh=False, boot="b2") is None


def test_after_five_minutes_it_is_a_new_wish(conn: SqliteConnection) -> None:
    assert retry(conn, after_ms=replies.WINDOW_MS) == "first"
    assert retry(conn, after_ms=replies.WINDOW_MS + 1) is None


def test_after_a_restart_the_first_connection_is_gone_for_sure(conn: SqliteConnection) -> None:
    assert retry(conn, boot="b2", is_open=True, peer=FIRST) == "first"


def test_two_servers_of_one_machine_see_each_others_connections(conn: SqliteConnection) -> None:
    assert retry(conn, boot="b1-2", is_running=True, is_open=True) is None
    assert retry(conn, boot="b1-2", is_running=True, is_open=False) == "first"


def test_of_a_server_elsewhere_that_lives_a_minute_decides(conn: SqliteConnection) -> None:
    assert retry(conn, boot="b2", is_running=True, is_open=True) == "first"
    assert retry(conn, boot="b2", is_running=True, after_ms=60_000) is None


@pytest.mark.parametrize(("after_ms", "answer"), [(59_999, "first"), (60_000, None)])
def test_where_sockets_cannot_be_seen_a_minute_decides(
    conn: SqliteConnection, after_ms: int, answer: str | None
) -> None:
    assert retry(conn, after_ms=after_ms, is_open=None) == answer


def test_other_words_are_no_retry(conn: SqliteConnection) -> None:
    assert retry(conn, digest="e") is None


def test_the_latest_answer_replaces_the_one_before(conn: SqliteConnection) -> None:
    replies.remember(Tx(conn, START), "d", "old", peer=FIRST, boot="b0")
    assert retry(conn) == "first"


def test_answers_past_their_time_are_swept(conn: SqliteConnection) -> None:
    replies.remember(Tx(conn, START), "1", "old", peer=FIRST)
    replies.remember(Tx(conn, START + replies.WINDOW_MS + 1), "0", "new", peer=FIRST)
    assert conn.all("SELECT digest FROM replies") == [("0",)]


def test_a_digest_knows_every_part_and_no_order_of_keys() -> None:
    assert digest_of("r", 1, {"a": 1, "b": 2}) == digest_of("r", 1, {"b": 2, "a": 1})
    assert digest_of("r", 1, {"a": 1}) != digest_of("r", 2, {"a": 1})
    assert digest_of("ab", "c") != digest_of("a", "bc")


class TestLatestRequests:
    """What a caller asked last about a thing."""

    def test_an_unknown_past_counts_as_undisturbed(self) -> None:
        assert LatestRequests().note("net", "create")

    def test_the_same_request_again_is_undisturbed(self) -> None:
        latest = LatestRequests()
        latest.note("net", "create")
        assert latest.note("net", "create")

    def test_another_request_disturbs_it_once(self) -> None:
        latest = LatestRequests()
        latest.note("net", "create")
        latest.note("net", "")
        assert not latest.note("net", "create")
        assert latest.note("net", "create")

    def test_other_things_do_not_disturb(self) -> None:
        latest = LatestRequests()
        latest.note("net", "create")
        latest.note("other", "")
        assert latest.note("net", "create")

    def test_memory_is_bounded(self) -> None:
        latest = LatestRequests(limit=2)
        for name in ("a", "b", "c"):
            latest.note(name, "x")
        assert latest.note("a", "y")
        assert not latest.note("c", "y")


class TestConnectionIsOpen:
    """Looking a peer up in the kernel's socket tables."""

    HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n"
    LINE = "   0: 0100007F:1F40 {peer} {state} 00000000:00000000 00:00000000 00000000\n"

    def table(self, folder: Path, *rows: tuple[str, str]) -> tuple[Path, ...]:
        path = folder / "tcp"
        lines = [self.LINE.format(peer=peer, state=state) for peer, state in rows]
        path.write_text(self.HEADER + "".join(lines))
        return (path,)

    @pytest.mark.parametrize(
        ("peer", "kernel"),
        [
            ("127.0.0.1:4660", "0100007F:1234"),
            ("[::1]:80", "00000000000000000000000001000000:0050"),
            ("::1:80", "00000000000000000000000001000000:0050"),
            ("127.0.0.1:4660", "0000000000000000FFFF00000100007F:1234"),
            ("[::ffff:127.0.0.1]:4660", "0100007F:1234"),
        ],
    )
    def test_an_established_peer_is_found(self, tmp_path: Path, peer: str, kernel: str) -> None:
        assert connection_is_open(peer, self.table(tmp_path, (kernel, "01"))) is True

    @pytest.mark.parametrize("state", ["06", "08", "04"])
    def test_a_closing_connection_is_not_open(self, tmp_path: Path, state: str) -> None:
        tables = self.table(tmp_path, ("0100007F:1234", state))
        assert connection_is_open("127.0.0.1:4660", tables) is False

    def test_another_port_is_another_peer(self, tmp_path: Path) -> None:
        tables = self.table(tmp_path, ("0100007F:1235", "01"))
        assert connection_is_open("127.0.0.1:4660", tables) is False

    def test_without_tables_nobody_can_tell(self, tmp_path: Path) -> None:
        assert connection_is_open("127.0.0.1:4660", (tmp_path / "none",)) is None

    @pytest.mark.parametrize("peer", ["", "unix", "host:80", "127.0.0.1:x"])
    def test_a_peer_without_an_address_cannot_be_told(self, peer: str) -> None:
        assert connection_is_open(peer) is None
