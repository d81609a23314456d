"""What befalls a job in Slurm becomes the right cause, and nothing is lost on the way."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from tests.integration.engines.conformance import EngineConformance
from tests.integration.engines.slurm.harness import PYTHON, SlurmHarness
from tests.integration.engines.test_local import processes_of
from tests.slurmcluster import SlurmCluster
from trackyard.core.ports import (
    AttemptPhase,
    BatchOptions,
    EngineNotice,
    ExitCause,
    GpuShare,
    LaunchRefused,
    LaunchSpec,
    LeaseHold,
    NodeGrant,
    NoticeKind,
)
from trackyard.engines.slurm.observe import SETTLE_SECONDS
from trackyard.engines.slurm.view import JOBS_SECONDS

ENDED = (AttemptPhase.EXITED, AttemptPhase.LOST)
wait_for_output = EngineConformance.wait_for_output


@pytest.fixture(scope="module")
def lasting(
    _whole_slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SlurmHarness]:
    harness = SlurmHarness(_whole_slurm, tmp_path_factory.mktemp("causes"))
    yield harness
    harness.close()


@pytest.fixture
def harness(slurm_cluster: SlurmCluster, lasting: SlurmHarness) -> Iterator[SlurmHarness]:
    yield lasting
    slurm_cluster.bring_up()
    lasting.clear()
    slurm_cluster.clear()


def started(harness: SlurmHarness, spec: LaunchSpec) -> str:
    """Launch, wait until the command is ready, and return Slurm's id of the job."""
    harness.engine.launch(spec)
    wait_for_output(harness, spec, b"ready")
    return harness.slurm_id(spec.attempt_id)


def cause_of(harness: SlurmHarness, spec: LaunchSpec) -> ExitCause | None:
    report = harness.wait_for(spec.attempt_id, *ENDED)
    return None if report.exit is None else report.exit.cause


def test_a_job_that_an_admin_cancels_ends_as_stopped(harness: SlurmHarness) -> None:
    spec = harness.spec("save on stop")
    harness.cluster.run("scancel", started(harness, spec))
    assert cause_of(harness, spec) is ExitCause.STOPPED


def test_slurms_notice_of_the_time_limit_lets_a_command_save(harness: SlurmHarness) -> None:
    spec = harness.spec("save on stop", grace_seconds=30.0)
    job = started(harness, spec)
    harness.cluster.run("scancel", "--batch", "--signal=USR2", job)
    report = harness.wait_for(spec.attempt_id, *ENDED)
    assert report.exit is not None
    assert (report.exit.cause, report.exit.saved) == (ExitCause.TIME_LIMIT, True)


def test_a_job_that_slurm_preempts_for_another_says_so(harness: SlurmHarness) -> None:
    share = NodeGrant(node_id="n1", gpus=(GpuShare(index=0), GpuShare(index=1)))
    spec = harness.spec("save on stop", placement=(share,))
    started(harness, spec)
    harness.cluster.submit("--partition=urgent", "--nodelist=n1", "--gres=gpu:2", "--time=5")
    assert cause_of(harness, spec) is ExitCause.PREEMPTED


def test_a_job_that_slurm_puts_back_is_an_ended_attempt_and_runs_no_second_time(
    harness: SlurmHarness,
) -> None:
    spec = harness.spec("save on stop")
    job = started(harness, spec)
    harness.cluster.run("scontrol", "update", f"JobId={job}", "Requeue=1")
    harness.cluster.run("scontrol", "requeue", job)
    assert cause_of(harness, spec) is ExitCause.PREEMPTED
    harness.wait_until(
        lambda: harness.cluster.state(job) in ("CANCELLED", "FAILED", ""), "it came back"
    )
    log = harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=10_000)
    assert log.count(b"ready") == 1


def test_a_node_that_fails_loses_the_attempt(harness: SlurmHarness) -> None:
    seen: list[EngineNotice] = []
    unsubscribe = harness.engine.subscribe(seen.append)
    spec = harness.spec("ignore stop", placement=(NodeGrant(node_id="n2"),))
    started(harness, spec)
    harness.cluster.kill("n2")
    harness.cluster.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=power")
    report = harness.wait_for(spec.attempt_id, *ENDED)
    assert report.phase is AttemptPhase.LOST
    assert "n2" in report.detail
    for pid in processes_of(spec.attempt_id):
        psutil.Process(pid).kill()
    harness.cluster.clear()
    harness.wait_until(
        lambda: (NoticeKind.ATTEMPT_ENDED, spec.attempt_id) in [(n.kind, n.subject) for n in seen],
        "nobody was told",
    )
    unsubscribe()


def test_memory_beyond_the_request_is_out_of_memory(harness: SlurmHarness) -> None:
    share = NodeGrant(node_id="n1", memory_bytes=64 * 1024**2)
    greedy = "import time; held = bytearray(400_000_000); time.sleep(600)"
    spec = harness.spec("", argv=(PYTHON, "-c", greedy), placement=(share,))
    harness.engine.launch(spec)
    assert cause_of(harness, spec) is ExitCause.OUT_OF_MEMORY


def test_a_killed_runner_is_lost_and_leaves_no_process(harness: SlurmHarness) -> None:
    spec = harness.spec("ignore stop")
    started(harness, spec)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = process.cmdline()
            if "--slurm" in line and spec.attempt_id in line[-1]:
                process.send_signal(signal.SIGKILL)
    report = harness.wait_for(spec.attempt_id, *ENDED)
    assert report.phase is AttemptPhase.LOST
    harness.wait_until(lambda: not processes_of(spec.attempt_id), "its command still runs")


def test_a_job_that_waits_in_slurm_says_why_and_can_be_stopped(harness: SlurmHarness) -> None:
    """Also: jobs of others are seen, and what they hold is not free."""
    foreign = harness.cluster.submit("--nodelist=n1", "--gres=gpu:2", "--job-name=theirs")
    harness.wait_until(lambda: harness.cluster.state(foreign) == "RUNNING", "it waits")

    def others() -> list[str]:
        return [use.name for use in harness.engine.nodes()[0].foreign]

    harness.wait_until(lambda: bool(others()), "nobody sees it")
    node = harness.engine.nodes()[0]
    assert others() == [f"slurm {foreign} theirs (root)"] or "theirs" in others()[0]
    assert [gpu.free for gpu in node.gpus] == [0.0, 0.0]
    share = NodeGrant(node_id="n1", gpus=(GpuShare(index=0),))
    spec = harness.spec("succeed", placement=(share,))
    harness.engine.launch(spec)

    def words() -> str:
        report = harness.engine.lookup(spec.attempt_id)
        return "" if report is None else report.detail

    harness.wait_until(lambda: "(Resources)" in words(), words())
    assert "waits for nodes to become free" in words()
    harness.engine.stop(spec.attempt_id, grace_seconds=30, reason=ExitCause.STOPPED)
    assert cause_of(harness, spec) is ExitCause.STOPPED


def test_a_controller_that_is_down_loses_nothing_and_is_told_of(harness: SlurmHarness) -> None:
    """What runs goes on and its end is seen; what is launched meanwhile starts, once, later."""
    seen: list[EngineNotice] = []
    unsubscribe = harness.engine.subscribe(seen.append)
    running = harness.spec("save on stop")
    started(harness, running)
    harness.engine.nodes()
    harness.cluster.kill("slurmctld")
    later = harness.spec("say hello")
    report = harness.engine.launch(later)
    assert report.phase is AttemptPhase.STARTING
    assert "as soon as its controller answers" in report.detail
    # An empty list of a controller that is down says nothing of what runs.
    harness.wait_until(lambda: NoticeKind.ENGINE_SILENT in {n.kind for n in seen}, "it was silent")
    looked_until = time.monotonic() + 2 * SETTLE_SECONDS
    while time.monotonic() < looked_until:
        found = harness.engine.lookup(running.attempt_id)
        assert found is not None
        assert found.phase is AttemptPhase.RUNNING, found
        time.sleep(0.2)
    harness.engine.stop(running.attempt_id, grace_seconds=60, reason=ExitCause.PREEMPTED)
    ended = harness.wait_for(running.attempt_id, *ENDED)
    assert ended.exit is not None
    assert ended.exit.saved
    harness.engine = harness.reopen()
    harness.cluster.start_controller()
    assert cause_of(harness, later) is ExitCause.SUCCEEDED
    log = harness.engine.read_log(later.attempt_id, 0, offset=0, limit=1000)
    assert log.count(b"hello") == 1
    harness.wait_until(
        lambda: {NoticeKind.ENGINE_SILENT, NoticeKind.ENGINE_ANSWERS} <= {n.kind for n in seen},
        f"it was not told: {seen}",
    )
    unsubscribe()


def test_what_is_launched_on_a_controller_that_hangs_starts_once(harness: SlurmHarness) -> None:
    """It has taken the submission and answers nobody: sbatch gives up, and the job exists."""
    harness.engine.nodes()
    harness.cluster.freeze("slurmctld")
    spec = harness.spec("say hello")
    report = harness.engine.launch(spec)
    assert report.phase is AttemptPhase.STARTING
    assert "as soon as its controller answers" in report.detail
    harness.cluster.freeze("slurmctld", thaw=True)
    assert cause_of(harness, spec) is ExitCause.SUCCEEDED
    log = harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=1000)
    assert log.count(b"hello") == 1


def test_what_was_stopped_while_the_controller_was_down_never_starts(
    harness: SlurmHarness,
) -> None:
    harness.engine.nodes()
    harness.cluster.kill("slurmctld")
    spec = harness.spec("say hello")
    harness.engine.launch(spec)
    harness.engine.stop(spec.attempt_id, grace_seconds=0, reason=ExitCause.STOPPED)
    harness.cluster.start_controller()
    assert cause_of(harness, spec) is ExitCause.STOPPED
    assert harness.slurm_id(spec.attempt_id) == ""
    assert harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=1000) == b""


def test_one_list_serves_all_attempts_of_a_pass(harness: SlurmHarness) -> None:
    specs = [harness.spec("sleep") for _ in range(8)]
    for spec in specs:
        harness.engine.launch(spec)
    for spec in specs:
        harness.wait_for(spec.attempt_id, AttemptPhase.RUNNING)
    engine = harness.opened[0]
    before, begun = engine.commands.counts["squeue"], time.monotonic()
    for _ in range(20):
        engine.attempts()
    # One a second at most, however long the 160 looks took.
    most = 2 + (time.monotonic() - begun) / JOBS_SECONDS
    assert engine.commands.counts["squeue"] - before <= most


def test_a_queues_options_reach_slurm_and_its_refusals_are_said(harness: SlurmHarness) -> None:
    options = BatchOptions(partition="short", directives=("--nice=7",))
    spec = harness.spec("sleep", batch=options, time_limit_seconds=60.0)
    harness.engine.launch(spec)
    harness.wait_for(spec.attempt_id, AttemptPhase.RUNNING)
    facts = harness.cluster.run("scontrol", "show", "job", harness.slurm_id(spec.attempt_id))
    assert "Partition=short" in facts
    assert "Nice=7" in facts
    too_long = harness.spec("sleep", batch=options, time_limit_seconds=86400.0)
    with pytest.raises(Exception, match="time limit"):
        harness.engine.launch(too_long)
    assert harness.engine.lookup(too_long.attempt_id) is None


def test_a_job_that_asks_for_all_that_the_site_allows_is_taken(harness: SlurmHarness) -> None:
    """Slurm refuses a minute more, which other jobs are given for their end."""
    options = BatchOptions(partition="short", most_seconds=600.0)
    spec = harness.spec("sleep", batch=options, time_limit_seconds=600.0)
    harness.engine.launch(spec)
    harness.wait_for(spec.attempt_id, AttemptPhase.RUNNING)
    facts = harness.cluster.run("scontrol", "show", "job", harness.slurm_id(spec.attempt_id))
    assert "TimeLimit=00:10:00" in facts


def test_jobs_over_the_limit_of_submitted_ones_wait_and_are_handed_over_once(
    harness: SlurmHarness,
) -> None:
    harness.cluster.take_no_more()
    spec, stopped = harness.spec("say hello"), harness.spec("say hello")
    for one in (spec, stopped):
        report = harness.engine.launch(one)
        assert report.phase is AttemptPhase.STARTING
        assert "takes more jobs of the server's user: AssocMaxSubmitJobLimit" in report.detail
    harness.engine.stop(stopped.attempt_id, grace_seconds=0, reason=ExitCause.STOPPED)
    assert cause_of(harness, stopped) is ExitCause.STOPPED
    harness.cluster.take_no_more(again=True)
    assert cause_of(harness, spec) is ExitCause.SUCCEEDED
    assert harness.slurm_id(stopped.attempt_id) == ""
    log = harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=1000)
    assert log.count(b"hello") == 1


def test_a_lease_is_a_reservation_made_moved_ended_and_found_again(harness: SlurmHarness) -> None:
    now = datetime.now(UTC)
    hold = LeaseHold(
        lease_id="l7",
        node_ids=("n2",),
        starts_at=now - timedelta(minutes=1),
        ends_at=now + timedelta(hours=1),
    )
    harness.engine.hold_lease(hold)
    assert "Nodes=n2" in reservation(harness)
    stranger = harness.cluster.submit("--nodelist=n2", "--uid=nobody", "--time=5")
    longer = LeaseHold(
        lease_id="l7",
        node_ids=("n1", "n2"),
        starts_at=hold.starts_at,
        ends_at=now + timedelta(hours=2),
    )
    harness.engine = harness.reopen()
    harness.engine.hold_lease(longer)
    assert "Nodes=n[1-2]" in reservation(harness)
    assert f"EndTime={longer.ends_at.astimezone():%Y-%m-%dT%H:%M:%S}" in reservation(harness)
    spec = harness.spec("succeed", leases=("l7",), placement=(NodeGrant(node_id="n2"),))
    report = harness.run(spec)
    assert report.exit is not None
    assert report.exit.cause is ExitCause.SUCCEEDED
    assert harness.cluster.state(stranger) == "PENDING"
    harness.engine.drop_lease("l7")
    harness.wait_until(lambda: not reservation(harness), "the reservation stays")


def reservation(harness: SlurmHarness) -> str:
    text = harness.cluster.run("scontrol", "-o", "show", "reservation")
    return text if "ReservationName" in text else ""


def test_a_site_that_refuses_gres_and_memory_gives_whole_nodes(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    """The refusal is the controller's own, by the site's rules for submissions."""
    harness = SlurmHarness(slurm_cluster, tmp_path, whole_nodes=True)
    share = NodeGrant(node_id="n1", gpus=(GpuShare(index=0),), memory_bytes=1024**3)
    options = BatchOptions(partition="whole")
    plain = SlurmHarness(slurm_cluster, tmp_path / "plain")
    with pytest.raises(LaunchRefused, match="Whole nodes only"):
        plain.engine.launch(plain.spec("succeed", placement=(share,), batch=options))
    plain.close()
    spec = harness.spec("print environment", placement=(share,), batch=options)
    assert cause_of_run(harness, spec) is ExitCause.SUCCEEDED
    log = harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=100_000)
    assert b'"CUDA_VISIBLE_DEVICES": "0"' in log
    harness.close()


def cause_of_run(harness: SlurmHarness, spec: LaunchSpec) -> ExitCause | None:
    harness.engine.launch(spec)
    return cause_of(harness, spec)


def test_behind_slurm_jobs_are_handed_over_early_and_slurm_orders_them(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    harness = SlurmHarness(slurm_cluster, tmp_path, way="behind", ahead=3)
    names = [node.node_id for node in harness.engine.nodes()]
    assert len(names) == 6
    whole = (GpuShare(index=0), GpuShare(index=1))
    specs = [
        harness.spec("sleep", placement=(NodeGrant(node_id=name, gpus=whole),))
        for name in names[:4]
    ]
    for spec in specs:
        harness.engine.launch(spec)

    def phases() -> list[AttemptPhase]:
        return sorted(report.phase for report in harness.engine.attempts())

    expected = [AttemptPhase.RUNNING] * 2 + [AttemptPhase.STARTING] * 2
    harness.wait_until(lambda: phases() == expected, f"{phases()}")
    waiting = [r for r in harness.engine.attempts() if r.phase is AttemptPhase.STARTING]
    harness.wait_until(
        lambda: any(
            "waiting as job" in r.detail and "(" in r.detail for r in harness.engine.attempts()
        ),
        f"{waiting}",
    )
    harness.close()
