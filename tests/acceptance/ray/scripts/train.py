"""A Ray Train script as people write it: nothing in it knows of a queue."""

import sys
import tempfile

import model
import ray
import torch
import torch.distributed as dist
from ray import train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer


def loop(config):
    context = train.get_context()
    weights = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1)
    for step in range(config["steps"]):
        optimizer.zero_grad()
        loss = model.loss_of(weights, step)
        loss.backward()
        if dist.is_initialized():
            dist.all_reduce(weights.grad)
        optimizer.step()
    node = ray.get_runtime_context().get_node_id()
    print(f"rank {context.get_world_rank()} of {context.get_world_size()} on {node}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(weights, f"{folder}/weights.pt")
        train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


trainer = TorchTrainer(
    loop,
    train_loop_config={"steps": 3},
    torch_config=TorchConfig(backend="gloo"),
    scaling_config=ScalingConfig(
        num_workers=int(sys.argv[1]),
        use_gpu=True,
        resources_per_worker={"GPU": 1, "CPU": 1},
    ),
    run_config=RunConfig(name="train", storage_path=tempfile.mkdtemp()),
)
result = trainer.fit()
print("checkpoint", result.checkpoint is not None, flush=True)
