"""The cells of the memory bench: models, methods and settings, the single-GPU lab rows among them.

G1 to G14 are the rows of a published lab (TinyLlama and OpenLLaMA on Alpaca, rows of 512 tokens),
here with every row filled up to 512. Each cell is a real model at its full depth.
"""

from __future__ import annotations

from typing import Any

_LAB_LORA: dict[str, Any] = {
    "method": "lora",
    "lora_rank": 32,
    "lora_targets": ["all-linear", "lm_head"],
    "micro_batch": 4,
    "seq": 512,
    "accumulation": 4,
}


def _lab(**more: Any) -> dict[str, Any]:
    return {"seq": 512, **more}


def _cell(name: str, model: str, **setup: Any) -> dict[str, Any]:
    return {"name": name, "model": model, "setup": setup}


TINY, SMALL, SEVEN, BIG = "tinyllama-1.1b", "openllama-3b", "openllama-7b", "openllama-13b"
ONE, THREE, EIGHT = "llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b"

CELLS: list[dict[str, Any]] = [
    _cell("G1", TINY, **_lab(precision="fp32", micro_batch=32)),
    _cell("G2", TINY, **_lab(precision="fp32", micro_batch=8)),
    _cell("G3", TINY, **_lab(precision="fp32", micro_batch=8, accumulation=4)),
    _cell("G4", TINY, **_lab(micro_batch=8, accumulation=4)),
    _cell("G5", TINY, **_lab(precision="mixed", micro_batch=8, accumulation=4)),
    _cell("G6", SMALL, **_lab(micro_batch=8, accumulation=4)),
    _cell("G7", SEVEN, **_lab(micro_batch=4, accumulation=4)),
    _cell("G8", BIG, **_lab(micro_batch=1)),
    _cell("G9", BIG, **_lab(micro_batch=1, optimizer="sgd")),
    _cell("G10", TINY, **_LAB_LORA),
    _cell("G11", SMALL, **_LAB_LORA),
    _cell("G12", SEVEN, **_LAB_LORA),
    _cell("G13", SEVEN, **{**_LAB_LORA, "method": "qlora"}),
    _cell("G14", BIG, **_LAB_LORA),
    _cell("tiny-eager", TINY, micro_batch=4, seq=1024),
    _cell("tiny-mixed", TINY, micro_batch=4, seq=1024, precision="mixed"),
    _cell("tiny-chunked", TINY, micro_batch=8, seq=2048, loss="chunked"),
    _cell("tiny-packed", TINY, micro_batch=8, seq=2048, loss="chunked", packing=True),
    _cell(
        "tiny-selective", TINY, micro_batch=8, seq=2048, loss="chunked", checkpointing="selective"
    ),
    _cell("tiny-full-checkpoint", TINY, micro_batch=16, seq=2048, checkpointing="full"),
    _cell("tiny-compile", TINY, micro_batch=16, seq=2048, loss="chunked", compile=True),
    _cell(
        "tiny-fp32-checkpoint",
        TINY,
        micro_batch=4,
        seq=1024,
        precision="fp32",
        checkpointing="full",
    ),
    _cell("1b-mixed-chunked", ONE, micro_batch=4, seq=2048, precision="mixed", loss="chunked"),
    _cell(
        "1b-mixed-compile",
        ONE,
        micro_batch=8,
        seq=2048,
        precision="mixed",
        loss="chunked",
        compile=True,
    ),
    _cell("1b-plain", ONE, micro_batch=4, seq=2048),
    _cell("1b-in-backward", ONE, micro_batch=4, seq=2048, loss="chunked", in_backward=True),
    _cell("3b-chunked", THREE, micro_batch=4, seq=2048, loss="chunked"),
    _cell("3b-checkpoint", THREE, micro_batch=8, seq=2048, loss="chunked", checkpointing="full"),
    _cell(
        "3b-fp32-lora",
        SMALL,
        micro_batch=4,
        seq=1024,
        method="lora",
        precision="fp32",
        loss="chunked",
    ),
    _cell("3b-compile", SMALL, micro_batch=8, seq=2048, loss="chunked", compile=True),
    _cell("7b-checkpoint", SEVEN, micro_batch=4, seq=2048, checkpointing="full"),
    _cell("7b-chunked", SEVEN, micro_batch=4, seq=2048, loss="chunked"),
    _cell(
        "7b-packed-checkpoint",
        SEVEN,
        micro_batch=8,
        seq=2048,
        loss="chunked",
        checkpointing="full",
        packing=True,
    ),
    _cell("8b-lora", EIGHT, micro_batch=2, seq=4096, method="lora", loss="chunked"),
    _cell(
        "8b-lora-checkpoint",
        EIGHT,
        micro_batch=4,
        seq=4096,
        method="lora",
        loss="chunked",
        checkpointing="full",
    ),
    _cell(
        "8b-lora-compile",
        EIGHT,
        micro_batch=2,
        seq=4096,
        method="lora",
        loss="chunked",
        compile=True,
    ),
    _cell(
        "8b-lora-mixed",
        EIGHT,
        micro_batch=2,
        seq=2048,
        method="lora",
        precision="mixed",
        loss="chunked",
    ),
    _cell(
        "8b-lora-packed",
        EIGHT,
        micro_batch=2,
        seq=4096,
        method="lora",
        loss="chunked",
        packing=True,
    ),
    _cell("8b-qlora", EIGHT, micro_batch=2, seq=4096, method="qlora", loss="chunked"),
    _cell(
        "8b-qlora-checkpoint",
        EIGHT,
        micro_batch=4,
        seq=4096,
        method="qlora",
        loss="chunked",
        checkpointing="full",
    ),
]
