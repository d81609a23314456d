"""Takes GPUs by placement groups of its own, past Train and Tune."""

import sys
import time

import ray
from ray.util.placement_group import placement_group

ray.init()
groups = [placement_group([{"GPU": 1}]) for _ in range(int(sys.argv[1]))]
ray.get([group.ready() for group in groups], timeout=240)
print("holding", len(groups), flush=True)
time.sleep(300)
