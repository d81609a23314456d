"""Ray's endpoints on both databases: names per team, packages, lists, refusals, browsers."""

import base64
import hashlib
from typing import Any

import pytest

from tests.integration.server.platform import HOST, Caller, Headers, Platform, Proto, Scope
from trackyard.core.clock import SYSTEM_CLOCK
from trackyard.queue.submit.packages import RAY_LIMIT_BYTES
from trackyard.store.database import Tx

NAME = "/api/packages/gcs/_ray_pkg_0123456789abcdef.zip"


async def submit(caller: Caller, **body: Any) -> str:
    answer = await caller("POST", "/api/jobs/", {"entrypoint": "python train.py", **body})
    assert answer.status == 200, answer.body
    assert answer.json()["job_id"] == answer.json()["submission_id"]
    return str(answer.json()["submission_id"])


async def set_state(platform: Platform, name: str, state: str) -> None:
    """Put a job into an end state, as its end would."""

    def change(tx: Tx) -> None:
        tx.run(
            "UPDATE jobs SET state = ?, ended_ms = ? WHERE job_id IN"
            " (SELECT job_id FROM ray_jobs WHERE submission_id = ?)",
            (state, SYSTEM_CLOCK.time_ms(), name),
        )

    await platform.services.database.write(change)


async def test_the_version_is_behind_the_token(platform: Platform) -> None:
    """A client without a token fails before it uploads anything, with a sentence."""
    answer = await platform.nobody("GET", "/api/version")
    assert (answer.status, answer.header("content-type")) == (401, "text/plain; charset=utf-8")
    assert b"yard env" in answer.body
    assert b"{" not in answer.body
    found = (await platform.admin("GET", "/ray/api/version")).json()
    assert (found["version"], found["ray_version"]) == ("4", "2.60.0")


async def test_packages_are_kept_per_team_under_our_own_digest(platform: Platform) -> None:
    """The same name holds each team's own bytes; nobody learns of another team's."""
    other = await platform.caller("olga", "others", "member")
    assert (await platform.admin("GET", NAME)).status == 404
    assert (await platform.admin("PUT", NAME, raw=b"ours")).status == 200
    assert (await platform.admin("GET", NAME)).status == 200
    assert (await other("GET", NAME)).status == 404
    refused = await other(
        "POST",
        "/api/jobs/",
        {"entrypoint": "x", "runtime_env": {"working_dir": "gcs://_ray_pkg_0123456789abcdef.zip"}},
    )
    assert (refused.status, b"is not here" in refused.body) == (400, True)
    assert (await other("PUT", NAME, raw=b"theirs")).status == 200
    environment = {"working_dir": "gcs://_ray_pkg_0123456789abcdef.zip"}
    for caller, content in ((platform.admin, b"ours"), (other, b"theirs")):
        name = await submit(caller, runtime_env=environment)
        spec = (await caller("GET", f"/api/v1/jobs/{name}")).json()["spec"]
        assert spec["package"] == hashlib.sha256(content).hexdigest()


async def test_a_job_keeps_the_bytes_it_was_submitted_with(platform: Platform) -> None:
    """Sending other bytes under the same name later changes no job that waits."""
    await platform.admin("PUT", NAME, raw=b"first")
    environment = {"working_dir": "gcs://_ray_pkg_0123456789abcdef.zip"}
    name = await submit(platform.admin, runtime_env=environment)
    await platform.admin("PUT", NAME, raw=b"second")
    spec = (await platform.admin("GET", f"/api/v1/jobs/{name}")).json()["spec"]
    assert spec["package"] == hashlib.sha256(b"first").hexdigest()


async def test_an_overlong_package_is_refused_in_one_sentence(platform: Platform) -> None:
    """413 with what to do, before a byte is taken; Ray itself answers with a stack trace."""
    headers = {"content-length": str(RAY_LIMIT_BYTES + 1)}
    answer = await platform.admin("PUT", NAME, raw=b"x", headers=headers)
    assert answer.status == 413
    assert b"a package may have 512 MiB: leave data out" in answer.body
    assert b".rayignore" in answer.body


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/packages/s3/a.zip", 400),
        ("/api/packages/gcs/a.jar", 400),
        ("/api/packages/gcs/..%2Fa.zip", 404),
        ("/api/packages/gcs/a%00.zip", 400),
    ],
)
async def test_odd_package_names_are_refused(platform: Platform, path: str, status: int) -> None:
    assert (await platform.admin("PUT", path, raw=b"x")).status == status


async def test_a_submission_id_is_never_given_twice(platform: Platform) -> None:
    """Within a team, not across teams; a name of ours is taken as well."""
    other = await platform.caller("olga", "others", "member")
    await submit(platform.admin, submission_id="tart")
    again = await platform.admin(
        "POST", "/api/jobs/", {"entrypoint": "x", "submission_id": "tart"}
    )
    assert again.status == 400
    assert again.body.decode().startswith("Job with submission_id tart already exists.")
    own = await submit(platform.admin)
    again = await platform.admin("POST", "/api/jobs/", {"entrypoint": "x", "submission_id": own})
    assert b"already exists" in again.body
    jobs = (await platform.admin("GET", "/api/v1/jobs")).json()["jobs"]
    assert len(jobs) == 2, "a refused submission leaves a job behind"
    assert await submit(other, submission_id="tart") == "tart"


async def test_a_team_sees_its_own_jobs_alone(platform: Platform) -> None:
    """Another team's job is unknown to every endpoint; a job of `yard submit` is listed too."""
    other = await platform.caller("olga", "others", "owner")
    name = await submit(platform.admin, submission_id="ours", metadata={"owner": "me"})
    plain = await platform.admin("POST", "/api/v1/jobs", {"command": ["python", "b.py"]})
    listed = (await platform.admin("GET", "/ray/api/jobs/")).json()
    assert [job["submission_id"] for job in listed] == [name, plain.json()["job_ids"][0]]
    assert [job["entrypoint"] for job in listed] == ["python train.py", "python b.py"]
    assert (listed[0]["status"], listed[0]["metadata"]) == ("PENDING", {"owner": "me"})
    assert (await other("GET", "/api/jobs/")).json() == []
    for method, path in (
        ("GET", "/api/jobs/ours"),
        ("DELETE", "/api/jobs/ours"),
        ("POST", "/api/jobs/ours/stop"),
        ("GET", "/api/jobs/ours/logs"),
    ):
        answer = await other(method, path)
        assert (answer.status, answer.body) == (404, b"Job ours does not exist"), path


async def test_stopping_a_waiting_job_ends_it(platform: Platform) -> None:
    """What Ray itself cannot do."""
    name = await submit(platform.admin)
    assert (await platform.admin("POST", f"/api/jobs/{name}/stop")).json() == {"stopped": True}
    assert (await platform.admin("GET", f"/api/jobs/{name}")).json()["status"] == "STOPPED"
    assert (await platform.admin("POST", f"/api/jobs/{name}/stop")).json() == {"stopped": False}


async def test_members_stop_and_delete_their_own_jobs(platform: Platform) -> None:
    """Others' need a maintainer, and a viewer submits nothing."""
    member = await platform.caller("max", "default", "member")
    viewer = await platform.caller("vera", "default", "viewer")
    name = await submit(platform.admin)
    assert (await member("POST", f"/api/jobs/{name}/stop")).status == 403
    await set_state(platform, name, "succeeded")
    answer = await member("DELETE", f"/api/jobs/{name}")
    assert (answer.status, b"maintainer" in answer.body) == (403, True)
    assert (await viewer("POST", "/api/jobs/", {"entrypoint": "x"})).status == 403
    assert (await viewer("GET", f"/api/jobs/{name}")).status == 200


async def test_deleting_leaves_the_job_itself(platform: Platform) -> None:
    """Only an ended job can go, only from Ray's list, and an event says so."""
    name = await submit(platform.admin, submission_id="gone")
    job = (await platform.admin("GET", "/api/v1/jobs")).json()["jobs"][0]["job_id"]
    early = await platform.admin("DELETE", f"/api/jobs/{name}")
    assert (early.status, b"ray job stop gone" in early.body) == (400, True)
    await set_state(platform, name, "failed")
    assert (await platform.admin("DELETE", f"/api/jobs/{name}")).json() == {"deleted": True}
    assert (await platform.admin("GET", f"/api/jobs/{name}")).status == 404
    assert (await platform.admin("GET", "/api/jobs/")).json() == []
    assert (await platform.admin("GET", f"/api/v1/jobs/{job}")).status == 200
    events = (await platform.admin("GET", "/api/v1/events?kind=job.unlisted")).json()
    assert [event["subject_id"] for event in events["events"]] == [job]


async def test_a_job_of_ours_can_be_deleted_from_the_list_too(platform: Platform) -> None:
    made = await platform.admin("POST", "/api/v1/jobs", {"command": ["true"]})
    job = made.json()["job_ids"][0]
    await platform.admin("POST", f"/api/v1/jobs/{job}/stop", {})
    assert (await platform.admin("DELETE", f"/api/jobs/{job}")).status == 200
    assert (await platform.admin("GET", "/api/jobs/")).json() == []


async def test_a_team_is_named_by_its_own_token(platform: Platform) -> None:
    """A member cannot charge another team; an admin can act for one, and refusals are 400."""
    member = await platform.caller("max", "default", "member")
    await platform.caller("olga", "others", "member")
    body = {"entrypoint": "x", "metadata": {"trackyard.team": "others"}}
    refused = await member("POST", "/api/jobs/", body)
    assert (refused.status, b"not for others" in refused.body) == (400, True)
    assert (await platform.admin("POST", "/api/jobs/", body)).status == 200
    body["metadata"] = {"trackyard.team": "nobodys"}
    assert (await platform.admin("POST", "/api/jobs/", body)).status == 400


async def test_secrets_are_shown_by_no_endpoint(platform: Platform) -> None:
    """Neither Ray's view nor ours tells the value of a variable, whatever its name."""
    environment = {"env_vars": {"HF_TOKEN": "hf-abcdef", "PLAIN": "hf-ghijkl"}}
    name = await submit(platform.admin, runtime_env=environment)
    for path in (f"/api/jobs/{name}", "/api/jobs/", f"/api/v1/jobs/{name}", "/api/v0/jobs"):
        body = (await platform.admin("GET", path)).body
        assert b"PLAIN" in body, path
        assert b"hf-abcdef" not in body, path
        assert b"hf-ghijkl" not in body, path


async def test_lists_of_the_state_api_have_rays_envelope(platform: Platform) -> None:
    """Filters, limit and counts as `ray list` reads them; other things are refused in words."""
    for number in range(3):
        await submit(platform.admin, submission_id=f"job-{number}")
    query = "filter_keys=submission_id&filter_predicates=!%3D&filter_values=job-0&limit=1"
    found = (await platform.admin("GET", f"/api/v0/jobs?{query}")).json()
    listed = found["data"]["result"]
    assert (found["result"], listed["total"], listed["num_filtered"]) == (True, 3, 2)
    assert [row["submission_id"] for row in listed["result"]] == ["job-1"]
    assert (await platform.admin("GET", "/api/v0/nodes")).json()["result"] is True
    other = (await platform.admin("GET", "/ray/api/v0/actors")).json()
    assert (other["result"], "ray list nodes" in other["msg"]) == (False, True)
    assert (await platform.nobody("GET", "/api/v0/nodes")).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer {token}"},
        {"authorization": "Basic {basic}"},
        {"x-ray-authorization": "Bearer {token}"},
        {"cookie": "ray-authentication-token={token}"},
    ],
    ids=["bearer", "basic", "own header", "cookie"],
)
async def test_each_of_rays_ways_to_send_a_token_works(
    platform: Platform, headers: dict[str, str]
) -> None:
    """For reading and for submitting, as a client outside a browser sends it."""
    token = platform.admin.token or ""
    basic = base64.b64encode(f"me:{token}".encode()).decode()
    filled = {name: text.format(token=token, basic=basic) for name, text in headers.items()}
    assert (await platform.nobody("GET", "/api/version", headers=filled)).status == 200
    answer = await platform.nobody("POST", "/api/jobs/", {"entrypoint": "x"}, headers=filled)
    assert answer.status == 200


async def test_a_page_changes_nothing_with_rays_cookie(platform: Platform) -> None:
    """A cookie is sent by whichever page asks: a browser may read with it and nothing more."""
    cookie = {"cookie": f"ray-authentication-token={platform.admin.token}"}
    for more in ({"origin": f"http://{HOST}"}, {"referer": "x"}, {"sec-fetch-mode": "cors"}):
        answer = await platform.nobody(
            "POST", "/api/jobs/", {"entrypoint": "x"}, headers={**cookie, **more}
        )
        assert answer.status == 403
    wrong = {"cookie": "ray-authentication-token=yard_x_y"}
    assert (await platform.nobody("GET", "/api/version", headers=wrong)).status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer yard_wrong"}, 401),
        ({"authorization": "ours", "origin": "http://evil.example"}, 403),
        ({"authorization": "ours", "sec-fetch-site": "cross-site"}, 403),
        ({"authorization": "ours"}, 404),
    ],
    ids=["nobody", "wrong", "foreign origin", "foreign site", "no such job"],
)
async def test_a_socket_is_refused_before_it_opens(
    platform: Platform, headers: dict[str, str], status: int
) -> None:
    """Credential, origin and job are looked at first: a page of another site hears nothing."""
    lines = [("host", HOST)]
    for name, text in headers.items():
        lines.append((name, f"Bearer {platform.admin.token}" if text == "ours" else text))
    proto = Proto(b"")
    scope = Scope("GET", "/api/jobs/nothing/logs/tail", "", Headers(lines), proto="ws")
    await platform.application(scope, proto)
    assert proto.answer.status == status
