"""One process: methods, equalities, data, what is exported, and what follows trouble."""

from __future__ import annotations

import json
import math
from pathlib import Path

import tiny
import torch
from checks import SAID, check, finish, go, near

from trackyard.finetune.data.prepared import prepare
from trackyard.finetune.data.render import Renderer
from trackyard.finetune.data.rows import read as read_rows
from trackyard.finetune.data.stream import SequenceStream
from trackyard.finetune.recipe import DataPart
from trackyard.finetune.training import adapters, export
from trackyard.finetune.training.run import train


@check
def a_tiny_model_learns_a_tiny_set(folder: Path) -> None:
    """From about 6, which is chance, to under 0.2 in 60 passes over eight rows."""
    tiny.make_data(folder / "eight.jsonl", 8)
    losses = go(
        folder,
        "learned",
        steps=0,
        epochs=60,
        global_batch=2,
        data={"train": str(folder / "eight.jsonl")},
        optimizer={"lr": 5e-3},
    )
    assert losses[0] > 5.5
    assert losses[-1] < 0.2, losses[-5:]


@check
def accumulation_equals_the_large_batch(folder: Path) -> None:
    one = go(folder, "large", micro_batch=4)
    near(one, go(folder, "small", micro_batch=1))
    near(one, go(folder, "middle", micro_batch=2))


@check
def every_policy_gives_the_same_losses(folder: Path) -> None:
    wanted = go(folder, "none")
    for policy in ("selective", "full", "offload"):
        near(wanted, go(folder, policy, checkpointing=policy))
    near(wanted, go(folder, "partly", checkpointing="full", checkpoint_layers=1))
    near(wanted, go(folder, "plain", loss="plain"))
    reduced = go(folder, "a16", optimizer={"name": "adamw_bf16"})
    near(wanted, reduced, 1e-3)
    near(wanted, go(folder, "a8", optimizer={"name": "adamw8bit"}), 5e-3)
    near(wanted, go(folder, "mixed", precision="mixed"), 5e-3)
    near(wanted, go(folder, "bf16", precision="bf16"), 2e-2)
    free = {"clip": 0}
    near(
        go(folder, "after", micro_batch=4, optimizer=free),
        go(folder, "during", micro_batch=4, optimizer={**free, "in_backward": True}),
    )


@check
def sixteen_bit_floats_are_scaled(folder: Path) -> None:
    losses = go(folder, "fp16", precision="fp16", steps=12)
    assert losses[-1] < losses[0] - 0.2
    assert '"loss_scale"' in (folder / "fp16" / "metrics.jsonl").read_text()


@check
def packed_equals_unpacked(folder: Path) -> None:
    """One step over the same rows gives the same weights, packed or each row by itself."""
    data = folder / "few.jsonl"
    tiny.make_data(data, 8)
    same = {"data": {"train": str(data)}, "steps": 0, "optimizer": {"name": "sgd", "clip": 0}}
    packed = go(folder, "packed", micro_batch=1, global_batch=8, packing=True, **same)
    apart = go(folder, "apart", micro_batch=1, global_batch=8, packing=False, **same)
    near(packed, apart)
    one, other = (_weights(folder / name / "model") for name in ("packed", "apart"))
    for name, tensor in one.items():
        assert torch.allclose(tensor, other[name], atol=1e-6), name


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@check
def only_what_the_assistant_says_is_learned(folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "base")
    said = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "the cat sat"},
        {"role": "assistant", "content": "on a mat"},
        {"role": "user", "content": "and then"},
        {"role": "assistant", "content": "ran far"},
    ]
    path = folder / "chat.jsonl"
    path.write_text(json.dumps({"messages": said}) + "\n")
    (row,) = read_rows(DataPart(), str(path))
    ids, learned = Renderer(tokenizer, DataPart()).tokens(row)
    kept = tokenizer.decode(
        [one for one, is_learned in zip(ids, learned, strict=True) if is_learned]
    )
    assert kept == "on a mat</s>\nran far</s>\n", kept
    _, learned = Renderer(tokenizer, DataPart(train_on_prompt=True)).tokens(row)
    assert all(learned)


@check
def every_kind_of_file_gives_the_same_rows(folder: Path) -> None:
    import csv

    import pyarrow
    from pyarrow import parquet
    from transformers import AutoTokenizer

    rows = tiny.rows(6)
    place = folder / "kinds"
    place.mkdir()
    (place / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "a.json").write_text(json.dumps(rows))
    with (place / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["prompt", "completion"])
        writer.writeheader()
        writer.writerows(rows)
    table = pyarrow.Table.from_pylist(rows)
    parquet.write_table(table, place / "a.parquet")
    with (place / "a.arrow").open("wb") as out, pyarrow.ipc.new_stream(out, table.schema) as made:
        made.write_table(table)
    tokenizer = AutoTokenizer.from_pretrained(folder / "base")
    found = [
        prepare(DataPart(), str(place / f"a.{kind}"), tokenizer, seq=64).tokens.tolist()
        for kind in ("jsonl", "json", "csv", "parquet", "arrow")
    ]
    assert found[0]
    assert all(one == found[0] for one in found)


@check
def a_preview_shows_what_is_learned(folder: Path) -> None:
    from trackyard.finetune.preview import look

    found = look(tiny.recipe(folder), count=2)
    assert (found.rows, len(found.samples)) == (48, 2)
    assert found.sequences < found.rows
    for row in found.samples[0]:
        assert [piece.learned for piece in row] == [False, True]
        assert "<|assistant|>" in row[0].text
        assert row[1].text.endswith("</s>\n")


@check
def every_row_is_seen_once_an_epoch(folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "base")
    data = prepare(DataPart(), str(folder / "rows.jsonl"), tokenizer, seq=64)
    stream = SequenceStream(data, seq=64, packing=True, seed=3)
    seen = [row for sample in stream.take(0, stream.count(1), stream.count(1)) for row in sample]
    assert sorted(seen) == list(range(len(data)))


@check
def a_full_export_gives_the_same_logits_in_stock_transformers(folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    tiny.make_model(folder / "tied", tied=True, kind="qwen3")
    for name in ("base", "tied"):
        recipe = tiny.recipe(folder, model=str(folder / name), output=str(folder / f"ex-{name}"))
        trained = _trained(recipe)
        stock = AutoModelForCausalLM.from_pretrained(folder / f"ex-{name}" / "model").eval()
        _same_logits(trained, stock)


def _trained(recipe: object) -> torch.nn.Module:
    """Train and return the model as it was in memory when it was exported."""
    from trackyard.finetune.training import run, sharding

    place = sharding.join(device="cpu")
    session = run.TrainingSession(recipe, place, lambda _words: None)
    assert session.run() == 0
    session.close()
    return sharding.inner(session.model).model.eval()


def _same_logits(one: torch.nn.Module, other: torch.nn.Module, tolerance: float = 1e-4) -> None:
    ids = torch.randint(0, 384, (2, 24), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        first, second = one(input_ids=ids).logits, other(input_ids=ids).logits
    assert (first - second).abs().max() < tolerance, (first - second).abs().max()


@check
def an_adapter_loads_in_peft_and_merges_to_the_same_logits(folder: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    cases = {
        "lora": {"method": "lora"},
        "rslora": {"method": "lora", "lora": {"rslora": True, "rank": 4}},
        "head": {"method": "lora", "lora": {"targets": ["q_proj", "lm_head"]}},
        "dora": {"method": "dora"},
    }
    for name, changes in cases.items():
        out = folder / f"ad-{name}"
        trained = _trained(tiny.recipe(folder, output=str(out), optimizer={"lr": 1e-2}, **changes))
        base = AutoModelForCausalLM.from_pretrained(folder / "base")
        _same_logits(trained, PeftModel.from_pretrained(base, out / "model").eval())
        if name == "dora":
            continue
        export.merge(out / "model", out / "merged", shard_bytes=50_000)
        merged = AutoModelForCausalLM.from_pretrained(out / "merged").eval()
        _same_logits(trained, merged)
        assert len(list((out / "merged").glob("model-*.safetensors"))) > 1


@check
def an_adapter_of_peft_is_gone_on_from(folder: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(folder / "base")
    made = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))
    for name, one in made.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(one, std=0.1)
    made.save_pretrained(folder / "theirs")
    lora = {
        "adapter": str(folder / "theirs"),
        "rank": 4,
        "alpha": 8,
        "targets": ["q_proj", "v_proj"],
    }
    recipe = tiny.recipe(folder, method="lora", lora=lora, output=str(folder / "on"))
    from trackyard.finetune.training import sharding
    from trackyard.finetune.training.assemble import assemble

    model = sharding.inner(assemble(recipe, sharding.join(device="cpu"))).model.eval()
    _same_logits(model, made.eval())


@check
def four_bit_weights_train_and_their_adapter_loads(folder: Path) -> None:
    losses = go(folder, "qlora", method="qlora", steps=4)
    assert losses[-1] < losses[0]
    assert adapters.read_config(folder / "qlora" / "model")["r"] == 16
    import bitsandbytes

    from trackyard.finetune.training import sharding
    from trackyard.finetune.training.assemble import assemble

    model = assemble(tiny.recipe(folder, method="qlora"), sharding.join(device="cpu"))
    layers = [one for one in model.modules() if isinstance(one, bitsandbytes.nn.Linear4bit)]
    assert len(layers) == 14
    assert all(one.weight.dtype == torch.uint8 for one in layers)


@check
def our_own_four_bits_are_those_of_bitsandbytes(folder: Path) -> None:
    """The same weights within the rounding of the scales, the same product, the same gradient."""
    from trackyard.finetune.training.nf4 import Nf4Linear
    from trackyard.finetune.training.weights import _of_bitsandbytes

    torch.manual_seed(0)
    weight, x = torch.randn(96, 128) * 0.02, torch.randn(5, 128)
    ours, theirs = (
        Nf4Linear.of(weight, None, torch.float32),
        _of_bitsandbytes(weight, None, torch.float32),
    )
    eye = torch.eye(128)
    one, other = ours(eye).t(), theirs(eye).t()
    assert (one - weight).abs().mean() < 1.02 * (other - weight).abs().mean()
    assert (one - other).abs().max() < 2e-3
    assert sum(part.nbytes for part in ours.buffers()) + ours.weight.nbytes < 0.55 * weight.numel()
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(ours(x).square().sum(), x)
    wanted = 2 * (x @ one.t()) @ one
    assert torch.allclose(gradient, wanted.detach(), atol=1e-5)


@check
def layers_compile_to_one_graph_each(folder: Path) -> None:
    from transformers import AutoConfig

    from trackyard.finetune.setup import TrainingSetup
    from trackyard.finetune.training import activations
    from trackyard.finetune.training.build import build_model

    def value(compiled: bool) -> tuple[float, float]:
        torch.manual_seed(0)
        setup = TrainingSetup(
            method="lora", precision="fp32", loss="chunked", checkpointing="selective"
        )
        model = build_model(AutoConfig.from_pretrained(folder / "base"), setup)
        if compiled:
            for layer in activations.decoder_layers(model):
                layer.compile(backend="aot_eager", dynamic=False, fullgraph=True)
        ids = torch.randint(0, 384, (1, 16), generator=torch.Generator().manual_seed(1))
        loss = model(ids, ids)
        loss.backward()
        learned = [one for one in model.parameters() if one.grad is not None]
        return float(loss.detach()), float(sum(one.grad.square().sum() for one in learned))

    eager, compiled = value(False), value(True)
    assert all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(eager, compiled, strict=True))


@check
def held_out_rows_are_evaluated_and_samples_written(folder: Path) -> None:
    go(
        folder,
        "evaluated",
        steps=4,
        data={"eval_fraction": 0.2},
        eval={"every_steps": 2, "prompts": ["the cat"], "new_tokens": 4},
    )
    out = folder / "evaluated"
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    evaluated = [line for line in lines if "eval_loss" in line]
    assert [line["step"] for line in evaluated] == [2, 4]
    assert len(list((out / "samples").glob("*.md"))) == 2
    card = (out / "model" / "README.md").read_text()
    assert "eval_loss" in card
    assert "data digest" in card
    from trackyard.finetune.training.run import evaluate

    recipe = tiny.recipe(folder, data={"eval_fraction": 0.2})
    again = evaluate(recipe, out / "model", device="cpu")
    assert math.isclose(again["eval_loss"], evaluated[-1]["eval_loss"], abs_tol=1e-5)


@check
def training_goes_on_without_its_tracking_server(folder: Path) -> None:
    """Nobody answers at the address; the run ends well and says that nobody was told."""
    import os

    import ranks

    SAID.clear()
    told = {"MLFLOW_TRACKING_URI": f"http://127.0.0.1:{ranks.free_port()}", "MLFLOW_RUN_ID": "r1"}
    os.environ |= told
    try:
        assert len(go(folder, "untold", steps=3)) == 3
    finally:
        for name in told:
            del os.environ[name]
    assert any("was not told everything" in words for words in SAID), SAID[-3:]


def _poisoned(step: int, times: int = 1) -> object:
    """Make the loss of one step a hundred times as large, as a bad batch would."""
    from trackyard.finetune.training.build import TrainModel

    plain, calls = TrainModel.forward, [0]

    def forward(self: TrainModel, *args: object, **kwargs: object) -> torch.Tensor:
        loss = plain(self, *args, **kwargs)
        if self.training and kwargs.get("labels") is not None:
            calls[0] += 1
            if step <= (calls[0] - 1) // 2 < step + times:
                return loss * 100
        return loss

    TrainModel.forward = forward
    return lambda: setattr(TrainModel, "forward", plain)


@check
def a_spike_is_skipped_rewound_or_stops(folder: Path) -> None:
    health = {"window": 10}
    for choice in ("skip", "rewind", "stop", "warn"):
        restore = _poisoned(14)
        SAID.clear()
        recipe = tiny.recipe(
            folder,
            output=str(folder / f"spike-{choice}"),
            steps=18,
            save={"every_steps": 5},
            health={**health, "on_spike": choice},
        )
        try:
            code = train(recipe, device="cpu", say=SAID.append)
        finally:
            restore()
        assert code == (1 if choice == "stop" else 0), (choice, SAID[-3:])
        assert any("where" in words and "usual" in words for words in SAID), (choice, SAID)
        if choice == "rewind":
            assert any("back to step 10" in words for words in SAID), SAID
        if choice in ("rewind", "stop"):
            assert list((folder / f"spike-{choice}" / "health").glob("*.txt"))


@check
def too_little_memory_is_told_by_part(folder: Path) -> None:
    from trackyard.finetune.training.build import TrainModel

    def forward(self: TrainModel, *args: object, **kwargs: object) -> torch.Tensor:
        raise torch.OutOfMemoryError("no more")

    SAID.clear()
    plain, TrainModel.forward = TrainModel.forward, forward
    try:
        train(tiny.recipe(folder, output=str(folder / "oom")), device="cpu", say=SAID.append)
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("the fault was swallowed")
    finally:
        TrainModel.forward = plain
    assert any("out of memory: peak" in words and "optimizer" in words for words in SAID), SAID


@check
def a_loss_that_is_no_number_stops(folder: Path) -> None:
    SAID.clear()
    recipe = tiny.recipe(
        folder, output=str(folder / "nan"), optimizer={"name": "sgd", "lr": 1e18, "clip": 0}
    )
    assert train(recipe, device="cpu", say=SAID.append) == 1
    assert any("is not a number" in words for words in SAID), SAID


if __name__ == "__main__":
    finish()
