"""Stands where the server stands for runners: takes their reports, and carries stops to them."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.integration.runner.server import AttemptServer
from trackyard.core.ports import ExitCause, ReportTo


class Receiver(AttemptServer):
    """The runner's four endpoints for many attempts, and the engine's channel to them."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, int], bytearray] = {}
        self.beats: dict[str, list[dict[str, Any]]] = {}
        self.records: dict[str, list[dict[str, Any]]] = {}
        self.refused_ids: set[str] = set()
        self._orders: dict[str, tuple[str, float]] = {}

    def report(self, **changes: Any) -> ReportTo:
        """Where a runner is to report."""
        values: dict[str, Any] = {"heartbeat_seconds": 0.3, "linger_seconds": 60.0, **changes}
        return ReportTo(url=self.url, token=self.token, **values)

    def take(self, path: str, query: dict[str, list[str]], body: bytes, epoch: int) -> Any:
        attempt_id, verb = path.split("/")[-2:]
        if attempt_id in self.refused_ids:
            return 409, {"message": "a newer attempt holds this job"}
        with self.lock:
            if verb == "heartbeat":
                self.beats.setdefault(attempt_id, []).append(json.loads(body))
                return 200, self._order(attempt_id)
            if verb == "exit":
                self.records.setdefault(attempt_id, []).append(json.loads(body))
                return 200, {}
            if verb == "logs":
                return self._keep(attempt_id, query, body)
            return 200, {}

    def _order(self, attempt_id: str) -> dict[str, Any]:
        if attempt_id not in self._orders:
            return {}
        reason, due = self._orders[attempt_id]
        grace = max(0.0, due - time.monotonic())
        return {"stop": {"reason": reason, "grace_seconds": grace}}

    def _keep(self, attempt_id: str, query: dict[str, list[str]], body: bytes) -> Any:
        held = self.kept.setdefault((attempt_id, int(query["member"][0])), bytearray())
        offset = int(query["offset"][0])
        if offset > len(held):
            return 416, {"next_offset": len(held)}
        held.extend(body[len(held) - offset :])
        return 200, {"next_offset": len(held)}

    # The engine's channel

    def order_stop(self, attempt_id: str, *, grace_seconds: float, reason: ExitCause) -> None:
        due = time.monotonic() + grace_seconds
        with self.lock:
            before = self._orders.get(attempt_id)
            if before is not None:
                reason, due = ExitCause(before[0]), min(before[1], due)
            self._orders[attempt_id] = (reason.value, due)

    def read_log(self, attempt_id: str, member: int, *, offset: int, limit: int) -> bytes | None:
        return bytes(self.kept.get((attempt_id, member), b"")[offset : offset + limit])
