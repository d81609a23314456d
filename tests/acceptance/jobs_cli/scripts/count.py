"""Count to a number, saving where it is; leave with the word "saved" when asked to stop."""

import sys
import time

from trackyard import checkpoint

total, pause = int(sys.argv[1]), float(sys.argv[2])
checkpoint.catch_stop()
state = checkpoint.load() or {"step": 0}
print(f"from step {state['step']}", flush=True)
while state["step"] < total:
    state["step"] += 1
    time.sleep(pause)
    if checkpoint.stop_asked():
        checkpoint.save(state, step=state["step"])
        print(f"saved at step {state['step']}", flush=True)
        checkpoint.exit_saved()
print(f"counted to {state['step']}", flush=True)
