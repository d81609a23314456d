"""Micro-batches on their way to the device, made ahead by a thread.

Owns which sequences of a step are this rank's, and turning arrays into tensors; the order itself
is the stream's.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from trackyard.finetune.data.packing import most_segments
from trackyard.finetune.data.stream import MicroBatch, Sample, SequenceStream, boundaries
from trackyard.finetune.training.attention import has_varlen


@dataclass(frozen=True)
class Step:
    """The batches of one optimizer step on this rank."""

    position: int
    samples: list[Sample]
    batches: list[MicroBatch]
    #: tokens that are learned, on all ranks together
    learned: int
    #: tokens that are not padding, and the mean over them of their row's length, on all ranks
    tokens: int = 0
    mean_length: float = 0.0


class BatchFeed:
    """Gives a rank its part of each step."""

    def __init__(
        self,
        stream: SequenceStream,
        *,
        batch: int,
        micro: int,
        rank: int,
        world: int,
        limit: int,
        device: torch.device,
        packed: bool,
        seq: int,
        compute: torch.dtype,
    ) -> None:
        self._stream = stream
        self._batch, self._micro = batch, micro
        self._rank, self._world = rank, world
        self._limit = limit
        self._device = device
        self._packed = packed
        self._varlen = has_varlen(device, compute)
        self._seq = seq
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="feed")
        self._ahead: tuple[int, Future[Step]] | None = None

    def at(self, position: int) -> Step:
        """Return the step at a position, and begin with the one behind it."""
        if self._ahead is not None and self._ahead[0] == position:
            step = self._ahead[1].result()
        else:
            step = self._make(position)
        following = position + self._batch
        self._ahead = (following, self._pool.submit(self._make, following))
        return step

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(cancel_futures=True)

    def _make(self, position: int) -> Step:
        if position >= self._limit:
            return Step(position=position, samples=[], batches=[], learned=0)
        samples = self._stream.take(position, self._batch, self._limit)
        stride = self._micro * self._world
        batches = [
            self._stream.batch(samples[start : start + self._micro])
            for start in range(self._rank * self._micro, self._batch, stride)
        ]
        tokens, mean_length = self._stream.lengths(samples)
        return Step(
            position=position,
            samples=samples,
            batches=batches,
            learned=self._stream.learned(samples),
            tokens=tokens,
            mean_length=mean_length,
        )

    def tensors(self, batch: MicroBatch) -> dict[str, Any]:
        """Return a micro-batch on the device, as the model takes it."""
        found: dict[str, Any] = {
            "input_ids": self._send(torch.from_numpy(batch.input_ids)),
            "labels": self._send(torch.from_numpy(batch.labels)),
        }
        if not self._packed:
            return found
        found["position_ids"] = self._send(torch.from_numpy(batch.position_ids))
        if self._varlen:
            starts = boundaries(batch.segments, most_segments(self._seq))
            found["boundaries"] = self._send(torch.from_numpy(starts))
        else:
            found["segments"] = self._send(torch.from_numpy(batch.segments))
        return found

    def _send(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._device.type != "cuda":
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)
