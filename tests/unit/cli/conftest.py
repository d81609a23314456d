"""A clock that stands still, in a known zone, so that output can be compared whole."""

import os
import time
from collections.abc import Iterator

import pytest

from tests.unit.cli.samples import NOW
from trackyard.cli.jobs import jobview


@pytest.fixture
def still_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold the clock at NOW, and the zone at UTC."""
    monkeypatch.setattr(jobview, "now_ms", lambda: NOW)
    before = os.environ.get("TZ")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    assert os.environ.get("TZ") == before
    time.tzset()
