"""Data sets of one attempt: brought to the node, held while the command runs, told as notes.

Owns what the log and the attempt's notes say of them, and the variables with their paths.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable, Dict, List, Set

from trackyard.runner.data.cache import Cache
from trackyard.runner.data.fetch import (
    DatasetFile,
    DatasetServer,
    DatasetTransfer,
    FetchError,
    read_manifest,
)
from trackyard.runner.spec import DataSet, RunnerSpec
from trackyard.runner.workspace.workspace import WorkspaceError

SAY_SECONDS = 10.0
#: How long to wait for a data set that no process is fetching.
AWAIT_SECONDS = 120.0
Pause = Callable[[float], None]


class Data:
    """The data sets that a command reads."""

    def __init__(
        self, spec: RunnerSpec, say: Callable[[str], None], beat: Callable[[], None]
    ) -> None:
        self._spec = spec
        self._say = say
        self._beat = beat
        self._cache = Cache(spec.cache_dir / "data", limit_bytes=spec.data_cache_bytes)
        #: a sentence for each data set: being fetched, or present
        self._sentences: Dict[str, str] = {}
        self._next_say = 0.0
        #: digests of all that the node holds, once everything is here
        self.held: List[str] = []

    @property
    def notes(self) -> List[str]:
        """Sentences for the attempt's page."""
        return list(self._sentences.values())

    def prepare(self, pause: Pause) -> None:
        """Fetch every data set, or raise SetupError with the reason."""
        wanted = self._spec.data
        if not wanted:
            return
        for one in wanted:
            limit = self._spec.data_cache_bytes
            if limit and one.size_bytes > limit:
                raise WorkspaceError(
                    f"Data set {one.label} has {_size(one.size_bytes)}, more than the"
                    f" {_size(limit)} that a node may hold: raise data_cache_gib on the server."
                )
        report = self._spec.report
        if report is None:
            raise WorkspaceError(f"Data set {wanted[0].label} cannot be fetched without a server.")
        try:
            self._cache.make()
            sizes = [(one.digest, one.size_bytes) for one in wanted]
            self._cache.reserve(sizes, pause, self._note)
            for one in wanted:
                if report.by_folder:
                    self._await(one, pause)
                else:
                    server = DatasetServer(one.location, report.token, self._spec.epoch)
                    self._bring(one, server, pause)
            self.held = self._cache.held()[:1000]
        except FetchError as fault:
            raise WorkspaceError(f"A data set could not be fetched: {fault}.") from fault
        except OSError as fault:
            raise WorkspaceError(
                f"A data set could not be stored on this node: {fault}."
            ) from fault
        self._sentences.pop("", None)

    def variables(self) -> Dict[str, str]:
        """Return the variables that hold the data sets' paths."""
        found = {one.variable: str(self._cache.whole(one.digest)) for one in self._spec.data}
        if len(found) == 1:
            found["YARD_DATA_DIR"] = next(iter(found.values()))
        return found

    def _note(self, sentence: str) -> None:
        self._sentences[""] = sentence
        self._say(sentence)
        self._beat()

    def _bring(self, one: DataSet, server: DatasetServer, pause: Pause) -> None:
        with self._cache.fetching(one.digest, pause):
            files = self._files(one, server, pause)
            listed = [(file.path, file.size) for file in files]
            if self._cache.is_sound(one.digest, listed):
                self._told(one, f"data set {one.label} was in the node's cache")
                return
            if self._cache.whole(one.digest).exists():
                self._say(f"data set {one.label} was changed on this node: fetching it again")
                self._cache.reopen(one.digest)
            self._say(
                f"fetching data set {one.label}: {len(files)} files, {_size(one.size_bytes)}"
            )
            began = time.monotonic()
            self._next_say = began + SAY_SECONDS
            transfer = DatasetTransfer(server, self._cache.part(one.digest), files)
            twins = self._twins({file.sha256 for file in files}, one.digest)
            fetched = transfer.run(pause, lambda done: self._progress(one, done), twins)
            self._cache.publish(one.digest)
            took = time.monotonic() - began
            self._told(one, f"data set {one.label}: {_size(fetched)} fetched in {took:.1f} s")

    def _await(self, one: DataSet, pause: Pause) -> None:
        """Wait for the copy that the server's machine puts on the shared disk."""
        self._say(f"waiting for data set {one.label} on the shared disk")
        kept, patient_until = self._cache.manifest(one.digest), time.monotonic() + AWAIT_SECONDS
        while True:
            if self._cache.whole(one.digest).is_dir() and kept.exists():
                files = read_manifest(kept.read_bytes())
                if self._cache.is_sound(one.digest, [(file.path, file.size) for file in files]):
                    self._told(one, f"data set {one.label} is on the shared disk")
                    return
            fault = self._cache.fault(one.digest)
            if fault:
                raise WorkspaceError(fault)
            if self._cache.is_fetching(one.digest):
                patient_until = time.monotonic() + AWAIT_SECONDS
            elif time.monotonic() >= patient_until:
                raise WorkspaceError(
                    f"Data set {one.label} did not arrive: the process fetching it has"
                    " ended. Submit the job again."
                )
            pause(0.5)

    def _files(self, one: DataSet, server: DatasetServer, pause: Pause) -> List[DatasetFile]:
        kept = self._cache.manifest(one.digest)
        if not self._cache.whole(one.digest).exists() or not kept.exists():
            data = server.manifest(one.digest, pause)
            beside = kept.with_name(f".{kept.name}.part")
            beside.write_bytes(data)
            beside.replace(kept)
        return read_manifest(kept.read_bytes())

    def _twins(self, wanted: Set[str], digest: str) -> Dict[str, Path]:
        """Return files of other versions here that hold the same content."""
        found: Dict[str, Path] = {}
        for other in self._cache.held():
            kept = self._cache.manifest(other)
            if other == digest or not kept.exists():
                continue
            root = self._cache.whole(other)
            for file in read_manifest(kept.read_bytes()):
                if file.sha256 in wanted:
                    found.setdefault(file.sha256, root / file.path)
        return found

    def _progress(self, one: DataSet, done: int) -> None:
        part = done / one.size_bytes if one.size_bytes else 1.0
        sentence = (
            f"fetching data set {one.label}: {part:.0%} ({_size(done)} of {_size(one.size_bytes)})"
        )
        is_first = one.digest not in self._sentences
        self._sentences[one.digest] = sentence
        if is_first:
            self._beat()
        if time.monotonic() >= self._next_say:
            self._next_say = time.monotonic() + SAY_SECONDS
            self._say(sentence)

    def _told(self, one: DataSet, sentence: str) -> None:
        self._sentences[one.digest] = sentence
        self._say(f"{sentence}; ${one.variable} is {self._cache.whole(one.digest)}")


def fetch_for_nodes(spec: RunnerSpec) -> int:
    """Put an attempt's data sets on a disk shared by nodes that cannot reach the server."""
    cache = Cache(spec.cache_dir / "data", limit_bytes=spec.data_cache_bytes)
    cache.make()
    for one in spec.data:
        cache.note_fault(one.digest, "")
    try:
        Data(spec, lambda _sentence: None, lambda: None).prepare(time.sleep)
    except WorkspaceError as fault:
        for one in spec.data:
            cache.note_fault(one.digest, str(fault))
        return 1
    return 0


def _size(count: int) -> str:
    if count >= 1024**3:
        return f"{count / 1024**3:.1f} GiB"
    return f"{count / 1024**2:.1f} MiB" if count >= 1024**2 else f"{count / 1024:.1f} KiB"
