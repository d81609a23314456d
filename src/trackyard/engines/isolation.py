"""How jobs on this machine are kept from the server's files and from each other's.

Owns the choice (`run_as`), a team's account and its folder. Either every runner becomes a user of
its team's own, which only root can arrange, or each command runs in a bubblewrap sandbox that
does not show the server's folders. Starts nothing itself.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackyard.core.ports import EngineError

SERVER, USER, BUBBLEWRAP = "server", "user", "bubblewrap"
CHOICES = (SERVER, USER, BUBBLEWRAP)
#: Users without a name of their own are numbered from here.
FIRST_UID = 200_000
#: A system user of this name is a team's own, where there is one.
NAMED = "yard-{team}"
#: Groups that open GPUs.
DEVICE_GROUPS = ("video", "render")
PROBE_SECONDS = 20
_TEAM = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUser:
    """Whom a team's jobs run as."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class Isolation:
    """None: jobs run with the server's own rights. Others know how to do better."""

    mode = SERVER
    #: mode of folders on the way to an attempt's own
    passage = 0o700

    def prepare(self, team: str, engine: Path) -> dict[str, Any]:
        """Make a team's folder; return the keys of SPEC.json that isolate, less its place."""
        del team, engine
        return {}

    def folder(self, team: str, engine: Path) -> Path:
        """Return the folder for a team's caches, checkpoints and home."""
        del team
        return engine

    def environment(self, team: str, engine: Path, base: Mapping[str, str]) -> dict[str, str]:
        """Return what commands inherit."""
        del team, engine
        return dict(base)

    def may_end(self, pid: int, state_dir: Path) -> bool:
        """Tell whether a process that a state folder names is really that folder's."""
        del pid, state_dir
        return True


class _Teams(Isolation):
    """What both kinds share: a folder for each team."""

    def folder(self, team: str, engine: Path) -> Path:
        """Return the folder for a team's caches, checkpoints and home."""
        if _TEAM.match(team) is None:
            raise EngineError(f"{team!r} is no team that jobs can be run for")
        return engine / "teams" / team

    def environment(self, team: str, engine: Path, base: Mapping[str, str]) -> dict[str, str]:
        """Return what commands inherit, with a home of the team's own."""
        own = self.folder(team, engine) / "home"
        left_out = ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "TMPDIR")
        values = {name: value for name, value in base.items() if name not in left_out}
        return {**values, "HOME": str(own), "USER": f"yard-{team}", "LOGNAME": f"yard-{team}"}


class SystemUsers(_Teams):
    """Each team's jobs run as a user of their own; the server must be root."""

    mode = USER
    passage = 0o711

    def __init__(self, engine: Path) -> None:
        self._book = engine / "users.json"

    def prepare(self, team: str, engine: Path) -> dict[str, Any]:
        """Make the team's folder its own; return whom its runners become."""
        account = self.account(team)
        folder = self.folder(team, engine)
        folder.parent.mkdir(mode=self.passage, exist_ok=True)
        folder.parent.chmod(self.passage)
        # Below a folder of root's own nobody else can put something in its place; what is in it
        # is made by its user alone.
        if not folder.exists():
            folder.mkdir(mode=0o700)
            os.chown(folder, account.uid, account.gid, follow_symlinks=False)
        return {
            "account": {
                "uid": account.uid,
                "gid": account.gid,
                "groups": list(account.groups),
            }
        }

    def account(self, team: str) -> JobUser:
        """Return a team's user: the system's own by name, else one by number, for ever."""
        devices = tuple(sorted(_groups(DEVICE_GROUPS)))
        try:
            known = pwd.getpwnam(NAMED.format(team=team))
        except KeyError:
            number = self._number(team)
            return JobUser(uid=number, gid=number, groups=devices)
        if known.pw_uid == 0:
            raise EngineError(f"{known.pw_name} is root under another name; jobs do not run as it")
        return JobUser(uid=known.pw_uid, gid=known.pw_gid, groups=devices)

    def may_end(self, pid: int, state_dir: Path) -> bool:
        """Tell whether a process runs as the user whose folder names it."""
        try:
            text = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return False
        found = re.search(r"^Uid:\s+(\d+)", text, re.MULTILINE)
        return found is not None and int(found[1]) == state_dir.lstat().st_uid

    def _number(self, team: str) -> int:
        try:
            book: dict[str, int] = json.loads(self._book.read_text())
        except FileNotFoundError:
            book = {}
        if team not in book:
            book[team] = max([FIRST_UID - 1, *book.values()]) + 1
            beside = self._book.with_name(f".{self._book.name}.new")
            beside.write_text(json.dumps(book))
            beside.replace(self._book)
        return book[team]


class Bubblewrap(_Teams):
    """Each command runs in a sandbox that shows its own folders and none of the server's."""

    mode = BUBBLEWRAP

    def __init__(self, hidden: Sequence[Path]) -> None:
        self._hidden = hidden

    def prepare(self, team: str, engine: Path) -> dict[str, Any]:
        """Make the team's folder; return what a command is shown and what it is not."""
        folder = self.folder(team, engine)
        (folder / "home").mkdir(parents=True, exist_ok=True, mode=0o700)
        hidden = [str(path) for path in self._hidden]
        return {"sandbox": {"hide": hidden, "show": [str(folder)]}}


def choose(run_as: str, engine: Path, hidden: Sequence[Path]) -> Isolation:
    """Return how jobs are kept apart; refuse what this machine cannot do."""
    if run_as == SERVER:
        return Isolation()
    if run_as == USER and os.geteuid() == 0:
        _check_passage(engine)
        return SystemUsers(engine)
    fault = _bubblewrap_fault()
    if fault:
        raise EngineError(
            f"run_as = {run_as!r} cannot be done here: {fault}; start the server as root, or"
            " install bubblewrap (apt install bubblewrap) and allow user namespaces"
        )
    return Bubblewrap(hidden)


def _bubblewrap_fault() -> str:
    program = shutil.which("bwrap")
    if program is None:
        return "there is no bwrap"
    line = [program, "--bind", "/", "/", "--unshare-pid", "--proc", "/proc", "true"]
    try:
        answer = subprocess.run(
            line, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as fault:
        return str(fault)
    return "" if answer.returncode == 0 else f"bwrap said {answer.stderr.strip()[:200]!r}"


def _check_passage(engine: Path) -> None:
    """Open the way to jobs' own folders: to pass, not to look; refuse a place that is shut."""
    engine.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in (engine, engine.parent):
        path.chmod(0o711)
    for path in engine.parents:
        if not path.stat().st_mode & 0o001:
            raise EngineError(
                f"jobs of other users cannot pass {path}; start the server with --home in a place"
                " they can, such as /srv/trackyard"
            )


def _groups(names: Sequence[str]) -> list[int]:
    found = []
    for name in names:
        try:
            found.append(grp.getgrnam(name).gr_gid)
        except KeyError:
            continue
    return found
