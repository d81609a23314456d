"""Recipes of other tools: what is translated, and that nothing is dropped in silence."""

import pytest

from trackyard.core.errors import SetupError
from trackyard.finetune.convert import convert
from trackyard.finetune.recipe import parse

AXOLOTL = {
    "base_model": "meta-llama/Llama-3.2-1B",
    "load_in_4bit": True,
    "adapter": "qlora",
    "datasets": [{"path": "rows.jsonl", "type": "alpaca"}],
    "val_set_size": 0.1,
    "sequence_len": 2048,
    "sample_packing": True,
    "lora_r": 32,
    "lora_alpha": 16,
    "lora_dropout": 0.05,
    "lora_target_linear": True,
    "gradient_accumulation_steps": 4,
    "micro_batch_size": 2,
    "num_epochs": 1,
    "optimizer": "adamw_bnb_8bit",
    "lr_scheduler": "cosine",
    "learning_rate": 0.0002,
    "bf16": "auto",
    "gradient_checkpointing": True,
    "flash_attention": True,
    "wandb_project": "mine",
}
FACTORY = {
    "model_name_or_path": "meta-llama/Meta-Llama-3-8B-Instruct",
    "stage": "sft",
    "do_train": True,
    "finetuning_type": "lora",
    "lora_rank": 8,
    "lora_target": "q_proj,v_proj",
    "dataset": "identity",
    "template": "llama3",
    "cutoff_len": 1024,
    "output_dir": "saves/llama3",
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 8,
    "learning_rate": "1.0e-4",
    "num_train_epochs": 3.0,
    "lr_scheduler_type": "cosine",
    "bf16": True,
}
LITGPT = {
    "checkpoint_dir": "checkpoints/openlm-research/open_llama_7b",
    "precision": "bf16-true",
    "quantize": "bnb.nf4",
    "lora_r": 32,
    "lora_alpha": 16,
    "lora_dropout": 0.05,
    "lora_query": True,
    "lora_key": True,
    "lora_value": True,
    "lora_projection": True,
    "lora_mlp": True,
    "lora_head": False,
    "data": {"class_path": "litgpt.data.Alpaca2k", "init_args": {"val_split_fraction": 0.5}},
    "train": {"global_batch_size": 16, "micro_batch_size": 4, "max_seq_length": 512, "epochs": 1},
    "eval": {"interval": 25, "max_iters": 100},
    "optimizer": {
        "class_path": "torch.optim.AdamW",
        "init_args": {"lr": 0.0002, "betas": [0.9, 0.95]},
    },
    "logger_name": "csv",
}


def test_axolotl() -> None:
    """QLoRA with 8-bit AdamW, packed."""
    made = convert(AXOLOTL)
    found = parse(made.values)
    assert made.tool == "axolotl"
    assert (found.method, found.precision, found.seq) == ("qlora", "bf16", 2048)
    assert (found.micro_batch, found.batch, found.packing) == (2, 8, True)
    assert (found.optimizer.name, found.optimizer.lr) == ("adamw8bit", 2e-4)
    assert found.lora.targets == ("all-linear",)
    assert (found.data.train, found.data.format) == ("rows.jsonl", "alpaca")
    assert found.checkpointing == "full"
    assert set(made.left_out) == {"wandb_project"}


def test_llama_factory() -> None:
    """LoRA on named layers; the data set's file is a guess, and said to be one."""
    made = convert(FACTORY)
    found = parse(made.values)
    assert made.tool == "LLaMA-Factory"
    assert (found.method, found.batch, found.epochs) == ("lora", 8, 3.0)
    assert found.lora.targets == ("q_proj", "v_proj")
    assert found.optimizer.lr == 1e-4
    assert set(made.left_out) == {"template", "dataset"}


def test_litgpt() -> None:
    """Layers by their litgpt names, nested optimizer arguments."""
    made = convert(LITGPT)
    found = parse(made.values)
    assert made.tool == "litgpt"
    assert (found.method, found.precision) == ("qlora", "bf16")
    assert "down_proj" in found.lora.targets
    assert "lm_head" not in found.lora.targets
    assert (found.micro_batch, found.batch, found.optimizer.beta2) == (4, 16, 0.95)
    assert found.data.eval_fraction == 0.5
    assert set(made.left_out) == {"data.class_path", "logger_name"}


def test_anything_else_is_refused() -> None:
    """A file of no known tool is named as such."""
    with pytest.raises(SetupError, match="no recipe of axolotl"):
        convert({"a": 1})
