"""The file of unanswered create calls: it survives the process, and is believed no further."""

from pathlib import Path

from trackyard.store.idempotency.pending import HEAD_BYTES, SLOT_BYTES, PendingCreate, PendingFile

ONE, TWO = PendingCreate("d1", "r1"), PendingCreate("d2", "r2")


def open_file(path: Path, boot: bytes = b"boot") -> PendingFile:
    return PendingFile(path, boot=boot)


def test_what_was_not_cleared_is_found_once(tmp_path: Path) -> None:
    path = tmp_path / "pending"
    before = open_file(path)
    gone, stays = before.put(None, ONE), before.put(None, TWO)
    assert gone != stays
    before.clear(gone)
    after = open_file(path)
    assert after.recover() == [TWO]
    assert open_file(path).recover() == []


def test_a_slot_is_written_over_and_used_again(tmp_path: Path) -> None:
    path = tmp_path / "pending"
    file = open_file(path)
    slot = file.put(None, ONE)
    assert file.put(slot, TWO) == slot
    file.clear(slot)
    assert file.put(None, ONE) == slot
    assert path.stat().st_size <= HEAD_BYTES + SLOT_BYTES
    assert open_file(path).recover() == [ONE]


def test_a_machine_that_went_down_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pending"
    open_file(path).put(None, ONE)
    assert open_file(path, boot=b"another").recover() == []


def test_where_the_machine_has_no_name_nothing_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "pending"
    open_file(path, boot=b"").put(None, ONE)
    assert open_file(path, boot=b"").recover() == []


def test_garbage_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "pending"
    file = open_file(path)
    file.put(None, ONE)
    file.put(None, TWO)
    data = bytearray(path.read_bytes())
    data[HEAD_BYTES + 12] ^= 1
    path.write_bytes(data)
    assert open_file(path).recover() == [TWO]
    path.write_bytes(b"something else")
    assert open_file(path).recover() == []


def test_what_does_not_fit_or_has_no_file_is_not_kept(tmp_path: Path) -> None:
    file = open_file(tmp_path / "pending")
    assert file.put(None, PendingCreate("d", "r" * SLOT_BYTES)) is None
    nowhere = PendingFile()
    assert nowhere.put(None, ONE) is None
    nowhere.clear(None)
    assert nowhere.recover() == []
    unwritable = open_file(tmp_path / "none" / "pending")
    assert unwritable.put(None, ONE) is None
