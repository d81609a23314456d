"""From a recipe to a model that is ready to train on this process: found, built, sharded, filled.

Owns the order of these steps and which way weights take for each method. The parts lie beside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from trackyard.finetune.locate import model_folder
from trackyard.finetune.recipe import Recipe
from trackyard.finetune.training import activations, adapters, attention, build, weights
from trackyard.finetune.training.lora import reset_lora
from trackyard.finetune.training.sharding import SHARDED, RankPlace, replicate, shard


def assemble(recipe: Recipe, place: RankPlace) -> nn.Module:
    """Return the model of a recipe, on this process's device, with its weights."""
    setup = recipe.setup()
    attention.prefer(recipe.attention)
    if setup.precision == "fp32":
        torch.set_float32_matmul_precision("highest")
    if setup.sharding in SHARDED:
        model: nn.Module = _sharded(recipe, place)
    else:
        base = _quantised(recipe, place) if setup.method == "qlora" else _whole(recipe, place)
        model = build.finish(
            base,
            setup,
            adapter=_options(recipe),
            checkpoint_layers=recipe.checkpoint_layers,
        )
        model.to(place.device)
        if recipe.compile:
            activations.compile_layers(model)
    if recipe.lora.adapter and setup.is_adapter:
        adapters.load(model.model, Path(recipe.lora.adapter))
    model.train()
    return replicate(model, place) if setup.sharding == "ddp" else model


def read_config(recipe: Recipe) -> Any:
    """Return the model's configuration, prepared for training."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model_folder(recipe.model))
    build.prepare_config(config)
    return config


def _options(recipe: Recipe) -> build.AdapterOptions:
    part = recipe.lora
    return build.AdapterOptions(
        alpha=part.alpha, dropout=part.dropout, rslora=part.rslora, seed=recipe.seed
    )


def _whole(recipe: Recipe, place: RankPlace) -> Any:
    from transformers import AutoModelForCausalLM

    config, kind = read_config(recipe), build.base_dtype(recipe.setup())
    if recipe.weights == "random":
        return _random(recipe, config, kind, place.device)
    return AutoModelForCausalLM.from_pretrained(
        model_folder(recipe.model), config=config, dtype=kind
    )


def _random(recipe: Recipe, config: Any, kind: torch.dtype, device: torch.device) -> Any:
    from transformers import AutoModelForCausalLM

    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(recipe.seed)
        return AutoModelForCausalLM.from_config(config, dtype=kind)


def _on_meta(config: Any, kind: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    with build.parameters_on_meta():
        model = AutoModelForCausalLM.from_config(config, dtype=kind)
    model.tie_weights()
    return model


def _quantised(recipe: Recipe, place: RankPlace) -> Any:
    config, kind = read_config(recipe), build.dtypes(recipe.precision).compute
    if recipe.weights == "random":
        model = _random(recipe, config, kind, place.device)
        weights.quantise(model, None, place.device, kind)
        return model
    source = weights.WeightFolder(model_folder(recipe.model))
    model = _on_meta(config, kind)
    weights.quantise(model, source, place.device, kind)
    weights.fill_rest(model, source, place.device, kind)
    return model


def _sharded(recipe: Recipe, place: RankPlace) -> build.TrainModel:
    """Build on meta, shard, then read this rank's rows alone."""
    setup = recipe.setup()
    config, kind = read_config(recipe), build.base_dtype(setup)
    model = build.finish(
        _on_meta(config, kind),
        setup,
        adapter=_options(recipe),
        checkpoint_layers=recipe.checkpoint_layers,
        compute_policy=False,
    )
    if recipe.compile:
        activations.compile_layers(model)
    shard(model, setup, place)
    home = torch.device("cpu") if setup.offload else place.device

    def materialise(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(tensor, device=home) if tensor.is_meta else tensor.to(home)

    model._apply(materialise)
    if setup.offload:
        for module in model.modules():
            for key, buffer in list(module.named_buffers(recurse=False)):
                setattr(module, key, buffer.to(place.device))
    source: Any
    if recipe.weights == "random":
        made = _random(recipe, read_config(recipe), kind, torch.device("cpu"))
        source = weights.MemoryWeights(dict(made.state_dict()))
    else:
        source = weights.WeightFolder(model_folder(recipe.model))
    weights.load_into(model.model, source)
    reset_lora(model.model, recipe.seed)
    return model
