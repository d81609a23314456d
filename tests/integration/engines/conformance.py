"""The suite every engine passes: one set of outcomes, whatever runs the attempts.

An engine's test module subclasses EngineConformance and gives a `harness` fixture. The harness
says how commands of a certain behaviour are written for that engine and how waiting is done
(real time for real engines, the fake clock for the fake one). Suites for Ray and Slurm subclass
this as well; what a fake cannot do (processes) is in ProcessConformance.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from trackyard.core.ports import (
    AttemptPhase,
    AttemptReport,
    Engine,
    EngineError,
    EngineNotice,
    ExitCause,
    GpuShare,
    LaunchRefused,
    LaunchSpec,
    LeaseHold,
    NodeGrant,
    NoticeKind,
)

_numbers = itertools.count(1)


class Harness:
    """What a suite needs of an engine under test; engines override what differs."""

    #: seconds to wait at most for anything
    patience = 180.0
    #: GPUs of one node that an attempt may hold together, and what it leaves free of each
    gpu_shares: tuple[GpuShare, ...] = (GpuShare(index=0, fraction=0.5), GpuShare(index=1))
    free_during: tuple[float, ...] = (0.5, 0.0)
    #: a GPU of which an attempt gets a half
    gpu_index = 1

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder

    @property
    def node_id(self) -> str:
        """A node that takes work."""
        return self.engine.nodes()[0].node_id

    def command(self, behaviour: str) -> tuple[str, ...]:
        """Return a command that behaves as named."""
        raise LookupError(behaviour)

    def reopen(self) -> Engine:
        """Return a second engine over the same work, as after a restart of the server."""
        raise LookupError

    def now(self) -> datetime:
        """Return what the engine's clock shows."""
        return datetime.now(UTC)

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def spec(self, behaviour: str, **changes: Any) -> LaunchSpec:
        """Return a launch of a command with that behaviour on one node."""
        number = f"{os.getpid()}-{next(_numbers)}"
        values: dict[str, Any] = {
            "attempt_id": f"trk-j{number}-a1",
            "epoch": 1,
            "job_id": f"j{number}",
            "argv": self.command(behaviour) if behaviour else ("true",),
            "placement": (NodeGrant(node_id=self.node_id),),
            "grace_seconds": 5.0,
        }
        values.update(changes)
        return LaunchSpec(**values)

    def wait_until(self, what: Callable[[], bool], why: str) -> None:
        """Wait for `what`, or fail saying `why`."""
        deadline = time.monotonic() + self.patience
        while not what():
            assert time.monotonic() < deadline, why
            self.pass_time(0.05)

    def wait_for(self, attempt_id: str, *phases: AttemptPhase) -> AttemptReport:
        """Wait until the attempt is in one of the phases."""
        self.wait_until(
            lambda: (seen := self.engine.lookup(attempt_id)) is not None and seen.phase in phases,
            f"{attempt_id} is {self.engine.lookup(attempt_id)}, not {phases}",
        )
        report = self.engine.lookup(attempt_id)
        assert report is not None
        return report

    def run(self, spec: LaunchSpec) -> AttemptReport:
        """Launch and wait for the end."""
        self.engine.launch(spec)
        return self.wait_for(spec.attempt_id, AttemptPhase.EXITED, AttemptPhase.LOST)


class EngineConformance:
    """What the queue relies on, whatever the engine."""

    @pytest.fixture
    def harness(self) -> Harness:
        raise LookupError("give a harness")

    def test_describes_nodes_with_totals_and_what_is_free(self, harness: Harness) -> None:
        nodes = harness.engine.nodes()
        assert nodes
        for node in nodes:
            assert node.cpus > 0
            assert node.memory_bytes > 0
            assert 0 <= node.free_cpus <= node.cpus
            assert 0 <= node.free_memory_bytes <= node.memory_bytes
            assert all(0 <= gpu.free <= 1 for gpu in node.gpus)

    def test_a_command_that_ends_well_is_recorded_as_succeeded(self, harness: Harness) -> None:
        report = harness.run(harness.spec("succeed"))
        assert report.phase is AttemptPhase.EXITED
        assert report.exit is not None
        assert (report.exit.cause, report.exit.exit_code) == (ExitCause.SUCCEEDED, 0)
        assert report.exit.ended_ms >= report.exit.started_ms
        assert report.exit.sentence.endswith(".")

    def test_the_commands_own_exit_code_is_kept(self, harness: Harness) -> None:
        report = harness.run(harness.spec("exit 7"))
        assert report.exit is not None
        assert (report.exit.cause, report.exit.exit_code) == (ExitCause.EXIT_CODE, 7)

    def test_the_report_carries_epoch_job_and_placement(self, harness: Harness) -> None:
        spec = harness.spec("sleep", epoch=4)
        report = harness.engine.launch(spec)
        assert (report.epoch, report.job_id) == (4, spec.job_id)
        assert report.placement == spec.placement
        harness.engine.stop(spec.attempt_id, grace_seconds=0, reason=ExitCause.STOPPED)
        harness.wait_for(spec.attempt_id, AttemptPhase.EXITED)

    def test_launching_an_id_again_adopts_and_starts_nothing(self, harness: Harness) -> None:
        spec = harness.spec("sleep")
        harness.engine.launch(spec)
        harness.wait_for(spec.attempt_id, AttemptPhase.RUNNING)
        again = harness.engine.launch(spec)
        assert again.phase is AttemptPhase.RUNNING
        assert [r.attempt_id for r in harness.engine.attempts()].count(spec.attempt_id) == 1
        harness.engine.stop(spec.attempt_id, grace_seconds=0, reason=ExitCause.STOPPED)
        ended = harness.wait_for(spec.attempt_id, AttemptPhase.EXITED)
        assert harness.engine.launch(spec).exit == ended.exit

    def test_an_id_that_never_started_is_unknown(self, harness: Harness) -> None:
        assert harness.engine.lookup("trk-nowhere-a1") is None
        assert "trk-nowhere-a1" not in [r.attempt_id for r in harness.engine.attempts()]

    def test_an_unknown_node_is_refused_and_nothing_starts(self, harness: Harness) -> None:
        spec = harness.spec("succeed", placement=(NodeGrant(node_id="no-such-node"),))
        with pytest.raises(LaunchRefused):
            harness.engine.launch(spec)
        assert harness.engine.lookup(spec.attempt_id) is None

    def test_a_stop_lets_the_command_save_and_say_so(self, harness: Harness) -> None:
        spec = harness.spec("save on stop")
        harness.engine.launch(spec)
        harness.wait_for(spec.attempt_id, AttemptPhase.RUNNING)
        self.wait_for_output(harness, spec, b"ready")
        harness.engine.stop(spec.attempt_id, grace_seconds=60, reason=ExitCause.PREEMPTED)
        report = harness.wait_for(spec.attempt_id, AttemptPhase.EXITED)
        assert report.exit is not None
        assert (report.exit.cause, report.exit.saved) == (ExitCause.PREEMPTED, True)

    def test_a_command_that_ignores_the_stop_ends_after_its_grace(self, harness: Harness) -> None:
        spec = harness.spec("ignore stop")
        harness.engine.launch(spec)
        harness.wait_for(spec.attempt_id, AttemptPhase.RUNNING)
        self.wait_for_output(harness, spec, b"ready")
        harness.engine.stop(spec.attempt_id, grace_seconds=0.5, reason=ExitCause.STOPPED)
        report = harness.wait_for(spec.attempt_id, AttemptPhase.EXITED)
        assert report.exit is not None
        assert report.exit.cause is ExitCause.STOPPED

    def test_a_second_stop_may_shorten_the_grace(self, harness: Harness) -> None:
        spec = harness.spec("ignore stop")
        harness.engine.launch(spec)
        harness.wait_for(spec.attempt_id, AttemptPhase.RUNNING)
        self.wait_for_output(harness, spec, b"ready")
        harness.engine.stop(spec.attempt_id, grace_seconds=3600, reason=ExitCause.PREEMPTED)
        harness.engine.stop(spec.attempt_id, grace_seconds=0, reason=ExitCause.STOPPED)
        report = harness.wait_for(spec.attempt_id, AttemptPhase.EXITED)
        assert report.exit is not None
        assert report.exit.cause is ExitCause.PREEMPTED

    def test_a_stop_before_the_launch_keeps_it_from_starting(self, harness: Harness) -> None:
        spec = harness.spec("succeed")
        harness.engine.stop(spec.attempt_id, grace_seconds=5, reason=ExitCause.STOPPED)
        with pytest.raises(LaunchRefused):
            harness.engine.launch(spec)

    def test_stopping_what_has_ended_changes_nothing(self, harness: Harness) -> None:
        spec = harness.spec("succeed")
        before = harness.run(spec)
        harness.engine.stop(spec.attempt_id, grace_seconds=0, reason=ExitCause.STOPPED)
        assert harness.engine.lookup(spec.attempt_id) == before

    def test_a_time_limit_ends_the_command_with_that_cause(self, harness: Harness) -> None:
        report = harness.run(harness.spec("sleep", time_limit_seconds=0.5, grace_seconds=5.0))
        assert report.exit is not None
        assert report.exit.cause is ExitCause.TIME_LIMIT

    def test_ended_attempts_are_listed_until_forgotten(self, harness: Harness) -> None:
        spec = harness.spec("succeed")
        harness.run(spec)
        assert spec.attempt_id in [r.attempt_id for r in harness.engine.attempts()]
        harness.engine.forget(spec.attempt_id)
        assert harness.engine.lookup(spec.attempt_id) is None
        assert spec.attempt_id not in [r.attempt_id for r in harness.engine.attempts()]

    def test_a_running_attempt_cannot_be_forgotten(self, harness: Harness) -> None:
        spec = harness.spec("sleep")
        harness.engine.launch(spec)
        harness.wait_for(spec.attempt_id, AttemptPhase.RUNNING)
        with pytest.raises(EngineError):
            harness.engine.forget(spec.attempt_id)
        harness.engine.stop(spec.attempt_id, grace_seconds=0, reason=ExitCause.STOPPED)
        harness.wait_for(spec.attempt_id, AttemptPhase.EXITED)

    def test_what_an_attempt_holds_is_not_free_until_it_ends(self, harness: Harness) -> None:
        share = NodeGrant(
            node_id=harness.node_id,
            gpus=harness.gpu_shares,
            cpus=0.5,
            memory_bytes=200 * 1024**2,
        )
        spec = harness.spec("sleep", placement=(share,))
        before = harness.engine.nodes()[0]
        harness.engine.launch(spec)
        harness.wait_for(spec.attempt_id, AttemptPhase.RUNNING)
        during = harness.engine.nodes()[0]
        assert [gpu.free for gpu in during.gpus[:2]] == list(harness.free_during)
        assert during.free_cpus == pytest.approx(before.free_cpus - 0.5)
        assert during.free_memory_bytes == before.free_memory_bytes - 200 * 1024**2
        harness.engine.stop(spec.attempt_id, grace_seconds=0, reason=ExitCause.STOPPED)
        harness.wait_for(spec.attempt_id, AttemptPhase.EXITED)
        after = harness.engine.nodes()[0]
        assert {gpu.free for gpu in after.gpus[:2]} == {1.0}

    def test_the_engine_notices_an_end_by_itself(self, harness: Harness) -> None:
        seen: list[EngineNotice] = []
        unsubscribe = harness.engine.subscribe(seen.append)
        spec = harness.spec("succeed")
        harness.run(spec)
        harness.wait_until(
            lambda: (
                (NoticeKind.ATTEMPT_ENDED, spec.attempt_id)
                in [(notice.kind, notice.subject) for notice in seen]
            ),
            "no notice of the end came",
        )
        unsubscribe()

    def test_an_unknown_lease_can_be_dropped(self, harness: Harness) -> None:
        harness.engine.drop_lease("no-such-lease")

    def test_a_held_node_starts_nothing_but_what_its_lease_admits(self, harness: Harness) -> None:
        engine, node = harness.engine, harness.node_id
        now = harness.now()
        hold = LeaseHold(
            lease_id="l1", node_ids=(node,), starts_at=now, ends_at=now + timedelta(hours=1)
        )
        engine.hold_lease(hold)
        stranger = harness.spec("succeed")
        with pytest.raises(LaunchRefused, match="held for lease l1 until"):
            engine.launch(stranger)
        assert engine.lookup(stranger.attempt_id) is None
        report = harness.run(harness.spec("succeed", leases=("l1",)))
        assert report.exit is not None
        assert report.exit.cause is ExitCause.SUCCEEDED
        later = replace(hold, lease_id="l2", starts_at=hold.ends_at)
        engine.hold_lease(later)
        engine.drop_lease("l1")
        report = harness.run(harness.spec("succeed"))
        assert report.exit is not None
        engine.drop_lease("l2")

    def test_the_log_can_be_read_by_offset(self, harness: Harness) -> None:
        spec = harness.spec("say hello")
        harness.run(spec)
        whole = harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=100)
        assert b"hello" in whole
        assert harness.engine.read_log(spec.attempt_id, 0, offset=2, limit=3) == whole[2:5]

    @staticmethod
    def wait_for_output(harness: Harness, spec: LaunchSpec, text: bytes) -> None:
        """Wait until the command has said `text`."""
        harness.wait_until(
            lambda: text in harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=10_000),
            f"the command never said {text!r}",
        )


class ProcessConformance(EngineConformance):
    """What holds where attempts are real processes."""

    def test_the_commands_environment_is_the_users_plus_ours(self, harness: Harness) -> None:
        spec = harness.spec(
            "print environment",
            env={"LEARNING_RATE": "0.1", "YARD_EPOCH": "99", "MLFLOW_RUN_ID": "forged"},
            platform_env={"MLFLOW_RUN_ID": "abc"},
            epoch=3,
        )
        harness.run(spec)
        text = harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=100_000)
        seen = json.loads(text)
        assert seen["LEARNING_RATE"] == "0.1"
        assert seen["MLFLOW_RUN_ID"] == "abc"
        assert seen["YARD_EPOCH"] == "3"
        assert seen["YARD_ATTEMPT_ID"] == spec.attempt_id
        assert Path(seen["YARD_CHECKPOINT_DIR"]).is_dir()

    def test_a_job_without_gpus_sees_none_and_others_see_theirs(self, harness: Harness) -> None:
        none = harness.spec("print environment")
        harness.run(none)
        seen = json.loads(harness.engine.read_log(none.attempt_id, 0, offset=0, limit=100_000))
        assert seen["CUDA_VISIBLE_DEVICES"] == ""
        gpu = GpuShare(index=harness.gpu_index, fraction=0.5)
        share = NodeGrant(node_id=harness.node_id, gpus=(gpu,))
        half = harness.spec("print environment", placement=(share,))
        harness.run(half)
        seen = json.loads(harness.engine.read_log(half.attempt_id, 0, offset=0, limit=100_000))
        assert seen["CUDA_VISIBLE_DEVICES"] == str(harness.gpu_index)
        assert seen["YARD_GPU_FRACTION"] == "0.5"

    def test_a_program_that_is_not_there_is_a_wrong_command(self, harness: Harness) -> None:
        report = harness.run(harness.spec("", argv=("no-such-program-here",)))
        assert report.exit is not None
        assert report.exit.cause is ExitCause.COMMAND
        assert "no-such-program-here" in report.exit.sentence

    def test_a_signal_from_outside_is_told_apart(self, harness: Harness) -> None:
        report = harness.run(harness.spec("kill itself"))
        assert report.exit is not None
        assert (report.exit.cause, report.exit.signal) == (ExitCause.SIGNAL, 11)

    def test_an_attempt_outlives_the_server_and_is_found_again(self, harness: Harness) -> None:
        spec = harness.spec("save on stop")
        harness.engine.launch(spec)
        harness.wait_for(spec.attempt_id, AttemptPhase.RUNNING)
        self.wait_for_output(harness, spec, b"ready")
        harness.engine = harness.reopen()
        assert harness.engine.launch(spec).phase is AttemptPhase.RUNNING
        harness.engine.stop(spec.attempt_id, grace_seconds=60, reason=ExitCause.PREEMPTED)
        report = harness.wait_for(spec.attempt_id, AttemptPhase.EXITED)
        assert report.exit is not None
        assert report.exit.saved
        log = harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=10_000)
        assert log.count(b"ready") == 1

    def test_two_servers_launching_one_id_start_it_once(self, harness: Harness) -> None:
        spec = harness.spec("say hello")
        other = harness.reopen()
        harness.engine.launch(spec)
        other.launch(spec)
        harness.wait_for(spec.attempt_id, AttemptPhase.EXITED)
        harness.pass_time(0.5)
        log = harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=10_000)
        assert log.count(b"hello") == 1
        assert other.lookup(spec.attempt_id) == harness.engine.lookup(spec.attempt_id)
        other.close()

    def test_a_failed_member_ends_its_gang(self, harness: Harness) -> None:
        node = harness.engine.nodes()
        spec = harness.spec(
            "member 1 fails",
            placement=tuple(NodeGrant(node_id=node[i % len(node)].node_id) for i in (0, 1)),
        )
        report = harness.run(spec)
        causes = {record.member: record.cause for record in report.exits}
        assert causes == {0: ExitCause.GANG, 1: ExitCause.EXIT_CODE}
        assert report.exit is not None
        assert (report.exit.member, report.exit.exit_code) == (1, 9)

    def test_members_of_a_gang_learn_rank_and_rendezvous(self, harness: Harness) -> None:
        node = harness.engine.nodes()
        spec = harness.spec(
            "print environment",
            placement=tuple(NodeGrant(node_id=node[i % len(node)].node_id) for i in (0, 1)),
        )
        harness.run(spec)
        seen = [
            json.loads(harness.engine.read_log(spec.attempt_id, m, offset=0, limit=100_000))
            for m in (0, 1)
        ]
        assert [env["RANK"] for env in seen] == ["0", "1"]
        assert {env["WORLD_SIZE"] for env in seen} == {"2"}
        assert len({(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in seen}) == 1
