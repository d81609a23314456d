"""One process on one device: `single_gpu.py EPOCHS SAVE_EVERY` prints each epoch and saves."""

import argparse

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from toy import data


class Trainer:
    def __init__(self, model, loader, optimizer, device, save_every):
        self.model = model.to(device)
        self.loader = loader
        self.optimizer = optimizer
        self.device = device
        self.save_every = save_every

    def epoch(self, number):
        batch = len(next(iter(self.loader))[0])
        print(f"[GPU0] Epoch {number} | Batchsize: {batch} | Steps: {len(self.loader)}")
        for source, target in self.loader:
            self.optimizer.zero_grad()
            loss = cross_entropy(self.model(source.to(self.device)), target.to(self.device))
            loss.backward()
            self.optimizer.step()

    def train(self, epochs):
        for number in range(epochs):
            self.epoch(number)
            if number % self.save_every == 0:
                torch.save(self.model.state_dict(), "checkpoint.pt")
                print(f"Epoch {number} | Training checkpoint saved at checkpoint.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("total_epochs", type=int)
    parser.add_argument("save_every", type=int)
    parser.add_argument("--batch_size", type=int, default=32)
    args = parser.parse_args()
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(data(), batch_size=args.batch_size, shuffle=True)
    Trainer(model, loader, optimizer, device, args.save_every).train(args.total_epochs)
