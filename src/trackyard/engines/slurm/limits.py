"""A site's partitions, QOS and associations as queues: which limits Slurm sets, in its own words.

Owns how they become a queue's settings. One Slurm user submits all jobs, so Slurm's limits per
user apply to all jobs of a queue together. Reads Slurm's configuration, changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trackyard.core.ports import EngineError
from trackyard.engines.slurm.commands import Commands
from trackyard.engines.slurm.parse import amounts, records, seconds

QOS_FIELDS = (
    *("Name", "Flags", "MaxWall", "MaxTRES", "MaxTRESPU", "MaxJobsPU", "MaxSubmitPU"),
    *("GrpTRES", "GrpJobs", "GrpSubmit"),
)
ASSOCIATION_FIELDS = (
    *("Account", "Partition", "DefaultQOS", "MaxWall", "MaxTRES", "MaxJobs", "MaxSubmit"),
    *("GrpTRES", "GrpJobs", "GrpSubmit"),
)
#: settings of AccountingStorageEnforce under which limits hold
_ENFORCED = frozenset({"limits", "safe", "all"})
#: jobs that Slurm holds at once, waiting or running
SUBMITTED = "submitted"
#: a limit with the words of the rule that sets it
Rule = tuple[float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition with what it, its QOS and the submitting user's association allow."""

    name: str
    nodes: int = 0
    whole_nodes: bool = False
    #: limit of a queue -> its value
    limits: Mapping[str, float] = field(default_factory=dict)
    #: limit of a queue -> the site's own rule
    rules: Mapping[str, str] = field(default_factory=dict)

    @property
    def queue(self) -> str:
        """Return the queue's name: ours are lower case."""
        return re.sub(r"[^a-z0-9_-]", "-", self.name.lower())[:63].strip("-") or "slurm"

    def settings(self) -> dict[str, Any]:
        """Return the queue's settings that mirror it."""
        whole = ("max_nodes_per_job", "max_running")
        found: dict[str, Any] = {
            name: int(value) if name in whole else value for name, value in self.limits.items()
        }
        found["slurm"] = {"partition": self.name, "rules": dict(self.rules)}
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """What Slurm's accounting limits for one user; empty where it limits nothing."""

    qos: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    associations: Sequence[Mapping[str, str]] = ()
    default_account: str = ""

    def association(self, account: str, partition: str) -> Mapping[str, str]:
        """Return the association that a job of an account in a partition falls under."""
        wanted = account or self.default_account
        rows = [row for row in self.associations if row["Account"] == wanted]
        exact = [row for row in rows if row["Partition"] == partition]
        return next(iter([*exact, *(row for row in rows if not row["Partition"])]), {})


def read_partitions(commands: Commands) -> list[dict[str, str]]:
    """Ask Slurm for its partitions."""
    return records(commands.run("scontrol", "--oneliner", "show", "partition"))


def read_accounts(commands: Commands, user: str) -> Accounts:
    """Ask for the limits of QOS and associations; none where Slurm does not enforce any."""
    config = commands.run("scontrol", "show", "config")
    match = re.search(r"^AccountingStorageEnforce\s*=\s*(.*)$", config, re.MULTILINE)
    if match is None or not _ENFORCED & set(re.split(r"[,\s]+", match[1].lower())):
        return Accounts()
    named = [f"user={user}"]
    defaults = _listed(commands, ["user", f"name={user}"], ("DefaultAccount",))
    return Accounts(
        qos={row["Name"]: row for row in _listed(commands, ["qos"], QOS_FIELDS)},
        associations=_listed(commands, ["association", *named], ASSOCIATION_FIELDS),
        default_account=next((row["DefaultAccount"] for row in defaults), ""),
    )


def partition(
    row: Mapping[str, str],
    accounts: Accounts,
    *,
    account: str = "",
    qos: str = "",
    is_behind: bool = False,
) -> Partition:
    """Say one partition's limits.

    As Slurm does: the partition's QOS goes before the job's, and that before the association;
    the partition's own limits hold besides. Behind Slurm's queue, jobs over the limit of running
    ones wait there; the limit of submitted ones stands.
    """
    name = row["PartitionName"]
    association = accounts.association(account, name)
    chosen = accounts.qos.get(qos or association.get("DefaultQOS", ""), {})
    layers = [
        _layer(accounts.qos.get(row.get("QoS", ""), {})),
        _layer(chosen),
    ]
    if "OverPartQOS" in chosen.get("Flags", ""):
        layers.reverse()
    layers.append(_layer(association))
    found: dict[str, Rule] = {}
    for layer in layers:
        found = {**layer, **found}
    found = _of_a_queue(found, is_behind=is_behind)
    for limit, rule in _of_partition(row).items():
        found[limit] = _lower(rule, found.get(limit))
    rules = {limit: words for limit, (_, words) in found.items()}
    whole = row.get("OverSubscribe", "") == "EXCLUSIVE"
    if whole:
        rules["whole_nodes"] = f"OverSubscribe=EXCLUSIVE of partition {name}: whole nodes alone"
    total = row.get("TotalNodes", "")
    return Partition(
        name=name,
        nodes=int(total) if total.isdigit() else 0,
        whole_nodes=whole,
        limits={limit: value for limit, (value, _) in found.items()},
        rules=rules,
    )


def _of_partition(row: Mapping[str, str]) -> dict[str, Rule]:
    of = f"of partition {row['PartitionName']}"
    return _tightest(
        [
            ("max_wall_seconds", row, "MaxTime", seconds, of),
            ("max_nodes_per_job", row, "MaxNodes", _count, of),
        ]
    )


def _layer(row: Mapping[str, str]) -> dict[str, Rule]:
    """Say the limits of a QOS or of an association."""
    of = f"of QOS {row['Name']}" if "Name" in row else f"of account {row.get('Account', '')}"
    return _tightest(
        [
            ("max_wall_seconds", row, "MaxWall", seconds, of),
            ("max_nodes_per_job", row, "MaxTRES", _nodes, of),
            ("max_gpus_per_job", row, "MaxTRES", _gpus, of),
            *(("quota_gpus", row, name, _gpus, of) for name in ("MaxTRESPU", "GrpTRES")),
            *(("max_running", row, name, _count, of) for name in ("MaxJobsPU", "MaxJobs")),
            ("max_running", row, "GrpJobs", _count, of),
            *((SUBMITTED, row, name, _count, of) for name in ("MaxSubmitPU", "MaxSubmit")),
            (SUBMITTED, row, "GrpSubmit", _count, of),
        ]
    )


def _of_a_queue(found: Mapping[str, Rule], *, is_behind: bool) -> dict[str, Rule]:
    """Return Slurm's limits as a queue has them."""
    kept = dict(found)
    if "quota_gpus" in kept:
        # A job over what may be used at once would wait for ever.
        each = kept.get("max_gpus_per_job", kept["quota_gpus"])
        kept["max_gpus_per_job"] = _lower(each, kept["quota_gpus"])
    if is_behind:
        kept.pop("quota_gpus", None)
        kept.pop("max_running", None)
    if SUBMITTED in kept:
        kept["max_running"] = _lower(kept.pop(SUBMITTED), kept.get("max_running"))
    return kept


def _lower(rule: Rule, other: Rule | None) -> Rule:
    return rule if other is None or rule[0] <= other[0] else other


def _tightest(
    wanted: Iterable[tuple[str, Mapping[str, str], str, Callable[[str], float | None], str]],
) -> dict[str, Rule]:
    """Return each limit that is set, with its rule; of two for one limit, the lower."""
    found: dict[str, Rule] = {}
    for limit, row, name, read, of in wanted:
        value = read(row.get(name, ""))
        if value is None or (limit in found and found[limit][0] <= value):
            continue
        # Of several resources, the one meant; else as Slurm prints it.
        kind = {"quota_gpus": "gres/gpu", "max_gpus_per_job": "gres/gpu"}.get(limit, "node")
        told = f"{name} {kind}={value:g}" if "TRES" in name else f"{name}={row[name]}"
        found[limit] = (value, f"{told} {of}")
    return found


def _listed(commands: Commands, what: Sequence[str], names: Sequence[str]) -> list[dict[str, str]]:
    """Return rows of sacctmgr; a site without accounting has none."""
    words = ["--noheader", "--parsable2", "show", *what, f"format={','.join(names)}"]
    try:
        text = commands.run("sacctmgr", *words)
    except EngineError:
        return []
    rows = (line.split("|") for line in text.splitlines() if line.strip())
    return [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]


def _count(text: str) -> float | None:
    return int(text) if text.isdigit() else None


def _gpus(text: str) -> float | None:
    return amounts(text).get("gres/gpu")


def _nodes(text: str) -> float | None:
    return amounts(text).get("node")
