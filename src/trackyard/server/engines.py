"""Which engine runs the work: made from the settings, once, when the scheduler starts."""

from __future__ import annotations

from dataclasses import replace

from trackyard.core.errors import SetupError
from trackyard.core.ports import Engine
from trackyard.fleet.policy import read_policy
from trackyard.jobs.admission.launching import Site
from trackyard.scheduling import Policy, preset
from trackyard.server.settings import Settings

ENGINES = ("local", "none")


def check_engine(settings: Settings) -> None:
    """Refuse an engine that is not there, before anything starts."""
    if settings.engine not in ENGINES:
        raise SetupError(
            f"there is no engine {settings.engine!r}",
            hint=f"choose one of {', '.join(ENGINES)}",
        )


def open_engine(settings: Settings) -> Engine | None:
    """Return the engine, or None for a server that schedules nothing."""
    check_engine(settings)
    if settings.engine == "none":
        return None
    from trackyard.engines.local import LocalEngine
    from trackyard.engines.machine import Declared, Looking

    declared = Declared(gpus=None if settings.gpus < 0 else settings.gpus)
    health = read_policy(settings.health)
    looking = Looking(every_seconds=health.every_seconds, limits=health.limits)
    return LocalEngine(settings.home / "engine", declared=declared, looking=looking)


def site(settings: Settings) -> Site:
    """Return where jobs of the local engine reach this server."""
    scheme = "https" if settings.tls_cert else "http"
    wild = settings.host in ("0.0.0.0", "::", "*")  # noqa: S104 - compared, not bound
    host = "127.0.0.1" if wild else settings.host
    return Site(url=settings.job_url or f"{scheme}://{host}:{settings.port}")


def policy(settings: Settings) -> Policy:
    """Return the queue's policy, with the operator's own times in it."""
    chosen = preset(settings.policy)
    preemption = replace(chosen.preemption, min_run_seconds=float(settings.preempt_after))
    return replace(chosen, preemption=preemption)
