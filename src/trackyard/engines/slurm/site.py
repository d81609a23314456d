"""The settings of a Slurm site, and the options that a queue adds to a submission.

Owns the [slurm] table of the config file. Does not talk to Slurm.
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

    #: identifies this database's jobs, in the comment of each job
    name: str
    #: same path on the server and all nodes: attempts, caches, checkpoints
    folder: Path
    #: `in front`: the queue admits what should start now; `behind`: Slurm queues
    way: str = IN_FRONT
    #: partitions whose nodes are used; empty: all
    partitions: tuple[str, ...] = ()
    #: for queues without options of their own
    defaults: BatchOptions = field(default_factory=BatchOptions)
    #: the site allocates whole nodes and refuses --gres and --mem
    whole_nodes: bool = False
    #: the nodes' own interpreter, 3.9 or newer
    python: str = "python3"
    #: shell lines to run before the runner, such as `module load cuda`
    setup: tuple[str, ...] = ()
    #: False: reports are left in the folder and the server reads them there
    nodes_reach_server: bool = True
    #: behind: how many times the size of the cluster may wait in Slurm's queue
    ahead: int = 4
    #: folder of Slurm's commands and path of slurm.conf, if not in the usual places
    commands: str = ""
    conf: str = ""
    #: on the server only: credentials of attempts whose nodes do not reach it
    private: Path | None = None
    #: thresholds of the node check before each start
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_behind(self) -> bool:
        """Return whether Slurm does the queueing."""
        return self.way == BEHIND


def read_site(table: Mapping[str, Any], *, name: str, home: Path) -> SlurmSite:
    """Read the [slurm] table; errors name the key."""
    known = {one.name for one in fields(SlurmSite)} - {"name", "defaults", "limits", "private"}
    options = {one.name for one in fields(BatchOptions)} - {"most_seconds"}
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
    """Read partition, account and the other options of a submission."""
    options = BatchOptions(
        partition=str(values.get("partition") or ""),
        account=str(values.get("account") or ""),
        qos=str(values.get("qos") or ""),
        reservation=str(values.get("reservation") or ""),
        constraint=str(values.get("constraint") or ""),
        directives=_texts(values, "directives"),
    )
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
        most_seconds=chosen.most_seconds,
    )


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, ())
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise SetupError(f"[slurm] {key} must be a list of texts, not {value!r}")
    return tuple(value)
