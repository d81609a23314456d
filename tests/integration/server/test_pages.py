"""What the pages read beyond the table: cells of known runs, names, the shell under a path."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from tests.integration.server.platform import Platform
from trackyard.server.http.messages import Request
from trackyard.server.routes.platform.web import WebRoutes


async def _run(platform: Platform, name: str, **values: str) -> str:
    made = await platform.admin.mlflow(
        "POST", "runs/create", {"experiment_id": "0", "run_name": name}
    )
    run_id: str = made.json()["run"]["info"]["run_id"]
    batch = {
        "run_id": run_id,
        "params": [{"key": key, "value": value} for key, value in values.items()],
        "metrics": [{"key": "loss", "value": float(len(name)), "step": 3, "timestamp": 1}],
    }
    assert (await platform.admin.mlflow("POST", "runs/log-batch", batch)).status == 200
    return run_id


async def test_cells_come_in_the_order_asked_without_unknown_runs(platform: Platform) -> None:
    """Columns of known runs keep the caller's order; an id nobody has is left out."""
    first, second = await _run(platform, "one", lr="0.1"), await _run(platform, "three")
    wish = {"run_ids": [second, "0" * 32, first], "metrics": ["loss"], "params": ["lr"]}
    found = (await platform.admin("POST", "/api/v1/runs/columns", wish)).json()
    assert found["run_id"] == [second, first]
    assert found["metrics"]["loss"]["last"] == [5.0, 3.0]
    assert found["params"]["lr"] == [None, "0.1"]


async def test_cells_of_another_team_stay_unseen(platform: Platform) -> None:
    """A stranger who knows an id gets no row for it, and no error that would confirm it."""
    mine = await _run(platform, "secret")
    stranger = await platform.caller("sven", "other", "owner")
    answer = await stranger("POST", "/api/v1/runs/columns", {"run_ids": [mine]})
    assert (answer.status, answer.json()["run_id"]) == (200, [])


async def test_too_many_cells_are_refused_with_the_limit(platform: Platform) -> None:
    """A wish beyond the limits names them."""
    wish = {"run_ids": [], "params": [str(one) for one in range(301)]}
    answer = await platform.admin("POST", "/api/v1/runs/columns", wish)
    assert (answer.status, "300" in answer.json()["message"]) == (400, True)


async def test_the_table_by_address_is_the_table_by_body(platform: Platform) -> None:
    """What a page can ask for at once is what it would have asked for with a body."""
    for name in ("one", "two", "three"):
        await _run(platform, name, lr=name)
    body = {
        "experiment_ids": ["0"],
        "filter": "params.lr LIKE 't%'",
        "order_by": ["metrics.loss DESC"],
        "limit": 1,
        "metrics": ["loss"],
        "params": ["lr"],
    }
    address = (
        "/api/v1/runs/table?experiment_id=0&filter=params.lr%20LIKE%20%27t%25%27"
        "&order_by=metrics.loss%20DESC&view=ACTIVE_ONLY&limit=1&metric=loss&param=lr"
    )
    by_body = (await platform.admin("POST", "/api/v1/runs/table", body)).json()
    by_address = (await platform.admin("GET", address)).json()
    assert by_address == by_body
    assert (by_address["name"], by_address["params"]["lr"]) == (["three"], ["three"])
    assert by_address["next_page_token"] is not None


async def test_a_run_that_goes_on_tells_when_it_was_last_heard_of(platform: Platform) -> None:
    """By its last point; not once it has ended, and not where a job looks after it."""
    ask = "/api/v1/runs/table?experiment_id=0&order_by=attributes.start_time%20DESC"
    for start, name, tags in (
        (1000, "alone", []),
        (2000, "of a job", [{"key": "yard.job", "value": "j1"}]),
        (3000, "over", []),
    ):
        body = {"experiment_id": "0", "run_name": name, "start_time": start, "tags": tags}
        made = await platform.admin("POST", "/api/2.0/mlflow/runs/create", body)
        run_id = made.json()["run"]["info"]["run_id"]
        point = {"key": "loss", "value": 1.0, "step": 1, "timestamp": 9000}
        batch = {"run_id": run_id, "metrics": [point]}
        await platform.admin("POST", "/api/2.0/mlflow/runs/log-batch", batch)
    ended = {"run_id": run_id, "status": "FINISHED", "end_time": 9500}
    await platform.admin("POST", "/api/2.0/mlflow/runs/update", ended)
    table = (await platform.admin("GET", ask)).json()
    assert table["name"] == ["over", "of a job", "alone"]
    assert table["heard_ms"] == [None, None, 9000]


async def test_names_include_those_with_long_values_alone(platform: Platform) -> None:
    """A parameter that only ever held long text is offered like any other."""
    await _run(platform, "one", short="1", config="x" * 1000)
    names = (await platform.admin("GET", "/api/v1/runs/names?experiment_id=0")).json()
    assert names["params"] == ["config", "short"]
    assert names["metrics"] == ["loss"]


async def test_shell_names_its_files_from_the_root_of_the_mount(tmp_path: Path) -> None:
    """Behind a proxy's path the shell asks for its files under that path."""
    (tmp_path / "index.html").write_text('<script src="./assets/a.js"></script>')
    page = await WebRoutes(tmp_path, "/yard").page(None)  # type: ignore[arg-type]
    assert page.body == b'<script src="/yard/assets/a.js"></script>'
    plain = await WebRoutes(tmp_path).page(None)  # type: ignore[arg-type]
    assert plain.body == b'<script src="/assets/a.js"></script>'


async def test_scripts_come_packed_to_those_who_take_it(tmp_path: Path) -> None:
    """The build packs its files; a caller that says nothing of gzip gets them plain."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a.js").write_bytes(b"plain")
    (tmp_path / "assets" / "a.js.gz").write_bytes(b"packed")
    (route,) = [one for one in WebRoutes(tmp_path).routes() if one.path.startswith("/assets/")]
    for accepted, body in (
        ("gzip, deflate, br", b"packed"),
        ("br;q=1.0, GZIP;q=0.5", b"packed"),
        ("gzip;q=0", b"plain"),
        (None, b"plain"),
    ):
        request = SimpleNamespace(header={"accept-encoding": accepted}.get)
        answer = await route.handler(cast("Request", request))
        headers = dict(answer.headers)
        assert answer.body == body
        assert headers.get("content-encoding") == ("gzip" if body == b"packed" else None)
        assert headers["vary"] == "accept-encoding"


async def test_no_asset_leads_out_of_the_package(platform: Platform) -> None:
    """A step out of the folder of built files, however spelled, is no file."""
    steps = ("..", "%2e%2e", "%252e%252e", "..%5c", "..;", "%00", "\uff0e\uff0e")
    for step in steps:
        for name in ("__init__.py", "server/main.py", "etc/passwd"):
            answer = await platform.admin("GET", f"/assets/{step}/{step}/{name}")
            assert answer.status in (400, 404), (step, name, answer.status)
            assert b"root:" not in answer.body
            assert b"import" not in answer.body
