"""Logs numbered metrics for ever, noting what was tried and what was acknowledged.

python log_numbers.py EXPERIMENT WORKER THREADS FOLDER; ends when FOLDER/stop appears.
"""

import sys
import threading
import time
from pathlib import Path
from typing import TextIO

from mlflow import MlflowClient
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException

EXPERIMENT, WORKER, THREADS, FOLDER = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])


def note(book: TextIO, word: str, number: int, what: str) -> None:
    """Write a line that survives this process."""
    book.write(f"{word} {what} {number}\n")
    book.flush()


def write(name: str, run: str) -> None:
    """Log one number after another; a run of its own now and then."""
    client = MlflowClient()
    with (FOLDER / f"{name}.book").open("w") as book:
        number = 0
        while not (FOLDER / "stop").exists():
            number += 1
            makes_run = number % 10 == 0
            what = "run" if makes_run else "point"
            note(book, "try", number, what)
            now = int(time.time() * 1000)
            try:
                if makes_run:
                    client.create_run(EXPERIMENT, run_name=f"{name}-{number}")
                elif number % 2:
                    client.log_metric(run, name, number, timestamp=now, step=number)
                else:
                    client.log_batch(run, [Metric(name, number, now, number)])
            except MlflowException as error:
                note(book, "gave-up", number, repr(str(error)[:80]).replace(" ", "_"))
                continue
            note(book, "ack", number, what)


def main() -> None:
    """Start all writers on one run and wait for the end."""
    run = MlflowClient().create_run(EXPERIMENT, run_name=f"log-{WORKER}").info.run_id
    (FOLDER / f"{WORKER}.run").write_text(run)
    threads = [
        threading.Thread(target=write, args=(f"{WORKER}-{number}", run))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
