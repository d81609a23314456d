"""Saving without holding up training: a snapshot now, disk and upload behind.

Owns the one background thread, its errors and the order of its work. At most one save waits
behind the one being written, so memory stays bounded.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trackyard.checkpoint import state as states
from trackyard.checkpoint.store import Checkpoint, CheckpointError, CheckpointFolder
from trackyard.checkpoint.upload import FolderTarget, HttpTarget, Target, run_target

log = logging.getLogger(__name__)
Work = Callable[[], None]


class Saver:
    """Saves a job's state, keeps the last few, and finds the newest again."""

    def __init__(
        self, folder: str | os.PathLike[str], *, keep: int = 3, upload: str | Target | None = None
    ) -> None:
        self._folder = CheckpointFolder(Path(folder), keep=keep)
        self._target = make_target(upload, keep=keep)
        self._work: queue.Queue[Work | None] = queue.Queue(maxsize=1)
        self._thread: threading.Thread | None = None
        self._fault: Exception | None = None
        self._lock = threading.Lock()
        #: sentences on uploads that failed; the checkpoints are on disk all the same
        self.upload_failures: list[str] = []

    @property
    def folder(self) -> Path:
        """Return the folder checkpoints lie in."""
        return self._folder.path

    def save(
        self,
        state: states.State,
        *,
        step: int,
        metadata: Mapping[str, Any] | None = None,
        wait: bool = True,
        link: bool = False,
    ) -> Checkpoint | None:
        """Save a dict of tensors, a folder or a file; return the checkpoint if waited for.

        With `wait=False` tensors are copied now and written by a thread, which also uploads; an
        error of that thread is raised by the next call. `link=True` shares files that the
        caller will not change instead of copying them.
        """
        self._raise_fault()
        blocked = _stopwatch()
        fill = states.filler(state, snapshot=not wait, link=link)
        if wait:
            self.wait()
            checkpoint = self._write(fill, step, metadata, blocked)
            self._upload(checkpoint)
            return checkpoint
        copied = blocked()

        def work() -> None:
            self._upload(self._write(fill, step, metadata, lambda: copied))

        self._put(work)
        return None

    def commit(
        self,
        fill: states.Fill,
        *,
        step: int,
        metadata: Mapping[str, Any] | None = None,
        wait: bool = True,
    ) -> Checkpoint | None:
        """Have `fill` write the files itself, then make them a checkpoint; or have it done."""
        blocked = _stopwatch()
        self.wait()
        if not wait:
            waited = blocked()
            self._put(lambda: self._upload(self._write(fill, step, metadata, lambda: waited)))
            return None
        checkpoint = self._write(fill, step, metadata, blocked)
        self._put(lambda: self._upload(checkpoint))
        return checkpoint

    def behind(self, work: Work) -> None:
        """Have work done after what is being saved; `wait` waits for it and raises its fault."""
        self._put(work)

    def latest(self, *, checksums: bool = True) -> Checkpoint | None:
        """Return the newest complete checkpoint, fetched from the second place if none is here."""
        self.wait()
        found = self._folder.latest(checksums=checksums)
        if found is None and self._target is not None:
            return self._target.fetch(self._folder)
        return found

    def wait(self) -> None:
        """Wait until everything saved is on disk and uploaded; raise what went wrong."""
        if self._thread is not None:
            self._work.join()
        self._raise_fault()

    def _put(self, work: Work) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)
                self._thread.start()
                # A script that ends must not cut its own last save short.
                atexit.register(self._finish)
        self._work.put(work)

    def _finish(self) -> None:
        self._work.join()
        if self._fault is not None:
            log.error("the last checkpoint was not saved: %s", self._fault)

    def _run(self) -> None:
        while True:
            work = self._work.get()
            try:
                if work is not None:
                    work()
            except Exception as fault:  # noqa: BLE001  # raised in the caller's thread
                self._fault = fault
            finally:
                self._work.task_done()

    def _raise_fault(self) -> None:
        fault, self._fault = self._fault, None
        if fault is not None:
            raise CheckpointError(f"a checkpoint could not be saved: {fault}") from fault

    def _write(
        self,
        fill: states.Fill,
        step: int,
        metadata: Mapping[str, Any] | None,
        blocked_ms: Callable[[], int],
    ) -> Checkpoint:
        checkpoint = self._folder.write(fill, step=step, metadata=metadata, blocked_ms=blocked_ms)
        progress(step)
        return checkpoint

    def _upload(self, checkpoint: Checkpoint) -> None:
        if self._target is None:
            return
        try:
            self._target.put(checkpoint)
        except (CheckpointError, OSError) as fault:
            # Training is worth more than the second copy.
            self.upload_failures.append(str(fault))
            log.warning("checkpoint %s was not uploaded: %s", checkpoint.name, fault)


def _stopwatch() -> Callable[[], int]:
    """Return a function that tells the milliseconds since now."""
    began = time.monotonic()
    return lambda: round((time.monotonic() - began) * 1000)


def make_target(upload: str | Target | None, *, keep: int) -> Target | None:
    """Turn `run`, an address or a folder into a second place."""
    if upload is None or not isinstance(upload, str):
        return upload
    if upload == "run":
        return run_target()
    if upload.startswith(("http://", "https://")):
        return HttpTarget(upload)
    return FolderTarget(Path(upload), keep=keep)


def progress(step: int) -> None:
    """Tell the runner that the job gets on; a cheap call, silent outside a job."""
    path = os.environ.get("YARD_PROGRESS_FILE")
    if not path:
        return
    try:
        Path(path).write_text(json.dumps({"step": step}))
    except OSError as fault:
        log.debug("progress was not noted: %s", fault)
