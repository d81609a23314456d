"""One run from recipe to model: joins the other ranks, prepares, trains, evaluates, exports.

Owns the order of these, what is told to the tracking server, and the exit code. Every step is
done by a part that lies beside.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trackyard.checkpoint import stopping
from trackyard.core.errors import SetupError
from trackyard.finetune import card, flops
from trackyard.finetune.data.prepared import Prepared, prepare
from trackyard.finetune.data.render import Renderer
from trackyard.finetune.data.stream import SequenceStream
from trackyard.finetune.health import LossHealth
from trackyard.finetune.locate import load_tokenizer, model_folder
from trackyard.finetune.planning.outcome import Measured, compare
from trackyard.finetune.recipe import Recipe
from trackyard.finetune.shapes import read_config
from trackyard.finetune.tracking import TrackedRun, Tracker
from trackyard.finetune.training import adapters, sharding
from trackyard.finetune.training.assemble import assemble
from trackyard.finetune.training.build import dtypes
from trackyard.finetune.training.evaluate import Evaluator
from trackyard.finetune.training.export import export
from trackyard.finetune.training.feed import BatchFeed
from trackyard.finetune.training.loop import LoopParts, TrainingLoop, TrainingOutcome
from trackyard.finetune.training.meter import Meter
from trackyard.finetune.training.optimizers import Stepper
from trackyard.finetune.training.sharding import RankPlace
from trackyard.finetune.training.state import RunState

FAILED = 1
MODEL = "model"
OWN_LOG = "metrics.jsonl"
LESS_MEMORY = "a smaller micro_batch with accumulation, checkpointing: full or sharding need less"


def train(recipe: Recipe, *, device: str = "", say: Callable[[str], None] | None = None) -> int:
    """Train by a recipe; return the exit code."""
    place = sharding.join(device=device)
    if place.world != recipe.gpus * recipe.nodes:
        raise SetupError(
            f"the recipe is for {recipe.gpus * recipe.nodes} processes, {place.world} run",
            hint="set gpus and nodes, or start it with the launch line of --dry-run",
        )
    _seed(recipe.seed)
    talk = say or _talk
    job = TrainingSession(recipe, place, talk if place.is_first else _silence)
    try:
        return job.run()
    except torch.OutOfMemoryError:
        job.say(f"out of memory: {job.loop.memory_words()}; {LESS_MEMORY}")
        raise
    finally:
        job.close()
        sharding.leave()


def evaluate(recipe: Recipe, model: Path, *, device: str = "") -> dict[str, float]:
    """Return the loss of a trained model, or of an adapter, on the recipe's held-out rows."""
    if not (recipe.data.eval or recipe.data.eval_fraction):
        raise SetupError(
            "the recipe holds no rows out", hint="set data.eval=FILE or data.eval_fraction=0.05"
        )
    if (model / adapters.CONFIG).is_file():
        found = adapters.read_config(model)
        part = dataclasses.replace(
            recipe.lora,
            adapter=str(model),
            rank=int(found["r"]),
            alpha=float(found["lora_alpha"]),
            rslora=bool(found.get("use_rslora")),
        )
        method = recipe.method if recipe.setup().is_adapter else "lora"
        recipe = dataclasses.replace(recipe, lora=part, method=method)
    else:
        recipe = dataclasses.replace(recipe, model=str(model), method="full")
    alone: dict[str, Any] = {
        "gpus": 1,
        "nodes": 1,
        "sharding": "none",
        "offload": False,
        "global_batch": 0,
    }
    recipe = dataclasses.replace(recipe, **alone)
    place = sharding.join(device=device)
    with tempfile.TemporaryDirectory() as folder:
        session = TrainingSession(dataclasses.replace(recipe, output=folder), place, _silence)
        try:
            return session.loop.evaluate()
        finally:
            session.close()


def _talk(words: str) -> None:
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def _silence(_words: str) -> None:
    return None


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


class TrainingSession:
    """One run on one rank."""

    def __init__(self, recipe: Recipe, place: RankPlace, say: Callable[[str], None]) -> None:
        self.recipe = recipe
        self.place = place
        self.say = say
        run = TrackedRun.from_environment() if place.is_first else None
        self.tracker = Tracker(Path(recipe.output), run=run) if place.is_first else None
        self.tokenizer = load_tokenizer(model_folder(recipe.model))
        self.data, self.held_out = self._data()
        self.model = assemble(recipe, place)
        self.loop = TrainingLoop(recipe, place, self._parts(), say)

    def run(self) -> int:
        """Train, then hand over the model."""
        self._announce()
        self.loop.resume()
        outcome = self.loop.run()
        if outcome.reason == "stopped":
            self.say(f"stopped at step {outcome.step}; its state is saved")
            return stopping.saved_exit_code()
        if outcome.reason != "finished":
            self.say(f"training stopped: {outcome.sentence}")
            return FAILED
        self._compare_with_plan(outcome)
        self._hand_over(outcome)
        return 0

    def close(self) -> None:
        """Send what is left to be told."""
        self.loop.close()
        if self.tracker is None:
            return
        self.tracker.close()
        if lost := self.tracker.failures:
            self.say(
                f"the tracking server was not told everything ({lost[0]}); it is in {OWN_LOG}"
            )

    def _data(self) -> tuple[Prepared, Prepared | None]:
        recipe = self.recipe
        if not recipe.data.train:
            raise SetupError("data.train names no data", hint="name a file or folder of rows")

        def ready(source: str) -> Prepared:
            # The first rank tokenises, the others find it done.
            if not self.place.is_first:
                sharding.barrier(self.place)
            found = prepare(recipe.data, source, self.tokenizer, seq=recipe.seq)
            if self.place.is_first:
                sharding.barrier(self.place)
            return found

        data = ready(recipe.data.train)
        if recipe.data.eval:
            return data, ready(recipe.data.eval)
        kept = int(len(data) * recipe.data.eval_fraction)
        if not kept:
            return data, None
        return data.subset(0, len(data) - kept), data.subset(len(data) - kept, len(data))

    def _parts(self) -> LoopParts:
        recipe, place = self.recipe, self.place
        stream = self._stream(self.data, shuffle=recipe.data.shuffle)
        limit = recipe.steps * recipe.batch if recipe.steps else stream.count(recipe.epochs)
        stepper = Stepper(self.model, recipe.optimizer)
        feed = BatchFeed(
            stream,
            batch=recipe.batch,
            micro=recipe.micro_batch,
            rank=place.rank,
            world=place.world,
            limit=limit,
            device=place.device,
            packed=recipe.packing,
            seq=recipe.seq,
            compute=dtypes(recipe.precision).compute,
        )
        named = recipe.save.folder or os.environ.get("YARD_CHECKPOINT_DIR")
        state = RunState(
            Path(named) if named else Path(recipe.output) / "checkpoints",
            keep=recipe.save.keep,
            model=self.model,
            stepper=stepper,
            place=place,
            identity=self._identity(),
        )
        inner = sharding.inner(self.model).model
        meter = Meter(
            place,
            inner.config,
            parameters=count_parameters(inner),
            frozen=recipe.setup().is_adapter,
            peak_tflops=recipe.peak_tflops,
            epoch_length=len(stream.epoch(0)),
        )
        return LoopParts(
            model=self.model,
            stepper=stepper,
            feed=feed,
            state=state,
            health=LossHealth(recipe.health),
            meter=meter,
            evaluator=self._evaluator(feed),
            tracker=self.tracker,
            limit=limit,
        )

    def _identity(self) -> dict[str, Any]:
        recipe = self.recipe
        return {
            "data_digest": self.data.digest,
            "global_batch": recipe.batch,
            "seq": recipe.seq,
            "packing": recipe.packing,
            "seed": recipe.seed,
            "method": recipe.method,
            "model": recipe.model,
        }

    def _stream(self, data: Prepared, *, shuffle: bool) -> SequenceStream:
        recipe = self.recipe
        pad = self.tokenizer.pad_token_id
        return SequenceStream(
            data,
            seq=recipe.seq,
            packing=recipe.packing,
            seed=recipe.seed,
            shuffle=shuffle,
            pad_id=0 if pad is None else int(pad),
            pad_to_seq=recipe.packing or recipe.compile,
        )

    def _evaluator(self, feed: BatchFeed) -> Evaluator | None:
        recipe = self.recipe
        if self.held_out is None and not recipe.eval.prompts:
            return None
        held_out = self.held_out
        return Evaluator(
            self.place,
            stream=None if held_out is None else self._stream(held_out, shuffle=False),
            feed=feed,
            micro=recipe.micro_batch,
            max_batches=recipe.eval.max_batches,
            renderer=Renderer(self.tokenizer, recipe.data),
            tokenizer=self.tokenizer,
            prompts=recipe.eval.prompts,
            new_tokens=recipe.eval.new_tokens,
            fixed_length=recipe.seq if recipe.compile else 0,
        )

    def _announce(self) -> None:
        if self.tracker is None:
            return
        recipe = self.recipe
        learned = sum(one.numel() for one in self.model.parameters() if one.requires_grad)
        self.say(
            f"{len(self.data)} rows, {self.loop.total} steps of {recipe.batch} sequences; "
            f"{learned:,} parameters learn"
        )
        self.say(f"MFU counts {flops.CONVENTION}")
        self.tracker.params(_flat(recipe.plain()))
        self.tracker.tags({"yard.finetune.method": recipe.method})
        self.tracker.text("recipe.yaml", recipe.yaml())
        if (run := self.tracker.run) is not None:
            name = Path(recipe.data.train).name
            self.tracker.call(run.inputs, name, self.data.digest, recipe.data.train)

    def _compare_with_plan(self, outcome: TrainingOutcome) -> None:
        """Keep what the plan said beside what came of it, so that plans get better."""
        device = self.place.device
        if self.tracker is None or device.type != "cuda":
            return
        recipe = self.recipe
        seen = Measured(
            device=torch.cuda.get_device_name(device),
            memory_bytes=torch.cuda.get_device_properties(device).total_memory,
            peak_bytes=torch.cuda.max_memory_allocated(device),
            step_times=read_step_times(Path(recipe.output) / "metrics.jsonl"),
        )
        shape = read_config(model_folder(recipe.model) / "config.json", recipe.model)
        found = compare(shape, recipe.setup(), seen)
        if found is not None:
            metrics, params = found
            self.tracker.metrics(outcome.step, metrics)
            self.tracker.params(params)

    def _hand_over(self, outcome: TrainingOutcome) -> None:
        evaluation = self.loop.evaluate()
        folder = Path(self.recipe.output) / MODEL
        export(sharding.inner(self.model).model, self.recipe, folder, self.place)
        if self.tracker is None:
            return
        facts = {
            "steps": outcome.step,
            "tokens": self.loop.tokens,
            "last loss": f"{outcome.loss:.4f}",
            "rows": len(self.data),
            "data digest": self.data.digest,
            "GPUs": self.place.world,
        }
        curve = read_curve(Path(self.recipe.output) / OWN_LOG)
        text = card.render(self.recipe, facts=facts, curve=curve, evaluation=evaluation)
        (folder / "README.md").write_text(text, encoding="utf-8")
        self.say(f"wrote {folder}")
        self._register(folder)

    def _register(self, folder: Path) -> None:
        recipe = self.recipe
        if not recipe.register:
            return
        run = self.tracker.run if self.tracker is not None else None
        if run is None:
            self.say("not registered: there is no run on a tracking server to register it from")
            return
        for path in sorted(folder.iterdir()):
            run.upload(f"{MODEL}/{path.name}", path)
        tags = {
            "base_model": recipe.model,
            "method": recipe.method,
            "data_digest": self.data.digest,
        }
        version = run.register(recipe.register, MODEL, tags)
        self.say(f"registered {recipe.register} version {version}")


def read_curve(path: Path) -> list[tuple[int, float]]:
    """Return the losses by step that a run has logged; a step that was taken twice counts once."""
    found: dict[int, float] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        if "loss" in values:
            found[int(values["step"])] = float(values["loss"])
    return sorted(found.items())


def read_step_times(path: Path) -> list[float]:
    """Return the seconds of a step that a run has logged."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [float(row["step_seconds"]) for row in rows if "step_seconds" in row]


def count_parameters(model: Any) -> int:
    """Count the model's own parameters, adapters left out; 4-bit weights hold two a byte."""
    own = ((name, one) for name, one in model.named_parameters() if "lora_" not in name)
    return sum(one.numel() * (2 if one.dtype == torch.uint8 else 1) for _, one in own)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found
