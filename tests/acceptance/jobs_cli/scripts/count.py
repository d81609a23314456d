"""Count to a number, saving where it is; leave with the word "saved" when asked to stop."""

import os
import sys
import time

from trackyard import checkpoint

total, pause = int(sys.argv[1]), float(sys.argv[2])
#: the first attempt that may come to its end: those before it wait to be stopped
last_attempt = int(sys.argv[3]) if len(sys.argv) > 3 else 1
attempt = int(os.environ["YARD_ATTEMPT_ID"].rpartition("-a")[2])
checkpoint.catch_stop()
state = checkpoint.load() or {"step": 0}
print(f"from step {state['step']}", flush=True)
while state["step"] < total:
    state["step"] += 1
    time.sleep(pause)
    while state["step"] == total - 1 and attempt < last_attempt and not checkpoint.stop_asked():
        time.sleep(pause)
    if checkpoint.stop_asked():
        checkpoint.save(state, step=state["step"])
        print(f"saved at step {state['step']}", flush=True)
        checkpoint.exit_saved()
print(f"counted to {state['step']}", flush=True)
