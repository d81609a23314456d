"""Floating-point work of a token, and what share of the GPU's peak a rate amounts to (MFU).

Owns the convention: 6N for training all N parameters, 4N where the base is frozen, and 6·L·h·s
for causal attention over rows of s tokens; work that is done twice by recomputing is not counted.
"""

from __future__ import annotations

CONVENTION = "6N (4N with a frozen base) + 6·layers·hidden·length per token, recompute not counted"
#: dense bf16 TFLOP/s by a part of the device's name, the more special first
_PEAKS = (
    ("GH200", 989.0),
    ("H200", 989.0),
    ("H100 PCIe", 756.0),
    ("H100 NVL", 835.0),
    ("H100", 989.0),
    ("H800", 989.0),
    ("B200", 2250.0),
    ("A100", 312.0),
    ("A800", 312.0),
    ("A40", 149.7),
    ("A10G", 70.0),
    ("A10", 125.0),
    ("A30", 165.0),
    ("L40S", 362.0),
    ("L40", 181.0),
    ("L4", 121.0),
    ("RTX 6000 Ada", 364.0),
    ("RTX A6000", 154.8),
    ("4090", 165.2),
    ("3090", 71.0),
    ("V100", 125.0),
    ("T4", 65.0),
    ("MI300X", 1307.0),
    ("MI250", 362.0),
)


def per_token(*, parameters: int, layers: int, hidden: int, length: float, frozen: bool) -> float:
    """Return the floating-point operations that one token costs in training."""
    return (4 if frozen else 6) * parameters + 6 * layers * hidden * length


def peak_of(name: str) -> float | None:
    """Return a device's dense bf16 peak in FLOP/s, or None if it is not known."""
    for part, peak in _PEAKS:
        if part.lower() in name.lower():
            return peak * 1e12
    return None
