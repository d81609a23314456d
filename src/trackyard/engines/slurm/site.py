"""What an operator says about a Slurm site, and what each queue adds to a job's submission.

Owns the [slurm] table of the config file. Asks Slurm nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trackyard.core.batch import options_fault
from trackyard.core.errors import SetupError
from trackyard.core.ports import BatchOptions

IN_FRONT = "in front"
BEHIND = "behind"
WAYS = (IN_FRONT, BEHIND)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSite:
    """One Slurm cluster as Trackyard uses it."""

    #: tells this database's jobs from those of others, in the comment of each job
    name: str
    #: seen by the server and all nodes under this path: attempts, caches, checkpoints
    folder: Path
    #: `in front`: the queue admits what should start now; `behind`: Slurm queues
    way: str = IN_FRONT
    #: partitions whose nodes are used; empty: all
    partitions: tuple[str, ...] = ()
    #: for queues that say nothing else
    defaults: BatchOptions = field(default_factory=BatchOptions)
    #: the site gives whole nodes alone and refuses --gres and --mem
    whole_nodes: bool = False
    #: the nodes' own interpreter, 3.9 or newer
    python: str = "python3"
    #: shell lines before the runner, such as `module load cuda`
    setup: tuple[str, ...] = ()
    #: False: reports are left in the folder and the server reads them there
    nodes_reach_server: bool = True
    #: behind: how many times the cluster's own size may wait in Slurm's queue
    ahead: int = 4
    #: folder of Slurm's commands, and its slurm.conf, where they are not in the usual place
    commands: str = ""
    conf: str = ""
    #: of the server alone: credentials of attempts whose nodes do not reach it
    private: Path | None = None
    #: checks of the node before each start
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_behind(self) -> bool:
        """Tell whether Slurm queues."""
        return self.way == BEHIND


def read_site(table: Mapping[str, Any], *, name: str, home: Path) -> SlurmSite:
    """Read the [slurm] table; every fault names the key."""
    known = {one.name for one in fields(SlurmSite)} - {"name", "defaults", "limits", "private"}
    options = {one.name for one in fields(BatchOptions)}
    for key in table:
        if key not in known | options:
            raise SetupError(
                f"[slurm] has an unknown key {key!r}",
                hint=f"the keys are {', '.join(sorted(known | options))}",
            )
    for key, kind in (("ahead", int), ("whole_nodes", bool), ("nodes_reach_server", bool)):
        if key in table and not isinstance(table[key], kind):
            raise SetupError(f"[slurm] {key} must be {kind.__name__}, not {table[key]!r}")
    way = str(table.get("way", IN_FRONT)).replace("_", " ").replace("-", " ")
    if way not in WAYS:
        raise SetupError(
            f"[slurm] way is {table['way']!r}", hint=f"choose one of {', '.join(WAYS)}"
        )
    ahead = int(table.get("ahead", 4))
    if not 1 <= ahead <= 100:
        raise SetupError(f"[slurm] ahead is {ahead}", hint="give a number from 1 to 100")
    return SlurmSite(
        name=name,
        folder=Path(str(table.get("folder") or home / "slurm")).expanduser().absolute(),
        way=way,
        partitions=_texts(table, "partitions"),
        defaults=read_options({key: table[key] for key in table if key in options}, "[slurm]"),
        whole_nodes=bool(table.get("whole_nodes", False)),
        python=str(table.get("python") or "python3"),
        setup=_texts(table, "setup"),
        nodes_reach_server=bool(table.get("nodes_reach_server", True)),
        ahead=ahead,
        commands=str(table.get("commands") or ""),
        conf=str(table.get("conf") or ""),
        private=home / "slurm-private",
    )


def read_options(values: Mapping[str, Any], where: str) -> BatchOptions:
    """Read partition, account and their like."""
    plain = {
        key: str(values.get(key) or "")
        for key in ("partition", "account", "qos", "reservation", "constraint")
    }
    options = BatchOptions(**plain, directives=_texts(values, "directives"))
    fault = options_fault(options)
    if fault:
        raise SetupError(f"{where} in the config file: {fault}")
    return options


def merge(chosen: BatchOptions, defaults: BatchOptions) -> BatchOptions:
    """Return a queue's options over the site's."""
    return BatchOptions(
        partition=chosen.partition or defaults.partition,
        account=chosen.account or defaults.account,
        qos=chosen.qos or defaults.qos,
        reservation=chosen.reservation or defaults.reservation,
        constraint=chosen.constraint or defaults.constraint,
        directives=(*defaults.directives, *chosen.directives),
    )


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, ())
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise SetupError(f"[slurm] {key} must be a list of texts, not {value!r}")
    return tuple(value)
