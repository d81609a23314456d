"""Which runs and experiments a transaction changes, told by the database itself. SQLite only.

Temporary triggers on the writer's connection report each row of a run that any statement changes,
so no cache depends on its writers to say what they did. Owns the triggers and what they reported
since the last commit. Knows no cache; on PostgreSQL other servers write too, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from trackyard.store.connection import SqliteConnection

#: Reported in place of a run where many runs may look different now.
EVERYTHING = 0

#: table -> column with the run's inner id; what a whole run is made of, and the events that count.
_RUN_TABLES = {
    "runs": ("id", ("UPDATE", "DELETE")),
    "params": ("run_id", ("INSERT", "UPDATE", "DELETE")),
    "tags": ("run_id", ("INSERT", "UPDATE", "DELETE")),
    "metric_latest": ("run_id", ("INSERT", "UPDATE", "DELETE")),
    "run_datasets": ("run_id", ("INSERT", "UPDATE", "DELETE")),
    "run_models": ("run_id", ("INSERT", "UPDATE", "DELETE")),
}
#: Tables whose rows belong to many runs.
_SHARED_TABLES = ("datasets", "names")
#: Tables by which a write is judged before it is made.
_JUDGED_BY = ("runs", "params")


class Changes:
    """What the writer's transactions change."""

    def __init__(self) -> None:
        #: inner ids of the runs changed since they were last taken
        self._runs: set[int] = set()
        #: called at once when the facts or parameters of a run, or an experiment, change
        self.on_run: list[Callable[[int], None]] = []
        self.on_experiment: list[Callable[[int], None]] = []
        #: whether rows that were announced before are on their way to their tables
        self.is_moving = False

    def watch(self, conn: SqliteConnection) -> None:
        """Have a connection report what it changes."""
        conn.listen("yard_run_data", self._runs.add)
        conn.listen("yard_run_facts", self._facts_changed)
        conn.listen("yard_experiment", self._experiment_changed)
        for table, (column, verbs) in _RUN_TABLES.items():
            function = "yard_run_facts" if table in _JUDGED_BY else "yard_run_data"
            for verb in verbs:
                _report(conn, table, verb, function, column)
        for table in _SHARED_TABLES:
            for verb in ("UPDATE", "DELETE"):
                _report(conn, table, verb, "yard_run_data", None)
        for verb in ("UPDATE OF lifecycle, artifact_location", "DELETE"):
            _report(conn, "experiments", verb, "yard_experiment", "id")

    def add(self, run: int) -> None:
        """Announce a change whose rows reach their tables later."""
        self._runs.add(run)

    def take(self) -> set[int]:
        """Return what has changed since the last call; what was undone may be among it."""
        taken = set(self._runs)
        # The triggers hold on to the set itself.
        self._runs.clear()
        return taken

    def _facts_changed(self, run: int) -> None:
        self._runs.add(run)
        if not self.is_moving:
            for hook in self.on_run:
                hook(run)

    def _experiment_changed(self, experiment: int) -> None:
        for hook in self.on_experiment:
            hook(experiment)


def _report(
    conn: SqliteConnection, table: str, verb: str, function: str, column: str | None
) -> None:
    row = "old" if verb == "DELETE" else "new"
    about = f"{row}.{column}" if column is not None else str(EVERYTHING)
    conn.run(
        f"CREATE TEMP TRIGGER yard_{table}_{verb[:6].lower()} AFTER {verb} ON main.{table}"
        f" BEGIN SELECT {function}({about}); END"
    )
