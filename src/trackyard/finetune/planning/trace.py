"""Peak memory of the model that will be trained, traced on fake tensors: no GPU, no real memory.

Owns the tracker of live storages and how four small traces (2 and 4 layers, micro-batches of 1
and 2) become the answer for any number of layers and any micro-batch. What is traced is what
training/ builds; attention is replaced by a stand-in that keeps what the CUDA kernels keep.
Needs torch and transformers; imports them late. Optimizer state is added by memory.py's figures.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trackyard.finetune.planning import memory
from trackyard.finetune.planning.memory import MemoryParts
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import ModelShape

if TYPE_CHECKING:
    import torch

    from trackyard.finetune.planning.live import Live

#: Layers of the small models: peaks are affine in the number of layers.
LAYERS = (2, 4)
CATEGORIES = ("weights", "gradients", "activations", "logits", "buffers")
#: Peaks of the moments of one step: moment to category to bytes.
Moments = dict[str, dict[str, float]]


def can_trace() -> bool:
    """Tell whether torch and transformers are installed."""
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in ("torch", "transformers"))


@dataclass(frozen=True)
class MemoryTrace:
    """Moments of four small traces, from which those of any depth and micro-batch follow."""

    batches: tuple[int, int]
    #: by layers, then by micro-batch, in the order of LAYERS and batches
    points: list[list[Moments]]

    def at(self, layers: int, batch: int) -> Moments:
        """Return the moments for a number of layers and a micro-batch."""
        deep = (layers - LAYERS[0]) / (LAYERS[1] - LAYERS[0])
        wide = (batch - self.batches[0]) / (self.batches[1] - self.batches[0])
        (low, low_wide), (high, high_wide) = self.points
        return {
            moment: {
                kind: _between(
                    _between(low[moment][kind], high[moment][kind], deep),
                    _between(low_wide[moment][kind], high_wide[moment][kind], deep),
                    wide,
                )
                for kind in CATEGORIES
            }
            for moment in low
        }


def _between(one: float, two: float, share: float) -> float:
    return one + (two - one) * share


def batches_of(setup: TrainingSetup) -> tuple[int, int]:
    """Return the micro-batches to trace: the one asked for, and half of it.

    Peaks are affine in the micro-batch except where it is so small that a weight's gradient
    outweighs the logits; tracing where the answer is wanted keeps clear of that.
    """
    high = max(2, setup.micro_batch)
    return high // 2, high


def trace(shape: ModelShape, setup: TrainingSetup) -> MemoryTrace:
    """Trace the four small models of a shape and setup."""
    batches = batches_of(setup)
    return MemoryTrace(
        batches,
        [
            [
                trace_once(
                    shape.but(layers=layers, source=_source(shape, layers)),
                    setup.but(micro_batch=batch),
                )
                for batch in batches
            ]
            for layers in LAYERS
        ],
    )


def peak(traced: MemoryTrace, shape: ModelShape, setup: TrainingSetup) -> MemoryParts:
    """Return the parts at the worst moment, with optimizer state and workspaces added."""
    state = memory.optimizer_bytes(memory.trainable_params(shape, setup), setup)
    moments = traced.at(shape.layers, setup.micro_batch)
    closed = memory.moments(shape, setup)
    found = [closed["optimizer"]]
    if setup.compile:
        # What layers keep is traced as the compiler cuts them, but run operator by operator:
        # what passes between fused operators is only known to the closed form.
        moments = {"loss": moments["loss"]}
        found += [closed["last layer"], closed["first layer"]]
    for one in moments.values():
        found.append(
            MemoryParts(
                weights=_weights(shape, setup, one["weights"]),
                gradients=one["gradients"],
                optimizer=state,
                activations=one["activations"],
                logits=one["logits"],
                buffers=one["buffers"] + memory.WORKSPACE + _dequantised(shape, setup),
            )
        )
    return max(found, key=lambda parts: parts.total)


def _weights(shape: ModelShape, setup: TrainingSetup, traced: float) -> float:
    return memory.weight_bytes(shape, setup) if setup.method == "qlora" else traced


def _dequantised(shape: ModelShape, setup: TrainingSetup) -> float:
    if setup.method != "qlora":
        return 0
    return max(inputs * outputs for inputs, outputs in shape.linears.values()) * 2


def _source(shape: ModelShape, layers: int) -> tuple[tuple[str, str], ...]:
    """Cut lists by layer in the model's own config to fewer layers."""
    return tuple(
        (key, json.dumps(json.loads(value)[:layers]) if key == "layer_types" else value)
        for key, value in shape.source
    )


# -- one trace --------------------------------------------------------------------------------


def trace_once(shape: ModelShape, setup: TrainingSetup) -> Moments:
    """Run forward and backward of a model on fake tensors and return the peaks of its moments.

    With accumulation the second micro-batch is traced: gradients are there from the start.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from trackyard.finetune.planning.kernels import stand_ins
    from trackyard.finetune.planning.live import Live

    traced = setup.but(method="lora" if setup.method == "qlora" else setup.method)
    model = _on_meta(shape, traced)
    with stand_ins(), FakeTensorMode(allow_non_fake_inputs=True):
        live = Live(CATEGORIES, shape.vocab)
        with live:
            model.to_empty(device="cpu")
            model.model.tie_weights()
        model.train()
        live.relabel("weights")
        ids = torch.zeros(setup.micro_batch, setup.seq, dtype=torch.long)
        more = _packed(ids) if setup.packing else {}
        if setup.compile:
            _compiled(model)
            _step(model, ids, more)
            _forget_gradients(model)
        with live:
            if setup.accumulation > 1:
                _step(model, ids, more)
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        live.tag(parameter.grad, "gradients")
            with _marks(model, live):
                live.moment("forward", "activations")
                _step(model, ids, more)
            live.close()
        return live.moments


def _step(model: Any, ids: torch.Tensor, more: dict[str, Any]) -> None:
    model(ids, labels=ids, **more).backward()


def _forget_gradients(model: Any) -> None:
    for parameter in model.parameters():
        parameter.grad = None


def _on_meta(shape: ModelShape, setup: TrainingSetup) -> Any:
    from transformers import AutoConfig

    from trackyard.finetune.training.build import build_model

    values = dict(shape.config())
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    return build_model(config, setup, device="meta")


def _packed(ids: torch.Tensor) -> dict[str, Any]:
    import torch

    tokens = ids.numel()
    bounds = torch.arange(0, tokens + 1, max(1, ids.shape[1] // 4), dtype=torch.int32)
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    return {"boundaries": bounds, "position_ids": positions}


def _compiled(model: Any) -> None:
    """Have layers keep what the compiler's partitioner keeps."""
    from trackyard.finetune.planning.kernels import partitioned
    from trackyard.finetune.training import activations

    partitioned(activations.decoder_layers(model.model))


@contextlib.contextmanager
def _marks(model: Any, live: Live) -> Iterator[None]:
    """Tell the tracker which part of the step it is in, and which storages are gradients."""
    from trackyard.finetune.training import activations

    layers = activations.decoder_layers(model.model)
    handles: list[Any] = [
        layer.register_forward_hook(_leaving(live, index, len(layers)))
        for index, layer in enumerate(layers)
    ]
    handles += [
        parameter.register_post_accumulate_grad_hook(lambda one: live.tag(one.grad, "gradients"))
        for parameter in model.parameters()
        if parameter.requires_grad
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _leaving(live: Live, index: int, count: int) -> Any:
    """Return a hook that marks the end of a layer's forward, and the start of its backward."""
    is_last = index == count - 1
    backward = "last layer" if is_last else "first layer" if index == 0 else "middle layers"

    def hook(_module: Any, _args: Any, output: Any) -> None:
        hidden = output[0] if isinstance(output, tuple) else output
        if is_last:
            live.moment("loss", "logits")
        if hidden.requires_grad:
            hidden.register_hook(lambda _grad: live.moment(backward, "buffers"))

    return hook
