"""What differs between two attempts, or between two runs: config and environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trackyard.insight.logbook.entries import FieldDifference
from trackyard.insight.logbook.words import listed

#: Labels of nodes by which hardware and its software are told, and how a sentence calls them.
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
MAX_VALUE = 500
_HIDDEN = "(changed)"


def environment_differences(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[FieldDifference]:
    """Compare what two attempts' environments are made of; of variables names alone are told."""
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


def difference_words(differences: list[FieldDifference], most: int = 3) -> str:
    """Say the first few differences in a line."""
    named = [
        f"{one.name} {one.before or 'none'} → {one.after or 'none'}"
        if one.before != _HIDDEN and len(one.before) + len(one.after) <= 60
        else one.name
        for one in differences
    ]
    return listed(named, most)


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
