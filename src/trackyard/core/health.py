"""What a look at a node's health says: which check, its verdict, a sentence and a number.

Owns the names of checks, the verdicts and the limits a check is judged by. Knows nothing of how a
machine is looked at, nor of what follows from a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

MAX_SENTENCE = 300


class CheckVerdict(StrEnum):
    """What a check found."""

    OK = "ok"
    #: worth a look; the node takes work
    WARN = "warn"
    #: work would suffer; enough of these in a row quarantine the node
    FAIL = "fail"

    @property
    def rank(self) -> int:
        """0 for ok."""
        return _RANK[self]


_RANK = {CheckVerdict.OK: 0, CheckVerdict.WARN: 1, CheckVerdict.FAIL: 2}


class CheckName(StrEnum):
    """Every check there is."""

    #: GPUs that the node had and has no more
    GPUS = "gpus"
    #: memory errors of GPUs that could not be corrected
    ECC = "ecc"
    #: rows of GPU memory that could not be replaced by spare ones
    REMAP = "remap"
    #: grave faults that the NVIDIA driver wrote into the kernel's log
    XID = "xid"
    #: the hottest GPU
    TEMPERATURE = "temperature"
    #: GPUs slowed down by the hardware, to save themselves
    THROTTLE = "throttle"
    #: room in the folder that attempts work in, and whether it can be written
    DISK = "disk"
    #: GPU memory held by no attempt of ours, and processes stuck in the kernel
    PROCESSES = "processes"
    #: what the look at a gang before its start found of this node
    PREFLIGHT = "preflight"
    #: how far the node's clock is from the server's
    CLOCK = "clock"
    #: attempts that ended there as they do on broken hardware
    JOBS = "jobs"


#: Checks that a runner makes on its node; the server makes the others itself.
RUNNERS = frozenset(CheckName) - {CheckName.CLOCK, CheckName.JOBS}

#: Checks whose number only grows: what an operator has seen and accepted is no fault any more.
COUNTED = frozenset((CheckName.GPUS, CheckName.ECC, CheckName.REMAP, CheckName.XID))

#: What the checks on a node are judged by, and what each means. A test holds the runner to these.
LIMITS: Mapping[str, tuple[float, str]] = MappingProxyType(
    {
        "disk_warn_gb": (5.0, "free gigabytes in the work folder below which `disk` warns"),
        "disk_fail_gb": (1.0, "free gigabytes in the work folder below which `disk` fails"),
        "temperature_celsius": (
            95.0,
            "temperature at which `temperature` fails, where the GPU names no limit of its own",
        ),
        "temperature_margin_celsius": (5.0, "degrees below that from which it warns"),
        "ecc_corrected": (10_000.0, "corrected memory errors of a GPU from which `ecc` warns"),
        "stray_warn_mb": (
            256.0,
            "megabytes of a GPU that no attempt holds from which `processes` warns",
        ),
        "stray_fail_percent": (
            50.0,
            "percent of a GPU's memory that no attempt holds from which `processes` fails",
        ),
        "stuck_warn_seconds": (120.0, "seconds stuck in the kernel after which a process warns"),
        "stuck_fail_seconds": (600.0, "seconds stuck in the kernel after which it fails"),
        "xid_seconds": (3600.0, "seconds for which a grave driver fault counts"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """One check of one node at one moment."""

    name: CheckName
    verdict: CheckVerdict
    #: one plain sentence for people
    sentence: str
    #: the number it was judged by, where there is one
    number: float | None = None
    unit: str = ""
    #: when the node was looked at, by its own clock
    at_ms: int

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CheckReport | None:
        """Read a check as the runner wrote it; None for one this release does not know."""
        try:
            number = data.get("number")
            return cls(
                name=CheckName(data["name"]),
                verdict=CheckVerdict(data["verdict"]),
                sentence=_line(str(data["sentence"])),
                number=None if number is None else float(number),
                unit=_line(str(data.get("unit", "")))[:20],
                at_ms=int(data["at_ms"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None


def read_checks(found: object) -> tuple[CheckReport, ...]:
    """Read the checks of a report; what is no check is left out."""
    if not isinstance(found, list):
        return ()
    read = (CheckReport.from_json(one) for one in found[:50] if isinstance(one, dict))
    return tuple(one for one in read if one is not None)


def worst(verdicts: Iterable[CheckVerdict]) -> CheckVerdict:
    """Return the gravest of verdicts; ok where there is none."""
    return max(verdicts, key=lambda verdict: verdict.rank, default=CheckVerdict.OK)


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:MAX_SENTENCE]
