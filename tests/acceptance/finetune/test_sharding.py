"""Fine-tuning on several ranks over gloo, and resuming after kill -9."""

from typing import Any

import pytest

from tests.acceptance.finetune.checking import SECONDS, checks_of, run_checks


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return run_checks("check_sharding.py", tmp_path_factory.mktemp("together"))


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("name", checks_of("check_sharding.py"))
def test_several_ranks(together: dict[str, dict[str, Any]], name: str) -> None:
    """A check of several ranks holds."""
    assert together[name]["ok"], together[name].get("why")
