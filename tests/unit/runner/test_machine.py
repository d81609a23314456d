"""Samples carry MLflow's names; GPU values come from the drivers alone."""

# ruff: noqa: N802, N815

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from trackyard.runner.machine import gpus
from trackyard.runner.machine.gpus import AmdDriver, GpuDriver, GpuIdentity, GpuUse, NvidiaDriver
from trackyard.runner.machine.inventory import inventory
from trackyard.runner.machine.samples import Sampler


class TwoGpus(GpuDriver):
    vendor = "nvidia"
    labels = {"nvidia_driver": "550.1", "cuda": "12.4"}  # noqa: RUF012

    def facts(self) -> list[GpuIdentity]:
        return [GpuIdentity(n, "nvidia", "H200", 1000, f"GPU-{n}") for n in (0, 1)]

    def use(self, index: int) -> GpuUse:
        return GpuUse(75.0, 500_000_000, 1_000_000_000, 350.0, None if index else 700.0)


def read(tmp_path: Path, **changes: Any) -> dict[str, float]:
    options: dict[str, Any] = {"drivers": lambda: [TwoGpus()], "gpus": None, "prefix": "system/"}
    sampler = Sampler(disk=tmp_path, **{**options, **changes})
    return sampler.read(job_memory_bytes=5_000_000, job_cpu_ticks=3)


def test_gpu_values_carry_mlflows_names(tmp_path: Path) -> None:
    values = read(tmp_path)
    assert values["system/gpu_0_utilization_percentage"] == 75
    assert values["system/gpu_0_memory_usage_megabytes"] == 500
    assert values["system/gpu_0_memory_usage_percentage"] == 50
    assert values["system/gpu_0_power_usage_watts"] == 350
    assert values["system/gpu_0_power_usage_percentage"] == 50
    assert "system/gpu_1_power_usage_percentage" not in values


def test_only_the_jobs_own_gpus_are_sampled(tmp_path: Path) -> None:
    names = {name for name in read(tmp_path, gpus=[1]) if "gpu_" in name}
    assert {name.split("_")[1] for name in names} == {"1"}


def test_members_of_a_gang_are_told_apart(tmp_path: Path) -> None:
    assert all(name.startswith("system/3/") for name in read(tmp_path, prefix="system/3/"))


def test_this_machine_has_processors_and_memory() -> None:
    found = inventory()
    assert found["cpus"] >= 1
    assert found["memory_bytes"] > 0
    assert found["labels"]["arch"]
    assert found["limits"]["kind"] in ("cgroup", "systemd", "watch")


class FakeNvml:
    """NVML as a driver without power readings answers."""

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlSystemGetDriverVersion(self, text: Any, _length: Any) -> int:
        text.value = b"550.54"
        return 0

    def nvmlSystemGetCudaDriverVersion(self, number: Any) -> int:
        number._obj.value = 12040
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = 1
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: ctypes.c_uint, _handle: Any) -> int:
        return 0 if index.value == 0 else 2

    def nvmlDeviceGetName(self, _handle: Any, text: Any, _length: Any) -> int:
        text.value = b"NVIDIA H200"
        return 0

    def nvmlDeviceGetUUID(self, _handle: Any, text: Any, _length: Any) -> int:
        text.value = b"GPU-1"
        return 0

    def nvmlDeviceGetMemoryInfo(self, _handle: Any, memory: Any) -> int:
        memory._obj.total, memory._obj.used = 1000, 10
        return 0

    def nvmlDeviceGetUtilizationRates(self, _handle: Any, rates: Any) -> int:
        rates._obj.gpu = 42
        return 0

    def nvmlDeviceGetPowerUsage(self, _handle: Any, _value: Any) -> int:
        return 3

    nvmlDeviceGetEnforcedPowerLimit = nvmlDeviceGetPowerUsage


class NewerNvml(FakeNvml):
    """Tells temperatures and clocks, too."""

    def nvmlDeviceGetTemperature(self, _handle: Any, sensor: Any, value: Any) -> int:
        value._obj.value = 61
        return int(sensor.value)

    def nvmlDeviceGetClockInfo(self, _handle: Any, kind: Any, value: Any) -> int:
        value._obj.value = {1: 1980}[kind.value]
        return 0


def test_nvml_is_read_and_missing_values_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_load", lambda _names: FakeNvml())
    driver = NvidiaDriver.open()
    assert driver is not None
    assert driver.labels == {"nvidia_driver": "550.54", "cuda": "12.4"}
    assert driver.facts() == [GpuIdentity(0, "nvidia", "NVIDIA H200", 1000, "GPU-1")]
    assert driver.use(0) == GpuUse(42.0, 10, 1000, None, None)
    assert NvidiaDriver(NewerNvml()).use(0) == GpuUse(42.0, 10, 1000, None, None, 61.0, 1980.0)
    assert driver.use(5) is None


class FakeRocm:
    """ROCm SMI with one GPU."""

    def rsmi_init(self, _flags: Any) -> int:
        return 0

    def rsmi_version_str_get(self, _component: Any, text: Any, _length: Any) -> int:
        text.value = b"6.8.5"
        return 0

    def rsmi_num_monitor_devices(self, count: Any) -> int:
        count._obj.value = 1
        return 0

    def rsmi_dev_name_get(self, _index: Any, text: Any, _length: Any) -> int:
        text.value = b"AMD Instinct MI300X"
        return 0

    def rsmi_dev_unique_id_get(self, _index: Any, value: Any) -> int:
        value._obj.value = 0xABC
        return 0

    def rsmi_dev_memory_total_get(self, _index: Any, _kind: Any, value: Any) -> int:
        value._obj.value = 2000
        return 0

    def rsmi_dev_memory_usage_get(self, _index: Any, _kind: Any, value: Any) -> int:
        value._obj.value = 20
        return 0

    def rsmi_dev_busy_percent_get(self, _index: Any, value: Any) -> int:
        value._obj.value = 99
        return 0

    def rsmi_dev_power_ave_get(self, _index: Any, _sensor: Any, value: Any) -> int:
        value._obj.value = 250_000_000
        return 0

    def rsmi_dev_power_cap_get(self, _index: Any, _sensor: Any, value: Any) -> int:
        value._obj.value = 750_000_000
        return 0


def test_amd_is_read_in_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_load", lambda _names: FakeRocm())
    driver = AmdDriver.open()
    assert driver is not None
    assert driver.facts() == [
        GpuIdentity(0, "amd", "AMD Instinct MI300X", 2000, "0000000000000abc")
    ]
    assert driver.use(0) == GpuUse(99.0, 20, 2000, 250.0, 750.0)


def test_declared_gpus_are_sampled_as_their_file_says_now(tmp_path: Path) -> None:
    file = tmp_path / "gpus.json"
    file.write_text('[{"index": 0, "temperature_celsius": 55, "clock_megahertz": 1400}]')
    sampler = Sampler(
        disk=tmp_path, drivers=lambda: gpus.drivers(file), gpus=None, prefix="system/"
    )

    def told() -> dict[str, float]:
        return {key: value for key, value in sampler.read().items() if "gpu_0" in key}

    wanted = {"system/gpu_0_temperature_celsius": 55.0, "system/gpu_0_clock_megahertz": 1400.0}
    assert told() == wanted
    file.write_text('[{"index": 0, "temperature_celsius": 80, "utiliz')
    assert told() == wanted
    file.write_text('[{"index": 0, "temperature_celsius": 80, "utilization_percentage": "high"}]')
    assert told() == {"system/gpu_0_temperature_celsius": 80.0}


def test_a_machine_without_drivers_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_load", lambda _names: None)
    assert gpus.drivers() == []
