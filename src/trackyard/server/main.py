"""Starts and stops the platform: home, schema, first admin, services, HTTP.

Knows the order, nothing of the parts; `server.build` puts them together.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import logging
import os
import shutil
import signal
import sqlite3
import ssl
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from trackyard.access.first_admin import ADMIN, make_first_admin
from trackyard.access.shared_key import agree_on_key
from trackyard.core.errors import InvalidInput, SetupError
from trackyard.fleet.policy import read_policy
from trackyard.leases.rules import read_rules
from trackyard.notify.alerts.settings import read_alert_settings
from trackyard.outbound.addresses import read_allowed
from trackyard.queue.shares.queues import apply_config, read_config
from trackyard.server.app import Application
from trackyard.server.build import build
from trackyard.server.health.companion import check_companions
from trackyard.server.health.logs import set_up_logging
from trackyard.server.oidc import read_oidc
from trackyard.server.routes import table
from trackyard.server.routing import Router
from trackyard.server.services import Services
from trackyard.server.settings import Settings
from trackyard.server.startup.clock import choose_clock
from trackyard.server.startup.ending import END_SECONDS, Ending
from trackyard.server.startup.engines import (
    check_engine,
    isolation,
    shared_rights,
)
from trackyard.server.startup.home import (
    HomeLock,
    allow_many_sockets,
    free_port,
    most_sockets,
    note_address,
    write_secret,
)
from trackyard.server.startup.sealed import key_warnings
from trackyard.server.startup.store_check import check_store, check_store_later
from trackyard.server.wire import HttpListener
from trackyard.store.faults import is_damaged
from trackyard.store.migrate import prepare

log = logging.getLogger(__name__)

#: Seconds that scheduling, and then requests in flight, are given at the end.
SCHEDULING_SECONDS, DRAIN_SECONDS = 3.0, 3.0
#: The database is waited for until the ending as a whole is out of time.
ENDLESS = 3600.0
TOUCH_EVERY = 30.0
#: Told the settings in force, a code to sign in with, and what an operator must know.
Announce = Callable[[Settings, str | None, str], None]


def run(settings: Settings, *, announce: Announce) -> int:
    """Serve until a signal ends it; return the exit code."""
    set_up_logging()
    settings.check()
    check_engine(settings)
    read_config(settings.queues, settings.teams)
    read_policy(settings.health)
    read_rules(settings.leases)
    read_oidc(settings.oidc)
    read_alert_settings(settings.alerts)
    check_companions(settings.companions)
    read_allowed(settings.outbound_allow)
    choose_clock(ephemeral=settings.ephemeral)
    throwaway: Path | None = None
    if settings.ephemeral:
        throwaway = Path(tempfile.mkdtemp(prefix="trackyard-"))
        settings = dataclasses.replace(settings, home=throwaway)
    lock = HomeLock(settings.lock_path)
    os.umask(0o077)
    allow_many_sockets()
    try:
        lock.acquire()
        settings = dataclasses.replace(settings, port=free_port(settings.host, settings.port))
        _make_database_folder(settings)
        isolation(settings)
        prepare(settings.database_url)
        # Worker threads wait for the interpreter at most this long when the loop is busy.
        sys.setswitchinterval(0.001)
        # What was imported lives as long as the process; batches of points are freed by count.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        gc.enable()
        _run_loop(_serve(settings, announce))
        return 0
    except sqlite3.DatabaseError as fault:
        if not is_damaged(fault):
            raise
        raise SetupError(
            f"the database {settings.database_url.partition(':///')[2]} is damaged ({fault})",
            hint="put it aside and bring back a backup with `yard restore`",
        ) from fault
    finally:
        lock.release()
        if throwaway is not None:
            shutil.rmtree(throwaway, ignore_errors=True)


def _run_loop(main: object) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)  # type: ignore[arg-type]
        return
    uvloop.run(main)  # type: ignore[arg-type]


async def _serve(settings: Settings, announce: Announce) -> None:
    services = build(settings)
    services.database.start()
    is_checked = await check_store(services)
    seal = services.seal
    await agree_on_key(services.database, seal, is_named=bool(settings.secrets_key))
    await services.creates.recover()
    code = await _first_start(services)
    await _apply_config(services)
    warning = await services.database.read(lambda reader: shared_rights(settings, reader))
    if warning:
        log.warning("%s", warning)
    for told in await services.database.read(lambda reader: key_warnings(settings, seal, reader)):
        log.warning("%s", told)
    services.tracking.start()
    services.hub.start()
    services.watchdog.start()
    services.jobs.start()
    services.sweep_controller.start()
    services.deliveries.start()
    services.usage.start()
    services.alert_loop.start()
    services.alerts.outbox.start()
    application = Application(
        Router(table.routes(services)),
        services.gate,
        tally=services.tally,
        prefix=settings.prefix,
        body_seconds=settings.request_seconds,
    )
    background = [asyncio.create_task(_touch_tokens(services))]
    await _start_companions(services)
    if not is_checked:
        background.append(asyncio.create_task(check_store_later(services)))
    ending = Ending(seconds=END_SECONDS + settings.drain_seconds)
    try:
        await _listen(
            settings,
            application,
            services,
            ending,
            lambda: _ready(settings, code, warning, announce),
        )
    finally:
        note_address(settings.address_path, settings.url, pid=0)
        for task in background:
            task.cancel()
        services.watchdog.stop()
        await _stop(services, ending)
        ending.done()


def _ready(settings: Settings, code: str | None, warning: str, announce: Announce) -> None:
    note_address(settings.address_path, settings.url, pid=os.getpid())
    announce(settings, code, warning)


async def _first_start(services: Services) -> str | None:
    """Make the first team and its admin, and a one-time sign-in code for this start."""
    token_path = services.settings.token_path
    need_token = not token_path.exists()

    user_id, secret = await services.database.write(
        lambda tx: make_first_admin(tx, with_token=need_token)
    )
    if secret is not None:
        write_secret(token_path, secret + "\n")
    return await services.sessions.new_code(user_id)


async def _apply_config(services: Services) -> None:
    """Bring queues and shares to what the config file says."""
    config = read_config(services.settings.queues, services.settings.teams)
    try:
        await services.database.write(lambda tx: apply_config(tx, config))
    except InvalidInput as fault:
        raise SetupError(fault.message, hint="make it with `yard team create`") from fault


async def _listen(
    settings: Settings,
    application: Application,
    services: Services,
    ending: Ending,
    ready: Callable[[], None],
) -> None:
    listener = HttpListener(
        application,
        host=settings.host,
        port=settings.port,
        tls=(settings.tls_cert, settings.tls_key) if settings.tls_cert else None,
        head_seconds=settings.request_seconds,
        most=most_sockets(),
    )
    ending.listen()
    if settings.tls_cert:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, listener.reload_certificate)
    try:
        await listener.start()
    except (OSError, ssl.SSLError) as fault:
        raise SetupError(
            f"cannot listen on {settings.host}:{settings.port}: {fault}",
            hint="choose another --host or --port, or check the certificate and its key",
        ) from fault
    try:
        ready()
        await ending.asked.wait()
    finally:
        # No longer ready, and no more streams: a balancer looks elsewhere from here on.
        await services.hub.stop()
        await asyncio.sleep(settings.drain_seconds)
        await asyncio.gather(
            ending.wait_for("sweeps", services.sweep_controller.stop(), SCHEDULING_SECONDS),
            ending.wait_for("scheduling", services.jobs.stop(), SCHEDULING_SECONDS),
            services.jobs.part(),
        )
        await listener.stop(DRAIN_SECONDS)


async def _start_companions(services: Services) -> None:
    """Start Prometheus where it was asked for, with a token of its own that reads and no more."""
    beside = services.prometheus
    if beside is None:
        return
    token = None
    if not beside.token_path.exists():
        teams = await services.directory.teams()
        made = await services.directory.create_token(
            user=ADMIN,
            team=str(teams[0]["name"]),
            role="viewer",
            label="prometheus",
            actor="system",
            days=None,
            team_only=True,
        )
        token = str(made["token"])
    beside.start(token)


async def _touch_tokens(services: Services) -> None:
    """Write now and then when tokens were last used."""
    while True:
        await asyncio.sleep(TOUCH_EVERY)
        used, services.gate.used = services.gate.used, {}
        try:
            await services.directory.touch(used)
        except Exception:
            log.exception("cannot note when tokens were used")


async def _stop(services: Services, ending: Ending) -> None:
    """Commit what is queued and close."""
    if services.prometheus is not None:
        await ending.wait_for("Prometheus", services.prometheus.stop(), 6.0)
    await ending.wait_for("settling of metrics", services.tracking.stop(), 2.0)
    await ending.wait_for("webhooks", services.deliveries.stop(), 1.0)
    await ending.wait_for("budgets", services.usage.stop(), 1.0)
    await ending.wait_for("alerts", services.alert_loop.stop(), 1.0)
    await ending.wait_for("messages", services.alerts.outbox.stop(), 1.0)
    await ending.wait_for("the database", services.database.close(), ENDLESS)
    services.creates.file.close()
    await services.artifacts.blobs.close()


def _make_database_folder(settings: Settings) -> None:
    """Make the folder that is to hold an SQLite file."""
    url = settings.database_url
    if url.startswith("sqlite:///"):
        Path(url[len("sqlite:///") :]).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
