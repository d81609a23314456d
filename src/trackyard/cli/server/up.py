"""`yard up`: start the platform in the foreground."""

from __future__ import annotations

import argparse
import gc
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from trackyard.client.api import home

if TYPE_CHECKING:
    from trackyard.server.settings import Settings


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "up", help="start the platform", description="Start the platform in the foreground."
    )
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default 8000; 0 picks one)")
    parser.add_argument("--home", help="home folder (default YARD_HOME or ~/.trackyard)")
    parser.add_argument("--database", metavar="URL", help="postgresql://… (default: SQLite)")
    parser.add_argument("--artifacts", metavar="URL", help="s3://bucket/prefix (default: home)")
    parser.add_argument("--artifacts-endpoint", metavar="URL", help="S3-compatible store")
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file with settings")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="further host name"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate, to speak https")
    parser.add_argument("--tls-key", metavar="FILE", help="key of the certificate")
    parser.add_argument(
        "--trusted-proxy", action="append", default=[], metavar="ADDRESS", help="TLS proxy"
    )
    parser.add_argument("--prefix", metavar="PATH", help="path under which a proxy mounts us")
    parser.add_argument(
        "--engine", metavar="NAME", help="what runs jobs: local (default), ray=URL, slurm or none"
    )
    parser.add_argument("--ray-token-file", metavar="FILE", help="token of the Ray cluster")
    parser.add_argument("--ray-folder", metavar="PATH", help="folder on the Ray cluster's nodes")
    parser.add_argument(
        "--gpus", type=int, metavar="N", help="GPUs offered to jobs (default: those detected)"
    )
    parser.add_argument("--policy", metavar="NAME", help="queue policy (default, fifo, fair, …)")
    parser.add_argument(
        "--preempt-after", type=int, metavar="S", help="seconds before a job may be preempted"
    )
    parser.add_argument(
        "--with",
        dest="companions",
        action="append",
        default=[],
        metavar="PROGRAM",
        help="start this beside it: prometheus",
    )
    parser.add_argument("--ephemeral", action="store_true", help="use a throw-away home folder")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Start the server and stay until it ends."""
    # Next to nothing of what is imported is garbage; the server turns it on again.
    gc.disable()
    from trackyard.server import main as server
    from trackyard.server.settings import load_settings

    flags = {
        "host": args.host,
        "port": args.port,
        "home": args.home,
        "database": args.database,
        "artifacts": args.artifacts,
        "artifacts_endpoint": args.artifacts_endpoint,
        "allow_hosts": tuple(args.allow_host),
        "tls_cert": args.tls_cert,
        "tls_key": args.tls_key,
        "trusted_proxies": tuple(args.trusted_proxy),
        "prefix": args.prefix,
        "engine": args.engine,
        "ray_token_file": args.ray_token_file,
        "ray_folder": args.ray_folder,
        "gpus": args.gpus,
        "policy": args.policy,
        "preempt_after": args.preempt_after,
        "companions": tuple(args.companions),
        "ephemeral": args.ephemeral or None,
    }
    return server.run(load_settings(flags, args.config), announce=announce)


def announce(settings: Settings, code: str | None, warning: str = "") -> None:
    """Print where the platform is and how to use it."""
    url = settings.url
    lines = [
        "",
        f"  Trackyard is ready at {url}",
        "",
        f"  sign in   {url}/signin#code={code}   (works once, for 15 minutes)",
        f"  mlflow    export MLFLOW_TRACKING_URI={url}",
        f"            export MLFLOW_TRACKING_TOKEN=$(cat {settings.token_path})",
        f"  data      {settings.home}",
        *_other_home(settings),
        *([f"  WARNING   {warning}"] if warning else []),
        "",
    ]
    print("\n".join(lines), flush=True)


def _other_home(settings: Settings) -> list[str]:
    """Say how `yard` finds this server, where it would look in another home."""
    if settings.home == home().absolute():
        return []
    return [f"  yard      export YARD_HOME={shlex.quote(str(settings.home))}"]
