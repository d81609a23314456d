"""Forwards reports of nodes that cannot reach the server from the shared folder.

Speaks the runner's protocol with the runner's credential, which never leaves this machine. Owns
how much of each member's log and samples has been forwarded. Makes no decisions.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import logging
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from trackyard.core.ports import (
    AttemptReport,
    EngineError,
    EngineUnavailable,
    LaunchSpec,
    PackageRef,
    ReportTo,
)
from trackyard.engines.slurm.submit import with_packages
from trackyard.engines.statefolder import AttemptFolder, MemberFolder, read_json, write_private
from trackyard.engines.wrapper import MemberPlace, command, runner_spec

log = logging.getLogger(__name__)

CHUNK_BYTES = 512 * 1024
REQUEST_SECONDS = 20.0
RETRY_SECONDS = 2.0
MOST_SAMPLES = 200


@dataclass(slots=True)
class _Carried:
    """How much of one member's reports has been forwarded."""

    beat: int = 0
    log: int = 0
    samples: int = 0
    is_done: bool = False


@dataclass(slots=True)
class _Open:
    """One attempt whose reports are forwarded."""

    report: ReportTo
    epoch: int
    members: dict[int, _Carried] = field(default_factory=dict)
    not_before: float = 0.0


class Relay:
    """Forwards what runners left in their folders."""

    def __init__(self, private: Path, shared: Path) -> None:
        self._private = private
        self._shared = shared
        self._open: dict[str, _Open] = {}
        self._lock = threading.Lock()

    def take_over(self, spec: LaunchSpec) -> LaunchSpec:
        """Keep an attempt's credential here, and copy its packages to the shared folder."""
        if spec.report is None:
            return spec
        self._private.mkdir(parents=True, exist_ok=True, mode=0o700)
        entry = {"report": asdict(spec.report), "epoch": spec.epoch}
        write_private(self._private / f"{spec.attempt_id}.json", json.dumps(entry))
        places = {}
        for package in (spec.package, *spec.modules):
            if package is not None and package.location.startswith(("http://", "https://")):
                places[package.digest] = self._fetch(package, spec.report)
        if spec.data:
            self._fetch_data(spec)
        return with_packages(spec, places)

    def _fetch_data(self, spec: LaunchSpec) -> None:
        """Fetch data sets into the shared folder, in a process that outlives this server."""
        place = MemberPlace(
            member=0,
            state_dir=self._private / spec.attempt_id,
            cache_dir=self._shared / "cache",
            addresses=[""] * len(spec.placement),
            port=29500,
            base_env={},
            python=sys.executable,
        )
        path = self._private / f"{spec.attempt_id}.data.json"
        write_private(path, json.dumps({**runner_spec(spec, place), "env": {}}))
        process = subprocess.Popen(
            command("--data", str(path)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        threading.Thread(target=process.wait, daemon=True).start()

    def forget(self, attempt_id: str) -> None:
        """Delete an attempt's credential."""
        with self._lock:
            self._open.pop(attempt_id, None)
        (self._private / f"{attempt_id}.json").unlink(missing_ok=True)

    def carry(self, folder: AttemptFolder, report: AttemptReport | None) -> None:
        """Forward what is new in an attempt's folder; retried later if the server is away."""
        if report is None:
            return
        one = self._opened(report.attempt_id)
        if one is None or time.monotonic() < one.not_before:
            return
        try:
            for number in range(len(report.placement)):
                done = one.members.setdefault(number, _Carried())
                if not done.is_done:
                    self._carry(report.attempt_id, one, number, folder.member(number), done)
        except (OSError, http.client.HTTPException) as fault:
            one.not_before = time.monotonic() + RETRY_SECONDS
            log.info("forwarding reports of %s is retried: %s", report.attempt_id, fault)

    def _opened(self, attempt_id: str) -> _Open | None:
        with self._lock:
            if attempt_id not in self._open:
                data = read_json(self._private / f"{attempt_id}.json")
                if data is None:
                    return None
                report = ReportTo(**data["report"])
                self._open[attempt_id] = _Open(report=report, epoch=int(data["epoch"]))
            return self._open[attempt_id]

    def _carry(
        self, attempt_id: str, one: _Open, number: int, member: MemberFolder, done: _Carried
    ) -> None:
        beat = member.path / "beat.json"
        modified = beat.stat().st_mtime_ns if beat.exists() else 0
        record = read_json(member.path / "exit.json")
        if modified > done.beat and record is None:
            status, answer = self._post(attempt_id, one, number, "/heartbeat", beat.read_bytes())
            _obey(member, status, answer)
            done.beat = modified
        self._carry_log(attempt_id, one, number, member, done)
        self._carry_samples(attempt_id, one, number, member, done)
        if record is not None and not done.is_done:
            body = json.dumps(record).encode()
            self._post(attempt_id, one, number, "/exit", body)
            done.is_done = True
            with contextlib.suppress(OSError):
                (member.path / "delivered").touch()

    def _carry_log(
        self, attempt_id: str, one: _Open, number: int, member: MemberFolder, done: _Carried
    ) -> None:
        while data := member.read_log(done.log, CHUNK_BYTES):
            path = f"/logs?member={number}&offset={done.log}&seq=0"
            status, answer = self._post(attempt_id, one, number, path, data)
            held = answer.get("next_offset")
            if not (200 <= status < 300 or status == 416) or not isinstance(held, int):
                return
            if held <= done.log and status != 416:
                return
            done.log = held

    def _carry_samples(
        self, attempt_id: str, one: _Open, number: int, member: MemberFolder, done: _Carried
    ) -> None:
        place = member.path / "samples.jsonl"
        if not place.exists() or place.stat().st_size <= done.samples:
            return
        with place.open("rb") as file:
            file.seek(done.samples)
            while lines := _whole_lines(file.readlines(CHUNK_BYTES)[:MOST_SAMPLES]):
                body = json.dumps(
                    {"member": number, "samples": [json.loads(line) for line in lines]}
                ).encode()
                status, _ = self._post(attempt_id, one, number, "/samples", body)
                if not 200 <= status < 300:
                    return
                done.samples += sum(len(line) for line in lines)
                file.seek(done.samples)

    def _post(
        self, attempt_id: str, one: _Open, number: int, path: str, body: bytes
    ) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(one.report.url)
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=REQUEST_SECONDS)
        headers = {
            "Authorization": f"Bearer {one.report.token}",
            "X-Yard-Epoch": str(one.epoch),
            "X-Yard-Member": str(number),
            "Content-Type": "application/octet-stream" if "/logs" in path else "application/json",
        }
        with contextlib.closing(connection):
            place = f"{parts.path}/api/v1/attempts/{quote(attempt_id)}{path}"
            connection.request("POST", place, body=body, headers=headers)
            response = connection.getresponse()
            content = response.read()
        if response.status >= 500:
            raise OSError(f"the server answered {response.status}")
        try:
            data = json.loads(content) if content else {}
        except ValueError:
            data = {}
        return response.status, data if isinstance(data, dict) else {}

    def _fetch(self, package: PackageRef, report: ReportTo) -> Path:
        """Bring a package into the shared folder, checked against its digest."""
        place = self._shared / "cache" / "handed" / f"{package.digest}.{package.format}"
        if place.exists():
            return place
        parts = urlsplit(package.location)
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        try:
            connection = kind(parts.hostname or "", parts.port, timeout=REQUEST_SECONDS)
            with contextlib.closing(connection):
                headers = {"Authorization": f"Bearer {report.token}"}
                connection.request("GET", parts.path, headers=headers)
                response = connection.getresponse()
                data = response.read()
        except (OSError, http.client.HTTPException) as fault:
            raise EngineUnavailable(f"the job's package could not be fetched: {fault}") from fault
        if response.status != 200 or hashlib.sha256(data).hexdigest() != package.digest:
            raise EngineError(
                f"the job's package {package.digest[:12]}… could not be fetched"
                f" ({response.status}); submit the job again"
            )
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = place.with_name(f".{place.name}.{threading.get_ident()}")
        beside.write_bytes(data)
        beside.replace(place)
        return place


def _obey(member: MemberFolder, status: int, answer: dict[str, Any]) -> None:
    """Leave the server's answer to a heartbeat in the folder for the runner."""
    now_ms = time.time_ns() // 1_000_000
    stop = answer.get("stop")
    if status == 409:
        member.ask_to_stop({"reason": "fenced", "grace_seconds": 0.0, "at_ms": now_ms})
    elif isinstance(stop, dict) and not (member.path / "stop.json").exists():
        grace = stop.get("grace_seconds")
        request = {
            "reason": str(stop.get("reason", "stopped")),
            "grace_seconds": float(grace) if isinstance(grace, int | float) else 30.0,
            "at_ms": now_ms,
        }
        member.ask_to_stop(request)


def _whole_lines(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if line.endswith(b"\n")]
