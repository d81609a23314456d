"""What to do about a failure whose cause is known: the fix, in the job's log, page and timeline.

Owns the phrases by which newer releases of Ray refuse scripts written for older ones, and what
mends each. Only a failed attempt is looked at, and only the end of its log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trackyard.core.ports import ExitRecord
from trackyard.queue.attempts import logs
from trackyard.queue.records import AttemptRow, attempt_of, job_by_inner
from trackyard.queue.retry_policy import AttemptVerdict
from trackyard.queue.transitions import job_event
from trackyard.store.database import Tx

TAIL_BYTES = 64 * 1024
OLD_TRAIN = "RAY_TRAIN_V2_ENABLED=0"
#: what Ray says -> what to change in the script; {0} is the name that Ray complains about
_REFUSED: Mapping[str, str] = {
    r"DeprecationWarning: `(?:ray\.train\.)?RunConfig\((\w+)\)` is deprecated": (
        "take `{0}` out of `ray.train.RunConfig` (Ray Tune still takes it in `ray.tune.RunConfig`)"
    ),
    r"DeprecationWarning: `(?:ray\.train\.)?FailureConfig\((\w+)\)` is deprecated": (
        "take `{0}` out of `ray.train.FailureConfig` (`ray.tune.FailureConfig` still takes it)"
    ),
    r"DeprecationWarning: `(?:ray\.train\.)?ScalingConfig\((trainer_resources)\)` is deprecated": (
        "take `{0}` out of `ScalingConfig`: the controller needs no resources any more"
    ),
    r"DeprecationWarning: `(checkpoint_frequency|checkpoint_at_end)` is deprecated": (
        "take `{0}` out of `CheckpointConfig`: pass a checkpoint to `ray.train.report` instead"
    ),
    r"DeprecationWarning: `(resume_from_checkpoint)` is deprecated": (
        "take `{0}` out: a run of the same name and storage_path goes on from its last checkpoint"
    ),
    r"DeprecationWarning: The `(restore)` and `can_restore` APIs are deprecated": (
        "build the trainer as usual: a run of the same name and storage_path is restored by itself"
    ),
    r"DeprecationWarning: `(get_metadata)` was an experimental API": (
        "pass what `metadata` held by `train_loop_config` instead"
    ),
    r"DeprecationWarning: `(get_trial_\w+)` is deprecated": (
        "take `{0}` out: a Train worker belongs to no trial any more;"
        " `ray.train.get_context().get_experiment_name()` names the run"
    ),
    r"All callbacks must be instances of `(ray\.train\.UserCallback)`": (
        "make the callbacks in `RunConfig` subclasses of `{0}`; Tune's belong to `ray.tune`"
    ),
    r"Invalid `(CheckpointConfig|FailureConfig)` type": (
        "import `{0}` from `ray.train`, not from `ray.tune` or `ray.air`"
    ),
    r"(?:TuneError|DeprecationWarning|ValueError): [^\n]*(Trainer)[^\n]*issues/49454": (
        "call the trainer's `fit()` inside a function and give that function to `Tuner`"
    ),
    r"TuneError: (Improper 'run') - not string nor trainable": (
        "call the trainer's `fit()` inside a function and give that function to `Tuner`"
    ),
    r"DeprecationWarning: Detected use of a deprecated Trainer import from `([\w.]+)`": (
        "import the trainer from its package, as in `from ray.train.torch import TorchTrainer`,"
        " instead of from `{0}`"
    ),
    r"DeprecationWarning: `ray\.train\.(\w+)` is deprecated when running in a function": (
        "write `ray.tune.{0}` for `ray.train.{0}` in functions that Tune runs"
    ),
    r"DeprecationWarning: The `(config)` property for a `ray\.train\.Result` is deprecated": (
        "take `result.{0}` out: only results of Tune have it"
    ),
    r"DeprecationWarning: The `(accelerate)`, `backward`, and `prepare_optimizer` utility": (
        "use PyTorch's own mixed precision (`torch.autocast`), or Lightning or Accelerate"
    ),
}
#: what Ray has given up altogether, so that no variable brings it back
_GONE: Mapping[str, str] = {
    r"DeprecationWarning: The `(?:RunConfig\()?(local_dir)\)?` argument is deprecated": (
        "write `storage_path` for `{0}`"
    ),
    r"DeprecationWarning: The environment variable `(\w+)` is deprecated. It is no longer used": (
        "set `storage_path` in the script's `RunConfig` and leave the variable `{0}` out"
    ),
    r"(?:cannot import name|No module named) 'ray\.air\.(checkpoint)'": (
        "write `from ray.train import Checkpoint`"
    ),
    r"cannot import name '(Checkpoint)' from 'ray\.air'": "write `from ray.train import {0}`",
    r"cannot import name '(\w+Trainer)' from 'ray\.train\.(?:huggingface|lightning)'": (
        "use `ray.train.torch.TorchTrainer` with the library's own trainer in its training"
        " function, instead of `{0}`"
    ),
    r"cannot import name '(Trainer)' from 'ray\.train'": (
        "use `ray.train.torch.TorchTrainer` instead of `ray.train.{0}`"
    ),
    r"No module named 'ray\.tune\.(suggest)": "write `ray.tune.search` for `ray.tune.{0}`",
    r"TypeError: report\(\) got an unexpected keyword argument '(\w+)'": (
        "give `report` its metrics as one dictionary, as in `report({{'{0}': …}})`"
    ),
}
#: how every hint begins, and what tells one among an attempt's notes
OPENING = "This script was written for"


def _train(fix: str) -> str:
    return (
        f"{OPENING} an older Ray Train than the cluster's. Either"
        f" {fix}, or set {OLD_TRAIN} in the job's env_vars to run it as it is."
    )


def _gone(fix: str) -> str:
    return f"{OPENING} an older Ray than the cluster's: {fix}."


_PATTERNS = [
    (re.compile(pattern), fix, say)
    for phrases, say in ((_REFUSED, _train), (_GONE, _gone))
    for pattern, fix in phrases.items()
]


def hint(text: str) -> str | None:
    """Return what mends the failure that a log ends with, or None if that is not known."""
    found = [
        (match.start(), say(fix.format(*match.groups())))
        for pattern, fix, say in _PATTERNS
        for match in pattern.finditer(text)
    ]
    return max(found)[1] if found else None


def given(notes: Sequence[str]) -> str | None:
    """Return the hint among an attempt's notes."""
    return next((note for note in reversed(notes) if note.startswith(OPENING)), None)


def judged(tx: Tx, record: ExitRecord) -> AttemptVerdict:
    """Take the runner's word, with what mends the failure where that is known."""
    verdict = AttemptVerdict.of(record)
    attempt = attempt_of(tx, record.attempt_id)
    if attempt is None or attempt.is_over:
        return verdict
    words = _give(tx, attempt, record)
    return verdict if words is None else replace(verdict, notes=(*verdict.notes, words))


def _give(tx: Tx, attempt: AttemptRow, record: ExitRecord) -> str | None:
    """Look for a known failure; say in the log and the timeline what mends it."""
    if record.succeeded or record.exit_code in (None, 0):
        return None
    end = logs.log_end(tx, attempt.id, record.member) or 0
    tail = logs.read(tx, attempt.id, record.member, max(0, end - TAIL_BYTES), TAIL_BYTES)
    words = hint(tail.decode("utf-8", "replace"))
    if words is None:
        return None
    if end >= record.log_bytes:
        # The runner has nothing more to add, so that this is the last line for everyone.
        line = f"[yard] {words}\n".encode()
        logs.append(tx, attempt, record.member, end, line)
    job_event(
        tx, "job.hint", job_by_inner(tx, attempt.job), attempt=attempt.number, sentence=words
    )
    return words
