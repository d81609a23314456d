"""The server's settings: one typed object from flags, environment and an optional TOML file.
Paths are derived on access.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.core.storage_uri import STORAGE_SCHEMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything `yard up` can be told; each field is a key of the config file."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8000
    """Port to listen on; 0 picks a free one."""
    home: Path = Path("~/.trackyard")
    """Folder of the database, artifacts and the admin token."""
    database: str = ""
    """Database address: empty for SQLite in the home folder, or postgresql://…"""
    artifacts: str = ""
    """Where artifacts lie: empty for the home folder, or s3://bucket/prefix."""
    artifacts_endpoint: str = ""
    """Address of an S3-compatible store, where it is not Amazon's."""
    artifact_schemes: tuple[str, ...] = STORAGE_SCHEMES
    """Kinds of stores an experiment's artifact_location may name; clients talk to them by
    themselves, this server opens none."""
    missing_sources: str = "refuse"
    """What becomes of a model version whose source this server keeps but does not find: `refuse`
    it, or `warn` in its status message, as MLflow takes it."""
    outbound_allow: tuple[str, ...] = ()
    """Networks and host names inside that webhooks may call besides public addresses."""
    outbound_http: bool = False
    """Whether webhooks may call plain http: addresses, too."""
    allow_hosts: tuple[str, ...] = ()
    """Further host names this server answers to."""
    apps_host: str = ""
    """Host name for pages of jobs' apps, as `*.apps.example.org` or one name for all; empty: names
    below `localhost`, for browsers on this machine."""
    tls_cert: str = ""
    """Certificate file; with tls_key the server speaks https."""
    tls_key: str = ""
    """Key file of the certificate."""
    secrets_key: str = ""
    """File with the key that seals teams' secrets; empty for `secrets.key` in the home folder,
    where it is made. Servers on one database need the same."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies that speak TLS in front of this server; nobody else but
    this machine may then speak to it in the clear."""
    prefix: str = ""
    """Path under which a proxy mounts this server."""
    request_seconds: int = 30
    """Seconds that a caller has to send a request, uploads of artifacts aside."""
    drain_seconds: int = 0
    """Seconds for which the port stays open after SIGTERM, while /ready says no: for balancers
    that only learn from /ready that a server is going."""
    engine: str = "local"
    """What runs jobs: `local` for this machine, `ray=http://head:8265` for a Ray cluster, `slurm`
    for a Slurm cluster, `none` for a server that only serves."""
    slurm: dict[str, Any] = field(default_factory=dict)
    """Table [slurm] of the config file: folder, way, partitions and options of a Slurm site."""
    run_as: str = "server"
    """Whom jobs on this machine run as: `server` with the server's own rights; `user` kept apart,
    as a user of each team's own where the server is root, else by bubblewrap; `bubblewrap`."""
    ray_token_file: str = ""
    """File that holds the Ray cluster's token, where it has one; RAY_AUTH_TOKEN serves as well."""
    ray_folder: str = ""
    """Folder on the Ray cluster's nodes for work, caches and checkpoints; one that all nodes share
    lets a job go on elsewhere. Empty: below each node's temporary folder."""
    gpus: int = -1
    """GPUs this machine offers to jobs: -1 as detected, else so many, for trying out."""
    declared_nodes: int = 1
    """Nodes this machine looks like, each with those GPUs, for trying out jobs on several."""
    policy: str = "default"
    """How the queue is ordered and filled: a preset such as default, fifo, fair or easy."""
    preempt_after: int = 600
    """Seconds a job runs before it may be preempted for one of its own class."""
    lost_after: int = 60
    """Seconds without a sign of life after which an attempt counts as lost."""
    undeclared: str = "charge"
    """What becomes of jobs that take GPUs in the cluster which they did not ask for: `charge`
    their team, or also `stop` them after undeclared_grace."""
    undeclared_grace: int = 60
    """Seconds that such a job has to give them back before it is stopped."""
    data_cache_gib: int = 100
    """GiB that copies of data sets may take in each node's cache; 0: as many as its disk holds."""
    log_days: int = 0
    """Days that logs of ended jobs are kept; 0 keeps them for ever."""
    key_days: int = 30
    """Days in which repeating a submission under its key submits nothing twice; 0: for ever."""
    job_url: str = ""
    """Address under which jobs reach this server, where it is not the one it listens on."""
    queues: dict[str, Any] = field(default_factory=dict)
    """Tables [queues.NAME] of the config file: limits and order of queues."""
    teams: dict[str, Any] = field(default_factory=dict)
    """Tables [teams.NAME] of the config file: parent, share, quota_gpus, limit_gpus, ..."""
    leases: dict[str, Any] = field(default_factory=dict)
    """Table [leases] of the config file: lengths, quotas, turnaround and lending of leases."""
    health: dict[str, Any] = field(default_factory=dict)
    """Table [health] of the config file: how nodes are looked at, quarantined and given back."""
    alerts: dict[str, Any] = field(default_factory=dict)
    """Table [alerts] of the config file: mail server, and commands that alerts may run."""
    oidc: dict[str, Any] = field(default_factory=dict)
    """Table [oidc] of the config file: single sign-on at an OpenID Connect provider."""
    companions: tuple[str, ...] = ()
    """Programs that are started with the server and end with it: `prometheus`."""
    ephemeral: bool = False
    """Use a throw-away home folder, removed at the end."""

    @property
    def database_url(self) -> str:
        """Return the database address in force."""
        return self.database or f"sqlite:///{self.home / 'trackyard.db'}"

    @property
    def artifacts_url(self) -> str:
        """Return where artifacts lie."""
        return self.artifacts or str(self.home / "artifacts")

    @property
    def token_path(self) -> Path:
        """Return the file that holds the admin token."""
        return self.home / "token"

    @property
    def secrets_key_path(self) -> Path:
        """Return the file that holds the key of secrets."""
        return (
            Path(self.secrets_key).expanduser() if self.secrets_key else self.home / "secrets.key"
        )

    @property
    def lock_path(self) -> Path:
        """Return the file whose lock shows that a server owns this home."""
        return self.home / "server.lock"

    @property
    def address_path(self) -> Path:
        """Return the file in which the server notes where it listens."""
        return self.home / "server.json"

    @property
    def url(self) -> str:
        """Return an address under which it answers, where it listens on all of them too."""
        scheme = "https" if self.tls_cert else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            host = self.allow_hosts[0] if self.allow_hosts else "127.0.0.1"
        return f"{scheme}://{host}:{self.port}{self.prefix}"

    @property
    def is_loopback(self) -> bool:
        """Tell whether only this machine can reach the server."""
        return self.host in ("127.0.0.1", "localhost", "::1") or self.host.startswith("127.")

    def check(self) -> None:
        """Refuse settings that would open the server without protection."""
        if not self.is_loopback and not self.tls_cert and not self.trusted_proxies:
            raise SetupError(
                f"listening on {self.host} would send tokens in the clear",
                hint="give --tls-cert and --tls-key, or name a TLS proxy with"
                " --trusted-proxy ADDRESS",
            )
        if bool(self.tls_cert) != bool(self.tls_key):
            raise SetupError("--tls-cert and --tls-key go together", hint="give both files")
        for proxy in self.trusted_proxies:
            try:
                ip_network(proxy)
            except ValueError:
                raise SetupError(
                    f"--trusted-proxy {proxy} is not an address",
                    hint="write it as 10.0.0.7, or 10.0.0.0/24 for a network",
                ) from None
        if self.prefix and (not self.prefix.startswith("/") or self.prefix.endswith("/")):
            raise SetupError(
                f"the prefix {self.prefix!r} is not a path", hint="write it as /trackyard"
            )
        if self.missing_sources not in ("refuse", "warn"):
            raise SetupError(
                f"missing_sources = {self.missing_sources!r} is not known",
                hint='write "refuse", or "warn" to take model versions as MLflow does',
            )
        scheme = self.database.partition("://")[0]
        if self.database and scheme not in ("sqlite", "postgresql", "postgres"):
            raise SetupError(
                f"--database {scheme or self.database!r} is not a database this server speaks",
                hint="use postgresql://user:password@host/name, or leave it out for SQLite",
            )


def load_settings(flags: Mapping[str, Any], config: Path | None = None) -> Settings:
    """Combine the config file, the environment and flags; later ones win."""
    values: dict[str, Any] = {}
    if config is not None:
        values.update(_read_config(config))
    if os.environ.get("YARD_HOME"):
        values["home"] = os.environ["YARD_HOME"]
    values.update({key: value for key, value in flags.items() if value not in (None, ())})
    if "home" in values:
        values["home"] = Path(values["home"])
    settings = Settings(**values)
    return dataclasses.replace(settings, home=settings.home.expanduser().absolute())


def _read_config(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
    except OSError as fault:
        raise SetupError(f"cannot read the config file {path}: {fault.strerror}") from fault
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise SetupError(f"{path} is not valid TOML: {fault}") from fault
    known = {field.name: field for field in dataclasses.fields(Settings)}
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in known:
            choices = ", ".join(sorted(known))
            raise SetupError(f"{path} has an unknown key {key!r}", hint=f"the keys are {choices}")
        default = known[key].default
        if isinstance(default, tuple) and isinstance(value, list):
            values[key] = tuple(str(item) for item in value)
            continue
        if isinstance(default, bool | int) and not isinstance(value, type(default)):
            raise SetupError(
                f"{path}: {key} must be {type(default).__name__}, not {value!r}",
                hint=f"for example {key} = {str(default).lower()}",
            )
        elif isinstance(default, str) and not isinstance(value, str):
            raise SetupError(f"{path}: {key} must be text in quotes, not {value!r}")
        values[key] = value
    return values
