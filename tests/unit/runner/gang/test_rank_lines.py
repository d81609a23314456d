"""mpirun's marks become ours, whatever pieces the stream comes in."""

from __future__ import annotations

import pytest

from trackyard.runner.gang.rank_lines import RankLines

STREAM = b"[1,0]<stdout>:loss 1\n[1,12]<stderr>: bad\nplain [1,0]<stdout>:x\n[open"
MARKED = b"[rank 0] loss 1\n[rank 12] bad\nplain [1,0]<stdout>:x\n[open"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_marks_are_rewritten_at_the_start_of_lines_alone(size: int) -> None:
    marks = RankLines()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert b"".join(map(marks.feed, pieces)) + marks.rest() == MARKED


def test_a_progress_bar_is_not_held_back() -> None:
    assert RankLines().feed(b"50% [####") == b"50% [####"
