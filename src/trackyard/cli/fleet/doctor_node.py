"""The part of `yard doctor` that looks at one node: this machine now, or another by what the
server last heard of it. Knows nothing of the rest of the installation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from trackyard.cli.fleet.nodes import check_lines, mark
from trackyard.cli.output import ago, emit_json
from trackyard.client.api import Api, home
from trackyard.runner.machine.gpus import drivers
from trackyard.runner.machine.health import CheckSubject, look

#: Verdicts of the log that are shown beside the present ones.
SHOWN = 10


def check_node(node: str, *, as_json: bool) -> int:
    """Show how a node is; the empty name is this machine. Return 1 if a check fails."""
    found = _remote(node) if node else _here()
    if as_json:
        emit_json(found)
    else:
        _draw(found)
    return 1 if found["health"] == "fail" else 0


def _here() -> dict[str, Any]:
    """Make the checks now, on this machine, with the limits that are built in."""
    engine = home() / "engine"
    folder = engine if engine.is_dir() else Path.cwd()
    subject = CheckSubject(folder=folder, drivers=drivers(engine / "gpus.json"))
    checks = look(subject, {})
    return {"node": None, "health": worst(checks), "state": None, "checks": checks, "verdicts": []}


def _remote(node: str) -> dict[str, Any]:
    """Ask the server for a node's last verdicts."""
    api = Api.from_environment()
    path = f"/api/v1/nodes/{quote(node, safe='')}"
    row = api.get(path)
    log = api.get(f"{path}/verdicts?limit={SHOWN}")["verdicts"]
    return {
        "node": row["node_id"],
        "health": row["health"],
        "state": row["state"],
        "note": row["note"],
        "checks": row["checks"],
        "verdicts": log,
    }


def worst(checks: list[dict[str, Any]]) -> str:
    """Return the gravest verdict."""
    order = ("ok", "warn", "fail")
    return max((check["verdict"] for check in checks), key=order.index, default="unknown")


def _draw(found: dict[str, Any]) -> None:
    name = found["node"] or "this machine"
    state = f", {found['state']}" if found["state"] else ""
    note = f" ({found['note']})" if found.get("note") else ""
    print(f"{name}: {found['health']}{state}{note}")
    for line in check_lines(found["checks"]):
        print(line)
    if found["verdicts"]:
        print("\nlast verdicts")
        for one in found["verdicts"]:
            print(f"  {ago(one['at_ms']):<12} {mark(one['verdict'])} {one['name']:<12}"
                  f" {one['sentence']}")  # fmt: skip
