"""The text of notifications for each kind of channel. Pure: no network, no table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from trackyard.notify.alerts.incidents import Incident

#: Incidents that a message for people names; the rest is counted.
NAMED = 10
_WORDS = {
    "opened": "Alert",
    "resolved": "Resolved",
    "escalated": "Not acknowledged",
    "test": "Test",
}


def title(what: str, incidents: Sequence[Incident]) -> str:
    """Return the first line."""
    first = incidents[0]
    more = f" and {len(incidents) - 1} more" if len(incidents) > 1 else ""
    grade = f" ({first.severity})" if what in ("opened", "escalated") else ""
    return f"{_WORDS[what]}{grade}: {first.subject_name or first.subject_id}{more}: {first.text}"


def lines(incidents: Sequence[Incident], base: str) -> list[str]:
    """Return a line for each incident, with a link to its page."""
    found = [
        f"{one.subject_kind} {one.subject_name or one.subject_id}: {one.sentence} {base}{one.page}"
        for one in incidents[:NAMED]
    ]
    if len(incidents) > NAMED:
        found.append(f"and {len(incidents) - NAMED} more: {base}/app/alerts")
    return found


def webhook_body(what: str, incidents: Sequence[Incident], base: str, delivery: str) -> bytes:
    """Return the JSON for generic webhooks and commands."""
    return msgspec.json.encode(
        {
            "event": f"alert.{what}",
            "delivery_id": delivery,
            "title": title(what, incidents),
            "incidents": [
                {
                    "id": one.id,
                    "rule_id": one.rule_id,
                    "alert": one.text,
                    "severity": one.severity,
                    "subject": {
                        "kind": one.subject_kind,
                        "id": one.subject_id,
                        "name": one.subject_name,
                    },
                    "sentence": one.sentence,
                    "state": one.state,
                    "times": one.times,
                    "opened_ms": one.opened_ms,
                    "last_ms": one.last_ms,
                    "url": f"{base}{one.page}",
                }
                for one in incidents
            ],
        }
    )


def slack_body(what: str, incidents: Sequence[Incident], base: str) -> bytes:
    """Return a message for a Slack incoming webhook."""
    head = f"*{_slack(title(what, incidents))}*"
    rest = [f"• {_slack(line)}" for line in lines(incidents, base)]
    return msgspec.json.encode({"text": "\n".join([head, *rest])})


def _slack(text: str) -> str:
    """Escape Slack markup, so that no text can mention a channel or hide a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def teams_body(what: str, incidents: Sequence[Incident], base: str) -> bytes:
    """Return an adaptive card for a Microsoft Teams webhook."""
    blocks: list[dict[str, Any]] = [
        {"type": "TextBlock", "weight": "Bolder", "wrap": True, "text": title(what, incidents)}
    ]
    blocks += [
        {"type": "TextBlock", "wrap": True, "text": line} for line in lines(incidents, base)
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return msgspec.json.encode(
        {"type": "message", "attachments": [{"contentType": kind, "content": card}]}
    )


def mail_text(incidents: Sequence[Incident], base: str) -> str:
    """Return the text of a mail."""
    return "\n\n".join([*lines(incidents, base), f"All alerts: {base}/app/alerts"]) + "\n"


def example(now_ms: int) -> Incident:
    """Return the sample incident of a channel test."""
    return Incident(
        id=0,
        rule_id=None,
        team_id=None,
        text="loss > 10 for 5m",
        severity="warning",
        subject_kind="test",
        subject_id="example",
        subject_name="example-run",
        job_id="",
        sentence="This is a test: nothing happened.",
        state="open",
        times=1,
        opened_ms=now_ms,
        last_ms=now_ms,
        told_ms=now_ms,
        acked_by=None,
        acked_ms=None,
        resolved_ms=None,
    )
