"""`yard env`: the export lines that point stock clients at the server."""

from __future__ import annotations

import argparse
import shlex

from trackyard.cli.output import emit_json
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "env",
        help="print export lines for mlflow and ray",
        description='Print export lines for mlflow and ray; use as: eval "$(yard env)"',
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the lines."""
    api = Api.from_environment()
    token = api.token or ""
    lines = {
        "MLFLOW_TRACKING_URI": api.url,
        "MLFLOW_TRACKING_TOKEN": token,
        "RAY_ADDRESS": api.url,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token,
        "RAY_JOB_HEADERS": f'{{"Authorization": "Bearer {token}"}}',
        "YARD_URL": api.url,
        "YARD_TOKEN": token,
    }
    if args.json:
        emit_json(lines)
        return 0
    for name, value in lines.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0
