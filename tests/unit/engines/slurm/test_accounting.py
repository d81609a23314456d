"""Ends that the controller has forgotten are read from sacct, as Slurm 22.05 prints them."""

from __future__ import annotations

import pytest

from trackyard.core.ports import EngineError, EngineUnavailable
from trackyard.engines.slurm.accounting import Accounting, read_row
from trackyard.engines.slurm.commands import Commands

#: printed by sacct over a slurmdbd with MariaDB after these things befell real jobs on two nodes
ROWS = """\
1000|j1-a1|COMPLETED|n1|2026-11-19T01:20:24|2026-11-19T01:20:24
1001|j2-a1|FAILED|n1|2026-11-19T01:20:24|2026-11-19T01:20:24
1002|j3-a1|REQUEUED|n[1-2]|2026-11-19T01:20:24|2026-11-19T01:20:46
1002|j3-a1|CANCELLED by 0|None assigned|2026-11-19T01:20:47|2026-11-19T01:20:47
1004|j5-a1|CANCELLED by 0|n1|2026-11-19T01:20:24|2026-11-19T01:20:43
1006|j7-a1|CANCELLED by 0|None assigned|None|2026-11-19T01:20:47
1009|k1-a1|TIMEOUT|n1|2026-11-19T01:21:18|2026-11-19T01:22:33
1010|k2-a1|NODE_FAIL|n2|2026-11-19T01:21:18|2026-11-19T01:21:20
1011|k3-a1|PREEMPTED|n1|2026-11-19T01:21:18|2026-11-19T01:21:20
"""
#: of a controller that lost its state and gave a number again
AGAIN = """\
41|j1-a1|OUT_OF_MEMORY|n1|2026-03-01T10:00:00|2026-03-01T10:05:00
41|j7-a2|CANCELLED by 1000|n[1-2]|2026-03-02T10:00:00|2026-03-02T10:05:00
"""


class Recorded(Commands):
    """Prints what sacct printed for the job that is asked for."""

    def __init__(self, answer: str | EngineError) -> None:
        super().__init__()
        self.answer = answer
        self.asked = 0

    def run(self, program: str, *arguments: str, given: str = "", refuses: bool = False) -> str:
        assert program == "sacct"
        self.asked += 1
        if isinstance(self.answer, EngineError):
            raise self.answer
        number = arguments[0].removeprefix("--jobs=")
        rows = self.answer.splitlines(keepends=True)
        return "".join(row for row in rows if row.startswith(f"{number}|"))


@pytest.mark.parametrize(
    ("number", "name", "state", "nodes", "seconds"),
    [
        (1000, "j1-a1", "COMPLETED", ("n1",), 0),
        (1001, "j2-a1", "FAILED", ("n1",), 0),
        (1002, "j3-a1", "PREEMPTED", ("n1", "n2"), 22),
        (1004, "j5-a1", "CANCELLED", ("n1",), 19),
        (1009, "k1-a1", "TIMEOUT", ("n1",), 75),
        (1010, "k2-a1", "NODE_FAIL", ("n2",), 2),
        (1011, "k3-a1", "PREEMPTED", ("n1",), 2),
    ],
)
def test_each_end_is_read_as_the_accounting_has_it(
    number: int, name: str, state: str, nodes: tuple[str, ...], seconds: int
) -> None:
    """Of a job that was put back into the queue the run counts, not the cancelled rest."""
    job = Accounting(Recorded(ROWS)).job(number, name)
    assert job is not None
    assert (job.state, job.nodes, job.end - job.start) == (state, nodes, seconds)
    assert job.has_ended


def test_a_job_that_never_ran_has_no_nodes_and_no_start() -> None:
    job = Accounting(Recorded(ROWS)).job(1006, "j7-a1")
    assert job is not None
    assert (job.state, job.nodes, job.start) == ("CANCELLED", (), 0)


def test_a_job_is_found_by_number_and_name() -> None:
    accounting = Accounting(Recorded(AGAIN))
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
