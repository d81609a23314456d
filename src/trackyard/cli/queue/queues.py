"""`yard queues`: the queues, their rules and what is in them."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli.amounts import size_words
from trackyard.cli.output import duration, table
from trackyard.cli.watching import add_watch, present
from trackyard.client.api import Api

_WORDS = (
    ("quota_gpus", "{:g} gpus at once"),
    ("max_running", "{:g} jobs at once"),
    ("max_gpus_per_job", "{:g} gpus a job"),
    ("max_nodes_per_job", "{:g} nodes a job"),
    ("max_gpus_per_user", "{:g} gpus a user"),
    ("max_running_per_user", "{:g} jobs a user"),
    ("max_cpus_per_job", "{:g} cpus a job"),
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    add_arguments(subparsers.add_parser("queues", help="list queues"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Make a parser one that lists queues."""
    add_watch(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """List the queues."""
    api = Api.from_environment()
    return present(
        args,
        lambda: api.get("/api/v1/queues")["queues"],
        draw,
        each=lambda rows: [(row["name"], row) for row in rows],
    )


def draw(rows: list[dict[str, Any]]) -> None:
    """Print queues as a table."""
    table(
        ["queue", "waiting", "running", "gpus in use", "order", "teams", "limits"],
        [
            (
                row["name"],
                row["queued"],
                row["running"],
                row["gpus_running"],
                row["settings"].get("order") or "default",
                ",".join(row["settings"].get("teams") or []) or "all",
                rules(row["settings"]) or "none",
            )
            for row in rows
        ],
    )


def rules(settings: dict[str, Any]) -> str:
    """Say a queue's limits."""
    words = [text.format(settings[key]) for key, text in _WORDS if settings.get(key) is not None]
    if settings.get("max_wall_seconds") is not None:
        words.append(f"{duration(settings['max_wall_seconds'])} a job")
    if settings.get("max_memory_per_job_bytes") is not None:
        words.append(f"{size_words(settings['max_memory_per_job_bytes'])} a job")
    if settings.get("gang"):
        words.append(f"gang {settings['gang']}")
    words += _defaults(settings)
    words += [f"{name} for {role}s" for name, role in (settings.get("classes") or {}).items()]
    kind = settings.get("preemptible_default")
    if kind in ("yes", "always"):
        words.append("preemptible by default" if kind == "yes" else "always preemptible")
    return ", ".join(words)


def _defaults(settings: dict[str, Any]) -> list[str]:
    """Say what jobs of a queue get that state no CPUs or no memory."""
    words = []
    for key, ending in (("", ""), ("_per_gpu", " a gpu")):
        if settings.get(f"default_cpus{key}") is not None:
            words.append(f"{settings[f'default_cpus{key}']:g} cpus{ending} by default")
        if settings.get(f"default_memory{key}_bytes") is not None:
            size = size_words(settings[f"default_memory{key}_bytes"])
            words.append(f"{size}{ending} by default")
    if settings.get("zero_cpus") is False:
        words.append("no jobs without cpus")
    return words
