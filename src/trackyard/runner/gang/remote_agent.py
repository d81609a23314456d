"""The program that mpirun calls in place of ssh: it has a sibling's runner start the command.

`rsh BOOK [options] HOST COMMAND...`: BOOK names the members and their secret. Prints nothing but
faults; ends as the command does. Standard library only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import List, Optional, Tuple

from trackyard.runner.gang.channel import ChannelLost, connect

NO_ANSWER_CODE = 255
WAIT_SECONDS = 5.0
#: ssh's options that mpirun may pass and that have a value of their own
_WITH_VALUE = ("-l", "-p", "-o", "-i", "-F")


def main(words: Optional[List[str]] = None) -> int:
    """Ask for the command on the member that the words name, and wait for its end."""
    book, *rest = sys.argv[1:] if words is None else words
    host, line = parse(rest)
    known = json.loads(Path(book).read_text())
    place = known["members"].get(host)
    if place is None or not place[1]:
        names = ", ".join(sorted(known["members"]))
        sys.stderr.write(f"yard: {host!r} is no node of this gang; its nodes are {names}\n")
        return NO_ANSWER_CODE
    try:
        channel = connect(place[0], place[1], known["secret"], seconds=30.0)
        channel.send({"line": line})
        while True:
            for message in channel.wait(WAIT_SECONDS):
                if message.get("said"):
                    sys.stderr.write(f"yard: {message['said']}\n")
                if "exit" in message:
                    return int(message["exit"])
    except (OSError, ChannelLost) as fault:
        sys.stderr.write(f"yard: {host} did not answer: {fault}\n")
        return NO_ANSWER_CODE


def parse(words: List[str]) -> Tuple[str, str]:
    """Return host and command line, past the options that ssh would take."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in _WITH_VALUE and rest:
            rest.pop(0)
    host = rest.pop(0) if rest else ""
    return host.rpartition("@")[2], " ".join(rest)
