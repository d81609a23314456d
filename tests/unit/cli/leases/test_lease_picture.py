"""The calendar as a picture of characters."""

from datetime import UTC
from typing import Any

from trackyard.cli.leases.lease_picture import draw
from trackyard.cli.leases.lease_times import Zone

ZONE = Zone("UTC", UTC)
HOUR = 3_600_000
#: Mon 2 Mar 2026 00:00 UTC
START = 1_772_409_600_000


def lease(name: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {
        "lease_id": f"l-{name}",
        "name": name,
        "team": "lab",
        "user": "ann",
        "mine": False,
        "state": "pending",
        "kind": "lease",
        "degraded": False,
        "lent": False,
        "starts_ms": START + start * HOUR,
        "ends_ms": START + end * HOUR,
        **more,
    }


def row(node: str, **more: Any) -> dict[str, Any]:
    base = {"node_id": node, "state": "ready", "gpus": 2, "gpu_type": "A100"}
    return {**base, "leases": [], "jobs": [], "outages": [], **more}


def picture(*rows: dict[str, Any], hours: int = 24) -> list[str]:
    found = {"from_ms": START, "to_ms": START + hours * HOUR, "rows": list(rows)}
    return draw(found, ZONE, 11 + hours)


def test_a_cell_is_an_hour_and_shows_who_has_it() -> None:
    mine = lease("mine", 6, 9, mine=True)
    other = lease("theirs", 9, 12)
    jobs = [
        {"starts_ms": START, "ends_ms": START + 3 * HOUR, "phase": "running"},
        {"starts_ms": START + 13 * HOUR, "ends_ms": START + 15 * HOUR, "phase": "predicted"},
    ]
    lines = picture(row("g1", leases=[mine, other], jobs=jobs), row("g2"))
    assert lines[0].strip() == "Mon 2 Mar"
    assert lines[2] == "g1 2xA100  ===···AAAbbb·~~·········"
    assert lines[3] == "g2 2xA100  " + "·" * 24
    assert "A mine of ann (lab): 2026-03-02 06:00 +00:00 to 2026-03-02 09:00 +00:00" in lines[5]


def test_parts_are_drawn_over_their_pool_and_outages_over_all() -> None:
    pool = lease("pool", 0, 24, kind="pool")
    part = lease("part", 4, 8, mine=True)
    outage = {"state": "down", "note": "", "from_ms": START + 20 * HOUR, "to_ms": None}
    lines = picture(row("g1", state="down", leases=[part, pool], outages=[outage]))
    assert lines[2].endswith("  aaaaBBBBaaaaaaaaaaaaxxxx")
    assert lines[2].startswith("g1 2xA100 (down)")


def test_without_nodes_it_says_so() -> None:
    assert picture() == ["no node fits"]
