"""Stores that the real MLflow made, unpacked for a test, and what it said of them itself.

`tests/data/moving/make_mlflow.py` made them and `say_mlflow.py` said what they hold.
"""

import json
import os
import sqlite3
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.serving import ROOT, TrackingServer, python_of

DATA = ROOT / "tests" / "data" / "moving"
#: Columns of MLflow's database that name places of the machine it was made on.
_PLACES = {
    "experiments": ("artifact_location",),
    "runs": ("artifact_uri",),
    "logged_models": ("artifact_location",),
    "trace_tags": ("value",),
    "model_versions": ("source", "storage_location"),
}
#: Where the stores were made.
_MADE_IN = "/tmp/moving-fx"


@dataclass(frozen=True)
class Store:
    """A store on this disk."""

    name: str
    folder: Path

    @property
    def where(self) -> str:
        """What `--from` takes."""
        if self.name.startswith("sql"):
            return f"sqlite:///{self.folder}/mlflow.db"
        return str(self.folder / "mlruns")

    @property
    def said(self) -> dict[str, Any]:
        """What the stock client said of it."""
        return dict(json.loads((self.folder / "said.json").read_text()))


def unpack(name: str, folder: Path) -> Store:
    """Unpack a store and let its records name the place where it is now."""
    with zipfile.ZipFile(DATA / f"{name}.zip") as packed:
        packed.extractall(folder)
    database = folder / name / "mlflow.db"
    if database.exists():
        conn = sqlite3.connect(database)
        for table, columns in _PLACES.items():
            for column in columns:
                known = conn.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,))
                if known.fetchone():
                    sql = f"UPDATE {table} SET {column} = replace({column}, ?, ?)"
                    conn.execute(sql, (_MADE_IN, str(folder)))
        conn.commit()
        conn.close()
    return Store(name, folder / name)


def name_this_place(store: Store) -> None:
    """Let a folder store's records name where it is now, as where it was made they did."""
    for record in store.folder.rglob("meta.yaml"):
        text = record.read_text()
        record.write_text(text.replace(_MADE_IN, str(store.folder.parent)))


def yard(server: TrackingServer, *words: str, token: str = "", rc: int | None = 0) -> Any:
    """Run a command against a server, and return the JSON it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "trackyard.cli.main", *words, "--json"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "YARD_URL": server.url,
            "YARD_TOKEN": token or server.token,
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert rc is None or done.returncode == rc, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(done.stdout) if done.stdout.strip() else {}


def new_team(server: TrackingServer, name: str) -> str:
    """Make a team and return a token of its owner."""
    server.post("/api/v1/teams", name=name)
    made = server.post("/api/v1/tokens", team=name, role="owner", label="moving")
    return str(made["token"])


def say(home: Path, *stores: str, generation: str = "mlflow3") -> list[dict[str, Any]]:
    """Ask the stock client what stores hold: address and token of each, `-` for none."""
    done = subprocess.run(
        [python_of(generation), DATA / "say_mlflow.py", *stores],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_ALLOW_FILE_STORE": "true",
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
            "PYTHONWARNINGS": "ignore",
        },
        cwd=home,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("SAID "))
    return list(json.loads(line.removeprefix("SAID ")))
