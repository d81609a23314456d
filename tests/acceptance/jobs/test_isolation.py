"""Jobs on this machine kept from the server's home and from other teams' files.

`run_as = "user"` becomes a user of the team's own where the server is root, and bubblewrap
elsewhere; `bubblewrap` is asked for by name, too. `ordinary` is a server without root's rights
that is told `run_as = "user"`.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.jobs.conftest import _end
from tests.acceptance.jobs.yard import JobServer, eventually
from tests.acceptance.serving import ROOT

#: It starts many processes at once, or a cluster: with others beside it time alone would decide.
pytestmark = pytest.mark.alone

#: Prints all that it can of the server's home, and of the server itself.
SPY = """
id -u
cat {home}/token {home}/secrets.key {home}/trackyard.db {home}/engine/users.json
ls -la {home} {home}/engine {home}/engine/attempts
find {home} -type f -exec cat {{}} + | head -c 2000000 | tr -d '\\0'
tr '\\0' '\\n' < /proc/{pid}/environ
cat ~/.config/trackyard/login.json
if cat /proc/$PPID/environ > /dev/null 2>&1; then echo runner is open; fi
echo looked
"""


#: Runs a command as an ordinary user of the system. What such a user may not reach, for root's own
#: folder is shut, is shown again in a mount namespace of its own: $1 is the shut folder or empty,
#: $2 the folders below it.
AS_NOBODY = """
if [ -n "$1" ]; then
  mount -t tmpfs -o mode=755 shelf /mnt
  for folder in $2; do mkdir -p "/mnt$folder"; mount --bind "$folder" "/mnt$folder"; done
  mount --rbind "/mnt$1" "$1"
fi
shift 2
exec setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"
"""


def as_nobody(command: list[str]) -> list[str]:
    """Return the words that run a command as an ordinary user."""
    needed = {str(Path(path).resolve()) for path in (sys.base_prefix, sys.prefix, ROOT)}
    shut = {str(folder) for path in needed if (folder := first_shut(Path(path)))}
    assert len(shut) <= 1, f"other users cannot reach {shut}: open one of these folders to them"
    top = next(iter(shut), "")
    below = [path for path in sorted(needed) if top and path.startswith(f"{top}/")]
    start = [*(["unshare", "--mount"] if top else []), "sh", "-ec", AS_NOBODY, "sh"]
    return [*start, top, " ".join(below), *command]


def first_shut(path: Path) -> Path | None:
    """Return the outermost folder on the way to a path that others may not pass."""
    for folder in reversed((path, *path.parents)):
        if not folder.stat().st_mode & 0o001:
            return folder
    return None


class OrdinaryServer(JobServer):
    """A server that root starts as an ordinary user."""

    def start(self, patience: float = 180.0) -> float:
        self.home.mkdir()
        os.chown(self.home, 65534, 65534)
        self.environment = {"HOME": str(self.home)}
        return super().start(patience)

    def command(self) -> list[str]:
        return as_nobody(super().command())


WAYS = pytest.mark.parametrize("run_as", ["user", "bubblewrap", "ordinary"])


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users can pass, as a home for such a server needs."""
    folder = Path(tempfile.mkdtemp(prefix="yard-", dir="/var/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def server(place: Path) -> Iterator[Callable[[str], JobServer]]:
    made: list[JobServer] = []

    def start(run_as: str) -> JobServer:
        if run_as == "ordinary":
            kind: type[JobServer] = OrdinaryServer if os.geteuid() == 0 else JobServer
            run_as = "user"
        else:
            kind = JobServer
        one = kind(place / f"home-{len(made)}", config=f'run_as = "{run_as}"\n')
        made.append(one)
        one.start()
        return one

    yield start
    for one in made:
        _end(one)


def shell(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


def run(server: JobServer, script: str, token: str = "", **wish: Any) -> str:
    """Run a script as a job to its end; return its log."""
    caller = httpx.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {token or server.token}"}
    )
    with caller:
        answer = caller.post("/api/v1/jobs", json={"command": list(shell(script)), **wish})
        assert answer.status_code == 200, answer.text
        job = answer.json()["job_ids"][0]
        until = time.monotonic() + 150
        while True:
            found = caller.get(f"/api/v1/jobs/{job}").json()
            if found["job"]["state"] in ("succeeded", "failed", "stopped"):
                break
            assert time.monotonic() < until, (found, server.log)
            time.sleep(0.1)
        log = caller.get(f"/api/v1/jobs/{job}/logs").text
    assert found["job"]["state"] == "succeeded", (found["attempts"], log[-2000:], server.log)
    return log


def member_of(server: JobServer, team: str) -> str:
    """Return a token of a member of another team."""
    server.post("/api/v1/teams", name=team)
    server.post("/api/v1/users", name=f"ann-{team}")
    path = f"/api/v1/teams/{team}/members/ann-{team}"
    assert server.ask("PUT", path, json={"role": "member"}).status_code == 200
    wish = {"user": f"ann-{team}", "team": team, "role": "member"}
    return str(server.post("/api/v1/tokens", **wish)["token"])


def spy(server: JobServer) -> str:
    assert server.process is not None
    return SPY.format(home=server.home, pid=server.process.pid)


def test_without_isolation_a_job_reads_the_homes_token(
    server: Callable[[str], JobServer],
) -> None:
    """What the other tests guard against; the default is for people who trust each other."""
    open_server = server("server")
    assert open_server.token in run(open_server, spy(open_server))


@WAYS
def test_a_members_job_finds_no_credential_of_the_server(
    server: Callable[[str], JobServer], run_as: str
) -> None:
    yard = server(run_as)
    yard.ask("PUT", "/api/v1/secrets/OTHER", json={"value": "not-for-this-job"})
    log = run(yard, spy(yard), member_of(yard, "vision"))
    assert "looked" in log
    assert yard.token not in log
    assert (yard.home / "secrets.key").read_text().strip() not in log
    assert "SQLite format" not in log
    if run_as == "user" and os.geteuid() == 0:
        assert log.splitlines()[0] not in ("0", "")
        assert "runner is open" not in log


@WAYS
def test_jobs_of_one_team_do_not_read_anothers_files(
    server: Callable[[str], JobServer], run_as: str
) -> None:
    """Neither what runs nor what it keeps; a job's own folders and those of its team are there."""
    yard = server(run_as)
    word = "corn-syrup-42"
    keep = (
        f"echo {word} > note; echo {word} > $YARD_CHECKPOINT_DIR/kept; echo {word} > ~/mine;"
        " pwd; echo $YARD_CHECKPOINT_DIR; cd ~; pwd; cd /; cat $YARD_CHECKPOINT_DIR/kept ~/mine;"
    )
    first = run(yard, keep)
    work, checkpoints, home = [line for line in first.splitlines() if line.startswith("/")]
    assert first.count(word) == 2
    running = yard.submit(*shell(f"export WORD={word}; cat note 2>/dev/null; sleep 600"))
    yard.wait(running, "running")
    look = (
        f"cat {work}/note {checkpoints}/kept {home}/mine; ls {home} {checkpoints};"
        " cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep ^WORD; echo looked"
    )
    assert word not in run(yard, look, member_of(yard, "vision"))
    again = run(yard, "cat ~/mine")
    assert again.strip() == word


@pytest.mark.parametrize("run_as", ["user", "bubblewrap"])
def test_a_data_set_is_readable_and_read_only(
    server: Callable[[str], JobServer], run_as: str
) -> None:
    """The team's user reads the copy on this node and cannot change it by mistake."""
    yard = server(run_as)
    content = b"from the data set"
    sha256 = hashlib.sha256(content).hexdigest()
    pack = json.dumps([[sha256, len(content)]]).encode() + b"\n" + content
    assert yard.ask("POST", "/api/v1/data/contents", content=pack).status_code == 200
    line = json.dumps(["sub/one.txt", len(content), sha256]).encode() + b"\n"
    assert yard.ask("POST", "/api/v1/data/small/versions", content=line).status_code == 200
    script = (
        "cat $YARD_DATA_SMALL/sub/one.txt; echo; touch $YARD_DATA_SMALL/new && echo wrote;"
        " echo other > $YARD_DATA_SMALL/sub/one.txt && echo wrote; true"
    )
    for _ in range(2):
        log = run(yard, script, data=["small@v1"])
        assert content.decode() in log
        assert "wrote" not in log
    assert "was in the node's cache" in log


@WAYS
def test_a_stop_gives_grace_and_leaves_nothing_running(
    server: Callable[[str], JobServer], run_as: str
) -> None:
    yard = server(run_as)
    # The shell starts the next command unless it is asked itself, after the one it waits for.
    script = "trap 'echo saved; exit 85' TERM; while :; do sh -c 'echo ready; exec sleep 99'; done"
    job = yard.submit(*shell(script))
    eventually(lambda: "ready" in yard.logs(job))
    guard, runner = yard.runner(job)
    yard.post(f"/api/v1/jobs/{job}/stop", grace_seconds=60)
    yard.wait(job, "stopped")
    assert "saved" in yard.logs(job)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in (guard, runner)))


@WAYS
def test_a_job_that_plants_links_in_its_folder_is_served_none_of_what_they_name(
    server: Callable[[str], JobServer], run_as: str
) -> None:
    """The engine reads and writes beside the job's own files, as the server's user."""
    yard = server(run_as)
    token = yard.home / "token"
    plant = (
        f"cd $(dirname $YARD_NOTICE_FILE); rm -f log; ln -s {token} log; ln -s {token} stop.json;"
        f" ln -s {token} exit.json; mkfifo started.new; mv started.new started.json; echo planted"
    )
    before = token.read_text()
    job = yard.submit(*shell(plant))
    yard.wait(job, "succeeded", "failed", "stopped")
    assert before.strip() not in yard.logs(job)
    assert token.read_text() == before
    assert "fine" in run(yard, "echo fine")
