"""Leases as reservations of Slurm: made, moved, extended and ended with the lease.

A reservation has the lease's id in its name, so that any server finds it again. Its user is the
one that submits for Trackyard: Slurm keeps other users' jobs off, the queue keeps ours off. Owns
nothing persistent but these reservations.
"""

from __future__ import annotations

import getpass
import logging
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from trackyard.core.ports import (
    EngineError,
    EngineUnavailable,
    LaunchSpec,
    LeaseHold,
    NoticeKind,
)
from trackyard.engines.slurm.commands import Commands
from trackyard.engines.slurm.parse import expand, records
from trackyard.engines.slurm.site import SlurmSite

log = logging.getLogger(__name__)

Tell = Callable[[NoticeKind, str, str], None]


class SlurmReservations:
    """The reservations of this site's leases."""

    def __init__(self, commands: Commands, site: SlurmSite, *, tell: Tell) -> None:
        self._commands = commands
        self._site = site
        self._tell = tell
        self._lock = threading.Lock()
        self._holds: dict[str, LeaseHold] = {}
        #: names of reservations to delete
        self._leaving: set[str] = set()

    def name(self, lease_id: str) -> str:
        """Return the name of a lease's reservation."""
        return f"yard-{self._site.name}-{re.sub(r'[^A-Za-z0-9-]', '-', lease_id)}"

    def holds(self) -> list[LeaseHold]:
        """Return the leases with a reservation."""
        with self._lock:
            return list(self._holds.values())

    def name_for(self, spec: LaunchSpec) -> str:
        """Return the reservation that an attempt starts in; empty if it needs none."""
        now = datetime.now(UTC)
        nodes = {share.node_id for share in spec.placement}
        for hold in self.holds():
            usable = hold.lease_id in spec.leases and hold.starts_at <= now < hold.ends_at
            if usable and nodes <= set(hold.node_ids):
                return self.name(hold.lease_id)
        return ""

    def seconds_left(self, spec: LaunchSpec) -> float | None:
        """Return how long an attempt may stay on its nodes before a lease starts or ends there.

        Slurm does not start a job that would still run then; the queue moves it in time.
        """
        now = datetime.now(UTC)
        nodes = {share.node_id for share in spec.placement}
        edges = [
            hold.ends_at if hold.lease_id in spec.leases else hold.starts_at
            for hold in self.holds()
            if nodes & set(hold.node_ids) and hold.ends_at > now
        ]
        return min(((edge - now).total_seconds() for edge in edges), default=None)

    def hold(self, hold: LeaseHold) -> None:
        """Create the lease's reservation, or update it to match the lease."""
        with self._lock:
            self._holds[hold.lease_id] = hold
            self._leaving.discard(self.name(hold.lease_id))
        known = self._known()
        name = self.name(hold.lease_id)
        now = datetime.now(UTC)
        if hold.ends_at <= now:
            return
        wanted = [
            f"ReservationName={name}",
            f"EndTime={_time(hold.ends_at)}",
            f"Nodes={','.join(hold.node_ids)}",
            f"Users={getpass.getuser()}",
        ]
        start = f"StartTime={_time(hold.starts_at) if hold.starts_at > now else 'now'}"
        row = known.get(name)
        try:
            if row is None:
                # The queue moves jobs that still run there; Slurm starts no new ones.
                self._commands.run(
                    "scontrol", "create", "reservation", *wanted, start, "Flags=IGNORE_JOBS"
                )
            elif not _is_same(row, hold):
                begun = row.get("State") == "ACTIVE"
                moved = [] if begun else [start]
                self._commands.run("scontrol", "update", *wanted, *moved)
        except EngineUnavailable:
            raise
        except EngineError as fault:
            # The queue still keeps its own jobs off; only other users of Slurm may get in.
            words = f"Slurm created no reservation for the lease: {fault}"
            log.warning("%s (%s)", words, hold.lease_id)
            self._tell(NoticeKind.LEASE_SHAKEN, hold.lease_id, words)

    def drop(self, lease_id: str) -> None:
        """Delete the lease's reservation, if there is one."""
        with self._lock:
            self._holds.pop(lease_id, None)
            self._leaving.add(self.name(lease_id))
        self.look()

    def look(self) -> None:
        """Delete dropped reservations; Slurm refuses while an ending job is still in one."""
        with self._lock:
            leaving = set(self._leaving)
        if not leaving:
            return
        known = self._known()
        for name in leaving:
            try:
                if name in known:
                    self._commands.run("scontrol", "delete", f"ReservationName={name}")
            except EngineUnavailable:
                raise
            except EngineError as fault:
                log.info("%s is deleted later: %s", name, fault)
                continue
            with self._lock:
                self._leaving.discard(name)

    def _known(self) -> dict[str, dict[str, str]]:
        text = self._commands.run("scontrol", "--oneliner", "show", "reservation")
        return {row["ReservationName"]: row for row in records(text) if "ReservationName" in row}


def _is_same(row: dict[str, str], hold: LeaseHold) -> bool:
    has_begun = row.get("State") == "ACTIVE"
    return (
        row.get("EndTime") == _time(hold.ends_at)
        and sorted(expand(row.get("Nodes", ""))) == sorted(hold.node_ids)
        and (has_begun or row.get("StartTime") == _time(hold.starts_at))
    )


def _time(moment: datetime) -> str:
    """Return a time as Slurm reads it: local, without a zone."""
    return f"{moment.astimezone():%Y-%m-%dT%H:%M:%S}"
