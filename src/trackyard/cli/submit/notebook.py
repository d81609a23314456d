"""`yard notebook [flags]`: JupyterLab, or another web app, as a job, opened in the browser."""

from __future__ import annotations

import argparse
import shlex
import time
import uuid
import webbrowser
from typing import Any

from trackyard.cli.amounts import seconds
from trackyard.cli.jobs.jobview import ACTIVE, FINAL, label
from trackyard.cli.jobs.listing import list_jobs
from trackyard.cli.output import add_json, emit_json, say
from trackyard.cli.submit import sending, wish
from trackyard.cli.submit.interacting import told_end, wait_for_start
from trackyard.client.api import Api, ApiFault
from trackyard.core.errors import SetupError

JUPYTER = ["jupyter-lab"]
#: JupyterLab as a module of the interpreter that `--python` names.
MODULE = ["-m", "jupyterlab"]
NAME = "notebook"
IDLE_SECONDS = 2 * 3600.0
#: How long an app may take from its start to its first answer.
READY_SECONDS = 300.0


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "notebook",
        help="JupyterLab or another web app on a node, in the browser",
        usage='yard notebook [flags]\n       yard notebook --app "streamlit run app.py" [flags]',
        description="Queue JupyterLab as a job and open it in the browser, through the server."
        " Its folder is yours by --name and lasts. One that runs already is opened again.",
        epilog="In --app, {port} and {path} stand for where the app is to listen and to be found.",
    )
    wish.add_flags(parser)
    parser.add_argument("--app", metavar="CMD", help="a web app in place of JupyterLab")
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="interpreter on the node that has JupyterLab, as of a conda environment",
    )
    parser.add_argument(
        "--idle", metavar="T", help="stop it when nobody used it for so long (2h); 0: never"
    )
    parser.add_argument(
        "--url",
        action="store_true",
        help="print an address with a token, as for VS Code",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address alone")
    add_json(parser)
    parser.set_defaults(func=run, command=[])


def run(args: argparse.Namespace) -> int:
    """Find or submit it, wait, open it."""
    api = Api.from_environment()
    if args.app is not None and args.python:
        raise SetupError("--python is for JupyterLab", hint="name the interpreter in --app")
    name = args.name or NAME
    job_id = None if args.app is not None else _running(api, name)
    if job_id is None:
        job_id = _submit(api, args, name)
    elif wish.is_given(args):
        say(
            f"{job_id} is already running with what it was started with;"
            " --name OTHER starts a second one"
        )
    job = wait_for_start(api, job_id)
    if job["state"] in FINAL:
        return told_end(job)
    found = _opened(api, job_id, is_program=args.url)
    if args.json:
        emit_json(found)
        return 0
    say(f"{job_id} ({label(job)}) runs on {', '.join(job['on']) or 'its node'}")
    print(found["url"], flush=True)
    if not (args.url or args.no_browser):
        webbrowser.open(found["url"])
    say(f"  yard stop {job_id}")
    return 0


def _running(api: Api, name: str) -> str | None:
    me = api.get("/api/v1/session")["user"]
    jobs = list_jobs(api, states=ACTIVE, user=me, name=name, limit=20)["jobs"]
    return next((job["job_id"] for job in jobs if job.get("interactive") == "notebook"), None)


def _submit(api: Api, args: argparse.Namespace, name: str) -> str:
    is_app = args.app is not None
    if is_app:
        args.command = _words(args.app)
    else:
        args.command = [args.python, *MODULE] if args.python else list(JUPYTER)
        args.no_working_dir, args.name = True, name
    asked = wish.collect(args)
    fields = dict(asked.fields)
    fields["interactive"] = _interactive(args, name)
    made = sending.build(asked) if is_app else None
    if made is not None:
        sending.send(api, made)
        fields |= {"package": made.digest, "source": sending.source_fields(asked.folder)}
    answer = api.post("/api/v1/jobs", {**fields, "key": uuid.uuid4().hex})
    return str(answer["jobs"][0]["job_id"])


def _words(line: str) -> list[str]:
    try:
        found = shlex.split(line)
    except ValueError as fault:
        raise SetupError(f"--app {line!r}: {fault}", hint="close the quote") from fault
    if not found:
        raise SetupError("--app is empty", hint='write --app "streamlit run app.py"')
    return found


def _interactive(args: argparse.Namespace, name: str) -> dict[str, Any]:
    idle = IDLE_SECONDS
    if args.idle is not None:
        idle = 0.0 if args.idle.strip() == "0" else seconds(args.idle, what="--idle")
    found: dict[str, Any] = (
        {"kind": "app"} if args.app is not None else {"kind": "notebook", "folder": name}
    )
    return {**found, "idle_seconds": idle} if idle else found


def _opened(api: Api, job_id: str, *, is_program: bool) -> dict[str, Any]:
    """Return the address of the app once it answers."""
    until = time.monotonic() + READY_SECONDS
    probe = api.post(f"/api/v1/jobs/{job_id}/app", {"program": True})
    while True:
        try:
            _knock(api, job_id, probe["url"])
            break
        except ApiFault as fault:
            if fault.status != 503 or time.monotonic() > until:
                raise
            time.sleep(0.5)
    if is_program:
        return dict(probe)
    return dict(api.post(f"/api/v1/jobs/{job_id}/app", {}))


def _knock(api: Api, job_id: str, url: str) -> None:
    token = url.partition("token=")[2]
    for _ in Api(api.url, token).pieces(f"/apps/{job_id}/"):
        return
