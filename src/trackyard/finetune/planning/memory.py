"""Peak memory of a training step in closed form: by part, from a shape and a setup alone.

Owns what stays alive when, moment by moment through a step, for the model that training/ builds.
Needs no torch: it answers where torch is not installed, and prunes what is traced where it is.
The traces (trace.py) decide where both are there; a test holds the two together.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import ModelShape

#: 4-bit weights with their scales, doubly quantised: bytes a parameter
NF4_BYTES = 0.5168
#: rows of the chunked loss that are there at a time
CHUNK = 2048
#: cuBLAS workspaces and small things, which a trace does not see
WORKSPACE = 64 * 2**20
#: an 8-bit state with its scales by blocks of 256: bytes a parameter
STATE_8BIT = 1.0 + 4 / 256


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """Bytes on one GPU at the peak of a step, by what they are for."""

    weights: float = 0
    gradients: float = 0
    optimizer: float = 0
    activations: float = 0
    logits: float = 0
    buffers: float = 0

    @property
    def total(self) -> float:
        """All parts together."""
        return float(sum(dataclasses.astuple(self)))

    def json(self) -> dict[str, int]:
        """Return whole bytes by part, and their sum."""
        found = {name: int(value) for name, value in dataclasses.asdict(self).items()}
        return found | {"total": sum(found.values())}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of one value, by its kind."""

    #: weights that learn, with their gradients
    trained: int
    #: weights that do not
    frozen: int
    compute: int
    #: the stream between layers
    residual: int
    #: whether autocast makes 16-bit copies of weights and activations
    casts: bool


def sizes(setup: TrainingSetup) -> Sizes:
    """Return the bytes of values for a precision and method."""
    is_fp32 = setup.precision == "fp32"
    is_mixed = setup.precision in ("mixed", "fp16")
    frozen = 4 if is_fp32 else 2
    trained = 4 if is_fp32 or is_mixed else 2
    residual = frozen if setup.is_adapter else trained
    return Sizes(trained, frozen, frozen, residual, is_mixed and not setup.is_adapter)


def trainable_params(shape: ModelShape, setup: TrainingSetup) -> int:
    """Return how many parameters learn."""
    if not setup.is_adapter:
        return shape.params()
    count = shape.adapter_params(setup.lora_rank, setup.lora_targets)
    if setup.method == "dora":
        targets = shape.layer_targets(setup.lora_targets)
        count += shape.layers * sum(shape.linears[name][1] for name in targets)
    return count


def weight_bytes(shape: ModelShape, setup: TrainingSetup) -> float:
    """Return the bytes of all weights, before any sharding."""
    size = sizes(setup)
    if not setup.is_adapter:
        return shape.params() * size.trained
    adapters = trainable_params(shape, setup) * size.trained
    if setup.method == "qlora":
        quantised = shape.layers * shape.linear_params
        return quantised * NF4_BYTES + (shape.params() - quantised) * size.frozen + adapters
    return shape.params() * size.frozen + adapters


def optimizer_bytes(count: int, setup: TrainingSetup) -> float:
    """Return the bytes of optimizer state for that many parameters."""
    each = {
        "adamw": 2.0 * sizes(setup).trained,
        "adamw_bf16": 4.0,
        "adamw8bit": 2 * STATE_8BIT,
        "sgd": 0.0,
    }[setup.optimizer]
    return count * each


#: Flash attention takes heads whose size is a multiple of this, and fills up others.
FLASH_ALIGNMENT = 8


def uses_math_attention(shape: ModelShape, setup: TrainingSetup) -> bool:
    """Tell whether scores are held in full: no fast kernel does grouped heads in 32 bits."""
    return setup.precision == "fp32" and shape.kv_heads != shape.heads


def attention_bytes(shape: ModelShape, setup: TrainingSetup) -> float:
    """Return what attention keeps for backward, a token and layer."""
    size = sizes(setup).compute
    query, key = shape.query_width * size, shape.kv_width * size
    if uses_math_attention(shape, setup):
        return 4 * query + shape.heads * setup.seq * size
    kept = 2 * query + 2 * key + 4 * shape.heads
    spare = -shape.head_dim % FLASH_ALIGNMENT
    if spare and size < 4:
        # Heads are filled up for the kernel; the output without the filling is a copy of its own.
        kept += query + 2 * spare * (shape.heads + shape.kv_heads) * size
    return kept


def norm_bytes(shape: ModelShape, width: int, setup: TrainingSetup, *, copies: int = 1) -> float:
    """Return what one norm keeps, with the inputs of the linear layers that read its output."""
    size = sizes(setup)
    as_float = 4 * width
    if size.casts:
        return as_float + 4 * width + copies * size.compute * width
    # Gemma multiplies by its weight before it goes back to 16 bits.
    normed = (4 if shape.family.startswith("gemma") else size.residual) * width
    return as_float + (0 if setup.is_adapter else normed) + size.compute * width


def kept_bytes(shape: ModelShape, setup: TrainingSetup) -> float:
    """Return what one layer keeps for backward without checkpointing, a token."""
    size = sizes(setup)
    targets = shape.layer_targets(setup.lora_targets) if setup.is_adapter else tuple(shape.linears)
    inner = size.compute * shape.intermediate
    reads_norm = [bool({"q_proj", "k_proj", "v_proj"} & set(targets))]
    reads_norm.append(bool({"gate_proj", "up_proj"} & set(targets)))
    down = inner if "down_proj" in targets else 0
    low = setup.lora_rank * size.compute * len(targets) if setup.is_adapter else 0
    total = attention_bytes(shape, setup) + low + down
    if setup.compile:
        outputs = sum(reads_norm) * size.compute * shape.hidden
        return total + size.residual * shape.hidden + outputs + 2 * inner + _mid(shape, setup)
    for reads, copies in zip(reads_norm, (3, 2), strict=True):
        norm = norm_bytes(shape, shape.hidden, setup, copies=copies)
        total += norm if reads else norm - size.compute * shape.hidden
    if shape.norms_per_layer == 4:
        total += 2 * norm_bytes(shape, shape.hidden, setup) - 2 * size.compute * shape.hidden
    if shape.qk_norm:
        width = shape.query_width + shape.kv_width
        total += norm_bytes(shape, width, setup) - size.compute * width
    if setup.method == "dora":
        total += 2 * size.compute * sum(shape.linears[name][1] for name in targets)
    return total + 3 * inner


def _mid(shape: ModelShape, setup: TrainingSetup) -> float:
    """The output of attention's last product, from which the compiler makes the rest again."""
    return sizes(setup).compute * shape.hidden


def stored_bytes(shape: ModelShape, setup: TrainingSetup) -> float:
    """Return what one layer holds from forward to backward under the setup's policy, a token."""
    size = sizes(setup)
    stream = size.residual * shape.hidden
    if setup.checkpointing == "full":
        return stream
    if setup.checkpointing == "offload":
        return 0
    if setup.checkpointing == "selective":
        products = shape.query_width + 2 * shape.kv_width + 2 * shape.intermediate
        products += 2 * shape.hidden + shape.query_width
        low = (
            setup.lora_rank * len(shape.layer_targets(setup.lora_targets))
            if setup.is_adapter
            else 0
        )
        return stream + (products + low) * size.compute + 4 * shape.heads
    return kept_bytes(shape, setup)


def peak(shape: ModelShape, setup: TrainingSetup) -> MemoryParts:
    """Return the parts of memory at the worst moment of a step."""
    return max(moments(shape, setup).values(), key=lambda parts: parts.total)


def moments(shape: ModelShape, setup: TrainingSetup) -> dict[str, MemoryParts]:
    """Return the parts at each moment of a step that can be the worst."""
    size, tokens = sizes(setup), setup.micro_tokens
    trained = trainable_params(shape, setup)
    gradients = _gradients(trained * size.trained, shape, setup)
    fixed = _fixed(shape, setup, trained)
    stored = shape.layers * stored_bytes(shape, setup) * tokens
    final = norm_bytes(shape, shape.hidden, setup) * tokens
    if setup.is_adapter:
        # Nothing before the first adapter needs a gradient: the first norm keeps little.
        stored = max(0.0, stored - _first_norm(shape, setup) * tokens)
    held = gradients if setup.accumulation > 1 else 0
    head = 0.0 if setup.is_adapter else shape.embedding_params * size.trained
    layer = _layer_backward(shape, setup)
    logits = _logits(shape, setup)
    share = max(1, setup.shards)
    copies, copy = _casts(shape, setup)
    is_kept = setup.checkpointing in ("none", "selective")
    found = {
        "loss": _plus(
            fixed,
            gradients=held,
            activations=stored + final,
            logits=logits,
            buffers=copies + WORKSPACE,
        ),
        "last layer": _plus(
            fixed,
            gradients=max(held, min(gradients, head / share)),
            activations=stored + layer.activations,
            buffers=layer.buffers + (copies if is_kept else copy) + WORKSPACE,
        ),
        "first layer": _plus(
            fixed,
            gradients=max(held, gradients - (0 if setup.is_adapter else head / share)),
            activations=layer.activations + stored_bytes(shape, setup) * tokens,
            buffers=layer.buffers + copy + WORKSPACE,
        ),
        "optimizer": _plus(
            fixed, gradients=gradients, buffers=_optimizer_temporary(shape, setup) + WORKSPACE
        ),
    }
    if setup.accumulation > 1 and not setup.is_adapter:
        more = found["last layer"]
        found["last layer"] = dataclasses.replace(
            more, buffers=more.buffers + max(0, head - layer.activations)
        )
    return found


def host_bytes(shape: ModelShape, setup: TrainingSetup) -> float:
    """Return the host memory that offloading takes, on one node."""
    tokens, trained = setup.micro_tokens, trainable_params(shape, setup)
    total = 0.0
    if setup.offload:
        state = optimizer_bytes(trained, setup) + 2 * trained * sizes(setup).trained
        total += state / setup.shards * setup.gpus
    if setup.checkpointing == "offload":
        stream = sizes(setup).residual * shape.hidden * tokens
        total += shape.layers * stream * setup.gpus
    return total


def _fixed(shape: ModelShape, setup: TrainingSetup, trained: int) -> MemoryParts:
    size, shards = sizes(setup), setup.shards
    weights = weight_bytes(shape, setup)
    state = optimizer_bytes(trained, setup) / shards
    buffers = 0.0
    if setup.sharding not in ("none", "ddp"):
        ends = (shape.embedding_params + shape.head_params) * size.compute
        layer = shape.layer_params * size.compute
        gathered = shape.layers * layer if setup.sharding == "zero2" else 2 * layer
        reduced = 2 * shape.layer_params * (4 if size.casts else size.trained)
        buffers += ends + gathered + (0 if setup.is_adapter else reduced)
    if setup.offload:
        weights, state = 0, 0
        if setup.sharding == "none":
            weights = weight_bytes(shape, setup)
    if setup.method == "qlora":
        buffers += max(i * o for i, o in shape.linears.values()) * 2
    if setup.method == "dora":
        buffers += max(i * o for i, o in shape.linears.values()) * 8
    return MemoryParts(weights=weights / shards, optimizer=state, buffers=buffers)


def _casts(shape: ModelShape, setup: TrainingSetup) -> tuple[float, float]:
    """Return the bytes of 16-bit copies that autocast makes of all weights, and of one layer's."""
    if not sizes(setup).casts or setup.sharding not in ("none", "ddp"):
        return 0.0, 0.0
    whole = shape.params() - (0 if shape.tied else shape.embedding_params)
    return whole * 2.0, shape.layer_params * 2.0


def _gradients(whole: float, shape: ModelShape, setup: TrainingSetup) -> float:
    if setup.in_backward:
        return max(shape.embedding_params, shape.linear_params / 3) * sizes(setup).trained
    if setup.offload and setup.sharding != "none":
        return 0
    return whole / setup.shards


def _first_norm(shape: ModelShape, setup: TrainingSetup) -> float:
    if setup.checkpointing != "none" or setup.compile:
        return 0
    return 4 * shape.hidden


def _layer_backward(shape: ModelShape, setup: TrainingSetup) -> MemoryParts:
    """What is there beside stored activations while one layer is in backward."""
    size, tokens = sizes(setup), setup.micro_tokens
    again = 0.0
    if setup.checkpointing != "none":
        full = kept_bytes(shape, setup)
        again = max(0.0, full - stored_bytes(shape, setup))
        if setup.checkpointing in ("full", "offload"):
            again = full
    # Two gradients of the inner width, and the stream's own, at the product of gate and up.
    moving = 2 * size.compute * shape.intermediate + 2 * size.residual * shape.hidden
    if uses_math_attention(shape, setup):
        moving = max(moving, 2 * shape.heads * setup.seq * size.compute)
    return MemoryParts(activations=again * tokens, buffers=moving * tokens)


def _logits(shape: ModelShape, setup: TrainingSetup) -> float:
    size = sizes(setup)
    if setup.loss == "plain":
        return 12.0 * shape.vocab * setup.micro_tokens
    rows = min(CHUNK, setup.micro_tokens)
    # Two chunks in 32 bits, the product they come from, and what is left of the chunk before.
    here = 12.0 * shape.vocab * rows
    if setup.micro_tokens <= CHUNK:
        here -= size.compute * shape.vocab * rows
    gradient = 0.0 if setup.is_adapter else size.compute * shape.embedding_params
    return here + gradient + size.compute * shape.hidden * setup.micro_tokens


def _optimizer_temporary(shape: ModelShape, setup: TrainingSetup) -> float:
    largest = shape.embedding_params if not setup.is_adapter else 0
    if setup.optimizer in ("adamw", "sgd"):
        return 0
    return 2 * 4 * largest / setup.shards


def _plus(fixed: MemoryParts, **more: float) -> MemoryParts:
    values = dataclasses.asdict(fixed)
    for name, value in more.items():
        values[name] += value
    return MemoryParts(**values)
