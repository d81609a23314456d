"""Sweeps as users run them: by command, with real processes, through kills of the server."""

import shlex
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.acceptance.jobs_cli.yarding import SCRIPTS, SOURCE, Yard
from tests.acceptance.serving import ROOT

FILE = """
name: mlp
metric: val_loss
space:
  lr: {log: [1e-5, 1e-1]}
  layers: {int: [1, 5]}
sampler: tpe
stop: {method: asha, min: 1, max: 9, eta: 3}
budget: {trials: 8}
slots: 2
job: {gpus: 0.5, cpus: 0.1}
"""
COMMAND = ["--working-dir", str(SCRIPTS), "--env", SOURCE, "--", sys.executable, "sweep_train.py"]


def until(yard: Yard, sweep: str, test: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Look at a sweep until something is so."""
    ends = time.monotonic() + 200
    while True:
        found: dict[str, Any] = yard.read("sweeps", "show", sweep)
        if test(found):
            return found
        assert time.monotonic() < ends, f"not so: {found}"
        time.sleep(0.2)


def ended(found: dict[str, Any]) -> int:
    counts = found["sweep"]["counts"]
    return sum(count for state, count in counts.items() if state != "running")


def test_a_sweep_whose_server_is_killed_twice_ends_with_every_trial_once(
    yard_with: Callable[..., Yard],
) -> None:
    yard = yard_with()
    (yard.folder / "sweep.yaml").write_text(FILE)
    sweep = yard.ok("sweep", "-q", "sweep.yaml", *COMMAND).strip()
    for count in (1, 4):
        until(yard, sweep, lambda found, count=count: ended(found) >= count)
        yard.server.kill()
        yard.server.start()
    found = until(yard, sweep, lambda found: found["sweep"]["state"] != "running")
    assert found["sweep"]["state"] == "finished"
    assert [trial["number"] for trial in found["trials"]] == list(range(8))
    assert {trial["state"] for trial in found["trials"]} <= {"complete", "pruned"}
    assert found["best"]["value"] == min(
        trial["value"] for trial in found["trials"] if trial["state"] == "complete"
    )
    # An ended sweep takes more, and its best is trained in full.
    yard.ok("sweeps", "add", sweep, "--trials", "1")
    until(yard, sweep, lambda found: ended(found) == 9 and found["sweep"]["state"] == "finished")
    job = yard.ok("sweeps", "train", sweep, "--set", "epochs=2").strip()
    page = yard.until_state(job, "succeeded", "failed")
    assert page["job"]["state"] == "succeeded"
    assert page["job"]["command"].endswith("--epochs 2")


def test_a_population_hands_its_checkpoints_on(yard_with: Callable[..., Yard]) -> None:
    yard = yard_with()
    sweep = yard.ok(
        "sweep", "-q", "--name", "population", "--param", "lr=log:1e-5:1e-1",
        "--metric", "val_loss", "--stop", "pbt:interval=4,quantile=0.5", "--sampler", "random",
        "--trials", "3", "--slots", "2", "--cpus", "0.1",
        *COMMAND, "--save", "--model", "--epochs", "12", "--sleep", "0.5",
    ).strip()  # fmt: skip
    found = until(yard, sweep, lambda found: found["sweep"]["state"] != "running")
    assert found["sweep"]["state"] == "finished"
    copies = [trial for trial in found["trials"] if trial["parent"] is not None]
    assert len(copies) == 1
    assert "goes on after" in yard.logs(copies[0]["job_id"])
    assert copies[0]["step"] == 12
    # What the best trial logged as a model becomes a version.
    best = found["best"]["number"]
    said = yard.ok("sweeps", "register", sweep, "mlp").strip()
    assert said == f"mlp version 1 is trial {best}"
    assert "holds no MLflow model" in yard.run("sweeps", "register", sweep, "mlp", "--trial",
                                               _pruned(found)).err  # fmt: skip


def _pruned(found: dict[str, Any]) -> str:
    return next(str(one["number"]) for one in found["trials"] if one["state"] == "pruned")


def test_what_the_page_shows_is_understood(shared: Yard) -> None:
    """The file and the flags of docs/sweeps.md, as they are written there."""
    page = (ROOT / "docs" / "sweeps.md").read_text()
    (shared.folder / "sweep.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])
    (shared.folder / "train.py").write_text("")
    lines = [
        line for line in page.replace("\\\n", "").splitlines() if line.startswith("yard sweep ")
    ]
    assert len(lines) == 2
    for line in lines:
        before, after = shlex.split(line)[1:], []
        at = before.index("--")
        before, after = before[:at], before[at:]
        shown = shared.ok(*before, "--dry-run", *after).splitlines()
        assert len(shown) == 3
        assert all(one.startswith("python train.py --lr ") for one in shown)


def test_bad_input_has_its_sentence(shared: Yard) -> None:
    def refused(*words: str) -> str:
        said = shared.run("sweep", *words, "--no-working-dir", "--", "true")
        assert said.code == 2
        assert said.out == ""
        return said.err

    space = ("--param", "lr=0.1,0.2", "--metric", "loss")
    assert "needs a budget" in refused(*space)
    assert "did you mean `asha`" in refused(*space, "--trials", "2", "--stop", "ahsa")
    assert "did you mean `random`" in refused(*space, "--trials", "2", "--sampler", "randm")
    assert "a metric and a space" in refused("--trials", "2")
    (shared.folder / "wrong.yaml").write_text("metrik: loss\n")
    assert "did you mean `metric`" in refused("wrong.yaml")
    (shared.folder / "job.yaml").write_text("metric: loss\nspace: {a: [1]}\njob: {gpu: 1}\n")
    assert "did you mean `gpus`" in refused("job.yaml")
    shown = shared.ok("sweep", *space, "--trials", "2", "--sampler", "grid", "--dry-run",
                      "--no-working-dir", "--", "python", "train.py")  # fmt: skip
    assert shown.splitlines() == ["python train.py --lr 0.1", "python train.py --lr 0.2"]
    assert shared.run("sweeps", "show", "nothing").code == 3
