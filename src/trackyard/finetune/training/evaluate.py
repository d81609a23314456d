"""Evaluation while training: the loss on held-out rows, and what the model says to a few prompts.

Owns running the model without learning, on every rank alike, so that a sharded model gathers its
weights the same number of times everywhere. Writes nothing.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from trackyard.finetune.data.render import Renderer
from trackyard.finetune.data.stream import SequenceStream
from trackyard.finetune.training import sharding
from trackyard.finetune.training.feed import BatchFeed
from trackyard.finetune.training.sharding import RankPlace


class Evaluator:
    """Evaluates one model on one held-out set."""

    def __init__(
        self,
        place: RankPlace,
        *,
        stream: SequenceStream | None,
        feed: BatchFeed,
        micro: int,
        max_batches: int,
        renderer: Renderer,
        tokenizer: Any,
        prompts: tuple[str, ...],
        new_tokens: int,
        fixed_length: int,
    ) -> None:
        self._place = place
        self._stream = stream
        self._feed = feed
        self._micro = micro
        self._max_batches = max_batches
        self._renderer = renderer
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._new_tokens = new_tokens
        self._fixed_length = fixed_length

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return the mean loss over held-out tokens, and its exponential."""
        if self._stream is None:
            return {}
        count = self._stream.count(1)
        stride = self._micro * self._place.world
        if self._max_batches:
            count = min(count, self._max_batches * stride)
        sums = torch.zeros(2, dtype=torch.float64, device=self._place.device)
        was = model.training
        model.eval()
        with torch.no_grad():
            for start in range(0, count, stride):
                first = start + self._place.rank * self._micro
                samples = self._stream.take(min(first, count), self._micro, count)
                batch = self._feed.tensors(self._stream.batch(samples))
                sums[0] += sharding.inner(model)(**batch).double()
                sums[1] += self._stream.learned(samples)
        model.train(was)
        total, tokens = sharding.total(sums, self._place).tolist()
        loss = total / max(1.0, tokens)
        return {
            "eval_loss": loss,
            "eval_perplexity": math.exp(min(loss, 50.0)),
            "eval_tokens": tokens,
        }

    def samples(self, model: nn.Module) -> list[tuple[str, str]]:
        """Return each prompt with what the model says to it, choosing the likeliest word."""
        was = model.training
        model.eval()
        with torch.no_grad():
            said = [(prompt, self._answer(model, prompt)) for prompt in self._prompts]
        model.train(was)
        return said

    def _answer(self, model: nn.Module, prompt: str) -> str:
        ids = self._renderer.prompt(prompt)
        begin = len(ids)
        length = self._fixed_length or -(-(begin + self._new_tokens) // 64) * 64
        room = torch.zeros(1, max(length, begin + 1), dtype=torch.int64, device=self._place.device)
        room[0, :begin] = torch.tensor(ids, device=self._place.device)
        end = self._tokenizer.eos_token_id
        at = begin
        while at < min(begin + self._new_tokens, room.shape[1]):
            logits = sharding.inner(model)(room, logits_at=at - 1)
            word = int(logits[0].argmax())
            if word == end:
                break
            room[0, at] = word
            at += 1
        text: str = self._tokenizer.decode(room[0, begin:at].tolist(), skip_special_tokens=True)
        return text
