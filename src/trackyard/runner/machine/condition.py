"""How a GPU is doing, through the vendors' own libraries: errors, heat, and who holds its memory.

Owns the calls of NVML and ROCm SMI that health checks need. What a driver does not tell is None,
never guessed; a call that an older library lacks counts as not told.
"""

from __future__ import annotations

import ctypes
from typing import Any, Dict, NamedTuple, Optional

#: NVML's word for a GPU that has fallen off the bus
GPU_IS_LOST = 15
_UNKNOWN_MEMORY = 2**64 - 1
_MOST_PROCESSES = 256
#: reasons for lower clocks that NVML gives as bits, and whether heat is behind them
_THERMAL_BITS, _BRAKE_BITS = 0x40, 0x80
#: ROCm SMI: junction before edge; current and critical value; the memory's error counters
_SENSORS, _CURRENT, _CRITICAL, _MEMORY_BLOCK = (1, 0), 0, 5, 0x1


class GpuCondition(NamedTuple):
    """One look at a GPU; None where the driver gives no value."""

    temperature_celsius: Optional[float] = None
    #: from where on the GPU slows itself down or stops
    temperature_limit_celsius: Optional[float] = None
    ecc_uncorrected: Optional[int] = None
    ecc_corrected: Optional[int] = None
    #: rows or pages of memory that were replaced, wait for a reset to be, or could not be
    remapped: Optional[int] = None
    remap_pending: Optional[bool] = None
    remap_failed: Optional[bool] = None
    #: `heat` or `power` where the hardware slows the GPU down; empty where it does not
    slowed_by: Optional[str] = None
    #: memory in bytes by process id
    holders: Optional[Dict[int, int]] = None
    memory_bytes: Optional[int] = None


class _NvmlProcess(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _RsmiErrors(ctypes.Structure):
    _fields_ = (("corrected", ctypes.c_uint64), ("uncorrected", ctypes.c_uint64))


class _RsmiProcess(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint32),
        ("pasid", ctypes.c_uint32),
        ("memory", ctypes.c_uint64),
        ("sdma_usage", ctypes.c_uint64),
        ("cu_occupancy", ctypes.c_uint32),
    )


def nvidia_condition(library: Any, handle: ctypes.c_void_p, memory_bytes: int) -> GpuCondition:
    """Look at one GPU of NVIDIA's."""
    corrected, uncorrected = ctypes.c_uint(), ctypes.c_uint()
    pending, failed = ctypes.c_uint(), ctypes.c_uint()
    remap_told = _told(
        library,
        "nvmlDeviceGetRemappedRows",
        handle,
        ctypes.byref(corrected),
        ctypes.byref(uncorrected),
        ctypes.byref(pending),
        ctypes.byref(failed),
    )
    return GpuCondition(
        temperature_celsius=nvml_number(library, handle, "nvmlDeviceGetTemperature", 0),
        temperature_limit_celsius=nvml_number(
            library, handle, "nvmlDeviceGetTemperatureThreshold", 1
        ),
        ecc_uncorrected=_nvml_errors(library, handle, 1),
        ecc_corrected=_nvml_errors(library, handle, 0),
        remapped=corrected.value + uncorrected.value if remap_told else None,
        remap_pending=bool(pending.value) if remap_told else None,
        remap_failed=bool(failed.value) if remap_told else None,
        slowed_by=_nvml_slowed(library, handle),
        holders=_nvml_holders(library, handle),
        memory_bytes=memory_bytes or None,
    )


def amd_condition(library: Any, index: int, memory_bytes: int) -> GpuCondition:
    """Look at one GPU of AMD's."""
    temperature = limit = None
    for sensor in _SENSORS:
        temperature = _rsmi_celsius(library, index, sensor, _CURRENT)
        if temperature is not None:
            limit = _rsmi_celsius(library, index, sensor, _CRITICAL)
            break
    errors = _RsmiErrors()
    errors_told = _told(
        library,
        "rsmi_dev_ecc_count_get",
        ctypes.c_uint32(index),
        ctypes.c_uint64(_MEMORY_BLOCK),
        ctypes.byref(errors),
    )
    pages = ctypes.c_uint32()
    pages_told = _told(
        library,
        "rsmi_dev_memory_reserved_pages_get",
        ctypes.c_uint32(index),
        ctypes.byref(pages),
        None,
    )
    return GpuCondition(
        temperature_celsius=temperature,
        temperature_limit_celsius=limit,
        ecc_uncorrected=int(errors.uncorrected) if errors_told else None,
        ecc_corrected=int(errors.corrected) if errors_told else None,
        remapped=int(pages.value) if pages_told else None,
        holders=_rsmi_holders(library, index),
        memory_bytes=memory_bytes or None,
    )


def amd_temperature(library: Any, index: int) -> Optional[float]:
    """Read the temperature of a GPU of AMD's: at its junction, else at its edge."""
    found = (_rsmi_celsius(library, index, sensor, _CURRENT) for sensor in _SENSORS)
    return next((one for one in found if one is not None), None)


def _told(library: Any, call: str, *arguments: Any) -> bool:
    try:
        function = getattr(library, call)
    except AttributeError:
        return False
    return bool(function(*arguments) == 0)


def nvml_number(library: Any, handle: Any, call: str, which: int) -> Optional[float]:
    """Read one number of a GPU of NVIDIA's, such as a temperature or a clock."""
    value = ctypes.c_uint()
    if not _told(library, call, handle, ctypes.c_int(which), ctypes.byref(value)):
        return None
    return float(value.value)


def _nvml_errors(library: Any, handle: Any, kind: int) -> Optional[int]:
    # Counter type 0 counts since the driver was loaded.
    value = ctypes.c_ulonglong()
    told = _told(
        library,
        "nvmlDeviceGetTotalEccErrors",
        handle,
        ctypes.c_int(kind),
        ctypes.c_int(0),
        ctypes.byref(value),
    )
    return int(value.value) if told else None


def _nvml_slowed(library: Any, handle: Any) -> Optional[str]:
    bits = ctypes.c_ulonglong()
    if not _told(library, "nvmlDeviceGetCurrentClocksThrottleReasons", handle, ctypes.byref(bits)):
        return None
    if bits.value & _THERMAL_BITS:
        return "heat"
    return "power" if bits.value & _BRAKE_BITS else ""


def _nvml_holders(library: Any, handle: Any) -> Optional[Dict[int, int]]:
    count = ctypes.c_uint(_MOST_PROCESSES)
    found = (_NvmlProcess * _MOST_PROCESSES)()
    call = "nvmlDeviceGetComputeRunningProcesses_v3"
    if not _told(library, call, handle, ctypes.byref(count), found):
        return None
    return {
        int(one.pid): 0 if one.memory == _UNKNOWN_MEMORY else int(one.memory)
        for one in found[: count.value]
    }


def _rsmi_celsius(library: Any, index: int, sensor: int, metric: int) -> Optional[float]:
    value = ctypes.c_int64()
    told = _told(
        library,
        "rsmi_dev_temp_metric_get",
        ctypes.c_uint32(index),
        ctypes.c_uint32(sensor),
        ctypes.c_int(metric),
        ctypes.byref(value),
    )
    return value.value / 1000 if told and value.value > 0 else None


def _rsmi_holders(library: Any, index: int) -> Optional[Dict[int, int]]:
    count = ctypes.c_uint32(_MOST_PROCESSES)
    found = (_RsmiProcess * _MOST_PROCESSES)()
    if not _told(library, "rsmi_compute_process_info_get", found, ctypes.byref(count)):
        return None
    return {
        int(one.pid): int(one.memory)
        for one in found[: count.value]
        if _rsmi_uses(library, int(one.pid), index)
    }


def _rsmi_uses(library: Any, pid: int, index: int) -> bool:
    """Tell whether a process is on this GPU; ROCm SMI lists processes of all of them."""
    count = ctypes.c_uint32(64)
    gpus = (ctypes.c_uint32 * 64)()
    call = "rsmi_compute_process_gpus_get"
    if not _told(library, call, ctypes.c_uint32(pid), gpus, ctypes.byref(count)):
        return False
    return index in [int(gpu) for gpu in gpus[: count.value]]
