"""Ends that the controller has forgotten are read from sacct, in the form its manual gives."""

from __future__ import annotations

import pytest

from trackyard.core.ports import EngineError, EngineUnavailable
from trackyard.engines.slurm.accounting import Accounting, read_row
from trackyard.engines.slurm.commands import Commands

ROWS = """\
41|j1-a1|OUT_OF_MEMORY|n1|2026-03-01T10:00:00|2026-03-01T10:05:00
41|j7-a2|CANCELLED by 1000|n[1-2]|2026-03-02T10:00:00|2026-03-02T10:05:00
"""


class Recorded(Commands):
    """Answers as the manual of sacct says."""

    def __init__(self, answer: str | EngineError) -> None:
        super().__init__()
        self.answer = answer
        self.asked = 0

    def run(self, program: str, *arguments: str, given: str = "", refuses: bool = False) -> str:
        assert program == "sacct"
        self.asked += 1
        if isinstance(self.answer, EngineError):
            raise self.answer
        return self.answer


def test_a_job_is_found_by_number_and_name() -> None:
    accounting = Accounting(Recorded(ROWS))
    first, second = accounting.job(41, "j1-a1"), accounting.job(41, "j7-a2")
    assert first is not None
    assert second is not None
    assert (first.state, first.end - first.start, first.has_ended) == ("OUT_OF_MEMORY", 300, True)
    assert (second.state, second.nodes) == ("CANCELLED", ("n1", "n2"))
    assert accounting.job(41, "j9-a1") is None


def test_a_site_without_accounting_is_asked_once() -> None:
    commands = Recorded(EngineError("Slurm refused: Slurm accounting storage is disabled"))
    accounting = Accounting(commands)
    assert [accounting.job(1, "a"), accounting.job(2, "b")] == [None, None]
    assert commands.asked == 1


def test_accounting_that_does_not_answer_is_asked_again() -> None:
    commands = Recorded(EngineUnavailable("no answer"))
    accounting = Accounting(commands)
    assert [accounting.job(1, "a"), accounting.job(1, "a")] == [None, None]
    assert commands.asked == 2


@pytest.mark.parametrize("line", ["", "41.batch|batch|FAILED|n1|x|y", "sacct: error"])
def test_other_lines_are_no_jobs(line: str) -> None:
    assert read_row(line) is None
