"""One table, one owner: no package changes another's tables, and none but those named here reads
them. SQL is found in the source's strings, composed ones included.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from trackyard.store.schema import metadata

SOURCE = Path(__file__).resolve().parents[3] / "src" / "trackyard"
#: The schema itself, and a reader of MLflow's own databases, whose tables have the same names.
NOT_OURS = ("store/schema/", "store/migrations/", "moving/mlflow_sql.py")

OWNERS = {
    "store": "events journal lost_answers rejected_writes settings",
    "access": "child_runs identities members secrets sessions signins teams tokens users",
    "tracking": """assessments datasets eval_dataset_experiments eval_dataset_tags eval_datasets
        eval_records experiment_tags experiments imported metric_blocks metric_latest metric_log
        names params rollbacks run_datasets run_models runs scorers tags trace_links
        trace_metadata trace_runs trace_spans trace_tags traces logged_model_metrics""",
    "artifacts": "artifacts uploads",
    "datasets": "data_contents data_packs data_places data_sets data_uses data_versions",
    "registry": """logged_model_params logged_model_tags logged_models model_aliases model_tags
        model_version_tags model_versions models""",
    "fleet": "node_checks node_verdicts nodes",
    "leases": "lease_nodes leases",
    "queue": """arriving_arrays attempt_members attempts budgets checkpoints claims job_specs jobs
        log_chunks log_policies node_load packages queues submissions team_shares trials""",
    "control": "leaders",
    "rayjobs": "ray_jobs ray_packages",
    "sweeps": "sweep_trials sweeps",
    "insight": "closed_months",
    "notify": """alert_channels alert_cursor alert_deliveries alert_incidents alert_rules
        alert_silences alert_states inbox webhook_deliveries webhooks""",
}
OWNER_OF = {table: package for package, tables in OWNERS.items() for table in tables.split()}


class Access(NamedTuple):
    package: str
    table: str
    is_change: bool


#: Tables that whole packages read: events are the log that everybody tells from, and a team's name
#: is joined to what belongs to the team.
READ_BY_ALL = {"events", "teams"}
#: Who else reads whose tables, file by file, and why; an entry that is not needed fails the test.
READS = {
    "cli/server/restore.py": "secrets artifacts data_packs job_specs jobs packages settings",
    "store/sqlite/backup.py": "artifacts uploads data_packs packages",
    # What may be deleted is what no owner of bytes names; the owners lie above.
    "artifacts/upkeep.py": "data_packs packages",
    "artifacts/verify.py": "data_packs packages",
    # An artifact belongs to a run, a model or a trace, whose rows lie beside or above.
    "artifacts/owners.py": "logged_models runs trace_tags traces",
    "tracking/runs.py": "artifacts",
    "tracking/job_runs.py": "jobs",
    "tracking/metrics/model_metrics.py": "logged_models",
    "access/reach.py": "runs",
    # A pass of the scheduling loop reads the queue whole, in few statements.
    "control/snapshot.py": "attempts checkpoints claims jobs",
    "control/service.py": "attempt_members",
    "control/past_stops.py": "attempts jobs",
    "control/undeclared_use.py": "attempts claims",
    "control/dispatch.py": "jobs",
    "control/listing.py": "jobs",
    "control/lease_sync.py": "leases",
    "rayjobs/records.py": "attempts jobs",
    "queue/records.py": "ray_jobs",
    "queue/attempts/demand.py": "nodes",
    "queue/attempts/heartbeats.py": "nodes",
    # One join over a month of attempts.
    "queue/shares/past.py": "experiments runs",
    "datasets/uses.py": "runs",
    "registry/sources.py": "run_models runs",
    "registry/logged_search.py": "logged_model_metrics",
    "notify/hook_events.py": "model_tags model_versions models",
}
#: Who else changes whose tables, and why.
CHANGES = {
    # A copy, on its way into a backup: sessions and half uploads are left out of it.
    "store/sqlite/backup.py": "artifacts sessions signins uploads",
    # The statements that may wait in the journal; their numbers are on disk.
    "store/sqlite/journal.py": "metric_latest metric_log params runs tags",
    # A team is made with its Default experiment.
    "access/directory.py": "experiments",
}


def statements(tree: ast.Module) -> Iterator[str]:
    """Strings of a module that are no docstrings; what is composed into them reads `{}`."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr):
                skipped.add(id(first.value))
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skipped
        ):
            yield node.value


TABLES = "|".join(sorted(metadata.tables, key=len, reverse=True))
PATTERN = re.compile(rf"\b(FROM|JOIN|INSERT INTO|REPLACE INTO|UPDATE|DELETE FROM)\s+({TABLES})\b")
READING = {"FROM", "JOIN"}


def accesses(package: str, source: str) -> set[Access]:
    found = set()
    for text in statements(ast.parse(source)):
        changed = {match[2] for match in PATTERN.finditer(text) if match[1] not in READING} | set(
            re.findall(rf"\bDELETE FROM\s+({TABLES})\b", text)
        )
        for match in PATTERN.finditer(text):
            found.add(Access(package, match[2], match[2] in changed))
    return found


def foreign() -> set[tuple[str, str, bool]]:
    """File, table and whether it is changed, wherever that is not the owner's."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(NOT_OURS):
            continue
        package = name.partition("/")[0]
        for _, table, is_change in accesses(package, path.read_text()):
            if OWNER_OF[table] != package:
                found.add((name, table, is_change))
    return found


def test_every_table_has_one_owner() -> None:
    assert set(OWNER_OF) == set(metadata.tables)
    assert sum(len(tables.split()) for tables in OWNERS.values()) == len(OWNER_OF)


def test_no_package_reaches_into_the_tables_of_another() -> None:
    """Call a function of the owner instead, or add one there."""
    reads, changes = (
        {(f, t) for f, t, is_change in foreign() if is_change is c} for c in (False, True)
    )
    changed = {(file, table) for file, tables in CHANGES.items() for table in tables.split()}
    named = {(file, table) for file, tables in READS.items() for table in tables.split()}
    assert changes == changed
    assert {one for one in reads - changes if one[1] not in READ_BY_ALL} == named - changes


def test_the_server_holds_no_sql() -> None:
    """Routes and start-up call the packages that own the tables."""
    found = [
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "server").rglob("*.py")
        if accesses("server", path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("tx.run('UPDATE runs SET x = 1')", {("runs", True)}),
        ("tx.all(f'SELECT {a} FROM runs r' f' JOIN tags t')", {("runs", False), ("tags", False)}),
        ("tx.run('DELETE FROM tags WHERE a = 1')", {("tags", True)}),
        ("tx.run('INSERT INTO jobs SELECT 1 FROM runs')", {("jobs", True), ("runs", False)}),
        ("def f():\n    'Rows FROM runs.'", set()),
    ],
)
def test_statements_are_found(source: str, found: set[tuple[str, bool]]) -> None:
    assert {(table, changed) for _, table, changed in accesses("x", source)} == found
