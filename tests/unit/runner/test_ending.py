"""Causes are told apart and said in a sentence."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from trackyard.core.ports import ExitCause
from trackyard.runner.ending import ExitFacts, judge, last_error_line

EXIT = 256


@pytest.mark.parametrize(
    ("facts", "cause", "exit_code", "number"),
    [
        ({"status": 0}, "succeeded", 0, None),
        ({"status": 1 * EXIT}, "exit_code", 1, None),
        ({"status": 127 * EXIT}, "command", 127, None),
        ({"status": 126 * EXIT}, "command", 126, None),
        ({"status": 85 * EXIT}, "preempted", 85, None),
        ({"status": 85 * EXIT, "asked": "preempted"}, "preempted", 85, None),
        ({"status": signal.SIGSEGV}, "signal", None, 11),
        ({"status": signal.SIGTERM, "asked": "stopped"}, "stopped", None, 15),
        ({"status": 0, "asked": "stopped"}, "stopped", 0, None),
        ({"status": 9, "asked": "time_limit", "forced": True}, "time_limit", None, 9),
        ({"status": 9, "asked": "gang"}, "gang", None, 9),
        ({"status": 9, "asked": "fenced"}, "fenced", None, 9),
        ({"status": 0, "asked": "gang_done"}, "succeeded", 0, None),
        ({"status": 9, "asked": "memory"}, "out_of_memory", None, 9),
        ({"status": 9, "oom_in_limit": True}, "out_of_memory", None, 9),
        ({"status": 1 * EXIT, "oom_in_limit": True}, "out_of_memory", 1, None),
        ({"status": 9, "oom_on_machine": True}, "out_of_memory", None, 9),
        ({"status": 137 * EXIT, "oom_on_machine": True}, "out_of_memory", 137, None),
        ({"status": 1 * EXIT, "oom_on_machine": True}, "exit_code", 1, None),
        ({"status": 1 * EXIT, "tail": b"MemoryError\n"}, "out_of_memory", 1, None),
        ({"status": 0, "tail": b"caught MemoryError\n"}, "succeeded", 0, None),
        ({"status": 1 * EXIT, "tail": b"CUDA out of memory."}, "out_of_memory", 1, None),
        (
            {"status": 9, "asked": "preempted", "tail": b"MemoryError"},
            "preempted",
            None,
            9,
        ),
        ({"status": None, "failed_start": "setup", "failure": "No."}, "setup", None, None),
        ({"status": None, "failed_start": "command", "failure": "No."}, "command", 127, None),
    ],
)
def test_each_end_has_its_cause(
    facts: dict[str, Any], cause: str, exit_code: int | None, number: int | None
) -> None:
    verdict = judge(ExitFacts(**facts))
    assert (verdict.cause, verdict.exit_code, verdict.signal) == (cause, exit_code, number)
    assert ExitCause(verdict.cause)
    assert verdict.sentence.endswith(".")


def test_the_sentence_says_whether_the_grace_was_enough() -> None:
    assert "within its grace" in judge(ExitFacts(status=15, asked="stopped")).sentence
    assert "killed after" in judge(ExitFacts(status=9, asked="stopped", forced=True)).sentence
    saved = judge(ExitFacts(status=85 * EXIT, asked="preempted"))
    assert (saved.saved, "saved its state" in saved.sentence) == (True, True)


def test_a_job_may_choose_its_own_saved_code() -> None:
    assert judge(ExitFacts(status=99 * EXIT, saved_exit_code=99)).saved
    assert not judge(ExitFacts(status=85 * EXIT, saved_exit_code=99)).saved


@pytest.mark.parametrize(
    ("tail", "line"),
    [
        (
            b"Traceback (most recent call last):\n  File ...\nValueError: bad shape (3, 4)\n",
            "ValueError: bad shape (3, 4)",
        ),
        (b"\x1b[31mRuntimeError: red\x1b[0m\n", "RuntimeError: red"),
        (b"torch.cuda.OutOfMemoryError: CUDA\nother\n", "torch.cuda.OutOfMemoryError: CUDA"),
        (b"make: *** fatal: no rule\n", "make: *** fatal: no rule"),
        (b"all is well\n", None),
        (b"", None),
    ],
)
def test_the_last_error_line_is_found(tail: bytes, line: str | None) -> None:
    assert last_error_line(tail) == line
