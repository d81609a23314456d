"""The web UI's files, from the package. Paths come from a list made at start, so nothing
outside it can be asked for.
"""

from __future__ import annotations

import mimetypes
from importlib.resources import files
from pathlib import Path

from trackyard.server.http.messages import Request, Response
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services

#: Pages of the single-page application; a fresh load of any of them gets index.html.
PAGES = ("/", "/signin", "/app", "/app/")
CSP = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
    " blob:; media-src 'self' blob:; connect-src 'self'; frame-src 'self' blob:;"
    " object-src 'none';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_MISSING = (
    b"<!doctype html><title>Trackyard</title><p>The web pages are not built in this installation."
    b" Run <code>make web</code> in the checkout, or install the wheel."
)


class WebRoutes:
    """Serves the built files."""

    def __init__(self, root: Path, prefix: str = "") -> None:
        self._files: dict[str, tuple[bytes, str]] = {}
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts:
                kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
                self._files[str(path.relative_to(root))] = (path.read_bytes(), kind)
        shell, kind = self._files.get("index.html", (_MISSING, ""))
        # The build names its files relatively; a page levels deep needs them from the root.
        self._shell = shell.replace(b'="./', f'="{prefix}/'.encode())

    async def page(self, request: Request) -> Response:
        """GET any page: the application's shell."""
        return Response(
            self._shell,
            headers=[
                ("content-type", "text/html; charset=utf-8"),
                ("content-security-policy", CSP),
            ],
        )

    def asset(self, name: str) -> Route:
        """Return the route of one built file."""
        body, kind = self._files[name]
        packed, _ = self._files.get(f"{name}.gz", (b"", ""))
        held = "public, max-age=31536000, immutable" if name.startswith("assets/") else "no-cache"

        async def handler(request: Request) -> Response:
            headers = [("content-type", kind), ("cache-control", held)]
            if not packed:
                return Response(body, headers=headers)
            headers.append(("vary", "accept-encoding"))
            if not _takes_gzip(request.header("accept-encoding") or ""):
                return Response(body, headers=headers)
            return Response(packed, headers=[*headers, ("content-encoding", "gzip")])

        return Route(method="GET", path=f"/{name}", handler=handler, permission=Permission.PUBLIC)

    def routes(self) -> list[Route]:
        """Return a route per page and per file."""
        pages = [
            Route(method="GET", path=path, handler=self.page, permission=Permission.PUBLIC)
            for path in (*PAGES, "/app/{rest...}")
        ]
        names = [name for name in self._files if name != "index.html" and not name.endswith(".gz")]
        return pages + [self.asset(name) for name in names]


def _takes_gzip(accepted: str) -> bool:
    """Tell whether a caller wants a packed body, by its Accept-Encoding."""
    for part in accepted.split(","):
        coding, _, weight = part.strip().lower().partition(";")
        if coding.strip() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def routes(services: Services) -> list[Route]:
    """Return the routes of the web UI."""
    return WebRoutes(Path(str(files("trackyard.web"))), services.settings.prefix).routes()
