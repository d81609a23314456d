"""One process per device on any number of nodes, started by torchrun: `multinode.py EPOCHS EVERY`.

Rank 0 keeps `snapshot.pt` in the working folder; a later start goes on from it.
"""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from toy import data

SNAPSHOT = Path("snapshot.pt")


class Trainer:
    def __init__(self, model, loader, optimizer, save_every):
        self.rank = int(os.environ["RANK"])
        local = int(os.environ["LOCAL_RANK"])
        self.device = f"cuda:{local}" if torch.cuda.is_available() else "cpu"
        self.model = model.to(self.device)
        self.loader = loader
        self.optimizer = optimizer
        self.save_every = save_every
        self.epochs_run = 0
        if SNAPSHOT.exists():
            print("Loading snapshot")
            snapshot = torch.load(SNAPSHOT, map_location=self.device)
            self.model.load_state_dict(snapshot["MODEL_STATE"])
            self.epochs_run = snapshot["EPOCHS_RUN"]
            print(f"Resuming training from snapshot at Epoch {self.epochs_run}")
        self.model = DistributedDataParallel(self.model)

    def epoch(self, number):
        batch = len(next(iter(self.loader))[0])
        steps = len(self.loader)
        print(f"[GPU{self.rank}] Epoch {number} | Batchsize: {batch} | Steps: {steps}")
        self.loader.sampler.set_epoch(number)
        for source, target in self.loader:
            self.optimizer.zero_grad()
            loss = cross_entropy(self.model(source.to(self.device)), target.to(self.device))
            loss.backward()
            self.optimizer.step()

    def train(self, epochs):
        for number in range(self.epochs_run, epochs):
            self.epoch(number)
            if self.rank == 0 and number % self.save_every == 0:
                state = self.model.module.state_dict()
                torch.save({"MODEL_STATE": state, "EPOCHS_RUN": number}, SNAPSHOT)
                print(f"Epoch {number} | Training snapshot saved at {SNAPSHOT}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("total_epochs", type=int)
    parser.add_argument("save_every", type=int)
    parser.add_argument("--batch_size", type=int, default=32)
    args = parser.parse_args()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    model = torch.nn.Linear(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    rows = data()
    loader = DataLoader(rows, batch_size=args.batch_size, sampler=DistributedSampler(rows))
    Trainer(model, loader, optimizer, args.save_every).train(args.total_epochs)
    dist.destroy_process_group()
