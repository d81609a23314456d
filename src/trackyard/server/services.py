"""Everything a handler may reach, built once at start. Owns no behaviour."""

from __future__ import annotations

from dataclasses import dataclass

from trackyard.access.directory import Directory
from trackyard.access.sealing import Seal
from trackyard.access.secrets import Secrets
from trackyard.access.sessions import Sessions
from trackyard.artifacts.service import Artifacts
from trackyard.control.service import Jobs
from trackyard.core.clock import Clock
from trackyard.datasets.service import DataSets
from trackyard.insight.service import Usage
from trackyard.leases.service import Leases
from trackyard.notify.alerts.loop import AlertLoop
from trackyard.notify.alerts.service import Alerts
from trackyard.notify.deliveries import DeliveryLoop
from trackyard.notify.inbox import Inbox
from trackyard.notify.webhooks import Webhooks
from trackyard.registry.logged import LoggedModels
from trackyard.registry.models import Registry
from trackyard.server.access import AccessGate
from trackyard.server.health.companion import Prometheus
from trackyard.server.health.tally import Tally
from trackyard.server.health.watchdog import Watchdog
from trackyard.server.http.sse import Hub
from trackyard.server.settings import Settings
from trackyard.server.tunnels.tunnels import Tunnels
from trackyard.store.database import Database
from trackyard.store.idempotency.rule import Creates
from trackyard.sweeps.controller import Controller
from trackyard.sweeps.service import Sweeps
from trackyard.tracking.service import Tracking


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The platform's parts, as routes use them."""

    settings: Settings
    clock: Clock
    database: Database
    creates: Creates
    directory: Directory
    sessions: Sessions
    seal: Seal
    secrets: Secrets
    gate: AccessGate
    hub: Hub
    watchdog: Watchdog
    tally: Tally
    tracking: Tracking
    registry: Registry
    logged_models: LoggedModels
    artifacts: Artifacts
    data: DataSets
    jobs: Jobs
    leases: Leases
    usage: Usage
    sweeps: Sweeps
    sweep_controller: Controller
    webhooks: Webhooks
    deliveries: DeliveryLoop
    tunnels: Tunnels
    alerts: Alerts
    alert_loop: AlertLoop
    inbox: Inbox
    #: a Prometheus of the server's own; None: there is none
    prometheus: Prometheus | None
