"""The heaviest requests about sweeps: one with a thousand trials, and those that end or copy one.

Owns what is made for them. The controller does not run here, so trials are written as rows.
"""

from typing import Any

from tests.integration.server.heavy_made import Ask, asks
from tests.integration.server.heavy_world import World
from trackyard.store.database import Tx

PATH = "/api/v1/sweeps"


def wish(number: int, **more: Any) -> dict[str, Any]:
    return {
        "name": f"sweep{number}",
        "metric": "loss",
        "space": {f"p{n}": {"range": [0, 1]} for n in range(50)},
        "sampler": "random",
        "budget": {"trials": 10_000},
        "slots": 1000,
        "job": {"command": ["true"]},
    } | more


async def with_trials(world: World, state: str = "complete") -> str:
    """Make a sweep whose trials are the jobs of the great array."""
    made = await world.ok("POST", PATH, wish(world.fresh()))
    sweep = str(made.json()["sweep"]["sweep_id"])
    params = "{" + ",".join(f'"p{n}":0.5' for n in range(50)) + "}"

    def fill(tx: Tx) -> None:
        tx.run(
            "UPDATE sweeps SET array_id = 'was-' || sweep_id WHERE array_id = ?", (world.array,)
        )
        tx.run("UPDATE sweeps SET array_id = ? WHERE sweep_id = ?", (world.array, sweep))
        tx.run("DELETE FROM sweep_trials")
        tx.run(
            "INSERT INTO sweep_trials (sweep, number, job, state, params, attributes, value, step,"
            " bracket, rungs, curve, sentence, gpu_seconds, created_ms)"
            " SELECT s.id, j.array_index, j.id, ?, ?, '{}', 1.0, 1, 0, '{\"1\":1.0}', '[[1,1.0]]',"
            " '', 0, 0 FROM sweeps s, jobs j WHERE s.sweep_id = ? AND j.array_id = ?"
            " AND j.array_index < 1000",
            (state, params, sweep, world.array),
        )

    await world.platform.services.database.write(fill, is_long=True)
    return sweep


@asks(f"POST {PATH}")
async def _create(world: World) -> Ask:
    job = {"command": ["true"], "env": {f"V{n}": "x" * 400 for n in range(500)}}
    space = {f"p{n}": {"int": [1, 10]} for n in range(4)}
    return Ask(body=wish(world.fresh(), job=job, space=space, sampler="grid"))


@asks(f"GET {PATH}")
async def _list(world: World) -> Ask:
    await with_trials(world)
    for _ in range(50):
        await world.ok("POST", PATH, wish(world.fresh()))
    return Ask(query=[("limit", 500)])


@asks(f"GET {PATH}/{{sweep}}")
async def _show(world: World) -> Ask:
    return Ask(path={"sweep": await with_trials(world)})


@asks(f"POST {PATH}/{{sweep}}/stop")
async def _stop(world: World) -> Ask:
    return Ask(path={"sweep": await with_trials(world, "running")}, body={})


@asks(f"POST {PATH}/{{sweep}}/extend")
async def _extend(world: World) -> Ask:
    return Ask(path={"sweep": await with_trials(world)}, body={"trials": 10})


@asks(f"POST {PATH}/{{sweep}}/around")
async def _around(world: World) -> Ask:
    body = {"top": 1000, "budget": {"trials": 10}}
    return Ask(path={"sweep": await with_trials(world)}, body=body)


@asks(f"POST {PATH}/{{sweep}}/train")
async def _train(world: World) -> Ask:
    values = {f"v{n}": "x" * 500 for n in range(100)}
    return Ask(path={"sweep": await with_trials(world)}, body={"values": values})


@asks(f"POST {PATH}/{{sweep}}/register")
async def _register(world: World) -> Ask:
    sweep = await with_trials(world)
    shown = await world.ok("GET", f"{PATH}/{sweep}")
    run = shown.json()["trials"][0]["run_id"]
    root = f"/api/2.0/mlflow-artifacts/artifacts/0/{run}/artifacts"
    await world.ok("PUT", f"{root}/model/MLmodel", raw=b"flavors: {}")
    return Ask(path={"sweep": sweep}, body={"model": f"best{world.fresh()}", "trial": 0})
