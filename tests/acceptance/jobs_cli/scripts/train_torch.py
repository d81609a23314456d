"""Train a small network with torch: shuffled batches, dropout and momentum, so that only a resume
that restores everything (weights, optimizer, random state) ends with the loss of a whole run.
"""

import os
import sys
import time

import torch

from trackyard import checkpoint

STEPS, EVERY, PAUSE = int(sys.argv[1]), 10, float(sys.argv[2])
#: the first attempt that may come to its end: those before it wait to be killed
LAST_ATTEMPT = int(sys.argv[3]) if len(sys.argv) > 3 else 1
ATTEMPT = int(os.environ["YARD_ATTEMPT_ID"].rpartition("-a")[2])

torch.manual_seed(11)
torch.set_num_threads(1)
inputs = torch.randn(256, 8)
targets = inputs.pow(2).sum(1, keepdim=True)
model = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9)
state = checkpoint.load()
first = 0
if state is not None:
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    first = state["step"]
print(f"pid {os.getpid()} from step {first}", flush=True)
loss = torch.tensor(0.0)
for step in range(first, STEPS):
    while step == STEPS - 1 and ATTEMPT < LAST_ATTEMPT:
        time.sleep(PAUSE)
    batch = torch.randperm(256)[:32]
    loss = torch.nn.functional.mse_loss(model(inputs[batch]), targets[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (step + 1) % EVERY == 0 and step + 1 < STEPS:
        checkpoint.save(
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "random": torch.get_rng_state(),
                "step": step + 1,
            },
            step=step + 1,
        )
        print(f"step {step + 1}", flush=True)
    time.sleep(PAUSE)
model.eval()
whole = torch.nn.functional.mse_loss(model(inputs), targets).item()
print(f"last batch {loss.item()!r} final loss {whole!r}", flush=True)
