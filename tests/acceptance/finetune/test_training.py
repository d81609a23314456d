"""Fine-tuning in one process, on the CPU, in the environment that has torch."""

from typing import Any

import pytest

from tests.acceptance.finetune.checking import SECONDS, checks_of, run_checks


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return run_checks("check_training.py", tmp_path_factory.mktemp("alone"))


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("name", checks_of("check_training.py"))
def test_one_process(alone: dict[str, dict[str, Any]], name: str) -> None:
    """A check of one process holds."""
    assert alone[name]["ok"], alone[name].get("why")
