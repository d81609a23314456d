"""Who is told what an engine notices: starts, ends, nodes, silence. Owns the list of listeners."""

from __future__ import annotations

import contextlib
import threading

from trackyard.core.clock import Clock
from trackyard.core.ports import EngineNotice, Listener, NoticeKind, Unsubscribe


class Notices:
    """The listeners of one engine, called by whichever thread notices something."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Tell `listener` from now on, until what is returned is called."""
        with self._lock:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._lock, contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return unsubscribe

    def tell(self, kind: NoticeKind, subject: str, detail: str = "") -> None:
        """Tell everybody who listens, without holding the lock."""
        notice = EngineNotice(kind=kind, subject=subject, at=self._clock.now(), detail=detail)
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener(notice)
