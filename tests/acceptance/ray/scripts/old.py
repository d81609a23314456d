"""A line that Ray 2.42 took and that newer releases refuse."""

from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

TorchTrainer(
    lambda: None,
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="old", verbose=1),
).fit()
