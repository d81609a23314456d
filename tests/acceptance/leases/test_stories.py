"""Leases as people use them: by `yard`, with a clock that the test sets, and once in real time."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.jobs_cli.yarding import JobServer, Yard, end_all
from tests.acceptance.leases.conftest import ClockServer
from tests.acceptance.serving import ROOT

WAITS = [sys.executable, "-c", "import time; time.sleep(600)"]
ZONE = ("--zone", "Europe/Berlin")


def member(admin: Yard, name: str, team: str) -> Yard:
    """A user of a team, with a command line of their own."""
    admin.ok("team", "add", team)
    admin.ok("user", "add", name, "--team", team)
    token = admin.read("token", "create", "--user", name, "--team", team)["token"]
    return Yard(admin.server, admin.folder, token)


def until(look: Callable[[], Any], wanted: Any, patience: float = 150) -> None:
    """Look until something is so."""
    ends = time.monotonic() + patience
    while (found := look()) != wanted:
        assert time.monotonic() < ends, f"{found!r}, not {wanted!r}"
        time.sleep(0.2)


def node_of(yard: Yard) -> str:
    """The one node there is, once the server has seen it."""
    ends = time.monotonic() + 150
    while not (nodes := yard.read("nodes")):
        assert time.monotonic() < ends
        time.sleep(0.1)
    rows = nodes["nodes"] if isinstance(nodes, dict) else nodes
    return str(rows[0]["node_id"])


def state(yard: Yard, lease: str) -> str:
    return str(yard.read("lease", "show", lease)["state"])


@dataclass
class ShortLease:
    """A lease that runs out by itself, and what runs and waits on its nodes."""

    yard: Yard
    bob: Yard
    nodes: list[str]
    ends_ms: int
    #: on its nodes, and behind it
    job: str
    wide: str


@pytest.fixture(scope="module")
def short_lease(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShortLease]:
    """Two of three nodes to the end of a minute. It runs out while other tests of here run."""
    folder = tmp_path_factory.mktemp("short")
    (folder / "yard.toml").write_text("declared_nodes = 3\n")
    server = JobServer(folder / "home", gpus=2, more=["--config", str(folder / "yard.toml")])
    try:
        server.start()
        server.wait_for_nodes()
        (folder / "user").mkdir()
        yield _lease_shortly(Yard(server, folder / "user"))
    finally:
        server.kill()
        end_all(server.home)


def _lease_shortly(yard: Yard) -> ShortLease:
    until(lambda: len(yard.read("nodes")), 3)
    began = time.monotonic()
    bob = member(yard, "bob", "vision")
    # What follows takes some commands more; where commands are slow, the lease is longer.
    needed = max(25.0, 8 * (time.monotonic() - began))
    end = (int(datetime.now(UTC).timestamp() + needed) // 60 + 1) * 60
    text = datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%d %H:%MZ")
    add = ("lease", "add", "short", "--type", "declared", "--count", "2", "--end", text)
    nodes = [one["node_id"] for one in yard.read(*add)["lease"]["nodes"]]
    gang = ("--nodes", "2", "--gpus", "1", "--grace", "1s")
    job = yard.submit(*gang, "--lease", "short", "--", *WAITS)
    wide = bob.submit(*gang, "--", *WAITS)
    return ShortLease(yard, bob, nodes, end * 1000, job, wide)


def test_a_lease_in_real_time_holds_its_nodes(short_lease: ShortLease) -> None:
    """Two of three nodes to the end of a minute: a gang runs there, others wait."""
    lease, yard = short_lease, short_lease.yard
    assert len(lease.nodes) == 2
    ran = yard.until_state(lease.job, "running")
    assert state(yard, "short") == "active"
    assert ran["attempts"][0]["nodes"] == lease.nodes
    held = json.loads((yard.server.home / "engine" / "leases.json").read_text())
    assert [one["nodes"] for one in held.values()] == [lease.nodes]
    waits = lease.bob.until(lease.wide, lambda page: page["reasons"])
    assert waits["job"]["state"] == "queued"
    assert any("short" in reason["sentence"] for reason in waits["reasons"]), waits["reasons"]


def test_an_afternoon_of_leases(yard_at: Callable[..., Yard]) -> None:
    """Ada leases, Bob is refused, his job makes room in time, hers starts and saves at the end."""
    admin = yard_at("2026-03-01T12:30:00+00:00")
    server = admin.server
    assert isinstance(server, ClockServer)
    node = node_of(admin)
    ada, bob = member(admin, "ada", "nlp"), member(admin, "bob", "vision")
    spare = bob.submit("--gpus", "2", "--preemptible", "--grace", "5s", "--", *WAITS)
    bob.until_state(spare, "running")

    # A dry run names the job that would be drained; the lease is bound at once.
    add = ("lease", "add", "mltrain_ada", "--node", node, "--start", "2026-03-01 14:00")
    tried = admin.run(*add, "--for", "3h", *ZONE, "--dry-run")
    assert "is asked to save in time for the start" in tried.err
    assert ada.read("lease", "ls") == []
    said = ada.run(*add, "--for", "3h", *ZONE)
    assert said.code == 0, said.err
    assert "14:00 to 17:00 +01:00" in said.err
    lease = ada.read("lease", "show", "mltrain_ada")
    assert (lease["state"], lease["nodes"][0]["node_id"]) == ("pending", node)

    # Bob wants the same hour: one sentence, whose it is, and slots that fit.
    clash = bob.run(
        "lease", "add", "thesis", "--type", "declared", "--start", "2026-03-01 16:00",
        "--for", "2h", *ZONE,
    )  # fmt: skip
    assert clash.code == 1
    assert "promised to lease mltrain_ada of ada (team nlp)" in clash.err
    assert "free: 2026-03-01 17:00 +01:00 to 2026-03-01 19:00 +01:00" in clash.err
    bob.ok(
        "lease",
        "add",
        "thesis",
        "--node",
        node,
        "--start",
        "2026-03-01 17:00",
        "--for",
        "2h",
        *ZONE,
    )
    followed = ada.run("lease", "extend", "mltrain_ada", "--for", "1h", *ZONE)
    assert followed.code == 1
    assert "lease thesis of bob" in followed.err
    drawn = ada.ok("lease", "calendar", "--start", "2026-03-01 12:00", "--days", "1", *ZONE)
    assert "A mltrain_ada of ada" in drawn
    assert "b thesis of bob" in drawn

    # Before the start Bob's job is asked to save; at the start the nodes are Ada's.
    train = ada.submit("--gpus", "2", "--lease", "mltrain_ada", "--grace", "5s", "--", *WAITS)
    server.set_clock("2026-03-01T12:59:56+00:00")
    bob.until(spare, lambda page: page["attempts"][0]["cause"] == "preempted")
    until(lambda: state(ada, "mltrain_ada"), "active")
    ada.until_state(train, "running")
    assert bob.page(spare)["job"]["state"] == "queued"

    # Towards the end her job saves, and his lease begins on time.
    server.set_clock("2026-03-01T15:55:30+00:00")
    ada.until(train, lambda page: page["attempts"][0]["cause"] == "preempted")
    server.set_clock("2026-03-01T15:59:58+00:00")
    until(lambda: state(bob, "thesis"), "active")
    assert state(ada, "mltrain_ada") == "terminated"
    bob.until_state(spare, "running")
    kinds = [event["kind"] for event in ada.read("events", "--kind", "lease.", "-n", "50")]
    for kind in ("lease.created", "lease.started", "lease.changed", "lease.ending", "lease.ended"):
        assert kind in kinds
    bob.ok("lease", "release", "thesis")
    bob.ok("stop", spare, "--now", "--wait")


def test_times_and_refusals_by_command_line(yard_at: Callable[..., Yard]) -> None:
    """Each refusal is one sentence and a remedy; clocks that change are no trap."""
    yard = yard_at("2026-03-28T12:00:00+00:00", "[leases.teams.nlp]\nquota_units = 200\n")
    node = node_of(yard)

    def refused(*words: str) -> str:
        said = yard.run("lease", "add", "x", *words, *ZONE)
        assert said.code in (1, 2), said.out
        assert said.err.startswith("error: ")
        assert "\nhint: " in said.err
        return said.err

    here = ("--node", node)
    assert "does not exist" in refused(*here, "--start", "2026-03-29 02:30", "--for", "1h")
    assert "is past" in refused(*here, "--start", "2026-03-28 09:00", "--for", "1h")
    later = "2026-03-29 10:00"
    assert "not after its start" in refused(*here, "--start", later, "--end", later)
    assert "There is no node" in refused("--node", "nowhere", "--for", "1h")
    assert "no nodes of type h100" in refused("--type", "h100", "--for", "1h")
    assert "there is no property 'gpu.cuont'" in refused("--where", "gpu.cuont = 1", "--for", "1h")
    # A night of 23 hours: from midnight for six hours it is seven o'clock.
    night = yard.read(
        "lease", "add", "night", *here, "--start", "2026-03-29 00:00", "--for", "6h", *ZONE
    )
    assert night["lease"]["ends_ms"] - night["lease"]["starts_ms"] == 6 * 3_600_000
    assert "2026-03-29 07:00 +02:00" in yard.ok("lease", "show", "night", *ZONE)
    free = yard.read(
        "lease", "free", "--node", node, "--for", "2h", "--start", "2026-03-29 01:00", *ZONE
    )
    assert free["slots"][0]["starts_ms"] == night["lease"]["ends_ms"]
    moved = yard.read("lease", "move", "night", "--start", "2026-03-29 12:00", *ZONE)
    assert "12:00 to 18:00 +02:00" in moved["sentence"]
    shorter = yard.read("lease", "shrink", "night", "--for", "1h", *ZONE)
    assert "12:00 to 17:00 +02:00" in shorter["sentence"]
    gone = yard.read("lease", "release", "night")
    assert gone["lease"]["state"] == "deleted"
    # What it is for is kept, and it is handed over; `ls` tells whose it is.
    begin = ("--start", "2026-03-30 10:00", "--for", "8d", "--purpose", "lab 3")
    some = ("--min", "1", "--max", "4", "--before-end", "notify", "--provider", "chi")
    course = yard.read("lease", "add", "course", "--type", "declared", *some, *begin, *ZONE)
    lease = course["lease"]
    assert (lease["purpose"], lease["before_end"], lease["provider"]) == ("lab 3", "notify", "chi")
    ada = member(yard, "ada", "nlp")
    too_long = ada.run("lease", "add", "x", *here, "--start", "2026-04-10 10:00", "--for", "8d")
    assert "A lease lasts at most 7 days" in too_long.err
    yard.ok("lease", "transfer", "course", "ada", "--team", "nlp")
    assert [(one["user"], one["team"]) for one in ada.read("lease", "ls")] == [("ada", "nlp")]
    more = ada.run("lease", "add", "x", *here, "--start", "2026-04-10 10:00", "--for", "5d")
    assert more.code == 1
    assert "It costs 120 service units; team nlp has 8 of 200 left for the 30 days" in more.err
    assert "\nhint: " in more.err
    ada.ok("lease", "release", "course")
    # The feed: a password of its own that opens nothing else.
    feed = yard.read("lease", "feed")
    ask: dict[str, Any] = {"auth": ("feed", feed["token"]), "timeout": 120}
    answer = httpx.get(feed["url"], **ask)
    assert answer.text.startswith("BEGIN:VCALENDAR\r\n")
    other = httpx.get(f"{yard.server.url}/api/v1/leases", **ask)
    assert other.status_code == 403
    yard.ok("token", "revoke", feed["id"])
    until(lambda: httpx.get(feed["url"], **ask).status_code, 401)


def test_a_lease_in_real_time_ends_when_it_said(short_lease: ShortLease) -> None:
    """Its job is asked to save and waits; whoever stood behind it gets the nodes."""
    lease = short_lease
    ends = datetime.fromtimestamp(lease.ends_ms / 1000, UTC).timestamp()
    time.sleep(max(0.0, ends - datetime.now(UTC).timestamp() - 0.5))
    until(lambda: state(lease.yard, "short"), "terminated")
    events = lease.yard.read("events", "--kind", "lease.ended", "-n", "50")
    [over_ms] = [one["time_ms"] for one in events]
    assert 0 <= over_ms - lease.ends_ms < 60_000, "it is over when it said"
    page = lease.yard.page(lease.job)
    assert page["attempts"][0]["cause"] == "preempted"
    assert page["job"]["state"] == "queued"
    lease.bob.until_state(lease.wide, "running")
    lease.bob.ok("stop", lease.wide, "--now")


def test_a_clock_is_set_on_throw_away_servers_only(tmp_path: Path) -> None:
    """Who sets the clock of a server with data is told how not to."""
    done = subprocess.run(
        [sys.executable, "-m", "trackyard.cli.main", "up", "--home", str(tmp_path / "home")],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src"), "YARD_CLOCK": "x"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 2
    assert "YARD_CLOCK sets the clock of a throw-away server only" in done.stderr
