"""A yard on each database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.jobs.yard import Yard, open_yard


@pytest.fixture
async def yard(database_url: str, tmp_path: Path) -> AsyncIterator[Yard]:
    """One node with two GPUs and one user."""
    async with open_yard(database_url, tmp_path) as found:
        yield found


@pytest.fixture
async def two_nodes(database_url: str, tmp_path: Path) -> AsyncIterator[Yard]:
    """Two nodes with one GPU each."""
    async with open_yard(database_url, tmp_path, gpus=1, nodes=2) as found:
        yield found
