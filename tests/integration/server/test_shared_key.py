"""Servers of one PostgreSQL seal with one key, whose name the database remembers."""

from pathlib import Path

import pytest

from trackyard.access.sealing import Seal
from trackyard.access.shared_key import agree_on_key
from trackyard.core.errors import InternalFault
from trackyard.store.database import Database


async def test_a_second_server_seals_once_it_has_the_first_ones_key(
    database: Database, tmp_path: Path
) -> None:
    first, second = Seal(tmp_path / "first.key"), Seal(tmp_path / "second.key")
    await agree_on_key(database, first, is_named=False)
    await agree_on_key(database, second, is_named=False)
    sealed = first.close("value", purpose="env:1")
    if database.is_sqlite:
        assert (first.expected, second.expected) == (None, None)
        assert second.open(second.close("own", purpose="env:1"), purpose="env:1") == "own"
        return
    assert second.lacks_key()
    assert not first.lacks_key()
    with pytest.raises(InternalFault, match=r"Copy `secrets\.key` from the home of another"):
        second.close("value", purpose="env:1")
    assert not second.path.exists(), "a key of its own would only mislead"

    second.path.write_text(first.path.read_text())
    again = Seal(second.path)
    await agree_on_key(database, again, is_named=False)
    assert again.open(sealed, purpose="env:1") == "value"
    assert first.open(again.close("other", purpose="env:1"), purpose="env:1") == "other"


async def test_a_key_that_the_settings_name_becomes_the_databases(
    database: Database, tmp_path: Path
) -> None:
    own, named = Seal(tmp_path / "own.key"), Seal(tmp_path / "named.key")
    await agree_on_key(database, own, is_named=False)
    await agree_on_key(database, named, is_named=True)
    assert named.close("value", purpose="env:1")
    later = Seal(own.path)
    await agree_on_key(database, later, is_named=False)
    assert later.lacks_key() is not database.is_sqlite
