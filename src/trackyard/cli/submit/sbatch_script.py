"""A stock batch script read: its #SBATCH lines as a submission, and what cannot be honoured.

Owns the meaning of sbatch's options here. Pure: asks neither the server nor Slurm.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trackyard.cli import amounts
from trackyard.core.errors import SetupError
from trackyard.engines.slurm.parse import gpus_of, seconds

SHORT = {
    "a": "array", "A": "account", "c": "cpus-per-task", "C": "constraint", "d": "dependency",
    "D": "chdir", "e": "error", "G": "gpus", "H": "hold", "i": "input", "J": "job-name",
    "L": "licenses", "m": "distribution", "M": "clusters", "n": "ntasks", "N": "nodes",
    "o": "output", "p": "partition", "q": "qos", "Q": "quiet", "s": "oversubscribe", "t": "time",
    "v": "verbose", "w": "nodelist", "W": "wait", "x": "exclude",
}  # fmt: skip
#: options without a value, or with one that may be left out
BARE = frozenset(
    {"help", "json", "hold", "quiet", "verbose", "wait", "parsable", "test-only", "exclusive",
     "oversubscribe", "requeue", "no-requeue", "contiguous", "overcommit", "no-kill",
     "spread-job", "use-min-nodes", "get-user-env", "ignore-pbs", "kill-on-invalid-dep",
     "propagate", "reboot", "nice"}
)  # fmt: skip
#: what Trackyard does by itself in another way
NOT_HONOURED = {
    "output": "the log is kept for you: `yard logs`",
    "error": "errors are in the same log: `yard logs`",
    "open-mode": "each attempt has its own log",
    "mail-type": "no mail is sent: `yard events` and the web page tell",
    "mail-user": "no mail is sent: `yard events` and the web page tell",
    "account": "use is counted by team: give --team to `yard submit`, or have the queue set it",
    "qos": "a queue stands for it: an admin sets it with the queue",
    "nodelist": "nodes are chosen by the queue; a label or a lease names them",
    "exclude": "nodes that failed are avoided by themselves",
    "no-requeue": "a job whose node was lost is queued again; `yard stop` ends it",
    "distribution": "processes are spread by the launcher",
    "licenses": "licenses are not counted",
    "clusters": "there is one cluster",
    "input": "standard input is empty",
    "nice": "the priority class says who goes first",
    "oversubscribe": "GPUs are shared by asking for a part of one",
    "requeue": "",
    "quiet": "",
    "verbose": "",
    "get-user-env": "",
}
_WHEN = {"afterok": "success", "afternotok": "failure", "afterany": "any-end", "after": "any-end"}
_ARRAY = re.compile(r"(\d+)(?:-(\d+))?(?:%(\d+))?\Z")


@dataclass(slots=True)
class BatchScript:
    """A batch script as a submission."""

    fields: dict[str, Any] = field(default_factory=dict)
    partition: str = ""
    constraint: str = ""
    reservation: str = ""
    folder: str = ""
    wraps: str = ""
    waits: bool = False
    is_test: bool = False
    is_parsable: bool = False
    #: one sentence for each option that is not honoured as it stands
    ignored: list[str] = field(default_factory=list)
    #: what the job finds in SLURM_* variables, beside what only its node knows
    variables: dict[str, str] = field(default_factory=dict)


def directives(script: str) -> list[str]:
    """Return the words of the #SBATCH lines, which end at the first command."""
    words: list[str] = []
    for line in script.splitlines():
        text = line.strip()
        if text.startswith("#SBATCH"):
            words += shlex.split(text[len("#SBATCH") :], comments=True)
        elif text and not text.startswith("#"):
            break
    return words


def split(words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return options with their values, and the words from the first that is no option."""
    found: list[tuple[str, str]] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        else:
            name, value = SHORT.get(word[1], ""), word[2:].removeprefix("=")
            equals = value
            if not name:
                raise SetupError(
                    f"{word} is no option of sbatch that is known here",
                    hint="`yard sbatch --help` lists what is honoured",
                )
        if not equals and name not in BARE:
            if not rest:
                raise SetupError(f"{word} needs a value", hint=f"write it as --{name}=VALUE")
            value = rest.pop(0)
        found.append((name, value))
    return found, rest


def read(options: Sequence[tuple[str, str]]) -> BatchScript:
    """Say options as a submission; later ones win."""
    given = dict(options)
    batch = BatchScript()
    nodes, per_node = _tasks(given, batch)
    _resources(given, batch, nodes, per_node)
    _times(given, batch)
    _order(given, batch)
    for name in list(given):
        words = NOT_HONOURED.get(name)
        if words is None:
            raise SetupError(
                f"--{name} is no option of sbatch that is known here",
                hint="take it out of the script, or use `yard submit`",
            )
        if words:
            batch.ignored.append(f"--{name}: {words}")
    return batch


def _tasks(given: dict[str, str], batch: BatchScript) -> tuple[int, int]:
    text = given.pop("nodes", "")
    low, dash, _ = text.partition("-")
    if dash:
        batch.ignored.append(f"--nodes={text}: it gets {low}, the least that it takes")
    total = amounts.whole(given.pop("ntasks", "0"), what="--ntasks")
    each = amounts.whole(given.pop("ntasks-per-node", "0"), what="--ntasks-per-node")
    nodes = amounts.whole(low, what="--nodes") if low else 1
    if not low and each and total > each:
        nodes = -(-total // each)
    per_node = each or max(1, -(-total // nodes))
    if nodes > 1:
        # As in Slurm, the script runs once, on the first node, and starts the rest itself.
        batch.fields |= {"nodes": nodes, "launcher": "batch"}
    batch.variables |= {
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_NNODES": str(nodes),
        "SLURM_NTASKS": str(total or nodes * per_node),
        "SLURM_NTASKS_PER_NODE": str(per_node),
        "SLURM_TASKS_PER_NODE": f"{per_node}(x{nodes})" if nodes > 1 else str(per_node),
    }
    return nodes, per_node


def _resources(given: dict[str, str], batch: BatchScript, nodes: int, per_node: int) -> None:
    gpus = _gpus(given, batch, nodes, per_node)
    cpus = 0
    if "cpus-per-task" in given:
        each = amounts.whole(given.pop("cpus-per-task"), what="--cpus-per-task")
        cpus = each * per_node
        batch.variables["SLURM_CPUS_PER_TASK"] = str(each)
    elif "mincpus" in given:
        cpus = amounts.whole(given.pop("mincpus"), what="--mincpus")
    elif per_node > 1:
        cpus = per_node
    if cpus:
        batch.fields["cpus"] = cpus
        batch.variables["SLURM_CPUS_ON_NODE"] = str(cpus)
    for name, per in (("mem", 1), ("mem-per-cpu", max(1, cpus)), ("mem-per-gpu", max(1, gpus))):
        text = given.pop(name, "")
        if text and text != "0":
            batch.fields["memory_bytes"] = per * _memory(text, name)
        elif text:
            # No limit: all of the node.
            batch.fields["exclusive"] = True


def _gpus(given: dict[str, str], batch: BatchScript, nodes: int, per_node: int) -> int:
    """Return the GPUs of each node, however they were asked for."""
    kind, gpus = "", 0
    for name, per in (("gres", 1), ("gpus-per-node", 1), ("gpus-per-task", per_node)):
        text = given.pop(name, "")
        if text:
            kind, count = gpus_of(text if name == "gres" else f"gpu:{text}")
            gpus = count * per
        if text and not gpus:
            batch.ignored.append(f"--{name}={text}: only GPUs are counted")
    if "gpus" in given:
        kind, count = gpus_of(f"gpu:{given.pop('gpus')}")
        gpus = -(-count // nodes)
    if gpus:
        batch.fields["gpus"] = gpus
        batch.variables["SLURM_GPUS_ON_NODE"] = str(gpus)
    if kind:
        batch.fields["gpu_types"] = [kind]
    return gpus


def _times(given: dict[str, str], batch: BatchScript) -> None:
    if "time" in given:
        text = given.pop("time")
        try:
            limit = seconds(text)
        except ValueError:
            raise SetupError(
                f"--time={text} is not understood", hint="write minutes, H:MM:SS or D-HH:MM:SS"
            ) from None
        if limit:
            batch.fields["time_limit_seconds"] = limit
    if "begin" in given:
        batch.fields["not_before_ms"] = int(_begin(given.pop("begin")) * 1000)
    if "signal" in given:
        text = given.pop("signal")
        name, _, lead = text.rpartition(":")[2].partition("@")
        if lead.isdigit():
            batch.fields["grace_seconds"] = float(lead)
        batch.ignored.append(
            f"--signal={text}: notice comes as SIGTERM and in $YARD_NOTICE_FILE, not as {name}"
        )
    for name in ("time-min", "deadline"):
        if name in given:
            batch.ignored.append(f"--{name}={given.pop(name)}: only --time is kept")


def _order(given: dict[str, str], batch: BatchScript) -> None:
    name = re.sub(r"[^A-Za-z0-9._-]", "-", given.pop("job-name", ""))[:128].strip("-")
    if name:
        batch.fields["name"] = name
    batch.partition = given.pop("partition", "").partition(",")[0]
    batch.constraint = given.pop("constraint", "")
    batch.reservation = given.pop("reservation", "")
    batch.folder = given.pop("chdir", "")
    batch.wraps = given.pop("wrap", "")
    batch.waits = given.pop("wait", None) is not None
    batch.is_test = given.pop("test-only", None) is not None
    batch.is_parsable = given.pop("parsable", None) is not None
    if given.pop("hold", None) is not None:
        batch.fields["hold"] = True
    if given.pop("exclusive", None) is not None:
        batch.fields["exclusive"] = True
    if "comment" in given:
        batch.fields["tags"] = {"comment": given.pop("comment")}
    if "array" in given:
        batch.fields["array"] = _array(given.pop("array"))
    if "dependency" in given:
        batch.fields["after"] = _after(given.pop("dependency"))
    if "export" in given:
        _export(given.pop("export"), batch)


def _array(text: str) -> str:
    match = _ARRAY.match(text)
    if match is None:
        raise SetupError(
            f"--array={text} is not possible",
            hint="write FIRST-LAST, or FIRST-LAST%N for N at once",
        )
    cap = f"%{match[3]}" if match[3] else ""
    return f"{match[1]}-{match[2] or match[1]}{cap}"


def _after(text: str) -> list[dict[str, str]]:
    found = []
    for part in re.split(r"[,?]", text):
        kind, *jobs = part.split(":")
        if kind not in _WHEN or not jobs:
            raise SetupError(
                f"--dependency={text} is not possible",
                hint=f"write one of {', '.join(_WHEN)} with jobs, as in afterok:JOB",
            )
        found += [{"job": job.partition("+")[0], "when": _WHEN[kind]} for job in jobs]
    return found


def _export(text: str, batch: BatchScript) -> None:
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            batch.fields.setdefault("env", {})[name] = value
        elif name not in ("ALL", "NONE", "NIL"):
            batch.fields.setdefault("env", {})[name] = None
        elif name == "ALL":
            batch.ignored.append(
                "--export=ALL: only variables that are named travel: --export=A=1"
            )


def _begin(text: str) -> float:
    match = re.match(r"now(?:\+(\d+)(seconds?|minutes?|hours?|days?|weeks?)?)?\Z", text)
    if match:
        unit = {"m": 60, "h": 3600, "d": 86400, "w": 604800}.get((match[2] or "s")[0], 1)
        return time.time() + int(match[1] or 0) * unit
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        raise SetupError(
            f"--begin={text} is not understood", hint="write now+2hours or 2026-01-31T18:00"
        ) from None


def _memory(text: str, name: str) -> int:
    plain = text if text[-1:].isalpha() else f"{text}M"
    return amounts.memory_bytes(plain, what=f"--{name}")
