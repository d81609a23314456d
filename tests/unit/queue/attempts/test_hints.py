"""What a script for an older Ray is told."""

import pytest

from trackyard.queue.attempts.hints import OLD_TRAIN, given, hint

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
        ("ray.tune.error.TuneError: Improper 'run' - not string nor trainable.", "inside a func"),
        (
            (
                "DeprecationWarning: Detected use of a deprecated Trainer import from"
                " `ray.train.torch.torch_trainer`. This Trainer"
            ),
            "instead of from `ray.train.torch.torch_trainer`",
        ),
        (
            (
                "DeprecationWarning: `ray.train.get_checkpoint` is deprecated when running in a"
                " function passed to Ray Tune."
            ),
            "`ray.tune.get_checkpoint`",
        ),
        (
            "DeprecationWarning: The `config` property for a `ray.train.Result` is deprecated,",
            "`result.config`",
        ),
        (
            "DeprecationWarning: The `accelerate`, `backward`, and `prepare_optimizer` utility m",
            "`torch.autocast`",
        ),
        (f"ray.tune.error.TuneError: A `TorchTrainer` was given. {MORE}", "inside a function"),
    ],
)
def test_each_refusal_of_the_newer_train_is_answered_with_both_fixes(said: str, fix: str) -> None:
    words = hint(f"{TRACEBACK}{said}\n")
    assert words is not None
    assert fix in words
    assert OLD_TRAIN in words


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("DeprecationWarning: The `local_dir` argument is deprecated. You", "`storage_path`"),
        ("DeprecationWarning: The `RunConfig(local_dir)` argument is deprecated.", "storage_path"),
        (
            (
                "DeprecationWarning: The environment variable `TUNE_RESULT_DIR` is deprecated."
                " It is no longer used and"
            ),
            "TUNE_RESULT_DIR",
        ),
        ("ModuleNotFoundError: No module named 'ray.air.checkpoint'", "from ray.train import"),
        ("ImportError: cannot import name 'Checkpoint' from 'ray.air' (/x)", "from ray.train"),
        (
            "ImportError: cannot import name 'TransformersTrainer' from 'ray.train.huggingface'",
            "TorchTrainer",
        ),
        ("ImportError: cannot import name 'Trainer' from 'ray.train' (/x)", "TorchTrainer"),
        ("ModuleNotFoundError: No module named 'ray.tune.suggest'", "ray.tune.search"),
        ("TypeError: report() got an unexpected keyword argument 'loss'", "report({'loss': …})"),
    ],
)
def test_what_ray_no_longer_has_is_answered_with_what_took_its_place(said: str, fix: str) -> None:
    words = hint(f"{TRACEBACK}{said}\n")
    assert words is not None
    assert fix in words
    assert OLD_TRAIN not in words
    assert given(["something else", words]) == words


def test_the_last_refusal_counts_and_other_failures_are_left_alone() -> None:
    first = "DeprecationWarning: `RunConfig(verbose)` is deprecated."
    last = "DeprecationWarning: `RunConfig(stop)` is deprecated."
    words = hint(f"{first}\n{last}\n")
    assert words is not None
    assert "`stop`" in words
    assert hint("Traceback\nValueError: no such file\n") is None
    assert hint("DeprecationWarning: the imp module is deprecated\n") is None
