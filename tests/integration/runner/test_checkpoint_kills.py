"""A writer killed at random moments never leaves a checkpoint that is not whole."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy

from tests.integration.runner.conftest import wait_until
from trackyard.checkpoint import state as states
from trackyard.checkpoint.saver import Saver
from trackyard.checkpoint.store import CheckpointFolder

#: on each line it reads, forks a writer that saves as fast as it can until it is killed;
#: every value of a checkpoint equals its step
NURSERY = """
import os, signal, sys, numpy
from trackyard import checkpoint
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in sys.stdin:
    pid = os.fork()
    if pid:
        print(pid, flush=True)
        continue
    saver = checkpoint.configure(sys.argv[1], keep=2, upload=sys.argv[2])
    found = checkpoint.latest(checksums=False)
    step = found.step if found else 0
    while True:
        step += 1
        state = {f'w{n}': numpy.full(2000, step) for n in range(8)}
        checkpoint.save(state, step=step, wait=step % 2 == 0)
"""
ROUNDS = 40


def test_resume_always_finds_a_whole_checkpoint_that_never_goes_back(tmp_path: Path) -> None:
    chance = random.Random(7)
    here, there = tmp_path / "here", tmp_path / "there"
    last = 0
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY, str(here), str(there)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        for number in range(ROUNDS):
            nursery.stdin.write("\n")
            nursery.stdin.flush()
            writer = int(nursery.stdout.readline())
            if number % 4 == 0:
                # However slow the machine is, some of them get to save.
                wait_until(lambda before=last: newest(here) > before, "it never saved")
            time.sleep(chance.uniform(0, 0.25))
            os.kill(writer, signal.SIGKILL)
            while Path(f"/proc/{writer}").exists():
                time.sleep(0.001)
            last = max(last, check(here, at_least=last))
            check(there, at_least=0)
        nursery.stdin.close()
    assert last >= ROUNDS / 4, "the writers hardly ever got to save"


def newest(folder: Path) -> int:
    pointer = folder / "latest.json"
    try:
        return int(json.loads(pointer.read_text())["step"])
    except FileNotFoundError:
        return 0


def check(folder: Path, *, at_least: int) -> int:
    found = Saver(folder).latest()
    if found is None:
        assert at_least == 0
        return 0
    assert found.step >= at_least
    loaded = states.load(found)
    assert all((array == found.step).all() for array in loaded.values())
    assert len(loaded) == 8
    assert isinstance(loaded["w0"], numpy.ndarray)
    for complete in CheckpointFolder(folder).complete():
        assert complete.check() is None, f"{complete.name} looks complete and is not"
    pointer = folder / "latest.json"
    if pointer.exists():
        named = folder / json.loads(pointer.read_text())["name"]
        assert (named / "manifest.json").exists(), "latest names what is not there"
    return found.step
