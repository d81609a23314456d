"""Creates runs in the very same words from many processes or threads at once; prints their ids.

python create_many.py EXPERIMENT PROCESSES THREADS RUNS
"""

import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mlflow import MlflowClient

EXPERIMENT, PROCESSES, THREADS, RUNS = sys.argv[1], *map(int, sys.argv[2:5])


def create(_: int) -> str:
    """Create one run; every call says the same."""
    made = MlflowClient().create_run(EXPERIMENT, start_time=1_700_000_000_000, run_name="same")
    return str(made.info.run_id)


def work(start: Any, found: Any) -> None:
    """Create this process's runs once all processes are there."""
    start.wait()
    with ThreadPoolExecutor(THREADS) as pool:
        found.put(list(pool.map(create, range(RUNS))))


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    start, found = context.Barrier(PROCESSES), context.Queue()
    workers = [context.Process(target=work, args=(start, found)) for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for run_id in [run_id for _ in workers for run_id in found.get()]:
        print("RUN", run_id)
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
