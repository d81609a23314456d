"""A two-phase image classifier as the tracking lab writes it: plain torch with MLflow calls.

Eleven classes of random pictures stand in for the data set; everything that is logged, and how,
is the lab's.
"""

import os
import subprocess
import time

import mlflow
import mlflow.pytorch
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

config = {
    "initial_epochs": 1,
    "total_epochs": 3,
    "patience": 1,
    "batch_size": 32,
    "lr": 1e-3,
    "fine_tune_lr": 1e-4,
    "model_architecture": "TinyNet",
    "dropout_probability": 0.5,
    "random_horizontal_flip": 0.5,
    "random_rotation": 15,
    "color_jitter_brightness": 0.2,
    "color_jitter_contrast": 0.2,
    "color_jitter_saturation": 0.2,
    "color_jitter_hue": 0.1,
}
#: Clients of 2026 want a traced graph unless told otherwise; those of 2025 know no other format.
FORMAT = {} if mlflow.__version__.startswith("2.") else {"serialization_format": "pickle"}
torch.manual_seed(7)


class TinyNet(nn.Module):
    """Features and a head, to be frozen and thawed."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten())
        self.classifier = nn.Sequential(nn.Dropout(0.5), nn.Linear(4 * 7 * 7, 11))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(pictures))


def loader(count: int) -> DataLoader:
    """Random pictures of eleven classes."""
    return DataLoader(
        TensorDataset(torch.rand(count, 3, 16, 16), torch.randint(0, 11, (count,))),
        batch_size=config["batch_size"],
    )


def epoch(model: nn.Module, data: DataLoader, optimizer: torch.optim.Optimizer | None = None):
    """One pass; trains when given an optimizer."""
    criterion = nn.CrossEntropyLoss()
    total, right, seen = 0.0, 0, 0
    model.train(optimizer is not None)
    for inputs, labels in data:
        with torch.set_grad_enabled(optimizer is not None):
            outputs = model(inputs)
            loss = criterion(outputs, labels)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item() * len(labels)
        right += (outputs.argmax(1) == labels).sum().item()
        seen += len(labels)
    return total / seen, right / seen


train_loader, val_loader, test_loader = loader(96), loader(32), loader(32)
model = TinyNet()

mlflow.set_experiment(os.environ.get("LAB_EXPERIMENT", "food11-classifier"))
try:
    mlflow.end_run()
except Exception:
    pass
finally:
    mlflow.start_run(log_system_metrics=True)

try:
    gpu_info = subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=False).stdout
except FileNotFoundError:
    gpu_info = "No GPU found."
mlflow.log_text(gpu_info, "gpu-info.txt")
mlflow.log_params(config)


def log_epoch(number: int, optimizer: torch.optim.Optimizer) -> float:
    start = time.time()
    train_loss, train_accuracy = epoch(model, train_loader, optimizer)
    val_loss, val_accuracy = epoch(model, val_loader)
    mlflow.log_metrics(
        {
            "epoch_time": time.time() - start,
            "train_loss": train_loss,
            "train_accuracy": train_accuracy,
            "val_loss": val_loss,
            "val_accuracy": val_accuracy,
            "trainable_params": sum(p.numel() for p in model.parameters() if p.requires_grad),
        },
        step=number,
    )
    return val_loss


for parameter in model.features.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.Adam(model.classifier.parameters(), lr=config["lr"])
for number in range(config["initial_epochs"]):
    log_epoch(number, optimizer)

for parameter in model.features.parameters():
    parameter.requires_grad = True
optimizer = torch.optim.Adam(model.parameters(), lr=config["fine_tune_lr"])
best = float("inf")
for number in range(config["initial_epochs"], config["total_epochs"]):
    val_loss = log_epoch(number, optimizer)
    if val_loss < best or number == config["initial_epochs"]:
        best = val_loss
        mlflow.pytorch.log_model(model, "food11", **FORMAT)
mlflow.log_metric("early_stopping_epoch", f"{number}")

test_loss, test_accuracy = epoch(model, test_loader)
mlflow.log_metrics({"test_loss": test_loss, "test_accuracy": test_accuracy})
time.sleep(float(os.environ.get("LAB_LINGER", "0")))
mlflow.end_run()
