"""Which engine runs the work: made from the settings, once, when the scheduler starts."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trackyard.access.directory import count_users
from trackyard.control.launching import LaunchSite
from trackyard.core.errors import SetupError
from trackyard.core.ports import Engine, EngineError
from trackyard.engines.isolation import CHOICES, Isolation, choose
from trackyard.fleet.policy import read_policy
from trackyard.leases.rules import read_rules
from trackyard.scheduling import Policy, preset
from trackyard.server.settings import Settings
from trackyard.store.database import ReadConnection

if TYPE_CHECKING:
    from trackyard.engines.slurm.site import SlurmSite

ENGINES = ("local", "ray=http://head:8265", "slurm", "none")
SLURM = "slurm"
RAY = "ray="
#: how long before it counts as lost an attempt that is cut off ends itself
SELF_END_SECONDS = 15.0


def check_engine(settings: Settings) -> None:
    """Refuse an engine that is not there, before anything starts."""
    if settings.engine.startswith(RAY):
        _check_ray(settings)
    elif settings.engine == SLURM:
        slurm_site(settings)
    elif settings.engine not in ("local", "none"):
        raise SetupError(
            f"there is no engine {settings.engine!r}",
            hint=f"choose one of {', '.join(ENGINES)}",
        )


def _check_ray(settings: Settings) -> None:
    parts = urlsplit(settings.engine[len(RAY) :])
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(
            f"{settings.engine!r} names no Ray head",
            hint="write it with http:// and the port of its dashboard, as ray=http://head:8265",
        )
    reaches_out = settings.job_url or not (settings.is_loopback or _is_wild(settings.host))
    if not reaches_out and not _is_here(parts.hostname):
        raise SetupError(
            f"jobs on the nodes of {parts.hostname} cannot reach a server at {settings.host}",
            hint="listen on an address they reach (--host), or set job_url to one",
        )
    ray_token(settings)


def _is_wild(host: str) -> bool:
    return host in ("0.0.0.0", "::", "*")  # noqa: S104 - compared, not bound


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def ray_token(settings: Settings) -> str:
    """Return the Ray cluster's token, or nothing."""
    if not settings.ray_token_file:
        return os.environ.get("RAY_AUTH_TOKEN", "").strip()
    try:
        return Path(settings.ray_token_file).expanduser().read_text().strip()
    except OSError as fault:
        raise SetupError(
            f"the token of the Ray cluster cannot be read: {fault.strerror}",
            hint=f"check that {settings.ray_token_file} is there and may be read",
        ) from fault


def open_engine(settings: Settings) -> Engine | None:
    """Return the engine, or None for a server that schedules nothing."""
    check_engine(settings)
    if settings.engine == "none":
        return None
    if settings.engine.startswith(RAY):
        return _open_ray(settings)
    if settings.engine == SLURM:
        return _open_slurm(settings)
    from trackyard.engines.local import LocalEngine
    from trackyard.engines.machine import Declared, HealthChecking

    several = range(settings.declared_nodes) if settings.declared_nodes > 1 else ()
    declared = Declared(
        gpus=None if settings.gpus < 0 else settings.gpus,
        node_ids=tuple(f"node-{number}" for number in several),
    )
    health = read_policy(settings.health)
    looking = HealthChecking(every_seconds=health.every_seconds, limits=health.limits)
    folder = settings.home / "engine"
    apart = isolation(settings)
    return LocalEngine(folder, declared=declared, looking=looking, isolation=apart)


def isolation(settings: Settings) -> Isolation:
    """Return how jobs on this machine are kept apart, or say why it cannot be done."""
    if settings.run_as not in CHOICES:
        raise SetupError(
            f"run_as is {settings.run_as!r}", hint=f"choose one of {', '.join(CHOICES)}"
        )
    try:
        return choose(settings.run_as, settings.home / "engine", _private(settings))
    except EngineError as fault:
        raise SetupError(str(fault)) from fault


def shared_rights(settings: Settings, reader: ReadConnection) -> str:
    """Say that several people's jobs run with the server's own rights; nothing where they do not.

    A job then reads the home folder, the admin's token among it.
    """
    if settings.engine != "local" or settings.run_as != "server":
        return ""
    people = count_users(reader)
    if people < 2:
        return ""
    return (
        f"{people} people's jobs run with the server's own rights and can read its home folder,"
        ' the admin token included; set run_as = "user" to keep them apart'
    )


def _private(settings: Settings) -> list[Path]:
    """Return what no job may see: the home, and files with secrets that lie elsewhere."""
    login = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "trackyard"
    named = (
        settings.secrets_key,
        settings.tls_key,
        settings.ray_token_file,
        str(settings.oidc.get("client_secret_file", "")),
    )
    files = [Path(name).expanduser().absolute() for name in named if name]
    return [path for path in (settings.home, login, *files) if path.exists()]


def slurm_site(settings: Settings) -> SlurmSite:
    """Read the [slurm] table, or say what is wrong with it."""
    from trackyard.engines.slurm.site import read_site

    table = dict(settings.slurm)
    if settings.is_loopback and not settings.job_url:
        # Nodes elsewhere could not reach it; the shared folder serves wherever they are.
        table.setdefault("nodes_reach_server", False)
    found = read_site(table, name=database_name(settings), home=settings.home)
    return replace(found, limits=read_policy(settings.health).limits)


def _open_slurm(settings: Settings) -> Engine:
    from trackyard.engines.slurm import SlurmEngine

    try:
        return SlurmEngine(slurm_site(settings))
    except (EngineError, OSError) as fault:
        raise SetupError(str(fault)) from fault


def database_name(settings: Settings) -> str:
    """Return what tells the jobs of this database from those of others, on a shared cluster."""
    # All servers on one database share their jobs.
    return hashlib.sha256(settings.database_url.encode()).hexdigest()[:16]


def _open_ray(settings: Settings) -> Engine:
    from trackyard.engines.ray import RayEngine
    from trackyard.engines.ray.submission import RaySite

    name = database_name(settings)
    ends_itself = max(SELF_END_SECONDS, settings.lost_after - SELF_END_SECONDS)
    ray_site = RaySite(
        name=name,
        folder=settings.ray_folder,
        renew_within_seconds=float(ends_itself),
        limits=read_policy(settings.health).limits,
        clears_leases=read_rules(settings.leases).foreign_jobs == "stop",
    )
    try:
        return RayEngine(settings.engine[len(RAY) :], site=ray_site, token=ray_token(settings))
    except EngineError as fault:
        raise SetupError(str(fault)) from fault


def site(settings: Settings) -> LaunchSite:
    """Return where jobs reach this server."""
    scheme = "https" if settings.tls_cert else "http"
    host = "127.0.0.1" if _is_wild(settings.host) else settings.host
    return LaunchSite(
        url=settings.job_url or f"{scheme}://{host}:{settings.port}",
        prefix=settings.prefix,
        data_cache_bytes=max(0, settings.data_cache_gib) * 1024**3,
    )


def policy(settings: Settings) -> Policy:
    """Return the queue's policy, with the operator's own times in it."""
    chosen = preset(settings.policy)
    preemption = replace(chosen.preemption, min_run_seconds=float(settings.preempt_after))
    return replace(chosen, preemption=preemption)
