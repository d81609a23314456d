"""A model of a few weights; beside the script, so that workers on other nodes must find it."""

import torch


def loss_of(weights: torch.Tensor, step: int) -> torch.Tensor:
    """How far the weights are from what is wanted."""
    return ((weights - float(step)) ** 2).sum()
