"""Entry point of `yard`: finds the verb, runs it, turns faults into one sentence and an exit code.

Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 denied, 5 server unreachable.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from trackyard.core.errors import SetupError, YardError

#: Verbs in the order help shows them; each is a module of this package with register() and run().
VERBS = (
    "up",
    "cluster",
    "env",
    "login",
    "plan",
    "submit",
    "sbatch",
    "idev",
    "attach",
    "notebook",
    "finetune",
    "sweep",
    "sweeps",
    "ps",
    "show",
    "why",
    "logs",
    "stop",
    "requeue",
    "hold",
    "release",
    "top",
    "alert",
    "lease",
    "nodes",
    "drain",
    "undrain",
    "quarantine",
    "queues",
    "queue",
    "log-policy",
    "explain-policy",
    "usage",
    "budget",
    "teams",
    "team",
    "token",
    "secret",
    "user",
    "experiments",
    "runs",
    "diff",
    "edit",
    "models",
    "data",
    "register",
    "alias",
    "events",
    "logbook",
    "doctor",
    "gc",
    "backup",
    "restore",
    "verify",
    "import",
    "export",
    "demo",
    "simulate",
)
#: Modules of verbs that cannot be called by their verb.
_MODULES = {"import": "importing"}
USAGE, FAILED = 2, 1
#: What to do where the server's own words do not say it.
_HINTS = {
    401: "`yard login` stores a token; YARD_TOKEN names one for a single command",
    429: "wait a little and try again",
    503: "the server is busy or starting: try again in a moment",
}


def build_parser(verbs: Sequence[str] = VERBS) -> argparse.ArgumentParser:
    """Return the parser with the given verbs."""
    import trackyard

    parser = argparse.ArgumentParser(
        prog="yard",
        description="Track runs, queue training jobs, lease GPU nodes.",
        epilog="Each command has its own help: `yard COMMAND --help`.",
    )
    parser.add_argument("--version", action="version", version=f"yard {trackyard.__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of a fault")
    subparsers = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    for verb in verbs:
        module = _MODULES.get(verb, verb.replace("-", "_"))
        importlib.import_module(f"trackyard.cli.{module}").register(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Only the verb asked for is imported: `yard env` must not pay for the server.
    named = next((word for word in words if not word.startswith("-")), None)
    verbs = (named,) if named in VERBS else VERBS
    args = build_parser(verbs).parse_args(words)
    try:
        code: int = args.func(args)
        return code
    except SetupError as fault:
        return complain(fault.message, fault.hint, USAGE)
    except YardError as fault:
        return complain(fault.message, None, USAGE)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
    except Exception as fault:
        if args.debug:
            raise
        return _explain(fault)


def _explain(fault: Exception) -> int:
    from trackyard.client.api import ApiFault, Unreachable

    if isinstance(fault, Unreachable):
        return complain(str(fault), fault.hint, 5)
    if isinstance(fault, ApiFault):
        code = {404: 3, 401: 4, 403: 4, 429: 4, 400: 2, 413: 2}.get(fault.status, FAILED)
        return complain(str(fault), _HINTS.get(fault.status), code)
    return complain(f"unexpected fault: {fault!r}", "run again with --debug to see where", FAILED)


def complain(message: str, hint: str | None, code: int) -> int:
    """Print a fault the way every command does, and return the exit code."""
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"\nhint: {hint}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
