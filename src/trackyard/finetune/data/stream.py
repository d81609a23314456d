"""The order of training: which sequences make which step, the same on every number of GPUs.

Owns shuffling, packing per epoch, the position that is saved, and the arrays of a batch. The
order depends on data, seed and global batch alone, so a run resumed on another number of GPUs
sees the same rows in the same steps, each once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from trackyard.finetune.data.packing import WINDOW, most_segments, pack
from trackyard.finetune.data.prepared import Prepared

IGNORE = -100
#: the rows that make one sequence
Sample = tuple[int, ...]
Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class MicroBatch:
    """The arrays of one micro-batch."""

    input_ids: Ints
    labels: Ints
    position_ids: Ints
    #: which row of a sequence each token belongs to; padding has its own number
    segments: Ints


class SequenceStream:
    """Sequences in the order they are trained on."""

    def __init__(
        self,
        data: Prepared,
        *,
        seq: int,
        packing: bool,
        seed: int,
        shuffle: bool = True,
        pad_id: int = 0,
        pad_to_seq: bool = True,
    ) -> None:
        self._data = data
        self._seq = seq
        self._packing = packing
        self._seed = seed
        self._shuffle = shuffle
        self._pad_id = pad_id
        self._pad_to_seq = pad_to_seq
        self._lengths = np.minimum(data.lengths(), seq)
        self._labels = data.labels()
        self._epoch = lru_cache(maxsize=2)(self._make_epoch)

    def epoch(self, number: int) -> list[Sample]:
        """Return the sequences of one epoch, in order."""
        return self._epoch(number)

    def _make_epoch(self, number: int) -> list[Sample]:
        chance = np.random.Generator(np.random.PCG64([self._seed, number]))
        count = len(self._data)
        order = chance.permutation(count) if self._shuffle else np.arange(count)
        if not self._packing:
            return [(int(row),) for row in order]
        samples: list[Sample] = []
        for start in range(0, count, WINDOW):
            window = order[start : start + WINDOW]
            bins = pack(self._lengths[window].tolist(), self._seq, most=most_segments(self._seq))
            made = [tuple(int(window[at]) for at in one) for one in bins]
            turns = chance.permutation(len(made)) if self._shuffle else range(len(made))
            samples += [made[int(turn)] for turn in turns]
        return samples

    def count(self, epochs: float) -> int:
        """Return how many sequences so many epochs hold."""
        whole = int(epochs)
        total = sum(len(self.epoch(number)) for number in range(whole))
        if epochs > whole:
            total += math.ceil((epochs - whole) * len(self.epoch(whole)))
        return total

    def take(self, position: int, count: int, limit: int) -> list[Sample]:
        """Return `count` sequences from a position on; beyond `limit` they are empty."""
        found: list[Sample] = []
        number, start = 0, position
        while start >= (length := len(self.epoch(number))):
            start -= length
            number += 1
        while len(found) < count and position + len(found) < limit:
            samples = self.epoch(number)
            if start >= len(samples):
                number, start = number + 1, 0
                continue
            found.append(samples[start])
            start += 1
        return found + [()] * (count - len(found))

    def learned(self, samples: Sequence[Sample]) -> int:
        """Return how many tokens of these sequences are learned."""
        return int(sum(self._labels[list(sample)].sum() for sample in samples if sample))

    def lengths(self, samples: Sequence[Sample]) -> tuple[int, float]:
        """Return how many tokens these sequences hold, and the mean over tokens of their row's
        length.
        """
        rows = [row for sample in samples for row in sample]
        counts = self._lengths[rows]
        total = int(counts.sum())
        return total, float((counts**2).sum() / total) if total else 0.0

    def batch(self, samples: Sequence[Sample]) -> MicroBatch:
        """Return the arrays of some sequences."""
        width = self._seq
        if not self._pad_to_seq:
            longest = max(
                (int(self._lengths[list(one)].sum()) for one in samples if one), default=8
            )
            width = min(self._seq, -(-longest // 8) * 8)
        shape = (len(samples), width)
        ids = np.full(shape, self._pad_id, dtype=np.int64)
        labels = np.full(shape, IGNORE, dtype=np.int64)
        positions = np.zeros(shape, dtype=np.int64)
        segments = np.zeros(shape, dtype=np.int64)
        for line, sample in enumerate(samples):
            at = 0
            for number, row in enumerate(sample):
                words, learned = self._data.row(row)
                end = at + len(words)
                ids[line, at:end] = words
                labels[line, at : end - 1] = np.where(learned[1:], words[1:], IGNORE)
                positions[line, at:end] = np.arange(len(words))
                segments[line, at:end] = number
                at = end
            positions[line, at:] = np.arange(width - at)
            segments[line, at:] = len(sample)
        return MicroBatch(
            input_ids=ids,
            labels=labels,
            position_ids=positions,
            segments=segments,
        )


def boundaries(segments: Ints, most: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return where rows begin in the flattened batch, padded to a fixed length with the end."""
    lines, width = segments.shape
    marks = np.ones(segments.shape, dtype=bool)
    marks[:, 1:] = segments[:, 1:] != segments[:, :-1]
    starts = np.flatnonzero(marks.reshape(-1))
    found = np.full(lines * (most + 1) + 1, lines * width, dtype=np.int32)
    found[: len(starts)] = starts
    return found
