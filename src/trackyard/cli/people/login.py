"""`yard login`: remember a server and a token, or get a sign-in address for the browser."""

from __future__ import annotations

import argparse
import getpass
import os
import sys

from trackyard.cli.output import say
from trackyard.client.api import Api, home_token, save_login
from trackyard.core.errors import SetupError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "login",
        help="remember a server and a token",
        description="Check a token against a server and remember both for this user.",
    )
    parser.add_argument("url", nargs="?", help="the server's address")
    parser.add_argument("--browser", action="store_true", help="print a one-time sign-in address")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Store the login, or print a sign-in address."""
    if args.browser:
        api = Api.from_environment()
        code = api.post("/api/v1/session/codes")["code"]
        print(f"{api.url}/signin#code={code}")
        return 0
    if not args.url:
        raise SetupError("login needs the server's address", hint="yard login http://host:8000")
    api = Api(args.url, _ask_token())
    who = api.get("/api/v1/session")
    path = save_login(args.url, api.token or "")
    say(f"signed in to {api.url} as {who['user']} (team {who['team']}, {who['role']}); {path}")
    return 0


def _ask_token() -> str:
    """Take the token from the environment, a pipe, a prompt or the local home; never from a
    flag.
    """
    given = os.environ.get("YARD_TOKEN")
    if given:
        return given
    if not sys.stdin.isatty():
        piped = sys.stdin.readline().strip()
        token = piped or home_token()
    else:
        token = getpass.getpass("token (empty for this machine's admin token): ") or home_token()
    if not token:
        raise SetupError("no token given", hint="`yard token create` on the server makes one")
    return token
