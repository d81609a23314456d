"""One code path from one process to many: process groups, DDP, and FSDP2 in its several forms.

Owns who holds which part of the weights and when gradients are exchanged. zero3 gathers a layer
for its forward and again for its backward, zero2 keeps it in between, hsdp shards within a node
and replicates across nodes; offload keeps the shards in host memory.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed, nn

from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.training.activations import decoder_layers
from trackyard.finetune.training.build import TrainModel, dtypes

SHARDED = ("zero2", "zero3", "hsdp")


@dataclass(frozen=True)
class RankPlace:
    """This process among all of them."""

    rank: int
    world: int
    local_rank: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and talks."""
        return self.rank == 0


def join(*, device: str = "") -> RankPlace:
    """Join the other processes, as the launcher's variables tell; alone without them."""
    rank, world = _variable("RANK", 0), _variable("WORLD_SIZE", 1)
    local = _variable("LOCAL_RANK", rank % max(1, torch.cuda.device_count()))
    on_gpu = torch.cuda.is_available() and device != "cpu"
    chosen = torch.device("cuda", local) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(chosen)
    if world > 1 and not distributed.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
        distributed.init_process_group(backend, rank=rank, world_size=world)
    return RankPlace(rank=rank, world=world, local_rank=local, device=chosen)


def leave() -> None:
    """Leave the process group."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def _variable(name: str, default: int) -> int:
    # mpirun tells the same by names of its own.
    others = {"RANK": "OMPI_COMM_WORLD_RANK", "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE"}
    others["LOCAL_RANK"] = "OMPI_COMM_WORLD_LOCAL_RANK"
    return int(os.environ.get(name) or os.environ.get(others[name]) or default)


def shard(model: TrainModel, setup: TrainingSetup, place: RankPlace) -> TrainModel:
    """Shard the model's weights in place; it may be on meta and is filled afterwards."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    kinds = dtypes(setup.precision)
    reduced = torch.float32 if kinds.compute != torch.float32 else None
    options: dict[str, Any] = {
        "mesh": _mesh(setup, place),
        "reshard_after_forward": setup.sharding != "zero2",
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=kinds.compute if kinds.is_mixed else None, reduce_dtype=reduced
        ),
    }
    if setup.offload:
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=place.device.type == "cuda")
    for layer in decoder_layers(model):
        fully_shard(layer, **options)
    fully_shard(model, **options)
    return model


def _mesh(setup: TrainingSetup, place: RankPlace) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    kind = place.device.type
    if setup.sharding != "hsdp":
        return init_device_mesh(kind, (place.world,), mesh_dim_names=("shard",))
    shape = (setup.nodes, place.world // setup.nodes)
    return init_device_mesh(kind, shape, mesh_dim_names=("replicate", "shard"))


def replicate(model: TrainModel, place: RankPlace) -> nn.Module:
    """Wrap the model so that every process holds it whole and gradients are averaged."""
    from torch.nn.parallel import DistributedDataParallel

    devices = [place.device.index] if place.device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)


def inner(model: nn.Module) -> TrainModel:
    """Return the model inside a wrapper."""
    found = model.module if hasattr(model, "module") else model
    assert isinstance(found, TrainModel)
    return found


@contextlib.contextmanager
def exchanging(model: nn.Module, *, is_last: bool) -> Any:
    """Exchange gradients in the last micro-batch of a step alone."""
    if hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(is_last)
        yield
    elif hasattr(model, "no_sync") and not is_last:
        with model.no_sync():
            yield
    else:
        yield


def clip(model: nn.Module, most: float) -> torch.Tensor:
    """Scale gradients down to a norm of at most `most` (0: leave them); return the norm."""
    learned = [one for one in model.parameters() if one.grad is not None]
    norm = nn.utils.get_total_norm([one.grad for one in learned])
    if hasattr(norm, "full_tensor"):
        norm = norm.full_tensor()
    if most and not any(hasattr(one.grad, "full_tensor") for one in learned):
        nn.utils.clip_grads_with_norm_(learned, most, norm)
    elif most:
        # The norm is whole and the gradients are spread: one call cannot take both.
        factor = torch.clamp(most / (norm + 1e-6), max=1.0)
        for one in learned:
            one.grad.mul_(factor.to(one.grad.device))
    return norm


def total(value: torch.Tensor, place: RankPlace) -> torch.Tensor:
    """Return the sum of a value over all processes."""
    if place.world > 1:
        distributed.all_reduce(value)
    return value


def any_of(flag: bool, place: RankPlace) -> bool:
    """Tell whether any process says so; the same answer everywhere."""
    if place.world == 1:
        return flag
    value = torch.tensor([int(flag)], device=place.device)
    distributed.all_reduce(value, op=distributed.ReduceOp.MAX)
    return bool(value.item())


def barrier(place: RankPlace) -> None:
    """Wait for all processes."""
    if place.world > 1:
        distributed.barrier()
