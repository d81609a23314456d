"""Markup that people send is text wherever it comes back, and files are downloads or sandboxed."""

import re
from urllib.parse import quote

import pytest

from tests.integration.server.platform import Answer, Caller, Platform, new_run, refused

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`${7*7}"


async def test_markup_stays_text(platform: Platform) -> None:
    """Markup in names, tags, paths and headers comes back as JSON text, never as a page."""
    admin = platform.admin
    answer = await admin.mlflow("POST", "experiments/create", {"name": MARKUP})
    assert answer.status == 200
    experiment = answer.json()["experiment_id"]
    run = (await admin.mlflow("POST", "runs/create", {"experiment_id": experiment})).json()
    run_id = run["run"]["info"]["run_id"]
    note = {"run_id": run_id, "key": "mlflow.note.content", "value": MARKUP}
    assert (await admin.mlflow("POST", "runs/set-tag", note)).status == 200
    found = await admin.mlflow("GET", f"runs/get?run_id={run_id}")
    assert found.header("content-type") == "application/json"
    assert {"key": "mlflow.note.content", "value": MARKUP} in found.json()["run"]["data"]["tags"]
    refused(await admin("GET", f"/api/2.0/mlflow/{MARKUP.replace('/', '')}"), 404)
    refused(await admin.mlflow("POST", "runs/set-tag", {**note, "key": MARKUP}), 400)
    answer = await admin(
        "POST", "/api/2.0/mlflow/runs/create", raw=b"{}", headers={"content-type": MARKUP}
    )
    refused(answer, 400)


HTML = b"<!doctype html><script>alert(1)</script>"
FOLDER = "<b>&\"'"
#: Files that a browser would run or render if it were let.
ACTIVE = ("x.html", "x.svg", "x.xml", "x.xhtml", "x.js", "x.md", "MLmodel", "x.yaml", "<i>.htm")


async def _with_files(platform: Platform) -> str:
    """Return a run that holds a file of each kind in a folder named like a tag."""
    run_id = await new_run(platform.admin)
    for name in ACTIVE:
        answer = await platform.admin(
            "PUT",
            f"/api/2.0/mlflow-artifacts/artifacts/0/{run_id}/artifacts/{quote(f'{FOLDER}/{name}')}",
            raw=HTML,
            headers={"content-type": f"text/html; x={MARKUP}"},
        )
        assert answer.status == 200, (name, answer.body)
    return run_id


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_files_with_markup_are_downloads_or_lie_in_a_sandbox(platform: Platform) -> None:
    """No file is part of our own pages: its origin is none, whatever it says it is."""
    run_id = await _with_files(platform)
    for name in ACTIVE:
        path = quote(f"{FOLDER}/{name}")
        for target in (
            f"/api/2.0/mlflow-artifacts/artifacts/0/{run_id}/artifacts/{path}",
            f"/get-artifact?run_id={run_id}&path={path}",
            f"/api/v1/artifacts/preview?run_id={run_id}&path={path}",
        ):
            answer = await platform.admin("GET", target)
            if "preview" in target and name == "x.xhtml":
                refused(answer, 400)
                continue
            assert (answer.status, answer.body) == (200, HTML), target
            policy = (answer.header("content-security-policy") or "").split("; ")
            assert answer.header("x-content-type-options") == "nosniff"
            assert policy[0] in ("sandbox", "sandbox allow-scripts"), (target, policy)
            assert "default-src 'none'" in policy
            assert "allow-same-origin" not in policy[0]
            if "preview" not in target:
                assert policy[0] == "sandbox"
                disposition = answer.header("content-disposition") or ""
                assert disposition.startswith("attachment; filename=")
                assert "<" not in disposition


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_no_route_gives_markup_back_as_a_page(platform: Platform) -> None:
    """Every route that is told markup, by whoever, answers with JSON or plain text."""
    await _with_files(platform)
    text = MARKUP.replace("/", "")
    for route in platform.application.router.routes:
        if route.websocket or route.stays_open or route.path.startswith("/app/"):
            continue
        path = re.sub(r"\{[a-z_.]+\}", quote(text), route.path)
        for caller in (platform.admin, platform.nobody):
            answer = await _told(caller, route.method, path, text)
            kind = answer.header("content-type") or ""
            assert answer.header("x-content-type-options") == "nosniff", path
            if b"<script>alert" in answer.body:
                assert kind.startswith(("application/json", "text/plain")), (path, kind)
            if answer.status >= 400:
                assert kind.startswith(("application/json", "text/plain")), (path, kind)


async def _told(caller: Caller, method: str, path: str, text: str) -> Answer:
    names = ("run_id", "path", "name", "key", "filter", "since", "team", "metric_key", "version")
    if method == "GET":
        query = "&".join(f"{name}={quote(text)}" for name in names)
        return await caller("GET", f"{path}?{query}")
    return await caller(method, path, dict.fromkeys(names, text))
