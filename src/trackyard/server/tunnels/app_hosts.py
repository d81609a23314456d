"""Which host names pages of apps are served on: never the server's own.

A page of an app runs whatever its job serves. On a host of its own it is another origin to the
browser, so that it reads nothing of the server's pages and cannot act with their session. Owns
that choice; knows neither credentials nor jobs.
"""

from __future__ import annotations

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
#: Browsers take every name below it for this machine, without asking anyone.
LOCAL_SUFFIX = "localhost"


class AppHosts:
    """The hosts of apps: one per job below a suffix, or one for all."""

    def __init__(self, pattern: str, *, is_secure: bool) -> None:
        #: `*.apps.example.org`, `apps.example.org`, or empty
        self._pattern = pattern.lower()
        self._is_secure = is_secure

    def is_host_of(self, name: str, job_id: str) -> bool:
        """Tell whether a host, without its port, is where a job's app is served."""
        name, job_id = name.lower(), job_id.lower()
        if self._pattern.startswith("*."):
            return name == f"{job_id}{self._pattern[1:]}"
        if self._pattern:
            return name == self._pattern
        return name == f"{job_id}.{LOCAL_SUFFIX}"

    def origin(self, name: str, port: str | None, job_id: str) -> str | None:
        """Return where a browser that knows the server by a host finds an app; None: nowhere."""
        scheme = "https" if self._is_secure else "http"
        if self._pattern.startswith("*."):
            host = f"{job_id}{self._pattern[1:]}"
        elif self._pattern:
            host = self._pattern
        elif name in LOOPBACK:
            host = f"{job_id}.{LOCAL_SUFFIX}"
        else:
            return None
        return f"{scheme}://{host}{f':{port}' if port else ''}"
