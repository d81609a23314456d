"""A node is at fault twice only if both looks name it."""

from __future__ import annotations

from typing import Any

from trackyard.cli.fleet.doctor_gang import repeated


def seen(**faults: str) -> dict[str, Any]:
    return {"ok": not faults, "nodes": [], "faults": faults, "between": []}


def test_only_a_node_that_both_looks_name_is_at_fault_twice() -> None:
    assert repeated([seen(n1="clock")]) == {}
    assert repeated([seen(n1="clock"), seen(n2="torch")]) == {}
    assert repeated([seen(n1="clock", n2="x"), seen(n1="clock")]) == {"n1": "clock"}
