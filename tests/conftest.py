"""Plumbing for every suite: nothing here starts a server or opens a file."""

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.raycluster import ray_cluster

__all__ = ["ray_cluster"]

#: Settings a developer's shell may hold, which would lead a test to another server or home.
FOREIGN = ("YARD_", "MLFLOW_", "RAY_")
#: Settings of the test run itself.
OWN = "YARD_TEST_"

# A slow machine is no fault of the code, and one commit has one verdict.
settings.register_profile(
    "trackyard",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("trackyard")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the caller's own servers and tokens out of the tests and of what they start."""
    for name in list(os.environ):
        if name.startswith(FOREIGN) and not name.startswith(OWN):
            del os.environ[name]
    # Most tests start processes; each would compile what it imports anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
