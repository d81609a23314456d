"""Several ranks on one machine over gloo, forked from a process that has torch loaded already."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _member(
    rank: int, world: int, port: int, work: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    try:
        code = work(*args)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(3)
    os._exit(int(code or 0))


def run(world: int, work: Callable[..., Any], *args: Any, seconds: float = 240.0) -> list[int]:
    """Run `work` on every rank; return the exit codes. A rank that dies ends the others."""
    context = multiprocessing.get_context("fork")
    port = free_port()
    members = [
        context.Process(target=_member, args=(rank, world, port, work, args))
        for rank in range(world)
    ]
    for one in members:
        one.start()
    for one in members:
        one.join(seconds)
    for one in members:
        if one.is_alive():
            one.kill()
            one.join()
    return [int(one.exitcode or 0) for one in members]
