"""Data sets that jobs ask for: which versions are meant, who uses them, and which nodes hold them
already. Knows nothing of how they reach a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from trackyard.core.dataset import parse_reference, variable_of
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.datasets.records import find_version
from trackyard.datasets.uses import note_jobs, note_places
from trackyard.store.database import ReadConnection, Tx

if TYPE_CHECKING:
    from trackyard.queue.specification import JobSpec

MAX_DATA = 32
_PAGE = 500


class DataInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """A version of a data set that a job reads."""

    name: str
    version: int = 0
    digest: str = ""
    files: int = 0
    size_bytes: int = 0
    #: the environment variable that holds its path
    variable: str = ""


def read_inputs(wanted: Sequence[str]) -> list[DataInput]:
    """Read `[VARIABLE=]NAME[@VERSION]`, each once."""
    if len(wanted) > MAX_DATA:
        raise InvalidInput(f"data must name at most {MAX_DATA} data sets")
    found: list[DataInput] = []
    for text in wanted:
        try:
            reference = parse_reference(text)
        except ValueError as fault:
            raise InvalidInput(f"data: {fault}") from fault
        found.append(
            DataInput(
                name=reference.name,
                version=reference.version,
                digest=reference.digest,
                variable=reference.variable or variable_of(reference.name),
            )
        )
    for field in ("name", "variable"):
        values = [getattr(one, field) for one in found]
        for value in values:
            if values.count(value) > 1:
                raise InvalidInput(
                    f"data: {value} is there twice; name each data set once, with a variable of"
                    " its own as in VARIABLE=NAME@v3"
                )
    return found


def resolve(reader: ReadConnection | Tx, team_id: int, spec: JobSpec) -> JobSpec:
    """Return the spec with the versions that its data sets mean now."""
    if not spec.data:
        return spec
    found = []
    for one in spec.data:
        text = f"{one.name}@sha256:{one.digest}" if one.digest else f"{one.name}@v{one.version}"
        wanted = text if one.digest or one.version else one.name
        try:
            row = find_version(reader, team_id, parse_reference(wanted))
        except NotFound as fault:
            raise InvalidInput(f"data: {fault.message}") from fault
        found.append(
            DataInput(
                name=row.name,
                version=row.version,
                digest=row.digest,
                files=row.files,
                size_bytes=row.size_bytes,
                variable=one.variable,
            )
        )
    return msgspec.structs.replace(spec, data=found)


def note_submitted(
    tx: Tx, team_id: int, spec: JobSpec, *, experiment: int, jobs: Sequence[tuple[str, str]]
) -> None:
    """Record what new jobs, each with its run, are going to read."""
    if spec.data:
        wanted = [(one.name, one.version) for one in spec.data]
        note_jobs(tx, team_id, wanted, experiment=experiment, jobs=jobs)


def note_held(tx: Tx, job: int, node: str | None, digests: Sequence[str]) -> None:
    """Note which data sets a node holds, as the runner of a job there tells."""
    row = tx.one("SELECT team_id FROM jobs WHERE id = ?", (job,))
    if row is not None and node is not None and digests:
        note_places(tx, row[0], node, digests)


#: Nodes that hold a version, by team and digest; and what a job reads, as team and digests.
Places = dict[tuple[int, str], frozenset[str]]
DataOf = tuple[int, tuple[str, ...]]


def holders(places: Places, wanted: DataOf) -> tuple[str, ...]:
    """Return the nodes that hold all of a job's data sets, else those that hold one of them."""
    team_id, digests = wanted
    held = [places.get((team_id, digest), frozenset()) for digest in digests]
    found = frozenset.intersection(*held) or frozenset.union(*held)
    return tuple(sorted(found))


def open_jobs(reader: ReadConnection | Tx, jobs: Sequence[str]) -> list[str]:
    """Return those of some jobs that have not ended."""
    found: list[str] = []
    for at in range(0, len(jobs), _PAGE):
        part = list(jobs[at : at + _PAGE])
        marks = ", ".join("?" * len(part))
        rows = reader.all(
            f"SELECT job_id FROM jobs WHERE job_id IN ({marks}) AND ended_ms IS NULL", part
        )
        found += [row[0] for row in rows]
    return found
