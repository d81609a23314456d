"""The lab's Lightning variant with autolog: nothing is logged by hand."""

import os
from pathlib import Path

import lightning
import mlflow
import mlflow.pytorch
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LightningFood11(lightning.LightningModule):
    """Eleven classes, a linear model."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 11))

    def _step(self, batch, stage):
        inputs, labels = batch
        outputs = self.model(inputs)
        loss = nn.functional.cross_entropy(outputs, labels)
        accuracy = (outputs.argmax(1) == labels).float().mean()
        self.log(f"{stage}_loss", loss, on_epoch=True, on_step=False, prog_bar=True)
        self.log(f"{stage}_accuracy", accuracy, on_epoch=True, on_step=False, prog_bar=True)
        return loss

    def training_step(self, batch, batch_idx):
        return self._step(batch, "train")

    def validation_step(self, batch, batch_idx):
        self._step(batch, "val")

    def test_step(self, batch, batch_idx):
        self._step(batch, "test")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def loader(count: int) -> DataLoader:
    data = TensorDataset(torch.rand(count, 3, 8, 8), torch.randint(0, 11, (count,)))
    return DataLoader(data, batch_size=16)


if __name__ == "__main__":
    mlflow.set_experiment(os.environ["LAB_EXPERIMENT"])
    mlflow.pytorch.autolog()
    folder = Path.cwd() / "checkpoints"
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=True,
        logger=False,
        callbacks=[
            ModelCheckpoint(dirpath=folder, filename="food11", monitor="val_loss", save_top_k=1),
            EarlyStopping(monitor="val_loss", patience=5),
        ],
    )
    with mlflow.start_run(log_system_metrics=True):
        module = LightningFood11()
        trainer.fit(module, train_dataloaders=loader(64), val_dataloaders=loader(32))
        trainer.test(module, dataloaders=loader(32))
    print("RUN", mlflow.last_active_run().info.run_id)
