"""One member's dealings with the rest of its gang, from its start to its end.

Owns the order: arrive, be ready, agree, answer the remote shell, part. Starts nothing itself.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from trackyard.runner import records
from trackyard.runner.gang import launchers, remote_shell
from trackyard.runner.gang.meeting import Meeting, MeetingError, Pause, Say
from trackyard.runner.machine import network
from trackyard.runner.spec import GangMember, RunnerSpec
from trackyard.runner.watch import StopRequests

#: runs a program to its end: its words, its folder and variables -> its code and output
RunProgram = Callable[[List[str], Path, Dict[str, str]], Tuple[int, str]]

#: in the state folder: files by which launchers mark lines, and what mpirun reads
RANKS = "ranks"
SHELL = "shell"


class UnfitError(Exception):
    """This member's node is at fault; the message says how."""


class Company:
    """The gang as one of its members sees it."""

    def __init__(self, spec: RunnerSpec, *, pause: Pause, say: Say) -> None:
        self._spec = spec
        self._gang = spec.gang
        self._gpu_count = len(spec.gpus or ())
        self._meeting = Meeting(spec, pause=pause, say=say)
        self._say = say
        self._said: Dict[int, Dict[str, Any]] = {}
        self._answering: Optional[remote_shell.Answering] = None
        self._first_ended = False

    def arrive(self) -> None:
        """Wait for all members; MeetingError if they do not come."""
        self._meeting.arrive()

    def look(self, folder: Path, env: Dict[str, str], run: RunProgram) -> None:
        """Look at the gang's nodes, if that was asked for; raise if one is at fault."""
        gang = self._gang
        if not gang.preflight or gang.members == 1:
            return
        place = self._meeting.ready({}, is_last=False)
        if place is None:
            return
        told = {
            "member": gang.member,
            "addresses": list(gang.addresses),
            "nodes": list(gang.nodes) or list(gang.addresses),
            "port": place.port,
        }
        source = remote_shell.source_of("gang.preflight")
        known = {**env, **_network(gang), "YARD_GANG_SECRET": gang.secret}
        _, output = run([self._python(env), "-c", source, json.dumps(told)], folder, known)
        judged(output, gang, self._say)

    def agree(self, folder: Path) -> GangMember:
        """Wait until all members are ready to start, and return the gang with its port."""
        gang = self._gang
        said: Dict[str, Any] = {"folder": str(folder)}
        if remote_shell.is_answered(gang) and gang.member != 0:
            family = socket.AF_INET6 if ":" in gang.addresses[0] else socket.AF_INET
            self._answering = remote_shell.Answering(gang.secret, family)
            said["shell"] = self._answering.port
        place = self._meeting.ready(said)
        if place is None:
            return gang
        self._gang = replace(gang, port=place.port)
        if self._answering is not None:
            _stand_in(Path(str(place.said[0].get("folder") or folder)), folder)
        self._said = place.said
        return self._gang

    def variables(self, env: Mapping[str, str]) -> Dict[str, str]:
        """Return what the command's launcher and the command are told of the agreement."""
        gang = self._gang
        values = launchers.environment(gang, self._gpu_count)
        if "GLOO_SOCKET_IFNAME" not in env:
            values.update(_network(gang))
        values.update(launchers.launcher_environment(gang, self._gpu_count))
        if remote_shell.is_answered(gang) and gang.member == 0:
            slots = launchers.process_count(gang, self._gpu_count)
            place = self._spec.state_dir / SHELL
            values.update(remote_shell.prepare(gang, place, self._said, slots))
        return values

    def command(self, env: Mapping[str, str]) -> Optional[List[str]]:
        """Return what this member runs; None: it holds its node for the others.

        A launcher is a module of the Python that the command's own PATH finds first.
        """
        ranks = str(self._spec.state_dir / RANKS)
        return launchers.command(
            self._gang, self._spec.argv, self._gpu_count, self._python(env), ranks
        )

    def _python(self, env: Mapping[str, str]) -> str:
        return shutil.which("python3", path=env.get("PATH")) or self._spec.python

    def answer(self, start: remote_shell.Start) -> None:
        """Start what siblings ask for by the remote shell."""
        if self._answering is not None:
            self._answering.serve(start)

    def check(self, requests: StopRequests, ended: List[Tuple[int, int]]) -> None:
        """Hear of members that ended, and tell callers of commands that did."""
        self._meeting.check(requests)
        if self._answering is not None and ended:
            self._answering.ended(ended)

    def first_has_ended(self) -> bool:
        """Tell whether member 0 is over, however it ended."""
        if self._meeting.has_left(0):
            return True
        folder = self._gang.folder
        return folder is not None and records.read_json(folder / "m0" / "exit.json") is not None

    def part(self, cause: str) -> None:
        """Say how this member ended, and leave nothing behind that only its launcher read."""
        self._meeting.leave(cause)
        if self._answering is not None:
            self._answering.close()
        for name in (RANKS, SHELL):
            shutil.rmtree(self._spec.state_dir / name, ignore_errors=True)


def _network(gang: GangMember) -> Dict[str, str]:
    """Name the gang's network to gloo, which else takes the one of this host's name."""
    own = gang.addresses[gang.member]
    if gang.members == 1 or own.startswith("127.") or not network.misleading_name():
        return {}
    interface = network.interface_of(own)
    return {"GLOO_SOCKET_IFNAME": interface} if interface else {}


def judged(output: str, gang: GangMember, say: Say) -> None:
    """Tell what a preflight found; raise for this member what it means for it."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    try:
        verdict = json.loads(lines[-1])
    except (IndexError, ValueError):
        raise MeetingError(f"The preflight ended without a verdict: {output[-300:]}") from None
    if gang.member == 0:
        say(f"preflight {json.dumps(verdict)}")
    if verdict["ok"]:
        return
    own = verdict["faults"].get(str(gang.member))
    if own:
        raise UnfitError(f"The preflight found this node at fault: {own}.")
    names = gang.nodes or gang.addresses
    words = [f"{names[int(one)]}: {said}" for one, said in verdict["faults"].items()]
    cause = "gang" if verdict["faults"] else "node_lost"
    raise MeetingError(f"The preflight failed: {'; '.join(words + verdict['between'])}.", cause)


def _stand_in(first: Path, own: Path) -> None:
    """Have the first member's folder found here too, where nodes share no disk.

    mpirun starts its processes in the folder that it was started in.
    """
    if not first.exists():
        with contextlib.suppress(OSError):
            first.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            first.symlink_to(own)
