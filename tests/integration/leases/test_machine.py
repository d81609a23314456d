"""The calendar on a real store under random requests, failures and jumps of time."""

import asyncio
import shutil
import tempfile
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.integration.leases.yard import LeaseYard, explained, open_lease_yard
from trackyard.core.errors import Conflict, LeaseRefused
from trackyard.core.node import NodeState
from trackyard.leases.records import load_open
from trackyard.leases.rules import MINUTE_MS
from trackyard.leases.views import LeaseView
from trackyard.store.migrate import prepare

STEP = 30
NODES = ("n1", "n2", "n3")


class StoreMachine(RuleBasedStateMachine):
    """Two people, three nodes that break, jobs that come, and time that jumps."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._folder = Path(tempfile.mkdtemp(prefix="yard-leases-"))
        self._count = 0
        #: what each holder was last told: nodes, start, end
        self.told: dict[str, tuple[list[str], int, int]] = {}

    @initialize()
    def begin(self) -> None:
        url = f"sqlite:///{self._folder / 'yard.db'}"
        prepare(url)
        opened = open_lease_yard(url, self._folder)
        self.calendar: LeaseYard = self.run(self._stack.enter_async_context(opened))

    def teardown(self) -> None:
        self.run(self._stack.aclose())
        self._runner.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, work: Any) -> Any:
        return self._runner.run(work)

    def _tell(self, lease: LeaseView) -> None:
        nodes = [node.node_id for node in lease.nodes]
        self.told[lease.lease_id] = (nodes, lease.starts_ms, lease.ends_ms)

    def _ask(self, work: Any) -> None:
        try:
            self._tell(self.run(work).lease)
        except LeaseRefused as fault:
            explained(fault)

    @rule(
        is_ann=st.booleans(),
        start=st.integers(0, 8),
        length=st.integers(0, 6),
        choice=st.sampled_from(
            ({"nodes": ["n1"]}, {"type": "fake", "count": 2}, {"where": "gpu.count = 2"})
        ),
    )
    def create(self, is_ann: bool, start: int, length: int, choice: dict[str, Any]) -> None:
        self._count += 1
        now = self.calendar.yard.clock.time_ms() // MINUTE_MS * MINUTE_MS
        self._ask(
            self.calendar.add(
                f"r{self._count}",
                self.calendar.ann if is_ann else self.calendar.bob,
                starts_ms=now + start * STEP * MINUTE_MS,
                minutes=length * STEP,
                **choice,
            )
        )

    @rule(data=st.data(), steps=st.integers(-3, 3))
    def extend_or_shrink(self, data: st.DataObject, steps: int) -> None:
        if not self.told or not steps:
            return
        lease = data.draw(st.sampled_from(sorted(self.told)))
        staff = replace(self.calendar.ann, is_admin=True)
        change = self.calendar.extend if steps > 0 else self.calendar.shrink
        self._ask(change(lease, staff, minutes=abs(steps) * STEP))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.told:
            lease = data.draw(st.sampled_from(sorted(self.told)))
            staff = replace(self.calendar.ann, is_admin=True)
            try:
                self.run(self.calendar.release(lease, staff))
            except LeaseRefused as fault:
                explained(fault)
                return
            del self.told[lease]

    @rule(node=st.sampled_from(NODES), is_down=st.booleans())
    def fail_or_heal(self, node: str, is_down: bool) -> None:
        engine = self.calendar.yard.engine
        if is_down:
            engine.lose_node(node)
        else:
            engine.add_node(replace(engine._nodes[node], state=NodeState.READY))
        self.run(self.calendar.yard.tick(11))
        self._learn()

    @rule(preemptible=st.booleans())
    def submit(self, preemptible: bool) -> None:
        self.run(
            self.calendar.yard.submit(gpus=1, preemptible=preemptible, time_limit_seconds=1800)
        )

    @rule(minutes=st.sampled_from((1, 10, 45, 300)))
    def pass_time(self, minutes: int) -> None:
        try:
            self.run(self.calendar.yard.tick(minutes * 60))
        except Conflict as fault:  # pragma: no cover
            raise AssertionError(fault.message) from fault
        self._learn()

    def _learn(self) -> None:
        """Take what events tell a holder: other nodes, and that the time is over."""
        now = self.calendar.yard.clock.time_ms()
        events = self.run(self.calendar.yard.events("lease."))
        for lease_id in list(self.told):
            view = self.run(self.calendar.leases.find(self.calendar.ann, lease_id))
            _, start, end = self.told[lease_id]
            assert (view.starts_ms, view.ends_ms) == (start, end), "changed without a word"
            if view.over:
                assert now >= end
                assert ("lease.ended", lease_id) in events
                del self.told[lease_id]
            elif [node.node_id for node in view.nodes] != self.told[lease_id][0]:
                assert ("lease.replaced", lease_id) in events
                self._tell(view)

    @invariant()
    def no_node_is_promised_twice(self) -> None:
        if not hasattr(self, "calendar"):
            return
        open_ = self.run(self.calendar.yard.database.read(load_open))
        for one, other in combinations(open_, 2):
            if one.promise.overlaps(other.row.starts_ms, other.row.ends_ms):
                assert not set(one.nodes) & set(other.nodes)

    @invariant()
    def no_job_is_sent_to_a_node_held_for_others(self) -> None:
        """The engine refuses such an attempt; the queue never asks for one."""
        if hasattr(self, "calendar"):
            refused = self.run(
                self.calendar.yard.database.read(
                    lambda reader: reader.all(
                        "SELECT sentence FROM attempts WHERE sentence LIKE '%held for lease%'"
                    )
                )
            )
            assert refused == []


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=8, stateful_step_count=14)
