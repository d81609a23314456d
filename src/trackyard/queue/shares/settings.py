"""The settings of queues and teams: what an admin may set, and what makes no sense.

Owns their shape and checks. Knows neither storage nor the scheduler's own types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec

from trackyard.core.batch import options_fault
from trackyard.core.errors import InvalidInput
from trackyard.core.ids import TEAM_NAME
from trackyard.core.job import PriorityClass
from trackyard.core.ports import BatchOptions
from trackyard.queue.submit.gang_shapes import parse_gang
from trackyard.scheduling.policy import QueueOrder
from trackyard.store.bounds import Int64, Labels, Word, Words

#: Teams on the way from one to the top of its departments.
MOST_LEVELS = 8
#: Who may use a class, the widest circle first.
CIRCLES = ("member", "maintainer", "owner", "admin")
#: Whether jobs of a queue may be stopped for others: only those that say so, those that do not
#: opt out, all.
PREEMPTIBLE = ("no", "yes", "always")


def check_classes(classes: Mapping[str, str]) -> None:
    """Refuse rules about unknown classes or roles."""
    names = [level.name.lower() for level in PriorityClass]
    for name, role in classes.items():
        if name not in names:
            raise InvalidInput(f"class {name[:40]!r} is none of {', '.join(names)}")
        if role not in CIRCLES:
            raise InvalidInput(f"{role[:40]!r} for {name} is none of {', '.join(CIRCLES)}")


class SlurmOptions(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a queue asks of Slurm beneath it, and the site's rules that it mirrors."""

    partition: Word = ""
    account: Word = ""
    qos: Word = ""
    reservation: Word = ""
    constraint: Word = ""
    #: further options of sbatch, each as --name=value
    directives: Words = []
    #: in Slurm's own words, by the limit of this queue that mirrors it; such limits refuse at once
    rules: Labels = {}

    @property
    def options(self) -> BatchOptions:
        """The same in the engine port's words."""
        return BatchOptions(
            partition=self.partition,
            account=self.account,
            qos=self.qos,
            reservation=self.reservation,
            constraint=self.constraint,
            directives=tuple(self.directives),
        )


class QueueSettings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A queue's rules; null means no limit."""

    #: teams that may use it; empty: all
    teams: Words = []
    #: among jobs of one class, the queue with the lower rank goes first
    rank: Int64 = 0
    #: fifo, fair, dominant, shortest or default; empty: the server's policy
    order: Word = ""
    quota_gpus: float | None = None
    max_running: Int64 | None = None
    max_nodes_per_job: Int64 | None = None
    max_gpus_per_job: float | None = None
    max_wall_seconds: float | None = None
    max_gpus_per_user: float | None = None
    max_running_per_user: Int64 | None = None
    #: gang of jobs that ask for nothing themselves, as in 2x1gpu,8cpu; empty: none
    gang: Word = ""
    #: CPUs and memory of a job without GPUs that states none; null: 1 CPU and no memory
    default_cpus: float | None = None
    default_memory_bytes: Int64 | None = None
    #: the same for each GPU of a job with GPUs; null: the GPU's part of its node
    default_cpus_per_gpu: float | None = None
    default_memory_per_gpu_bytes: Int64 | None = None
    #: CPUs and memory of one job, all nodes together
    max_cpus_per_job: float | None = None
    max_memory_per_job_bytes: Int64 | None = None
    #: whether a job may ask for no CPUs at all (`--cpus 0`)
    zero_cpus: bool = True
    #: least role for a priority class: member, maintainer, owner or admin
    classes: Labels = {}
    #: whether jobs that say nothing may be stopped for others: no, yes, or always (no opting out)
    preemptible_default: Word = "no"
    #: where jobs go on a Slurm site, and which of its rules this queue mirrors
    slurm: SlurmOptions | None = None

    @property
    def batch_options(self) -> BatchOptions:
        """Return what a batch system beneath this queue is asked for."""
        if self.slurm is None:
            return BatchOptions()
        is_mirrored = "max_wall_seconds" in self.slurm.rules
        most = self.max_wall_seconds if is_mirrored else None
        return dataclasses.replace(self.slurm.options, most_seconds=most)

    def check(self) -> None:
        """Refuse values that make no sense."""
        if self.order and self.order not in [one.value for one in QueueOrder]:
            names = ", ".join(one.value for one in QueueOrder)
            raise InvalidInput(f"order {self.order[:40]!r} is none of {names}")
        if self.gang:
            parse_gang(self.gang)
        if self.preemptible_default not in PREEMPTIBLE:
            names = ", ".join(PREEMPTIBLE)
            raise InvalidInput(
                f"preemptible_default {self.preemptible_default[:40]!r} is none of {names}"
            )
        fault = options_fault(self.slurm.options) if self.slurm is not None else ""
        if fault:
            raise InvalidInput(fault)
        check_classes(self.classes)
        for team in self.teams:
            if not TEAM_NAME.match(team):
                raise InvalidInput(f"{team[:80]!r} is no name of a team")
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if isinstance(value, int | float) and field != "rank" and value < 0:
                raise InvalidInput(f"{field} cannot be negative")


class TeamShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A team's claim on the GPUs; null means no limit."""

    #: weight among the teams of its department, or among all without one
    share: float = 1.0
    #: the team that is its department; empty: none
    parent: Word = ""
    #: GPUs that are its own
    quota_gpus: float | None = None
    #: most GPUs at once, borrowed ones included
    limit_gpus: float | None = None
    #: GPUs of its quota that others may borrow for jobs that may not be preempted
    lendable_gpus: float = 0.0
    max_running: Int64 | None = None
    #: least role for a priority class, where the queue does not say: member, maintainer, owner
    #: or admin
    classes: Labels = {}
    #: urgent GPU-hours in seven days; null: no budget
    urgent_gpu_hours: float | None = None

    def check(self) -> None:
        """Refuse values that make no sense."""
        check_classes(self.classes)
        if not 0 < self.share <= 1000:
            raise InvalidInput("share must lie above 0 and at most 1000")
        amounts = ("quota_gpus", "limit_gpus", "lendable_gpus", "max_running", "urgent_gpu_hours")
        for field in amounts:
            value = getattr(self, field)
            if value is not None and value < 0:
                raise InvalidInput(f"{field} cannot be negative")
        if self.lendable_gpus > (self.quota_gpus or 0.0):
            raise InvalidInput(
                f"lendable_gpus is {self.lendable_gpus:g}, more than the quota of"
                f" {self.quota_gpus or 0.0:g}: lend at most what the team owns"
            )


def check_departments(shares: Mapping[str, TeamShare]) -> None:
    """Refuse departments that there are not, circles, and quotas beyond their department's."""
    for name, share in shares.items():
        if share.parent and share.parent not in shares:
            raise InvalidInput(
                f"team {name} is to be in department {share.parent[:80]!r}, which is no team:"
                " `yard team add` makes one"
            )
        if share.parent:
            _check_way_up(name, shares)
    for name, share in shares.items():
        below = [one for one, other in shares.items() if other.parent == name]
        owned = sum(quota_of(one, shares) for one in below)
        if share.quota_gpus is not None and owned > share.quota_gpus:
            raise InvalidInput(
                f"the teams in department {name} own {owned:g} GPUs together, and its quota is"
                f" {share.quota_gpus:g}: raise that, or lower theirs first"
            )


def quota_of(name: str, shares: Mapping[str, TeamShare]) -> float:
    """Return the quota of a team; of a department without one, the sum of those below it."""
    own = shares[name].quota_gpus
    if own is not None:
        return own
    below = [one for one, share in shares.items() if share.parent == name]
    return sum(quota_of(one, shares) for one in below)


def _check_way_up(name: str, shares: Mapping[str, TeamShare]) -> None:
    way = [name]
    while parent := shares[way[-1]].parent:
        if parent in way:
            raise InvalidInput(f"departments go in a circle: {' in '.join([*way, parent])}")
        way.append(parent)
        if parent not in shares:
            return
    if len(way) > MOST_LEVELS:
        raise InvalidInput(
            f"team {name} is below {len(way) - 1} departments; {MOST_LEVELS - 1} are the most"
        )
