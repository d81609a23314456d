"""The SQL that gives an empty database today's schema, generated from `store.schema`.

Owns the copy kept beside the bytecode, as Python keeps that: loading SQLAlchemy takes longer than
all the rest of a first start. The copy names the sources it was made from and is made anew when
they differ. Knows no migration and runs nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

_SCHEMA = Path(__file__).parent / "schema"


def fresh_schema(dialect: str) -> str:
    """Return the statements for `sqlite` or `postgresql`, one a line, in order of reference."""
    kept, sources = _kept_at(dialect), _digest_of_sources()
    known = _read(kept, sources)
    if known is not None:
        return known
    script = "".join(f"{statement};\n" for statement in _render(dialect))
    _keep(kept, script, sources)
    return script


def _render(dialect: str) -> list[str]:
    from sqlalchemy.dialects import registry
    from sqlalchemy.schema import CreateIndex, CreateTable

    from trackyard.store.schema import metadata

    target = registry.load(dialect)()
    statements: list[str] = []
    for table in metadata.sorted_tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        statements.append(str(CreateTable(table).compile(dialect=target)))
        statements += [str(CreateIndex(index).compile(dialect=target)) for index in indexes]
    return [" ".join(statement.split()) for statement in statements]


def _kept_at(dialect: str) -> Path:
    bytecode = Path(importlib.util.cache_from_source(str(_SCHEMA / "__init__.py")))
    return bytecode.with_name(f"fresh_{dialect}.sql")


def _digest_of_sources() -> bytes:
    digest = hashlib.sha256()
    for path in [Path(__file__), *sorted(_SCHEMA.glob("*.py"))]:
        digest.update(path.read_bytes())
    return digest.digest()


def _seal(script: str, sources: bytes) -> str:
    """Return the last line of a copy: it fits these sources and this text alone."""
    return "-- " + hashlib.sha256(sources + script.encode()).hexdigest()


def _read(kept: Path, sources: bytes) -> str | None:
    """Return the copy if it is whole and of these sources."""
    try:
        script, _, seal = kept.read_text().rpartition("-- ")
    except (OSError, UnicodeDecodeError):
        return None
    return script if "-- " + seal == _seal(script, sources) else None


def _keep(kept: Path, script: str, sources: bytes) -> None:
    """Keep a copy for the next start, where the folder can be written to."""
    if sys.dont_write_bytecode:
        return
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=kept.parent, prefix=kept.name)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(script + _seal(script, sources))
            Path(name).replace(kept)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
