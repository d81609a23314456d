"""Leases as the local engine keeps them."""

from datetime import UTC, datetime
from pathlib import Path

from trackyard.core.ports import LeaseHold
from trackyard.engines.holds import LeaseHolds


def hold(lease_id: str, hour: int) -> LeaseHold:
    return LeaseHold(
        lease_id=lease_id,
        node_ids=("here",),
        starts_at=datetime(2026, 3, 1, hour, tzinfo=UTC),
        ends_at=datetime(2026, 3, 1, hour + 1, tzinfo=UTC),
        users=("ada",),
    )


def test_holds_outlive_the_engine_and_are_struck_out_by_id(tmp_path: Path) -> None:
    path = tmp_path / "leases.json"
    holds = LeaseHolds(path)
    holds.keep(hold("later", 12))
    holds.keep(hold("sooner", 9))
    holds.keep(hold("sooner", 10))
    assert LeaseHolds(path).all() == [hold("sooner", 10), hold("later", 12)]
    holds.drop("later")
    holds.drop("never was")
    assert LeaseHolds(path).all() == [hold("sooner", 10)]


def test_a_spoilt_file_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "leases.json"
    path.write_text("{")
    holds = LeaseHolds(path)
    assert holds.all() == []
    holds.keep(hold("one", 9))
    assert holds.all() == [hold("one", 9)]
