"""Names of experiments: MLflow's freedom, without what no eye can see."""

import pytest

from trackyard.core.errors import InvalidInput
from trackyard.tracking.validation import check_experiment_name


@pytest.mark.parametrize("name", ["", "a\nb", "a\0", "a\x7f", "a\x85b", "a\u2028b", "x" * 501])
def test_names_that_hide_something_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_experiment_name(name)


@pytest.mark.parametrize("name", ["/Users/me/exp: 1", "Exp", "exp", " exp", "a%20b", "模型", "R²"])
def test_what_mlflow_takes_is_taken(name: str) -> None:
    """Names that differ in case or spelling alone are different experiments in MLflow."""
    assert check_experiment_name(name) == name
