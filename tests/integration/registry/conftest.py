"""The teams that the registry's tests play with."""

import pytest

from tests.integration.registry.world import World, make_world
from trackyard.store.database import Database


@pytest.fixture
async def world(database: Database) -> World:
    """One team."""
    return await make_world(database, "vision")


@pytest.fixture
async def other(database: Database) -> World:
    """Another team on the same database."""
    return await make_world(database, "speech")
