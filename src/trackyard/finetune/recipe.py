"""A recipe: everything one fine-tuning run is told, typed and checked before anything is queued.

Owns the keys, their types and defaults, and which of them contradict each other. Reads YAML and
`key=value` words; knows neither torch nor the queue.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Union

from trackyard.core.errors import SetupError
from trackyard.finetune.setup import (
    Checkpointing,
    Loss,
    Method,
    Optimizer,
    Precision,
    Sharding,
    TrainingSetup,
    suggestion,
)

Format = Literal["auto", "alpaca", "messages", "prompt-completion", "text"]
Template = Literal["auto", "chat", "alpaca", "plain"]
OnSpike = Literal["warn", "skip", "rewind", "stop"]
SHIPPED = Path(__file__).parent / "recipes"
MAX_BYTES = 1024**2


@dataclass(frozen=True, kw_only=True)
class DataPart:
    """Where rows come from and how they become tokens."""

    #: file or folder of JSONL, JSON, CSV, Parquet or text
    train: str = ""
    #: held-out rows; or a fraction of the training rows
    eval: str = ""
    eval_fraction: float = 0.0
    format: Format = "auto"
    #: `chat`: the tokenizer's own chat template; `auto`: that one where it has one
    template: Template = "auto"
    #: whether the prompt is learned as well
    train_on_prompt: bool = False
    #: columns of CSV, Parquet and JSON rows
    text_column: str = "text"
    prompt_column: str = "prompt"
    completion_column: str = "completion"
    messages_column: str = "messages"
    shuffle: bool = True


@dataclass(frozen=True, kw_only=True)
class LoraPart:
    """The adapter."""

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    targets: tuple[str, ...] = ("all-linear",)
    rslora: bool = False
    #: go on from this adapter, in peft's format
    adapter: str = ""


@dataclass(frozen=True, kw_only=True)
class OptimizerPart:
    """The optimizer and the size of its steps."""

    name: Optimizer = "adamw"
    lr: float = 2e-4
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    momentum: float = 0.0
    #: largest norm of a step's gradient; 0: as it is
    clip: float = 1.0
    in_backward: bool = False
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    warmup_steps: int = 10
    min_lr: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SavePart:
    """Checkpoints to resume from."""

    every_steps: int = 200
    every_minutes: float = 0.0
    keep: int = 2
    #: default: YARD_CHECKPOINT_DIR inside a job, else a folder in `output`
    folder: str = ""
    resume: bool = True


@dataclass(frozen=True, kw_only=True)
class EvalPart:
    """Evaluation and samples while training."""

    every_steps: int = 0
    max_batches: int = 50
    prompts: tuple[str, ...] = ()
    new_tokens: int = 64


@dataclass(frozen=True, kw_only=True)
class HealthPart:
    """What counts as trouble, and what is done about it."""

    on_spike: OnSpike = "warn"
    #: robust deviations above the median of recent losses
    spike_deviations: float = 8.0
    window: int = 50
    #: how often a run may rewind or skip before it stops
    max_repairs: int = 5


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One fine-tuning run."""

    #: folder with a Hugging Face config and weights, or a hub name that is on this disk
    model: str = ""
    name: str = ""
    #: `random` needs no weights: to try a setup out
    weights: Literal["pretrained", "random"] = "pretrained"
    method: Method = "lora"
    precision: Precision = "bf16"
    seq: int = 2048
    packing: bool = True
    micro_batch: int = 1
    #: sequences of one optimizer step over all GPUs; 0: micro_batch times GPUs
    global_batch: int = 0
    epochs: float = 1.0
    #: optimizer steps; 0: as many as `epochs` need
    steps: int = 0
    seed: int = 42
    checkpointing: Checkpointing = "selective"
    #: with checkpointing, how many layers; 0: all
    checkpoint_layers: int = 0
    loss: Loss = "chunked"
    compile: bool = False
    attention: Literal["auto", "flash", "cudnn"] = "auto"
    sharding: Sharding = "none"
    offload: bool = False
    gpus: int = 1
    nodes: int = 1
    gpu_type: str = ""
    output: str = "output"
    #: name in the model registry; empty: not registered
    register: str = ""
    log_every: int = 1
    #: for MFU, TFLOP/s of one GPU; 0: from its name
    peak_tflops: float = 0.0
    data: DataPart = field(default_factory=DataPart)
    lora: LoraPart = field(default_factory=LoraPart)
    optimizer: OptimizerPart = field(default_factory=OptimizerPart)
    save: SavePart = field(default_factory=SavePart)
    eval: EvalPart = field(default_factory=EvalPart)
    health: HealthPart = field(default_factory=HealthPart)

    def __post_init__(self) -> None:
        for wrong, hint in self._problems():
            raise SetupError(wrong, hint=hint)
        self.setup()

    def _problems(self) -> list[tuple[str, str]]:
        found = []
        world = self.gpus * self.nodes
        if self.micro_batch < 1 or self.batch % (self.micro_batch * world):
            found.append(
                (
                    f"global_batch {self.batch} is no multiple of micro_batch x {world} GPUs",
                    "make it one: the rest would be trained on unequally",
                )
            )
        if self.optimizer.name == "adamw8bit" and self.sharding not in ("none", "ddp"):
            found.append(
                (
                    f"optimizer.name adamw8bit does not go with sharding {self.sharding}",
                    "its state cannot be split: use adamw_bf16, or sharding ddp",
                )
            )
        if self.precision == "fp16" and self.sharding not in ("none", "ddp"):
            found.append(("precision fp16 goes with sharding none or ddp", "use bf16 or mixed"))
        if self.precision == "float8":
            found.append(("precision float8 cannot be trained yet", "use bf16"))
        if self.method in ("qlora", "dora") and self.sharding not in ("none", "ddp"):
            found.append(
                (
                    f"method {self.method} does not go with sharding {self.sharding}",
                    "use sharding ddp, or method lora",
                )
            )
        if self.optimizer.in_backward and self.optimizer.clip:
            found.append(
                (
                    "optimizer.in_backward cannot clip: a gradient is gone when the next comes",
                    "set optimizer.clip: 0",
                )
            )
        if self.optimizer.in_backward and self.health.on_spike == "skip":
            found.append(
                (
                    "health.on_spike: skip does not go with optimizer.in_backward",
                    "by the time the loss is known the step is taken: use rewind or stop",
                )
            )
        if not 0 <= self.data.eval_fraction < 1:
            found.append(("data.eval_fraction must lie in [0, 1)", "0.05 keeps a twentieth back"))
        if self.seq < 8:
            found.append(("seq must be at least 8", "2048 is a usual length"))
        return found

    @property
    def batch(self) -> int:
        """Sequences of one optimizer step over all GPUs."""
        return self.global_batch or self.micro_batch * self.gpus * self.nodes

    @property
    def accumulation(self) -> int:
        """Micro-batches of one step on each GPU."""
        return self.batch // (self.micro_batch * self.gpus * self.nodes)

    def setup(self) -> TrainingSetup:
        """Return what memory and time depend on."""
        return TrainingSetup(
            method=self.method,
            precision=self.precision,
            micro_batch=self.micro_batch,
            seq=self.seq,
            accumulation=self.accumulation,
            checkpointing=self.checkpointing,
            optimizer=self.optimizer.name,
            in_backward=self.optimizer.in_backward,
            loss=self.loss,
            packing=self.packing,
            compile=self.compile,
            sharding=self.sharding,
            offload=self.offload,
            gpus=self.gpus,
            nodes=self.nodes,
            lora_rank=self.lora.rank,
            lora_targets=self.lora.targets,
        )

    def plain(self) -> dict[str, Any]:
        """Return the recipe as plain values, every default filled in."""
        values: dict[str, Any] = _plain(dataclasses.asdict(self))
        return values

    def yaml(self) -> str:
        """Return the recipe as YAML."""
        import yaml

        text: str = yaml.safe_dump(self.plain(), sort_keys=False, allow_unicode=True)
        return text


def read(source: str | Path, words: Sequence[str] = ()) -> Recipe:
    """Read a recipe file, or a shipped recipe by name, with `key=value` words laid over it."""
    return parse(load(source), words)


def load(source: str | Path) -> dict[str, Any]:
    """Return the keys of a recipe file as they are written."""
    import yaml

    path = find(source)
    raw = path.read_bytes()
    if len(raw) > MAX_BYTES:
        raise SetupError(f"{path} is over 1 MiB", hint="a recipe holds settings, not data")
    try:
        found = yaml.safe_load(raw)
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        words = " ".join(str(fault).split())[:200]
        raise SetupError(f"{path} is not YAML: {words}", hint="see docs/finetune.md") from fault
    if found is None:
        found = {}
    if not isinstance(found, dict):
        raise SetupError(f"{path} holds no recipe", hint="write one key a line: `method: lora`")
    return found


def find(source: str | Path) -> Path:
    """Return the file of a recipe: a path, or the name of a shipped one."""
    path = Path(source)
    if path.is_file():
        return path
    shipped = SHIPPED / f"{source}.yaml"
    if shipped.is_file():
        return shipped
    names = [found.stem for found in sorted(SHIPPED.glob("*.yaml"))]
    hint = suggestion(str(source), names) or f"shipped recipes: {', '.join(names)}"
    raise SetupError(f"{source} is neither a file nor a shipped recipe", hint=hint)


def parse(values: Mapping[str, Any], words: Sequence[str] = ()) -> Recipe:
    """Make a recipe of nested values and of `key=value` words, which win."""
    merged = _copy(values)
    for word in words:
        key, sign, text = word.partition("=")
        if not sign:
            raise SetupError(f"{word!r} is not key=value", hint="write it as in lr=1e-4")
        _put(merged, _path_of(key), _scalar(text))
    recipe: Recipe = _build(Recipe, merged, "")
    return recipe


def keys(kind: type = Recipe, prefix: str = "") -> list[str]:
    """Return every key of a recipe, dotted."""
    found = []
    hints = typing.get_type_hints(kind)
    for one in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[one.name]):
            found += keys(typing.cast(type, hints[one.name]), f"{prefix}{one.name}.")
        else:
            found.append(prefix + one.name)
    return found


def _path_of(key: str) -> list[str]:
    """Return where a key belongs; the last part alone will do where it is the only one."""
    known = keys()
    key = key.replace("-", "_")
    if key in known:
        return key.split(".")
    same = [one for one in known if one.rpartition(".")[2] == key]
    if len(same) == 1:
        return same[0].split(".")
    if same:
        raise SetupError(f"{key} could be {' or '.join(same)}", hint="write the whole key")
    raise _unknown(key, known)


def _unknown(key: str, known: Sequence[str]) -> SetupError:
    leaves = {one.rpartition(".")[2]: one for one in reversed(known)}
    close = suggestion(key, known) or suggestion(key.rpartition(".")[2], leaves)
    if close is not None:
        word = close.removeprefix("did you mean ").removesuffix("?")
        close = f"did you mean {leaves.get(word, word)}?"
    return SetupError(f"a recipe has no key {key}", hint=close or "see docs/finetune.md")


def _put(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for part in path[:-1]:
        values = values.setdefault(part, {})
    values[path[-1]] = value


def _copy(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {str(key).replace("-", "_"): _copy(value) for key, value in values.items()}
    return values


def _scalar(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _build(kind: type, values: Any, prefix: str) -> Any:
    if not isinstance(values, Mapping):
        raise SetupError(
            f"{prefix.rstrip('.')} holds keys of its own", hint="see docs/finetune.md"
        )
    hints = typing.get_type_hints(kind)
    known = {one.name for one in dataclasses.fields(kind)}
    for key in values:
        if key not in known:
            raise _unknown(f"{prefix}{key}", keys())
    return kind(
        **{
            key: _read(hints[key], value, f"{prefix}{key}")
            for key, value in values.items()
            if value is not None
        }
    )


def _read(kind: Any, value: Any, key: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _build(typing.cast(type, kind), value, f"{key}.")
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        kind = next(one for one in typing.get_args(kind) if one is not type(None))
        origin = typing.get_origin(kind)
    if origin is Literal:
        return _choice(typing.get_args(kind), value, key)
    if origin is tuple:
        parts = value if isinstance(value, list | tuple) else [value]
        return tuple(_text(part, key) for part in parts)
    return _READERS[kind](value, key)


def _choice(allowed: tuple[str, ...], value: Any, key: str) -> str:
    # YAML reads a bare `none` as text but `off` and `no` as false.
    word = "none" if value is False and "none" in allowed else str(value)
    if word not in allowed:
        hint = suggestion(word, allowed) or f"one of {', '.join(allowed)}"
        raise SetupError(f"{key} cannot be {value!r}", hint=hint)
    return word


def _text(value: Any, key: str) -> str:
    if isinstance(value, dict | list):
        raise SetupError(f"{key} is one word, not {value!r}", hint="see docs/finetune.md")
    return str(value)


def _whole(value: Any, key: str) -> int:
    number = _number(value, key)
    if number != int(number) or number < 0:
        raise SetupError(f"{key} is a whole number, not {value!r}", hint="as in 8")
    return int(number)


def _number(value: Any, key: str) -> float:
    if isinstance(value, bool):
        raise SetupError(f"{key} is a number, not {value!r}", hint="as in 0.1")
    try:
        return float(value)
    except (TypeError, ValueError) as fault:
        raise SetupError(f"{key} is a number, not {value!r}", hint="as in 0.1 or 2e-4") from fault


def _truth(value: Any, key: str) -> bool:
    if not isinstance(value, bool):
        raise SetupError(f"{key} is true or false, not {value!r}", hint="write true or false")
    return value


_READERS: dict[Any, Any] = {str: _text, int: _whole, float: _number, bool: _truth}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
