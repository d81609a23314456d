"""One message to one channel. Blocks: call it in a thread.

Owns the request to a webhook, the mail, and running a command of the admin's. Nothing is raised;
what came of it is an Answer, as of any outbound call.
"""

from __future__ import annotations

import smtplib
import ssl
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from pathlib import Path

from trackyard.notify.alerts import messages
from trackyard.notify.alerts.channels import OpenedChannel, read_recipients
from trackyard.notify.alerts.incidents import Incident
from trackyard.notify.alerts.settings import AlertSettings
from trackyard.notify.deliveries import sign
from trackyard.outbound.addresses import AllowedAddresses
from trackyard.outbound.client import TOTAL_SECONDS, Answer, post

#: Answers of a mail server that a later try may change.
_TEMPORARY = range(400, 500)


def send(
    channel: OpenedChannel,
    what: str,
    incidents: Sequence[Incident],
    *,
    delivery: str,
    base: str,
    now_ms: int,
    allowed: AllowedAddresses,
    settings: AlertSettings,
) -> Answer:
    """Send a message about incidents."""
    if channel.kind == "email":
        return _mail(channel, what, incidents, delivery=delivery, base=base, settings=settings)
    if channel.kind == "command":
        return _command(channel, messages.webhook_body(what, incidents, base, delivery))
    if channel.kind == "slack":
        body = messages.slack_body(what, incidents, base)
    elif channel.kind == "teams":
        body = messages.teams_body(what, incidents, base)
    else:
        body = messages.webhook_body(what, incidents, base, delivery)
    now = str(now_ms // 1000)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "trackyard-alerts",
        "X-Yard-Delivery": delivery,
        "X-Yard-Timestamp": now,
    }
    if channel.secret:
        headers["X-Yard-Signature"] = sign(channel.secret, delivery, now, body.decode())
    return post(channel.target, body, headers, allowed)


def _mail(
    channel: OpenedChannel,
    what: str,
    incidents: Sequence[Incident],
    *,
    delivery: str,
    base: str,
    settings: AlertSettings,
) -> Answer:
    message = EmailMessage()
    title = " ".join(messages.title(what, incidents).split())
    message["Subject"] = title[:200]
    message["From"] = settings.mail_from
    message["To"] = ", ".join(read_recipients(channel.target))
    message["Date"] = format_datetime(datetime.now(UTC))
    # The same for each try, so that a mail that arrives twice is shown once.
    message["Message-ID"] = make_msgid(delivery, settings.mail_from.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(messages.mail_text(incidents, base))
    try:
        with _open_smtp(settings) as link:
            link.send_message(message)
    except smtplib.SMTPResponseException as fault:
        words = fault.smtp_error
        said = words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)
        status = 503 if fault.smtp_code in _TEMPORARY else 400
        return Answer(status=status, error=f"the mail server said {fault.smtp_code} {said}"[:300])
    except smtplib.SMTPRecipientsRefused as fault:
        codes = [code for code, _ in fault.recipients.values()]
        status = 503 if all(code in _TEMPORARY for code in codes) else 400
        return Answer(status=status, error="the mail server refused the recipients")
    except (OSError, smtplib.SMTPException) as fault:
        where = f"{settings.smtp_host}:{settings.smtp_port}"
        return Answer(error=f"cannot send mail by {where}: {fault}"[:300])
    return Answer(status=250)


def _open_smtp(settings: AlertSettings) -> smtplib.SMTP:
    place = (settings.smtp_host, settings.smtp_port)
    link: smtplib.SMTP
    if settings.smtp_security == "tls":
        context = ssl.create_default_context()
        link = smtplib.SMTP_SSL(*place, timeout=TOTAL_SECONDS, context=context)
    else:
        link = smtplib.SMTP(*place, timeout=TOTAL_SECONDS)
        if settings.smtp_security == "starttls":
            link.starttls(context=ssl.create_default_context())
    if settings.smtp_user:
        password = Path(settings.smtp_password_file).expanduser().read_text().strip()
        link.login(settings.smtp_user, password)
    return link


def _command(channel: OpenedChannel, body: bytes) -> Answer:
    """Run the admin's program with the message on its standard input and a bare environment."""
    try:
        done = subprocess.run(
            list(channel.argv),
            input=body,
            capture_output=True,
            timeout=TOTAL_SECONDS,
            check=False,
            cwd="/",
            env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        )
    except subprocess.TimeoutExpired:
        return Answer(error=f"the command took over {TOTAL_SECONDS:g} s")
    except OSError as fault:
        return Answer(status=400, error=f"the command cannot be run: {fault}"[:300])
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
    if done.returncode != 0:
        return Answer(error=f"the command ended with {done.returncode}: {said}"[:300])
    return Answer(status=200, body=said[:300])
