"""Asking the server for jobs: many by condition, one by name. Owns paths and paging; prints
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from trackyard.client.api import Api

#: As many as one answer may hold.
PAGE = 20_000


def list_jobs(
    api: Api,
    *,
    states: Sequence[str] = (),
    limit: int = 100,
    everyone: bool = False,
    **filters: Any,
) -> dict[str, Any]:
    """Return `jobs`, newest first, and `counts` by state; pages are joined up to the limit."""
    query: dict[str, Any] = {key: value for key, value in filters.items() if value}
    if states:
        query["state"] = list(states)
    query["eta"] = "1"
    if everyone:
        query["all"] = "1"
    jobs: list[dict[str, Any]] = []
    while True:
        query["limit"] = min(PAGE, limit - len(jobs))
        page = api.get("/api/v1/jobs", query)
        jobs += page["jobs"]
        if not page.get("next") or len(jobs) >= limit:
            return {"jobs": jobs, "counts": page["counts"], "more": bool(page.get("next"))}
        query["before"] = page["next"]


def get_job(api: Api, name: str, *, with_smaller: bool = False) -> dict[str, Any]:
    """Return the page of one job, by id or name; with lesser requests that would start now."""
    query = {"smaller": "1"} if with_smaller else None
    page: dict[str, Any] = api.get(f"/api/v1/jobs/{quote(name, safe='')}", query)
    return page
