"""Plumbing for every suite: nothing here starts a server or opens a file."""

import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.raycluster import (
    _whole_cluster,
    clear_cluster,
    pytest_runtest_teardown,
    ray_cluster,
)
from tests.slurmcluster import _whole_slurm, slurm_cluster
from tests.spreading import Spreading, is_counted, place_of, unit_of

__all__ = [
    "_whole_cluster",
    "_whole_slurm",
    "clear_cluster",
    "pytest_runtest_teardown",
    "ray_cluster",
    "slurm_cluster",
]

#: Settings a developer's shell may hold, which would lead a test to another server or home.
FOREIGN = ("YARD_", "MLFLOW_", "RAY_", "SLURM_")
#: Settings of the test run itself.
OWN = ("YARD_TEST_", "YARD_MODEL_")

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
    # A run in a shell's background is deaf to Ctrl+C, and so would be all that it starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The order is ours, not one by how many tests a unit has.
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the tests into the order in which their units start; say which are uncounted."""
    for item in items:
        if not is_counted(item.nodeid):
            item.add_marker("no_cover")
    items.sort(key=lambda item: place_of(unit_of(item.nodeid)))


class _FailuresAtOnce:
    """Names each failed test when it fails: the whole run takes half an hour."""

    def __init__(self, terminal: Any) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"{report.when} failed: {report.nodeid}")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have the process that prints tell of failures as they come."""
    plugins = session.config.pluginmanager
    terminal = plugins.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(session.config, "workerinput"):
        plugins.register(_FailuresAtOnce(terminal), "failures-at-once")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Spreading | None:
    """Take the place of `--dist loadscope`; any other choice is left as it is."""
    return Spreading(config, log) if config.getoption("dist") == "loadscope" else None
