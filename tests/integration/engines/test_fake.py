"""FakeEngine passes the parts of the conformance suite that need no processes."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from tests.integration.engines.conformance import EngineConformance, Harness
from trackyard.core.ports import (
    AttemptPhase,
    EngineUnavailable,
    LaunchRefused,
    LaunchSpec,
    NodeGrant,
    NoticeKind,
)
from trackyard.testing.clock import FakeClock
from trackyard.testing.engine import FakeEngine, Program, fake_node

PROGRAMS = {
    "succeed": Program(ends_after=0.1),
    "exit 7": Program(ends_after=0.1, exit_code=7),
    "sleep": Program(),
    "save on stop": Program(on_stop=85, output=b"ready\n"),
    "ignore stop": Program(on_stop=None, output=b"ready\n"),
    "say hello": Program(ends_after=0.1, output=b"hello\n"),
}


class FakeHarness(Harness):
    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        nodes = [fake_node("n0", gpus=2), fake_node("n1", gpus=2)]
        self.fake = FakeEngine(self.clock, nodes, program=lambda spec: PROGRAMS[spec.argv[0]])
        super().__init__(self.fake, folder)

    def command(self, behaviour: str) -> tuple[str, ...]:
        return (behaviour,)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def now(self) -> datetime:
        return self.clock.now()


class TestFakeEngine(EngineConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> FakeHarness:
        return FakeHarness(tmp_path)

    def test_a_lost_answer_leaves_one_attempt_to_look_up(self, tmp_path: Path) -> None:
        harness = FakeHarness(tmp_path)
        spec = harness.spec("sleep")
        harness.fake.lose_next_answer()
        with pytest.raises(EngineUnavailable):
            harness.fake.launch(spec)
        found = harness.fake.lookup(spec.attempt_id)
        assert found is not None
        assert found.phase is AttemptPhase.RUNNING
        harness.fake.launch(spec)
        assert harness.fake.started == [spec.attempt_id]

    def test_a_refused_launch_starts_nothing(self, tmp_path: Path) -> None:
        harness = FakeHarness(tmp_path)
        spec = harness.spec("sleep")
        harness.fake.refuse_next_launch("the node is being drained")
        with pytest.raises(LaunchRefused, match="drained"):
            harness.fake.launch(spec)
        assert harness.fake.lookup(spec.attempt_id) is None
        harness.fake.launch(spec)
        assert harness.fake.started == [spec.attempt_id]

    def test_a_lost_node_takes_its_attempts_with_it(self, tmp_path: Path) -> None:
        harness = FakeHarness(tmp_path)
        seen: list[tuple[NoticeKind, str]] = []
        harness.fake.subscribe(lambda notice: seen.append((notice.kind, notice.subject)))
        here: LaunchSpec = harness.spec("sleep")
        there = harness.spec("sleep", placement=(NodeGrant(node_id="n1"),))
        harness.fake.launch(here)
        harness.fake.launch(there)
        harness.fake.lose_node("n1")
        assert harness.wait_for(there.attempt_id, AttemptPhase.LOST).exit is None
        assert harness.wait_for(here.attempt_id, AttemptPhase.RUNNING)
        assert (NoticeKind.NODE_LOST, "n1") in seen
