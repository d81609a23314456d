"""What a user types and sees: exit codes, logs, files, runs, watching, and words when it fails."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.jobs_cli.yarding import SCRIPTS, Said, Yard
from tests.acceptance.serving import ROOT, pairs, python_of

NOTHING = "--no-working-dir"
FIRST_JOB = ROOT / "examples" / "first_job"


def test_the_first_job_of_the_readme_runs_and_leaves_its_history(shared: Yard, tmp_path) -> None:
    code = tmp_path / "first_job"
    shutil.copytree(FIRST_JOB, code)
    said = shared.run("submit", "-f", "job.yaml", "--wait", folder=code)
    assert said.code == 0, said.err
    job = said.out.strip()
    assert f"yard logs -f {job}" in said.err
    assert "starts      now" in said.err
    assert "package     2 files" in said.err
    printed = shared.logs("first-job")
    assert "step 200/200 loss 0.009453" in printed
    assert "final loss 0.00945337" in printed
    page = shared.page(job)
    assert page["job"]["experiment_id"] != "0"
    assert [one["state"] for one in page["attempts"]] == ["succeeded"]
    assert page["checkpoints"][0]["step"] == 200
    assert page["gpu_seconds"] > 0
    shown = shared.ok("show", "first-job")
    for words in ("gpu-hours", "wait", "wall", "CHECKPOINT", "ATTEMPT", page["job"]["run_id"]):
        assert words in shown


def test_follow_prints_the_log_and_ends_with_the_class_of_the_job(shared: Yard) -> None:
    good = shared.run(
        "submit", "--follow", NOTHING, "--", "sh", "-c", "echo one; sleep 0.3; echo two"
    )
    assert (good.code, good.out) == (0, "one\ntwo\n")
    bad = shared.run("submit", "-q", "--follow", NOTHING, "--", "sh", "-c", "echo oh no; exit 7")
    assert (bad.code, bad.out, bad.err) == (1, "oh no\n", "")
    told = shared.run("submit", "--json", "--wait", NOTHING, "--", "sh", "-c", "exit 7")
    assert told.code == 1
    assert told.data["jobs"][0]["state"] == "failed"
    assert "7" in told.data["jobs"][0]["sentence"]


def test_logs_follow_a_job_over_its_attempts(shared: Yard, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"echo attempt; until [ -e {gate} ]; do sleep 0.1; done; "
    script += 'test -e "$YARD_CHECKPOINT_DIR/x" || { touch "$YARD_CHECKPOINT_DIR/x"; exit 3; }; '
    job = shared.submit("--retries", "1", NOTHING, "--", "sh", "-c", f"{script} echo done")
    follower = shared.start("logs", "-f", job)
    try:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "attempt\n"
        gate.touch()
        out, err = follower.communicate(timeout=240)
    finally:
        follower.kill()
    assert (follower.returncode, out) == (0, "attempt\ndone\n")
    assert "--- attempt 2 ---" in err
    assert shared.logs(job, "--attempt", "1") == "attempt\n"
    assert shared.logs(job, "--tail", "1") == "done\n"
    lines = [json.loads(line) for line in shared.ok("logs", job, "--json").splitlines()]
    assert lines == [
        {"attempt": 2, "rank": 0, "line": "attempt"},
        {"attempt": 2, "rank": 0, "line": "done"},
    ]
    assert shared.run("logs", job, "--attempt", "9").code == 2


def test_the_log_of_a_gang_is_told_by_rank(yard_with: Callable[..., Yard], tmp_path: Path) -> None:
    """Two nodes: all lines with their rank, or those of one; what failed is tried on the other."""
    config = tmp_path / "two-nodes.toml"
    config.write_text("declared_nodes = 2\n")
    yard = yard_with("--config", str(config), gpus=1)
    script = "echo rank $RANK of $WORLD_SIZE; sleep 0.3; echo end $RANK"
    job = yard.submit("--nodes", "2", "--gpus", "1", NOTHING, "--", "sh", "-c", script)
    page = yard.until_state(job, "succeeded", "failed")
    assert page["job"]["state"] == "succeeded", page
    (attempt,) = page["attempts"]
    assert (attempt["ranks"], sorted(attempt["nodes"])) == (2, ["node-0", "node-1"])
    for rank in ("0", "1"):
        assert yard.logs(job, "--rank", rank) == f"rank {rank} of 2\nend {rank}\n"
    both = yard.logs(job).splitlines()
    assert both == [
        f"[rank {rank}] {text}" for rank in (0, 1) for text in (f"rank {rank} of 2", f"end {rank}")
    ]
    lines = [
        json.loads(line) for line in yard.ok("logs", job, "--rank", "1", "--json").splitlines()
    ]
    assert {line["rank"] for line in lines} == {1}
    assert yard.run("logs", job, "--rank", "2").code == 3
    again = yard.submit("--gpus", "1", "--retries", "1", NOTHING, "--", "sh", "-c", "exit 3")
    attempts = yard.until_state(again, "failed")["attempts"]
    assert sorted(attempt["nodes"][0] for attempt in attempts) == ["node-0", "node-1"]


def test_why_names_the_smaller_request_that_would_start_now(shared: Yard) -> None:
    """One of two GPUs is taken: who asks for two waits, and is told that one would start."""
    shared.until_state(shared.submit("--gpus", "1", NOTHING, "--", "sleep", "600"), "running")
    job = shared.submit("--gpus", "2", NOTHING, "--", "true")
    shared.until(job, lambda page: page["reasons"][0]["tier"] != "evaluating")
    assert "smaller    Drop to 1 GPU: starts now." in shared.ok("why", job)
    assert shared.read("why", job)["smaller"][0]["gpus"] == 1.0
    listed = {one["job_id"]: one for one in shared.read("ps")}
    assert listed[job]["position"] == 1
    shared.ok("requeue", job, "--gpus", "1")
    shared.until_state(job, "succeeded")


def test_mlflow_calls_inside_a_job_land_in_its_run_unmodified(shared: Yard) -> None:
    job = shared.submit(
        "--experiment", "inside", "--working-dir", str(SCRIPTS), "--",
        str(python_of("mlflow3")), "logs_to_mlflow.py",
    )  # fmt: skip
    page = shared.until_state(job, "succeeded", "failed", patience=240)
    assert page["job"]["state"] == "succeeded", shared.logs(job)
    run = shared.read("show", page["job"]["run_id"])
    assert pairs(run["run"]["data"]["params"]) == {"lr": "0.1"}
    loss = next(row for row in run["metrics"] if row["key"] == "loss")
    assert (loss["last"], loss["min"], loss["max"], loss["step"]) == (0.2, 0.2, 1.0, 4)
    assert pairs(run["run"]["data"]["tags"])["from"] == "inside"
    assert run["run"]["info"]["status"] == "FINISHED"
    assert run["experiment_name"] == "inside"
    # One run, the job's own; the script made no second one.
    assert [row["run_id"] for row in shared.read("runs", "-e", "inside")] == [
        page["job"]["run_id"]
    ]


def test_the_working_folder_is_sent_as_git_sees_it_and_its_commit_is_on_the_run(
    shared: Yard, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    (code / "data").mkdir(parents=True)
    (code / ".gitignore").write_text("data/\n*.log\n")
    (code / "data" / "huge.bin").write_bytes(b"0" * 100)
    (code / "old.log").write_text("old")
    (code / "train.sh").write_text("ls -A; exit 0\n")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=code, check=True)
    (code / "train.sh").write_text("ls -A; exit 0  # changed\n")
    said = shared.run("submit", "--follow", "--", "sh", "train.sh", folder=code)
    assert said.out.split() == [".gitignore", "train.sh"]
    page = shared.page(shared.ok("ps", "-a", "-q", "-n", "1").strip())
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=code, check=True, capture_output=True, text=True
    ).stdout.strip()
    assert page["spec"]["source"]["commit"] == head
    assert page["spec"]["source"]["dirty"]
    tags = pairs(shared.read("show", page["job"]["run_id"])["run"]["data"]["tags"])
    assert tags["mlflow.source.git.commit"] == head
    assert tags["mlflow.source.git.branch"] == "main"
    assert "# changed" in tags["yard.git.diff"]


def test_a_folder_over_the_limit_is_refused_with_its_largest_files(
    shared: Yard, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    with (code / "weights.bin").open("wb") as file:
        file.truncate(101 * 1024**2)
    said = shared.run("submit", "--", "true", folder=code)
    assert said.code == 2
    assert "weights.bin (101.0 MiB)" in said.err
    assert "hint:" in said.err
    assert shared.run("submit", "-q", "--exclude", "*.bin", "--", "true", folder=code).code == 0


def test_watching_as_json_prints_one_object_a_line_when_it_changes(shared: Yard) -> None:
    job = shared.submit("--hold", NOTHING, "--", "sleep", "600")
    watcher = shared.start("show", job, "--json", "-w", "--interval", "0.1")
    try:
        assert watcher.stdout is not None
        states = [_state(watcher.stdout.readline())]
        shared.ok("release", job)
        while states[-1] != "running":
            states.append(_state(watcher.stdout.readline()))
        shared.ok("stop", "--now", job)
        states += [_state(line) for line in watcher.stdout]
    finally:
        watcher.kill()
        watcher.wait()
    assert states[0] == "held"
    assert states[-1] == "stopped"


def _state(line: str) -> str:
    job = json.loads(line)["job"]
    return "held" if job["held"] and job["state"] == "queued" else str(job["state"])


def test_a_job_is_held_released_and_queued_again(shared: Yard) -> None:
    job = shared.submit("--hold", "--name", "again", NOTHING, "--", "true")
    assert shared.until(job, lambda page: page["reasons"])["reasons"][0]["code"] == "held"
    shared.ok("release", "again")
    shared.until_state(job, "succeeded")
    shared.ok("requeue", "again")
    page = shared.until(job, lambda page: len(page["attempts"]) == 2)
    assert page["job"]["job_id"] == job
    shared.until_state(job, "succeeded")


def test_every_fault_has_its_exit_code_what_and_hint(shared: Yard, tmp_path: Path) -> None:
    missing = shared.run("show", "jaaaaaaaaaa")
    assert (missing.code, missing.out) == (3, "")
    assert missing.err.startswith("error: no job 'jaaaaaaaaaa'")
    assert "`yard ps`" in missing.err
    usage = shared.run("submit", "--time", "90", NOTHING, "--", "true")
    assert usage.code == 2
    assert usage.err == (
        "error: --time '90' is not a length of time\n\n"
        "hint: write it with units, as in 90s, 45m, 2h30m or 1d; or as 12:00:00\n"
    )
    assert shared.run("submit", "--frob").code == 2
    assert shared.run("submit", "--env", "LD_PRELOAD=x", NOTHING, "--", "true").code == 2
    denied = Yard(shared.server, shared.folder, token="yard_wrong").run("ps")
    assert denied.code == 4
    assert "hint: `yard login`" in denied.err
    viewer = shared.ok("token", "create", "--role", "viewer").split()[-1]
    refused = Yard(shared.server, shared.folder, token=viewer).run("submit", NOTHING, "--", "true")
    assert refused.code == 4
    environment = {**shared.environment(), "YARD_URL": "http://127.0.0.1:1"}
    away = subprocess.run(
        [sys.executable, "-m", "trackyard.cli.main", "ps"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert away.returncode == 5
    assert "hint: start one with `yard up`" in away.stderr


def test_waiting_goes_on_over_a_restart_of_the_server(
    yard_with: Callable[..., Yard], tmp_path: Path
) -> None:
    yard = yard_with()
    gate = tmp_path / "gate"
    script = f"echo before; until [ -e {gate} ]; do sleep 0.1; done; echo after; exit 4"
    waiter = yard.start("submit", "--follow", NOTHING, "--", "sh", "-c", script)
    try:
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "before\n"
        yard.server.kill()
        gone = _by_home_alone(yard, "ps")
        assert (gone.code, gone.out) == (5, "")
        assert gone.err.startswith(f"error: the server of {yard.server.home} is not running")
        yard.server.start()
        gate.touch()
        told = _by_home_alone(yard, "env", "--json").data
        assert (told["RAY_ADDRESS"], told["YARD_TOKEN"]) == (yard.server.url, yard.server.token)
        out, err = waiter.communicate(timeout=240)
    finally:
        waiter.kill()
    assert (waiter.returncode, out) == (1, "after\n")
    (job,) = yard.read("ps", "-a")
    assert (job["attempt"], job["state"]) == (1, "failed")
    assert job["job_id"] in err


def _by_home_alone(yard: Yard, *words: str) -> Said:
    """Run a command that is told of the home folder and of nothing else."""
    environment = {**yard.environment(), "YARD_HOME": str(yard.server.home)}
    for name in ("YARD_URL", "YARD_TOKEN"):
        del environment[name]
    done = subprocess.run(
        [sys.executable, "-m", "trackyard.cli.main", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("verb", ["ps", "nodes", "queues", "teams", "top"])
def test_every_read_speaks_json(shared: Yard, verb: str) -> None:
    assert isinstance(shared.read(verb), list | dict)
    # Nothing but the data is on stdout, and a pipe gets neither colour nor prompt.
    assert "\x1b" not in shared.ok(verb)


def test_in_a_terminal_the_plan_comes_first_and_no_means_no(shared: Yard) -> None:
    words = ["submit", "--gpus", "2", "--name", "asked", NOTHING, "--", "true"]
    said, code = typed(shared, words, until="queue it? [Y/n]", answer="n\n")
    assert code == 1
    assert "asks for    2 gpus" in said
    assert "nothing was queued" in said
    assert shared.read("ps", "-a", "--name", "asked") == []
    said, code = typed(shared, words, until="queue it? [Y/n]", answer="\n")
    assert code == 0
    (job,) = shared.read("ps", "-a", "--name", "asked")
    assert f"yard stop {job['job_id']}" in said
    # With -y nobody is asked, terminal or not.
    said, code = typed(shared, ["submit", "-y", *words[1:]])
    assert code == 0
    assert "queue it?" not in said


def test_top_draws_the_yard_and_quits_on_q(shared: Yard) -> None:
    job = shared.submit("--gpus", "1", "--name", "shown", NOTHING, "--", "sleep", "600")
    shared.until_state(job, "running")
    said, code = typed(shared, ["top", "--interval", "0.2"], until=job, answer="q")
    assert code == 0
    assert "gpus in use" in said
    assert "Traceback" not in said


def typed(yard: Yard, words: list[str], until: str = "", answer: str = "") -> tuple[str, int]:
    """Run a command in a terminal; once it has said `until`, type the answer."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "trackyard.cli.main", *words],
        cwd=yard.folder,
        env={**yard.environment(), "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said, ends = "", time.monotonic() + 150
    try:
        while time.monotonic() < ends:
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            said += piece.decode(errors="replace")
            if answer and until in said:
                os.write(ours, answer.encode())
                answer = ""
        return said, process.wait(60)
    finally:
        process.kill()
        os.close(ours)


def test_ctrl_c_ends_a_watch_quietly(shared: Yard) -> None:
    watcher = shared.start("ps", "-w")
    job = shared.submit(NOTHING, "--", "sleep", "600")
    assert watcher.stdout is not None
    while job not in watcher.stdout.readline():
        pass
    os.kill(watcher.pid, signal.SIGINT)
    _, err = watcher.communicate(timeout=120)
    assert watcher.returncode == 130
    assert "Traceback" not in err
