"""A platform on each database, for tests that call routes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.server.platform import Platform, open_platform


@pytest.fixture
async def platform(database_url: str, tmp_path: Path) -> AsyncIterator[Platform]:
    """A platform with its first admin."""
    async with open_platform(database_url, tmp_path / "home") as found:
        yield found
