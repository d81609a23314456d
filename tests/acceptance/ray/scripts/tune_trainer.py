"""Gives a trainer to Tune, as scripts for an older Ray do."""

from ray import tune
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer

trainer = TorchTrainer(lambda config: None, scaling_config=ScalingConfig(num_workers=1))
tune.Tuner(trainer, param_space={"train_loop_config": {"lr": tune.choice([1])}}).fit()
