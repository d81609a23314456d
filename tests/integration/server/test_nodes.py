"""The routes of nodes: who may do what, and what is refused."""

from typing import Any

import pytest

from tests.integration.server.platform import Platform
from trackyard.fleet import nodes
from trackyard.testing.engine import fake_node

PATH = "/api/v1/nodes/g1"


@pytest.fixture
async def fleet(platform: Platform) -> Platform:
    """A platform that has seen one node."""
    reports = [fake_node("g1", gpus=2)]
    await platform.services.database.write(lambda tx: nodes.record(tx, "local", reports))
    return platform


async def test_every_member_reads_nodes_and_only_admins_change_them(fleet: Platform) -> None:
    owner = await fleet.caller("ada", "lab", "owner")
    viewer = await fleet.caller("vic", "lab", "viewer")
    for path in ("/api/v1/nodes", PATH, f"{PATH}/verdicts", "/api/v1/cluster"):
        assert (await fleet.nobody("GET", path)).status == 401
        assert (await viewer("GET", path)).status == 200
    changes: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", f"{PATH}/drain", {"note": "new disk"}),
        ("POST", f"{PATH}/undrain", {}),
        ("POST", f"{PATH}/quarantine", {"why": "burnt"}),
        ("POST", f"{PATH}/undrain", {}),
        ("PUT", f"{PATH}/labels", {"set": {"rack": "r1"}}),
    ]
    for method, path, body in changes:
        assert (await fleet.nobody(method, path, body)).status == 401
        assert (await owner(method, path, body)).status == 403
        assert (await fleet.admin(method, path, body)).status == 200
    view = (await viewer("GET", PATH)).json()
    assert (view["state"], view["own_labels"]) == ("ready", {"rack": "r1"})


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "told"),
    [
        ("GET", "/api/v1/nodes/nosuch", None, 404, "`yard nodes` lists the nodes"),
        ("GET", "/api/v1/nodes/nosuch/verdicts", None, 404, "`yard nodes` lists the nodes"),
        ("GET", f"{PATH}/verdicts?limit=many", None, 400, "limit"),
        ("POST", "/api/v1/nodes/nosuch/drain", {}, 404, "`yard nodes` lists the nodes"),
        ("POST", f"{PATH}/drain", {"state": "asleep"}, 400, "drained or quarantined"),
        ("POST", f"{PATH}/drain", {"until_ms": 1}, 400, "in the future"),
        ("POST", f"{PATH}/drain", {"until_ms": "soon"}, 400, "until_ms"),
        ("POST", f"{PATH}/drain", {"reason": "x"}, 400, "reason"),
        ("POST", f"{PATH}/quarantine", {}, 400, "why"),
        ("POST", f"{PATH}/quarantine", {"why": "  "}, 400, "say why"),
        ("PUT", f"{PATH}/labels", {"set": {"a b": "1"}}, 400, "is no name of a label"),
        ("PUT", f"{PATH}/labels", {"set": {"rack": "x" * 4000}}, 400, "rack"),
        ("PUT", "/api/v1/nodes/nosuch/labels", {"set": {"a": "1"}}, 404, "`yard nodes`"),
    ],
)
async def test_a_bad_request_is_refused_with_a_sentence_and_changes_nothing(
    fleet: Platform, method: str, path: str, body: Any, status: int, told: str
) -> None:
    before = (await fleet.admin("GET", PATH)).json()
    answer = await fleet.admin(method, path, body)
    assert (answer.status, told in answer.json()["message"]) == (status, True), answer.body
    assert (await fleet.admin("GET", PATH)).json() == before
