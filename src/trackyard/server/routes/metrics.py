"""Figures of the server itself in Prometheus' text form, for whoever has a credential.

Owns the form. What is measured is the watchdog's.
"""

from __future__ import annotations

from itertools import accumulate

from trackyard.server.http import Request, Response
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.server.watchdog import EDGES, Watchdog

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class MetricsRoutes:
    """Handlers of figures."""

    def __init__(self, services: Services) -> None:
        self._watchdog = services.watchdog

    async def show(self, request: Request) -> Response:
        """GET /metrics: how late the event loop ran its timers, and what held it up."""
        lines = event_loop(self._watchdog)
        return Response("\n".join([*lines, ""]).encode(), content_type=_TEXT)


def event_loop(watchdog: Watchdog) -> list[str]:
    """Return the figures of the event loop."""
    name, stalls = "yard_event_loop_lag_seconds", "yard_event_loop_stalls_total"
    lines = [f"# HELP {name} Lateness of a timer on the event loop.", f"# TYPE {name} histogram"]
    sums = list(accumulate(watchdog.counts))
    edges = [*[f"{edge:g}" for edge in EDGES], "+Inf"]
    lines += [f'{name}_bucket{{le="{at}"}} {so}' for at, so in zip(edges, sums, strict=True)]
    lines += [f"{name}_sum {watchdog.total_seconds:.6f}", f"{name}_count {sums[-1]}"]
    lines += [
        f"# HELP {stalls} Times the event loop stood still for 50 ms or more, by what it was at.",
        f"# TYPE {stalls} counter",
    ]
    lines += [
        f'{stalls}{{during="{_escaped(during)}"}} {count}'
        for during, count in sorted(watchdog.stalls_by_name.items())
    ]
    return lines


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def routes(services: Services) -> list[Route]:
    """Return the routes of figures."""
    do = MetricsRoutes(services)
    return [Route(method="GET", path="/metrics", handler=do.show, permission=Permission.READ)]
