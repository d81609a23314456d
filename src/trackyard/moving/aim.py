"""Reads a repository of Aim (`.aim`), without its package; `aimrocks` opens its RocksDB files.

Owns Aim's keys and values on disk: a key is a path of names and numbers, a value a type and its
bytes. Opens every database read-only.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.moving.flat import FlatRun, FlatSource
from trackyard.moving.records import NOTE_TAG, SourceRun

#: Ends each part of a key; two of them in a row announce a number of eight bytes.
_END = 0xFE
_NUMBERS = {2: struct.Struct("<q"), 3: struct.Struct("<d")}
_BOOL, _TEXT = 1, 4
#: Attributes that Aim writes by itself: the environment, not parameters.
_OWN_ATTRIBUTES = "__"

Key = tuple[int | str, ...]


class AimRepository(FlatSource):
    """A source of records: a folder `.aim`, or the one that holds it."""

    def __init__(self, root: Path) -> None:
        home = root / ".aim" if (root / ".aim").is_dir() else root
        facts = home / "run_metadata.sqlite"
        if not (home / "meta" / "chunks").is_dir() or not facts.is_file():
            raise SetupError(
                f"{root} holds no repository of Aim",
                hint="name the folder `.aim`, or the folder in which `aim init` made it",
            )
        self._home = home
        self._skipped: dict[str, int] = {}
        super().__init__("aim", [self._run(*row) for row in _runs(facts)])
        for kind, number in self._skipped.items():
            why = "media, texts and distributions have no place among metrics; use Aim's own tools"
            self.left[f"sequences of {kind}"] = (number, why)

    def _run(self, project: str, key: str, run: SourceRun) -> FlatRun:
        one = FlatRun(project, key, run)
        contexts: dict[int, dict[str, Any]] = {}
        numbers: set[tuple[int, str]] = set()
        params: dict[str, Any] = {}
        for path, value in _rows(self._home / "meta" / "chunks" / key):
            if path[:3] != ("meta", "chunks", key):
                continue
            match path[3:]:
                case ("attrs", *names) if names and not str(names[0]).startswith(_OWN_ATTRIBUTES):
                    _nest(params, names, value)
                case ("contexts", int(context), *names):
                    _nest(contexts.setdefault(context, {}), names, value)
                case ("traces", int(context), str(name), "dtype"):
                    self._sort(numbers, context, name, value)
                case ("end_time",):
                    run.end_ms = round(value * 1000) if value else None
        run.status = "FINISHED" if run.end_ms else "KILLED"
        one.add_params({name: _whole(value) for name, value in params.items()})
        self._points(one, key, numbers, contexts)
        times = [point[1] for found in one.points.values() for point in found]
        run.end_ms = run.end_ms or max(times, default=run.start_ms)
        return one

    def _sort(self, numbers: set[tuple[int, str]], context: int, name: str, kind: Any) -> None:
        """Remember a sequence of numbers, or count one of something else."""
        if kind in ("float", "int", "number", "float64", "int64"):
            numbers.add((context, name))
        else:
            self._skipped[str(kind)] = self._skipped.get(str(kind), 0) + 1

    def _points(
        self,
        one: FlatRun,
        key: str,
        numbers: set[tuple[int, str]],
        contexts: dict[int, dict[str, Any]],
    ) -> None:
        """Join the columns of each sequence: values, times and, in newer releases, steps."""
        columns: dict[tuple[int, str], dict[str, dict[int, Any]]] = {}
        for path, value in _rows(self._home / "seqs" / "chunks" / key):
            # `seqs chunks RUN context name column index`; newer releases say `seqs v2 chunks …`.
            place = path[path.index(key) + 1 :] if key in path else ()
            match place:
                case (int(context), str(name), str(column), int(index)):
                    if (context, name) in numbers:
                        found = columns.setdefault((context, name), {})
                        found.setdefault(column, {})[index] = value
        names = _names(numbers, contexts)
        for sequence, found in columns.items():
            steps, times = found.get("step", {}), found.get("time", {})
            # Where there is no column of steps, the index is the step.
            points = [
                (int(steps.get(index, index)), times.get(index), value)
                for index, value in found.get("val", {}).items()
            ]
            for step, at, value in sorted(points, key=lambda point: point[0]):
                time_ms = round(at * 1000) if at else one.run.start_ms or 0
                one.add(names[sequence], step, time_ms, value)


def _runs(facts: Path) -> Iterator[tuple[str, str, SourceRun]]:
    """Yield the experiment, hash and record of each run."""
    conn = sqlite3.connect(f"{facts.resolve().as_uri()}?mode=ro", uri=True)
    try:
        tags: dict[int, list[str]] = {}
        for run, tag in conn.execute(
            "SELECT t.run_id, g.name FROM run_tag t JOIN tag g ON g.id = t.tag_id ORDER BY g.name"
        ):
            tags.setdefault(run, []).append(tag)
        for number, key, name, note, is_archived, made, experiment in conn.execute(
            "SELECT r.id, r.hash, r.name, r.description, r.is_archived, r.created_at, e.name"
            " FROM run r LEFT JOIN experiment e ON e.id = r.experiment_id ORDER BY r.id"
        ):
            run = SourceRun(run_id="", name=(name or key)[:250], tags={"aim.hash": key})
            if made:
                moment = datetime.fromisoformat(made).replace(tzinfo=UTC)
                run.start_ms = round(moment.timestamp() * 1000)
            if note:
                run.tags[NOTE_TAG] = note
            if number in tags:
                run.tags["aim.tags"] = ", ".join(tags[number])
            if is_archived:
                run.tags["aim.archived"] = "true"
            yield experiment or "default", key, run
    except sqlite3.DatabaseError as fault:
        raise SetupError(f"{facts} cannot be read: {fault}") from fault
    finally:
        conn.close()


def _rows(folder: Path) -> Iterator[tuple[Key, Any]]:
    """Yield the keys and values of a RocksDB database; one that does not exist has none."""
    if not folder.is_dir():
        return
    try:
        import aimrocks
    except ImportError as fault:
        raise SetupError(
            "Aim keeps its runs in RocksDB, and the package that opens it is not installed",
            hint="pip install 'trackyard[aim]'",
        ) from fault
    try:
        found = aimrocks.DB(str(folder), aimrocks.Options(), read_only=True).iteritems()
        found.seek_to_first()
        for key, value in found:
            # Large values stand in a part of their own, which no number is in.
            if not key.startswith(b"BLOBS"):
                yield _path(key), _value(value)
    except aimrocks.errors.RocksIOError as fault:
        raise SetupError(f"{folder} cannot be read: {fault}") from fault


def _path(key: bytes) -> Key:
    """Return the parts of a key."""
    parts: list[int | str] = []
    at = 0
    while at < len(key):
        if key[at] == _END:
            parts.append(int.from_bytes(key[at + 1 : at + 9], "big", signed=True))
            at += 10
        else:
            end = key.index(_END, at)
            parts.append(key[at:end].decode(errors="replace"))
            at = end + 1
    return tuple(parts)


def _value(raw: bytes) -> Any:
    """Return a number, text or truth value; None for everything else."""
    if not raw:
        return None
    kind, content = raw[0], raw[1:]
    if kind in _NUMBERS and len(content) == 8:
        return _NUMBERS[kind].unpack(content)[0]
    if kind == _BOOL:
        return content != b"\0"
    return content.decode(errors="replace") if kind == _TEXT else None


def _nest(tree: dict[str, Any], names: list[int | str], value: Any) -> None:
    """Put a value at its place; what was a mark of a folder makes way for the folder."""
    if not names:
        return
    for name in names[:-1]:
        inner = tree.get(str(name))
        if not isinstance(inner, dict):
            inner = tree[str(name)] = {}
        tree = inner
    tree[str(names[-1])] = value


def _whole(value: Any) -> Any:
    """Return a list where the keys are the numbers of one."""
    if not isinstance(value, dict):
        return value
    inner = {name: _whole(one) for name, one in value.items()}
    is_list = list(inner) == [str(number) for number in range(len(inner))]
    return list(inner.values()) if inner and is_list else inner


def _names(
    numbers: set[tuple[int, str]], contexts: dict[int, dict[str, Any]]
) -> dict[tuple[int, str], str]:
    """Return a metric's name for each sequence: `train/loss` for `loss` of `subset` `train`.

    Where two contexts differ by their keys alone, the keys are named: `subset:train/loss`.
    """
    short = {one: _named(one[1], contexts.get(one[0], {}), "{value}") for one in numbers}
    taken = list(short.values())
    return {
        one: name
        if taken.count(name) == 1
        else _named(one[1], contexts.get(one[0], {}), "{key}:{value}")
        for one, name in short.items()
    }


def _named(name: str, context: dict[str, Any], form: str) -> str:
    words = [form.format(key=key, value=value) for key, value in sorted(context.items())]
    return "/".join([*words, name])
