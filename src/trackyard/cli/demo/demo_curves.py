"""What the demo's runs look like: settings, curves and states from one seed. Sends nothing."""
# ruff: noqa: S311 - play data

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
#: key, value, step, time in milliseconds
Point = tuple[str, float, int, int]

ADJECTIVES = (
    "amber bold calm deft eager fleet glad hardy jolly keen lucid mellow noble quiet".split()
)
ANIMALS = (
    "heron otter lynx marten plover stoat tern vole wren ibex crane badger finch hare".split()
)
PEOPLE = ("ada", "grace", "edsger", "barbara")


@dataclass(slots=True)
class DemoRun:
    """One run to be made."""

    experiment: str
    name: str
    user: str
    start_ms: int
    end_ms: int | None
    status: str
    params: dict[str, str]
    tags: dict[str, str]
    points: list[Point]
    #: how good the run came out, for choosing what to register
    merit: float = 0.0
    files: bool = False
    rng: random.Random = field(default_factory=lambda: random.Random(0))


def make_runs(seed: int, now_ms: int, scale: float = 1.0) -> Iterator[DemoRun]:
    """Yield the demo's runs, oldest first within each experiment."""
    rng = random.Random(seed)
    for make, count in ((_vision, 120), (_language, 72), (_tabular, 56)):
        total = max(4, round(count * scale))
        for index in range(total):
            yield make(random.Random(rng.random()), index, total, now_ms)


def _name(rng: random.Random) -> str:
    return f"{rng.choice(ADJECTIVES)}-{rng.choice(ANIMALS)}-{rng.randrange(100, 1000)}"


def _state(rng: random.Random, index: int, total: int) -> str:
    """The last runs are still going; a few of the others went wrong."""
    if index >= total - 2:
        return "RUNNING"
    share = rng.random()
    return "FAILED" if share < 0.07 else "KILLED" if share < 0.11 else "FINISHED"


def _tags(rng: random.Random, user: str, script: str) -> dict[str, str]:
    commit = hashlib.sha1(str(rng.randrange(9)).encode(), usedforsecurity=False).hexdigest()
    return {
        "mlflow.user": user,
        "mlflow.source.name": script,
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": commit,
        "yard.demo": "1",
    }


def _times(
    rng: random.Random, index: int, total: int, now_ms: int, minutes: float
) -> tuple[int, int]:
    if index >= total - 2:
        return now_ms - round(minutes * MINUTE * 0.6), now_ms
    age = (total - index) / total * 21 * DAY * rng.uniform(0.96, 1.04) + 2 * HOUR
    start = now_ms - round(age)
    return start, start + round(minutes * MINUTE)


# -- pictures: a classifier of dishes -----------------------------------------------------------

ARCHITECTURES = {"resnet18": 0.79, "resnet50": 0.84, "mobilenet_v3": 0.77, "vit_small": 0.86}


def _vision(rng: random.Random, index: int, total: int, now_ms: int) -> DemoRun:
    net = rng.choice(list(ARCHITECTURES))
    lr = rng.choice((3e-3, 1e-3, 3e-4, 1e-4, 3e-5))
    batch, workers = rng.choice((32, 64, 128)), rng.choice((0, 4, 16))
    epochs, user = rng.choice((20, 30, 40)), rng.choice(PEOPLE)
    status = _state(rng, index, total)
    epoch_time = (38 if workers == 0 else 16 if workers == 4 else 11) * rng.uniform(0.9, 1.1)
    minutes = epochs * epoch_time / 60
    start, end = _times(rng, index, total, now_ms, minutes)
    done = epochs if status == "FINISHED" else max(2, round(epochs * rng.uniform(0.2, 0.7)))
    end = start + round(done / epochs * (end - start)) if status in ("FAILED", "KILLED") else end
    quality = ARCHITECTURES[net] - 0.06 * abs(math.log10(lr) + 3.6) + rng.gauss(0, 0.012)
    points = _epochs(rng, quality, lr, epoch_time=epoch_time, done=done, start=start, end=end)
    if index % 16 == 3:
        points += _fine_steps(rng, 6000, start, end)
    points += _machine(rng, start, end, gpus=2 if index % 11 == 5 else 1, starved=workers == 0)
    if status == "FINISHED":
        points.append(("test_accuracy", quality - abs(rng.gauss(0, 0.01)), epochs, end))
        points.append(("test_loss", 2.1 * (1 - quality) + 0.1, epochs, end))
    tags = _tags(rng, user, "train.py") | {"dataset": "food11", "campaign": f"sweep-{index // 30}"}
    if index % 13 == 4:
        tags["mlflow.note.content"] = _NOTE.format(net=net, lr=lr)
    if index % 17 == 6:
        tags["yard.star"] = "1"
    params = {
        "model": net,
        "lr": f"{lr:g}",
        "batch_size": str(batch),
        "num_workers": str(workers),
        "epochs": str(epochs),
        "optimizer": rng.choice(("adam", "adamw", "sgd")),
        "weight_decay": rng.choice(("0", "0.0001", "0.01")),
        "augmentation": rng.choice(("none", "flip", "randaug")),
        "seed": str(index % 5),
        "image_size": rng.choice(("160", "224")),
    }
    return DemoRun(
        "food11-classifier", _name(rng), user, start, None if status == "RUNNING" else end,
        status, params, tags, points, quality, index % 6 == 3 or index >= total - 4, rng,
    )  # fmt: skip


_NOTE = """## Why this run

Baseline for the **{net}** family at lr `{lr}`.

- [x] same split as last week
- [ ] repeat with three seeds

| epoch | what happened |
|---|---|
| 5 | unfroze the last block |
| 12 | learning rate halved |
"""


def _epochs(
    rng: random.Random,
    quality: float,
    lr: float,
    *,
    epoch_time: float,
    done: int,
    start: int,
    end: int,
) -> list[Point]:
    points: list[Point] = []
    for epoch in range(1, done + 1):
        when = start + round((end - start) * epoch / done)
        rise = 1 - math.exp(-epoch / 5.5)
        loss = 2.3 * math.exp(-epoch / 6.5) + 0.28
        overfit = max(0.0, epoch - 18) * 0.006
        values = {
            "train_loss": loss * rng.uniform(0.96, 1.04),
            "train_accuracy": min(0.995, quality * rise + 0.08 * rise + rng.gauss(0, 0.006)),
            "val_loss": (loss + 0.16 + overfit) * rng.uniform(0.95, 1.05),
            "val_accuracy": quality * rise + rng.gauss(0, 0.009),
            "epoch_time": epoch_time * rng.uniform(0.97, 1.05),
            "lr": lr * (0.5 * (1 + math.cos(math.pi * epoch / (done + 1)))),
        }
        points += [(key, value, epoch, when) for key, value in values.items()]
    return points


def _fine_steps(rng: random.Random, count: int, start: int, end: int) -> list[Point]:
    points: list[Point] = []
    drift = 0.0
    for step in range(count):
        drift = 0.98 * drift + rng.gauss(0, 0.02)
        base = 2.2 * math.exp(-step / (count / 5)) + 0.3
        spike = 1.4 if rng.random() < 0.002 else 0.0
        when = start + round((end - start) * step / count)
        points.append(
            ("batch/loss", max(0.02, base + drift + rng.gauss(0, 0.08) + spike), step, when)
        )
    return points


# -- language: adapters on a chat model ----------------------------------------------------------


def _language(rng: random.Random, index: int, total: int, now_ms: int) -> DemoRun:
    rank, lr = rng.choice((8, 16, 32, 64)), rng.choice((5e-5, 1e-4, 2e-4))
    steps, user = rng.choice((400, 600, 800)), rng.choice(PEOPLE)
    if index % 12 == 5:
        steps = 3200
    status = _state(rng, index, total)
    minutes = steps / 18
    start, end = _times(rng, index, total, now_ms, minutes)
    done = steps if status == "FINISHED" else round(steps * rng.uniform(0.25, 0.7))
    if status in ("FAILED", "KILLED"):
        end = start + round((end - start) * done / steps)
    floor = 1.12 - 0.02 * math.log2(rank) + abs(math.log10(lr) + 4) * 0.1 + rng.gauss(0, 0.01)
    points: list[Point] = []
    for step in range(1, done + 1, 1 if steps < 1000 else 2):
        when = start + round((end - start) * step / done)
        loss = floor + 1.3 * math.exp(-step / (steps / 7)) + rng.gauss(0, 0.05)
        warm = min(1.0, step / (steps * 0.05))
        points += [
            ("train/loss", loss, step, when),
            (
                "train/grad_norm",
                0.6 + 2 * math.exp(-step / 60) + abs(rng.gauss(0, 0.12)),
                step,
                when,
            ),
            ("train/learning_rate", lr * warm * (1 - step / (steps * 1.02)), step, when),
            ("train/tokens_per_second", 2150 * rng.uniform(0.93, 1.03), step, when),
        ]
        if step % (steps // 10) < (1 if steps < 1000 else 2):
            held = floor + 0.08 + 1.25 * math.exp(-step / (steps / 6))
            points += [
                ("eval/loss", held, step, when),
                ("eval/perplexity", math.exp(held), step, when),
            ]
    points += _machine(rng, start, end, gpus=2 if index % 3 == 0 else 1, starved=False)
    tags = _tags(rng, user, "sft.py") | {"dataset": "gourmetgram-chat", "base": "llama-3.2-1b"}
    params = {
        "base_model": rng.choice(("llama-3.2-1b", "qwen2.5-0.5b")),
        "method": rng.choice(("lora", "qlora", "full")),
        "lora_rank": str(rank),
        "lora_alpha": str(rank * 2),
        "learning_rate": f"{lr:g}",
        "per_device_batch": rng.choice(("2", "4", "8")),
        "gradient_accumulation": rng.choice(("1", "4")),
        "max_steps": str(steps),
        "scheduler": "linear",
        "precision": rng.choice(("bf16", "fp16")),
    }
    return DemoRun(
        "chat-finetune", _name(rng), user, start, None if status == "RUNNING" else end, status,
        params, tags, points, -floor, index % 8 == 5 or index >= total - 3, rng,
    )  # fmt: skip


# -- tables: a small forecast --------------------------------------------------------------------


def _tabular(rng: random.Random, index: int, total: int, now_ms: int) -> DemoRun:
    depth, rate = rng.choice((3, 4, 6, 8, 10)), rng.choice((0.02, 0.05, 0.1, 0.3))
    rounds, user = rng.choice((100, 150)), rng.choice(PEOPLE)
    status = "FINISHED" if index < total - 2 else _state(rng, index, total)
    start, end = _times(rng, index, total, now_ms, 2.5)
    best = 0.71 + 0.015 * depth - 0.0013 * depth * depth - 0.02 * abs(math.log10(rate) + 1)
    points: list[Point] = []
    for step in range(rounds if status == "FINISHED" else rounds // 2):
        when = start + round((end - start) * step / rounds)
        rise = 1 - math.exp(-step * rate * 0.9)
        points += [
            ("auc", best * (0.7 + 0.3 * rise) + rng.gauss(0, 0.002), step, when),
            ("logloss", 0.69 - 0.33 * rise + max(0, step - 90) * 0.0004, step, when),
        ]
    tags = _tags(rng, user, "notebooks/demand.ipynb") | {"dataset": "orders-2026"}
    params = {
        "max_depth": str(depth),
        "eta": f"{rate:g}",
        "rounds": str(rounds),
        "subsample": rng.choice(("0.7", "0.9", "1.0")),
        "min_child_weight": rng.choice(("1", "5")),
        "objective": "binary:logistic",
    }
    return DemoRun(
        "demand-forecast", _name(rng), user, start, None if status == "RUNNING" else end, status,
        params, tags, points, best, index % 10 == 2, rng,
    )  # fmt: skip


# -- the machine ---------------------------------------------------------------------------------


def _machine(rng: random.Random, start: int, end: int, *, gpus: int, starved: bool) -> list[Point]:
    """Samples as MLflow's clients take them: one of everything, every few seconds."""
    samples = 90
    points: list[Point] = []
    received = sent = 0.0
    for at in range(samples):
        when = start + round((end - start) * at / samples)
        received += rng.uniform(0.4, 2.5)
        sent += rng.uniform(0.1, 0.6)
        values = {
            "cpu_utilization_percentage": rng.uniform(35, 60) if starved else rng.uniform(60, 90),
            "system_memory_usage_megabytes": 21_000 + 60 * at + rng.uniform(0, 400),
            "system_memory_usage_percentage": 32 + at * 0.09 + rng.uniform(0, 0.6),
            "disk_usage_megabytes": 410_000 + 3 * at,
            "disk_usage_percentage": 41 + at * 0.01,
            "network_receive_megabytes": received,
            "network_transmit_megabytes": sent,
        }
        for gpu in range(gpus):
            busy = rng.gauss(38, 12) if starved else rng.gauss(92, 4)
            values[f"gpu_{gpu}_utilization_percentage"] = min(100.0, max(0.0, busy))
            values[f"gpu_{gpu}_memory_usage_megabytes"] = 31_400 + rng.uniform(0, 180)
            values[f"gpu_{gpu}_memory_usage_percentage"] = 76.5 + rng.uniform(0, 0.5)
            values[f"gpu_{gpu}_power_usage_watts"] = 90 + max(0.0, busy) * 2.9 + rng.gauss(0, 6)
        points += [(f"system/{key}", value, at, when) for key, value in values.items()]
    return points
