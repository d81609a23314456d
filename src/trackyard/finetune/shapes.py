"""ModelShape: the sizes of a decoder-only language model, and where they come from: a folder with
a Hugging Face config.json, the hub's cache on this disk, or the table of well-known models. Owns
parameter counts; knows neither torch nor the network.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.finetune.setup import suggestion

#: Families whose decoder layers these fields describe in full.
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text")


@dataclass(frozen=True)
class ModelShape:
    """The sizes that memory and speed follow from. Norms and biases are counted too, so that
    params() is the exact number.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool = False
    family: str = "llama"
    qkv_bias: bool = False
    #: a norm over each head of queries and keys
    qk_norm: bool = False
    norms_per_layer: int = 2
    max_seq: int = 4096
    #: the whole Hugging Face config where the shape was read from one
    source: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)

    @property
    def query_width(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of all key heads together."""
        return self.kv_heads * self.head_dim

    @cached_property
    def linears(self) -> dict[str, tuple[int, int]]:
        """The linear layers of one decoder layer: name to (inputs, outputs)."""
        return {
            "q_proj": (self.hidden, self.query_width),
            "k_proj": (self.hidden, self.kv_width),
            "v_proj": (self.hidden, self.kv_width),
            "o_proj": (self.query_width, self.hidden),
            "gate_proj": (self.hidden, self.intermediate),
            "up_proj": (self.hidden, self.intermediate),
            "down_proj": (self.intermediate, self.hidden),
        }

    @property
    def linear_params(self) -> int:
        """Weights of the linear layers of one decoder layer, without biases."""
        return sum(inputs * outputs for inputs, outputs in self.linears.values())

    @property
    def small_params(self) -> int:
        """Norms and biases of one decoder layer."""
        count = self.norms_per_layer * self.hidden
        if self.qkv_bias:
            count += self.query_width + 2 * self.kv_width
        if self.qk_norm:
            count += 2 * self.head_dim
        return count

    @property
    def layer_params(self) -> int:
        """All parameters of one decoder layer."""
        return self.linear_params + self.small_params

    @property
    def embedding_params(self) -> int:
        """Parameters of the table of token embeddings; the head has as many."""
        return self.vocab * self.hidden

    @property
    def head_params(self) -> int:
        """Parameters of the head, none where it shares the embeddings."""
        return 0 if self.tied else self.embedding_params

    def params(self) -> int:
        """Return the exact number of parameters."""
        rest = self.embedding_params + self.head_params + self.hidden
        return self.layers * self.layer_params + rest

    def adapter_params(self, rank: int, targets: tuple[str, ...]) -> int:
        """Return how many parameters LoRA of a rank adds on the named linear layers."""
        per_layer = sum(
            rank * (self.linears[name][0] + self.linears[name][1])
            for name in self.layer_targets(targets)
        )
        head = rank * (self.hidden + self.vocab) if "lm_head" in targets else 0
        return self.layers * per_layer + head

    def targets(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the linear layers that a list of targets names, `all-linear` written out."""
        found: list[str] = []
        for name in names:
            if name == "all-linear":
                found += list(self.linears)
            elif name in self.linears or name == "lm_head":
                found.append(name)
            else:
                known = ["all-linear", *self.linears, "lm_head"]
                hint = suggestion(name, known) or f"one of {', '.join(known)}"
                raise SetupError(f"{self.name} has no linear layer {name!r}", hint=hint)
        return tuple(dict.fromkeys(found))

    def layer_targets(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the targets that every decoder layer has: all but the head."""
        return tuple(name for name in self.targets(names) if name in self.linears)

    def but(self, **changes: Any) -> ModelShape:
        """Return a copy with some values changed, such as fewer layers for a trace."""
        return dataclasses.replace(self, **changes)

    def config(self) -> dict[str, Any]:
        """Return a Hugging Face config of this shape, to build a model with random weights
        from.
        """
        values: dict[str, Any] = {key: json.loads(value) for key, value in self.source}
        values |= {
            "model_type": self.family,
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.intermediate,
            "vocab_size": self.vocab,
            "tie_word_embeddings": self.tied,
            "max_position_embeddings": self.max_seq,
        }
        if "layer_types" in values:
            values["layer_types"] = values["layer_types"][: self.layers]
        return values

    def json(self) -> dict[str, Any]:
        """Return the sizes and the number of parameters as plain values."""
        values = dataclasses.asdict(self)
        del values["source"]
        return values | {"params": self.params()}


def shape_of(config: dict[str, Any], name: str) -> ModelShape:
    """Read a shape from a Hugging Face config; what is not a dense decoder is refused."""
    config = config.get("text_config") or config
    family = str(config.get("model_type", ""))
    if any(key in config for key in ("num_local_experts", "num_experts", "n_routed_experts")):
        raise SetupError(
            f"{name} is a mixture of experts ({family}), which cannot be planned yet",
            hint="plan a dense model of about the size of its active experts for its speed",
        )
    needed = "hidden_size num_hidden_layers num_attention_heads intermediate_size vocab_size"
    missing = [key for key in needed.split() if key not in config]
    if missing:
        raise SetupError(
            f"the config of {name} ({family or 'no model_type'}) has no {', '.join(missing)}",
            hint="a decoder-only model in the manner of Llama can be planned: "
            + ", ".join(FAMILIES),
        )
    heads = int(config["num_attention_heads"])
    gemma_like = family.startswith("gemma")
    return ModelShape(
        name=name,
        hidden=int(config["hidden_size"]),
        layers=int(config["num_hidden_layers"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
        intermediate=int(config["intermediate_size"]),
        vocab=int(config["vocab_size"]),
        tied=bool(config.get("tie_word_embeddings", gemma_like)),
        family=family or "llama",
        qkv_bias=bool(config.get("attention_bias", family == "qwen2")),
        qk_norm=family in ("qwen3", "gemma3_text"),
        norms_per_layer=4 if family in ("gemma2", "gemma3_text") else 2,
        max_seq=int(config.get("max_position_embeddings") or 4096),
        source=tuple((key, json.dumps(value)) for key, value in sorted(config.items())),
    )


def _known(name: str, sizes: str, **more: Any) -> ModelShape:
    hidden, layers, heads, kv_heads, head_dim, intermediate, vocab = map(int, sizes.split())
    return ModelShape(name, hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, **more)


def _table() -> dict[str, ModelShape]:
    tied: dict[str, Any] = {"tied": True}
    llama3: dict[str, Any] = {"max_seq": 131072}
    qwen2: dict[str, Any] = {"family": "qwen2", "qkv_bias": True, "max_seq": 32768}
    qwen3: dict[str, Any] = {"family": "qwen3", "qk_norm": True, "max_seq": 40960}
    mistral: dict[str, Any] = {"family": "mistral", "max_seq": 32768}
    gemma: dict[str, Any] = {"family": "gemma", "max_seq": 8192, **tied}
    gemma2 = {**gemma, "family": "gemma2", "norms_per_layer": 4}
    gemma3 = {**gemma2, "family": "gemma3_text", "qk_norm": True, "max_seq": 32768}
    rows = [
        _known("tinyllama-1.1b", "2048 22 32 4 64 5632 32000", max_seq=2048),
        _known("openllama-3b", "3200 26 32 32 100 8640 32000", max_seq=2048),
        _known("openllama-7b", "4096 32 32 32 128 11008 32000", max_seq=2048),
        _known("openllama-13b", "5120 40 40 40 128 13824 32000", max_seq=2048),
        _known("llama-2-7b", "4096 32 32 32 128 11008 32000"),
        _known("llama-2-13b", "5120 40 40 40 128 13824 32000"),
        _known("llama-3.2-1b", "2048 16 32 8 64 8192 128256", **llama3, **tied),
        _known("llama-3.2-3b", "3072 28 24 8 128 8192 128256", **llama3, **tied),
        _known("llama-3-8b", "4096 32 32 8 128 14336 128256", max_seq=8192),
        _known("llama-3.1-8b", "4096 32 32 8 128 14336 128256", **llama3),
        _known("llama-3.1-70b", "8192 80 64 8 128 28672 128256", **llama3),
        _known("llama-3.3-70b", "8192 80 64 8 128 28672 128256", **llama3),
        _known("qwen2.5-0.5b", "896 24 14 2 64 4864 151936", **qwen2, **tied),
        _known("qwen2.5-1.5b", "1536 28 12 2 128 8960 151936", **qwen2, **tied),
        _known("qwen2.5-3b", "2048 36 16 2 128 11008 151936", **qwen2, **tied),
        _known("qwen2.5-7b", "3584 28 28 4 128 18944 152064", **qwen2),
        _known("qwen2.5-14b", "5120 48 40 8 128 13824 152064", **qwen2),
        _known("qwen2.5-32b", "5120 64 40 8 128 27648 152064", **qwen2),
        _known("qwen2.5-72b", "8192 80 64 8 128 29568 152064", **qwen2),
        _known("qwen3-0.6b", "1024 28 16 8 128 3072 151936", **qwen3, **tied),
        _known("qwen3-1.7b", "2048 28 16 8 128 6144 151936", **qwen3, **tied),
        _known("qwen3-4b", "2560 36 32 8 128 9728 151936", **qwen3, **tied),
        _known("qwen3-8b", "4096 36 32 8 128 12288 151936", **qwen3),
        _known("qwen3-14b", "5120 40 40 8 128 17408 151936", **qwen3),
        _known("qwen3-32b", "5120 64 64 8 128 25600 151936", **qwen3),
        _known("mistral-7b", "4096 32 32 8 128 14336 32768", **mistral),
        _known("mistral-nemo-12b", "5120 40 32 8 128 14336 131072", **mistral),
        _known("mistral-small-24b", "5120 40 32 8 128 32768 131072", **mistral),
        _known("gemma-2b", "2048 18 8 1 256 16384 256000", **gemma),
        _known("gemma-7b", "3072 28 16 16 256 24576 256000", **gemma),
        _known("gemma-2-2b", "2304 26 8 4 256 9216 256000", **gemma2),
        _known("gemma-2-9b", "3584 42 16 8 256 14336 256000", **gemma2),
        _known("gemma-2-27b", "4608 46 32 16 128 36864 256000", **gemma2),
        _known("gemma-3-1b", "1152 26 4 1 256 6912 262144", **gemma3),
        _known("gemma-3-4b", "2560 34 8 4 256 10240 262208", **gemma3),
        _known("gemma-3-12b", "3840 48 16 8 256 15360 262208", **gemma3),
        _known("gemma-3-27b", "5376 62 32 16 128 21504 262208", **gemma3),
    ]
    return {row.name: row for row in rows}


#: Well-known models, by the name `yard plan` takes. Vision towers are not counted.
BUILT_IN: dict[str, ModelShape] = _table()


def find_shape(model: str) -> ModelShape:
    """Return the shape of a folder, of a model in the hub's cache on this disk, or of the
    table.
    """
    folder = Path(model).expanduser()
    if (folder / "config.json").is_file():
        return read_config(folder / "config.json", folder.resolve().name)
    if model.lower() in BUILT_IN:
        return BUILT_IN[model.lower()]
    cached = cached_config(model)
    if cached is not None:
        return read_config(cached, model)
    plain = model.rsplit("/", 1)[-1].lower()
    if (found := _by_hub_name(plain)) is not None:
        return found
    hint = suggestion(plain, BUILT_IN) or "`yard plan --models` lists the built-in ones"
    raise SetupError(
        f"{model!r} is no folder with a config.json, no model in the hub's cache on this disk, "
        "and no built-in one",
        hint=hint,
    )


def _by_hub_name(plain: str) -> ModelShape | None:
    """Find a built-in shape by the name that a model has on the hub."""
    name = plain.replace("_", "-").replace("meta-", "").replace("-hf", "")
    name = name.replace("open-llama", "openllama").replace("-it", "").replace("-instruct", "")
    for ending in ("-base", "-chat", "-v2", "-v0.1", "-v0.2", "-v0.3", "-pt"):
        name = name.removesuffix(ending)
    if name.startswith("tinyllama"):
        name = "tinyllama-1.1b"
    return BUILT_IN.get(name)


def read_config(path: Path, name: str) -> ModelShape:
    """Read the shape from one config.json."""
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as fault:
        raise SetupError(f"cannot read {path}: {fault}") from fault
    if not isinstance(config, dict):
        raise SetupError(f"{path} does not hold an object")
    return shape_of(config, name)


def cached_config(model: str) -> Path | None:
    """Return the newest config.json of a model in the hub's cache, or None."""
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub")).expanduser()
    folder = cache / ("models--" + model.replace("/", "--")) / "snapshots"
    found = sorted(folder.glob("*/config.json"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None
