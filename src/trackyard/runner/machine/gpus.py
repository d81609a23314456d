"""GPUs through the vendors' own libraries, by ctypes: NVIDIA's NVML and AMD's ROCm SMI.

Owns the few calls needed for inventory and samples. A missing library means no such GPUs;
a value the driver does not give is left out, never guessed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from trackyard.runner.machine.condition import (
    GPU_IS_LOST,
    GpuCondition,
    amd_condition,
    amd_temperature,
    nvidia_condition,
    nvml_number,
)

NVIDIA_LIBRARIES = ("libnvidia-ml.so.1", "libnvidia-ml.so")
AMD_LIBRARIES = (
    "librocm_smi64.so.7",
    "librocm_smi64.so.6",
    "librocm_smi64.so.5",
    "librocm_smi64.so",
)


#: NVML_CLOCK_SM
_NVML_CLOCK_SM = 1


class GpuIdentity(NamedTuple):
    """What does not change about a GPU."""

    number: int
    vendor: str
    model: str
    memory_bytes: int
    uuid: Optional[str]


class GpuUse(NamedTuple):
    """One reading; None where the driver gives no value."""

    utilization_percentage: Optional[float]
    memory_used_bytes: Optional[int]
    memory_total_bytes: Optional[int]
    power_watts: Optional[float]
    power_limit_watts: Optional[float]
    temperature_celsius: Optional[float] = None
    #: of the cores that compute, not of the memory
    clock_megahertz: Optional[float] = None


class GpuDriver:
    """What both vendors' drivers offer here."""

    vendor = ""
    labels: Dict[str, str]

    def facts(self) -> List[GpuIdentity]:
        """Describe every GPU."""
        return []

    def use(self, index: int) -> Optional[GpuUse]:
        """Read one GPU, or return None if it is gone."""
        del index
        return None

    def condition(self, index: int) -> Optional[GpuCondition]:
        """Look at how one GPU is doing, or return None if it is gone."""
        del index
        return None


def drivers(gpu_file: Optional[Path] = None) -> List[GpuDriver]:
    """Open every driver this machine has; a file that tells of GPUs stands beside them."""
    found: List[GpuDriver] = []
    if gpu_file is not None and gpu_file.exists():
        found.append(FileDriver(gpu_file))
    for opener in (NvidiaDriver.open, AmdDriver.open):
        driver = opener()
        if driver is not None:
            found.append(driver)
    return found


class _NvmlMemory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _NvmlUtilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class NvidiaDriver(GpuDriver):
    """NVIDIA's management library."""

    vendor = "nvidia"

    def __init__(self, library: Any) -> None:
        self._library = library
        self.labels = {}
        text = ctypes.create_string_buffer(96)
        if library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(96)) == 0:
            self.labels["nvidia_driver"] = text.value.decode("utf-8", "replace")
        number = ctypes.c_int()
        if library.nvmlSystemGetCudaDriverVersion(ctypes.byref(number)) == 0:
            self.labels["cuda"] = f"{number.value // 1000}.{number.value % 1000 // 10}"

    @classmethod
    def open(cls) -> Optional[GpuDriver]:
        """Load the library, or return None where there is none or it does not start."""
        library = _load(NVIDIA_LIBRARIES)
        if library is None or library.nvmlInit_v2() != 0:
            return None
        return cls(library)

    def facts(self) -> List[GpuIdentity]:
        """Describe every GPU."""
        count = ctypes.c_uint()
        if self._library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return []
        found = []
        for index in range(count.value):
            handle = self._handle(index)
            if handle is None:
                continue
            memory = _NvmlMemory()
            total = self._library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
            if total == GPU_IS_LOST:
                continue
            found.append(
                GpuIdentity(
                    number=index,
                    vendor=self.vendor,
                    model=self._text(handle, "nvmlDeviceGetName") or "NVIDIA GPU",
                    memory_bytes=int(memory.total) if total == 0 else 0,
                    uuid=self._text(handle, "nvmlDeviceGetUUID"),
                )
            )
        return found

    def use(self, index: int) -> Optional[GpuUse]:
        """Read one GPU."""
        handle = self._handle(index)
        if handle is None:
            return None
        rates, memory = _NvmlUtilization(), _NvmlMemory()
        has_rates = self._library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)) == 0
        has_memory = self._library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0
        return GpuUse(
            utilization_percentage=float(rates.gpu) if has_rates else None,
            memory_used_bytes=int(memory.used) if has_memory else None,
            memory_total_bytes=int(memory.total) if has_memory else None,
            power_watts=self._milliwatts(handle, "nvmlDeviceGetPowerUsage"),
            power_limit_watts=self._milliwatts(handle, "nvmlDeviceGetEnforcedPowerLimit"),
            temperature_celsius=nvml_number(self._library, handle, "nvmlDeviceGetTemperature", 0),
            clock_megahertz=nvml_number(
                self._library, handle, "nvmlDeviceGetClockInfo", _NVML_CLOCK_SM
            ),
        )

    def condition(self, index: int) -> Optional[GpuCondition]:
        """Look at how one GPU is doing."""
        handle = self._handle(index)
        if handle is None:
            return None
        memory = _NvmlMemory()
        told = self._library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0
        return nvidia_condition(self._library, handle, int(memory.total) if told else 0)

    def _handle(self, index: int) -> Optional[ctypes.c_void_p]:
        handle = ctypes.c_void_p()
        answer = self._library.nvmlDeviceGetHandleByIndex_v2(
            ctypes.c_uint(index), ctypes.byref(handle)
        )
        return handle if answer == 0 else None

    def _text(self, handle: ctypes.c_void_p, call: str) -> Optional[str]:
        text = ctypes.create_string_buffer(128)
        if getattr(self._library, call)(handle, text, ctypes.c_uint(128)) != 0:
            return None
        return text.value.decode("utf-8", "replace")

    def _milliwatts(self, handle: ctypes.c_void_p, call: str) -> Optional[float]:
        value = ctypes.c_uint()
        if getattr(self._library, call)(handle, ctypes.byref(value)) != 0:
            return None
        return value.value / 1000


class AmdDriver(GpuDriver):
    """AMD's ROCm SMI library."""

    vendor = "amd"
    _VRAM = 0

    def __init__(self, library: Any) -> None:
        self._library = library
        self.labels = {}
        text = ctypes.create_string_buffer(128)
        # Component 0 is the kernel driver.
        if library.rsmi_version_str_get(ctypes.c_int(0), text, ctypes.c_uint32(128)) == 0:
            self.labels["amd_driver"] = text.value.decode("utf-8", "replace")
        version = _rocm_version()
        if version:
            self.labels["rocm"] = version

    @classmethod
    def open(cls) -> Optional[GpuDriver]:
        """Load the library, or return None where there is none or it does not start."""
        library = _load(AMD_LIBRARIES)
        if library is None or library.rsmi_init(ctypes.c_uint64(0)) != 0:
            return None
        return cls(library)

    def facts(self) -> List[GpuIdentity]:
        """Describe every GPU."""
        count = ctypes.c_uint32()
        if self._library.rsmi_num_monitor_devices(ctypes.byref(count)) != 0:
            return []
        found = []
        for index in range(count.value):
            text = ctypes.create_string_buffer(256)
            named = self._library.rsmi_dev_name_get(
                ctypes.c_uint32(index), text, ctypes.c_size_t(256)
            )
            unique = self._number(index, "rsmi_dev_unique_id_get", ctypes.c_uint64())
            found.append(
                GpuIdentity(
                    number=index,
                    vendor=self.vendor,
                    model=text.value.decode("utf-8", "replace") if named == 0 else "AMD GPU",
                    memory_bytes=self._memory(index, "rsmi_dev_memory_total_get") or 0,
                    uuid=None if unique is None else f"{unique:016x}",
                )
            )
        return found

    def use(self, index: int) -> Optional[GpuUse]:
        """Read one GPU."""
        total = self._memory(index, "rsmi_dev_memory_total_get")
        if total is None:
            return None
        busy = self._number(index, "rsmi_dev_busy_percent_get", ctypes.c_uint32())
        return GpuUse(
            utilization_percentage=None if busy is None else float(busy),
            memory_used_bytes=self._memory(index, "rsmi_dev_memory_usage_get"),
            memory_total_bytes=total,
            power_watts=self._microwatts(index, "rsmi_dev_power_ave_get"),
            power_limit_watts=self._microwatts(index, "rsmi_dev_power_cap_get"),
            temperature_celsius=amd_temperature(self._library, index),
        )

    def condition(self, index: int) -> Optional[GpuCondition]:
        """Look at how one GPU is doing."""
        total = self._memory(index, "rsmi_dev_memory_total_get")
        return None if total is None else amd_condition(self._library, index, total)

    def _memory(self, index: int, call: str) -> Optional[int]:
        value = ctypes.c_uint64()
        answer = getattr(self._library, call)(
            ctypes.c_uint32(index), ctypes.c_int(self._VRAM), ctypes.byref(value)
        )
        return int(value.value) if answer == 0 else None

    def _number(self, index: int, call: str, value: Any) -> Optional[int]:
        answer = getattr(self._library, call)(ctypes.c_uint32(index), ctypes.byref(value))
        return int(value.value) if answer == 0 else None

    def _microwatts(self, index: int, call: str) -> Optional[float]:
        value = ctypes.c_uint64()
        answer = getattr(self._library, call)(
            ctypes.c_uint32(index), ctypes.c_uint32(0), ctypes.byref(value)
        )
        return value.value / 1_000_000 if answer == 0 else None


class FileDriver(GpuDriver):
    """GPUs that a file tells of, for accelerators whose driver is not known here.

    The file holds a JSON list of objects: index, and if known model, vendor, memory_bytes, uuid,
    the fields of GpuCondition, and those of GpuUse that samples are made of. Whoever writes it
    keeps it up to date; it is read at each look.
    """

    vendor = "declared"

    def __init__(self, path: Path) -> None:
        self.labels = {}
        self._path = path
        self._gpus = _declared(path)

    def facts(self) -> List[GpuIdentity]:
        """Describe every GPU of the file."""
        return [
            GpuIdentity(
                number=index,
                vendor=str(gpu.get("vendor", self.vendor)),
                model=str(gpu.get("model", "declared")),
                memory_bytes=int(gpu.get("memory_bytes", 0)),
                uuid=gpu.get("uuid"),
            )
            for index, gpu in sorted(self._gpus.items())
        ]

    def use(self, index: int) -> Optional[GpuUse]:
        """Return the readings that the file now holds of one GPU."""
        # While it is being written the last whole reading counts.
        with contextlib.suppress(ValueError):
            self._gpus = _declared(self._path)
        gpu = self._gpus.get(index)
        if gpu is None:
            return None
        return GpuUse(
            utilization_percentage=_number(gpu, "utilization_percentage"),
            memory_used_bytes=_whole(gpu, "memory_used_bytes"),
            memory_total_bytes=_whole(gpu, "memory_bytes"),
            power_watts=_number(gpu, "power_watts"),
            power_limit_watts=_number(gpu, "power_limit_watts"),
            temperature_celsius=_number(gpu, "temperature_celsius"),
            clock_megahertz=_number(gpu, "clock_megahertz"),
        )

    def condition(self, index: int) -> Optional[GpuCondition]:
        """Return what the file says of one GPU."""
        gpu = self._gpus.get(index)
        if gpu is None:
            return None
        told = {key: gpu[key] for key in GpuCondition._fields if key in gpu and key != "holders"}
        return GpuCondition(**told)


def _declared(path: Path) -> Dict[int, Dict[str, Any]]:
    try:
        return {int(gpu["index"]): gpu for gpu in json.loads(path.read_bytes())}
    except (OSError, ValueError, TypeError, KeyError) as fault:
        raise ValueError(f"{path} does not list GPUs as JSON: {fault!r}") from fault


def _number(gpu: Dict[str, Any], key: str) -> Optional[float]:
    value = gpu.get(key)
    return float(value) if isinstance(value, (int, float)) else None


def _whole(gpu: Dict[str, Any], key: str) -> Optional[int]:
    value = _number(gpu, key)
    return None if value is None else int(value)


def _load(names: tuple[str, ...]) -> Optional[Any]:
    loader: Callable[[str], Any] = ctypes.CDLL
    for name in names:
        try:
            return loader(name)
        except OSError:
            continue
    return None


def _rocm_version() -> Optional[str]:
    try:
        with open("/opt/rocm/.info/version", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip().split("-")[0]
    except OSError:
        return None
