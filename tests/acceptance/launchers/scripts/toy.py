"""2,048 random rows for a linear model, as small tutorials have them."""

import torch
from torch.utils.data import TensorDataset


def data(rows: int = 2048) -> TensorDataset:
    return TensorDataset(torch.rand(rows, 20), torch.rand(rows, 1))
