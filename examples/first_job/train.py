"""A first job: fit a line to noisy points by gradient descent, in plain Python.

It saves a checkpoint now and then, so it goes on where it was when it is killed, preempted or
moved; and it logs its loss to its run where `mlflow` is installed.
"""

import argparse
import random
import time

from trackyard import checkpoint

try:
    import mlflow
except ImportError:  # the job runs without it; there is just no curve
    mlflow = None


def points(count: int) -> list[tuple[float, float]]:
    noise = random.Random(7)
    return [(x / count, 3.0 * x / count + 1.0 + noise.gauss(0, 0.1)) for x in range(count)]


def gradient_step(data, state, rate: float) -> float:
    slope, offset = state["slope"], state["offset"]
    errors = [(slope * x + offset - y, x) for x, y in data]
    state["slope"] -= rate * 2 * sum(error * x for error, x in errors) / len(data)
    state["offset"] -= rate * 2 * sum(error for error, _ in errors) / len(data)
    return sum(error * error for error, _ in errors) / len(data)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--pause", type=float, default=0.03, help="seconds between steps")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    args = parser.parse_args()

    checkpoint.catch_stop()
    state = checkpoint.load() or {"step": 0, "slope": 0.0, "offset": 0.0, "loss": 0.0}
    if state["step"]:
        print(f"goes on from step {state['step']}", flush=True)
    elif mlflow:
        mlflow.log_params({"steps": args.steps, "rate": args.rate})
    data = points(100)
    while state["step"] < args.steps:
        state["loss"] = gradient_step(data, state, args.rate)
        state["step"] += 1
        checkpoint.progress(state["step"])
        if mlflow:
            mlflow.log_metric("loss", state["loss"], step=state["step"])
        if state["step"] % args.every == 0:
            print(f"step {state['step']}/{args.steps} loss {state['loss']:.6f}", flush=True)
        leaving = checkpoint.stop_asked()
        if leaving or state["step"] % args.every == 0:
            checkpoint.save(state, step=state["step"])
        if leaving:
            checkpoint.exit_saved()
        time.sleep(args.pause)
    print(f"done: y = {state['slope']:.3f} x + {state['offset']:.3f}")
    print(f"final loss {state['loss']:.12f}", flush=True)


if __name__ == "__main__":
    main()
