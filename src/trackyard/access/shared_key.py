"""Which key the servers of one PostgreSQL seal with: the database remembers its name.

Owns that row of `settings`. The first server makes the key; another that lacks it seals nothing
until the file is there. The key itself is never in the database. SQLite has one server and needs
none of this.
"""

from __future__ import annotations

from trackyard.access.sealing import Seal
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.store.settings import keep_first_setting, keep_setting, setting

ROW = "secrets_key"


async def agree_on_key(database: Database, seal: Seal, *, is_named: bool) -> None:
    """Have a server seal with the database's key alone.

    A key file that the settings name becomes the database's; one that a server made for itself
    does so only where there is none yet.
    """
    if database.is_sqlite:
        return
    if is_named or await database.read(known_key) is None:
        name = seal.key_name()

        def keep(tx: Tx) -> None:
            (keep_setting if is_named else keep_first_setting)(tx, ROW, name)

        await database.write(keep)
    # Another server may have been quicker.
    seal.expected = await database.read(known_key)


def known_key(reader: ReadConnection) -> str | None:
    """Return the name of the key that this database's servers seal with."""
    return setting(reader, ROW)
