"""Which runs stand behind registered models. Reads the registry's tables; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from trackyard.store.database import ReadConnection, Tx

_PAGE = 500


def models_behind(reader: ReadConnection | Tx, runs: Sequence[str]) -> dict[str, list[str]]:
    """Return the versions of registered models, as `name/version`, that came of each run."""
    found: dict[str, list[str]] = {}
    for at in range(0, len(runs), _PAGE):
        part = list(runs[at : at + _PAGE])
        marks = ", ".join("?" * len(part))
        rows = reader.all(
            "SELECT v.run_uuid, m.name, v.version FROM model_versions v"
            f" JOIN models m ON m.id = v.model_id WHERE v.run_uuid IN ({marks})"
            " UNION SELECT l.source_run, m.name, v.version FROM logged_models l"
            " JOIN model_versions v ON v.logged_model_id = l.id"
            f" JOIN models m ON m.id = v.model_id WHERE l.source_run IN ({marks})",
            (*part, *part),
        )
        for run, name, version in rows:
            found.setdefault(run, []).append(f"{name}/{version}")
    return found
