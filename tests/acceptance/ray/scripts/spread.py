"""Six tasks over all nodes, each of which writes beside the script, and a result at the end."""

import json
import time
from pathlib import Path

import ray

ray.init()


@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def part(number):
    began = Path.cwd()
    time.sleep(2)
    Path(f"part-{number}.txt").write_text("done")
    return number, Path("spread.py").exists(), Path.cwd() == began


parts = ray.get([part.remote(number) for number in range(6)])
Path("result.json").write_text(json.dumps(parts))
print("parts", sum(1 for _, beside, stayed in parts if beside and stayed))
print("result", Path("result.json").exists(), flush=True)
