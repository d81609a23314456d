"""Counts aloud, a line every 50 ms; before the last one it waits for a file, if named."""

import sys
import time
from pathlib import Path

count, gate = int(sys.argv[1]), sys.argv[2:]
for number in range(count):
    while number == count - 1 and gate and not Path(gate[0]).exists():
        time.sleep(0.05)
    print(f"line {number:05d}", flush=True)
    time.sleep(0.05)
