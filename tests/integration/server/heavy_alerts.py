"""Requests of alerts and log policies, by their labels: what is made first for each of them."""

from typing import Any

from tests.integration.server.heavy_made import Ask, asks
from tests.integration.server.heavy_world import World
from trackyard.store.database import Tx

_RULE = "loss > {number} for 5m"


async def _post(world: World, path: str, body: Any) -> Any:
    return await world.mlflow(path, body, prefix="/api/v1/")


async def _incident(world: World, many: int = 1) -> int:
    """Write incidents as rules would."""

    def operation(tx: Tx) -> int:
        newest = 0
        for _ in range(many):
            newest = tx.insert(
                "INSERT INTO alert_incidents (team_id, text, severity, subject_kind, subject_id,"
                " subject_name, job_id, sentence, state, times, opened_ms, last_ms)"
                " VALUES (NULL, 'loss > 10', 'warning', 'node', ?, 'g1', '', ?, 'open', 1, 1, 1)",
                ("n" * 200, "s" * 2000),
            )
        return newest

    return await world.platform.services.database.write(operation)


@asks("GET /api/v1/incidents")
async def _many_incidents(world: World) -> Ask:
    await _incident(world, 500)
    return Ask(query=[("state", "open")])


async def _rule(world: World) -> str:
    body = {"text": _RULE.format(number=world.fresh()), "via": ["inbox"]}
    return str((await _post(world, "alerts", body))["id"])


@asks("POST /api/v1/alerts")
async def _add_rule(world: World) -> Ask:
    text = f"{'m' * 250} > {world.fresh()} for 5m"
    return Ask(body={"text": text, "via": ["inbox"] * 8, "escalate_seconds": 60})


@asks("DELETE /api/v1/alerts/{alert}")
async def _remove_rule(world: World) -> Ask:
    return Ask(path={"alert": await _rule(world)})


@asks("POST /api/v1/incidents/{incident}/acknowledge")
async def _acknowledge(world: World) -> Ask:
    return Ask(path={"incident": str(await _incident(world))})


@asks("POST /api/v1/silences")
async def _silence(world: World) -> Ask:
    return Ask(body={"seconds": 60, "subject_id": "x" * 1000, "reason": "y" * 1000})


@asks("DELETE /api/v1/silences/{silence}")
async def _unsilence(world: World) -> Ask:
    made = await _post(world, "silences", {"seconds": 60, "subject_id": "x"})
    return Ask(path={"silence": made["id"]})


async def _channel(world: World) -> str:
    name = f"c{world.fresh()}"
    body = {"name": name, "kind": "webhook", "target": "http://127.0.0.1:9/x"}
    await _post(world, "alert-channels", body)
    return name


@asks("POST /api/v1/alert-channels")
async def _add_channel(world: World) -> Ask:
    target = "http://127.0.0.1:9/" + "x" * 1900
    body = {"name": f"c{world.fresh()}", "kind": "webhook", "target": target}
    return Ask(body=body | {"secret": "s" * 1000})


@asks("DELETE /api/v1/alert-channels/{channel}")
@asks("POST /api/v1/alert-channels/{channel}/test")
async def _one_channel(world: World) -> Ask:
    return Ask(path={"channel": await _channel(world)})


@asks("POST /api/v1/inbox/read")
async def _read_inbox(world: World) -> Ask:
    return Ask(body={"up_to": 2**62})


@asks("POST /api/v1/log-policies")
async def _add_policy(world: World) -> Ask:
    return Ask(body={"pattern": "x" * 300, "label": "l" * 60, "message": "m" * 500})


@asks("DELETE /api/v1/log-policies/{policy}")
async def _remove_policy(world: World) -> Ask:
    made = await _post(world, "log-policies", {"pattern": "xid", "label": "l"})
    return Ask(path={"policy": made["id"]})
