"""`yard simulate`: replay a trace under one or several policies and compare them.

Owns the verb's arguments and its tables. The replay is in trackyard.simulate.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from trackyard.cli.queue.simulate_live import changed, read_live
from trackyard.core.errors import InvalidInput
from trackyard.core.node import Node
from trackyard.core.reasons import duration_words
from trackyard.simulate.cluster import read_cluster
from trackyard.simulate.measures import Measures
from trackyard.simulate.packing import PLACEMENTS, PackingResult, pack
from trackyard.simulate.plot import draw
from trackyard.simulate.readers import read_trace
from trackyard.simulate.replay import Costs, Habits
from trackyard.simulate.runs import POLICIES, even_quotas, replay, setting_for
from trackyard.simulate.trace import JobTrace

_EPILOG = """examples:
  yard simulate --trace philly.csv.gz --nodes 640 --policy fifo,sjf-oracle,default
  yard simulate --trace jobs.swf --nodes 16x8 --policy default --plot waits.png
  yard simulate --trace openb_pod_list_default.csv.gz --nodes openb_node_list_gpu_node.csv.gz \\
      --policy random,bestfit,default --arrive 100%
  yard simulate --from live --add 8xH100
  yard simulate --from live --policy default,fifo"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "simulate",
        help="replay a trace under scheduling policies",
        description="Replay a trace of jobs through the scheduler and compare policies.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trace", type=Path, help="trace file, also gzipped")
    _add_live(parser)
    parser.add_argument("--nodes", help="GPUs in one pool, NxM nodes by GPUs, or a node-list file")
    parser.add_argument(
        "--policy",
        help=f"one or several of {', '.join(POLICIES)}; with --arrive: {', '.join(PLACEMENTS)}",
    )
    parser.add_argument(
        "--arrive", help="packing instead of replay: let jobs arrive until this much was asked for"
    )
    parser.add_argument("--seed", type=int, default=42, help="order of arrival with --arrive")
    parser.add_argument("--limit", type=int, help="replay only the first jobs")
    parser.add_argument(
        "--placement",
        default="default",
        choices=["default", "bestfit", "spread"],
        help="placement",
    )
    _add_habits(parser)
    parser.add_argument("--plot", type=Path, help="draw use and waiting over time into this file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(func=run)


def _add_habits(parser: argparse.ArgumentParser) -> None:
    """Add what jobs do: what they save, state and may hold."""
    parser.add_argument(
        "--checkpoint-cost",
        default="7,30,60",
        help="seconds that a preemption costs a job of one, up to eight, more GPUs",
    )
    parser.add_argument(
        "--preemptible",
        type=float,
        default=Habits().preemptible_share,
        metavar="SHARE",
        help="part of the jobs that are preemptible (default: none, as with `yard submit`)",
    )
    parser.add_argument(
        "--checkpoint-every",
        type=float,
        default=Habits().checkpoint_seconds,
        metavar="SECONDS",
        help="time between their checkpoints; work since is lost on a stop (0: saved when told)",
    )
    parser.add_argument(
        "--stated",
        type=float,
        default=Habits().stated_share,
        metavar="SHARE",
        help="part of the jobs that state their run time; the others are learned",
    )
    parser.add_argument(
        "--overestimate", type=float, default=1.0, help="factor on run times that are stated"
    )
    parser.add_argument(
        "--quotas", action="store_true", help="give each team a quota by its part of the work"
    )


def _add_live(parser: argparse.ArgumentParser) -> None:
    """Add what goes with the server's own past."""
    parser.add_argument(
        "--from",
        dest="source",
        choices=["live"],
        help="replay the server's own past jobs on its present nodes (admins)",
    )
    parser.add_argument("--days", type=int, default=30, help="days back with --from live")
    parser.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="NxTYPE",
        help="with --from live: a further node, as in 8xH100, or 4*8xH100 for four",
    )
    parser.add_argument(
        "--remove",
        action="append",
        default=[],
        metavar="NODE",
        help="with --from live: without it",
    )


class Case(NamedTuple):
    """One column: a policy on a cluster."""

    label: str
    policy: str
    nodes: tuple[Node, ...]


def run(args: argparse.Namespace) -> int:
    """Carry out the verb."""
    trace, cases = _cases(args)
    if args.arrive is not None:
        return _pack(args, trace, cases[0].nodes, [case.policy for case in cases])
    costs = _costs(args)
    rows: list[Measures] = []
    outcomes = []
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        for case in cases:
            setting = setting_for(
                case.policy,
                habits=_habits(args),
                costs=costs,
                style=args.placement,
                teams=even_quotas(trace, case.nodes) if args.quotas else (),
            )
            task = bar.add_task(case.label, total=len(trace.jobs))
            measures, outcome = replay(
                trace, case.nodes, setting, progress=partial(_show, bar, task)
            )
            bar.update(task, completed=len(trace.jobs))
            rows.append(replace(measures, policy=case.label))
            outcomes.append(outcome)
    if args.plot is not None:
        draw(outcomes, args.plot)
    if args.json:
        head = {"trace": trace.name, "format": trace.format, "jobs": len(trace.jobs)}
        print(json.dumps({**head, "policies": [row.as_dict() for row in rows]}, indent=2))
    else:
        # Figures are never cut: a narrow terminal wraps the lines, a pipe gets them whole.
        Console(
            width=max(Console().width, 36 + 14 * len(rows) + sum(len(row.policy) for row in rows))
        ).print(_table(trace, rows))
    return 0


def _cases(args: argparse.Namespace) -> tuple[JobTrace, list[Case]]:
    """Return the trace and what to replay it under."""
    live = args.source == "live"
    names = [name.strip() for name in (args.policy or "").split(",") if name.strip()]
    if not live:
        if args.trace is None or args.nodes is None or args.add or args.remove:
            raise InvalidInput(
                "give --trace and --nodes, or --from live, which --add and --remove go with"
            )
        trace, nodes = read_trace(args.trace, limit=args.limit), read_cluster(args.nodes)
        return trace, [Case(name, name, nodes) for name in names or ["fifo", "default"]]
    if args.trace is not None:
        raise InvalidInput("--trace and --from live exclude each other; leave one out")
    trace, today = read_live(args.days, args.limit)
    base = today if args.nodes is None else read_cluster(args.nodes)
    wanted = changed(base, args.add, args.remove)
    first = names[0] if len(names) > 1 else "default"
    cases = [Case("today", first, today)]
    cases += [
        Case(_label(args, name, wanted != today), name, wanted)
        for name in names or ["default"]
        if wanted != today or name != first
    ]
    return trace, cases


def _label(args: argparse.Namespace, policy: str, is_changed: bool) -> str:
    words = [f"+{one}" for one in args.add] + [f"-{one}" for one in args.remove]
    if is_changed and args.nodes is not None:
        words.insert(0, args.nodes)
    return " ".join([*words, *([policy] if policy != "default" or not words else [])])


def _show(bar: Progress, task: TaskID, done: int) -> None:
    bar.update(task, completed=done)


def _costs(args: argparse.Namespace) -> Costs:
    try:
        one, few, many = (float(part) for part in args.checkpoint_cost.split(","))
    except ValueError:
        message = "--checkpoint-cost takes three numbers of seconds, for example 7,30,60"
        raise InvalidInput(message) from None
    return Costs(one=one, few=few, many=many)


def _habits(args: argparse.Namespace) -> Habits:
    for name in ("preemptible", "stated"):
        if not 0 <= getattr(args, name) <= 1:
            raise InvalidInput(f"--{name} is a part of all jobs: give a number from 0 to 1")
    if args.checkpoint_every < 0 or args.overestimate <= 0:
        raise InvalidInput("--checkpoint-every must not be negative, --overestimate positive")
    return Habits(
        preemptible_share=args.preemptible,
        checkpoint_seconds=args.checkpoint_every,
        stated_share=args.stated,
        overestimate=args.overestimate,
    )


def _pack(
    args: argparse.Namespace, trace: JobTrace, nodes: tuple[Node, ...], names: list[str]
) -> int:
    try:
        percent = float(args.arrive.rstrip("%"))
    except ValueError:
        message = f"--arrive takes a percentage such as 100%, not `{args.arrive}`"
        raise InvalidInput(message) from None
    for name in names:
        if name not in PLACEMENTS:
            message = f"With --arrive a policy is one of {', '.join(PLACEMENTS)}, not `{name}`"
            raise InvalidInput(message)
    rows = [
        pack(trace, nodes, placement=name, seed=args.seed, arrive_percent=percent)
        for name in names
    ]
    if args.json:
        found = [{field: getattr(row, field) for field in PackingResult.__slots__} for row in rows]
        print(json.dumps({"trace": trace.name, "placements": found}, indent=2))
        return 0
    table = Table(title=f"{trace.name}: {percent:g} % of all GPUs asked for")
    for column in ("placement", "allocated %", "fragmented %", "placed", "refused"):
        table.add_column(column, justify="left" if column == "placement" else "right")
    for row in rows:
        table.add_row(
            row.placement,
            f"{row.allocated_percent:.2f}",
            f"{row.fragmented_percent:.2f}",
            f"{row.placed:,}",
            f"{row.refused:,}",
        )
    Console().print(table)
    return 0


def _table(trace: JobTrace, rows: list[Measures]) -> Table:
    """One column per policy, one line per figure."""
    table = Table(title=f"{trace.name} ({trace.format}): {len(trace.jobs):,} jobs")
    table.add_column("figure", no_wrap=True)
    for row in rows:
        table.add_column(row.policy, justify="right", no_wrap=True)
    for label, show in _FIGURES:
        table.add_row(label, *(show(row) for row in rows))
    return table


_FIGURES: tuple[tuple[str, Callable[[Measures], str]], ...] = (
    ("completion, average s", lambda m: f"{m.average_completion_seconds:,.0f}"),
    ("completion, p50 s", lambda m: f"{m.p50_completion_seconds:,.0f}"),
    ("completion, p90 s", lambda m: f"{m.p90_completion_seconds:,.0f}"),
    ("completion, p99 s", lambda m: f"{m.p99_completion_seconds:,.0f}"),
    ("wait, average s", lambda m: f"{m.average_wait_seconds:,.0f}"),
    ("wait, p50 s", lambda m: f"{m.p50_wait_seconds:,.0f}"),
    ("wait, p90 s", lambda m: f"{m.p90_wait_seconds:,.0f}"),
    ("wait, p99 s", lambda m: f"{m.p99_wait_seconds:,.0f}"),
    ("makespan", lambda m: duration_words(m.makespan_seconds)),
    ("GPUs in use, %", lambda m: f"{m.utilisation_percent:.1f}"),
    ("fragmented while jobs wait, %", lambda m: f"{m.idle_while_waiting_percent:.1f}"),
    ("fairness between teams", lambda m: f"{m.fairness:.3f}"),
    ("worst finish-time fairness", lambda m: f"{m.worst_finish_time_fairness:.2f}"),
    ("jobs treated unfairly, %", lambda m: f"{m.unfair_percent:.1f}"),
    (
        "deadlines met, %",
        lambda m: "-" if m.deadlines_met_percent is None else f"{m.deadlines_met_percent:.1f}",
    ),
    ("preemptions", lambda m: f"{m.preemptions:,}"),
    ("GPU-hours wasted", lambda m: f"{m.wasted_gpu_hours:,.0f}"),
    ("jobs that never fit", lambda m: f"{m.impossible_jobs:,}"),
    ("replayed in, CPU s", lambda m: f"{m.replay_seconds:.1f}"),
)
