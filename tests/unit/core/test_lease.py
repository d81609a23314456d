"""Leases: who may use one, and what it overlaps."""

from __future__ import annotations

from trackyard.core.lease import Lease

LEASE = Lease(id="l", nodes=("n",), starts_at=10.0, ends_at=20.0, team="t", user="ann")


def test_the_holder_may_use_it_and_nobody_else():
    assert LEASE.admits(team="t", user="ann", lease="")
    assert not LEASE.admits(team="t", user="bob", lease="")
    assert not LEASE.admits(team="u", user="ann", lease="")


def test_a_job_that_names_a_lease_uses_that_one_alone():
    assert LEASE.admits(team="t", user="ann", lease="l")
    assert not LEASE.admits(team="t", user="ann", lease="other")


def test_spans_touching_at_the_edge_do_not_overlap():
    assert not LEASE.overlaps(start=0.0, end=10.0)
    assert LEASE.overlaps(start=0.0, end=10.5)
    assert not LEASE.overlaps(start=20.0, end=30.0)
