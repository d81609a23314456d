"""Stock Ray clients of both generations against the door: SDK, command line, tokens, queue."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.jobs.yard import JobServer
from tests.acceptance.ray_door.conftest import Door
from tests.acceptance.serving import python_of, reports

SCRIPTS = Path(__file__).parent / "scripts"
#: the newest comes with Train, in the environment that the cluster runs in as well
GENERATIONS = ["ray2", "raytrain"]
pytestmark = pytest.mark.parametrize("generation", GENERATIONS)


def environment_of(door: Door, **more: str) -> dict[str, str]:
    """What a client sees: nothing of ours but what it is given."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(door.folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONWARNINGS": "ignore",
        "NO_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
        **more,
    }


def exports(door: Door) -> dict[str, str]:
    """What `yard env` tells a user to set for Ray, the same for both generations."""
    done = subprocess.run(
        [sys.executable, "-m", "trackyard.cli.main", "env", "--json"],
        env={**os.environ, "YARD_URL": door.url, "YARD_TOKEN": door.token},
        capture_output=True,
        check=True,
    )
    lines = json.loads(done.stdout)
    return {name: value for name, value in lines.items() if name.startswith("RAY_")}


def ray(door: Door, generation: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of a generation to its end."""
    environment = environment_of(door, **exports(door))
    return subprocess.run(
        [python_of(generation).parent / "ray", *words],
        cwd=door.folder / "cli",
        env={**environment, **more},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def seen() -> dict[str, dict[str, Any]]:
    """Reports of the SDK script, one per generation."""
    return {}


@pytest.fixture
def report(door: Door, generation: str, seen: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What JobSubmissionClient of this generation saw."""
    if generation not in seen:
        done = subprocess.run(
            [
                python_of(generation),
                SCRIPTS / "client_checks.py",
                door.url,
                str(door.folder),
                str(door.wheel),
            ],
            env=environment_of(door, DOOR_TOKEN=door.token, DOOR_OTHER_TOKEN=door.other),
            capture_output=True,
            text=True,
            timeout=480,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        seen[generation] = reports(done.stdout)
    return seen[generation]


def test_folder_module_variables_and_requirement_reach_the_job(report: dict[str, Any]) -> None:
    """One job with all of it prints what each brought, as it happens, and ends as SUCCEEDED."""
    found = report["followed"]
    lines = found["text"].splitlines()
    assert "MLFLOW_TRACKING_URI is set by the platform" in lines[0]
    # What pip prints while the environment is made comes first.
    assert "flavour" in found["text"], found
    own = lines[next(at for at, line in enumerate(lines) if line.startswith("flavour")) :]
    assert own[0] == "flavour plum beside sour a b"
    assert re.match(r"tracking http://127\.0\.0\.1:\d+ gpus 0$", own[1])
    assert own[2:4] == ["path True", "done"]
    assert own[4].endswith("/end")
    assert "$HOME" not in own[4]
    assert (found["status"], found["exit_code"]) == ("SUCCEEDED", 0)
    # On a busy machine it may have waited a moment, and the follower was told so.
    heard = [line for line in lines if "] It waits in queue" not in line]
    assert found["logs"].splitlines() == heard


def test_a_job_is_shown_as_its_user_wrote_it(
    door: Door, generation: str, report: dict[str, Any]
) -> None:
    """Entrypoint and metadata come back verbatim, secrets do not, and `yard` shows the same."""
    found = report["followed"]
    assert found["entrypoint"] == "python main.py 'a b' && echo $HOME/end"
    assert found["metadata"]["owner"] == "me"
    assert (found["variables"]["FLAVOUR"], found["variables"]["API_TOKEN"]) == ("•••", "•••")
    job = door.server.detail(found["job"])["job"]
    assert (job["name"], job["priority"], job["gpus"]) == ("plum-tart", "high", 0.5)
    assert job["command"] == found["entrypoint"]


def test_packages_are_sent_once_per_team(report: dict[str, Any]) -> None:
    """The second submission sends nothing; another team's equal folder is its own."""
    found = report["packages"]
    assert found["sent"] == [1, 0, 1]
    assert found["names"] == 1
    assert [status for status, _ in found["words"]] == ["SUCCEEDED"] * 3
    assert {text[:7] for _, text in found["words"]} == {"small 2"}
    assert "404" in found["foreign"]
    assert "does not exist" in found["foreign"]
    assert "gcs://_ray_pkg_0.zip is not here" in found["stolen"]


def test_a_waiting_job_says_where_it_stands(report: dict[str, Any]) -> None:
    """Status, message, logs and the open socket all tell place and reason."""
    found = report["queue"]
    assert found["status"] == "PENDING"
    for words in (found["words"], found["message"], found["logs"]):
        assert re.search(r"waits in queue default, position 1 of 1", words), words
        assert "GPU" in words
    assert "predicted start" in found["message"]
    assert "submission_id holder-2." in found["duplicate"]
    assert "already exists" in found["duplicate"]
    assert "is not over, so it cannot be deleted" in found["delete_running"]


def test_stopping_works_at_every_state(report: dict[str, Any]) -> None:
    """A waiting job ends at once, a running one soon, an ended one has nothing to stop."""
    told, status, other = report["stop_waiting"]
    assert (told, status) == (True, "STOPPED")
    assert other == "RUNNING", "it waited for the one before it"
    assert report["stop_running"][:2] == [True, "STOPPED"]
    assert report["stop_running"][2] == 143
    assert report["stop_ended"] is False


def test_a_deleted_job_is_out_of_rays_list_and_still_ours(
    door: Door, report: dict[str, Any]
) -> None:
    """Deleting takes it from the list, frees no name, and loses nothing."""
    done, unknown, listed, again = report["deleted"]
    assert (done, listed) == (True, [])
    assert "already exists" in again
    held = [
        door.server.detail(row["job_id"])["spec"]["ray"]["submission_id"]
        for row in door.server.get("/api/v1/jobs", limit=1000)["jobs"]
        if row["command"] == "sleep 600"
    ]
    name = re.search(r"Job (\S+) does not exist", unknown)
    assert name is not None
    assert name[1] in held


def test_one_socket_spans_all_attempts(report: dict[str, Any]) -> None:
    """A job that is tried again is one stream, with a line between its attempts."""
    text, status = report["again"]
    lines = text.splitlines()
    # Lines of ours before the first are of the queue, where it had to wait.
    between = [at for at, line in enumerate(lines) if "Attempt 1 is over" in line]
    assert len(between) == 1, text
    own = [line for line in lines if not line.startswith("[trackyard]")]
    assert (own, lines[-1], status) == (["first", "second"], "second", "SUCCEEDED")
    assert lines.index("first") < between[0]
    assert "exit code 9" in lines[between[0]]


def test_refusals_are_one_sentence_that_helps(report: dict[str, Any]) -> None:
    """Each refusal names what is wrong and what there is."""
    found = report["refused"]
    assert report["failed"][:2] == ["FAILED", 7]
    assert "7" in report["failed"][2]
    assert "status code 400: metadata key 'trackyard.quue' is not known" in found["key"]
    assert "trackyard.queue" in found["key"]
    assert "there is no queue 'nowhere'" in found["queue"]
    assert "nobodys" in found["team"]
    assert "45m" in found["time"]
    assert "Ray's own" in found["group"]
    assert "Ray's own" in found["node"]
    assert "no node declares the resource 'unicorn'" in found["resource"]
    assert "needs a Ray cluster" in found["conda"]
    assert "gpus 1.5" in found["gpus"]
    assert "Job nothing-of-the-kind does not exist" in found["unknown"]
    assert "Job nothing-of-the-kind does not exist" in found["unknown_logs"]
    assert "404" in found["unknown_tail"]
    assert found["owner_word"] == {"priority": "mine", "team": "red"}
    assert not any("Traceback" in str(text) for text in found.values())


def test_every_way_to_send_a_token_opens_the_door(report: dict[str, Any]) -> None:
    """Header, Ray's header, cookie and address work for calls and the socket; others do not."""
    for name, text in report["tokens"].items():
        # A line of the queue may come first, where the job had to wait a moment.
        assert text.splitlines()[-1] == f"by {name}"
    assert len(report["tokens"]) == 5
    for words in (report["wrong"], report["none"]):
        # The older client shows the status alone, the newer one our sentence first.
        assert re.search(r"401 Client Error|Authentication required: th", words), words


def test_the_command_waits_prints_and_ends_with_the_jobs_result(
    door: Door, generation: str
) -> None:
    """`ray job submit` prints the output and exits with 0 or 1 as the job did."""
    submit = ("job", "submit", "--working-dir", ".", "--", "python", "talk.py")
    well = ray(door, generation, *submit, "0")
    assert well.returncode == 0, well.stdout
    assert "said ['0']" in well.stdout
    assert "succeeded" in well.stdout
    silent = {"RAY_AUTH_MODE": "disabled", "RAY_JOB_HEADERS": "{}"}
    badly = ray(door, generation, *submit, "3", RAY_ADDRESS=basic(door) + "/ray", **silent)
    assert badly.returncode == 1, badly.stdout
    assert "said ['3']" in badly.stdout
    assert "exit code 3" in badly.stdout
    assert door.token not in badly.stdout


def test_the_commands_list_and_follow(door: Door, generation: str) -> None:
    """`ray job logs --follow`, `ray list nodes` and `ray list jobs` work as against a cluster."""
    name = f"listed-{generation}"
    body = {"entrypoint": "echo heard", "submission_id": name, "metadata": {"job_name": name}}
    assert door.server.post("/api/jobs/", **body)["submission_id"] == name
    heard = ray(door, generation, "job", "logs", "--follow", name)
    assert heard.returncode == 0
    assert "heard" in heard.stdout
    headers = {} if generation == "raytrain" else {"RAY_ADDRESS": basic(door)}
    nodes = ray(door, generation, "list", "nodes", "--format", "json", **headers)
    assert '"state": "ALIVE"' in nodes.stdout, nodes.stdout
    assert '"GPU": 1.0' in nodes.stdout
    jobs = ray(door, generation, "list", "jobs", "--filter", f"submission_id={name}", **headers)
    assert name in jobs.stdout, jobs.stdout
    assert "SUCCEEDED" in jobs.stdout


def test_a_large_package_is_taken_as_it_comes(door: Door, generation: str) -> None:
    """120 MiB, more than Ray takes over HTTP, are stored without being held in memory."""
    piece = os.urandom(1024 * 1024)
    name = f"/api/packages/gcs/_ray_pkg_{generation}large.zip"
    before = memory(door)
    sent = door.server.ask("PUT", name, content=(piece for _ in range(120)))
    assert sent.status_code == 200, sent.text
    assert memory(door) - before < 60 * 1024 * 1024
    assert door.server.ask("GET", name).status_code == 200


def memory(door: Door) -> int:
    """Bytes of memory that the server uses."""
    assert door.server.process is not None
    return int(psutil.Process(door.server.process.pid).memory_info().rss)


def basic(door: Door) -> str:
    """The address with its token in it, for commands that send no headers."""
    return door.url.replace("://", f"://me:{door.token}@")


def test_a_following_client_is_told_of_a_restart(
    door: Door, generation: str, tmp_path: Path
) -> None:
    """When the server stops, a waiting command says how to look again and claims no success."""
    server = JobServer(tmp_path / "home", options=("--gpus", "1"))
    server.start()
    place = Door(server, door.folder, door.wheel, server.token, "")
    log, line = tmp_path / "client.log", ("sh", "-c", "echo here; sleep 600")
    with log.open("w") as sink:
        client = subprocess.Popen(
            [python_of(generation).parent / "ray", "job", "submit", "--", *line],
            env=environment_of(place, **exports(place)),
            stdout=sink,
            stderr=sink,
        )
        try:
            until = time.monotonic() + 240
            # Its own words come first; those of the job come once it follows.
            while "\nhere\n" not in log.read_text():
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.1)
            job = server.get("/api/v1/jobs")["jobs"][0]["job_id"]
            server.wait(job, "running")
            server.stop()
            code = client.wait(120)
            said = log.read_text()
            assert "succeeded" not in said
            assert "1006" not in said
            # The last word is ours, as that of a command that did not see the end.
            assert "The server restarts; the job goes on." in said.strip().splitlines()[-1], said
            assert code == 1
        finally:
            client.kill()
            server.start()
            server.post(f"/api/v1/jobs/{job}/stop", grace_seconds=0)
            server.wait(job, "stopped")
            server.stop()
