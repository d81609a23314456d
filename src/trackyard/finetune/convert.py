"""Recipes of other tools, translated: axolotl, LLaMA-Factory, litgpt.

Owns which of their keys means what here, and says of every other key that it was left out. Pure:
values in, values and sentences out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trackyard.core.errors import SetupError

Values = dict[str, Any]


@dataclass
class Converted:
    """A translation."""

    tool: str
    #: keys of a recipe, nested
    values: Values = field(default_factory=dict)
    #: keys that have no counterpart, each with the reason
    left_out: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, value: Any) -> None:
        """Set a dotted key."""
        place = self.values
        *parents, last = key.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value


def convert(found: Mapping[str, Any]) -> Converted:
    """Translate another tool's recipe, told by its keys."""
    tool = recognise(found)
    made = Converted(tool)
    _TOOLS[tool](dict(found), made)
    return made


def recognise(found: Mapping[str, Any]) -> str:
    """Return whose recipe this is."""
    if "model_name_or_path" in found:
        return "LLaMA-Factory"
    if "checkpoint_dir" in found or isinstance(found.get("train"), Mapping):
        return "litgpt"
    if "base_model" in found:
        return "axolotl"
    raise SetupError(
        "this is no recipe of axolotl, LLaMA-Factory or litgpt",
        hint="they are told by base_model, model_name_or_path and checkpoint_dir",
    )


def _take(found: Values, made: Converted, simple: Mapping[str, str]) -> None:
    """Move keys that mean the same under another name."""
    for theirs, ours in simple.items():
        value = found.pop(theirs, None)
        if value is not None:
            made.put(ours, value)


def _rest(found: Values, made: Converted, prefix: str = "") -> None:
    for key, value in found.items():
        if value not in (None, "", [], {}, False):
            made.left_out[prefix + key] = "has no counterpart"


def _choice(made: Converted, ours: str, theirs: str, value: Any, known: Mapping[str, Any]) -> None:
    word = str(value).lower()
    if word in known:
        made.put(ours, known[word])
    elif value is not None:
        made.left_out[theirs] = f"{value} is not known here"


_OPTIMIZERS = {
    "adamw": "adamw",
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw",
    "adamw_hf": "adamw",
    "adamw_8bit": "adamw8bit",
    "adamw_bnb_8bit": "adamw8bit",
    "paged_adamw_8bit": "adamw8bit",
    "paged_adamw_32bit": "adamw",
    "sgd": "sgd",
}
_SCHEDULES = {
    "cosine": "cosine",
    "cosine_with_min_lr": "cosine",
    "linear": "linear",
    "constant": "constant",
    "constant_with_warmup": "constant",
}


def _precision(found: Values, made: Converted) -> None:
    if found.pop("bf16", None) in (True, "auto", "true", "full"):
        made.put("precision", "bf16")
    elif found.pop("fp16", None):
        made.put("precision", "fp16")
    else:
        made.put("precision", "fp32")
    for key in ("fp16", "tf32", "pure_bf16"):
        found.pop(key, None)


def _batches(made: Converted, micro: Any, accumulation: Any) -> None:
    made.put("micro_batch", int(micro or 1))
    made.put("global_batch", int(micro or 1) * int(accumulation or 1))


def _targets(value: Any) -> list[str]:
    if value in (None, "all", "all-linear", True):
        return ["all-linear"]
    words = value if isinstance(value, list) else str(value).split(",")
    return [str(word).strip() for word in words]


def _axolotl(found: Values, made: Converted) -> None:
    _take(
        found,
        made,
        {
            "base_model": "model",
            "sequence_len": "seq",
            "sample_packing": "packing",
            "num_epochs": "epochs",
            "max_steps": "steps",
            "learning_rate": "optimizer.lr",
            "weight_decay": "optimizer.weight_decay",
            "warmup_steps": "optimizer.warmup_steps",
            "max_grad_norm": "optimizer.clip",
            "adam_beta1": "optimizer.beta1",
            "adam_beta2": "optimizer.beta2",
            "adam_epsilon": "optimizer.eps",
            "lora_r": "lora.rank",
            "lora_alpha": "lora.alpha",
            "lora_dropout": "lora.dropout",
            "peft_use_rslora": "lora.rslora",
            "lora_model_dir": "lora.adapter",
            "output_dir": "output",
            "seed": "seed",
            "save_steps": "save.every_steps",
            "save_total_limit": "save.keep",
            "eval_steps": "eval.every_steps",
            "val_set_size": "data.eval_fraction",
            "logging_steps": "log_every",
            "train_on_inputs": "data.train_on_prompt",
            "torch_compile": "compile",
        },
    )
    adapter = found.pop("adapter", None)
    method = {"lora": "lora", "qlora": "qlora", None: "full", "": "full"}.get(adapter)
    if method is None:
        made.left_out["adapter"] = f"{adapter} is not known here"
    if method == "lora" and found.pop("peft_use_dora", None):
        method = "dora"
    made.put("method", method or "full")
    for key in ("load_in_4bit", "load_in_8bit"):
        if found.pop(key, None) and method == "lora":
            made.left_out[key] = "the base is kept in 16 bits; set method: qlora for 4"
    if method != "full":
        linear, named = (
            found.pop("lora_target_linear", None),
            found.pop("lora_target_modules", None),
        )
        made.put("lora.targets", _targets(None if linear else named))
    _precision(found, made)
    _batches(made, found.pop("micro_batch_size", 1), found.pop("gradient_accumulation_steps", 1))
    _choice(made, "optimizer.name", "optimizer", found.pop("optimizer", None), _OPTIMIZERS)
    _choice(
        made, "optimizer.schedule", "lr_scheduler", found.pop("lr_scheduler", None), _SCHEDULES
    )
    made.put("checkpointing", _recompute(found.pop("gradient_checkpointing", None)))
    _axolotl_data(found, made)
    for key in (
        "flash_attention",
        "sdp_attention",
        "eager_attention",
        "gradient_checkpointing_kwargs",
    ):
        found.pop(key, None)
    if found.pop("fsdp_config", None) or found.pop("fsdp", None):
        made.put("sharding", "zero3")
        found.pop("fsdp_version", None)
    _rest(found, made)


def _recompute(value: Any) -> str:
    return "offload" if value == "offload" else ("full" if value else "none")


def _axolotl_data(found: Values, made: Converted) -> None:
    sets = found.pop("datasets", None) or []
    tests = found.pop("test_datasets", None) or []
    for number, one in enumerate(sets):
        if number:
            made.left_out[f"datasets[{number}]"] = "one data set is trained on: join the files"
            continue
        made.put("data.train", str(one.get("path", "")))
        kind = str(one.get("type", ""))
        if kind.startswith("alpaca"):
            made.put("data.format", "alpaca")
            made.put("data.template", "alpaca")
        elif kind in ("chat_template", "sharegpt"):
            made.put("data.format", "messages")
            if one.get("field_messages"):
                made.put("data.messages_column", one["field_messages"])
        elif kind == "completion":
            made.put("data.format", "text")
            if one.get("field"):
                made.put("data.text_column", one["field"])
        elif kind:
            made.left_out["datasets[0].type"] = f"{kind} is not known here"
    if tests:
        made.put("data.eval", str(tests[0].get("path", "")))


def _llama_factory(found: Values, made: Converted) -> None:
    _take(
        found,
        made,
        {
            "model_name_or_path": "model",
            "cutoff_len": "seq",
            "num_train_epochs": "epochs",
            "max_steps": "steps",
            "learning_rate": "optimizer.lr",
            "weight_decay": "optimizer.weight_decay",
            "warmup_steps": "optimizer.warmup_steps",
            "max_grad_norm": "optimizer.clip",
            "lora_rank": "lora.rank",
            "lora_alpha": "lora.alpha",
            "lora_dropout": "lora.dropout",
            "use_rslora": "lora.rslora",
            "adapter_name_or_path": "lora.adapter",
            "output_dir": "output",
            "seed": "seed",
            "save_steps": "save.every_steps",
            "save_total_limit": "save.keep",
            "eval_steps": "eval.every_steps",
            "val_size": "data.eval_fraction",
            "logging_steps": "log_every",
            "train_on_prompt": "data.train_on_prompt",
        },
    )
    stage = found.pop("stage", "sft")
    if stage not in ("sft", "pt"):
        made.left_out["stage"] = f"{stage}: only supervised fine-tuning is done here"
    kind = found.pop("finetuning_type", "lora")
    bits, dora = found.pop("quantization_bit", None), found.pop("use_dora", None)
    if kind == "full":
        made.put("method", "full")
    elif kind == "lora":
        method = "dora" if dora else "lora"
        made.put("method", "qlora" if bits == 4 else method)
        made.put("lora.targets", _targets(found.pop("lora_target", None)))
    else:
        made.left_out["finetuning_type"] = f"{kind} is not known here"
    if bits not in (None, 4):
        made.left_out["quantization_bit"] = f"{bits} bits are not known here"
    _precision(found, made)
    _batches(
        made,
        found.pop("per_device_train_batch_size", 1),
        found.pop("gradient_accumulation_steps", 1),
    )
    _choice(made, "optimizer.name", "optim", found.pop("optim", None), _OPTIMIZERS)
    schedule = found.pop("lr_scheduler_type", None)
    _choice(made, "optimizer.schedule", "lr_scheduler_type", schedule, _SCHEDULES)
    packs = bool(found.pop("neat_packing", False)) or bool(found.pop("packing", False))
    made.put("packing", packs)
    off = found.pop("disable_gradient_checkpointing", False)
    found.pop("gradient_checkpointing", None)
    made.put("checkpointing", "none" if off else "full")
    data = str(found.pop("dataset", "") or "")
    if data:
        first, *more = data.split(",")
        folder = str(found.pop("dataset_dir", "data"))
        made.put("data.train", f"{folder}/{first.strip()}.json")
        made.left_out["dataset"] = f"{first.strip()} is taken for a file in {folder}: check it"
        if more:
            made.left_out["dataset (more)"] = "one data set is trained on: join the files"
    for key in ("do_train", "do_eval", "do_predict", "overwrite_output_dir", "flash_attn"):
        found.pop(key, None)
    _rest(found, made)


def _litgpt(found: Values, made: Converted) -> None:
    train = dict(found.pop("train", None) or {})
    evaluation = dict(found.pop("eval", None) or {})
    _take(found, made, {"checkpoint_dir": "model", "out_dir": "output", "seed": "seed"})
    _take(
        train,
        made,
        {
            "epochs": "epochs",
            "max_steps": "steps",
            "max_seq_length": "seq",
            "micro_batch_size": "micro_batch",
            "global_batch_size": "global_batch",
            "lr_warmup_steps": "optimizer.warmup_steps",
            "max_norm": "optimizer.clip",
            "min_lr": "optimizer.min_lr",
            "save_interval": "save.every_steps",
            "log_interval": "log_every",
        },
    )
    made.put("packing", False)
    _litgpt_method(found, made)
    names = {"32-true": "fp32", "bf16-true": "bf16", "bf16-mixed": "mixed", "16-mixed": "fp16"}
    precision = found.pop("precision", None) or "bf16-true"
    _choice(made, "precision", "precision", precision, names)
    _litgpt_optimizer(found.pop("optimizer", None), made)
    data = found.pop("data", None)
    if isinstance(data, Mapping):
        arguments = dict(data.get("init_args") or {})
        made.left_out["data.class_path"] = f"{data.get('class_path')}: set data.train to its file"
        _take(arguments, made, {"val_split_fraction": "data.eval_fraction"})
        if arguments.pop("mask_prompt", True) is False:
            made.put("data.train_on_prompt", True)
        if arguments.get("json_path"):
            made.put("data.train", str(arguments.pop("json_path")))
            made.left_out.pop("data.class_path")
        _rest(arguments, made, "data.init_args.")
    elif data is not None:
        made.left_out["data"] = f"{data}: set data.train to its file"
    _take(evaluation, made, {"interval": "eval.every_steps", "max_iters": "eval.max_batches"})
    _take(found, made, {"num_nodes": "nodes", "devices": "gpus"})
    if int(made.values.get("gpus", 1)) * int(made.values.get("nodes", 1)) > 1:
        made.put("sharding", "zero3")
    _rest(train, made, "train.")
    _rest(evaluation, made, "eval.")
    _rest(found, made)


def _litgpt_method(found: Values, made: Converted) -> None:
    parts = ("query", "key", "value", "projection", "mlp", "head")
    flags = {part: found.pop(f"lora_{part}", None) for part in parts}
    rank = found.pop("lora_r", None)
    if rank is None and not any(flags.values()):
        made.put("method", "full")
        return
    quantised = found.pop("quantize", None)
    if quantised in ("bnb.nf4", "bnb.nf4-dq"):
        made.put("method", "qlora")
    else:
        made.put("method", "lora")
        if quantised:
            made.left_out["quantize"] = f"{quantised} is not known here"
    made.put("lora.rank", int(rank or 8))
    _take(found, made, {"lora_alpha": "lora.alpha", "lora_dropout": "lora.dropout"})
    names = {
        "query": ["q_proj"],
        "key": ["k_proj"],
        "value": ["v_proj"],
        "projection": ["o_proj"],
        "mlp": ["gate_proj", "up_proj", "down_proj"],
        "head": ["lm_head"],
    }
    made.put("lora.targets", [name for part in parts if flags[part] for name in names[part]])


def _litgpt_optimizer(value: Any, made: Converted) -> None:
    if value is None:
        return
    if isinstance(value, str):
        _choice(made, "optimizer.name", "optimizer", value, _OPTIMIZERS)
        return
    path = str(value.get("class_path", ""))
    _choice(made, "optimizer.name", "optimizer", path.rpartition(".")[2], _OPTIMIZERS)
    arguments = dict(value.get("init_args") or {})
    betas = arguments.pop("betas", None)
    if betas:
        made.put("optimizer.beta1", betas[0])
        made.put("optimizer.beta2", betas[1])
    _take(
        arguments,
        made,
        {"lr": "optimizer.lr", "weight_decay": "optimizer.weight_decay", "eps": "optimizer.eps"},
    )
    _rest(arguments, made, "optimizer.")


_TOOLS: dict[str, Callable[[Values, Converted], None]] = {
    "axolotl": _axolotl,
    "LLaMA-Factory": _llama_factory,
    "litgpt": _litgpt,
}
