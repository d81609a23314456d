"""A node falls ill and heals, seen and told by `yard` alone.

The GPUs are those that `gpus.json` tells of, the operator's own door to hardware without a known
driver; shrinking it is a GPU that is lost.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.jobs_cli.yarding import JobServer, Yard, end_all

CONFIG = """
[health]
every_seconds = 1
quarantine_after = 2
lift_after = 2
"""


def tell(home: Path, *indexes: int, **more: Any) -> None:
    """Write which GPUs are there and how they are doing."""
    gpus = [{"index": n, "model": "X1", "memory_bytes": 8 << 30, **more} for n in indexes]
    beside = home / "engine" / "gpus.new"
    beside.write_text(json.dumps(gpus))
    beside.replace(home / "engine" / "gpus.json")


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "yard.toml").write_text(CONFIG)
    home = folder / "home"
    (home / "engine").mkdir(parents=True)
    tell(home, 0, 1, temperature_celsius=40)
    server = JobServer(home, gpus=-1, more=["--config", str(folder / "yard.toml")])
    server.start()
    user = folder / "user"
    user.mkdir()
    yield Yard(server, user)
    server.kill()
    end_all(home)


def only_node(yard: Yard) -> dict[str, Any]:
    (found,) = yard.read("nodes")
    return dict(found)


def until(yard: Yard, test: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Look at the node until something is so."""
    ends = time.monotonic() + 150
    while True:
        rows = yard.read("nodes")
        if rows and test(rows[0]):
            return dict(rows[0])
        assert time.monotonic() < ends, rows
        time.sleep(0.2)


def test_a_node_that_loses_a_gpu_is_quarantined_and_given_back(yard: Yard) -> None:
    """What runs goes on, what waits knows why, and starts by itself once the node is whole."""
    row = until(yard, lambda row: row["health"] == "ok")
    node, home = row["node_id"], yard.server.home
    assert (row["properties"]["gpu_count"], row["properties"]["gpu_model"]) == (2, "X1")
    running = yard.submit("--gpus", "1", "--", "sleep", "600")
    yard.until_state(running, "running")

    tell(home, 0, temperature_celsius=40)
    row = until(yard, lambda row: row["state"] == "quarantined")
    assert row["note"] == "gpus: 1 of 2 GPUs is gone; it reports 1"
    waiting = yard.submit("--gpus", "1", "--", "true")
    yard.until(waiting, lambda page: page["reasons"][0]["tier"] != "evaluating")
    why = yard.read("why", waiting)
    assert why["reasons"][0]["code"] == "nodes_unhealthy"
    assert f"{node} (quarantined: gpus: 1 of 2 GPUs is gone" in why["reasons"][0]["sentence"]
    doctor = yard.run("doctor", "--node", node)
    assert doctor.code == 1
    assert f"{node}: fail, quarantined" in doctor.out
    assert "FAIL gpus         1 of 2 GPUs is gone; it reports 1." in doctor.out
    assert yard.page(running)["job"]["state"] == "running"

    tell(home, 0, 1, temperature_celsius=40)
    yard.until_state(waiting, "succeeded")
    row = only_node(yard)
    assert (row["state"], row["health"]) == ("ready", "ok")
    yard.ok("stop", running)
    events = [(one["kind"], one["data"].get("sentence", "")) for one in yard.read("events")]
    quarantined = next(words for kind, words in events if kind == "node.quarantined")
    assert quarantined.endswith("What runs there goes on; nothing new starts.")
    assert any(kind == "node.unquarantined" for kind, _ in events)
    assert yard.run("doctor", "--node", node).code == 0


def test_a_hot_gpu_quarantines_and_an_operator_may_overrule(yard: Yard) -> None:
    """Quarantine and drain by hand hold until they are undone; labels are kept."""
    row = until(yard, lambda row: row["health"] == "ok")
    node, home = row["node_id"], yard.server.home
    tell(home, 0, 1, temperature_celsius=99)
    row = until(yard, lambda row: row["state"] == "quarantined")
    assert row["note"] == "temperature: GPU 0 is at 99 °C; its limit is 95 °C"
    tell(home, 0, 1, temperature_celsius=50)
    until(yard, lambda row: row["state"] == "ready")

    yard.ok("quarantine", node, "--why", "fans are loud")
    yard.ok("nodes", "label", node, "rack=r1", "class=small")
    job = yard.submit("--gpus", "1", "--label", "rack=r1", "--", "true")
    yard.until(job, lambda page: page["reasons"][0]["tier"] != "evaluating")
    assert "quarantined: fans are loud" in yard.ok("why", job)
    time.sleep(3)
    row = only_node(yard)
    assert (row["state"], row["health"], row["state_by"]) == ("quarantined", "ok", "operator")
    yard.ok("undrain", node)
    yard.until_state(job, "succeeded")
    yard.ok("drain", node, "--note", "new disk", "--until", "2s")
    row = until(yard, lambda row: row["state"] == "ready")
    kinds = [one["kind"] for one in yard.read("events", "--kind", "node.")]
    assert "node.drained" in kinds
    assert row["own_labels"] == {"rack": "r1", "class": "small"}
    assert row["properties"]["node_class"] == "small"


def test_refusals_say_what_to_do(yard: Yard) -> None:
    node = only_node(yard)["node_id"]
    for words, code, told in (
        (["nodes", "nosuch"], 3, "`yard nodes` lists the nodes"),
        (["drain", "nosuch"], 3, "`yard nodes` lists the nodes"),
        (["quarantine", node, "--why", " "], 2, "say why"),
        (["nodes", "label", node, "a b=1"], 2, "is no name of a label"),
        (["nodes", "label", node, "rack"], 2, "NAME=VALUE"),
        (["drain", node, "--until", "soon"], 2, "length of time"),
        (["doctor", "--node", "nosuch"], 3, "`yard nodes` lists the nodes"),
    ):
        said = yard.run(*words)
        assert (said.code, told in said.err) == (code, True), (words, said)
