"""Routes without a credential: is it alive, is it ready, which version. Nothing here tells
about anyone's data.

Readiness is a list of checks; each tells its name, whether it is well, and one sentence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

import trackyard
from trackyard.core.errors import TooBusy
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.database import Tx
from trackyard.store.settings import keep_setting

#: Seconds a proof of readiness is good for, so that probes cost the disk little.
PROOF_SECONDS = 1.0
#: What MLflow's clients are told they talk to; 3.x clients choose their calls by it.
MLFLOW_VERSION = "3.17.0"
SERVER_INFO = {
    "store_type": "SqlStore",
    "workspaces_enabled": False,
    "trace_archival_enabled": False,
    "multipart_downloads_enabled": False,
    "presigned_upload_run_id_supported": False,
    "presigned_upload_model_id_supported": False,
    "features_enabled": {},
}


class ReadinessCheck(msgspec.Struct, omit_defaults=True):
    """One part of readiness."""

    name: str
    ok: bool
    sentence: str
    #: the longest of the last minutes, for checks that measure
    worst_ms: float | None = None


class Readiness(msgspec.Struct):
    """Whether the server takes work."""

    ready: bool
    version: str
    checks: list[ReadinessCheck]


class PublicRoutes:
    """Handlers that anyone may call."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._clock = services.clock
        self._jobs = services.jobs
        self._artifacts = services.artifacts
        self._watchdog = services.watchdog
        self._hub = services.hub
        self._proven = -PROOF_SECONDS
        self._checks: list[Callable[[], Awaitable[ReadinessCheck]]] = [
            self._database,
            self._scheduler,
            self._loop,
        ]

    async def health(self, request: Request) -> Response:
        """GET /health: the process answers."""
        return Response(b"OK", content_type="text/plain; charset=utf-8")

    async def version(self, request: Request) -> Response:
        """GET /version: a bare version string, as MLflow's clients expect it."""
        return Response(MLFLOW_VERSION.encode(), content_type="text/plain; charset=utf-8")

    async def ready(self, request: Request) -> Response:
        """GET /ready: whether every check is well, and what each has to say."""
        if self._hub.closing:
            raise TooBusy("not ready: the server is shutting down", retry_after=2)
        checks = [await check() for check in self._checks]
        troubles = [check.sentence for check in checks if not check.ok]
        if troubles:
            raise TooBusy(f"not ready: {'; '.join(troubles)}", retry_after=2)
        return JSONResponse(Readiness(True, trackyard.__version__, checks))

    async def _database(self) -> ReadinessCheck:
        """Prove that a row can be written and committed."""
        now = self._clock.monotonic()
        if now - self._proven > PROOF_SECONDS:

            def probe(tx: Tx) -> None:
                keep_setting(tx, "ready", str(tx.now_ms))

            try:
                await self._db.write(probe)
            except Exception as fault:  # noqa: BLE001 - whatever it is, it is not ready
                return ReadinessCheck("database", False, str(fault))
            self._proven = now
        return ReadinessCheck("database", True, "a row was written and committed")

    async def _scheduler(self) -> ReadinessCheck:
        """Tell whether scheduling works, where this server does it."""
        scheduler = self._jobs.scheduler
        trouble = scheduler.trouble()
        words = trouble or scheduler.warning() or "nothing is wrong with scheduling"
        return ReadinessCheck("scheduler", not trouble, words)

    async def _loop(self) -> ReadinessCheck:
        """Tell how long the event loop stood still; it answers, so it is well."""
        worst = self._watchdog.worst()
        if worst is None:
            return ReadinessCheck("event loop", True, "no stall in the last minutes", 0.0)
        milliseconds = round(worst.seconds * 1000, 1)
        sentence = f"it stood still for {milliseconds:.0f} ms in the last minutes"
        return ReadinessCheck("event loop", True, sentence, milliseconds)

    async def server_info(self, request: Request) -> Response:
        """GET /api/3.0/mlflow/server-info."""
        # On a disk of ours, parts would be written twice: large files come in one stream.
        parts = {"multipart_uploads_enabled": not self._artifacts.blobs.is_local}
        return JSONResponse({**SERVER_INFO, **parts})


def routes(services: Services) -> list[Route]:
    """Return the public routes."""
    do = PublicRoutes(services)
    table = [
        ("/health", do.health),
        ("/version", do.version),
        ("/ready", do.ready),
        ("/api/3.0/mlflow/server-info", do.server_info),
        ("/ajax-api/3.0/mlflow/server-info", do.server_info),
    ]
    return [
        Route(method="GET", path=path, handler=handler, permission=Permission.PUBLIC)
        for path, handler in table
    ]
