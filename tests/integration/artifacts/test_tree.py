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


async def test_a_name_that_a_client_has_respelled_is_found_again(database, team: Team) -> None:
    run = await team.run()
    stored = ["images/i%step%4%9f5c.png", "images/i%step%4%5e5c.png", "a%20b/c", "plain"]
    rows = [(run.team_id, run.experiment_id, run.id, path, "0" * 32, 1, "", 0) for path in stored]
    await database.write(
        lambda tx: tx.many(
            "INSERT INTO artifacts (team_id, experiment_id, owner, path, blob, size, sha256,"
            " created_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
    )
    asked = {
        "images/i%step%4\ufffd5c.png": stored[0],
        "images/i%step%4^5c.png": stored[1],
        "a b": "a%20b",
        "a b/c": "a%20b/c",
        "images/i%step%4*5c.png": None,
        "b": None,
    }
    found = await database.read(
        lambda reader: {name: tree.find_spelling(reader, run.id, name) for name in asked}
    )
    assert found == asked
