"""Reports on both databases: who may do what, and that no save overwrites an unseen one."""

from typing import Any

from tests.integration.server.platform import Caller, Platform, refused

TEXT = "# Learning rates\n\n```chart\nmetric: loss\n```\n"


async def created(caller: Caller, title: str = "Learning rates") -> Any:
    answer = await caller("POST", "/api/v1/reports", {"title": title, "text": TEXT})
    assert answer.status == 200, answer.body
    return answer.json()


async def test_a_report_is_shared_within_its_team_alone(platform: Platform) -> None:
    """Its team reads it; another team is told that there is none."""
    ada = await platform.caller("ada", "default", "member")
    ben = await platform.caller("ben", "default", "viewer")
    eve = await platform.caller("eve", "other", "owner")
    made = await created(ada, "  Learning \n rates ")
    path = f"/api/v1/reports/{made['report_id']}"
    assert made["title"] == "Learning rates"
    assert (await ben("GET", path)).json() == made
    assert [
        one["report_id"] for one in (await ben("GET", "/api/v1/reports")).json()["reports"]
    ] == [made["report_id"]]
    assert (await eve("GET", "/api/v1/reports")).json() == {"reports": []}
    for method, body in (("GET", None), ("DELETE", None), ("PUT", {"title": "x", "version": 1})):
        assert "no report" in refused(await eve(method, path, body), 404)


async def test_viewers_write_nothing_and_others_reports_are_deleted_by_maintainers(
    platform: Platform,
) -> None:
    """Members edit each other's reports; deleting someone else's takes a maintainer."""
    ada = await platform.caller("ada", "default", "member")
    ben = await platform.caller("ben", "default", "member")
    vic = await platform.caller("vic", "default", "viewer")
    mia = await platform.caller("mia", "default", "maintainer")
    path = f"/api/v1/reports/{(await created(ada))['report_id']}"
    refused(await vic("POST", "/api/v1/reports", {"title": "x"}), 403)
    refused(await vic("PUT", path, {"title": "x", "version": 1}), 403)
    saved = await ben("PUT", path, {"title": "Rates", "text": "# b", "version": 1})
    assert (saved.json()["changed_by"], saved.json()["version"]) == ("ben", 2)
    assert "maintainer" in refused(await ben("DELETE", path), 403)
    assert (await mia("DELETE", path)).status == 200
    refused(await ada("GET", path), 404)


async def test_a_save_from_an_older_version_is_refused(platform: Platform) -> None:
    """The second of two editors is told who was first; nothing is lost."""
    ada = await platform.caller("ada", "default", "member")
    ben = await platform.caller("ben", "default", "member")
    path = f"/api/v1/reports/{(await created(ada))['report_id']}"
    first = {"title": "Rates", "text": "by ada", "version": 1}
    assert (await ada("PUT", path, first)).status == 200
    fault = refused(await ben("PUT", path, first | {"text": "by ben"}), 409)
    assert "ada saved this report" in fault
    # The same save again, as after a lost answer, is no conflict.
    again = await ada("PUT", path, first)
    assert (again.status, again.json()["version"]) == (200, 2)
    assert (await ben("GET", path)).json()["text"] == "by ada"


async def test_bad_reports_are_refused_with_a_reason(platform: Platform) -> None:
    """No title, too long a title, too long a text."""
    admin = platform.admin
    assert "needs a title" in refused(await admin("POST", "/api/v1/reports", {"title": "  "}), 400)
    long = {"title": "x" * 201}
    assert "at most 200" in refused(await admin("POST", "/api/v1/reports", long), 400)
    refused(await admin("POST", "/api/v1/reports", {"title": "x", "text": "y" * 200_001}), 400)
    refused(await admin("GET", "/api/v1/reports/..%2Fruns"), 404)


async def test_each_change_is_an_event(platform: Platform) -> None:
    """The log tells who created, changed and deleted a report."""
    admin = platform.admin
    made = await created(admin)
    path = f"/api/v1/reports/{made['report_id']}"
    await admin("PUT", path, {"title": "Rates", "text": TEXT, "version": 1})
    await admin("DELETE", path)
    events = (await admin("GET", "/api/v1/events?since=0&limit=1000")).json()["events"]
    kinds = [one["kind"] for one in events if one["subject_id"] == made["report_id"]]
    assert kinds == ["report.created", "report.updated", "report.deleted"]
