"""The demo's artifacts: text, JSON, CSV, Markdown, a picture, a sound, a page. Sends nothing."""

from __future__ import annotations

import io
import json
import math
import random
import struct
import wave
import zlib
from collections.abc import Iterator

from trackyard.cli.demo.demo_curves import DemoRun

DISHES = (
    "bread", "dairy", "dessert", "egg", "fried", "meat", "pasta", "rice", "seafood", "soup", "veg",
)  # fmt: skip


def files_of(run: DemoRun) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each artifact of a run."""
    rng = run.rng
    yield "config.json", json.dumps({"params": run.params, "host": "g01"}, indent=2).encode()
    yield "logs/train.log", _log(run).encode()
    yield "report/summary.md", _summary(run).encode()
    yield "report/report.html", _page(run).encode()
    yield "report/confusion.png", png(_confusion(rng))
    yield "predictions.csv", _predictions(rng).encode()
    yield "samples/beep.wav", _tone(440 + rng.randrange(5) * 55)
    yield "model/MLmodel", _mlmodel(run).encode()
    yield "model/requirements.txt", _requirements(rng).encode()
    yield "model/python_env.yaml", b"python: 3.11.9\nbuild_dependencies:\n- pip==24.2\n"
    yield "model/data/weights.bin", rng.randbytes(48_000)
    yield "model/model_summary.txt", _layers(run).encode()


def _log(run: DemoRun) -> str:
    lines = [f"starting {run.name} with {run.params}"]
    for key, value, step, _ in run.points:
        if key in ("val_loss", "eval/loss", "auc"):
            lines.append(f"INFO step={step} {key}={value:.4f}")
    if run.status == "FAILED":
        lines += ["Traceback (most recent call last):", '  File "train.py", line 188, in <module>']
        lines += ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB"]
    return "\n".join(lines) + "\n"


def _summary(run: DemoRun) -> str:
    rows = "\n".join(f"| `{key}` | {value} |" for key, value in run.params.items())
    return (
        f"# {run.name}\n\nTrained by **{run.user}**.\n\n| setting | value |\n|---|---|\n{rows}\n"
    )


def _page(run: DemoRun) -> str:
    bars = "".join(
        f'<rect x="60" y="{20 + 22 * at}" width="{run.rng.randint(120, 300)}" height="16"'
        ' fill="#0072b2"/>'
        f'<text x="4" y="{33 + 22 * at}" font-size="11">{dish}</text>'
        for at, dish in enumerate(DISHES)
    )
    return (
        f"<!doctype html><title>{run.name}</title><body style='font-family:sans-serif'>"
        f"<h1>Recall per class</h1><svg width='420' height='280'>{bars}</svg>"
    )


def _confusion(rng: random.Random) -> list[list[tuple[int, int, int]]]:
    """Pixels of a confusion matrix: blue on white, 24 a cell."""
    size, cell = len(DISHES), 24
    share = [
        [rng.uniform(0.7, 0.95) if r == c else rng.uniform(0, 0.12) for c in range(size)]
        for r in range(size)
    ]
    rows = []
    for y in range(size * cell):
        row = []
        for x in range(size * cell):
            value = share[y // cell][x // cell]
            edge = x % cell == 0 or y % cell == 0
            row.append(
                (255, 255, 255)
                if edge
                else (int(247 - 239 * value), int(251 - 170 * value), int(255 - 100 * value))
            )
        rows.append(row)
    return rows


def png(rows: list[list[tuple[int, int, int]]]) -> bytes:
    """Write pixels as a PNG."""
    raw = b"".join(b"\0" + bytes(part for pixel in row for part in pixel) for row in rows)
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(raw, 9))
        + chunk(b"IEND", b"")
    )


def _predictions(rng: random.Random) -> str:
    lines = ["image,label,predicted,confidence"]
    for at in range(400):
        label = rng.choice(DISHES)
        guess = label if rng.random() < 0.83 else rng.choice(DISHES)
        lines.append(f"eval/{at:05d}.jpg,{label},{guess},{rng.uniform(0.4, 1):.4f}")
    return "\n".join(lines) + "\n"


def _tone(pitch: float) -> bytes:
    rate, out = 8000, io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        for at in range(rate // 2):
            level = math.sin(2 * math.pi * pitch * at / rate) * math.exp(-at / 2500)
            sound.writeframesraw(struct.pack("<h", round(level * 12_000)))
    return out.getvalue()


def _mlmodel(run: DemoRun) -> str:
    return (
        "artifact_path: model\nflavors:\n  python_function:\n    data: data\n"
        "    env: python_env.yaml\n    loader_module: mlflow.pytorch\n"
        "  pytorch:\n    pytorch_version: 2.6.0\nmodel_size_bytes: 48000\n"
        f"run_name: {run.name}\n"
    )


def _requirements(rng: random.Random) -> str:
    torch, numpy = rng.choice((5, 6)), rng.randrange(6)
    return f"mlflow==2.22.0\nnumpy==2.2.{numpy}\ntorch==2.{torch}.0\ntorchvision==0.21.0\n"


def _layers(run: DemoRun) -> str:
    lines = [f"model: {run.params.get('model', run.params.get('base_model', 'trees'))}"]
    for at in range(12):
        frozen = "frozen" if at < run.rng.randrange(4, 9) else "trained"
        lines.append(
            f"layer {at:2d}  {'conv' if at < 9 else 'linear':8} {64 * 2 ** (at // 3):5d}  {frozen}"
        )
    return "\n".join(lines) + "\n"
