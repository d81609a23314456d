"""Builds every part of the platform, each given what it needs, from the database upwards.

Owns who knows whom. Starts nothing and serves nothing: that is `server.main`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trackyard.access.directory import Directory
from trackyard.access.sealing import Seal
from trackyard.access.secrets import Secrets
from trackyard.access.sessions import Sessions
from trackyard.artifacts.blobs import open_blobs
from trackyard.artifacts.service import Artifacts
from trackyard.control.dispatch import Dispatcher
from trackyard.control.forecast.client import ForecastClient
from trackyard.control.forecast.lease_impact import LeaseImpact
from trackyard.control.forecast.messages import ForecastSetup
from trackyard.control.lease_sync import LeaseSync
from trackyard.control.loop import SchedulingLoop
from trackyard.control.service import Jobs
from trackyard.control.undeclared_use import UndeclaredUseRule
from trackyard.core.clock import Clock
from trackyard.datasets.service import DataSets
from trackyard.fleet.policy import read_policy
from trackyard.fleet.service import Fleet
from trackyard.insight.service import Usage
from trackyard.leases.rules import read_rules
from trackyard.leases.service import Leases
from trackyard.notify.alerts.channels import Channels
from trackyard.notify.alerts.loop import AlertLoop
from trackyard.notify.alerts.outbox import Outbox
from trackyard.notify.alerts.service import Alerts
from trackyard.notify.alerts.settings import read_alert_settings
from trackyard.notify.deliveries import DeliveryLoop
from trackyard.notify.inbox import Inbox
from trackyard.notify.webhooks import Webhooks
from trackyard.outbound.addresses import read_allowed
from trackyard.queue.retention import Retention
from trackyard.queue.submit.data_inputs import open_jobs
from trackyard.queue.submit.packages import Packages
from trackyard.queue.submit.variables import opened
from trackyard.registry.lineage import models_behind
from trackyard.registry.logged import LoggedModels
from trackyard.registry.models import Registry
from trackyard.server.access import AccessGate
from trackyard.server.health.companion import Prometheus
from trackyard.server.health.tally import Tally
from trackyard.server.health.watchdog import Watchdog
from trackyard.server.http.sse import Hub
from trackyard.server.services import Services
from trackyard.server.settings import Settings
from trackyard.server.startup.clock import choose_clock
from trackyard.server.startup.engines import (
    open_engine,
    policy,
    site,
)
from trackyard.server.tunnels.app_hosts import AppHosts
from trackyard.server.tunnels.tunnels import Tunnels
from trackyard.store.database import Database
from trackyard.store.idempotency.pending import PendingFile
from trackyard.store.idempotency.rule import Creates
from trackyard.store.sqlite.reserve import Reserve
from trackyard.sweeps.controller import Controller
from trackyard.sweeps.service import Sweeps
from trackyard.tracking.service import Tracking

#: Seconds for which bytes stay after their file was replaced or deleted, where another server may
#: be reading them.
LINGER_SECONDS = 60.0


def build(settings: Settings) -> Services:
    """Make every part of the platform, stopped."""
    clock = choose_clock(ephemeral=settings.ephemeral)
    is_kept = not settings.database and not settings.ephemeral
    reserve = Reserve(settings.home / "reserve") if is_kept else None
    database = Database(settings.database_url, clock=clock, reserve=reserve)
    directory, sessions = Directory(database), Sessions(database)
    gate = _gate(settings, directory, sessions, clock)
    hub, tally = Hub(database), Tally()
    database.listen(tally.committed)
    tracking = Tracking(database, tally.counting(hub.points))
    blobs = open_blobs(
        settings.artifacts_url, endpoint=settings.artifacts_endpoint or None, home=settings.home
    )
    seal = Seal(settings.secrets_key_path)
    secrets = Secrets(database, seal)
    leases = Leases(database, read_rules(settings.leases))
    scheduler = _scheduler(settings, database, leases, secrets, seal, on_fence=gate.forget)
    LeaseSync(database, leases, scheduler)
    leases.foresee = LeaseImpact(scheduler)
    usage = Usage(database, on_change=scheduler.wake, is_leader=lambda: scheduler.is_leader)
    allowed = read_allowed(settings.outbound_allow, plain=settings.outbound_http)
    webhooks = Webhooks(database, seal, allowed)
    artifacts = Artifacts(
        database, blobs, linger_seconds=0.0 if database.is_sqlite else LINGER_SECONDS
    )
    jobs = Jobs(
        database,
        tracking,
        Packages(database, blobs),
        scheduler,
        UndeclaredUseRule(action=settings.undeclared, grace_seconds=settings.undeclared_grace),
        desk=ForecastClient(ForecastSetup(settings.database_url, policy(settings), leases.rules)),
        seal=seal,
    )
    controller = Controller(database, scheduler, tracking, artifacts, seal=seal)
    sweeps = Sweeps(database, jobs, seal=seal, on_change=controller.wake)
    channels = Channels(database, seal, allowed, read_alert_settings(settings.alerts))
    outbox = Outbox(database, channels, settings.url)
    return Services(
        settings=settings,
        clock=clock,
        database=database,
        creates=Creates(database, PendingFile(settings.home / "pending")),
        directory=directory,
        sessions=sessions,
        seal=seal,
        secrets=secrets,
        gate=gate,
        hub=hub,
        watchdog=Watchdog(lambda: database.writing_for),
        tally=tally,
        tracking=tracking,
        registry=Registry(database, sources_must_exist=settings.missing_sources == "refuse"),
        logged_models=LoggedModels(database),
        artifacts=artifacts,
        data=DataSets(database, artifacts, models_behind=models_behind, open_jobs=open_jobs),
        jobs=jobs,
        leases=leases,
        usage=usage,
        sweeps=sweeps,
        sweep_controller=controller,
        webhooks=webhooks,
        deliveries=DeliveryLoop(database, webhooks),
        tunnels=Tunnels(),
        alerts=Alerts(database, channels, outbox),
        alert_loop=AlertLoop(
            database,
            is_leader=lambda: scheduler.is_leader,
            prove=scheduler.leadership.prove,
            told=outbox.wake,
        ),
        inbox=Inbox(database),
        prometheus=Prometheus(settings) if "prometheus" in settings.companions else None,
    )


def _scheduler(
    settings: Settings,
    database: Database,
    leases: Leases,
    secrets: Secrets,
    seal: Seal,
    *,
    on_fence: Callable[[], None],
) -> SchedulingLoop:
    dispatcher = Dispatcher(
        database,
        lambda: open_engine(settings),
        site(settings),
        fleet=Fleet(read_policy(settings.health)),
        open_spec=partial(opened, seal),
        secrets_of=secrets.values,
    )
    return SchedulingLoop(
        database,
        dispatcher,
        policy(settings),
        leases=leases.for_scheduler,
        silence_seconds=settings.lost_after,
        retention=Retention(
            log_days=settings.log_days or None, key_days=settings.key_days or None
        ),
        on_fence=on_fence,
    )


def _gate(
    settings: Settings, directory: Directory, sessions: Sessions, clock: Clock
) -> AccessGate:
    return AccessGate(
        directory=directory,
        sessions=sessions,
        clock=clock,
        hosts=_own_hosts(settings),
        apps=AppHosts(
            settings.apps_host, is_secure=bool(settings.tls_cert or settings.trusted_proxies)
        ),
        secure=bool(settings.tls_cert or settings.trusted_proxies),
        proxies=() if settings.tls_cert else settings.trusted_proxies,
        forwarders=settings.trusted_proxies,
    )


def _own_hosts(settings: Settings) -> frozenset[str]:
    names = {"127.0.0.1", "localhost", "[::1]", settings.host.lower()}
    names |= {name.lower() for name in settings.allow_hosts}
    return frozenset(names - {"0.0.0.0", "::", "*"})  # noqa: S104 - taken out, not bound
