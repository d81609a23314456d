"""The table of transitions, and who may use a lease."""

import pytest

from trackyard.core.lease import STABLE, Lease, LeaseState

S = LeaseState
#: The table of the reference: from each state, those it may go to.
ALLOWED = {
    S.CREATING: {S.PENDING},
    S.PENDING: {S.STARTING, S.UPDATING},
    S.STARTING: {S.ACTIVE, S.ERROR},
    S.ACTIVE: {S.TERMINATING, S.UPDATING},
    S.TERMINATING: {S.TERMINATED, S.ERROR},
    S.TERMINATED: {S.UPDATING},
    S.ERROR: {S.TERMINATING, S.UPDATING},
    S.UPDATING: {S.PENDING, S.ACTIVE, S.TERMINATED, S.ERROR},
    S.DELETING: {S.ERROR, S.DELETED},
    S.DELETED: set(),
}


@pytest.mark.parametrize("state", list(S))
def test_a_state_goes_where_the_table_says_and_nowhere_else(state: LeaseState) -> None:
    expected = set(ALLOWED[state])
    if state not in (S.DELETING, S.DELETED):
        expected.add(S.DELETING)
    assert {other for other in S if state.may_become(other)} == expected


def test_stable_states_are_those_that_last() -> None:
    assert {state for state in S if state.is_stable} == STABLE
    assert {state for state in S if state.is_over} == {S.TERMINATED, S.DELETED}


def test_a_lease_admits_its_team_its_own_jobs_and_if_lent_what_may_be_preempted() -> None:
    lease = Lease(id="l", nodes=("n",), starts_at=0, ends_at=10, team="t", user="u", part_of="p")
    assert lease.admits(team="t", user="u", lease="")
    assert not lease.admits(team="t", user="v", lease="")
    assert lease.admits(team="x", user="x", lease="l")
    assert lease.admits(team="x", user="x", lease="p")
    assert not lease.admits(team="t", user="u", lease="other")
    assert not lease.admits(team="x", user="x", lease="", preemptible=True)
    lent = Lease(id="l", nodes=("n",), starts_at=0, ends_at=10, team="t", lent=True)
    assert lent.admits(team="x", user="x", lease="", preemptible=True)
    assert not lent.admits(team="x", user="x", lease="")
