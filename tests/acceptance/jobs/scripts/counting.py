"""Counts aloud, a line every 50 ms, and logs each number as a metric with stock calls or none."""

import sys
import time

for number in range(int(sys.argv[1])):
    print(f"line {number:05d}", flush=True)
    time.sleep(0.05)
