"""A small BERT, made from a config, classifies pairs of sentences by transformers' Trainer."""

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
)


class Pairs(torch.utils.data.Dataset):
    def __init__(self, rows=64, length=16, words=100):
        generator = torch.Generator().manual_seed(7)
        self.ids = torch.randint(5, words, (rows, length), generator=generator)
        self.labels = (self.ids[:, 0] > words // 2).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, row):
        mask = torch.ones_like(self.ids[row])
        return {"input_ids": self.ids[row], "attention_mask": mask, "labels": self.labels[row]}


if __name__ == "__main__":
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=2,
    )
    arguments = TrainingArguments(
        "test-trainer", num_train_epochs=1, per_device_train_batch_size=8, report_to=[]
    )
    trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=Pairs())
    done = trainer.train()
    state = trainer.state
    print(f"world {arguments.world_size} rank {arguments.process_index} steps {state.max_steps}")
    trainer.save_model()
