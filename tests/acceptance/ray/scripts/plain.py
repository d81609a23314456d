"""A plain Lightning script: knows MLflow, and nothing of Ray or Trackyard."""

import os

import lightning
import tartlet
import torch
from lightning.pytorch.loggers import MLFlowLogger


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        inputs, wanted = batch
        loss = torch.nn.functional.mse_loss(self.layer(inputs), wanted)
        self.log("train_loss", loss, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=float(os.environ["LEARNING_RATE"]))


torch.manual_seed(1)
inputs = torch.randn(64, 4)
data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=1,
    max_epochs=3,
    log_every_n_steps=1,
    enable_progress_bar=False,
    enable_checkpointing=False,
    logger=MLFlowLogger(tracking_uri=os.environ["MLFLOW_TRACKING_URI"]),
)
trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=16))
print("taste", tartlet.TASTE, "on", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
