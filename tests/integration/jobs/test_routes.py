"""Jobs over HTTP: who may do what, what is refused, and how a runner and a script are let in."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server.platform import Answer, Caller, Platform, open_platform
from trackyard.control import isolation
from trackyard.core.clock import SYSTEM_CLOCK
from trackyard.core.ports import LaunchSpec
from trackyard.testing.engine import FakeEngine, Program, fake_node


@dataclass
class Site:
    """A platform whose jobs run on a fake engine."""

    platform: Platform
    engine: FakeEngine
    specs: dict[str, LaunchSpec]

    async def tick(self) -> None:
        scheduler = self.platform.services.jobs.scheduler
        for _ in range(3):
            scheduler.wake()
            await scheduler.tick()
            await scheduler.drain()

    async def submit(self, caller: Caller | None = None, **wish: Any) -> dict[str, Any]:
        answer = await (caller or self.platform.admin)(
            "POST", "/api/v1/jobs", {"command": ["train"], **wish}
        )
        assert answer.status == 200, answer.body
        await self.tick()
        return answer.json()["jobs"][0]

    def runner(self, job: dict[str, Any], number: int = 1) -> "Runner":
        return Runner(self, self.specs[f"{job['job_id']}-a{number}"])


class Runner:
    """The runner of one attempt, and a script inside it."""

    def __init__(self, site: Site, spec: LaunchSpec) -> None:
        self.spec = spec
        assert spec.report is not None
        self.own = Caller(site.platform.application, spec.report.token)
        self.script = Caller(site.platform.application, spec.platform_env["YARD_TOKEN"])

    async def post(self, verb: str, body: Any = None, **more: Any) -> Answer:
        epoch = str(more.pop("epoch", self.spec.epoch))
        attempt = more.pop("attempt", self.spec.attempt_id)
        path = f"/api/v1/attempts/{attempt}/{verb}"
        caller = more.pop("caller", self.own)
        return await caller("POST", path, body, headers={"x-yard-epoch": epoch}, **more)


@pytest.fixture
async def site(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """A platform with one node of two GPUs."""
    async with open_platform(database_url, tmp_path / "home") as platform:
        specs: dict[str, LaunchSpec] = {}

        def program(spec: LaunchSpec) -> Program:
            specs[spec.attempt_id] = spec
            return Program()

        engine = FakeEngine(SYSTEM_CLOCK, [fake_node("n1", gpus=2)], program=program)
        scheduler = platform.services.jobs.scheduler
        scheduler.dispatcher._open_engine = lambda: engine
        await scheduler.open()
        found = Site(platform, engine, specs)
        await found.tick()
        yield found
        await scheduler.drain()
        await scheduler.dispatcher.close()


async def test_a_job_over_http_from_submission_to_its_log(site: Site) -> None:
    """Submit, list, show, why, beat, log, exit: what the CLI and the pages build on."""
    admin = site.platform.admin
    job = await site.submit(gpus=1, name="first")
    runner = site.runner(job)
    assert (await runner.post("heartbeat", {"state": "running", "extra": 1})).json() == {}
    taken = await runner.post("logs?member=0&offset=0", raw=b"hello\nworld\n")
    assert taken.json() == {"next_offset": 12}
    gap = await runner.post("logs?member=0&offset=99", raw=b"x")
    assert (gap.status, gap.json()) == (416, {"next_offset": 12})
    sample = {"seq": 1, "time_ms": 1, "values": {"system/cpu": 1.5}}
    assert (await runner.post("samples", {"samples": [sample]})).status == 200
    shown = (await admin("GET", "/api/v1/jobs/first")).json()
    assert shown["job"]["state"] == "running"
    assert shown["attempts"][0]["placement"][0]["node"] == "n1"
    log = await admin("GET", "/api/v1/jobs/first/logs?offset=6")
    assert (log.body, log.header("x-yard-next-offset")) == (b"world\n", "12")
    page = (await admin("GET", "/api/v1/jobs/first/logs?tail=1&format=json")).json()
    assert (page["text"], page["complete"]) == ("world\n", False)
    for path in ("filename=/etc/passwd", "glob=**"):
        assert (await admin("GET", f"/api/v1/jobs/first/logs?{path}")).status == 400
    cluster = (await admin("GET", "/api/v1/cluster")).json()
    assert cluster["totals"]["gpus"] == 2
    waiting = await site.submit(gpus=2, name="next")
    why = (await admin("GET", f"/api/v1/jobs/{waiting['job_id']}/why")).json()
    assert why["reasons"][0]["code"] in ("no_free_gpus", "fragmented")
    assert why["position"] == 1
    listed = (await admin("GET", "/api/v1/jobs?state=queued")).json()
    assert [one["name"] for one in listed["jobs"]] == ["next"]
    assert listed["counts"]["running"] == 1
    demand = (await admin("GET", "/api/v1/cluster")).json()["demand"]
    assert demand[0]["job_ids"] == [waiting["job_id"]]


async def test_a_script_inside_a_job_logs_and_makes_child_runs_and_reaches_no_other(
    site: Site,
) -> None:
    """Whatever experiment it sets, its runs are the job's; strangers' runs are not found."""
    admin = site.platform.admin
    job = await site.submit(gpus=1, experiment="mine")
    stranger = await admin.mlflow("POST", "runs/create", {"experiment_id": "0"})
    other_run = stranger.json()["run"]["info"]["run_id"]
    script = site.runner(job).script
    named = await script.mlflow("GET", "experiments/get-by-name?experiment_name=whatever")
    assert named.json()["experiment"]["experiment_id"] == job["experiment_id"]
    made = await script.mlflow("POST", "experiments/create", {"name": "new"})
    assert made.json() == {"experiment_id": job["experiment_id"]}
    await script.mlflow("POST", "runs/update", {"run_id": job["run_id"], "status": "RUNNING"})
    child = await script.mlflow(
        "POST", "runs/create", {"experiment_id": job["experiment_id"], "run_name": "child"}
    )
    child_id = child.json()["run"]["info"]["run_id"]
    elsewhere = await script.mlflow("POST", "runs/create", {"experiment_id": "0"})
    assert elsewhere.status == 403
    point = {"key": "loss", "value": 1.0, "timestamp": 1}
    statuses = [
        (await script.mlflow("POST", "runs/log-metric", {"run_id": run, **point})).status
        for run in (job["run_id"], child_id, other_run)
    ]
    assert statuses == [200, 200, 404]
    assert child_id != job["run_id"]
    second = site.runner(await site.submit(gpus=1, experiment="mine")).script
    refused = await second.mlflow("POST", "runs/log-metric", {"run_id": child_id, **point})
    assert refused.status == 404


async def test_a_logger_that_creates_its_own_run_is_given_the_job_run_in_every_attempt(
    site: Site,
) -> None:
    """The first run created is the job's; all others are new, in equal words or not."""
    job = await site.submit(gpus=1, name="lit")

    async def create(script: Caller, start: int, **tags: str) -> str:
        body = {
            "experiment_id": "0",
            "start_time": start,
            "tags": [{"key": key, "value": value} for key, value in tags.items()],
        }
        answer = await script.mlflow("POST", "runs/create", body)
        assert answer.status == 200, answer.body
        return str(answer.json()["run"]["info"]["run_id"])

    script = site.runner(job).script
    nested = await create(script, 1, **{"mlflow.parentRunId": job["run_id"]})
    first = await create(script, 2, flavour="lightning")
    again = await create(script, 2, flavour="lightning")
    second = await create(script, 3)
    assert first == job["run_id"]
    assert len({nested, first, again, second}) == 4
    run = (await site.platform.admin.mlflow("GET", f"runs/get?run_id={first}")).json()["run"]
    tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
    assert (tags["flavour"], tags["mlflow.runName"]) == ("lightning", "lit")
    site.engine.lose(f"{job['job_id']}-a1")
    await site.tick()
    assert await create(site.runner(job, 2).script, 9) == job["run_id"]


async def test_an_attempt_token_is_no_user_and_a_user_is_no_runner(site: Site) -> None:
    job = await site.submit(gpus=1)
    runner = site.runner(job)
    for method, path in (
        ("POST", "/api/v1/jobs"),
        ("GET", "/api/v1/jobs"),
        ("POST", f"/api/v1/jobs/{job['job_id']}/stop"),
        ("GET", f"/api/v1/jobs/{job['job_id']}/logs"),
        ("PUT", f"/api/v1/packages/{'a' * 64}"),
        ("GET", "/api/v1/nodes"),
        ("POST", "/api/v1/nodes/n1/drain"),
    ):
        body = {"command": ["x"]} if method == "POST" else None
        assert (await runner.script(method, path, body)).status == 403, path
    mine = Caller(site.platform.application, site.platform.admin.token)
    answer = await mine(
        "POST",
        f"/api/v1/attempts/{runner.spec.attempt_id}/heartbeat",
        {"state": "running"},
        headers={"x-yard-epoch": "1"},
    )
    assert answer.status == 403


async def test_a_command_speaks_not_for_its_runner_nor_the_runner_for_it(site: Site) -> None:
    """What the command is given opens none of the runner's reports; the runner tracks nothing."""
    job = await site.submit(gpus=1)
    runner = site.runner(job)
    reports = (("heartbeat", {"state": "running"}), ("samples", {"samples": []}), ("exit", {}))
    for verb, body in reports:
        assert (await runner.post(verb, body, caller=runner.script)).status == 403, verb
    answer = await runner.post("logs?offset=0", raw=b"x", caller=runner.script)
    assert answer.status == 403
    assert (await runner.post("heartbeat", {"state": "running"})).status == 200
    point = {"key": "loss", "value": 1.0, "timestamp": 1, "run_id": job["run_id"]}
    assert (await runner.own.mlflow("POST", "runs/log-metric", point)).status == 403
    assert (await runner.script.mlflow("POST", "runs/log-metric", point)).status == 200


async def test_an_attempt_started_before_the_upgrade_goes_on_with_its_one_token(
    site: Site,
) -> None:
    job = await site.submit(gpus=1)
    runner = site.runner(job)
    database = site.platform.services.database
    await database.write(
        lambda tx: tx.run(
            "UPDATE tokens SET scope = replace(scope, ',\"purpose\":\"runner\"', '')"
            " WHERE kind = 'attempt'"
        )
    )
    site.platform.services.gate.forget()
    point = {"key": "loss", "value": 1.0, "timestamp": 1, "run_id": job["run_id"]}
    assert (await runner.post("heartbeat", {"state": "running"})).status == 200
    assert (await runner.own.mlflow("POST", "runs/log-metric", point)).status == 200


async def test_an_old_epoch_is_refused_with_409_on_every_report(site: Site) -> None:
    """Also the token itself: what a superseded script logs counts no more."""
    job = await site.submit(gpus=1)
    old = site.runner(job)
    assert (await old.post("heartbeat", {"state": "running"}, epoch=99)).status == 409
    assert (await old.post("heartbeat", {"state": "running"}, epoch="x")).status == 400
    assert (await old.post("heartbeat", {}, attempt="jaaaaaaaaaa-a1")).status == 404
    site.engine.lose(old.spec.attempt_id)
    await site.tick()
    site.platform.services.gate.forget()
    for verb, body in (("heartbeat", {}), ("samples", {"samples": []}), ("exit", {})):
        assert (await old.post(verb, body)).status == 409, verb
    assert (await old.post("logs?offset=0", raw=b"x")).status == 409
    point = {"key": "loss", "value": 1.0, "timestamp": 1, "run_id": job["run_id"]}
    assert (await old.script.mlflow("POST", "runs/log-metric", point)).status == 409
    assert (await site.runner(job, 2).post("heartbeat", {"state": "running"})).status == 200


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"command": "python train.py"},
        {"command": ["x"], "name": "a\nb"},
        {"command": ["x"], "env": {"YARD_TOKEN": "x"}},
        {"command": ["x"], "env": {"LD_PRELOAD": "x.so"}},
        {"command": ["x"], "queue": "nosuch"},
        {"command": ["x"], "package": "b" * 64},
        {"command": ["x"], "colour": "red"},
        {"command": ["x"], "after": [{"job": "../../x"}]},
    ],
)
async def test_bad_submissions_are_400_with_a_sentence(site: Site, wish: dict[str, Any]) -> None:
    answer = await site.platform.admin("POST", "/api/v1/jobs", wish)
    assert answer.status == 400, answer.body
    assert len(answer.json()["message"]) > 10


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e%2fetc", "*", "jx%00", "j..aaaaaaaaa", "x" * 300, "a%2fb", "job;ls"]
)
async def test_strange_job_names_open_nothing(site: Site, name: str) -> None:
    """The log route takes a job, never a path."""
    for verb in ("", "/logs", "/why", "/logs?filename=../../etc/passwd&glob=**"):
        answer = await site.platform.admin("GET", f"/api/v1/jobs/{name}{verb}")
        assert answer.status in (400, 404), (name, verb, answer.status)


async def test_packages_are_checked_on_the_wire(site: Site) -> None:
    admin = site.platform.admin
    data = b"not really a zip"
    digest = hashlib.sha256(data).hexdigest()
    assert (await admin("PUT", f"/api/v1/packages/{digest}", raw=data)).json()["created"]
    assert (await admin("GET", f"/api/v1/packages/{digest}")).body == data
    head = await admin("HEAD", f"/api/v1/packages/{'a' * 64}")
    assert head.status == 404
    for name in ("a" * 64, "A" * 64, "..%2f" + "a" * 60, "gcs:%2f%2fx", "x"):
        answer = await admin("PUT", f"/api/v1/packages/{name}", raw=data)
        assert answer.status in (400, 404), name
    answer = await admin("PUT", f"/api/v1/packages/{digest}?format=rar", raw=data)
    assert answer.status == 400
    other = await site.platform.caller("bob", "other", "owner")
    assert (await other("GET", f"/api/v1/packages/{digest}")).status == 404


async def test_members_stop_their_own_and_maintainers_any(site: Site) -> None:
    ann = await site.platform.caller("ann", "default", "member")
    bob = await site.platform.caller("bob", "default", "member")
    boss = await site.platform.caller("boss", "default", "maintainer")
    job = await site.submit(ann, gpus=1)
    path = f"/api/v1/jobs/{job['job_id']}"
    for verb in ("stop", "hold", "requeue", "release"):
        assert (await bob("POST", f"{path}/{verb}", {})).status == 403, verb
    assert (await boss("POST", f"{path}/stop", {"grace_seconds": 1})).status == 200
    assert (await ann("POST", f"{path}/stop", {})).status == 200


async def test_queues_shares_and_nodes_are_for_admins_and_leave_their_trace(site: Site) -> None:
    admin, member = site.platform.admin, await site.platform.caller("ann", "default", "owner")
    assert (await member("PUT", "/api/v1/queues/q", {})).status == 403
    assert (await member("PUT", "/api/v1/teams/default/share", {"share": 9})).status == 403
    assert (await admin("PUT", "/api/v1/queues/q", {"max_running": 2})).status == 200
    assert (await admin("PUT", "/api/v1/queues/Bad name", {})).status == 400
    assert (await admin("PUT", "/api/v1/queues/q", {"order": "chaos"})).status == 400
    assert (await admin("PUT", "/api/v1/teams/default/share", {"share": 0})).status == 400
    queues = (await member("GET", "/api/v1/queues")).json()["queues"]
    assert [queue["name"] for queue in queues] == ["default", "q"]
    assert queues[1]["settings"] == {"max_running": 2}
    drained = await admin("POST", "/api/v1/nodes/n1/drain", {"note": "fan"})
    assert (drained.json()["state"], drained.json()["note"]) == ("drained", "fan")
    assert (await admin("POST", "/api/v1/nodes/nosuch/drain", {})).status == 404
    assert (await admin("POST", "/api/v1/nodes/n1/undrain")).json()["state"] == "ready"
    assert (await admin("DELETE", "/api/v1/queues/q")).status == 200
    shares = (await member("GET", "/api/v1/shares")).json()["teams"]
    assert [share["team"] for share in shares] == ["default"]


async def test_departments_are_set_and_shown(site: Site) -> None:
    admin = site.platform.admin
    await site.platform.caller("bob", "research", "owner")
    share = {"parent": "research", "quota_gpus": 2, "lendable_gpus": 1}
    assert (await admin("PUT", "/api/v1/teams/default/share", share)).status == 200
    shown = {one["team"]: one for one in (await admin("GET", "/api/v1/shares")).json()["teams"]}
    assert (shown["default"]["parent"], shown["default"]["lendable_gpus"]) == ("research", 1)
    assert shown["research"]["parent"] == ""
    path = "/api/v1/teams/research/share"
    refused = await admin("PUT", path, {"quota_gpus": 1})
    assert (refused.status, "own 2 GPUs together" in refused.body.decode()) == (400, True)
    circle = await admin("PUT", path, {"parent": "default"})
    assert (circle.status, "circle" in circle.body.decode()) == (400, True)
    nobody = await admin("PUT", path, {"parent": "nobody"})
    assert (nobody.status, "no team" in nobody.body.decode()) == (400, True)
    assert (await admin("PUT", path, {"quota_gpus": 4})).status == 200


async def test_secrets_of_a_job_are_not_shown(site: Site) -> None:
    job = await site.submit(env={"WANDB_API_KEY": "s3cret", "LR": "0.1"})
    shown = await site.platform.admin("GET", f"/api/v1/jobs/{job['job_id']}")
    assert shown.json()["spec"]["env"] == {"WANDB_API_KEY": "•••", "LR": "•••"}
    assert b"s3cret" not in shown.body


async def test_ready_tells_of_a_scheduler_that_fails(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of one that works again; nobody learns more than that without a credential."""
    anyone, scheduler = site.platform.nobody, site.platform.services.jobs.scheduler
    assert (await anyone("GET", "/ready")).status == 200

    def fail(_snapshot: object) -> None:
        raise OverflowError("secret/path.py is too large")

    with monkeypatch.context() as broken:
        broken.setattr(isolation, "decide", fail)
        scheduler.wake()
        await scheduler.attend()
        answer = await anyone("GET", "/ready")
        assert answer.status == 503
        assert b"the last scheduling pass failed" in answer.body
        assert b"secret" not in answer.body
        for path in ("/api/v1/jobs", "/api/v1/jobs?order=position", "/api/v1/queues"):
            assert (await site.platform.admin("GET", path)).status == 200
    scheduler.wake()
    await scheduler.attend()
    assert (await anyone("GET", "/ready")).status == 200


async def test_a_member_cannot_break_the_queue_by_requeueing(site: Site) -> None:
    job = (await site.submit(gpus=1, hold=True))["job_id"]
    for change in ({"nodes": 10**16}, {"nodes": 2**70}, {"gpus": 1e300}, {"nodes": -1}):
        answer = await site.platform.admin("POST", f"/api/v1/jobs/{job}/requeue", change)
        assert answer.status == 400, change
    assert (await site.platform.admin("GET", "/api/v1/jobs")).status == 200
    assert (await site.platform.nobody("GET", "/ready")).status == 200


async def test_the_policy_is_explained_to_each_for_its_own_team(site: Site) -> None:
    member = await site.platform.caller("viv", "vision", "viewer")
    found = (await member("GET", "/api/v1/policy")).json()
    assert {one["team"] for one in found["promises"]} == {"vision"}
    assert (await member("GET", "/api/v1/policy?team=default")).status == 403
    assert (await member("GET", "/api/v1/policy?queue=nowhere")).status == 400
    everyone = (await site.platform.admin("GET", "/api/v1/policy?queue=default")).json()
    assert {one["team"] for one in everyone["promises"]} >= {"vision"}
    topics = everyone["promises"][0]["topics"]
    assert {"order", "preemption", "classes", "default requests"} <= {
        one["topic"] for one in topics
    }


async def test_other_teams_see_the_outline_of_what_holds_and_waits(site: Site) -> None:
    ann = await site.platform.caller("ann", "vision", "member")
    bob = await site.platform.caller("bob", "speech", "viewer")
    job = await site.submit(ann, gpus=2, name="secret-plan")
    own = await site.submit(site.platform.admin, gpus=1, name="of-the-admins-team")
    path = "/api/v1/jobs?all=1&state=queued&state=starting&state=running"
    seen = {one["job_id"]: one for one in (await bob("GET", path)).json()["jobs"]}
    held = seen[job["job_id"]]
    assert (held["team"], held["gpus"], held["is_foreign"]) == ("vision", 2.0, True)
    hidden = ("name", "user", "command", "run_id", "experiment_id")
    assert not any(held[key] for key in hidden)
    assert held["reason"] is None
    assert "secret-plan" not in (await bob("GET", path)).body.decode()
    waiting = (await bob("GET", "/api/v1/jobs?all=1&order=position")).json()["jobs"]
    assert [one["job_id"] for one in waiting] == [own["job_id"]]
    # Their own jobs, and all of them for an admin, are shown whole.
    mine = {one["job_id"]: one for one in (await ann("GET", path)).json()["jobs"]}
    shown = mine[job["job_id"]]
    assert (shown["name"], shown["is_foreign"]) == ("secret-plan", False)
    whole = {one["job_id"]: one for one in (await site.platform.admin("GET", path)).json()["jobs"]}
    assert whole[job["job_id"]]["name"] == "secret-plan"
    for more in ("&name=secret-plan", "&user=ann", f"&array={job['job_id']}", "&mine=1"):
        assert (await bob("GET", path + more)).status == 403, more
    assert (await bob("GET", "/api/v1/jobs?all=1")).status == 403
    assert (await bob("GET", "/api/v1/jobs?all=1&state=failed")).status == 403
