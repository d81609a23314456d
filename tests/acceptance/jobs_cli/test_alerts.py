"""Alerts and log policies as users have them: by the command line, on a real server."""

import json
import time
from collections.abc import Callable
from typing import Any

from tests.acceptance.jobs_cli.yarding import Yard

PATIENCE = 180.0


def until(check: Callable[[], Any]) -> Any:
    """Wait until there is something, and return it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError("it did not come")


def test_a_job_is_watched_from_its_submission_on(shared: Yard) -> None:
    """Its state and its log, though it is over at once; a server that dies finds both."""
    made = shared.ok("alert", "channel", "list", "--json")
    assert json.loads(made) == []
    job = shared.ok(
        "submit", "-q", "--no-working-dir", "--alert", "state failed", "--alert", "log 'b.om'",
        "--", "sh", "-c", "echo boom; exit 3",
    ).strip()  # fmt: skip

    def both() -> Any:
        found = json.loads(shared.ok("alert", "list", "--all", "--json", "--job", job))
        return found if len(found["incidents"]) == 2 else None

    sentences = {one["sentence"] for one in until(both)["incidents"]}
    assert "Log line: boom" in sentences
    assert any(one.startswith("It failed.") for one in sentences)
    first = until(both)["incidents"][0]["id"]
    shared.ok("alert", "ack", str(first))
    assert "acknowledged" in shared.ok("alert", "list", "--all")
    assert "inbox" in shared.ok("alert", "log")
    rules = json.loads(shared.ok("alert", "list", "--json"))["rules"]
    assert all(not rule["enabled"] for rule in rules if rule["scope"] == job)


def test_a_rule_that_is_not_understood_is_refused_before_anything_is_queued(shared: Yard) -> None:
    done = shared.run("submit", "-q", "--no-working-dir", "--alert", "loss is high", "--", "true")
    assert done.code == 2
    assert "is not understood" in done.err
    done = shared.run(
        "submit", "-q", "--no-working-dir", "--alert", "nan via nowhere", "--", "true"
    )
    assert "no channel 'nowhere'" in done.err


def test_a_log_policy_ends_retries_and_says_why(shared: Yard) -> None:
    policy = shared.ok(
        "log-policy", "add", "loss scale below", "--label", "overflow", "--stop-retries",
        "--message", "The loss overflowed.",
    ).split()[0]  # fmt: skip
    job = shared.ok(
        "submit", "-q", "--no-working-dir", "--retries", "5",
        "--", "sh", "-c", "echo loss scale below 1e-8; exit 1",
    ).strip()  # fmt: skip

    def over() -> Any:
        found = json.loads(shared.ok("show", job, "--json"))
        return found if found["job"]["state"] == "failed" else None

    detail = until(over)
    assert len(detail["attempts"]) == 1
    assert detail["job"]["sentence"] == "The loss overflowed."
    shared.ok("log-policy", "rm", policy)
    assert "overflow" not in shared.ok("log-policy", "list")
