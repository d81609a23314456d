"""Teams, runs and artifacts for the registry's tests, written straight into a real database."""

from dataclasses import dataclass, replace

from trackyard.access.directory import create_team
from trackyard.access.principal import AttemptScope, Principal, Role
from trackyard.core.ids import new_run_id
from trackyard.registry.logged import LoggedModels
from trackyard.registry.models import Registry
from trackyard.registry.versions import VersionDraft
from trackyard.store.database import Database, Tx
from trackyard.store.idempotency.rule import Creates
from trackyard.tracking.names import Names
from trackyard.tracking.runs import create_run


@dataclass
class World:
    """The registry of one team, with what it needs to have something to register."""

    database: Database
    registry: Registry
    logged: LoggedModels
    principal: Principal
    creates: Creates

    async def run(self, *paths: str) -> str:
        """Make a run of the Default experiment that holds artifacts at these paths."""
        names = Names(self.database)

        def operation(tx: Tx) -> str:
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
            add_artifacts(tx, self.principal, run_id, *paths)
            return run_id

        return await self.database.write(operation)

    async def hold(self, owner: str, *paths: str) -> None:
        """Give a run or logged model artifacts."""
        await self.database.write(lambda tx: add_artifacts(tx, self.principal, owner, *paths))

    async def put_out(self, run_id: str, model_id: str, step: int) -> None:
        """Record a logged model as an output of a run."""

        def operation(tx: Tx) -> None:
            tx.run(
                "INSERT INTO run_models (run_id, model_id, direction, step)"
                " SELECT id, ?, 'output', ? FROM runs WHERE uuid = ?",
                (model_id, step, run_id),
            )

        await self.database.write(operation)

    async def log(self, name: str, run_id: str = "", *paths: str) -> str:
        """Log a model with files and return its id."""
        model = await self.logged.create(
            self.principal,
            experiment_id=self.principal.default_experiment,
            name=name,
            source_run=run_id,
        )
        model_id = str(model["info"]["model_id"])
        await self.hold(model_id, *(paths or ("MLmodel",)))
        return model_id

    async def version(self, name: str, source: str, **more: str) -> dict[str, object]:
        """Create a version."""
        new = VersionDraft(name=name, source=source, **more)
        return await self.registry.versions.create(self.principal, new)

    async def net(self, versions: int = 1) -> str:
        """Make a registered model `net` with versions of one run, and return the run's id."""
        run_id = await self.run("model/MLmodel")
        await self.registry.create(self.principal, "net")
        for _ in range(versions):
            await self.version("net", f"runs:/{run_id}/model")
        return run_id

    def root(self, run_id: str) -> str:
        """The artifact uri of a run of the Default experiment."""
        return f"mlflow-artifacts:/{self.principal.default_experiment}/{run_id}/artifacts"

    def attempt(self, run_id: str) -> Principal:
        """The principal of an attempt that logs to a run."""
        scope = AttemptScope(run_id=run_id)
        return replace(self.principal, name=f"attempt:{run_id}", token_id="a", scope=scope)

    async def events(self) -> list[tuple[str, str]]:
        """Kind and subject id of every event of the registry so far."""
        rows = await self.database.read(
            lambda reader: reader.all(
                "SELECT kind, subject_id FROM events WHERE team_id = ? AND subject IN"
                " ('model', 'model_version', 'logged_model') ORDER BY id",
                (self.principal.team_id,),
            )
        )
        return [(row[0], row[1]) for row in rows]


def add_artifacts(tx: Tx, principal: Principal, owner: str, *paths: str) -> None:
    """Write rows of artifacts; nobody reads their bytes here."""
    tx.many(
        "INSERT INTO artifacts (team_id, experiment_id, owner, path, blob, size, sha256,"
        " created_ms) VALUES (?, ?, ?, ?, ?, 1, '', 0)",
        [
            (principal.team_id, principal.default_experiment, owner, path, new_run_id())
            for path in paths
        ],
    )


async def make_world(database: Database, team: str) -> World:
    """Make a team and its registry."""

    def operation(tx: Tx) -> tuple[int, int]:
        team_id = create_team(tx, team, actor="test")
        row = tx.one("SELECT default_experiment_id FROM teams WHERE id = ?", (team_id,))
        assert row is not None
        return team_id, row[0]

    team_id, default = await database.write(operation)
    return World(
        database=database,
        registry=Registry(database),
        logged=LoggedModels(database),
        principal=Principal(
            name="ada",
            user_id=None,
            team_id=team_id,
            team=team,
            default_experiment=default,
            role=Role.maintainer,
            token_id=f"token-{team}",
        ),
        creates=Creates(database),
    )
