"""A yard with a calendar on each database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.leases.yard import LeaseYard, open_lease_yard


@pytest.fixture
async def calendar(database_url: str, tmp_path: Path) -> AsyncIterator[LeaseYard]:
    """Three nodes with two GPUs each."""
    async with open_lease_yard(database_url, tmp_path) as found:
        yield found
