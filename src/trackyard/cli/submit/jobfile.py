"""A job file: YAML with the keys of `yard submit`'s flags. Owns reading it and refusing what it
does not know; knows neither packages nor the server.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

from trackyard.core.errors import SetupError

MAX_BYTES = 1024**2
#: what a shell would act on; a command without these is split into words as a shell would
_SHELL = re.compile(r"[\n|&;<>()$`*?#~{}\[\]]")


def load(path: Path, known: Collection[str]) -> dict[str, Any]:
    """Return the keys of a job file in the spelling of the flags, with `_` for `-`."""
    import yaml

    try:
        raw = path.read_bytes()
    except OSError as fault:
        raise SetupError(
            f"{path} cannot be read: {fault.strerror}", hint="name the job file after -f"
        ) from fault
    if len(raw) > MAX_BYTES:
        raise SetupError(f"{path} is over 1 MiB", hint="a job file holds flags, not data")
    try:
        found = yaml.safe_load(raw)
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise SetupError(
            f"{path} is not YAML: {_first_line(fault)}",
            hint="see docs/submit.md for a job file that works",
        ) from fault
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise SetupError(
            f"{path} holds no job",
            hint="write one key a line, as in `gpus: 1`; see docs/submit.md",
        )
    keys = {key.replace("-", "_"): value for key, value in found.items() if value is not None}
    check_keys(path, keys, known)
    return keys


def check_keys(path: Path, keys: Collection[str], known: Collection[str]) -> None:
    """Refuse a key that is not known, with the nearest one that is."""
    for key in keys:
        if key not in known:
            raise _unknown(path, key, known)


def command_words(value: Any) -> list[str]:
    """Return the command of a job file: a list as it is, a line as words, a script for bash."""
    if isinstance(value, list) and value:
        return [str(word) for word in value]
    if not isinstance(value, str) or not value.strip():
        raise SetupError(
            "the job file's `command` is empty", hint="write it as in `command: python train.py`"
        )
    if _SHELL.search(value.strip()):
        return ["bash", "-e", "-c", value]
    try:
        return shlex.split(value)
    except ValueError as fault:
        raise SetupError(
            f"the job file's `command` cannot be split into words: {fault}",
            hint="write it as a list: `command: [python, train.py]`",
        ) from fault


def _unknown(path: Path, key: str, known: Collection[str]) -> SetupError:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean `{near[0]}`?" if near else "keys are the flags of `yard submit --help`"
    return SetupError(f"{path} has an unknown key `{key}`", hint=hint)


def _first_line(fault: Exception) -> str:
    return " ".join(str(fault).split())[:200]
