"""The Ray engine's pure parts: what is submitted, and what Ray's answers mean."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import pytest

from trackyard.core.ports import (
    AttemptPhase,
    EngineError,
    ExitCause,
    ForeignUse,
    GpuShare,
    LaunchRefused,
    LaunchSpec,
    NodeGrant,
    PackageRef,
    RayOptions,
    ReportTo,
)
from trackyard.engines.ray import judging, nodes, pending, submission
from trackyard.engines.ray.api import ClusterInfo, RayApi, gist
from trackyard.engines.ray.nodes import ForeignHold
from trackyard.engines.ray.submission import CarriedFiles, RaySite
from trackyard.testing.clock import FakeClock

NEW = ClusterInfo(ray_version="2.60.0", session="s1")
SITE = RaySite(name="here", folder="/shared", renew_within_seconds=45.0)
ID = "a" * 56


def row(node_id: str = ID, *, name: str = "", state: str = "ALIVE", **resources: float) -> Any:
    labels = {"ray.io/node-id": node_id, **({"yard.name": name} if name else {})}
    return {
        "node_id": node_id,
        "node_ip": "10.0.0.7",
        "node_name": "10.0.0.7",
        "state": state,
        "resources_total": {"CPU": 8.0, "GPU": 1.0, "memory": 1e9, **resources},
        "labels": labels,
    }


NODE = nodes.read_nodes([row(name="gpu-1")])[0]


def launch(**changes: Any) -> LaunchSpec:
    values: dict[str, Any] = {
        "attempt_id": "j1-a1",
        "epoch": 3,
        "job_id": "j1",
        "argv": ("python", "train.py"),
        "placement": (
            NodeGrant(
                node_id="gpu-1", gpus=(GpuShare(index=0, fraction=0.5),), cpus=2, memory_bytes=1000
            ),
        ),
        "report": ReportTo(url="http://yard:8000", token="s3cret"),
        "grace_seconds": 20.5,
    }
    return LaunchSpec(**{**values, **changes})


def body(spec: LaunchSpec, cluster: ClusterInfo = NEW, carried: CarriedFiles | None = None) -> Any:
    found = [NODE] * len(spec.placement)
    return submission.submission(spec, found, cluster, SITE, carried or CarriedFiles())


def sent_spec(sent: Any) -> Any:
    packed = sent["runtime_env"]["env_vars"]["YARD_SPEC"]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


class TestSubmission:
    def test_a_job_is_pinned_to_its_node_with_its_share_and_its_grace(self) -> None:
        sent = body(launch())
        assert sent["submission_id"] == "j1-a1"
        assert sent["entrypoint_label_selector"] == {"ray.io/node-id": ID}
        assert (sent["entrypoint_num_cpus"], sent["entrypoint_num_gpus"]) == (2, 0.5)
        assert sent["entrypoint_memory"] == 1000
        assert sent["runtime_env"]["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"] == "26"

    def test_before_labels_a_node_is_named_by_its_address(self) -> None:
        sent = body(launch(), ClusterInfo(ray_version="2.42.1", session="s"))
        assert "entrypoint_label_selector" not in sent
        assert sent["entrypoint_resources"] == {"node:10.0.0.7": 0.001}

    def test_the_token_is_in_the_packed_spec_and_nowhere_else(self) -> None:
        sent = body(launch(platform_env={"MLFLOW_TRACKING_TOKEN": "s3cret"}))
        assert sent_spec(sent)["report"]["token"] == "s3cret"
        assert sent_spec(sent)["report"]["renew_within_seconds"] == 45.0
        assert "s3cret" not in json.dumps(sent)

    def test_the_placement_is_read_back_from_the_metadata(self) -> None:
        spec = launch()
        assert submission.placement_of(body(spec)["metadata"]) == spec.placement

    def test_a_gang_holds_nothing_by_its_launcher(self) -> None:
        share = launch().placement[0]
        sent = body(launch(placement=(share, share)))
        assert sent["entrypoint_num_cpus"] == 0
        assert "entrypoint_num_gpus" not in sent
        assert "--ray-gang" in sent["entrypoint"]
        assert [one["gpus"] for one in sent_spec(sent)["ray"]["members"]] == [0.5, 0.5]

    def test_parts_of_several_gpus_are_refused(self) -> None:
        halves = tuple(GpuShare(index=index, fraction=0.5) for index in (0, 1))
        with pytest.raises(LaunchRefused, match="part of one GPU"):
            body(launch(placement=(NodeGrant(node_id="gpu-1", gpus=halves),)))

    def test_a_spec_that_no_variable_can_hold_is_refused(self) -> None:
        import random

        noise = "".join(random.Random(1).choices("0123456789abcdef", k=400_000))
        with pytest.raises(LaunchRefused, match="too large"):
            body(launch(env={"NOISE": noise}))

    def test_a_ray_jobs_environment_goes_to_ray_with_packages_under_our_names(self) -> None:
        ref = PackageRef(digest="d" * 64, location="http://yard/p", size_bytes=10)
        wish = RayOptions(
            submission_id="raysubmit_1",
            entrypoint="python train.py",
            runtime_env={
                "working_dir": "gcs://_ray_pkg_1.zip",
                "py_modules": ["gcs://_ray_pkg_2.zip"],
                "pip": ["torch"],
                "env_vars": {"FOO": "bar"},
                "nsight": "default",
            },
            packages={"gcs://_ray_pkg_1.zip": ref, "gcs://_ray_pkg_2.zip": ref},
            resources={"licence": 1},
        )
        spec = launch(ray=wish, env={"FOO": "bar"}, pip=("torch",), package=ref, modules=(ref,))
        carried = CarriedFiles(
            uris={"gcs://_ray_pkg_1.zip": "gcs://a.zip", "gcs://_ray_pkg_2.zip": "gcs://b.zip"},
            modules=("gcs://gate.zip",),
            variables={"RAY_TRAIN_CALLBACKS": "x.Y"},
        )
        sent = body(spec, carried=carried)
        made = sent["runtime_env"]
        assert (made["working_dir"], made["pip"], made["nsight"]) == (
            "gcs://a.zip",
            ["torch"],
            "default",
        )
        assert made["py_modules"][:2] == ["gcs://b.zip", "gcs://gate.zip"]
        assert made["env_vars"]["FOO"] == "bar"
        assert made["env_vars"]["RAY_TRAIN_CALLBACKS"] == "x.Y"
        assert sent["entrypoint_resources"] == {"licence": 1}
        left = sent_spec(sent)
        assert (left["modules"], left["pip"]) == ([], [])
        # The driver's folder is the runner's own, so that Ray cannot replace it.
        assert left["package"]["digest"] == ref.digest
        assert (left["ray"]["has_folder"], left["ray"]["copies"]) == (True, False)

    def test_a_folder_on_the_web_is_copied_by_the_runner(self) -> None:
        environment = {"working_dir": "https://host/work.zip"}
        wish = RayOptions(submission_id="r", entrypoint="python t.py", runtime_env=environment)
        sent = body(launch(ray=wish))
        assert sent["runtime_env"]["working_dir"] == "https://host/work.zip"
        assert sent_spec(sent)["ray"]["copies"] is True

    def test_a_package_too_large_for_ray_is_left_to_the_runner(self) -> None:
        ref = PackageRef(digest="d" * 64, location="http://yard/p", size_bytes=1 << 40)
        wish = RayOptions(
            submission_id="r",
            entrypoint="python train.py",
            runtime_env={"working_dir": "gcs://_ray_pkg_1.zip"},
            packages={"gcs://_ray_pkg_1.zip": ref},
        )
        sent = body(launch(ray=wish, package=ref))
        assert "working_dir" not in sent["runtime_env"]
        assert sent_spec(sent)["package"]["digest"] == "d" * 64


class TestNodes:
    def test_custom_resources_become_labels_that_jobs_can_ask_for(self) -> None:
        [node] = nodes.read_nodes([row(licence=2.0, **{"node:10.0.0.7": 1.0})])
        labels = nodes.node_labels(node, "2.60.0")
        assert labels["resource/licence"] == "yes"
        assert labels["resource-total/licence"] == "2"
        assert not any("node:" in key for key in labels)
        assert (labels["ray-version"], labels["ray-node-id"]) == ("2.60.0", ID)

    def test_a_node_is_called_by_its_label_and_the_living_one_counts(self) -> None:
        found = nodes.read_nodes([row("1" * 56, name="w", state="DEAD"), row("2" * 56, name="w")])
        assert [(node.node_id, node.ray_id, node.is_alive) for node in found] == [
            ("w", "2" * 56, True)
        ]

    def test_two_living_nodes_of_one_name_are_told_apart_by_rays_ids(self) -> None:
        found = nodes.read_nodes([row("1" * 56, name="w"), row("2" * 56, name="w")])
        assert [node.node_id for node in found] == ["1" * 56, "2" * 56]

    def test_what_foreign_jobs_hold_is_not_free_and_they_are_named(self) -> None:
        [node] = nodes.read_nodes([row(GPU=2.0)])
        others = {"r1": ForeignHold(cpus=3, gpus=1, memory_bytes=4e8, line="python x.py")}
        held = [NodeGrant(node_id=ID, gpus=(GpuShare(index=0, fraction=0.5),), cpus=1)]
        report = nodes.describe(
            node, held, foreign=others, gpus=nodes.declared_gpus(node), ray_version="2.60.0"
        )
        assert [gpu.free for gpu in report.gpus] == [0.5, 0.0]
        assert report.free_cpus == 4
        assert report.free_memory_bytes == 600_000_000
        assert report.notes == ("The Ray job r1 (python x.py) runs here past the queue.",)
        assert report.foreign == (
            ForeignUse(name="r1", gpus=(1,), cpus=3, memory_bytes=400_000_000),
        )

    def test_the_accelerators_name_tells_its_vendor(self) -> None:
        assert [nodes.vendor_of(name) for name in ("A100", "AMD-Instinct-MI300X", "MI250X")] == [
            "nvidia",
            "amd",
            "amd",
        ]


def job(status: str, **changes: Any) -> Any:
    meta = submission.metadata(launch(), SITE)
    known = {"submission_id": "j1-a1", "status": status, "metadata": meta, "driver_node_id": ID}
    return {**known, "start_time": 1000, "end_time": 3000, **changes}


class TestJudging:
    def test_only_jobs_of_this_site_are_ours(self) -> None:
        assert judging.attempt_id_of(job("RUNNING"), "here") == "j1-a1"
        assert judging.attempt_id_of(job("RUNNING"), "elsewhere") is None
        assert judging.attempt_id_of({"submission_id": "raysubmit_1"}, "here") is None

    def test_a_running_job_whose_node_is_dead_is_lost(self) -> None:
        assert judging.judge(job("RUNNING"), {ID}).phase is AttemptPhase.RUNNING
        assert judging.judge(job("RUNNING"), set()).phase is AttemptPhase.LOST

    def test_the_runners_record_in_the_message_is_believed_before_rays_status(self) -> None:
        record = {
            "attempt_id": "j1-a1",
            "epoch": 3,
            "member": 0,
            "cause": "preempted",
            "exit_code": 85,
            "signal": None,
            "saved": True,
            "sentence": "The job was preempted.",
            "started_ms": 1,
            "ended_ms": 2,
            "duration_seconds": 0.001,
        }
        message = (
            f"failed with exit code 85, last logs:\nepoch 4\n[yard-exit] {json.dumps([record])}\n"
        )
        found = judging.judge(job("FAILED", message=message, driver_exit_code=85), {ID}).exit
        assert found is not None
        assert (found.cause, found.saved) == (ExitCause.PREEMPTED, True)

    def test_a_gang_that_lost_a_member_without_a_word_is_lost(self) -> None:
        """The others ended because of it, which is no failure of the job's own."""
        share = launch().placement[0]
        words = submission.metadata(launch(placement=(share, share)), SITE)

        def ended(cause: str) -> Any:
            record = {
                "attempt_id": "j1-a1",
                "epoch": 3,
                "member": 0,
                "cause": cause,
                "exit_code": 1,
                "sentence": "It ended.",
                "started_ms": 1,
                "ended_ms": 2,
                "duration_seconds": 0.001,
            }
            message = f"failed, last logs:\n[yard-exit] {json.dumps([record])}"
            return job("FAILED", message=message, driver_exit_code=76, metadata=words)

        assert judging.judge(ended("gang"), {ID}).phase is AttemptPhase.LOST
        assert judging.judge(ended("exit_code"), {ID}).phase is AttemptPhase.EXITED

    @pytest.mark.parametrize(
        ("changes", "phase", "cause", "code", "signal"),
        [
            ({"driver_exit_code": 3}, AttemptPhase.EXITED, ExitCause.EXIT_CODE, 3, None),
            ({"driver_exit_code": 139}, AttemptPhase.EXITED, ExitCause.SIGNAL, None, 11),
            ({"driver_exit_code": -9}, AttemptPhase.EXITED, ExitCause.SIGNAL, None, 9),
            (
                {
                    "error_type": "RUNTIME_ENV_SETUP_FAILURE",
                    "message": "no such package",
                    "runtime_env": {"pip": ["nonsense"]},
                },
                AttemptPhase.EXITED,
                ExitCause.SETUP,
                None,
                None,
            ),
            (
                {"error_type": "RUNTIME_ENV_SETUP_FAILURE", "message": "a package is gone"},
                AttemptPhase.EXITED,
                ExitCause.ENGINE,
                None,
                None,
            ),
            (
                {"error_type": "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", "message": "node left"},
                AttemptPhase.EXITED,
                ExitCause.ENGINE,
                None,
                None,
            ),
            (
                {"error_type": "JOB_SUPERVISOR_ACTOR_DIED", "message": "the node died"},
                AttemptPhase.LOST,
                None,
                None,
                None,
            ),
        ],
    )
    def test_without_a_record_rays_words_are_read(
        self,
        changes: dict[str, Any],
        phase: AttemptPhase,
        cause: ExitCause | None,
        code: int | None,
        signal: int | None,
    ) -> None:
        report = judging.judge(job("FAILED", **changes), {ID})
        assert report.phase is phase
        if cause is None:
            assert report.exit is None
            return
        assert report.exit is not None
        assert (report.exit.cause, report.exit.exit_code, report.exit.signal) == (
            cause,
            code,
            signal,
        )

    def test_a_job_stopped_in_ray_keeps_the_reason_it_was_stopped_for(self) -> None:
        report = judging.judge(job("STOPPED"), {ID}, ExitCause.PREEMPTED)
        assert report.exit is not None
        assert report.exit.cause is ExitCause.PREEMPTED

    def test_the_commands_own_log_is_cut_out_of_rays_file(self) -> None:
        whole = b'INFO setting up\nRunning entrypoint\n[yard-log]\nhello\n[yard-exit] [{"a": 1}]\n'
        assert judging.command_log(whole) == b"hello\n"
        assert judging.command_log(b"Running entrypoint\n") == b""


class TestPending:
    def test_what_ray_does_not_start_is_given_up_for_good(self) -> None:
        clock = FakeClock()
        waiting = pending.PendingAttempts(clock)
        row = job("PENDING", driver_node_id=None)
        report = judging.judge(row, {ID})
        assert waiting.judge(report, row, None).phase is AttemptPhase.STARTING
        clock.advance(pending.START_SECONDS + 1)
        ended = waiting.judge(report, row, None)
        assert ended.exit is not None
        assert ended.exit.cause is ExitCause.ENGINE
        late = replace(report, phase=AttemptPhase.RUNNING)
        assert waiting.judge(late, row, None) == ended

    def test_a_stopped_one_is_given_up_sooner(self) -> None:
        clock = FakeClock()
        waiting = pending.PendingAttempts(clock)
        row = job("PENDING", driver_node_id=None)
        report = judging.judge(row, {ID})
        waiting.judge(report, row, ExitCause.STOPPED)
        clock.advance(pending.STOPPED_SECONDS + 1)
        ended = waiting.judge(report, row, ExitCause.STOPPED)
        assert ended.exit is not None
        assert ended.exit.cause is ExitCause.STOPPED

    def test_an_environment_that_ray_makes_gets_longer(self) -> None:
        clock = FakeClock()
        waiting = pending.PendingAttempts(clock)
        row = job("PENDING", driver_node_id=None, runtime_env={"pip": ["torch"]})
        report = judging.judge(row, {ID})
        waiting.judge(report, row, None)
        clock.advance(pending.START_SECONDS + 1)
        assert waiting.judge(report, row, None).phase is AttemptPhase.STARTING


class TestApi:
    def test_rays_traceback_is_told_in_a_sentence(self) -> None:
        text = 'Traceback (most recent call last):\n  File "x"\nValueError: no such node\n'
        assert gist(text) == "no such node"
        assert gist("") == "it said nothing"

    @pytest.mark.parametrize("address", ["head:8265", "ray://head:10001", "ftp://head", ""])
    def test_an_address_that_is_no_http_address_is_refused(self, address: str) -> None:
        with pytest.raises(EngineError, match="http://head:8265"):
            RayApi(address)

    def test_credentials_in_an_address_are_not_shown(self) -> None:
        assert RayApi("http://user:pw@head:8265/").address == "http://head:8265"
