"""Waiting for a job through restarts of the server, and pieces of its log."""

import pytest

from tests.unit.cli import samples
from trackyard.cli.jobs import joblog, waiting
from trackyard.client.api import ApiFault, Unreachable


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self) -> float:
        return self.now


def in_turn(*answers: object):
    left = iter(answers)

    def call() -> object:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return call


def test_a_server_that_is_away_or_busy_is_asked_again_and_told_of_once(capsys) -> None:
    clock = Clock()
    gone, busy = Unreachable("no server answers"), ApiFault(503, "TEMPORARILY_UNAVAILABLE", "busy")
    found = waiting.ask(in_turn(gone, busy, gone, "here"), sleep=clock.sleep, clock=clock)
    assert found == "here"
    assert clock.now == 3.0
    assert capsys.readouterr().err.count("trying again") == 1


def test_a_server_that_stays_away_is_given_up_on() -> None:
    clock = Clock()

    def call() -> None:
        raise Unreachable("no server answers")

    with pytest.raises(Unreachable):
        waiting.ask(call, sleep=clock.sleep, clock=clock)
    assert clock.now > waiting.AWAY_SECONDS


def test_a_refusal_is_not_asked_again() -> None:
    with pytest.raises(ApiFault, match="no job"):
        waiting.ask(in_turn(ApiFault(404, "RESOURCE_DOES_NOT_EXIST", "no job")))


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["succeeded"], 0),
        (["succeeded", "succeeded"], 0),
        (["succeeded", "failed"], 1),
        (["stopped"], 1),
    ],
)
def test_the_exit_code_is_the_class_of_the_jobs(states: list[str], code: int) -> None:
    assert waiting.exit_code([samples.job(state=state) for state in states]) == code


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([], []),
        ([b"a\nb"], [b"a\n", b"b\n"]),
        ([b"a", b"b\n", b"\n"], [b"ab\n", b"\n"]),
        ([b"a\r\nb\n"], [b"a\r\n", b"b\n"]),
    ],
)
def test_lines_of_ranks_are_never_torn(pieces: list[bytes], lines: list[bytes]) -> None:
    assert list(joblog.lines(iter(pieces))) == lines


def test_a_line_carries_its_rank() -> None:
    part = joblog.LogPart(attempt=1, rank=3)
    assert joblog.prefixed(part, b"loss 0.5\n") == b"[rank 3] loss 0.5\n"
    assert joblog.prefixed(part, b"[rank 7] loss\n") == b"[rank 7] loss\n"
