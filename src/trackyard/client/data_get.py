"""Brings a version of a data set to a folder of this machine, as runners bring it to nodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trackyard.client.api import Api
from trackyard.core.errors import SetupError
from trackyard.runner.data import fetch as data_fetch

#: Told bytes done.
Progress = Callable[[int], None]


def fetch(api: Api, wanted: dict[str, Any], folder: Path, progress: Progress) -> int:
    """Fetch a version into a folder; files that are there and whole are not fetched again."""
    name, version, digest = wanted["name"], wanted["version"], wanted["digest"]
    location = f"{api.url}/api/v1/data/{name}/versions/v{version}"
    server = data_fetch.DatasetServer(location, api.token or "", 0)
    try:
        files = data_fetch.read_manifest(server.manifest(digest, time.sleep))
        folder.mkdir(parents=True, exist_ok=True)
        return data_fetch.DatasetTransfer(server, folder, files, mode=0o644).run(
            time.sleep, progress, {}
        )
    except data_fetch.FetchError as fault:
        raise SetupError(
            f"{name}@v{version} could not be fetched: {fault}",
            hint="run the same command again: it goes on where it ended",
        ) from fault
    except OSError as fault:
        raise SetupError(f"{folder} cannot be written: {fault}") from fault
