"""`yard cluster`: a Ray cluster on this machine for trying out, and joining one from a node."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from trackyard.cli.fleet.cluster_local import (
    NAME_LABEL,
    LocalCluster,
    find_ray,
    lives,
    node_environment,
    node_folder,
)
from trackyard.cli.output import add_json, emit_json, say, table
from trackyard.core.errors import SetupError

_GCS = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?\Z")
DEFAULT_PORT = 6379


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "cluster",
        help="start a local Ray cluster, or join one",
        description="Start a Ray cluster on this machine for trying out, or join one as a node.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    start = actions.add_parser("start", help="start a head and workers on this machine")
    start.add_argument("--workers", type=int, default=2, metavar="N", help="workers (default 2)")
    start.add_argument(
        "--gpus-per-worker",
        type=int,
        default=0,
        metavar="G",
        help="GPUs each worker declares, real or not (default 0)",
    )
    start.add_argument(
        "--cpus-per-worker", type=float, metavar="C", help="CPUs each worker offers"
    )
    join = actions.add_parser("join", help="make this machine a node of a cluster")
    join.add_argument("head", metavar="HEAD", help="the head's address, as head:6379")
    join.add_argument("--gpus", type=int, metavar="G", help="GPUs to offer (default: detected)")
    join.add_argument("--cpus", type=float, metavar="C", help="CPUs to offer (default: all)")
    join.add_argument("--name", help="what the node is called (default: its host name)")
    status = actions.add_parser("status", help="show what runs of the local cluster")
    stop = actions.add_parser("stop", help="end the local cluster")
    for one in (start, status, stop):
        one.add_argument("--home", help="home folder (default YARD_HOME or ~/.trackyard)")
    for one in (start, status):
        add_json(one)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Do what was asked."""
    return {"start": start, "join": join, "status": status, "stop": stop}[args.action](args)


def start(args: argparse.Namespace) -> int:
    """Start a head and workers, and say how to use them."""
    if args.workers < 0 or args.gpus_per_worker < 0:
        raise SetupError("a cluster has no negative number of workers or GPUs")
    cluster = LocalCluster(_folder(args))
    cpus = args.cpus_per_worker or max(1, (os.cpu_count() or 2) // max(1, args.workers))
    say("starting a Ray head and its workers; this takes half a minute")
    try:
        cluster.start(workers=args.workers, gpus=args.gpus_per_worker, cpus=cpus)
    except (SetupError, KeyboardInterrupt):
        cluster.stop()
        raise
    if args.json:
        emit_json(_facts(cluster))
        return 0
    lines = [
        "",
        f"  A Ray cluster is ready at {cluster.address}",
        "",
        f"  use it    yard up --engine ray={cluster.address}",
        f"  join it   yard cluster join {cluster.gcs}",
        "  end it    yard cluster stop",
        "",
    ]
    print("\n".join(lines))
    return 0


def status(args: argparse.Namespace) -> int:
    """Show the local cluster's processes and whether they have joined."""
    facts = _facts(LocalCluster(_folder(args)))
    if args.json:
        emit_json(facts)
    elif not facts["nodes"]:
        say("no cluster was started here; `yard cluster start` starts one")
    else:
        print(f"{facts['address']}   yard up --engine ray={facts['address']}")
        table(
            ["node", "state", "pid", "cpus", "gpus"],
            [
                (n["name"], n["state"], n["pid"], f"{n['cpus']:g}", n["gpus"])
                for n in facts["nodes"]
            ],
        )
    return 0 if facts["up"] else 1


def stop(args: argparse.Namespace) -> int:
    """End the local cluster's own processes and no others."""
    ended = LocalCluster(_folder(args)).stop()
    say(f"ended {ended} node{'s' * (ended != 1)}" if ended else "no cluster runs here")
    return 0


def join(args: argparse.Namespace) -> int:
    """Run this machine as a node of a cluster until it is interrupted."""
    if not _GCS.match(args.head):
        raise SetupError(
            f"{args.head!r} is no address of a Ray head",
            hint=f"give host and port of its GCS, as head:{DEFAULT_PORT}, without http://",
        )
    head = args.head if re.search(r":\d+\Z", args.head) else f"{args.head}:{DEFAULT_PORT}"
    ray = find_ray()
    found = _devices() if args.gpus is None else None
    gpus = args.gpus if found is None else found["count"]
    name = args.name or re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:63]
    line = [ray, "start", "--block", f"--address={head}", f"--labels={NAME_LABEL}={name}"]
    line.append(f"--num-gpus={gpus}")
    if args.cpus is not None:
        line.append(f"--num-cpus={args.cpus:g}")
    shown = f"{gpus} GPUs" if found is None or not gpus else f"{gpus} x {found['model']}"
    say(f"joining {head} as {name} with {shown}; Ctrl-C leaves")
    home = node_folder()
    try:
        return _in_foreground([*line, f"--temp-dir={home}"], node_environment(ray))
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _in_foreground(line: list[str], environment: dict[str, str]) -> int:
    process = subprocess.Popen(line, env=environment)
    asked: list[int] = []

    def leave(number: int, _frame: Any) -> None:
        asked.append(number)
        # A Ctrl-C reaches both; only Ray knows how to leave.
        if number != signal.SIGINT:
            process.send_signal(number)

    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGTERM, leave)
    code = process.wait()
    return 0 if asked or code == 0 else 1


def _devices() -> dict[str, Any]:
    """Ask the runner's own inventory for GPUs of any vendor; Ray itself sees NVIDIA's first."""
    from trackyard.engines.machine import detect

    gpus = detect().get("gpus") or []
    vendors = {str(gpu["vendor"]) for gpu in gpus}
    if len(vendors) > 1:
        raise SetupError(
            f"this machine has GPUs of {' and '.join(sorted(vendors))}",
            hint="say how many to offer with --gpus",
        )
    return {"count": len(gpus), "model": str(gpus[0]["model"]) if gpus else ""}


def _folder(args: argparse.Namespace) -> Path:
    home = args.home or os.environ.get("YARD_HOME") or "~/.trackyard"
    return Path(home).expanduser().absolute() / "cluster"


def _facts(cluster: LocalCluster) -> dict[str, Any]:
    joined = cluster.joined() if cluster.address else {}
    nodes = []
    for node in cluster.nodes:
        up = lives(node)
        there = up and (node.name == "head" or node.name in joined)
        nodes.append(
            {
                "name": node.name,
                "pid": node.pid,
                "cpus": node.cpus,
                "gpus": node.gpus,
                "state": "ready" if there else "starting" if up else "down",
                "ray_node_id": joined.get(node.name),
            }
        )
    return {
        "address": cluster.address,
        "gcs": cluster.gcs,
        "up": cluster.is_up(),
        "engine": f"ray={cluster.address}" if cluster.address else "",
        "nodes": nodes,
        "python": sys.executable,
    }
