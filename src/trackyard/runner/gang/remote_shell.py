"""A remote shell that the runners of a gang answer, so that mpirun needs no ssh between nodes.

Owns both ends but the program on the first (`remote_agent`): what mpirun is told, and the listener
of members that hold their node, which starts what a sibling with the gang's secret asks for.
Starts nothing itself; whoever supervises the member does.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

from trackyard.runner.gang.channel import ChannelLost, GangChannel, GangListener
from trackyard.runner.spec import GangMember

#: launchers under which members other than the first hold their nodes and answer
HELD_BY = ("mpirun", "batch")
_SHIPPED = ("__init__", "gang.__init__", "gang.channel", "gang.remote_agent")

Start = Callable[[List[str]], int]


def is_answered(gang: GangMember) -> bool:
    """Tell whether the gang's members answer a remote shell."""
    return gang.members > 1 and bool(gang.secret) and gang.launcher in HELD_BY


def host_names(gang: GangMember) -> List[str]:
    """Return the members' names as mpirun knows them: unlike each other, even on one machine."""
    if len(set(gang.addresses)) == len(gang.addresses):
        return list(gang.addresses)
    return ["localhost", *(f"yard-member-{number}" for number in range(1, gang.members))]


def prepare(
    gang: GangMember, folder: Path, said: Dict[int, Dict[str, Any]], slots: int
) -> Dict[str, str]:
    """Write what the first member's mpirun reads; return the variables that tell it so."""
    names = host_names(gang)
    program = folder / "trackyard" / "runner"
    (program / "gang").mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / "trackyard" / "__init__.py").touch()
    for name in _SHIPPED:
        (program / (name.replace(".", "/") + ".py")).write_text(source_of(name))
    main = "import sys\nfrom trackyard.runner.gang.remote_agent import main\nsys.exit(main())\n"
    (folder / "__main__.py").write_text(main)
    places = {
        name: [gang.addresses[number], int(said[number].get("shell") or 0)]
        for number, name in enumerate(names)
        if number in said
    }
    book = folder / "members.json"
    book.touch(mode=0o600)
    book.write_text(json.dumps({"secret": gang.secret, "members": places}))
    hosts = folder / "hosts"
    hosts.write_text("".join(f"{name} slots={slots}\n" for name in names))
    agent = folder / "rsh"
    line = " ".join(shlex.quote(word) for word in (sys.executable, "-S", "-E", str(folder)))
    agent.write_text(f'#!/bin/sh\nexec {line} {shlex.quote(str(book))} "$@"\n')
    agent.chmod(0o700)
    return variables(gang, agent, hosts)


def variables(gang: GangMember, agent: Path, hosts: Path) -> Dict[str, str]:
    """Return what makes mpirun start its daemons by our remote shell on the gang's nodes."""
    values = {
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": str(agent),
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        # The gang's nodes are the allocation, whatever Slurm's variables say.
        "OMPI_MCA_ras": "^slurm,gridengine,tm,lsf",
        "OMPI_MCA_orte_default_hostfile": str(hosts),
        "PRTE_MCA_plm": "ssh",
        "PRTE_MCA_plm_ssh_agent": str(agent),
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_ras": "^slurm,gridengine,pbs,lsf",
        "PRTE_MCA_prte_default_hostfile": str(hosts),
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": str(agent),
        "HYDRA_HOST_FILE": str(hosts),
    }
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # Nodes whose jobs run as root, as in containers, would only have it repeated by hand.
        values["OMPI_ALLOW_RUN_AS_ROOT"] = values["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    if all(address.startswith("127.") for address in gang.addresses):
        for name in ("btl_tcp_if_include", "oob_tcp_if_include"):
            values[f"OMPI_MCA_{name}"] = "lo"
    return values


class Answering:
    """The listener of a member that holds its node."""

    def __init__(self, secret: str, family: int) -> None:
        self._listener = GangListener(secret, family=family)
        self._callers: List[GangChannel] = []
        self._running: Dict[int, GangChannel] = {}
        self.port = self._listener.port

    def serve(self, start: Start) -> None:
        """Start what siblings asked for since."""
        self._callers += self._listener.accept()
        for channel in list(self._callers):
            try:
                messages = channel.hear()
            except (ChannelLost, ValueError):
                self._callers.remove(channel)
                channel.close()
                continue
            for message in messages:
                if isinstance(message.get("line"), str):
                    self._callers.remove(channel)
                    self._start(channel, message["line"], start)
                    break

    def _start(self, channel: GangChannel, line: str, start: Start) -> None:
        try:
            self._running[start(["/bin/sh", "-c", line])] = channel
        except OSError as fault:
            _answer(channel, {"exit": 127, "said": str(fault)})

    def ended(self, children: List[Tuple[int, int]]) -> None:
        """Tell callers how their commands ended: pids and wait statuses."""
        for pid, status in children:
            channel = self._running.pop(pid, None)
            if channel is not None:
                number = status & 0x7F
                _answer(channel, {"exit": 128 + number if number else status >> 8 & 0xFF})

    def close(self) -> None:
        """Answer nobody any more."""
        self._listener.close()
        for channel in [*self._callers, *self._running.values()]:
            channel.close()


def _answer(channel: GangChannel, message: Dict[str, Any]) -> None:
    with contextlib.suppress(ChannelLost):
        channel.send(message)
    channel.close()


def source_of(name: str) -> str:
    """Return a module of the runner as text, also from within a zip."""
    whole = f"trackyard.runner.{name}"
    if whole.endswith(".__init__"):
        whole = whole[: -len(".__init__")]
    spec = importlib.util.find_spec(whole)
    loader: Any = None if spec is None else spec.loader
    return "" if loader is None else str(loader.get_source(whole))
