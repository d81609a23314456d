"""The fake engine of live histories: it sees double starts, and its way to the server breaks."""

from math import inf
from typing import Any

from trackyard.core.ports import AttemptPhase, EngineUnavailable, ExitRecord, LaunchSpec
from trackyard.testing.engine import FakeEngine


class Engine(FakeEngine):
    """A fake engine that sees double starts, and whose way to the server can be upset."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.faults: list[str] = []
        self.ended: dict[str, tuple[float, bool]] = {}
        self.lost_until = self.late_until = self.away_until = -inf
        self._kept: list[tuple[Any, str]] = []

    def _start(self, spec: LaunchSpec) -> None:
        super()._start(spec)
        live = [
            (name, one)
            for name, one in self._attempts.items()
            if one.phase is AttemptPhase.RUNNING and name != spec.attempt_id
        ]
        for name, one in live:
            if one.spec.job_id == spec.job_id:
                self.faults.append(f"{spec.attempt_id} was started while {name} was live")
        used: dict[tuple[str, int], float] = {}
        for one in [one for _, one in live] + [self._attempts[spec.attempt_id]]:
            for share in one.spec.placement:
                for gpu in share.gpus:
                    at = (share.node_id, gpu.index)
                    used[at] = used.get(at, 0.0) + gpu.fraction
        for (node, gpu), amount in used.items():
            if amount > 1.0 + 1e-9:
                self.faults.append(f"GPU {gpu} of {node} runs more than it holds")

    def finish(self, attempt_id: str, **more: Any) -> ExitRecord:
        record = super().finish(attempt_id, **more)
        ran = self._clock.monotonic() - self._attempts[attempt_id].began
        self.ended[attempt_id] = (ran, record.saved)
        return record

    def lose(self, attempt_id: str) -> None:
        ran = self._clock.monotonic() - self._attempts[attempt_id].began
        self.ended.setdefault(attempt_id, (ran, False))
        super().lose(attempt_id)

    def pass_time(self) -> None:
        """Let attempts end whose time has come, whether anyone asks for them or not."""
        self._pass_time()

    def live(self) -> dict[str, float]:
        """Return how long each live attempt has run."""
        now = self._clock.monotonic()
        return {
            name: now - one.began
            for name, one in self._attempts.items()
            if one.phase is AttemptPhase.RUNNING
        }

    def next_end(self) -> float:
        """Return in how many seconds an attempt ends by itself, or is killed."""
        now, found = self._clock.monotonic(), inf
        for one in self._attempts.values():
            if one.phase is AttemptPhase.RUNNING:
                ends = [one.deadline or inf, one.began + (one.program.ends_after or inf)]
                if one.spec.time_limit_seconds is not None and one.stop_reason is None:
                    ends.append(one.began + one.spec.time_limit_seconds)
                found = min([found, *ends])
        return max(0.001, found - now)

    def attempts(self) -> Any:
        self._answer()
        return super().attempts()

    def lookup(self, attempt_id: str) -> Any:
        self._answer()
        return super().lookup(attempt_id)

    def nodes(self) -> Any:
        self._answer()
        return super().nodes()

    def launch(self, spec: LaunchSpec) -> Any:
        self._answer()
        return super().launch(spec)

    def _answer(self) -> None:
        if self._clock.monotonic() < self.away_until:
            raise EngineUnavailable("the engine does not answer")

    def _tell(self, kind: Any, subject: str) -> None:
        now = self._clock.monotonic()
        if now < self.lost_until:
            return
        if now < self.late_until:
            self._kept.append((kind, subject))
            return
        kept, self._kept = self._kept, []
        for one in (*reversed(kept), (kind, subject)):
            super()._tell(*one)
