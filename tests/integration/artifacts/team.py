"""A team with runs and logged models in a real database, and streams of bytes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from trackyard.access.directory import create_team
from trackyard.access.principal import AttemptScope, Principal, Role
from trackyard.artifacts.owners import ArtifactOwner, find_owner
from trackyard.core.ids import new_model_id
from trackyard.store.database import Database, Tx
from trackyard.tracking.names import Names
from trackyard.tracking.runs import create_run


@dataclass
class Team:
    """One caller of one team."""

    database: Database
    principal: Principal

    async def run(self) -> ArtifactOwner:
        """Make a run of the team's Default experiment."""
        names = Names(self.database)

        def operation(tx: Tx) -> ArtifactOwner:
            run_id = create_run(
                tx,
                names,
                self.principal,
                experiment_id=self.principal.default_experiment,
                run_name=None,
                user=None,
                start_ms=None,
                tags=[],
            )
            return find_owner(tx, self.principal, run_id)

        return await self.database.write(operation)

    async def logged_model(self, source_run: str) -> ArtifactOwner:
        """Make a logged model that a run put out."""
        model_id, experiment = new_model_id(), self.principal.default_experiment

        def operation(tx: Tx) -> ArtifactOwner:
            tx.run(
                "INSERT INTO logged_models (id, team_id, experiment_id, name, artifact_uri,"
                " status, status_message, model_type, source_run, lifecycle, created_ms,"
                " updated_ms)"
                " VALUES (?, ?, ?, 'm', ?, 'READY', '', '', ?, 'active', 0, 0)",
                (
                    model_id,
                    self.principal.team_id,
                    experiment,
                    f"mlflow-artifacts:/{experiment}/models/{model_id}/artifacts",
                    source_run,
                ),
            )
            return find_owner(tx, self.principal, model_id)

        return await self.database.write(operation)

    async def delete_run(self, run: ArtifactOwner) -> None:
        """Delete a run as its owner would."""
        await self.database.write(
            lambda tx: tx.run("UPDATE runs SET lifecycle = 'deleted' WHERE uuid = ?", (run.id,))
        )

    def attempt(self, run: ArtifactOwner) -> Principal:
        """Return the caller that a running attempt of a run is."""
        return replace(self.principal, scope=AttemptScope(run_id=run.id))

    async def events(self) -> list[tuple[str, str]]:
        """Return kind and subject of every event about artifacts, oldest first."""
        return await self.database.read(
            lambda reader: [
                (row[0], row[1])
                for row in reader.all(
                    "SELECT kind, subject FROM events WHERE kind LIKE 'artifact.%' ORDER BY id"
                )
            ]
        )


async def make_team(database: Database, name: str) -> Team:
    """Create a team and the caller that acts for it."""

    def operation(tx: Tx) -> Principal:
        team_id = create_team(tx, name, actor="test")
        row = tx.one("SELECT default_experiment_id FROM teams WHERE id = ?", (team_id,))
        assert row is not None
        return Principal(
            name=f"{name}-user",
            user_id=None,
            team_id=team_id,
            team=name,
            default_experiment=row[0],
            role=Role.member,
        )

    return Team(database, await database.write(operation))


async def stream(data: bytes, piece: int = 50_000) -> AsyncIterator[bytes]:
    """Yield data in pieces, as a connection does."""
    for start in range(0, len(data), piece):
        yield data[start : start + piece]


async def cut_stream(data: bytes, at: int, fault: Exception) -> AsyncIterator[bytes]:
    """Yield the beginning of data, then fail as a lost connection does."""
    async for part in stream(data[:at]):
        yield part
    raise fault
