"""What `yard submit` asks for: flags and job file made into one submission.

Owns the flags, the keys of a job file (the same words) and how both become fields of
`POST /api/v1/jobs`. Knows neither the server nor how a folder is packaged.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackyard.cli import amounts
from trackyard.cli.submit import jobfile
from trackyard.core.errors import SetupError

PRIORITIES = ("scavenge", "low", "normal", "high", "urgent")
LAUNCHERS = ("plain", "torchrun", "accelerate", "mpirun", "batch")
STYLES = ("pack", "spread", "balanced", "least-fragmentation")
ENDINGS = ("success", "failure", "any-end")


@dataclass(frozen=True, slots=True)
class Flag:
    """One thing to ask for: its flag, its place in the submission, and how it is read."""

    key: str
    field: str
    read: Callable[[Any], Any]
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    is_switch: bool = False
    repeats: bool = False
    #: mappings of the file and of the flags are joined, a flag's entry winning
    merges: bool = False


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        raise SetupError(f"{value!r} is not one word", hint="write a single value for this key")
    return str(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise SetupError(f"{value!r} is neither true nor false", hint="write true or false")
    return value


def _length(what: str) -> Callable[[Any], float]:
    return lambda value: amounts.seconds(value, what=what)


def _count(what: str) -> Callable[[Any], int]:
    return lambda value: amounts.whole(value, what=what)


def _amount(what: str) -> Callable[[Any], float]:
    return lambda value: amounts.number(value, what=what)


def _memory(value: Any) -> int:
    return 0 if str(value).strip() == "0" else amounts.memory_bytes(value)


def _listed(value: Any) -> list[str]:
    parts = value if isinstance(value, list) else [value]
    return [word.strip() for part in parts for word in str(part).split(",") if word.strip()]


def _lines(value: Any) -> list[str]:
    parts = value if isinstance(value, list) else [value]
    return [str(part).strip() for part in parts if str(part).strip()]


def _after(value: Any) -> list[dict[str, str]]:
    found = []
    for text in _listed(value):
        job, colon, when = text.partition(":")
        if not job or (colon and when not in ENDINGS):
            raise SetupError(
                f"--after {text!r} is not understood",
                hint=f"write JOB, or JOB:HOW with HOW one of {', '.join(ENDINGS)}",
            )
        found.append({"job": job, "when": when or "success"})
    return found


def _pairs(what: str) -> Callable[[Any], dict[str, str]]:
    def read(value: Any) -> dict[str, str]:
        if isinstance(value, dict):
            return {str(name): _scalar(text) for name, text in value.items()}
        parts = value if isinstance(value, list) else [value]
        return dict(_one_pair(str(part), what) for part in parts)

    return read


def _one_pair(text: str, what: str) -> tuple[str, str]:
    # `--env NAME` hands on the caller's own value, so that it is in no shell history.
    if what == "--env" and "=" not in text:
        if text not in os.environ:
            raise SetupError(
                f"--env {text} names a variable that is not set here",
                hint=f"write --env {text}=VALUE, or export it first",
            )
        return text, os.environ[text]
    return amounts.pair(text, what=what)


def _scalar(value: Any) -> str:
    # YAML reads `true` and `1` as such; the environment knows strings alone.
    return str(value).lower() if isinstance(value, bool) else str(value)


FLAGS: tuple[Flag, ...] = (
    Flag("name", "name", _text, "the job's name (default: made up)", "NAME"),
    Flag("gpus", "gpus", _amount("--gpus"), "GPUs on each node; 0.5 is half of one", "N"),
    Flag(
        "gpu_type", "gpu_types", _listed, "GPU type, or several: A100,H100", "TYPE", repeats=True
    ),
    Flag(
        "cpus", "cpus", _amount("--cpus"),
        "CPUs on each node (default: the queue's, else 1 or its GPUs' part); 0 for none", "N",
    ),
    Flag("memory", "memory_bytes", _memory, "memory on each node, as in 64G", "SIZE"),
    Flag("nodes", "nodes", _count("--nodes"), "nodes, all or none (default 1)", "N"),
    Flag(
        "time", "time_limit_seconds", _length("--time"), "limit of each attempt, as in 2h30m", "T"
    ),
    Flag("estimate", "estimate_seconds", _length("--estimate"), "how long it will take", "T"),
    Flag(
        "priority", "priority", _text, "priority class (default normal)", "CLASS",
        choices=PRIORITIES,
    ),
    Flag("team", "team", _text, "team that pays (default: yours)", "TEAM"),
    Flag("queue", "queue", _text, "queue to stand in (default: default)", "QUEUE"),
    Flag(
        "preemptible", "preemptible", _truth, "may be stopped for others and go on later",
        is_switch=True,
    ),
    Flag(
        "not_preemptible", "preemptible", lambda value: not _truth(value),
        "is never stopped for others, where the queue allows it", is_switch=True,
    ),
    Flag("retries", "retries", _count("--retries"), "tries again after it fails", "N"),
    Flag(
        "after", "after", _after, "start after this job; JOB:any-end after any end", "JOB",
        repeats=True,
    ),
    Flag("array", "array", _text, "many at once: 0-9, or 0-9%%2 for two at a time", "A-B%%C"),
    Flag(
        "env", "env", _pairs("--env"), "variable for the command; NAME alone hands yours on",
        "NAME=VALUE", repeats=True, merges=True,
    ),
    Flag(
        "secret", "secrets", _listed, "secret of the team, in a variable of its name", "NAME",
        repeats=True,
    ),
    Flag(
        "data", "data", _listed, "data set to read: NAME, NAME@v3, or VARIABLE=NAME@v3",
        "NAME@VERSION", repeats=True,
    ),
    Flag("experiment", "experiment", _text, "experiment of its run", "NAME"),
    Flag("lease", "lease", _text, "run on this lease alone", "LEASE"),
    Flag(
        "gang", "gang", _text, "workers its command starts by Ray: 2x1gpu,8cpu, all or none",
        "GANG",
    ),
    Flag(
        "label", "labels", _pairs("--label"), "node label it needs", "NAME=VALUE", repeats=True,
        merges=True,
    ),
    Flag("same", "same", _text, "label whose value all its nodes share, as in rack", "LABEL"),
    Flag("exclusive", "exclusive", _truth, "nobody else on its nodes", is_switch=True),
    Flag("style", "style", _text, "how its nodes are chosen", "STYLE", choices=STYLES),
    Flag(
        "launcher", "launcher", _text, "who starts its processes (default plain)", "LAUNCHER",
        choices=LAUNCHERS,
    ),
    Flag(
        "processes_per_node", "processes_per_node", _count("--processes-per-node"),
        "processes the launcher starts on each node", "N",
    ),
    Flag(
        "preflight", "preflight", _truth,
        "look at its nodes and the network between them before it starts", is_switch=True,
    ),
    Flag("grace", "grace_seconds", _length("--grace"), "time to save when stopped (30s)", "T"),
    Flag(
        "progress", "progress_seconds", _length("--progress"),
        "promise of a step at least this often; else it counts as stalled", "T",
    ),
    Flag("hold", "hold", _truth, "queue it, but hold it back", is_switch=True),
    Flag(
        "alert", "alerts", _lines, "tell me when, as in 'loss > 10 for 5m' or 'state failed'",
        "RULE", repeats=True,
    ),
    Flag(
        "tag", "tags", _pairs("--tag"), "tag on its run", "NAME=VALUE", repeats=True, merges=True
    ),
)  # fmt: skip
#: keys that do not go into the submission as they are
FILE_KEYS = ("command", "pip", "working_dir", "exclude")
KEYS = (*(flag.key for flag in FLAGS), *FILE_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionFlags:
    """A submission before anything is packaged."""

    #: fields of the submission, `command` and `pip` among them
    fields: dict[str, Any]
    #: folder to package; None: none
    folder: Path | None
    #: whether someone named that folder
    folder_is_named: bool
    #: patterns to leave out of the package
    exclude: tuple[str, ...]


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Give a parser every flag of a submission."""
    for flag in FLAGS:
        option = f"--{flag.key.replace('_', '-')}"
        if flag.is_switch:
            parser.add_argument(option, action="store_true", default=None, help=flag.help)
            continue
        parser.add_argument(
            option,
            action="append" if flag.repeats else "store",
            metavar=flag.metavar,
            choices=flag.choices or None,
            help=flag.help,
        )
    parser.add_argument("--pip", metavar="FILE", help="requirements.txt to install first")
    folder = parser.add_mutually_exclusive_group()
    folder.add_argument("--working-dir", metavar="DIR", help="folder to package (default: .)")
    folder.add_argument("--no-working-dir", action="store_true", help="package nothing")
    parser.add_argument(
        "--exclude", action="append", metavar="PATTERN", help="leave this out of the package"
    )
    parser.add_argument("-f", "--file", type=Path, metavar="JOB.yaml", help="YAML job file")


def is_given(args: argparse.Namespace) -> bool:
    """Tell whether any flag but the name asks for something."""
    keys = (*(flag.key for flag in FLAGS if flag.key != "name"), "pip", "file")
    return any(getattr(args, key, None) for key in keys)


def collect(
    args: argparse.Namespace, told: Mapping[str, Any] | None = None, base: Path | None = None
) -> SubmissionFlags:
    """Join job file and flags into one submission; a flag wins over the file.

    `told` stands for a job file that is part of another one, which lies in `base`.
    """
    from_file = {**(told or {}), **(jobfile.load(args.file, KEYS) if args.file else {})}
    for given in (vars(args), from_file):
        if given.get("preemptible") and given.get("not_preemptible"):
            raise SetupError(
                "preemptible and not_preemptible contradict each other", hint="give one of them"
            )
    fields: dict[str, Any] = {}
    set_by_flag = set[str]()
    for flag in FLAGS:
        given = getattr(args, flag.key)
        if flag.key in from_file and not (flag.is_switch and flag.field in set_by_flag):
            fields[flag.field] = _read(flag, from_file[flag.key])
        if given is None:
            continue
        set_by_flag.add(flag.field)
        value = _read(flag, given)
        if flag.merges and flag.field in fields:
            value = {**fields[flag.field], **value}
        fields[flag.field] = value
    fields["command"] = _command(args.command, from_file)
    base = args.file.parent if args.file else base or Path()
    lines = _requirements(args.pip, from_file.get("pip"), base)
    if lines:
        fields["pip"] = lines
    folder, is_named = _folder(args, from_file, base)
    exclude = args.exclude or _listed(from_file.get("exclude") or [])
    return SubmissionFlags(
        fields=fields, folder=folder, folder_is_named=is_named, exclude=tuple(exclude)
    )


def _read(flag: Flag, value: Any) -> Any:
    if flag.choices and value not in flag.choices:
        raise SetupError(
            f"{flag.key} {value!r} is none of {', '.join(flag.choices)}",
            hint="`yard submit --help` explains each",
        )
    return flag.read(value)


def _command(words: list[str], from_file: Mapping[str, Any]) -> list[str]:
    given = words[1:] if words[:1] == ["--"] else words
    if given:
        return given
    if "command" in from_file:
        return jobfile.command_words(from_file["command"])
    raise SetupError(
        "there is no command to run",
        hint="put it at the end: `yard submit --gpus 1 -- python train.py`",
    )


def _requirements(flag: str | None, in_file: Any, base: Path) -> list[str]:
    if flag is None and isinstance(in_file, list):
        return [str(line) for line in in_file]
    if flag is None and in_file is None:
        return []
    path = Path(flag) if flag is not None else base / str(in_file)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise SetupError(
            f"{path} cannot be read: {fault}", hint="name a requirements file after --pip"
        ) from fault
    stripped = (line.split(" #")[0].strip() for line in lines)
    return [line for line in stripped if line and not line.startswith("#")]


def _folder(
    args: argparse.Namespace, from_file: Mapping[str, Any], base: Path
) -> tuple[Path | None, bool]:
    if args.no_working_dir:
        return None, True
    if args.working_dir:
        return Path(args.working_dir), True
    if from_file.get("working_dir") is False:
        return None, True
    if "working_dir" in from_file:
        return base / str(from_file["working_dir"]), True
    return Path(), False
