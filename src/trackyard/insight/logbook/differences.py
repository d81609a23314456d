"""What differs between two attempts, or between two runs: config and environment. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trackyard.insight.logbook.entries import FieldDifference
from trackyard.insight.logbook.facts import Curve
from trackyard.insight.logbook.words import figure, listed

#: Node labels that describe hardware and its software, and their names in sentences.
_LABELS = {
    "nvidia_driver": "driver",
    "amd_driver": "driver",
    "cuda": "CUDA",
    "rocm": "ROCm",
    "os": "operating system",
    "arch": "architecture",
    "class": "node class",
    "gpu": "GPU",
    "gpu_type": "GPU",
}
#: Metrics by which training tells its learning rate, and how far it must jump to be a change.
LEARNING_RATE = re.compile(r"(^|[/_.-])(lr|learning_rate)([/_.-]|$)", re.IGNORECASE)
_RATE_SHARE = 0.1
MAX_VALUE = 500
_HIDDEN = "(changed)"


def environment_differences(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[FieldDifference]:
    """Compare the environments of two attempts; values of variables are never shown."""
    if before.get("digest") and before.get("digest") == after.get("digest"):
        return []
    found: list[FieldDifference] = []
    found += _one("command", "command", _line(before.get("command")), _line(after.get("command")))
    found += _one("commit", "git commit", _text(before, "commit"), _text(after, "commit"))
    found += _one("package", "working folder", _short(before), _short(after))
    found += _one("launcher", "launcher", _text(before, "launcher"), _text(after, "launcher"))
    found += _packages(before.get("pip"), after.get("pip"))
    found += _variables(before.get("env"), after.get("env"))
    found += _node_labels(before.get("nodes"), after.get("nodes"))
    return found


def parameter_differences(
    before: Mapping[str, str], after: Mapping[str, str]
) -> list[FieldDifference]:
    """Compare the parameters of two runs."""
    return [
        change
        for name in sorted({*before, *after})
        for change in _one("parameter", name, before.get(name, ""), after.get(name, ""))
    ]


def diff_differences(before: str, after: str) -> list[FieldDifference]:
    """Compare uncommitted changes: one line for each file that differs."""
    had, has = _by_file(before), _by_file(after)
    return [
        FieldDifference("diff", name, _lines(had.get(name)), _lines(has.get(name)))
        for name in sorted({*had, *has})
        if had.get(name) != has.get(name)
    ]


def rate_differences(
    curves: Sequence[Curve], ended_ms: int | None, began_ms: int
) -> list[FieldDifference]:
    """Compare learning rates that were logged as metrics: the last before, the first after."""
    found: list[FieldDifference] = []
    if ended_ms is None:
        return []
    for curve in curves:
        points = [
            (time_ms, value)
            for time_ms, value in zip(curve.times, curve.values, strict=True)
            if not math.isnan(value)
        ]
        before = [value for time_ms, value in points if time_ms <= ended_ms]
        after = [value for time_ms, value in points if time_ms >= began_ms]
        # A schedule moves the rate little by little; a change made by hand is a jump.
        if before and after and abs(after[0] - before[-1]) > _RATE_SHARE * abs(before[-1]):
            found += _one("metric", curve.metric, figure(before[-1]), figure(after[0]))
    return found


def difference_words(differences: list[FieldDifference], most: int = 3) -> str:
    """Say the first few differences in a line."""
    named = [
        f"{one.name} {one.before or 'none'} → {one.after or 'none'}"
        if one.before != _HIDDEN and len(one.before) + len(one.after) <= 60
        else one.name
        for one in differences
    ]
    return listed(named, most)


def _by_file(diff: str) -> dict[str, str]:
    """Cut what git prints into the parts of its files."""
    found: dict[str, str] = {}
    for part in re.split(r"^diff --git ", diff, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        found[head.rpartition(" b/")[2]] = body
    return found


def _lines(part: str | None) -> str:
    """Count the lines that a file's part of a diff adds and removes: +12 -3."""
    if part is None:
        return ""
    lines = part.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    return f"+{added} -{removed}"


def _one(what: str, name: str, before: str, after: str) -> list[FieldDifference]:
    if before == after:
        return []
    return [FieldDifference(what, name, before[:MAX_VALUE], after[:MAX_VALUE])]


def _text(environment: Mapping[str, Any], key: str) -> str:
    value = environment.get(key)
    return value if isinstance(value, str) else ""


def _short(environment: Mapping[str, Any]) -> str:
    return _text(environment, "package")[:12]


def _line(command: Any) -> str:
    return " ".join(str(word) for word in command) if isinstance(command, list) else ""


def _requirement(line: str) -> tuple[str, str]:
    """Split a requirement into its package and the rest."""
    for at, sign in enumerate(line):
        if sign in "=<>!~ [;@":
            return line[:at].strip().lower(), line[at:].strip()
    return line.strip().lower(), ""


def _packages(before: Any, after: Any) -> list[FieldDifference]:
    had, has = (
        dict(_requirement(str(line)) for line in lines) if isinstance(lines, list) else {}
        for lines in (before, after)
    )
    return [
        change
        for name in sorted({*had, *has})
        for change in _one("pip", name, _version(had, name), _version(has, name))
    ]


def _version(packages: Mapping[str, str], name: str) -> str:
    return packages[name] or "any version" if name in packages else ""


def _variables(before: Any, after: Any) -> list[FieldDifference]:
    had = before if isinstance(before, dict) else {}
    has = after if isinstance(after, dict) else {}
    return [
        FieldDifference(
            "variable",
            name,
            _HIDDEN if name in had else "",
            _HIDDEN if name in has else "",
        )
        for name in sorted({*had, *has})
        if had.get(name) != has.get(name)
    ]


def _node_labels(before: Any, after: Any) -> list[FieldDifference]:
    """Compare the labels of the nodes: one line for each label whose values changed."""
    had, has = _values(before), _values(after)
    return [
        change
        for label in sorted({*had, *has})
        for change in _one(
            _LABELS.get(label, "label"),
            _LABELS.get(label, f"node label {label}"),
            ", ".join(sorted(had.get(label, ()))),
            ", ".join(sorted(has.get(label, ()))),
        )
    ]


def _values(nodes: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for labels in nodes.values() if isinstance(nodes, dict) else ():
        for label, value in labels.items() if isinstance(labels, dict) else ():
            # What names the node itself differs by nature.
            if label not in ("hostname", "node", "node_id"):
                found.setdefault(label, set()).add(str(value))
    return found
