"""A tiny model with a tokenizer of its own, and rows to train it on; made in a second, offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORDS = "the cat sat on a mat and dog ran far over red hill to see blue sea with old boat".split()
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}"
    "{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def sentence(number: int, length: int) -> str:
    return " ".join(
        WORDS[(number * 7 + at * (number % 5 + 1)) % len(WORDS)] for at in range(length)
    )


def rows(count: int = 48) -> list[dict[str, Any]]:
    return [
        {
            "prompt": sentence(number, 2 + number % 5),
            "completion": sentence(number + 1, 3 + number % 9),
        }
        for number in range(count)
    ]


def make_tokenizer(folder: Path, *, chat: bool = True) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE(unk_token=None))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=384,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    inner.train_from_iterator([sentence(number, 12) for number in range(64)], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    if chat:
        tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return tokenizer


def make_model(folder: Path, *, layers: int = 2, tied: bool = False, kind: str = "llama") -> Path:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    shape = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 384,
        "max_position_embeddings": 512,
        "tie_word_embeddings": tied,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    torch.manual_seed(7)
    if kind == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(head_dim=16, **shape))
    else:
        model = LlamaForCausalLM(LlamaConfig(**shape))
    model.save_pretrained(folder)
    make_tokenizer(folder)
    return folder


def make_data(path: Path, count: int = 48) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(count)))
    return path


def recipe(folder: Path, **changes: Any) -> Any:
    from trackyard.finetune.recipe import parse

    values: dict[str, Any] = {
        "model": str(folder / "base"),
        "method": "full",
        "precision": "fp32",
        "seq": 64,
        "micro_batch": 2,
        "global_batch": 4,
        "steps": 6,
        "checkpointing": "none",
        "output": str(folder / "out"),
        "data": {"train": str(folder / "rows.jsonl")},
        "optimizer": {"lr": 1e-3, "warmup_steps": 2},
        "save": {"every_steps": 0},
    }
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            values[key] = {**values[key], **value}
        else:
            values[key] = value
    return parse(values)


def losses(folder: str | Path) -> list[float]:
    found: dict[int, float] = {}
    for line in (Path(folder) / "metrics.jsonl").read_text().splitlines():
        values = json.loads(line)
        if "loss" in values:
            found[values["step"]] = values["loss"]
    return [found[step] for step in sorted(found)]
