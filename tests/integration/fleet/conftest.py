"""A yard on each database, with a fleet that loses patience after two looks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.jobs.yard import Yard, open_yard
from trackyard.fleet.policy import HealthPolicy

POLICY = HealthPolicy(every_seconds=10, quarantine_after=2, lift_after=2)


@pytest.fixture
async def yard(database_url: str, tmp_path: Path) -> AsyncIterator[Yard]:
    """One node with two GPUs and one user."""
    async with open_yard(database_url, tmp_path) as found:
        found.scheduler.fleet.policy = POLICY
        await found.tick(60)
        yield found
