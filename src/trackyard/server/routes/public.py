"""Routes without a credential: is it alive, is it ready, which version. Nothing here tells
about anyone's data.
"""

from __future__ import annotations

import trackyard
from trackyard.core.errors import TooBusy
from trackyard.server.http import JSONResponse, Request, Response
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.database import Tx

#: Seconds a proof of readiness is good for, so that probes cost the disk little.
PROOF_SECONDS = 1.0
#: What MLflow's clients are told they talk to; 3.x clients choose their calls by it.
MLFLOW_VERSION = "3.1.0"
SERVER_INFO = {
    "store_type": "SqlStore",
    "workspaces_enabled": False,
    "trace_archival_enabled": False,
    "multipart_uploads_enabled": True,
    "multipart_downloads_enabled": False,
    "presigned_upload_run_id_supported": False,
    "presigned_upload_model_id_supported": False,
    "features_enabled": {},
}


class PublicRoutes:
    """Handlers that anyone may call."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._clock = services.clock
        self._hub = services.hub
        self._proven = -PROOF_SECONDS

    async def health(self, request: Request) -> Response:
        """GET /health: the process answers."""
        return Response(b"OK", content_type="text/plain; charset=utf-8")

    async def version(self, request: Request) -> Response:
        """GET /version: a bare version string, as MLflow's clients expect it."""
        return Response(MLFLOW_VERSION.encode(), content_type="text/plain; charset=utf-8")

    async def ready(self, request: Request) -> Response:
        """GET /ready: a row was written and committed."""
        if self._hub.closing:
            raise TooBusy("not ready: the server is shutting down", retry_after=2)
        now = self._clock.monotonic()
        if now - self._proven > PROOF_SECONDS:

            def probe(tx: Tx) -> None:
                tx.run(
                    "INSERT INTO settings (key, value) VALUES ('ready', ?)"
                    " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    (str(tx.now_ms),),
                )

            try:
                await self._db.write(probe)
            except Exception as fault:
                raise TooBusy(f"not ready: {fault}", retry_after=2) from fault
            self._proven = now
        return JSONResponse({"ready": True, "version": trackyard.__version__})

    async def server_info(self, request: Request) -> Response:
        """GET /api/3.0/mlflow/server-info."""
        return JSONResponse(SERVER_INFO)


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
