"""What a script for an older Ray is told."""

import pytest

from trackyard.jobs.hints import OLD_TRAIN, hint

TRACEBACK = "Traceback (most recent call last):\n  File train.py, line 3\n"
MORE = "See this issue for more context: https://github.com/ray-project/ray/issues/49454"


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("DeprecationWarning: `RunConfig(verbose)` is deprecated. This", "take `verbose` out of"),
        ("DeprecationWarning: `RunConfig(sync_config)` is deprecated.", "take `sync_config` out"),
        (
            "DeprecationWarning: `ray.train.FailureConfig(fail_fast)` is deprecated since",
            "take `fail_fast` out of `ray.train.FailureConfig`",
        ),
        (
            "DeprecationWarning: `ray.train.ScalingConfig(trainer_resources)` is deprecated.",
            "take `trainer_resources` out",
        ),
        ("DeprecationWarning: `checkpoint_at_end` is deprecated since", "`ray.train.report`"),
        ("DeprecationWarning: `resume_from_checkpoint` is deprecated and", "storage_path"),
        (
            "DeprecationWarning: The `restore` and `can_restore` APIs are deprecated and",
            "restored by itself",
        ),
        ("DeprecationWarning: `get_trial_name` is deprecated because", "`get_trial_name`"),
        ("ValueError: All callbacks must be instances of `ray.train.UserCallback`. P", "subclass"),
        (f"ray.tune.error.TuneError: A `TorchTrainer` was given. {MORE}", "inside a function"),
    ],
)
def test_each_refusal_of_the_newer_train_is_answered_with_both_fixes(said: str, fix: str) -> None:
    words = hint(f"{TRACEBACK}{said}\n")
    assert words is not None
    assert fix in words
    assert OLD_TRAIN in words


def test_the_last_refusal_counts_and_other_failures_are_left_alone() -> None:
    first = "DeprecationWarning: `RunConfig(verbose)` is deprecated."
    last = "DeprecationWarning: `RunConfig(stop)` is deprecated."
    words = hint(f"{first}\n{last}\n")
    assert words is not None
    assert "`stop`" in words
    assert hint("Traceback\nValueError: no such file\n") is None
    assert hint("DeprecationWarning: the imp module is deprecated\n") is None
