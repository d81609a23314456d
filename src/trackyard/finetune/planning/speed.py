"""Step time in closed form: a roofline by kind of work, and the time the host takes to launch it.

Owns FLOP and byte counts of a step and how near to its peak each kind of work comes. Knows no
torch. Factors that runs have taught (calibration.py) are applied by whoever asks.

MFU here counts 6 FLOP a parameter and token for full fine-tuning and 4 with adapters (nothing is
computed for frozen weights' gradients), plus 6 * layers * width * sequence for causal attention;
what checkpointing computes again is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from trackyard.finetune.planning.gpus import GpuModel
from trackyard.finetune.planning.memory import sizes, trainable_params, weight_bytes
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import ModelShape

MFU_CONVENTION = (
    "6N + 6Lws FLOP a token (4N + 6Lws with adapters), recomputation not counted, "
    "of the dense 16-bit peak"
)
#: share of the peak that products reach in training, for very wide layers, by the peak's kind
_PRODUCT_SHARE = {"bf16": 0.69, "fp32": 0.86, "float8": 0.42}
#: width at which half of that share is lost
_HALF_WIDTH = 623
#: attention kernels reach this share of the rate of products
_ATTENTION_SHARE = 0.6
_BANDWIDTH_SHARE = 0.9
#: seconds the host needs to launch one layer, forward and backward, when nothing is compiled
_HOST_LAYER = 4.6e-3
_HOST_AGAIN = 1.7e-3
_HOST_COMPILED = 1.1e-3
_HOST_ADAPTER = 1.2e-3
#: GB/s between GPU and host, and of an optimizer that runs on the host
_HOST_LINK = 40.0
_HOST_STATE = 60.0
#: GB/s from node to node, a GPU
_NETWORK = 25.0


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one optimizer step, by what takes them."""

    products: float
    attention: float
    elementwise: float
    optimizer: float
    communication: float
    #: what the host adds because it launches slower than the GPU computes
    waiting: float

    @property
    def total(self) -> float:
        """All of them."""
        return (
            self.products
            + self.attention
            + self.elementwise
            + self.optimizer
            + self.communication
            + self.waiting
        )

    def scaled(self, factor: float) -> StepTime:
        """Return the same split, as much longer as runs have taught."""
        return StepTime(*(getattr(self, name) * factor for name in StepTime.__slots__))

    def json(self) -> dict[str, float]:
        """Return seconds by kind, and their sum."""
        found = {name: round(getattr(self, name), 6) for name in StepTime.__slots__}
        return found | {"total": round(self.total, 6)}


def model_flops(shape: ModelShape, setup: TrainingSetup) -> float:
    """Return the FLOP of one token by the convention of MFU."""
    each = 4 if setup.is_adapter else 6
    attention = 6 * shape.layers * shape.query_width * setup.seq
    return each * shape.params() + attention


def mfu(shape: ModelShape, setup: TrainingSetup, gpu: GpuModel, tokens_per_second: float) -> float:
    """Return the share of the dense 16-bit peak, for tokens a second over all GPUs."""
    flops = model_flops(shape, setup) * tokens_per_second / setup.world
    return flops / (gpu.half * 1e12) if gpu.half else 0.0


def step_time(shape: ModelShape, setup: TrainingSetup, gpu: GpuModel) -> StepTime:
    """Return the time of one optimizer step, before any factor."""
    passes = setup.accumulation
    products = _products(shape, setup, gpu) * passes
    attention = _attention(shape, setup, gpu) * passes
    elementwise = _elementwise(shape, setup, gpu) * passes
    optimizer = _optimizer(shape, setup, gpu)
    busy = products + attention + elementwise
    communication = _communication(shape, setup, gpu, busy)
    waiting = max(0.0, _host(shape, setup) * passes - busy)
    return StepTime(products, attention, elementwise, optimizer, communication, waiting)


def product_rate(width: int, gpu: GpuModel, precision: str) -> float:
    """Return the FLOP/s that products of a width reach on a GPU."""
    kind = precision if precision in ("fp32", "float8") else "bf16"
    peak = gpu.rate(precision)
    if not peak:
        # Hardware without the type computes it in 32 bits.
        kind, peak = "fp32", gpu.fp32
    return peak * 1e12 * _PRODUCT_SHARE[kind] * width / (width + _HALF_WIDTH)


def _again(setup: TrainingSetup) -> float:
    """How much of forward is computed a second time: products, attention."""
    return 1.0 if setup.checkpointing in ("full", "offload") else 0.0


def _products(shape: ModelShape, setup: TrainingSetup, gpu: GpuModel) -> float:
    tokens = setup.micro_tokens
    layers = 2.0 * shape.layers * shape.linear_params * tokens
    head = 2.0 * shape.embedding_params * tokens
    passes = 2 if setup.is_adapter else 3
    flops = layers * (passes + _again(setup))
    rate = product_rate(shape.hidden, gpu, setup.precision)
    seconds = flops / rate
    head_kind = "bf16" if setup.precision == "float8" else setup.precision
    seconds += head * passes / product_rate(shape.hidden, gpu, head_kind)
    if setup.is_adapter:
        small = 2.0 * trainable_params(shape, setup) * tokens
        # Products of a narrow matrix are bound by reading the wide one.
        seconds += small * (3 + _again(setup)) / (rate * 0.4)
    return seconds


def _attention(shape: ModelShape, setup: TrainingSetup, gpu: GpuModel) -> float:
    length = setup.seq / 2 if setup.packing else setup.seq
    forward = 2.0 * shape.layers * length * shape.query_width * setup.micro_tokens
    kind = setup.precision if setup.precision == "fp32" else "bf16"
    rate = product_rate(shape.hidden, gpu, kind) * _ATTENTION_SHARE
    return forward * (3.5 + _again(setup)) / rate


def _elementwise(shape: ModelShape, setup: TrainingSetup, gpu: GpuModel) -> float:
    size, tokens = sizes(setup), setup.micro_tokens
    wide = size.compute / 2
    norms = 36.0 * shape.norms_per_layer * shape.hidden
    rotary = 20.0 * wide * (shape.query_width + shape.kv_width)
    rest = 12.0 * size.residual / 2 * shape.hidden + 10.0 * wide * shape.intermediate
    forward = norms + rotary + rest
    if size.casts:
        forward *= 1.35
    if setup.is_adapter and not setup.compile:
        targets = [shape.linears[name] for name in shape.layer_targets(setup.lora_targets)]
        forward += 2.0 * size.compute * sum(outputs for _, outputs in targets)
    if setup.compile:
        forward *= 0.35
    again = _again(setup) + (0.8 if setup.checkpointing == "selective" else 0.0)
    moved = forward * shape.layers * tokens * (3 + again)
    moved += (40 if setup.loss == "plain" else 34) * shape.vocab * tokens
    if setup.method == "qlora":
        weights = shape.layers * shape.linear_params
        moved += weights * 2.5 * (2 + _again(setup)) / 0.6
    if setup.checkpointing == "offload":
        stream = shape.layers * size.residual * shape.hidden * tokens
        moved += 2 * stream * gpu.bandwidth / _HOST_LINK * 0.5
    return moved / (gpu.bandwidth * 1e9 * _BANDWIDTH_SHARE)


def _optimizer(shape: ModelShape, setup: TrainingSetup, gpu: GpuModel) -> float:
    count = trainable_params(shape, setup) / setup.shards
    size = sizes(setup).trained
    passes = {
        "adamw": 7.0 * size,
        "adamw_bf16": 3.0 * size + 8.0,
        "adamw8bit": 3.0 * size + 4.0,
        "sgd": 3.0 * size,
    }[setup.optimizer]
    if setup.offload:
        moved = 2.0 * count * size / (_HOST_LINK * 1e9)
        return moved + count * passes / (_HOST_STATE * 1e9)
    return count * passes / (gpu.bandwidth * 1e9 * _BANDWIDTH_SHARE)


def _communication(shape: ModelShape, setup: TrainingSetup, gpu: GpuModel, busy: float) -> float:
    """Seconds of exchange that computing does not hide."""
    if setup.world == 1:
        return 0.0
    size = sizes(setup)
    link = min(gpu.link, _NETWORK) if setup.nodes > 1 else gpu.link
    share = (setup.world - 1) / setup.world
    gradients = trainable_params(shape, setup) * size.trained
    weights = weight_bytes(shape, setup.but(sharding="none", gpus=1, nodes=1, offload=False))
    weights *= size.compute / max(size.trained, size.frozen)
    moved = 2.0 * gradients * share
    if setup.sharding in ("zero3", "hsdp"):
        moved = gradients * share + 2.0 * weights * share * setup.accumulation
        link = gpu.link if setup.sharding == "hsdp" else link
    elif setup.sharding == "zero2":
        moved = gradients * share + weights * share * setup.accumulation
    seconds = moved / (link * 1e9 * 0.8)
    # Exchange runs beside computing, all but the first and last layer's.
    return max(seconds - 0.8 * busy, seconds * 2 / max(2, shape.layers))


def _host(shape: ModelShape, setup: TrainingSetup) -> float:
    each = _HOST_COMPILED if setup.compile else _HOST_LAYER
    if setup.is_adapter and not setup.compile:
        each += _HOST_ADAPTER
    if setup.method == "qlora":
        each += _HOST_ADAPTER
    if setup.checkpointing != "none":
        each += _HOST_COMPILED if setup.compile else _HOST_AGAIN
    return shape.layers * each
