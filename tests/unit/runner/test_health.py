"""Checks of a machine: verdict, sentence and number, from recorded answers of the drivers."""

# ruff: noqa: N802

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runner.test_machine import FakeNvml, FakeRocm
from trackyard.core.health import LIMITS, CheckName, read_checks
from trackyard.runner import processes
from trackyard.runner.machine import health
from trackyard.runner.machine.condition import GPU_IS_LOST, GpuCondition
from trackyard.runner.machine.gpus import (
    AmdDriver,
    FileDriver,
    GpuDriver,
    GpuIdentity,
    NvidiaDriver,
)
from trackyard.runner.machine.survey import survey

BOUND = health.DEFAULTS


class HealthyNvml(FakeNvml):
    """An H200's answers as NVML gave them, with a process of 120 GB on it."""

    def nvmlDeviceGetTemperature(self, _handle: Any, _sensor: Any, value: Any) -> int:
        value._obj.value = 41
        return 0

    def nvmlDeviceGetTemperatureThreshold(self, _handle: Any, _kind: Any, value: Any) -> int:
        value._obj.value = 91
        return 0

    def nvmlDeviceGetTotalEccErrors(
        self, _handle: Any, kind: Any, _counter: Any, value: Any
    ) -> int:
        value._obj.value = 0 if kind.value else 3
        return 0

    def nvmlDeviceGetRemappedRows(self, _handle: Any, *values: Any) -> int:
        for value, told in zip(values, (1, 0, 0, 0), strict=True):
            value._obj.value = told
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _handle: Any, bits: Any) -> int:
        bits._obj.value = 0x4
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, _handle: Any, count: Any, found: Any) -> int:
        found[0].pid, found[0].memory = 4242, 120_000_000_000
        count._obj.value = 1
        return 0


class SickNvml(HealthyNvml):
    def nvmlDeviceGetTemperature(self, _handle: Any, _sensor: Any, value: Any) -> int:
        value._obj.value = 92
        return 0

    def nvmlDeviceGetTotalEccErrors(
        self, _handle: Any, kind: Any, _counter: Any, value: Any
    ) -> int:
        value._obj.value = 2 if kind.value else 50
        return 0

    def nvmlDeviceGetRemappedRows(self, _handle: Any, *values: Any) -> int:
        for value, told in zip(values, (0, 8, 0, 1), strict=True):
            value._obj.value = told
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _handle: Any, bits: Any) -> int:
        bits._obj.value = 0x48
        return 0


class LostNvml(HealthyNvml):
    def nvmlDeviceGetMemoryInfo(self, _handle: Any, _memory: Any) -> int:
        return GPU_IS_LOST


class WornRocm(FakeRocm):
    """An MI300X as ROCm SMI answers: no edge sensor limit, two bad pages, one error."""

    def rsmi_dev_temp_metric_get(self, _index: Any, sensor: Any, metric: Any, value: Any) -> int:
        if sensor.value != 1:
            return 2
        value._obj.value = 105_000 if metric.value == 5 else 101_000
        return 0

    def rsmi_dev_ecc_count_get(self, _index: Any, _block: Any, errors: Any) -> int:
        errors._obj.corrected, errors._obj.uncorrected = 7, 1
        return 0

    def rsmi_dev_memory_reserved_pages_get(self, _index: Any, pages: Any, _records: Any) -> int:
        pages._obj.value = 2
        return 0

    def rsmi_compute_process_info_get(self, found: Any, count: Any) -> int:
        found[0].pid, found[0].memory = 77, 5
        found[1].pid, found[1].memory = 78, 6
        count._obj.value = 2
        return 0

    def rsmi_compute_process_gpus_get(self, pid: Any, gpus: Any, count: Any) -> int:
        gpus[0] = 0 if pid.value == 77 else 1
        count._obj.value = 1
        return 0


def seen(driver: GpuDriver) -> dict[int, GpuCondition]:
    subject = health.CheckSubject(folder=Path("/"), drivers=[driver])
    return health.conditions(subject)


def verdicts(checks: list[health.CheckResult]) -> dict[str, tuple[str, float | None]]:
    return {check.name: (check.verdict, check.number) for check in checks}


def test_limits_and_names_are_those_the_server_knows() -> None:
    assert {name: default for name, (default, _) in LIMITS.items()} == health.DEFAULTS


def test_a_healthy_nvidia_gpu_passes_every_check() -> None:
    found = seen(NvidiaDriver(HealthyNvml()))
    assert found[0]._replace(holders=None) == GpuCondition(
        temperature_celsius=41,
        temperature_limit_celsius=91,
        ecc_uncorrected=0,
        ecc_corrected=3,
        remapped=1,
        remap_pending=False,
        remap_failed=False,
        slowed_by="",
        memory_bytes=1000,
    )
    assert found[0].holders == {4242: 120_000_000_000}
    checks = [*health.errors(found, BOUND), *health.heat(found, BOUND)]
    assert verdicts(checks) == {
        "ecc": ("ok", 0),
        "remap": ("ok", 1),
        "temperature": ("ok", 41),
        "throttle": ("ok", 0),
    }


def test_a_sick_nvidia_gpu_fails_with_its_numbers() -> None:
    found = seen(NvidiaDriver(SickNvml()))
    checks = [*health.errors(found, BOUND), *health.heat(found, BOUND)]
    assert verdicts(checks) == {
        "ecc": ("fail", 2),
        "remap": ("fail", 8),
        "temperature": ("fail", 92),
        "throttle": ("fail", 1),
    }
    assert [check.sentence for check in checks] == [
        "GPU 0 had 2 memory errors that could not be corrected.",
        "GPU 0 has no spare rows left for broken memory.",
        "GPU 0 is at 92 °C; its limit is 91 °C.",
        "GPU 0 is slowed down by heat.",
    ]


def test_a_lost_gpu_is_not_listed() -> None:
    assert NvidiaDriver(LostNvml()).facts() == []


def test_an_older_library_leaves_checks_out() -> None:
    found = seen(NvidiaDriver(FakeNvml()))
    assert found == {0: GpuCondition(memory_bytes=1000)}
    assert health.errors(found, BOUND) == health.heat(found, BOUND) == []


def test_an_amd_gpu_is_judged_by_the_same_checks() -> None:
    """The junction's temperature counts, and only processes on this very GPU."""
    found = seen(AmdDriver(WornRocm()))
    assert found[0].holders == {77: 5}
    checks = [*health.errors(found, BOUND), *health.heat(found, BOUND)]
    assert verdicts(checks) == {
        "ecc": ("fail", 1),
        "remap": ("ok", 2),
        "temperature": ("warn", 101),
    }


def test_many_corrected_errors_and_a_pending_reset_warn() -> None:
    worn = GpuCondition(ecc_uncorrected=0, ecc_corrected=20_000, remapped=3, remap_pending=True)
    assert verdicts(health.errors({2: worn}, BOUND)) == {"ecc": ("warn", 0), "remap": ("warn", 3)}


def test_a_gpu_short_of_power_warns() -> None:
    (check,) = health.heat({1: GpuCondition(slowed_by="power")}, BOUND)
    assert (check.verdict, check.sentence) == ("warn", "GPU 1 is slowed down for want of power.")


KERNEL = [
    (90.0, "NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=python, MMU Fault"),
    (60.0, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."),
    (9000.0, "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, Double Bit ECC Error"),
    (1.0, "usb 1-1: new device"),
]


def test_only_grave_and_recent_driver_faults_count() -> None:
    (check,) = health.driver_faults([NvidiaDriver(FakeNvml())], BOUND, lambda: KERNEL)
    assert (check.verdict, check.number) == ("fail", 1)
    assert "Xid 79 on PCI:0000:3b:00" in check.sentence
    (check,) = health.driver_faults([NvidiaDriver(FakeNvml())], BOUND, lambda: KERNEL[:1])
    assert check.verdict == "ok"


def test_the_kernels_log_is_not_guessed_at() -> None:
    assert health.driver_faults([NvidiaDriver(FakeNvml())], BOUND, lambda: None) == []
    assert health.driver_faults([AmdDriver(FakeRocm())], BOUND, lambda: KERNEL) == []


def test_disk_warns_then_fails_as_room_runs_out(tmp_path: Path) -> None:
    free = health.disk(tmp_path, BOUND).number
    assert free is not None
    assert free > 0
    for limits, verdict in (
        ({"disk_warn_gb": 0, "disk_fail_gb": 0}, "ok"),
        ({"disk_warn_gb": free + 1e6, "disk_fail_gb": 0}, "warn"),
        ({"disk_warn_gb": free + 1e6, "disk_fail_gb": free + 1e6}, "fail"),
    ):
        assert health.disk(tmp_path, {**BOUND, **limits}).verdict == verdict
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_fails(tmp_path: Path) -> None:
    check = health.disk(tmp_path / "gone", BOUND)
    assert check.verdict == "fail"
    assert check.sentence.endswith(f"cannot be written: {os.strerror(errno.ENOENT)}.")


def process_table(folder: Path, **variables: str) -> Path:
    """Write a process table with one process 4242 of such an environment."""
    process = folder / "4242"
    process.mkdir(parents=True)
    lines = [f"{name}={value}" for name, value in variables.items()]
    (process / "environ").write_bytes("\0".join(lines).encode())
    (process / "comm").write_text("python\n")
    (process / "cmdline").write_bytes(b"python\0train.py\0")
    return folder


@pytest.mark.parametrize(
    ("variables", "live", "verdict"),
    [
        ({"YARD_ATTEMPT_ID": "j1-a1"}, {"j1-a1"}, "ok"),
        ({"YARD_ATTEMPT_ID": "j1-a1"}, None, "ok"),
        ({"YARD_ATTEMPT_ID": "j0-a9"}, {"j1-a1"}, "fail"),
        ({"HOME": "/root"}, {"j1-a1"}, "fail"),
    ],
)
def test_gpu_memory_held_by_no_live_attempt_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    live: set[str] | None,
    verdict: str,
) -> None:
    monkeypatch.setattr(processes, "PROC", process_table(tmp_path, **variables))
    held = GpuCondition(holders={4242: 600_000_000}, memory_bytes=1_000_000_000)
    subject = health.CheckSubject(folder=tmp_path, drivers=[], live=live)
    (check,) = health.strays({3: held}, subject, BOUND)
    assert check.verdict == verdict
    if verdict == "fail":
        assert check.sentence == (
            "600 MB of GPU 3 are held by no attempt, most by process 4242 (python)."
        )


def test_a_process_of_another_container_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path)
    held = GpuCondition(holders={9: 900}, memory_bytes=1000)
    bound = {**BOUND, "stray_warn_mb": 0.0001}
    (check,) = health.strays({0: held}, health.CheckSubject(tmp_path, []), bound)
    assert check.verdict == "ok"


def test_a_process_stuck_in_the_kernel_warns_then_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts from the first look that saw the very same process stuck."""
    stuck = processes.Process(4242, 1, "D", 99, 0, 0)
    monkeypatch.setattr(processes, "PROC", process_table(tmp_path / "proc"))
    monkeypatch.setattr(processes, "table", lambda: {4242: stuck})
    subject = health.CheckSubject(tmp_path, [], memory=tmp_path / "stuck.json")

    def after(seconds: float) -> str:
        monkeypatch.setattr(health.time, "time", lambda: 1000.0 + seconds)
        return health.strays({}, subject, BOUND)[0].verdict

    assert [after(0), after(119), after(120), after(600)] == ["ok", "ok", "warn", "fail"]
    monkeypatch.setattr(processes, "table", lambda: {4242: stuck._replace(start_ticks=100)})
    assert after(601) == "ok"


def test_a_file_may_tell_of_gpus_and_their_condition(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    path.write_text(json.dumps([{"index": 1, "model": "X1", "temperature_celsius": 96}]))
    driver = FileDriver(path)
    assert driver.facts() == [GpuIdentity(1, "declared", "X1", 0, None)]
    assert seen(driver) == {1: GpuCondition(temperature_celsius=96)}
    path.write_text("{}x")
    with pytest.raises(ValueError, match="does not list GPUs as JSON"):
        FileDriver(path)


def test_a_survey_carries_what_the_server_can_read(tmp_path: Path) -> None:
    """Inventory and checks come in one answer, in the words of the port."""
    (tmp_path / "gpus.json").write_text('[{"index": 0, "ecc_uncorrected": 4}]')
    options = {"folder": str(tmp_path), "gpu_file": str(tmp_path / "gpus.json")}
    found = survey(json.dumps({**options, "limits": {"disk_fail_gb": 0, "disk_warn_gb": 0}}))
    assert [gpu["index"] for gpu in found["gpus"]] == [0]
    checks = read_checks(found["checks"])
    assert {check.name: check.verdict for check in checks} == {
        CheckName.DISK: "ok",
        CheckName.ECC: "fail",
    }
    assert "checks" not in survey()
