"""Sweeps over the real queue and database, with the engine played by the test."""

import json

import msgspec
import pytest

from tests.integration.jobs.yard import member
from tests.integration.sweeps.conftest import SweepYard
from trackyard.core.errors import Denied, InvalidInput, NotFound
from trackyard.queue.specification import JobRequest
from trackyard.sweeps.handover import NONE_YET, PATIENCE_MS
from trackyard.sweeps.service import SearchAround, TrainRequest
from trackyard.sweeps.wishes import SweepBudget


async def test_a_sweep_fills_its_slots_and_finishes_with_its_best(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin()
    found = await sweeping.show(sweep)
    assert [trial.job_state for trial in found.trials] == ["starting", "starting", "queued"]
    for number, loss in enumerate((3.0, 1.0, 2.0, 4.0)):
        await sweeping.finish(sweep, number, loss)
    found = await sweeping.show(sweep)
    assert found.sweep.state == "finished"
    assert found.sweep.counts == {"complete": 4}
    assert found.best is not None
    assert (found.best.number, found.best.value) == (1, 1.0)
    assert [one.number for one in found.improvements] == [0, 1]
    assert found.cost.gpu_hours > 0
    run = await sweeping.yard.tracking.run(sweeping.yard.user, found.best.run_id)
    told = msgspec.json.decode(msgspec.json.encode(run))["data"]
    assert {"key": "lr", "value": str(found.best.params["lr"])} in told["params"]
    assert {"key": "yard.sweep", "value": sweep} in told["tags"]
    kinds = [kind for kind, _ in await sweeping.yard.events("sweep.")]
    assert kinds == ["sweep.created", "sweep.improved", "sweep.improved", "sweep.finished"]


async def test_values_reach_the_command_line(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin(
        space={"lr": [0.5], "opt": ["adam"]},
        job=JobRequest(command=["train"], env={"SEED": "hunter2"}),
    )
    spec = sweeping.yard.specs[f"j{sweep[1:]}-0-a1"]
    assert spec.argv == ("train", "--lr", "0.5", "--opt", "adam")
    assert spec.env["SEED"] == "hunter2"
    kept = await sweeping.yard.database.read(lambda r: r.all("SELECT spec, job FROM sweeps"))
    assert "hunter2" not in json.dumps([list(row) for row in kept])


async def test_a_worse_trial_is_stopped_and_frees_its_gpu(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin(stop={"method": "asha", "min": 1, "max": 9})
    for number, loss in enumerate((1.0, 9.0)):
        await sweeping.yard.beat(f"j{sweep[1:]}-{number}")
        await sweeping.report(sweep, number, 1, loss)
    await sweeping.look()
    found = await sweeping.show(sweep)
    assert [trial.state for trial in found.trials] == ["running", "pruned", "running", "running"]
    assert "2 of 2" in found.trials[1].sentence
    assert found.trials[1].job_state == "stopped"
    assert found.trials[2].job_state == "starting"
    assert [(rung.resource, rung.reached, rung.went_on) for rung in found.rungs] == [(1, 2, 1)]
    assert ("sweep.trial_stopped", sweep) in await sweeping.yard.events("sweep.")


async def test_a_new_process_goes_on_where_the_old_one_ended(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin(stop={"method": "asha", "min": 1, "max": 9}, sampler="tpe")
    await sweeping.yard.beat(f"j{sweep[1:]}-0")
    await sweeping.report(sweep, 0, 1, 1.0)
    await sweeping.look()
    before = await sweeping.show(sweep)
    sweeping.restart()
    await sweeping.look()
    after = await sweeping.show(sweep)
    assert [t.params for t in after.trials] == [t.params for t in before.trials]
    assert after.trials[0].rungs == {"1": 1.0}
    for number in range(4):
        await sweeping.finish(sweep, number, float(number))
        sweeping.restart()
    assert (await sweeping.show(sweep)).sweep.state == "finished"
    numbers = [trial.number for trial in (await sweeping.show(sweep)).trials]
    assert numbers == [0, 1, 2, 3]


async def test_a_server_that_does_not_lead_changes_nothing(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin()
    before = await sweeping.show(sweep)
    await sweeping.yard.database.write(
        lambda tx: tx.run("UPDATE leaders SET holder = 'other', epoch = epoch + 1")
    )
    await sweeping.yard.database.write(lambda tx: tx.run("UPDATE jobs SET state = 'failed'"))
    await sweeping.controller.tick()
    after = await sweeping.show(sweep)
    assert [trial.state for trial in after.trials] == [trial.state for trial in before.trials]


async def test_failed_trials_are_told_and_end_the_sweep(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin(max_failed=2)
    for number in range(2):
        job = f"j{sweep[1:]}-{number}"
        await sweeping.yard.beat(job)
        await sweeping.yard.end(job, exit_code=1)
        await sweeping.look()
    found = await sweeping.show(sweep)
    assert found.sweep.state == "failed"
    assert "2 trials failed in a row" in found.sweep.sentence
    assert set(await sweeping.states(sweep)) == {"failed", "stopped"}


async def test_a_trial_without_the_metric_names_the_nearest(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin(slots=1)
    job = f"j{sweep[1:]}-0"
    await sweeping.yard.beat(job)
    await sweeping.yard.log(job, lossy=(1, 1.0))
    await sweeping.yard.end(job)
    await sweeping.look()
    assert "did you mean `lossy`" in (await sweeping.show(sweep)).trials[0].sentence


async def test_a_finished_sweep_is_given_more_trials(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin(budget=SweepBudget(trials=1))
    await sweeping.finish(sweep, 0, 1.0)
    assert (await sweeping.show(sweep)).sweep.state == "finished"
    await sweeping.sweeps.extend(sweeping.yard.user, sweep, SweepBudget(trials=1))
    await sweeping.look()
    await sweeping.finish(sweep, 1, 0.5)
    found = await sweeping.show(sweep)
    assert (found.sweep.state, found.sweep.trials, found.sweep.best_number) == ("finished", 2, 1)


async def test_stopping_ends_its_jobs_and_keeps_what_was_found(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin()
    await sweeping.finish(sweep, 0, 1.0)
    await sweeping.sweeps.stop(sweeping.yard.user, sweep)
    await sweeping.look()
    found = await sweeping.show(sweep)
    assert found.sweep.state == "stopped"
    assert {trial.state for trial in found.trials[1:]} == {"stopped"}
    assert {trial.job_state for trial in found.trials[1:]} == {"stopped"}
    assert found.best is not None


async def test_around_and_train_use_the_best(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin(budget=SweepBudget(trials=2))
    await sweeping.finish(sweep, 0, 1.0)
    await sweeping.finish(sweep, 1, 2.0)
    user = sweeping.yard.user
    best = (await sweeping.show(sweep)).best
    assert best is not None
    made = await sweeping.sweeps.around(
        user, sweep, SearchAround(top=1, budget=SweepBudget(trials=3))
    )
    assert made.sweep is not None
    narrow = await sweeping.show(made.sweep.sweep_id)
    assert narrow.sweep.origin == sweep
    low, high = narrow.space["lr"]["range"]
    assert 0.1 <= low <= best.params["lr"] <= high <= 1
    assert high - low < 0.5
    job = await sweeping.sweeps.train(user, sweep, TrainRequest(values={"epochs": 100}))
    assert job.command == f"train --lr {best.params['lr']} --epochs 100"
    assert job.array_id == ""


async def test_the_same_key_makes_one_sweep(sweeping: SweepYard) -> None:
    first = await sweeping.begin(key="again")
    assert await sweeping.begin(key="again") == first
    found = await sweeping.sweeps.listing(sweeping.yard.user, 10)
    assert [one.sweep_id for one in found.sweeps] == [first]


async def test_sweeps_belong_to_their_team_and_user(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin()
    directory = sweeping.yard.directory
    other = await member(directory, "bob", "elsewhere")
    with pytest.raises(NotFound):
        await sweeping.sweeps.detail(other, sweep)
    mate = await member(directory, "cid", "lab")
    with pytest.raises(Denied, match="is ann's"):
        await sweeping.sweeps.stop(mate, sweep)


async def test_a_user_who_left_begins_no_more_trials(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin(budget=SweepBudget(trials=9))
    await sweeping.yard.directory.disable_user("ann", actor="test")
    count = len((await sweeping.show(sweep)).trials)
    await sweeping.finish(sweep, 0, 1.0)
    found = await sweeping.show(sweep)
    assert len(found.trials) == count
    assert "may not submit jobs" in found.sweep.sentence


async def test_bad_wishes_are_refused_before_anything_is_kept(sweeping: SweepYard) -> None:
    with pytest.raises(InvalidInput, match="gpus"):
        await sweeping.begin(job=JobRequest(command=["train"], gpus=1.5))
    with pytest.raises(InvalidInput, match="no queue"):
        await sweeping.begin(job=JobRequest(command=["train"], queue="none"))
    assert (await sweeping.sweeps.listing(sweeping.yard.user, 10)).sweeps == []


async def test_a_copy_begins_with_the_checkpoint_of_its_parent(sweeping: SweepYard) -> None:
    sweep = await sweeping.begin(
        stop={"method": "pbt", "interval": 2, "quantile": 0.5},
        budget=SweepBudget(trials=3),
        space={"lr": {"range": [0.1, 1]}},
    )
    for number in range(2):
        await sweeping.yard.beat(f"j{sweep[1:]}-{number}")
    await keep_checkpoint(sweeping, sweep, 0)
    for number, loss in enumerate((1.0, 9.0)):
        await sweeping.report(sweep, number, 2, loss)
    await sweeping.look()
    found = await sweeping.show(sweep)
    assert [trial.state for trial in found.trials] == ["running", "pruned", "running"]
    assert found.trials[2].parent == 0
    copied = await sweeping.artifacts.files(found.trials[2].run_id, "", 10)
    assert [one.path for one in copied] == [
        "checkpoints/latest.json",
        "checkpoints/step-2/manifest.json",
        "checkpoints/step-2/state.json",
    ]
    assert found.trials[2].job_state == "starting"
    spec = sweeping.yard.specs[f"j{sweep[1:]}-2-a1"]
    assert spec.platform_env["YARD_CHECKPOINT_UPLOAD"] == "run"


@pytest.mark.parametrize("is_uploaded", [True, False])
async def test_a_copy_waits_for_the_first_checkpoint_of_its_parent_but_not_forever(
    sweeping: SweepYard, is_uploaded: bool
) -> None:
    sweep = await sweeping.begin(
        stop={"method": "pbt", "interval": 2, "quantile": 0.5}, budget=SweepBudget(trials=3)
    )
    for number, loss in enumerate((1.0, 9.0)):
        await sweeping.yard.beat(f"j{sweep[1:]}-{number}")
        await sweeping.report(sweep, number, 2, loss)
    await sweeping.look()
    copy = (await sweeping.show(sweep)).trials[2]
    assert (copy.parent, copy.job_state) == (0, "queued")
    if is_uploaded:
        await keep_checkpoint(sweeping, sweep, 0)
    else:
        await sweeping.yard.beat(f"j{sweep[1:]}-0")
        await sweeping.yard.tick(PATIENCE_MS / 1000)
    await sweeping.look()
    copy = (await sweeping.show(sweep)).trials[2]
    assert copy.job_state == "starting"
    assert copy.sentence == ("" if is_uploaded else NONE_YET.format(parent=0))


async def keep_checkpoint(sweeping: SweepYard, sweep: str, number: int) -> None:
    """Upload a checkpoint as the script of a trial would."""
    run = (await sweeping.show(sweep)).trials[number].run_id
    owner = await sweeping.artifacts.owner(sweeping.yard.user, run, to_write=True)
    files = {
        "step-2/state.json": {"step": 2},
        "step-2/manifest.json": {},
        "old/state.json": {},
        "latest.json": {"name": "step-2", "step": 2},
    }
    for name, content in files.items():
        await sweeping.artifacts.put(
            sweeping.yard.user, owner, f"checkpoints/{name}", once(msgspec.json.encode(content))
        )


async def once(data: bytes):
    yield data
