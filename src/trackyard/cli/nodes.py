"""`yard nodes`: the machines, their GPUs and who is on them."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli.amounts import size_words
from trackyard.cli.output import table
from trackyard.cli.watching import add_watch, present
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("nodes", help="list nodes, their GPUs and who is on them")
    parser.add_argument("node", nargs="?", help="one node, GPU by GPU")
    add_watch(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """List the nodes, or show one."""
    api = Api.from_environment()
    if args.node:
        return present(args, lambda: api.get(f"/api/v1/nodes/{args.node}"), draw_node)
    return present(
        args,
        lambda: api.get("/api/v1/nodes")["nodes"],
        draw,
        each=lambda rows: [(row["node_id"], row) for row in rows],
    )


def draw(rows: list[dict[str, Any]]) -> None:
    """Print nodes as a table."""
    table(
        ["node", "state", "gpus", "free", "cpus free", "memory free", "jobs", "note"],
        [
            (
                row["node_id"],
                row["state"],
                _gpus(row),
                f"{sum(gpu['free'] for gpu in row['gpus']):g}",
                f"{row['free_cpus']:g} of {row['cpus']:g}",
                f"{size_words(row['free_memory_bytes'])} of {size_words(row['memory_bytes'])}",
                row["job_count"],
                row["note"] or None,
            )
            for row in rows
        ],
        empty="there is no node: nothing offers GPUs or CPUs to jobs yet",
    )


def draw_node(row: dict[str, Any]) -> None:
    """Print one node, GPU by GPU."""
    facts = [
        ("node", row["node_id"]),
        ("host", row["hostname"]),
        ("state", row["state"] + (f" ({row['note']}, by {row['actor']})" if row["note"] else "")),
        ("cpus", f"{row['free_cpus']:g} of {row['cpus']:g} free"),
        (
            "memory",
            f"{size_words(row['free_memory_bytes'])} of {size_words(row['memory_bytes'])} free",
        ),
        ("labels", ", ".join(f"{key}={value}" for key, value in sorted(row["labels"].items()))),
        ("jobs", ", ".join(row["jobs"])),
        *(("note", note) for note in row["notes"]),
    ]
    for name, value in facts:
        if value:
            print(f"{name:<11} {value}")
    if row["gpus"]:
        print()
        table(
            ["gpu", "type", "memory", "free", "held by"],
            [
                (
                    gpu["index"],
                    gpu["type"],
                    size_words(gpu["memory_bytes"]) if gpu["memory_bytes"] else None,
                    f"{gpu['free']:g}",
                    holders(gpu) or None,
                )
                for gpu in row["gpus"]
            ],
        )


def holders(gpu: dict[str, Any]) -> str:
    """Say who is on a GPU."""
    words = []
    for one in gpu["holders"]:
        part = f" ({one['share']:g})" if one["share"] < 1 else ""
        words.append(f"{one['name'] or one['team']}{part}")
    return ", ".join(words)


def _gpus(row: dict[str, Any]) -> str:
    kinds: dict[str, int] = {}
    for gpu in row["gpus"]:
        kinds[gpu["type"]] = kinds.get(gpu["type"], 0) + 1
    return ", ".join(f"{count}x{kind}" for kind, count in kinds.items()) or "-"
