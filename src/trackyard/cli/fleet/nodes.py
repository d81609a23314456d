"""`yard nodes`: the machines, their GPUs, who is on them, their health and their labels."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import quote

from trackyard.cli.amounts import pair, size_words
from trackyard.cli.fleet.drain import moment_words
from trackyard.cli.output import emit_json, say, table
from trackyard.cli.watching import add_watch, present
from trackyard.client.api import Api
from trackyard.core.errors import SetupError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("nodes", help="list nodes, their GPUs and who is on them")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="NODE",
        help="one node, GPU by GPU; or `label NODE NAME=VALUE NAME- …` to set and remove labels",
    )
    add_watch(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """List the nodes, show one, or set its labels."""
    api = Api.from_environment()
    if args.words[:1] == ["label"] and len(args.words) > 1:
        return _label(args, api)
    if len(args.words) > 1:
        raise SetupError(
            f"one node at a time, not {', '.join(args.words)}",
            hint="`yard nodes NODE` shows one, `yard nodes label NODE NAME=VALUE` labels it",
        )
    if args.words:
        path = f"/api/v1/nodes/{quote(args.words[0], safe='')}"
        return present(args, lambda: api.get(path), draw_node)
    return present(
        args,
        lambda: api.get("/api/v1/nodes")["nodes"],
        draw,
        each=lambda rows: [(row["node_id"], row) for row in rows],
    )


def label_wish(words: list[str]) -> dict[str, Any]:
    """Read `NAME=VALUE` to set and `NAME-` to remove."""
    if not words:
        raise SetupError("no label is named", hint="write NAME=VALUE to set one, NAME- to remove")
    set_ = dict(pair(word, what="label") for word in words if "=" in word)
    rest = [word for word in words if "=" not in word]
    wrong = [word for word in rest if not word.endswith("-") or word == "-"]
    if wrong:
        raise SetupError(
            f"{wrong[0]!r} is no label", hint="write NAME=VALUE to set one, NAME- to remove one"
        )
    return {"set": set_, "remove": [word[:-1] for word in rest]}


def _label(args: argparse.Namespace, api: Api) -> int:
    node, wish = args.words[1], label_wish(args.words[2:])
    row = api.call("PUT", f"/api/v1/nodes/{quote(node, safe='')}/labels", body=wish)
    if args.json:
        emit_json(row)
        return 0
    shown = ", ".join(f"{name}={value}" for name, value in sorted(row["own_labels"].items()))
    say(f"{row['node_id']} has {'the labels ' + shown if shown else 'no label of yours'}")
    return 0


def draw(rows: list[dict[str, Any]]) -> None:
    """Print nodes as a table."""
    table(
        ["node", "state", "health", "gpus", "free", "cpus free", "memory free", "jobs", "note"],
        [
            (
                row["node_id"],
                row["state"],
                row["health"],
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
        ("state", _state(row)),
        ("health", row["health"]),
        ("hardware", _hardware(row["properties"])),
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
    if row["checks"]:
        print()
        for line in check_lines(row["checks"]):
            print(line)
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


def _state(row: dict[str, Any]) -> str:
    until = f" until {moment_words(row['until_ms'])}" if row["until_ms"] else ""
    note = f" ({row['note']}, by {row['actor']})" if row["note"] else ""
    return f"{row['state']}{until}{note}"


def _hardware(found: dict[str, Any]) -> str:
    if not found["gpu_count"]:
        return found["node_class"] if found["node_class"] != "cpu" else ""
    memory = f", {size_words(found['gpu_memory_bytes'])} each" if found["gpu_memory_bytes"] else ""
    words = [f"{found['gpu_count']}x{found['gpu_model']} ({found['gpu_vendor']}{memory})"]
    names = {"driver": "driver", "cuda": "CUDA", "rocm": "ROCm"}
    words += [f"{word} {found[name]}" for name, word in names.items() if found[name]]
    if found["node_class"] != found["gpu_model"]:
        words.append(f"class {found['node_class']}")
    return ", ".join(words)


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


def check_lines(checks: list[dict[str, Any]]) -> list[str]:
    """Say each check in a line: verdict, name, sentence, and how often in a row it failed."""
    lines = []
    for check in checks:
        failed = check.get("failed", 0)
        row = f" ({failed} looks in a row)" if failed > 1 else ""
        lines.append(f"{mark(check['verdict'])} {check['name']:<12} {check['sentence']}{row}")
    return lines


def mark(verdict: str) -> str:
    """Write a verdict in four columns."""
    return {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}.get(verdict, verdict)
