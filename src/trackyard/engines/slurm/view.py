"""A cached view of the cluster: its jobs from one squeue, its nodes from one scontrol.

Owns how old the cache may be. While the controller does not answer, the last view stands.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from trackyard.core.clock import Clock
from trackyard.core.ports import EngineError, EngineUnavailable, LaunchRefused, NodeGrant
from trackyard.engines.slurm.commands import Commands
from trackyard.engines.slurm.nodes import PLACE
from trackyard.engines.slurm.observe import ObservedAttempt
from trackyard.engines.slurm.parse import SlurmJob, SlurmNode, read_job, read_node, records
from trackyard.engines.slurm.site import SlurmSite
from trackyard.engines.slurm.submit import attempt_of

#: how old a list of jobs may be
JOBS_SECONDS = 1.0
NODES_SECONDS = 10.0
#: how long after a submission polling pauses; the runner itself reports the start
START_SECONDS = 0.75
#: how long to wait before asking an unreachable controller again
RETRY_SECONDS = 2.0


class View:
    """What Slurm said last."""

    def __init__(self, commands: Commands, site: SlurmSite, clock: Clock) -> None:
        self._commands = commands
        self._site = site
        self._clock = clock
        self._lock = threading.RLock()
        self._asking = threading.Lock()
        self._try_after = self._ask_after = float("-inf")
        self._jobs: dict[int, SlurmJob] = {}
        self._jobs_at = self._nodes_at = float("-inf")
        self._jobs_ms = 0
        self._nodes: dict[str, SlurmNode] = {}
        self._gone: dict[str, float] = {}
        #: why the controller did not answer last; empty: it did
        self.trouble = ""

    def look(self, *, max_age: float = JOBS_SECONDS) -> bool:
        """Refresh the list of jobs if it is older than that; return whether it is fresh now."""
        if self._is_young(max_age):
            return True
        with self._asking:
            # Another thread may have asked meanwhile; an unreachable controller gets a pause.
            now, now_ms = self._clock.monotonic(), self._clock.time_ms()
            if self._is_young(max_age):
                return True
            if now < self._try_after and max_age > 0:
                return False
            try:
                data = self._commands.json("squeue", "--all")
            except EngineError as fault:
                self.trouble = str(fault)
                self._try_after = self._clock.monotonic() + RETRY_SECONDS
                return False
            jobs = {job.job_id: job for job in map(read_job, data.get("jobs") or ())}
            with self._lock:
                self._jobs, self._jobs_at, self._jobs_ms = jobs, now, now_ms
                self.trouble = ""
            return True

    def _is_young(self, max_age: float) -> bool:
        now = self._clock.monotonic()
        with self._lock:
            is_left_alone = max_age > 0 and self._jobs_at > float("-inf") and now < self._ask_after
            return is_left_alone or now - self._jobs_at <= max_age

    def note(self, job: SlurmJob) -> None:
        """Add a job that was submitted just now."""
        with self._lock:
            # Many submissions in a row do not delay the next poll longer than one does.
            if self._ask_after < self._clock.monotonic() - START_SECONDS:
                self._ask_after = self._clock.monotonic() + START_SECONDS
            self._jobs.setdefault(job.job_id, job)

    def job(self, attempt_id: str, job_id: int | None) -> SlurmJob | None:
        """Return an attempt's job in the last list.

        A controller that lost its state reuses ids: only the comment identifies the attempt.
        """
        with self._lock:
            job = None if job_id is None else self._jobs.get(job_id)
        if job is None or attempt_of(job, self._site.name) != attempt_id:
            return None
        return job

    def ours(self) -> dict[str, list[SlurmJob]]:
        """Return this site's jobs by attempt, in order of submission."""
        found: dict[str, list[SlurmJob]] = {}
        with self._lock:
            for job in sorted(self._jobs.values(), key=lambda one: one.job_id):
                attempt_id = attempt_of(job, self._site.name)
                if attempt_id is not None:
                    found.setdefault(attempt_id, []).append(job)
        return found

    def others(self) -> list[SlurmJob]:
        """Return other users' jobs."""
        with self._lock:
            return [job for job in self._jobs.values() if attempt_of(job, self._site.name) is None]

    def seen(
        self, attempt_id: str, job_id: int | None, handed_ms: int, *, has_begun: bool
    ) -> ObservedAttempt:
        """Return what the last list says of an attempt that was submitted at `handed_ms`."""
        job = self.job(attempt_id, job_id)
        with self._lock:
            # A list from before the submission says nothing about it.
            is_current = self._jobs_ms > handed_ms and job_id is not None
            # A pending job that has already run was requeued by Slurm: this attempt is over.
            is_live = job is not None and not job.has_ended and not (job.waits and has_begun)
            if not is_current or is_live:
                self._gone.pop(attempt_id, None)
                return ObservedAttempt(job=job, is_current=is_current)
            # Measured between lists, not by the clock: an old list, from before the start or of a
            # controller that no longer answers, does not become more certain with time.
            since = self._gone.setdefault(attempt_id, self._jobs_at)
            never_ran = job is not None and job.has_ended and not job.nodes
            gone = float("inf") if never_ran else self._jobs_at - since
            return ObservedAttempt(job=job, is_current=True, gone_seconds=gone)

    def forget(self, attempt_id: str) -> None:
        """Drop what is stored about an attempt."""
        with self._lock:
            self._gone.pop(attempt_id, None)

    def nodes(self) -> Mapping[str, SlurmNode]:
        """Return the nodes by name; EngineUnavailable if they were never read."""
        if self._clock.monotonic() - self._nodes_at > NODES_SECONDS:
            self.look_at_nodes()
        return self._nodes

    def look_at_nodes(self) -> None:
        """Refresh the nodes; if the controller does not answer, keep the last ones."""
        try:
            text = self._commands.run("scontrol", "--oneliner", "show", "nodes")
        except EngineUnavailable:
            if not self._nodes:
                raise
            return
        wanted = set(self._site.partitions)
        found = [read_node(row) for row in records(text) if "NodeName" in row]
        with self._lock:
            self._nodes = {
                node.name: node for node in found if not wanted or wanted & set(node.partitions)
            }
            self._nodes_at = self._clock.monotonic()

    def check(self, share: NodeGrant) -> SlurmNode:
        """Return the node of a share, or refuse what the cluster cannot provide."""
        name = share.node_id.partition(PLACE)[0] if self._site.is_behind else share.node_id
        # The watcher's last view is enough: Slurm itself decides about a job.
        node = self._nodes.get(name) or self.nodes().get(name)
        if node is None:
            known = ", ".join(sorted(self._nodes)[:20])
            raise LaunchRefused(f"Slurm has no node {share.node_id}; it has {known}")
        if len(share.gpus) > node.gpu_count:
            raise LaunchRefused(f"node {name} has {node.gpu_count} GPUs, not {len(share.gpus)}")
        return node
