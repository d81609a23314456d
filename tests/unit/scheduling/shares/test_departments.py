"""Teams in departments: whose quota counts, who borrows first, who gives back, who goes first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.scheduling.yards import NOW, PLAIN, node, start, waiting
from trackyard.core.job import PriorityClass
from trackyard.core.reasons import Code
from trackyard.scheduling import Policy, QueueOrder, Snapshot, Team, decide

#: 16 GPUs: two departments of 8, each with two teams of 4.
TEAMS = (
    Team(id="east", quota_gpus=8),
    Team(id="a", parent="east", quota_gpus=4),
    Team(id="b", parent="east", quota_gpus=4),
    Team(id="west", quota_gpus=8),
    Team(id="c", parent="west", quota_gpus=4),
    Team(id="d", parent="west", quota_gpus=4),
)
NODES = tuple(node(f"n{number}") for number in range(4))


def yard(running=(), waits=(), *, teams=TEAMS, policy=None):
    """A yard in which these jobs run since two hours, and those wait."""
    before = Snapshot(
        now=NOW - 7200.0, nodes=NODES, waiting=tuple(running), teams=(), policy=PLAIN
    )
    return Snapshot(
        now=NOW,
        nodes=NODES,
        running=start(before),
        waiting=tuple(waits),
        teams=teams,
        policy=policy or Policy(),
    )


def gpus(team, count, **more):
    """So many preemptible jobs of one GPU each, that began two hours ago."""
    more = {"preemptible": True, "at": NOW - 7300.0, **more}
    return [waiting(f"{team}{number}", 1, team=team, **more) for number in range(count)]


def late(ident, size=1, **more):
    """A job that has waited long enough to take back what is its own."""
    return waiting(ident, size, at=NOW - 2000.0, **more)


def started(snapshot):
    return [one.job for one in decide(snapshot).admissions]


def stopped(snapshot):
    return sorted(stop.job for stop in decide(snapshot).stops)


class TestQuota:
    def test_siblings_borrow_before_strangers(self):
        """Of what a team leaves, its own department has the first pick."""
        held = [*gpus("a", 4), *gpus("c", 4), *gpus("d", 4), *gpus("b", 3)]
        one = waiting("stranger", 1, team="c", preemptible=True, at=NOW - 900.0)
        two = waiting("sibling", 1, team="a", preemptible=True, at=NOW - 10.0)
        assert started(yard(held, [one, two], policy=PLAIN)) == ["sibling"]

    def test_department_bounds_what_its_teams_own(self):
        """A team without a quota of its own is within its department's, and no further."""
        teams = (Team(id="east", quota_gpus=4), Team(id="a", parent="east"), Team(id="z"))
        first = waiting("first", 4, team="a", preemptible=False)
        more = waiting("more", 4, team="a", at=NOW - 5.0, preemptible=False)
        snapshot = yard((), [first, more], teams=(*teams, Team(id="rest", quota_gpus=12)))
        assert started(snapshot) == ["first"]
        assert decide(snapshot).reason("more").code is Code.BORROW_LIMIT
        assert decide(snapshot).reason("more").what == "east"

    def test_limit_of_a_department_holds_for_all_below_it(self):
        teams = (
            Team(id="east", limit_gpus=4),
            Team(id="a", parent="east"),
            Team(id="b", parent="east"),
        )
        snapshot = yard(gpus("a", 3), [late("b-two", 2, team="b")], teams=teams)
        reason = decide(snapshot).reason("b-two")
        assert (reason.code, reason.what, reason.free) == (Code.TEAM_QUOTA, "east", 1)

    def test_department_without_a_quota_has_those_of_its_teams(self):
        """Its teams lend to each other first, as under a quota of the department."""
        teams = tuple(
            replace(team, quota_gpus=None) if team.id == "east" else team for team in TEAMS
        )
        held = [*gpus("a", 4), *gpus("c", 4), *gpus("d", 4), *gpus("b", 3)]
        one = waiting("stranger", 1, team="c", preemptible=True, at=NOW - 900.0)
        two = waiting("sibling", 1, team="a", preemptible=True, at=NOW - 10.0)
        assert started(yard(held, [one, two], teams=teams, policy=PLAIN)) == ["sibling"]

    def test_circle_of_departments_counts_for_nothing(self):
        teams = (Team(id="a", parent="b", quota_gpus=4), Team(id="b", parent="a"))
        assert started(yard((), [late("one", 4, team="a")], teams=teams)) == ["one"]


class TestReclaim:
    def test_sibling_gives_back(self):
        held = [*gpus("a", 8), *gpus("c", 4), *gpus("d", 4)]
        assert len(stopped(yard(held, [late("own", 2, team="b")]))) == 2

    def test_only_the_borrower_gives_back(self):
        """Another department pays; in it those beyond their quota, not those within."""
        held = [*gpus("c", 4), *gpus("d", 8), *gpus("a", 4)]
        found = stopped(yard(held, [late("own", 2, team="b")]))
        assert len(found) == 2
        assert all(name.startswith("d") for name in found)

    def test_loans_within_another_department_are_its_own(self):
        """East is over its quota, west is not: what d lent to c does not concern b."""
        held = [*gpus("c", 8), *gpus("a", 8)]
        found = stopped(yard(held, [late("own", 2, team="b")]))
        assert len(found) == 2
        assert all(name.startswith("a") for name in found)

    def test_member_takes_back_from_its_sibling_though_the_department_is_over(self):
        held = [*gpus("a", 12), *gpus("c", 4)]
        found = stopped(yard(held, [late("own", 2, team="b")]))
        assert len(found) == 2
        assert all(name.startswith("a") for name in found)

    def test_member_of_a_department_beyond_its_quota_takes_nothing_from_others(self):
        """B is within its quota, but east is not, and c and d hold what is theirs."""
        teams = (*TEAMS[:2], replace(TEAMS[2], quota_gpus=None), *TEAMS[3:])
        held = [*gpus("a", 4), *gpus("b", 4), *gpus("c", 4), *gpus("d", 4)]
        assert stopped(yard(held, [late("own", 2, team="b")], teams=teams)) == []

    def test_why_names_the_borrower_through_the_tree(self):
        held = [*gpus("c", 4), *gpus("d", 8), *gpus("a", 4)]
        fresh = waiting("own", 2, team="b", at=NOW - 60.0)
        reasons = decide(yard(held, [fresh])).reasons["own"]
        lent = next(one for one in reasons if one.code is Code.QUOTA_LENT)
        assert lent.what == "b"
        assert set(lent.holders) == {f"d{number}" for number in range(8)}


class TestLendable:
    def fixed(self, ident, size, team, **more):
        return waiting(ident, size, team=team, preemptible=False, **more)

    def teams(self, lendable):
        return (
            Team(id="a", quota_gpus=8, lendable_gpus=lendable),
            Team(id="b", quota_gpus=8),
        )

    @pytest.mark.parametrize(("lendable", "starts"), [(0, 2), (4, 3), (8, 4)])
    def test_fixed_jobs_borrow_up_to_it(self, lendable, starts):
        jobs = [self.fixed(f"f{number}", 4, "b") for number in range(4)]
        assert len(started(yard((), jobs, teams=self.teams(lendable)))) == starts

    def test_what_a_team_lends_it_cannot_borrow_itself(self):
        """B lends nothing: that a would lend does not let a's own fixed jobs go further."""
        jobs = [self.fixed(f"f{number}", 4, "a") for number in range(4)]
        snapshot = yard((), jobs, teams=self.teams(8))
        assert len(started(snapshot)) == 2

    def test_owner_is_not_held_back_by_what_it_lent(self):
        """What is lent is in use, not forbidden: the owner's job waits for room alone."""
        held = [self.fixed(f"f{number}", 4, "b", at=NOW - 7300.0) for number in range(3)]
        snapshot = yard(held, [self.fixed("own", 8, "a")], teams=self.teams(4))
        assert decide(snapshot).reason("own").code is not Code.BORROW_LIMIT

    def test_department_lends_beyond_itself_only_what_it_says(self):
        """B takes of a within east; c outside takes nothing until east lends too."""
        lends = [replace(team, lendable_gpus=4) if team.id == "a" else team for team in TEAMS]
        inside = [self.fixed("b1", 4, "b"), self.fixed("b2", 4, "b")]
        outside = [self.fixed("c1", 4, "c"), self.fixed("c2", 4, "c"), self.fixed("c3", 4, "c")]
        assert started(yard((), inside, teams=tuple(lends))) == ["b1", "b2"]
        assert started(yard((), outside, teams=tuple(lends))) == ["c1"]
        lends = [replace(team, lendable_gpus=4) if team.id == "east" else team for team in lends]
        assert started(yard((), outside, teams=tuple(lends))) == ["c1", "c2"]

    def test_job_larger_than_it_can_ever_borrow_is_told_so(self):
        snapshot = yard((), [self.fixed("big", 4, "c", nodes=2)], teams=TEAMS)
        reason = decide(snapshot).reason("big")
        assert (reason.code, reason.free) == (Code.LARGER_THAN_QUOTA, 4)


class TestShares:
    WEIGHTS = (
        Team(id="east", weight=1),
        Team(id="a", parent="east", usage_gpu_seconds=5e6),
        Team(id="b", parent="east", usage_gpu_seconds=9e6),
        Team(id="west", weight=3),
        Team(id="c", parent="west", usage_gpu_seconds=20e6),
        Team(id="d", parent="west", weight=4, usage_gpu_seconds=21e6),
    )

    @pytest.mark.parametrize("order", [QueueOrder.FAIR, QueueOrder.DEFAULT])
    def test_departments_compare_first_then_their_teams(self, order):
        """West used 41 for 3 shares, east 14 for 1; in west d used 21 for 4, c 20 for 1."""
        waits = [waiting(f"{team}-job", 4, nodes=4, team=team) for team in "abcd"]
        snapshot = yard((), waits, teams=self.WEIGHTS, policy=replace(PLAIN, order=order))
        decisions = decide(snapshot)
        assert started(snapshot) == ["d-job"]
        assert list(decisions.line) == ["c-job", "a-job", "b-job"]

    def test_dominant_shares_walk_down_too(self):
        held = [*gpus("a", 3), *gpus("b", 1), *gpus("c", 5), *gpus("d", 4)]
        waits = [waiting(f"{team}-job", 4, nodes=4, team=team) for team in "abcd"]
        policy = replace(PLAIN, order=QueueOrder.DOMINANT)
        line = list(decide(yard(held, waits, teams=self.WEIGHTS, policy=policy)).line)
        assert line == ["d-job", "c-job", "b-job", "a-job"]

    def test_equal_parts_leave_the_order_by_length(self):
        """Two departments of two equal teams: nobody's share differs, and short jobs go first."""
        waits = [
            waiting("long", 4, nodes=4, team="a", estimate_seconds=9000.0),
            waiting("short", 4, nodes=4, team="c", estimate_seconds=90.0, at=NOW - 5.0),
        ]
        teams = tuple(replace(team, quota_gpus=None) for team in TEAMS)
        assert started(yard((), waits, teams=teams)) == ["short"]


def test_department_may_run_jobs_itself():
    """They use its quota after what its teams own."""
    held = [*gpus("east", 4), *gpus("c", 4), *gpus("d", 4), *gpus("a", 4)]
    snapshot = yard(held, [late("own", 2, team="b")])
    assert stopped(snapshot) == ["east0", "east1"]


def test_urgent_owner_takes_back_at_once():
    held = [*gpus("a", 8), *gpus("c", 4), *gpus("d", 4)]
    now = waiting("own", 2, team="b", priority=PriorityClass.URGENT)
    assert len(stopped(yard(held, [now]))) == 2
