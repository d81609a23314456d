"""Judges how a command ended and says it in one sentence. Pure: facts in, verdict out."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Optional

_HOST_MEMORY = re.compile(
    rb"\bMemoryError\b|std::bad_alloc|[Cc]annot allocate memory|can't allocate memory|"
    rb"Killed process \d+|oom-kill|OOMKilled"
)
_GPU_MEMORY = re.compile(
    rb"CUDA out of memory|HIP out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|"
    rb"hipErrorOutOfMemory|RESOURCE_EXHAUSTED: Out of memory|cudaErrorMemoryAllocation|"
    rb"CUBLAS_STATUS_ALLOC_FAILED"
)
_ERROR_LINE = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Interrupt|Exit)\b.*|.*\b(?:error|fatal|panic)\b.*)$", re.I
)
#: The runner's own exit status where the command never started.
FAILED_SETUP_CODE = 70
#: what `yard notebook` starts
JUPYTER = "jupyter-lab"
_MARK = re.compile(r"^\[rank \d+\] ")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


#: the runner's own, where no command was started
FAILED_SETUP_CODE = 70


@dataclass(frozen=True)
class ExitFacts:
    """What was seen when the command ended."""

    #: wait status of the command, or None if it never started
    status: Optional[int]
    #: why the runner ended it, if it did: preempted, stopped, time_limit, gang, fenced, memory
    asked: Optional[str] = None
    #: whether SIGKILL had to be used
    forced: bool = False
    #: why it never started: `command` or `setup`, and the sentence
    failed_start: Optional[str] = None
    failure: str = ""
    #: the kernel's out-of-memory killer struck inside our limit, or on the machine meanwhile
    oom_in_limit: bool = False
    oom_on_machine: bool = False
    memory_limit_bytes: int = 0
    time_limit_seconds: Optional[float] = None
    saved_exit_code: int = 85
    tail: bytes = b""


@dataclass(frozen=True)
class ExitVerdict:
    """The cause, in the words of the engine port, with its sentence."""

    cause: str
    sentence: str
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    saved: bool = False
    error_line: Optional[str] = None


def judge(facts: ExitFacts) -> ExitVerdict:
    """Return the verdict on an ended command."""
    if facts.failed_start is not None or facts.status is None:
        code = 127 if facts.failed_start == "command" else None
        return ExitVerdict(facts.failed_start or "setup", facts.failure, exit_code=code)
    code, number = split_status(facts.status)
    saved = code == facts.saved_exit_code
    line = None if code == 0 else last_error_line(facts.tail)
    cause, sentence = _cause(facts, code, number, saved=saved)
    return ExitVerdict(cause, sentence, code, number, saved, line)


def split_status(status: int) -> tuple[Optional[int], Optional[int]]:
    """Return exit code and signal of a wait status; one of them is None."""
    number = status & 0x7F
    return (None, number) if number else (status >> 8 & 0xFF, None)


def is_killed(status: Optional[int]) -> bool:
    """Say whether a signal ended a command, or what its shell ran."""
    if status is None:
        return False
    code, number = split_status(status)
    return number is not None or (code or 0) > 128


def last_error_line(tail: bytes) -> Optional[str]:
    """Return the last line that names an error, cut to a readable length."""
    text = _ESCAPES.sub("", tail.decode("utf-8", "replace"))
    for line in reversed(text.splitlines()[-200:]):
        stripped = _MARK.sub("", line.strip())
        if stripped and not stripped.startswith("[yard]") and _ERROR_LINE.match(stripped):
            return stripped[:500]
    return None


def _cause(
    facts: ExitFacts, code: Optional[int], number: Optional[int], *, saved: bool
) -> tuple[str, str]:
    memory = _out_of_memory(facts, code, number)
    if memory is not None and facts.asked in (None, "memory"):
        return "out_of_memory", memory
    if facts.asked is not None:
        return _asked(facts, code, saved=saved)
    if code == 0:
        return "succeeded", "The command ended with exit code 0."
    if saved:
        return "preempted", f"The command saved its state and asked to be queued again ({code})."
    if code in (126, 127):
        what = "could not be run" if code == 126 else "was not found"
        return "command", f"The command ended with exit code {code}: a program {what}."
    if number is not None:
        return "signal", f"The command was ended by {_signal_name(number)} from outside."
    return "exit_code", f"The command ended with exit code {code}."


def _asked(facts: ExitFacts, code: Optional[int], *, saved: bool) -> tuple[str, str]:
    how = "had to be killed after its grace" if facts.forced else "ended within its grace"
    if saved:
        how = "saved its state and ended within its grace"
    if facts.asked == "time_limit":
        limit = facts.time_limit_seconds or 0
        return "time_limit", f"The command ran into its time limit of {limit:g} s and {how}."
    if facts.asked == "gang":
        return "gang", f"Another member of the gang failed; this one {how}."
    if facts.asked == "gang_done":
        return "succeeded", "The gang's first member did its work; this one held its node."
    if facts.asked == "fenced":
        return "fenced", "A newer attempt holds this job; the command was ended at once."
    if facts.asked == "node_lost":
        return "node_lost", f"The cluster lost this node; the command {how}."
    if facts.asked == "preempted":
        return "preempted", f"The job was preempted and {how}."
    if code == 0 and not facts.forced:
        return "stopped", "The job was stopped; the command ended with exit code 0."
    return "stopped", f"The job was stopped and {how}."


def _out_of_memory(facts: ExitFacts, code: Optional[int], number: Optional[int]) -> Optional[str]:
    if code in (0, facts.saved_exit_code):
        return None
    limit = f" of {_megabytes(facts.memory_limit_bytes)}" if facts.memory_limit_bytes else ""
    if facts.asked == "memory":
        return f"The job used more than its memory limit{limit} and was ended."
    if facts.oom_in_limit:
        return f"The kernel ended a process of the job: it ran out of its memory limit{limit}."
    killed = number == signal.SIGKILL or code == 128 + signal.SIGKILL
    if killed and facts.oom_on_machine:
        return "The kernel's out-of-memory killer struck while the job ran: the node was full."
    if _GPU_MEMORY.search(facts.tail):
        return "A GPU ran out of memory: lower the batch size or ask for a larger GPU."
    if _HOST_MEMORY.search(facts.tail):
        return "The command ran out of main memory: ask for more with --memory."
    return None


def _megabytes(count: int) -> str:
    return f"{count / 1024**2:.0f} MiB"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def start_failure(program: str, fault: OSError) -> str:
    """Say why a program could not be started."""
    if isinstance(fault, FileNotFoundError):
        more = ""
        if program == JUPYTER:
            more = (
                " JupyterLab comes with `pip install 'trackyard[notebook]'` on the node, or --pip."
            )
        return (
            f"The program {program!r} was not found: check its name and the job's environment."
            f"{more}"
        )
    if isinstance(fault, PermissionError):
        return f"The program {program!r} may not be executed: is it a program, with mode +x?"
    return f"The program {program!r} could not be started: {fault}."


def exit_status(verdict: ExitVerdict) -> int:
    """Return the code that the runner exits with."""
    if verdict.exit_code is not None:
        return verdict.exit_code
    if verdict.signal is not None:
        return 128 + verdict.signal
    return FAILED_SETUP_CODE
