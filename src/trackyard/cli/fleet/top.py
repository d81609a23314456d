"""`yard top`: nodes, GPUs and jobs, live. Quits on q or Ctrl-C; in a pipe it prints once."""

from __future__ import annotations

import argparse
import contextlib
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from trackyard.cli.fleet.nodes import holders
from trackyard.cli.jobs.jobview import (
    ACTIVE,
    label,
    now_ms,
    request_words,
    state_word,
    story,
    wait_seconds,
    wall_seconds,
)
from trackyard.cli.jobs.listing import list_jobs
from trackyard.cli.output import STATE_COLOURS, duration
from trackyard.cli.watching import add_watch, present
from trackyard.client.api import Api, Unreachable

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

JOBS_SHOWN = 200
_BAR = 10
_QUIT = ("q", "Q", "\x03", "\x04")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("top", help="nodes, GPUs and jobs, live")
    parser.add_argument("--all-teams", action="store_true", help="jobs of every team (admins)")
    add_watch(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Show the yard until told to quit."""
    api = Api.from_environment()

    def fetch() -> dict[str, Any]:
        cluster = api.get("/api/v1/cluster")
        found = list_jobs(api, states=ACTIVE, limit=JOBS_SHOWN, everyone=args.all_teams)
        return {**cluster, "jobs": found["jobs"], "counts": found["counts"]}

    is_live = sys.stdin.isatty() and sys.stdout.isatty() and not args.json
    if not is_live:
        return present(args, fetch, _draw)
    return _live(fetch, args.interval)


def _draw(page: dict[str, Any]) -> None:
    from rich.console import Console

    width = None if sys.stdout.isatty() else 120
    Console(width=width).print(screen(page, now_ms()))


def _live(fetch: Any, interval: float) -> int:
    from rich.live import Live
    from rich.text import Text

    shown: RenderableType = Text("looking…")
    with _keys() as pressed, Live(shown, screen=True, auto_refresh=False) as live:
        while True:
            try:
                shown = screen(fetch(), now_ms())
            except Unreachable as fault:
                shown = Text(f"{fault}\ntrying again; q quits")
            live.update(shown, refresh=True)
            if pressed(max(0.2, interval)):
                return 0


@contextlib.contextmanager
def _keys() -> Iterator[Any]:
    """Read single keys while inside; the terminal is put back whatever happens."""
    source = sys.stdin.fileno()
    before = termios.tcgetattr(source)

    def pressed(seconds: float) -> bool:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            ready, _, _ = select.select([source], [], [], left)
            if ready and sys.stdin.read(1) in _QUIT:
                return True
        return False

    try:
        tty.setcbreak(source)
        yield pressed
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, before)


def screen(page: dict[str, Any], now: int) -> Group:
    """Draw the yard: totals, nodes with their GPUs, jobs, and demand that cannot be met."""
    from rich.console import Group
    from rich.text import Text

    totals = page["totals"]
    head = (
        f"nodes ready {totals['nodes_ready']} of {totals['nodes']}"
        f"   gpus in use {totals['gpus_held']:g} of {totals['gpus']}"
        f"   jobs running {totals['jobs_running']}, waiting {totals['jobs_queued']}"
        f" (for {totals['gpus_wanted']:g} gpus)"
    )
    parts: list[RenderableType] = [Text(head, style="bold"), Text(""), _nodes(page["nodes"])]
    if page["jobs"]:
        parts += [Text(""), _jobs(page["jobs"], now)]
    short = [one for one in page["demand"] if one["reason"]["tier"] == "infeasible"]
    if short:
        parts += [Text(""), Text("cannot be met with what is here", style="bold")]
        parts += [Text(f"  {_demand(one)}") for one in short]
    return Group(*parts)


def _grid(*headers: str) -> Table:
    from rich.table import Table

    # The last column takes what the others leave, and is cut rather than wrapped.
    drawn = Table(box=None, header_style="bold", pad_edge=False, expand=True)
    for header in headers[:-1]:
        drawn.add_column(header.upper(), overflow="ellipsis", no_wrap=True)
    drawn.add_column(headers[-1].upper(), overflow="ellipsis", no_wrap=True, ratio=1)
    return drawn


def _nodes(nodes: list[dict[str, Any]]) -> Table:
    drawn = _grid("node", "state", "gpu", "type", "in use", "held by")
    for node in nodes:
        first = [node["node_id"], node["state"]]
        if not node["gpus"]:
            used = node["cpus"] - node["free_cpus"]
            cpus = f"{used:g} of {node['cpus']:g} cpus"
            drawn.add_row(*first, "-", "-", cpus, ", ".join(node["jobs"]) or "-")
        for gpu in node["gpus"]:
            share = 1 - gpu["free"]
            drawn.add_row(*first, str(gpu["index"]), gpu["type"], bar(share), holders(gpu) or "-")
            first = ["", ""]
    return drawn


def bar(share: float) -> str:
    """Draw a share of one as a bar with its number."""
    full = round(max(0.0, min(1.0, share)) * _BAR)
    return f"{'█' * full}{'░' * (_BAR - full)} {share:4.0%}"


def _jobs(jobs: list[dict[str, Any]], now: int) -> Table:
    from rich.text import Text

    drawn = _grid("job", "name", "state", "user", "gpus", "wait", "wall", "why / progress")
    rank = {"running": 0, "starting": 1, "queued": 2}
    order = sorted(
        jobs, key=lambda job: (rank[job["state"]], job.get("position") or 0, job["submitted_ms"])
    )
    for job in order:
        state = state_word(job)
        drawn.add_row(
            job["job_id"],
            label(job),
            Text(state, style=STATE_COLOURS.get(state, "")),
            job["user"],
            request_words(job),
            duration(wait_seconds(job, now)),
            duration(wall_seconds(job, now)),
            story(job),
        )
    return drawn


def _demand(one: dict[str, Any]) -> str:
    jobs = "1 job" if one["jobs"] == 1 else f"{one['jobs']} jobs"
    named = f" ({', '.join(one['job_ids'])})" if one["job_ids"] else ""
    return f"{jobs}{named}: {one['reason']['sentence']}"
