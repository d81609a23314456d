"""Plumbing for every suite: nothing here starts a server or opens a file."""

import pytest


@pytest.fixture(autouse=True)
def _no_inherited_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the caller's own servers and tokens out of the tests."""
    for name in (
        "YARD_HOME",
        "YARD_PORT",
        "YARD_TOKEN",
        "YARD_URL",
        "MLFLOW_TRACKING_PASSWORD",
        "MLFLOW_TRACKING_TOKEN",
        "MLFLOW_TRACKING_URI",
        "MLFLOW_TRACKING_USERNAME",
        "RAY_ADDRESS",
    ):
        monkeypatch.delenv(name, raising=False)
