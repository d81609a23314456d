"""A calendar under random requests, failures and jumps of time keeps its promises."""

from dataclasses import replace
from itertools import combinations
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.unit.leases.plan.worlds import ANN, BOB, Book, explained, machine
from trackyard.core.errors import LeaseRefused
from trackyard.core.lease import LeaseState
from trackyard.core.node import NodeState
from trackyard.leases.plan import changing
from trackyard.leases.plan.calendar import RunningJob
from trackyard.leases.plan.machines import LeasableNode
from trackyard.leases.records import LeaseRecord
from trackyard.leases.rules import MINUTE_MS
from trackyard.leases.upkeep import Activity, DueKind, due
from trackyard.leases.wishes import LeaseChange, LeaseExtension, LeaseShrinking

STEP = 30 * MINUTE_MS
NODES = ["g1", "g2", "g3", "m1"]
_NEXT = {
    DueKind.START: LeaseState.STARTING,
    DueKind.ACTIVATE: LeaseState.ACTIVE,
    DueKind.FAIL: LeaseState.ERROR,
    DueKind.RECOVER: LeaseState.ACTIVE,
    DueKind.TERMINATE: LeaseState.TERMINATING,
    DueKind.END: LeaseState.TERMINATED,
}


class CalendarMachine(RuleBasedStateMachine):
    """Random people, random machines that break, and time that jumps."""

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        busy = data.draw(st.booleans())
        job = RunningJob(
            job_id="j1",
            name="train",
            user="eve",
            team="other",
            nodes=("g2",),
            ends_ms=None,
            preemptible=busy,
        )
        machines = [machine("g1"), machine("g2"), machine("g3"), machine("m1", 4, "MI100")]
        self.book = Book(machines, occupants=[job] if busy else [])
        #: what each holder was last told: nodes, start, end
        self.told: dict[str, tuple[tuple[str, ...], int, int]] = {}

    def _tell(self, record: LeaseRecord) -> None:
        row = record.row
        self.told[row.lease_id] = (record.nodes, row.starts_ms, row.ends_ms)

    def _pick(self, data: st.DataObject) -> LeaseRecord | None:
        open_ = [one for one in self.book.records.values() if not one.state.is_over]
        return data.draw(st.sampled_from(open_)) if open_ else None

    @rule(
        who=st.sampled_from((ANN, BOB)),
        start=st.integers(-1, 12),
        length=st.integers(0, 8),
        choice=st.sampled_from(
            (
                {"nodes": ["g1"]},
                {"nodes": ["g2", "g3"]},
                {"type": "a100"},
                {"type": "a100", "count": 2},
                {"where": "gpu.count >= 4"},
                {"where": "gpu.count >= 2", "min": 1, "max": 3},
                {"nodes": ["nowhere"]},
            )
        ),
    )
    def create(self, who: Any, start: int, length: int, choice: dict[str, Any]) -> None:
        begin = self.book.now_ms // STEP * STEP + start * STEP
        self._try(
            lambda: self._tell(self.book.add(who, starts_ms=begin, minutes=length * 30, **choice))
        )

    @rule(data=st.data(), steps=st.integers(0, 4))
    def extend(self, data: st.DataObject, steps: int) -> None:
        self._change(
            data,
            lambda world, one: changing.extend(
                world, one, LeaseExtension(minutes=steps * 30), ANN
            ),
        )

    @rule(data=st.data(), steps=st.integers(0, 4), node=st.sampled_from([None, *NODES]))
    def shrink(self, data: st.DataObject, steps: int, node: str | None) -> None:
        wish = LeaseShrinking(minutes=steps * 30, nodes=[node] if node else [])
        self._change(data, lambda world, one: changing.shrink(world, one, wish, ANN))

    @rule(data=st.data(), steps=st.integers(-2, 6))
    def move(self, data: st.DataObject, steps: int) -> None:
        def judge(world: Any, one: LeaseRecord) -> Any:
            wish = LeaseChange(starts_ms=one.row.starts_ms + steps * STEP)
            return changing.move(world, one, wish, ANN)

        self._change(data, judge)

    def _change(self, data: st.DataObject, judge: Any) -> None:
        record = self._pick(data)
        if record is not None:
            world = self.book.world
            self._try(lambda: self._tell(self.book.keep(record, judge(world, record))))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        record = self._pick(data)
        if record is not None:
            self._set(record, LeaseState.TERMINATED)
            self.told.pop(record.row.lease_id)

    @rule(node=st.sampled_from(NODES), state=st.sampled_from((NodeState.DOWN, NodeState.READY)))
    def fail_or_heal(self, node: str, state: NodeState) -> None:
        self.book.machines = [
            replace(one, state=state) if one.id == node else one for one in self.book.machines
        ]

    @rule(minutes=st.sampled_from((1, 7, 30, 90, 600, 2000)))
    def pass_time(self, minutes: int) -> None:
        self.book.now_ms += minutes * MINUTE_MS
        for _ in range(8):
            todo = due(self.book.world, dict.fromkeys(self.told, Activity()))
            if not [one for one in todo if self._apply(one)]:
                break

    def _apply(self, one: Any) -> bool:
        record = self.book.records[one.record.row.lease_id]
        if one.what in _NEXT:
            assert record.state.may_become(_NEXT[one.what]) or (
                record.state is LeaseState.ERROR and one.what is DueKind.RECOVER
            )
            if one.what in (DueKind.TERMINATE, DueKind.END):
                assert self.book.now_ms >= record.row.ends_ms
            self._set(record, _NEXT[one.what])
            if one.what is DueKind.END:
                self.told.pop(record.row.lease_id)
            return True
        if one.what is DueKind.LOSE:
            bound = tuple(
                each._replace(lost_ms=self.book.now_ms - 60_000)
                if each.node_id == one.node
                else each
                for each in record.bound
            )
        elif one.what is DueKind.RESTORE:
            bound = tuple(
                each._replace(lost_ms=None) if each.node_id == one.node else each
                for each in record.bound
            )
        elif one.what is DueKind.REPLACE:
            old, instead = self._machine(one.node), self._machine(one.instead)
            assert instead.works
            assert instead.can_stand_in_for(old)
            bound = tuple(
                each._replace(node_id=one.instead, lost_ms=None)
                if each.node_id == one.node
                else each
                for each in record.bound
            )
        else:
            return False
        changed = replace(record, bound=bound)
        self.book.records[record.row.lease_id] = changed
        if one.what is DueKind.REPLACE:
            self._tell(changed)
        return True

    def _machine(self, name: str) -> LeasableNode:
        return next(one for one in self.book.machines if one.id == name)

    def _set(self, record: LeaseRecord, state: LeaseState) -> None:
        row = record.row._replace(
            state=state.value, started_ms=record.row.started_ms or self.book.now_ms
        )
        self.book.records[row.lease_id] = replace(record, row=row)

    def _try(self, ask: Any) -> None:
        try:
            ask()
        except LeaseRefused as fault:
            facts = explained(fault)
            if facts["refusal"] == "overlap":
                assert facts["conflicts"]
            for slot in facts["slots"]:
                assert slot["ends_ms"] > slot["starts_ms"] >= self.book.now_ms

    @invariant()
    def no_node_is_promised_twice(self) -> None:
        open_ = [one for one in self.book.records.values() if not one.state.is_over]
        for one, other in combinations(open_, 2):
            if one.promise.overlaps(other.row.starts_ms, other.row.ends_ms):
                assert not set(one.nodes) & set(other.nodes)

    @invariant()
    def no_lease_is_silently_changed(self) -> None:
        for lease_id, told in self.told.items():
            record = self.book.records[lease_id]
            assert (record.nodes, record.row.starts_ms, record.row.ends_ms) == told
            assert not record.state.is_over

    @invariant()
    def the_calendar_is_on_time(self) -> None:
        for record in self.book.records.values():
            if record.state is LeaseState.ACTIVE:
                assert record.row.starts_ms <= self.book.now_ms


TestCalendarMachine = CalendarMachine.TestCase
TestCalendarMachine.settings = settings(max_examples=120, stateful_step_count=40)
