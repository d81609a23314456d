"""The training loop: steps until the end, a stop or trouble; the same on one process and on many.

Owns the order of things within a step, resuming, and what follows a bad one. Model, data,
optimizer, checkpoints and words to the outside are parts that lie beside.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from trackyard.checkpoint import stopping
from trackyard.finetune.health import HealthSign, LossHealth
from trackyard.finetune.recipe import Recipe
from trackyard.finetune.training import sharding
from trackyard.finetune.training.evaluate import Evaluator
from trackyard.finetune.training.feed import BatchFeed, Step
from trackyard.finetune.training.meter import Meter
from trackyard.finetune.training.optimizers import Stepper, rate_at
from trackyard.finetune.training.sharding import RankPlace
from trackyard.finetune.training.state import RunState, TrainingProgress

Say = Callable[[str], None]


@dataclass
class LoopParts:
    """What the loop works with."""

    model: nn.Module
    stepper: Stepper
    feed: BatchFeed
    state: RunState
    health: LossHealth
    meter: Meter
    evaluator: Evaluator | None
    tracker: Any
    #: sequences in all
    limit: int


@dataclass(frozen=True)
class TrainingOutcome:
    """How a run ended."""

    reason: str
    step: int
    loss: float
    sentence: str = ""


@dataclass(frozen=True)
class _Taken:
    """A step that was taken, its numbers still on the device."""

    step: int
    rate: float
    loss: torch.Tensor
    norm: torch.Tensor | None
    data: Step


class TrainingLoop:
    """Trains one model by one recipe."""

    def __init__(self, recipe: Recipe, place: RankPlace, parts: LoopParts, say: Say) -> None:
        self._recipe = recipe
        self._place = place
        self._parts = parts
        self._say = say
        self._scaler = _scaler(recipe, place)
        self.progress = TrainingProgress()
        steps = math.ceil(parts.limit / recipe.batch)
        self.total = min(steps, recipe.steps) if recipe.steps else steps
        self._last_loss = math.nan
        self._saved_at = time.monotonic()
        self._saved_step = -1
        #: what all ranks agreed on in the last step: to stop, and that a checkpoint is late
        self._stops = False
        self._is_late = False
        self._rewound = False
        self._evaluated: tuple[int, dict[str, float]] = (-1, {})

    @property
    def tokens(self) -> int:
        """Return the tokens trained on so far."""
        return self._parts.meter.tokens

    def memory_words(self) -> str:
        """Say what memory was used for, for a run that had too little of it."""
        found = self._parts.meter.memory(self._parts.model, self._parts.stepper)
        parts = ("weights", "gradients", "optimizer", "activations")
        words = ", ".join(f"{part} {found[f'memory/{part}_gib']:.1f}" for part in parts)
        return f"peak {found['memory/peak_gib']:.1f} GiB ({words})"

    def close(self) -> None:
        """End the threads that feed the loop."""
        self._parts.feed.close()

    def resume(self) -> None:
        """Go on from the newest whole checkpoint, if there is one."""
        found = self._parts.state.find() if self._recipe.save.resume else None
        if found is not None:
            self._restore(found)
            self._say(f"resumed at step {found.step} from {found.name}")

    def run(self) -> TrainingOutcome:
        """Train to the end."""
        stopping.catch_stop()
        pending: _Taken | None = None
        while True:
            taken = None if self._is_over() else self._take_step()
            # The numbers of a step are read while the next one runs: the device never waits.
            if pending is not None:
                if (ended := self._after(pending)) is not None:
                    return ended
                pending = None
                if self._rewound:
                    continue
            if taken is None:
                break
            pending = taken
            if self._is_due(taken.step + 1):
                if (ended := self._after(pending)) is not None:
                    return ended
                pending = None
                if not self._rewound and self._between(taken.step + 1):
                    return TrainingOutcome("stopped", self.progress.step, self._last_loss)
        if self._saved_step != self.progress.step:
            self._save(wait=True)
        self._parts.state.wait()
        return TrainingOutcome("finished", self.progress.step, self._last_loss)

    def _is_over(self) -> bool:
        return self.progress.step >= self.total or self.progress.position >= self._parts.limit

    def _take_step(self) -> _Taken:
        recipe, parts, step = self._recipe, self._parts, self.progress.step
        data = parts.feed.at(self.progress.position)
        rate = rate_at(step, self.total, recipe.optimizer)
        parts.stepper.set_rate(rate)
        # Every rank divides by the tokens of all; averaging over ranks is undone by the world.
        scale = self._place.world / max(1, data.learned)
        loss = torch.zeros((), device=self._place.device)
        for number, batch in enumerate(data.batches):
            is_last = number == len(data.batches) - 1
            with sharding.exchanging(parts.model, is_last=is_last):
                part = parts.model(**parts.feed.tensors(batch), scale=scale)
                (part if self._scaler is None else self._scaler.scale(part)).backward()
            loss += part.detach()
        parts.meter.count(data)
        norm = self._finish_step(loss, step)
        self.progress.step += 1
        self.progress.position += recipe.batch
        return _Taken(step=step, rate=rate, loss=loss, norm=norm, data=data)

    def _finish_step(self, loss: torch.Tensor, step: int) -> torch.Tensor | None:
        recipe, parts = self._recipe, self._parts
        parts.meter.gradients(parts.model)
        norm = None
        if self._scaler is not None:
            parts.stepper.unscale(self._scaler)
        if not recipe.optimizer.in_backward:
            norm = sharding.clip(parts.model, recipe.optimizer.clip)
        if recipe.health.on_spike == "skip" and self._must_skip(loss, norm, step):
            parts.stepper.clear()
            return norm
        parts.stepper.step(self._scaler)
        if self._scaler is not None:
            self._scaler.update()
        parts.stepper.clear()
        return norm

    def _must_skip(self, loss: torch.Tensor, norm: torch.Tensor | None, step: int) -> bool:
        value = self._mean(loss)
        sign = self._parts.health.judge(step, value, norm=None if norm is None else float(norm))
        if sign is None:
            return False
        self._note(sign, "the batch was skipped")
        self.progress.repairs += 1
        return True

    def _after(self, taken: _Taken) -> TrainingOutcome | None:
        """Read and log a step's numbers; act on trouble."""
        self._rewound = False
        loss = self._read(taken.loss)
        norm = None if taken.norm is None else float(taken.norm)
        self._last_loss = loss
        if taken.step % self._recipe.log_every == 0 or taken.step + 1 == self.total:
            self._log(taken, loss, norm)
        if self._recipe.health.on_spike == "skip":
            too_many = self.progress.repairs > self._recipe.health.max_repairs
            sign = (
                HealthSign("spike", taken.step, "too many batches were skipped")
                if too_many
                else None
            )
        else:
            # Under fp16 a norm that is no number is the scaler's to deal with.
            sign = self._parts.health.judge(
                taken.step, loss, norm=norm if self._scaler is None else None
            )
        if sign is None and self._scaler is not None:
            sign = self._parts.health.judge_scale(taken.step, float(self._scaler.get_scale()))
        return None if sign is None else self._act(sign, taken)

    def _act(self, sign: HealthSign, taken: _Taken) -> TrainingOutcome | None:
        choice = self._recipe.health.on_spike
        if choice == "warn" and sign.kind == "spike":
            self._note(sign, f"at position {taken.data.position}")
            return None
        can_rewind = self.progress.repairs < self._recipe.health.max_repairs
        if choice == "rewind" and can_rewind:
            found = self._parts.state.find()
            if found is not None:
                self._rewind(sign, taken)
                return None
        self._note(sign, "training stops; the last checkpoint is from before it")
        self._dump_batch(taken)
        return TrainingOutcome(sign.kind, taken.step, self._last_loss, sign.sentence)

    def _rewind(self, sign: HealthSign, taken: _Taken) -> None:
        beyond = taken.data.position + self._recipe.batch
        repairs = self.progress.repairs + 1
        found = self._parts.state.find()
        assert found is not None
        self._restore(found)
        self._saved_step = -1
        self._rewound = True
        # The batches since the checkpoint are passed over: one of them made the spike.
        self.progress.position = max(self.progress.position, beyond)
        self.progress.repairs = repairs
        self._note(sign, f"back to step {found.step}, past the batches that led there")
        self._dump_batch(taken)

    def _restore(self, found: Any) -> None:
        self.progress = self._parts.state.restore(found)
        self._saved_step = self.progress.step
        self._parts.health.restore(self.progress.losses)
        self._parts.meter.restore(self.progress.tokens)
        if self._scaler is not None and self.progress.scaler:
            self._scaler.load_state_dict(self.progress.scaler)

    def _is_due(self, step: int) -> bool:
        """Tell whether anything has to happen between this step and the next."""
        return self._stops or self._saves(step) or self._evaluates(step)

    def _between(self, step: int) -> bool:
        """Save, evaluate; return whether to stop here."""
        if self._stops or self._saves(step):
            self._save(wait=self._stops)
        if self._evaluates(step) and not self._stops:
            self.evaluate()
        return self._stops

    def _saves(self, step: int) -> bool:
        every = self._recipe.save.every_steps
        return self._is_late or (bool(every) and step % every == 0)

    def _evaluates(self, step: int) -> bool:
        every = self._recipe.eval.every_steps
        return self._parts.evaluator is not None and bool(every) and step % every == 0

    def evaluate(self) -> dict[str, float]:
        """Evaluate on the held-out rows, and write samples."""
        evaluator = self._parts.evaluator
        if evaluator is None:
            return {}
        if self._evaluated[0] == self.progress.step:
            return self._evaluated[1]
        numbers = evaluator.evaluate(self._parts.model)
        samples = evaluator.samples(self._parts.model)
        self._parts.meter.pause()
        if self._place.is_first:
            step = self.progress.step
            self._parts.tracker.metrics(step, numbers)
            if numbers:
                self._say(f"step {step}  evaluation loss {numbers['eval_loss']:.4f}")
            if samples:
                text = "\n\n".join(f"> {asked}\n\n{said}" for asked, said in samples)
                self._parts.tracker.text(f"samples/step-{step:08d}.md", text + "\n")
        self._evaluated = (self.progress.step, numbers)
        return numbers

    def _save(self, *, wait: bool) -> None:
        self.progress.losses = self._parts.health.state()
        self.progress.tokens = self._parts.meter.tokens
        if self._scaler is not None:
            self.progress.scaler = self._scaler.state_dict()
        self._parts.state.save(self.progress, wait=wait)
        self._parts.meter.pause()
        self._saved_at = time.monotonic()
        self._saved_step = self.progress.step
        self._is_late = False

    def _read(self, loss: torch.Tensor) -> float:
        """Return the mean loss over ranks, and learn what any rank was told meanwhile."""
        late = self._recipe.save.every_minutes * 60
        is_late = bool(late) and time.monotonic() - self._saved_at > late
        flags = [float(stopping.stop_asked()), float(is_late)]
        mine = torch.cat([loss.detach().view(1), torch.tensor(flags, device=loss.device)])
        both = sharding.total(mine, self._place).tolist()
        self._stops, self._is_late = both[1] > 0, both[2] > 0
        return float(both[0]) / self._place.world

    def _mean(self, loss: torch.Tensor) -> float:
        return float(sharding.total(loss.detach().clone(), self._place)) / self._place.world

    def _log(self, taken: _Taken, loss: float, norm: float | None) -> None:
        numbers = {"loss": loss, "learning_rate": taken.rate}
        if norm is not None:
            numbers["grad_norm"] = norm
        if self._scaler is not None:
            numbers["loss_scale"] = float(self._scaler.get_scale())
        numbers |= {
            "data_position": float(taken.data.position + self._recipe.batch),
            "epoch": self._parts.meter.epoch(taken.data.position + self._recipe.batch),
            "learned_tokens": float(taken.data.learned),
        }
        numbers |= self._parts.meter.read(self._parts.model, self._parts.stepper)
        if not self._place.is_first:
            return
        self._parts.tracker.metrics(taken.step + 1, numbers)
        words = f"step {taken.step + 1}/{self.total}  loss {loss:.4f}"
        if norm is not None:
            words += f"  norm {norm:.3f}"
        words += f"  lr {taken.rate:.2e}  {self._parts.meter.words(numbers)}"
        self._say(words)

    def _note(self, sign: HealthSign, done: str) -> None:
        if self._place.is_first:
            self._say(f"{sign.sentence}; {done}")
            self._parts.tracker.metrics(sign.step + 1, {f"health/{sign.kind}": 1.0})

    def _dump_batch(self, taken: _Taken) -> None:
        if self._place.is_first:
            rows = "\n".join(str(list(sample)) for sample in taken.data.samples)
            name = f"health/step-{taken.step + 1:08d}.txt"
            self._parts.tracker.text(name, f"rows of the batch, one sequence a line\n{rows}\n")


def _scaler(recipe: Recipe, place: RankPlace) -> Any:
    if recipe.precision != "fp16":
        return None
    return torch.amp.GradScaler(place.device.type)
