"""Where the members of a gang meet: before their commands start, and in case one of them is gone.

Member 0 listens; the others come, say that they are there and, once their folder is prepared, that
they are ready. When all are, member 0 finds a free port and tells it to everyone. The connections
stay: a member that vanishes, or ends otherwise than well, is known at once. Starts nothing.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set

from trackyard.runner.gang.channel import (
    ChannelLost,
    GangChannel,
    GangListener,
    connect,
    free_port,
)
from trackyard.runner.spec import GangMember, RunnerSpec
from trackyard.runner.watch import StopRequests

#: further ports at which a meeting may take place, should the agreed one be taken
MORE_PORTS = 7
TRY_SECONDS = 0.2
TICK_SECONDS = 0.05
#: how often those who wait say for whom
SAY_SECONDS = 30.0
#: how long after a connection broke word of the reason may come by another way
LOST_SECONDS = 3.0
#: ends that are the whole gang's
_WHOLE = ("preempted", "stopped", "time_limit", "node_lost")

Pause = Callable[[float], None]
Say = Callable[[str], None]


class MeetingError(Exception):
    """The gang did not come together; the message says who is missing."""

    def __init__(self, sentence: str, cause: str = "node_lost") -> None:
        super().__init__(sentence)
        #: `gang` where another member knows better
        self.cause = cause


class GangPlace(NamedTuple):
    """What the members agreed upon."""

    #: free on member 0's node when they did
    port: int
    #: member -> what it said when it was ready
    said: Dict[int, Dict[str, Any]]


def takes_place(gang: GangMember) -> bool:
    """Tell whether there is anyone to meet, and a secret to know them by."""
    return gang.members > 1 and bool(gang.secret)


def candidates(port: int) -> List[int]:
    """Return the ports of a meeting, first the agreed one."""
    more = (20000 + (port + 997 * step) % 12000 for step in range(1, MORE_PORTS + 1))
    return [port, *more]


class Meeting:
    """One member's view of its gang."""

    def __init__(self, spec: RunnerSpec, *, pause: Pause, say: Say) -> None:
        self._gang = spec.gang
        self._grace = spec.grace_seconds
        self._pause = pause
        self._say = say
        self._family = socket.AF_INET6 if ":" in spec.gang.addresses[0] else socket.AF_INET
        self._listener: Optional[GangListener] = None
        self._strangers: List[GangChannel] = []
        #: member -> connection: all others for member 0, member 0 alone for the others
        self._open: Dict[int, GangChannel] = {}
        self._lost: Dict[int, float] = {}
        self._left: Set[int] = set()
        #: from then on, what is heard is how others ended
        self._has_met = False
        self._told = False

    # Coming together

    def arrive(self) -> None:
        """Wait until all members are there; MeetingError names those who are not in time."""
        if not takes_place(self._gang):
            return
        deadline = time.monotonic() + self._gang.meet_seconds
        if self._gang.member == 0:
            self._host(deadline)
        else:
            self._come(deadline)

    def ready(self, said: Dict[str, Any], *, is_last: bool = True) -> Optional[GangPlace]:
        """Wait until all are ready; return what was agreed upon, None without anyone to.

        After the last time, what is heard of others is how they end.
        """
        if not takes_place(self._gang):
            return None
        place = self._agree(said) if self._gang.member == 0 else self._follow(said)
        self._has_met = is_last
        return place

    def _follow(self, said: Dict[str, Any]) -> GangPlace:
        self._send(0, {"ready": said})
        answer = self._await(self._open[0], "go", None)
        return GangPlace(int(answer["go"]), {int(key): one for key, one in answer["said"].items()})

    def _host(self, deadline: float) -> None:
        ports = candidates(self._gang.port)
        try:
            self._listener = GangListener(self._gang.secret, ports=ports, family=self._family)
        except OSError as fault:
            raise MeetingError(
                f"The gang cannot meet at {self.who(0)}: ports {ports} are all taken ({fault})."
            ) from fault
        expected = set(range(1, self._gang.members))
        said = time.monotonic() + SAY_SECONDS
        while expected - set(self._open):
            self._take_guests()
            missing = sorted(expected - set(self._open))
            names = ", ".join(self.who(member) for member in missing)
            if missing and time.monotonic() > deadline:
                sentence = self._missing_words(names)
                self._tell_all({"missing": sentence})
                raise MeetingError(sentence)
            if missing and time.monotonic() > said:
                said = time.monotonic() + SAY_SECONDS
                self._say(f"waiting for {names}")
            self._pause(TICK_SECONDS)
        self._tell_all({"all": True})

    def _take_guests(self) -> None:
        assert self._listener is not None
        self._strangers += self._listener.accept()
        for channel in list(self._strangers):
            try:
                messages = channel.hear()
            except (ChannelLost, ValueError):
                self._strangers.remove(channel)
                channel.close()
                continue
            for message in messages:
                member = message.get("member")
                if isinstance(member, int) and 0 < member < self._gang.members:
                    self._open[member] = channel
                    self._strangers.remove(channel)
                    break

    def _come(self, deadline: float) -> None:
        fault: Exception = OSError("no answer")
        while True:
            for port in candidates(self._gang.port):
                try:
                    channel = connect(self._gang.addresses[0], port, self._gang.secret)
                    channel.send({"member": self._gang.member, "host": socket.gethostname()})
                except (OSError, ChannelLost) as found:
                    fault = found
                    self._pause(0)
                    continue
                self._open[0] = channel
                self._await(channel, "all", deadline + 2 * SAY_SECONDS)
                return
            if time.monotonic() > deadline:
                raise MeetingError(
                    f"{self.who(self._gang.member)} did not reach {self.who(0)}, where the gang"
                    f" meets, within {self._gang.meet_seconds:g} s ({fault}): check that the"
                    " nodes reach each other and that no firewall stands between them."
                )
            self._pause(TRY_SECONDS)

    def _await(self, channel: GangChannel, key: str, deadline: Optional[float]) -> Dict[str, Any]:
        while True:
            try:
                messages = channel.hear()
            except (ChannelLost, ValueError) as fault:
                raise MeetingError(
                    f"{self.who(0)} left before the gang had met ({fault}).", "gang"
                ) from fault
            for message in messages:
                if key in message:
                    return message
                if "missing" in message:
                    raise MeetingError(str(message["missing"]), "gang")
            if deadline is not None and time.monotonic() > deadline:
                raise MeetingError(f"{self.who(0)} did not say in time that all are there.")
            self._pause(TICK_SECONDS)

    def _agree(self, own: Dict[str, Any]) -> GangPlace:
        said = {0: own}
        next_words = time.monotonic() + SAY_SECONDS
        while len(said) < self._gang.members:
            for member, channel in self._open.items():
                try:
                    messages = channel.hear()
                except (ChannelLost, ValueError) as fault:
                    sentence = f"{self.who(member)} ended before it was ready ({fault})."
                    self._tell_all({"missing": sentence})
                    raise MeetingError(sentence, "gang") from fault
                for message in messages:
                    if "ready" in message:
                        said[member] = message["ready"]
            if time.monotonic() > next_words:
                next_words = time.monotonic() + SAY_SECONDS
                late = [one for one in range(self._gang.members) if one not in said]
                names = ", ".join(self.who(member) for member in late)
                self._say(f"waiting until {names} is ready")
            self._pause(TICK_SECONDS)
        port = free_port(self._family)
        self._tell_all({"go": port, "said": said})
        return GangPlace(port, said)

    # While commands run

    def check(self, requests: StopRequests) -> None:
        """Ask for a stop when another member ended badly or is gone."""
        if not self._has_met:
            return
        for member, channel in list(self._open.items()):
            try:
                messages = channel.hear()
            except (ChannelLost, ValueError):
                self._part_from(member)
                # Whoever was ended with the whole gang hears of that first, by another way.
                self._lost[member] = time.monotonic() + LOST_SECONDS
                continue
            for message in messages:
                if "bye" in message:
                    self._part_from(member)
                    self._react(member, str(message["bye"]), requests)
                    break
        for member, due in list(self._lost.items()):
            if time.monotonic() >= due:
                del self._lost[member]
                self._say(f"{self.who(member)} is gone: its runner ended without a word")
                self._react(member, "lost", requests)

    def has_left(self, member: int) -> bool:
        """Tell whether a member has said how it ended, or is gone."""
        return member in self._left

    def _part_from(self, member: int) -> None:
        self._open.pop(member).close()
        self._left.add(member)

    def _react(self, member: int, cause: str, requests: StopRequests) -> None:
        if self._told:
            return
        if cause == "succeeded":
            if member == 0 and self._gang.launcher in ("mpirun", "batch"):
                requests.put("gang_done", 0)
            return
        self._told = True
        requests.put(cause if cause in _WHOLE else "gang", self._grace)

    def leave(self, cause: str) -> None:
        """Say how this member ended, and go."""
        self._tell_all({"bye": cause})
        for channel in [*self._open.values(), *self._strangers]:
            channel.close()
        self._open = {}
        if self._listener is not None:
            self._listener.close()

    def who(self, member: int) -> str:
        """Return a member's name for people: its number, its node and its address."""
        node = self._gang.nodes[member] if member < len(self._gang.nodes) else ""
        address = self._gang.addresses[member]
        place = f"{node}, {address}" if node and node != address else address
        return f"member {member} ({place})"

    def _missing_words(self, names: str) -> str:
        return (
            f"The gang did not come together within {self._gang.meet_seconds:g} s:"
            f" {names} did not come to {self.who(0)}. Check that the nodes reach each other and"
            " that their clocks, disks and Slurm or Ray daemons are well."
        )

    def _tell_all(self, message: Dict[str, Any]) -> None:
        for member in list(self._open):
            self._send(member, message)

    def _send(self, member: int, message: Dict[str, Any]) -> None:
        # Whoever reads from it next notices that it is gone; there is nothing to tell it.
        with contextlib.suppress(ChannelLost):
            self._open[member].send(message)
