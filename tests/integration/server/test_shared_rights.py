"""Admins are told where several people's jobs run with the server's own rights."""

from pathlib import Path

import pytest

from tests.integration.jobs.test_routes import Site, site  # noqa: F401
from tests.integration.server.platform import open_platform


async def test_admins_and_nobody_else_see_that_jobs_share_the_servers_rights(
    site: Site,  # noqa: F811
) -> None:
    """Once there is a second person; in the server's facts and in the notes of nodes."""
    admin = site.platform.admin
    assert (await admin("GET", "/api/v1/admin/facts")).json()["shared_rights"] == ""
    member = await site.platform.caller("max", "default", "member")
    facts = (await admin("GET", "/api/v1/admin/facts")).json()
    assert facts["run_as"] == "server"
    assert facts["shared_rights"].startswith("2 people's jobs run with the server's own rights")
    for caller, expected in ((admin, True), (member, False)):
        (node,) = (await caller("GET", "/api/v1/nodes")).json()["nodes"]
        assert (facts["shared_rights"] in node["notes"]) is expected


@pytest.mark.parametrize("more", [{"run_as": "bubblewrap"}, {"engine": "none"}], ids=str)
async def test_nothing_is_said_where_they_do_not(
    database_url: str, tmp_path: Path, more: dict[str, str]
) -> None:
    async with open_platform(database_url, tmp_path / "home", **more) as platform:
        await platform.caller("max", "default", "member")
        facts = (await platform.admin("GET", "/api/v1/admin/facts")).json()
        assert facts["shared_rights"] == ""
