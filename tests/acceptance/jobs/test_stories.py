"""What a user does with jobs, over the API of a real server with two declared GPUs."""

import hashlib
import io
import sys
import time
import zipfile
from pathlib import Path

import httpx

from tests.acceptance.jobs.yard import SCRIPTS, JobServer, eventually
from trackyard.client import package

PYTHON = sys.executable


def test_a_job_starts_within_half_a_second_on_a_free_gpu(yard: JobServer) -> None:
    """Measured by the server's own clock; on a busy machine, the best of many."""
    waits = [60_000]
    until = time.monotonic() + 120
    while min(waits) >= 500 and time.monotonic() < until:
        job = yard.submit(PYTHON, "-c", "pass", gpus=1)
        detail = yard.wait(job, "succeeded")
        waits.append(detail["job"]["started_ms"] - detail["job"]["submitted_ms"])
    assert min(waits) < 500, waits


def test_a_followed_log_comes_line_by_line_and_ends_with_the_job(
    yard: JobServer, tmp_path: Path
) -> None:
    """Each line arrives before the next is printed; the stream closes by itself."""
    words = f"for n in 1 2 3; do echo $n; until [ -e {tmp_path}/$n ]; do sleep 0.05; done; done"
    job = yard.submit("sh", "-c", words, gpus=1)
    yard.wait(job, "running")
    address = f"{yard.url}/api/v1/jobs/{job}/logs"
    with httpx.stream(
        "GET", address, params={"follow": 1}, headers=yard.headers, timeout=120
    ) as answer:
        heard = []
        for line in answer.iter_lines():
            heard.append(line)
            (tmp_path / line).touch()
    assert heard == ["1", "2", "3"]
    yard.wait(job, "succeeded")


def test_a_packaged_folder_runs_where_it_was_unpacked(yard: JobServer, tmp_path: Path) -> None:
    """The working folder travels by content; the command finds its files there."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words.txt").write_text("from the package\n")
    (tmp_path / "show.py").write_text("print(open('data/words.txt').read(), end='')\n")
    packed = package.build(tmp_path)
    path = f"/api/v1/packages/{packed.digest}"
    assert yard.ask("HEAD", path).status_code == 404
    assert yard.ask("PUT", path, content=packed.content).status_code == 200
    assert yard.ask("HEAD", path).status_code == 200
    job = yard.submit(PYTHON, "show.py", package=packed.digest, gpus=1)
    yard.wait(job, "succeeded")
    assert yard.logs(job) == "from the package\n"


def test_a_damaged_package_fails_the_job_with_a_reason(yard: JobServer) -> None:
    """An archive that would leave its folder is refused by the runner; the job says so."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("../outside.txt", "x")
    digest = hashlib.sha256(target.getvalue()).hexdigest()
    yard.ask("PUT", f"/api/v1/packages/{digest}", content=target.getvalue())
    job = yard.submit(PYTHON, "-c", "pass", package=digest)
    detail = yard.wait(job, "failed")
    assert detail["job"]["cause"] == "setup"
    assert "refused" in detail["job"]["sentence"]


def test_a_higher_class_preempts_and_its_victim_resumes_where_it_saved(yard: JobServer) -> None:
    """The victim saves on notice, waits, and goes on from its checkpoint."""
    victim = yard.submit(
        PYTHON, str(SCRIPTS / "training.py"), "30", "2", gpus=2, preemptible=True, priority="low"
    )
    yard.wait(victim, "running")
    eventually(lambda: "from step 0" in yard.logs(victim))
    urgent = yard.submit(PYTHON, "-c", "print('quick')", gpus=2, priority="high")
    yard.wait(urgent, "succeeded")
    detail = yard.wait(victim, "succeeded")
    assert [one["cause"] for one in detail["attempts"]] == ["preempted", "succeeded"]
    assert detail["attempts"][0]["saved"], (detail["attempts"], yard.logs(victim, attempt=1))
    assert detail["attempts"][1]["resume_step"] > 0
    assert "from step 0" not in yard.logs(victim)


def test_a_time_limit_ends_a_job_and_a_wrong_command_is_named(yard: JobServer) -> None:
    limited = yard.submit(PYTHON, "-c", "import time; time.sleep(600)", time_limit_seconds=1,
                          grace_seconds=1)  # fmt: skip
    wrong = yard.submit("no-such-program", retries=3)
    assert yard.wait(limited, "failed")["job"]["cause"] == "time_limit"
    detail = yard.wait(wrong, "failed")
    assert (detail["job"]["cause"], len(detail["attempts"])) == ("command", 1)
    assert "no-such-program" in detail["job"]["sentence"]
