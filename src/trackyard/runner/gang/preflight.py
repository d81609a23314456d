"""The look at a gang before its command: do its nodes reach each other, agree, and add up.

A program of its own, run by the command's Python on every member with its place as JSON in its
first argument; member 0 gathers and judges, all print the same verdict as one line of JSON.
Standard library only; torch, where the command's Python has it, for a small all-reduce.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import platform
import re
import socket
import sys
import threading
import time
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, Optional

#: the variable that holds the gang's secret
SECRET = "YARD_GANG_SECRET"  # noqa: S105  # its name
SECONDS = 120.0
CONNECT_SECONDS = 10.0
#: clocks further from the middle are wrong
CLOCK_SECONDS = 2.0
FLOATS = 1 << 18
ROUNDS = 4
#: what all nodes of a gang should have alike
ALIKE = {"python": "Python", "torch": "torch", "driver": "driver"}


def main(words: Optional[List[str]] = None) -> int:
    """Look, print the verdict, and return 1 if anything is wrong."""
    place = json.loads((sys.argv[1:] if words is None else words)[0])
    try:
        verdict = lead(place) if place["member"] == 0 else follow(place)
    except (OSError, ValueError) as fault:
        verdict = {"ok": False, "nodes": [], "faults": {}, "between": [f"no answer: {fault}"]}
    sys.stdout.write(json.dumps(verdict) + "\n")
    return 0 if verdict["ok"] else 1


# What each member does


def facts() -> Dict[str, Any]:
    """Return what this member brings along."""
    try:
        torch: Optional[str] = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch = None
    return {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "torch": torch,
        "driver": driver(),
    }


def driver() -> Optional[str]:
    """Return the version of the GPUs' driver; None without one."""
    for path in ("/proc/driver/nvidia/version", "/sys/module/amdgpu/version"):
        try:
            found = re.search(r"\d+\.\d+(\.\d+)*", Path(path).read_text())
        except OSError:
            continue
        if found:
            return found.group()
    return None


def unreachable(places: List[List[Any]], own: int) -> List[int]:
    """Return the members that this one cannot connect to."""
    missed = []
    for member, (address, port) in enumerate(places):
        if member == own:
            continue
        try:
            socket.create_connection((address, port), timeout=CONNECT_SECONDS).close()
        except OSError:
            missed.append(member)
    return missed


def all_reduce(address: str, port: int, member: int, members: int) -> Dict[str, Any]:
    """Add numbers over all members by torch; return how quick it was or what went wrong."""
    try:
        import torch
        import torch.distributed as dist

        on_gpu = torch.cuda.is_available()
        dist.init_process_group(
            "nccl" if on_gpu else "gloo",
            init_method=f"tcp://{address}:{port}",
            rank=member,
            world_size=members,
            timeout=timedelta(seconds=SECONDS),
        )
        values = torch.full((FLOATS,), float(member + 1), device="cuda" if on_gpu else "cpu")
        began = time.monotonic()
        for _ in range(ROUNDS):
            total = values.clone()
            dist.all_reduce(total)
            seen = float(total[0])
        took = max(1e-6, time.monotonic() - began)
        dist.destroy_process_group()
    except Exception as fault:  # noqa: BLE001  # whatever torch says is the finding
        line = str(fault).strip().splitlines()
        return {"error": f"{type(fault).__name__}: {line[0] if line else ''}"[:300]}
    expected = members * (members + 1) / 2
    if seen != expected:
        return {"error": f"the sum is {seen:g}, not {expected:g}"}
    return {"megabytes_per_second": round(ROUNDS * FLOATS * 4 / took / 1e6, 1)}


def follow(place: Dict[str, Any]) -> Dict[str, Any]:
    """Answer what member 0 asks, and return its verdict."""
    server = _doorbell()
    link = _Link(_connect(place["addresses"][0], place["port"]))
    proof = _proof(link.hear()["nonce"])
    port = server.getsockname()[1]
    link.send({"proof": proof, "member": place["member"], "port": port, **facts()})
    while True:
        asked = link.hear()
        if "clock" in asked:
            link.send({"clock": time.time()})
        elif "places" in asked:
            link.send({"missed": unreachable(asked["places"], place["member"])})
        elif "reduce" in asked:
            members = len(place["addresses"])
            address = place["addresses"][0]
            link.send(all_reduce(address, asked["reduce"], place["member"], members))
        elif "verdict" in asked:
            found: Dict[str, Any] = asked["verdict"]
            return found


def lead(place: Dict[str, Any]) -> Dict[str, Any]:
    """Gather what all members say, judge it, and tell them."""
    members = len(place["addresses"])
    bell = _doorbell()
    listener = _listen(int(place["port"]))
    rows: Dict[int, Dict[str, Any]] = {0: {**facts(), "port": bell.getsockname()[1], "clock": 0.0}}
    links: Dict[int, _Link] = {}
    while len(links) < members - 1:
        link = _Link(listener.accept()[0])
        nonce = os.urandom(16).hex()
        link.send({"nonce": nonce})
        said = link.hear()
        if not hmac.compare_digest(str(said.get("proof")), _proof(nonce)):
            continue
        links[said["member"]] = link
        rows[said["member"]] = said
    for member, link in links.items():
        began = time.time()
        link.send({"clock": True})
        theirs = link.hear()["clock"]
        rows[member]["clock"] = theirs - (began + time.time()) / 2
    places = [[place["addresses"][one], rows[one]["port"]] for one in range(members)]
    for link in links.values():
        link.send({"places": places})
    rows[0]["missed"] = unreachable(places, 0)
    for member, link in links.items():
        rows[member]["missed"] = link.hear()["missed"]
    if all(row["torch"] for row in rows.values()) and not any(r["missed"] for r in rows.values()):
        port = _free_port()
        for link in links.values():
            link.send({"reduce": port})
        rows[0]["reduce"] = all_reduce(place["addresses"][0], port, 0, members)
        for member, link in links.items():
            rows[member]["reduce"] = link.hear()
    verdict = judge([rows[member] for member in range(members)], place["nodes"])
    for link in links.values():
        link.send({"verdict": verdict})
    return verdict


# Judging


def judge(rows: List[Dict[str, Any]], nodes: List[str]) -> Dict[str, Any]:
    """Say which node is at fault; where two disagree and none is in the majority, name both."""
    faults: Dict[int, List[str]] = {}
    between: List[str] = []
    for key, word in ALIKE.items():
        _compare([_short(key, row.get(key)) for row in rows], word, nodes, faults, between)
    _compare_clocks([float(row["clock"]) for row in rows], nodes, faults, between)
    _blame_unreachable([row.get("missed") or [] for row in rows], nodes, faults, between)
    _blame_sums([row.get("reduce") or {} for row in rows], faults)
    shown = ("python", "torch", "driver", "reduce")
    return {
        "ok": not faults and not between,
        "nodes": [
            {
                "node": nodes[member],
                "clock_seconds": round(float(row["clock"]), 3),
                **{key: row.get(key) for key in shown},
            }
            for member, row in enumerate(rows)
        ],
        "faults": {str(member): "; ".join(words) for member, words in faults.items()},
        "between": between,
    }


def _short(key: str, value: Optional[str]) -> Optional[str]:
    """Return what of a version matters: the last number of Python's does not."""
    return ".".join(value.split(".")[:2]) if key == "python" and value else value


def _compare(
    values: List[Optional[str]],
    word: str,
    nodes: List[str],
    faults: Dict[int, List[str]],
    between: List[str],
) -> None:
    if len(set(values)) == 1:
        return
    counts = {value: values.count(value) for value in set(values)}
    most = max(counts.values())
    usual = [value for value, count in counts.items() if count == most]
    if len(usual) == 1 and most > 1:
        for member, value in enumerate(values):
            if value != usual[0]:
                text = f"it has {word} {value or 'not at all'}, the others {usual[0] or 'none'}"
                faults.setdefault(member, []).append(text)
        return
    pairs = ", ".join(f"{node}: {value or 'none'}" for node, value in zip(nodes, values))
    between.append(f"versions of {word} differ ({pairs})")


def _compare_clocks(
    clocks: List[float], nodes: List[str], faults: Dict[int, List[str]], between: List[str]
) -> None:
    middle = sorted(clocks)[len(clocks) // 2] if len(clocks) > 2 else sum(clocks) / len(clocks)
    far = [member for member, at in enumerate(clocks) if abs(at - middle) > CLOCK_SECONDS]
    if len(clocks) == 2 and abs(clocks[1] - clocks[0]) > CLOCK_SECONDS:
        apart = abs(clocks[1] - clocks[0])
        between.append(f"the clocks of {nodes[0]} and {nodes[1]} are {apart:.1f} s apart")
    elif len(clocks) > 2:
        for member in far:
            away = clocks[member] - middle
            word = "ahead of" if away > 0 else "behind"
            text = f"its clock is {abs(away):.1f} s {word} the others'"
            faults.setdefault(member, []).append(text)


def _blame_unreachable(
    missed: List[List[int]], nodes: List[str], faults: Dict[int, List[str]], between: List[str]
) -> None:
    pairs = [(one, other) for one, others in enumerate(missed) for other in others]
    if not pairs:
        return
    counts = [sum(member in pair for pair in pairs) for member in range(len(missed))]
    most = max(counts)
    guilty = [member for member, count in enumerate(counts) if count == most]
    if len(guilty) == 1:
        text = "it and other nodes of the gang do not reach each other"
        faults.setdefault(guilty[0], []).append(text)
    else:
        for one, other in pairs:
            between.append(f"{nodes[one]} does not reach {nodes[other]}")


def _blame_sums(found: List[Dict[str, Any]], faults: Dict[int, List[str]]) -> None:
    """Blame whoever failed by itself; who only waited for it in vain failed by a timeout."""
    errors = {member: one["error"] for member, one in enumerate(found) if one.get("error")}
    waited = ("timeout", "timed out", "connection closed", "connection reset")
    own = {
        member: words
        for member, words in errors.items()
        if not any(phrase in words.lower() for phrase in waited)
    }
    for member, words in (own or errors).items():
        faults.setdefault(member, []).append(f"a small all-reduce failed there ({words})")


# Connections


class _Link:
    """Lines of JSON over one connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(2 * SECONDS)
        self._file = connection.makefile("rw", encoding="utf-8")

    def send(self, message: Dict[str, Any]) -> None:
        self._file.write(json.dumps(message) + "\n")
        self._file.flush()

    def hear(self) -> Dict[str, Any]:
        line = self._file.readline()
        if not line:
            raise OSError("another member ended")
        found: Dict[str, Any] = json.loads(line)
        return found


def _proof(nonce: str) -> str:
    """Return what only members of this gang can say."""
    secret = os.environ.get(SECRET, "").encode()
    return hmac.new(secret, nonce.encode(), hashlib.sha256).hexdigest()


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", port))
    listener.listen(256)
    listener.settimeout(SECONDS)
    return listener


def _doorbell() -> socket.socket:
    """Listen at some port, to be found reachable, for as long as this process lives."""
    listener = _listen(0)
    listener.settimeout(None)

    def answer() -> None:
        while True:
            listener.accept()[0].close()

    threading.Thread(target=answer, daemon=True).start()
    return listener


def _connect(address: str, port: int) -> socket.socket:
    ends = time.monotonic() + SECONDS
    while True:
        try:
            return socket.create_connection((address, port), timeout=CONNECT_SECONDS)
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
