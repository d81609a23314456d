"""Building the model that is trained: stock transformers, with adapters, policy and loss on top.

Owns TrainModel, the module whose forward is a micro-batch's loss, and the order in which a model
is put together. The planner traces what is built here. Loading weights and sharding lie beside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.training import activations, attention
from trackyard.finetune.training.lora import apply_lora
from trackyard.finetune.training.loss import chunked_cross_entropy, plain_cross_entropy

#: per precision: stored weights, frozen weights, compute
_DTYPES = {
    "fp32": (torch.float32, torch.float32, torch.float32),
    "mixed": (torch.float32, torch.bfloat16, torch.bfloat16),
    "bf16": (torch.bfloat16, torch.bfloat16, torch.bfloat16),
    "fp16": (torch.float32, torch.float16, torch.float16),
}


@dataclass(frozen=True)
class Dtypes:
    """The types of one precision."""

    #: weights that learn
    trained: torch.dtype
    #: weights that do not
    frozen: torch.dtype
    compute: torch.dtype

    @property
    def is_mixed(self) -> bool:
        """Whether arithmetic is in another type than the weights that learn."""
        return self.trained != self.compute


@dataclass(frozen=True)
class AdapterOptions:
    """What an adapter needs beside its rank and targets."""

    alpha: float = 32.0
    dropout: float = 0.0
    rslora: bool = False
    seed: int = 0


def dtypes(precision: str) -> Dtypes:
    """Return the types of a precision."""
    return Dtypes(*_DTYPES[precision])


def base_dtype(setup: TrainingSetup) -> torch.dtype:
    """Return the type that the model of transformers is loaded in."""
    kinds = dtypes(setup.precision)
    return kinds.frozen if setup.is_adapter else kinds.trained


class TrainModel(nn.Module):
    """A causal language model whose forward gives the loss of a micro-batch.

    Everything that touches weights happens inside forward, so that sharding gathers them first.
    """

    def __init__(
        self, model: nn.Module, *, loss: str = "chunked", autocast: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self._loss = loss
        self._autocast = autocast

    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor | None = None,
        *,
        position_ids: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
        boundaries: torch.Tensor | None = None,
        scale: float | torch.Tensor = 1.0,
        logits_at: int | None = None,
    ) -> torch.Tensor:
        """Return `scale` times the summed loss; or, with `logits_at`, the logits of a position."""
        with self._casting(input_ids.device):
            hidden = self._hidden(input_ids, position_ids, segments, boundaries)
            head = self.model.get_output_embeddings()
            if labels is None:
                return head(hidden if logits_at is None else hidden[:, logits_at])
            # A head with an adapter, or of another kind, multiplies in its own way.
            if self._loss == "chunked" and type(head) is nn.Linear and head.bias is None:
                return chunked_cross_entropy(hidden, head.weight, labels, scale=scale)
            return plain_cross_entropy(head(hidden), labels, scale=scale)

    def _hidden(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor | None,
        segments: torch.Tensor | None,
        boundaries: torch.Tensor | None,
    ) -> torch.Tensor:
        options: dict[str, Any] = {"attention_mask": attention.no_mask(input_ids.device)}
        if boundaries is not None:
            width = input_ids.shape[1]
            options |= {"cu_seq_lens_q": boundaries, "cu_seq_lens_k": boundaries}
            options |= {"max_length_q": width, "max_length_k": width}
        elif segments is not None:
            options["attention_mask"] = attention.block_mask(segments)
        out = self.model.base_model(
            input_ids=input_ids, position_ids=position_ids, use_cache=False, **options
        )
        return out.last_hidden_state

    def _casting(self, device: torch.device) -> contextlib.AbstractContextManager[Any]:
        if self._autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(device.type, dtype=self._autocast)


def build_model(
    config: Any,
    setup: TrainingSetup,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    *,
    adapter: AdapterOptions | None = None,
    checkpoint_layers: int = 0,
) -> TrainModel:
    """Build a model from a configuration of transformers, with weights that nobody has trained."""
    from transformers import AutoModelForCausalLM

    prepare_config(config)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype or base_dtype(setup))
    return finish(model, setup, adapter=adapter, checkpoint_layers=checkpoint_layers)


def prepare_config(config: Any) -> None:
    """Have a configuration use our attention and no cache."""
    attention.register()
    if getattr(config, "attn_logit_softcapping", None):
        raise ValueError("this model caps its attention scores, which no fast kernel does")
    config._attn_implementation = attention.NAME
    config.use_cache = False


def finish(
    model: nn.Module,
    setup: TrainingSetup,
    *,
    adapter: AdapterOptions | None = None,
    checkpoint_layers: int = 0,
    compute_policy: bool = True,
) -> TrainModel:
    """Put adapters, the activation policy and the loss on a model of transformers.

    `compute_policy=False` leaves casting to whoever shards the model.
    """
    kinds = dtypes(setup.precision)
    add_adapter(model, setup, adapter or AdapterOptions())
    activations.apply_policy(model, setup.checkpointing, layers=checkpoint_layers)
    loss = "plain" if getattr(model.config, "final_logit_softcapping", None) else setup.loss
    # Adapters in 32 bits beside a frozen base in 16 are cast by autocast as well.
    casts = kinds.is_mixed and compute_policy
    return TrainModel(model, loss=loss, autocast=kinds.compute if casts else None)


def add_adapter(model: nn.Module, setup: TrainingSetup, options: AdapterOptions) -> None:
    """Freeze the model and add what learns, as the method says; nothing for `full`."""
    if not setup.is_adapter:
        return
    kind = dtypes(setup.precision).trained
    if setup.method == "dora":
        _add_dora(model, setup, options, kind)
        return
    apply_lora(
        model,
        setup.lora_rank,
        options.alpha,
        setup.lora_targets,
        kind,
        dropout=options.dropout,
        rslora=options.rslora,
        seed=options.seed,
    )


def _add_dora(
    model: nn.Module, setup: TrainingSetup, options: AdapterOptions, kind: torch.dtype
) -> None:
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ModuleNotFoundError as fault:
        raise ModuleNotFoundError("DoRA needs peft: pip install 'trackyard[train]'") from fault
    targets: Any = list(setup.lora_targets)
    config = LoraConfig(
        r=setup.lora_rank,
        lora_alpha=int(options.alpha),
        lora_dropout=options.dropout,
        use_rslora=options.rslora,
        use_dora=True,
        target_modules="all-linear" if targets == ["all-linear"] else targets,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        inject_adapter_in_model(config, model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)
        if parameter.requires_grad:
            parameter.data = parameter.data.to(kind)


@contextlib.contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Have modules made inside hold no weights yet; buffers are real, as nothing loads them."""
    register = nn.Module.register_parameter

    def on_meta(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        register(module, name, parameter)
        if parameter is not None:
            held = module._parameters[name]
            module._parameters[name] = nn.Parameter(
                held.detach().to("meta"), requires_grad=held.requires_grad
            )

    nn.Module.register_parameter = on_meta  # type: ignore[assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]
