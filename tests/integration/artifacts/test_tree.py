"""The tree of paths and its owners on both databases, without any blob."""

import pytest

from tests.integration.artifacts.team import Team
from trackyard.artifacts import tree
from trackyard.core.errors import NotFound


async def test_the_experiment_in_a_path_must_be_the_owners(team: Team) -> None:
    run = await team.run()
    run.check_experiment(team.principal, str(run.experiment_id))
    run.check_experiment(team.principal, "0")
    with pytest.raises(NotFound):
        run.check_experiment(team.principal, str(run.experiment_id + 1))


async def test_a_folder_of_thousands_is_listed_without_reading_what_lies_deeper(
    database, team: Team
) -> None:
    """12,000 files in three folders: the root's listing reads a page per folder, not every row."""
    run = await team.run()
    rows = [
        (run.team_id, run.experiment_id, run.id, f"{folder}/{number:05d}", "0" * 32, 1, "", 0)
        for folder in ("x", "y", "z")
        for number in range(4000)
    ]
    await database.write(
        lambda tx: tx.many(
            "INSERT INTO artifacts (team_id, experiment_id, owner, path, blob, size, sha256,"
            " created_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
    )

    def listing(reader):
        read = 0

        class Counting:
            dialect = reader.dialect

            def all(self, sql, params=()):
                nonlocal read
                found = reader.all(sql, params)
                read += len(found)
                return found

        entries = tree.children(Counting(), run.id, "")
        return [entry.path for entry in entries], read, len(tree.children(reader, run.id, "y"))

    top, read, in_folder = await database.read(listing)
    assert (top, in_folder) == (["x", "y", "z"], 4000)
    assert read <= 3000
