"""A gang meets before it starts, agrees upon a port, and knows of members that are gone."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trackyard.runner.gang.meeting import GangPlace, Meeting, MeetingError, candidates
from trackyard.runner.gang.remote_agent import parse
from trackyard.runner.gang.remote_shell import host_names
from trackyard.runner.spec import GangMember, RunnerSpec
from trackyard.runner.watch import StopRequests


def member(number: int, port: int, *, members: int = 2, meet_seconds: float = 240.0) -> Meeting:
    gang = GangMember(
        member=number,
        members=members,
        addresses=("127.0.0.1",) * members,
        nodes=tuple(f"n{one}" for one in range(members)),
        port=port,
        secret="theirs",
        meet_seconds=meet_seconds,
    )
    spec = RunnerSpec("a1", 1, "j1", ("true",), Path("/nowhere"), Path("/nowhere"), gang=gang)
    return Meeting(spec, pause=lambda seconds: time.sleep(seconds or 0.01), say=lambda _: None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def together(*steps: Callable[[], Any]) -> list[Any]:
    """Run steps of several members at the same time; return what each returned or raised."""
    found: list[Any] = [None] * len(steps)

    def run(number: int) -> None:
        try:
            found[number] = steps[number]()
        except MeetingError as fault:
            found[number] = fault

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(steps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    return found


def met(count: int = 2) -> list[Meeting]:
    port = free_port()
    meetings = [member(number, port, members=count) for number in range(count)]
    assert together(*(one.arrive for one in meetings)) == [None] * count
    places = together(
        *(lambda one=one, n=n: one.ready({"n": n}) for n, one in enumerate(meetings))  # type: ignore[misc]
    )
    assert all(isinstance(place, GangPlace) for place in places)
    assert len({place.port for place in places}) == 1
    assert places[0].said == {number: {"n": number} for number in range(count)}
    return meetings


def reasons(meeting: Meeting) -> list[str]:
    requests, ends = StopRequests(), time.monotonic() + 240
    while time.monotonic() < ends:
        meeting.check(requests)
        found = [request.reason for request in requests.take()]
        if found:
            return found
        time.sleep(0.02)
    return []


def test_all_learn_the_same_port_and_what_each_said() -> None:
    for meeting in met(3):
        meeting.leave("succeeded")


def test_a_taken_port_does_not_keep_a_gang_from_meeting() -> None:
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("", port))
        taken.listen()
        meetings = [member(number, port) for number in range(2)]
        assert together(*(one.arrive for one in meetings)) == [None, None]
    for meeting in meetings:
        meeting.leave("succeeded")


def test_whoever_is_missing_is_named_to_all() -> None:
    port = free_port()
    first, second = (member(number, port, members=3, meet_seconds=1.0) for number in (0, 1))
    faults = together(first.arrive, second.arrive)
    assert all("member 2 (n2, 127.0.0.1) did not come" in str(fault) for fault in faults), faults
    assert [fault.cause for fault in faults] == ["node_lost", "gang"]


def test_a_member_that_finds_no_meeting_says_where_it_looked() -> None:
    with pytest.raises(MeetingError, match=r"did not reach member 0 \(n0, 127.0.0.1\)"):
        member(1, free_port(), meet_seconds=0.1).arrive()


def test_a_member_that_vanishes_stops_the_others() -> None:
    first, second = met()
    second._open[0].close()
    assert reasons(first) == ["gang"]
    first.leave("gang")


def test_the_reason_of_a_whole_gangs_end_is_kept_and_a_good_end_stops_nobody() -> None:
    first, second, third = met(3)
    third.leave("succeeded")
    second.leave("preempted")
    assert reasons(first) == ["preempted"]
    assert first.has_left(2)


def test_ports_of_a_meeting_are_distinct_and_usable() -> None:
    for port in (1024, 29500, 60999):
        found = candidates(port)
        assert found[0] == port
        assert len(set(found)) == len(found)
        assert all(1024 <= one < 65536 for one in found)


def test_what_mpirun_passes_to_a_remote_shell_is_understood() -> None:
    line = ["-x", "-o", "BatchMode=yes", "user@n2", "orted", "-mca", "ess", '"env"']
    assert parse(line) == ("n2", 'orted -mca ess "env"')


def test_members_on_one_machine_have_names_of_their_own_for_mpirun() -> None:
    assert host_names(GangMember(members=2, addresses=("a", "b"))) == ["a", "b"]
    assert host_names(GangMember(members=2, addresses=("a", "a"))) == [
        "localhost",
        "yard-member-1",
    ]
