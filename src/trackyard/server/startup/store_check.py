"""Insists at start that the artifact store is this database's own. Owns when that is looked at,
also where the store cannot be reached yet: tracking does not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal

from trackyard.artifacts.identity import check_identity
from trackyard.core.errors import SetupError, TooBusy
from trackyard.server.services import Services
from trackyard.store.postgres.exclusive import exclusive

log = logging.getLogger(__name__)

#: Seconds for the store to answer at start, and between later tries.
PATIENCE_SECONDS, AGAIN_SECONDS = 15.0, 10.0
#: Serialises servers that start at once on one PostgreSQL.
_STORE_LOCK = 0x7961_7273


async def check_store(services: Services) -> bool:
    """Refuse to go on with a store of another database; return False if it does not answer."""
    try:
        async with (
            exclusive(services.database.url, _STORE_LOCK),
            asyncio.timeout(PATIENCE_SECONDS),
        ):
            await check_identity(services.database, services.artifacts.blobs)
    except (TooBusy, TimeoutError) as fault:
        log.warning(
            "the artifact store %s does not answer (%s): whether it is this database's own is"
            " looked at later",
            services.artifacts.blobs.place,
            str(fault) or "no answer in time",
        )
        return False
    return True


async def check_store_later(services: Services) -> None:
    """Ask until the store answers; end the server if it is the wrong one."""
    while True:
        await asyncio.sleep(AGAIN_SECONDS)
        try:
            if await check_store(services):
                return
        except SetupError as fault:
            log.critical("%s; %s. The server ends here", fault.message, fault.hint)
            os.kill(os.getpid(), signal.SIGTERM)
            return
