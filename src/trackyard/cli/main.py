"""Entry point of `yard`: finds the verb, runs it, turns faults into one sentence and an exit code.

Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 denied, 5 server unreachable.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Sequence

from trackyard.core.errors import SetupError, YardError

#: Verbs in the order help shows them; each with its module, which has register() and run().
VERBS = {
    "up": "server.up",
    "cluster": "fleet.cluster",
    "env": "people.env",
    "login": "people.login",
    "plan": "training.plan",
    "submit": "submit.submit",
    "sbatch": "submit.sbatch",
    "idev": "submit.idev",
    "attach": "submit.attach",
    "notebook": "submit.notebook",
    "finetune": "training.finetune",
    "sweep": "training.sweep",
    "sweeps": "training.sweeps",
    "ps": "jobs.ps",
    "show": "jobs.show",
    "why": "jobs.why",
    "logs": "jobs.logs",
    "stop": "jobs.stop",
    "requeue": "jobs.requeue",
    "hold": "jobs.hold",
    "release": "jobs.release",
    "top": "fleet.top",
    "alert": "watch.alert",
    "lease": "leases.lease",
    "nodes": "fleet.nodes",
    "drain": "fleet.drain",
    "undrain": "fleet.undrain",
    "quarantine": "fleet.quarantine",
    "queues": "queue.queues",
    "queue": "queue.queue",
    "log-policy": "queue.log_policy",
    "explain-policy": "queue.explain_policy",
    "usage": "people.usage",
    "budget": "people.budget",
    "teams": "people.teams",
    "team": "people.team",
    "token": "people.token",
    "secret": "people.secret",
    "user": "people.user",
    "experiments": "runs.experiments",
    "runs": "runs.runs",
    "diff": "runs.diff",
    "edit": "runs.edit",
    "models": "runs.models",
    "data": "data.data",
    "register": "runs.register",
    "alias": "runs.alias",
    "events": "watch.events",
    "logbook": "runs.logbook",
    "doctor": "fleet.doctor",
    "gc": "server.gc",
    "backup": "server.backup",
    "restore": "server.restore",
    "verify": "server.verify",
    "import": "moving.importing",
    "export": "moving.export",
    "demo": "demo.demo",
    "simulate": "queue.simulate",
}
USAGE, FAILED = 2, 1
#: What to do where the server's own words do not say it.
_HINTS = {
    401: "`yard login` stores a token; YARD_TOKEN names one for a single command",
    429: "wait a little and try again",
    503: "the server is busy or starting: try again in a moment",
}


def build_parser(verbs: Iterable[str] = tuple(VERBS)) -> argparse.ArgumentParser:
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
        importlib.import_module(f"trackyard.cli.{VERBS[verb]}").register(subparsers)
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
