"""Secrets of teams: sealed in the database, handed to jobs by name, shown to nobody."""

import stat
from pathlib import Path
from typing import Any

import pytest

from tests.integration.jobs.test_routes import Site, site  # noqa: F401
from tests.integration.server.platform import Platform
from trackyard.access.sealing import Seal
from trackyard.core.errors import InternalFault

VALUE = "hf_a-very-secret-value"


async def stored(platform: Platform) -> str:
    """Return everything the database holds of secrets, events and jobs, as text."""
    found: list[Any] = []
    for table in ("secrets", "events", "job_specs", "attempts"):
        found += await platform.services.database.read(
            lambda reader, table=table: reader.all(f"SELECT * FROM {table}")
        )
    return repr(found)


async def test_a_job_is_given_a_secret_by_name_and_nobody_is_shown_it(site: Site) -> None:  # noqa: F811
    platform = site.platform
    answer = await platform.admin("PUT", "/api/v1/secrets/HF_TOKEN", {"value": VALUE})
    assert answer.json() == {"name": "HF_TOKEN", "is_new": True}
    job = await site.submit(gpus=1, secrets=["HF_TOKEN"], env={"LR": "0.1"})
    spec = site.specs[f"{job['job_id']}-a1"]
    assert (spec.env["HF_TOKEN"], spec.secrets) == (VALUE, ("HF_TOKEN",))
    assert VALUE not in repr(spec)
    for path in (
        f"/api/v1/jobs/{job['job_id']}", "/api/v1/jobs", "/api/v1/secrets",
        "/api/v1/events?scope=all&limit=1000", "/api/jobs/",
    ):  # fmt: skip
        shown = await platform.admin("GET", path)
        assert shown.status == 200, path
        assert VALUE.encode() not in shown.body, path
    assert VALUE not in await stored(platform)
    listed = (await platform.admin("GET", "/api/v1/secrets")).json()["secrets"]
    assert [(row["name"], row["set_by"]) for row in listed] == [("HF_TOKEN", "admin")]


async def test_values_of_variables_are_shown_to_nobody_once_submitted(site: Site) -> None:  # noqa: F811
    """Not to viewers of the team, nor to who submitted it; a copied one is refused."""
    job = await site.submit(gpus=1, env={"LR": "0.10203", "WANDB_API_KEY": "k-123456789"})
    viewer = await site.platform.caller("vera", "default", "viewer")
    for caller in (viewer, site.platform.admin):
        shown = await caller("GET", f"/api/v1/jobs/{job['job_id']}")
        assert shown.json()["spec"]["env"] == {"LR": "•••", "WANDB_API_KEY": "•••"}
        assert b"0.10203" not in shown.body
    assert site.specs[f"{job['job_id']}-a1"].env["WANDB_API_KEY"] == "k-123456789"
    if site.platform.services.database.is_sqlite:
        # On PostgreSQL other servers start it, which have this server's key only if told so.
        assert "k-123456789" not in await stored(site.platform)
    copied = {"command": ["x"], "env": {"LR": "•••"}}
    answer = await site.platform.admin("POST", "/api/v1/jobs", copied)
    assert (answer.status, "write it again" in answer.json()["message"]) == (400, True)


async def test_secrets_belong_to_their_team(site: Site) -> None:  # noqa: F811
    platform = site.platform
    await platform.admin("PUT", "/api/v1/secrets/HF_TOKEN", {"value": VALUE})
    other = await platform.caller("sven", "other", "owner")
    assert (await other("GET", "/api/v1/secrets")).json() == {"secrets": []}
    wish = {"command": ["x"], "secrets": ["HF_TOKEN"]}
    refused = await other("POST", "/api/v1/jobs", wish)
    assert (refused.status, "yard secret set" in refused.json()["message"]) == (400, True)
    assert (await other("DELETE", "/api/v1/secrets/HF_TOKEN")).status == 404


async def test_members_change_their_own_secrets_and_maintainers_any(platform: Platform) -> None:
    viewer = await platform.caller("vera", "default", "viewer")
    member = await platform.caller("max", "default", "member")
    keeper = await platform.caller("mia", "default", "maintainer")
    place = "/api/v1/secrets/KEY"
    assert (await viewer("PUT", place, {"value": "x"})).status == 403
    assert (await member("PUT", place, {"value": "x"})).status == 200
    assert (await member("PUT", place, {"value": "y"})).json()["is_new"] is False
    assert (await keeper("PUT", place, {"value": "z"})).status == 200
    assert (await member("PUT", place, {"value": "y"})).status == 403
    assert (await member("DELETE", place)).status == 403
    assert (await keeper("DELETE", place)).status == 200
    for name, value in (("1A", "x"), ("A-B", "x"), ("A", ""), ("A", "x" * 40_000), ("A", "\0")):
        answer = await keeper("PUT", f"/api/v1/secrets/{name}", {"value": value})
        assert answer.status == 400, name


async def test_a_job_whose_secret_is_gone_fails_and_says_so(site: Site) -> None:  # noqa: F811
    admin = site.platform.admin
    await admin("PUT", "/api/v1/secrets/HF_TOKEN", {"value": VALUE})
    job = await site.submit(gpus=1, secrets=["HF_TOKEN"], hold=True)
    await admin("DELETE", "/api/v1/secrets/HF_TOKEN")
    await admin("POST", f"/api/v1/jobs/{job['job_id']}/release", {})
    await site.tick()
    shown = (await admin("GET", f"/api/v1/jobs/{job['job_id']}")).json()
    assert "no secret HF_TOKEN" in repr(shown["attempts"])


def test_the_key_is_a_private_file_and_without_it_nothing_opens(tmp_path: Path) -> None:
    seal = Seal(tmp_path / "secrets.key")
    sealed = seal.close(VALUE, purpose="a")
    assert stat.S_IMODE(seal.path.stat().st_mode) == 0o600
    assert VALUE not in sealed
    assert sealed != seal.close(VALUE, purpose="a")
    assert Seal(seal.path).open(sealed, purpose="a") == VALUE
    with pytest.raises(InternalFault, match="damaged"):
        seal.open(sealed, purpose="b")
    with pytest.raises(InternalFault, match="damaged"):
        seal.open(sealed[:-8] + "AAAAAAA=", purpose="a")
    for text in (None, "00" * 32):
        other = Seal(tmp_path / f"other-{text}.key")
        if text:
            other.path.write_text(text)
        with pytest.raises(InternalFault, match="key of the stored secrets"):
            other.open(sealed, purpose="a")
