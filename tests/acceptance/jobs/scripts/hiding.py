"""Forks children that hide: own session, no parent, no open files, an empty environment."""

import os
import sys
import time
from pathlib import Path

folder = Path(sys.argv[1])
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            program = (
                "import os, pathlib, signal, time\n"
                "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                f"pathlib.Path({str(folder)!r}, 'hidden-{number}').write_text(str(os.getpid()))\n"
                "time.sleep(600)\n"
            )
            os.execve(sys.executable, [sys.executable, "-c", program], {})
        os._exit(0)
print("forked", flush=True)
time.sleep(600)
