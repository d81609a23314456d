"""The order of training: each row once, the same on every number of ranks, and gone on with."""

import numpy as np
import pytest

from trackyard.finetune.data.prepared import Prepared
from trackyard.finetune.data.stream import IGNORE, SequenceStream, boundaries


def data(lengths: list[int]) -> Prepared:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    total = int(offsets[-1])
    learned = np.ones(total, dtype=bool)
    learned[::3] = False
    return Prepared(
        tokens=np.arange(1, total + 1, dtype=np.int32),
        learned=learned,
        offsets=offsets,
        digest="d",
        truncated=0,
    )


LENGTHS = [3 + (number * 5) % 13 for number in range(50)]


@pytest.fixture(params=[True, False])
def stream(request: pytest.FixtureRequest) -> SequenceStream:
    return SequenceStream(data(LENGTHS), seq=32, packing=request.param, seed=5)


def test_an_epoch_holds_each_row_once(stream: SequenceStream) -> None:
    """Packed or not."""
    for epoch in (0, 1):
        rows = [row for sample in stream.epoch(epoch) for row in sample]
        assert sorted(rows) == list(range(50))
    assert stream.epoch(0) != stream.epoch(1)


def test_the_order_depends_on_the_seed_alone(stream: SequenceStream) -> None:
    """A second stream gives the same, from any position on."""
    count = stream.count(2)
    whole = stream.take(0, count, count)
    again = SequenceStream(
        data(LENGTHS), seq=32, packing=any(len(one) > 1 for one in whole), seed=5
    )
    assert whole[7:] == again.take(7, count - 7, count)


def test_beyond_the_end_sequences_are_empty(stream: SequenceStream) -> None:
    """The last step is filled up with nothing, and nothing is learned twice."""
    count = stream.count(1)
    found = stream.take(count - 1, 4, count)
    assert [bool(one) for one in found] == [True, False, False, False]
    assert stream.learned(found[1:]) == 0


def test_labels_are_the_next_token_of_the_same_row() -> None:
    """The last of a row has none; what is not learned is ignored."""
    found = SequenceStream(data([4, 3]), seq=8, packing=True, seed=1, shuffle=False)
    batch = found.batch([(0, 1)])
    assert batch.input_ids.tolist() == [[1, 2, 3, 4, 5, 6, 7, 0]]
    assert batch.labels.tolist() == [[2, 3, IGNORE, IGNORE, 6, IGNORE, IGNORE, IGNORE]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 3, 0, 1, 2, 0]]
    assert batch.segments.tolist() == [[0, 0, 0, 0, 1, 1, 1, 2]]
    assert found.learned([(0, 1)]) == 3


def test_counted_labels_are_those_of_the_batch(stream: SequenceStream) -> None:
    """Every rank divides by this number without seeing the others' batches."""
    for sample in stream.epoch(0):
        batch = stream.batch([sample])
        assert int((batch.labels != IGNORE).sum()) == stream.learned([sample])


def test_boundaries_have_a_fixed_length() -> None:
    """Kernels are compiled for one shape; the rest is the end, repeated."""
    found = SequenceStream(data([4, 3]), seq=8, packing=True, seed=1, shuffle=False)
    starts = boundaries(found.batch([(0, 1), (1,)]).segments, 3)
    assert starts.tolist() == [0, 4, 7, 8, 11, 16, 16, 16, 16]
