"""Hugging Face Trainer that reports to MLflow; a random model of a few thousand weights."""

import os
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(Dataset):
    """Random token ids with random labels."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> dict:
        generator = torch.Generator().manual_seed(index)
        return {
            "input_ids": torch.randint(0, 50, (8,), generator=generator),
            "labels": torch.tensor(index % 2),
        }


def main() -> None:
    """Train for eight steps."""
    os.environ["MLFLOW_EXPERIMENT_NAME"] = sys.argv[1]
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=16,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            report_to="mlflow",
            run_name="tiny-bert",
            logging_steps=1,
            num_train_epochs=2,
            per_device_train_batch_size=8,
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=Sentences())
        trainer.train()


if __name__ == "__main__":
    main()
