"""Drives the door with JobSubmissionClient, in an environment that holds stock Ray alone.

Prints one REPORT line with what was seen; what it should be is the test's business.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import ray
from ray.job_submission import JobSubmissionClient

URL, FOLDER, WHEEL = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
TOKEN, OTHER = os.environ["DOOR_TOKEN"], os.environ["DOOR_OTHER_TOKEN"]
#: a name of this generation's own, since names are never given twice
HOLDER = f"holder-{ray.__version__}"
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
report = {}


def client_of(token, url=URL):
    return JobSubmissionClient(url, headers={"Authorization": f"Bearer {token}"})


def refusal(call):
    """Return the words with which a call fails."""
    try:
        call()
    except Exception as fault:
        return f"{type(fault).__name__}: {fault}"
    return "nothing was refused"


def ended(client, job):
    """Wait for a job's end and return it."""
    until = time.monotonic() + 240
    while time.monotonic() < until:
        info = client.get_job_info(job)
        if info.status in ENDED:
            return info
        time.sleep(0.1)
    raise SystemExit(f"{job} is still {info.status}: {info.message}")


async def followed(client, job, until=None, gate=None):
    """Follow a job's output; let the job go on once the word that its gate waits for was heard."""
    text = ""
    async for piece in client.tail_job_logs(job):
        text += piece
        if gate is not None and gate[0] in text:
            gate[1].touch()
        if until is not None and until in piece:
            break
    return text


def submit_and_follow(client):
    """A working folder, a module, variables and a requirement reach the job; output is live."""
    gate = FOLDER / f"gate-{ray.__version__}"
    environment = {
        "working_dir": str(FOLDER / "job"),
        "py_modules": [str(FOLDER / "modules" / "sidecar")],
        "env_vars": {
            "FLAVOUR": "plum",
            "MLFLOW_TRACKING_URI": "http://elsewhere",
            "API_TOKEN": "secret",
            "EXTENDED": "${PATH}:/more",
            "PIP_NO_INDEX": "1",
            "GATE": str(gate),
        },
        "pip": [WHEEL],
    }
    job = client.submit_job(
        entrypoint="python main.py 'a b' && echo $HOME/end",
        runtime_env=environment,
        metadata={"job_name": "plum tart", "trackyard.priority": "high", "owner": "me"},
        entrypoint_num_gpus=0.5,
        entrypoint_num_cpus=1,
        entrypoint_memory=64 * 1024 * 1024,
    )
    text = asyncio.run(followed(client, job, gate=("path True", gate)))
    info = ended(client, job)
    report["followed"] = {
        "text": text,
        "status": info.status,
        "exit_code": info.driver_exit_code,
        "entrypoint": info.entrypoint,
        "metadata": info.metadata,
        "variables": info.runtime_env["env_vars"],
        "logs": client.get_job_logs(job),
        "job": job,
    }


def packages(client):
    """A folder that is here already is not sent again, and teams do not share theirs."""
    sent = []

    def counting(client):
        upload = client._upload_package

        def counted(uri, *args, **more):
            sent.append(uri)
            return upload(uri, *args, **more)

        client._upload_package = counted
        return client

    # A folder of this generation's own: what the other one sent is here already.
    (FOLDER / ray.__version__).mkdir(exist_ok=True)
    (FOLDER / ray.__version__ / "word.txt").write_text(f"small {ray.__version__}\n")
    folder = {"working_dir": str(FOLDER / ray.__version__)}
    first = counting(client_of(TOKEN))
    second, other = counting(client_of(TOKEN)), counting(client_of(OTHER))
    counts, jobs = [], []
    for one in (first, second, other):
        before = len(sent)
        jobs.append((one, one.submit_job(entrypoint="cat word.txt", runtime_env=dict(folder))))
        counts.append(len(sent) - before)
    report["packages"] = {
        "sent": counts,
        "names": len(set(sent)),
        "words": [(ended(one, job).status, one.get_job_logs(job)) for one, job in jobs],
        "foreign": refusal(lambda: client.get_job_info(jobs[2][1])),
        "stolen": refusal(
            lambda: client.submit_job(
                entrypoint="cat word.txt", runtime_env={"working_dir": "gcs://_ray_pkg_0.zip"}
            )
        ),
    }


def queueing(client):
    """Waiting shows its place; stopping works while waiting and while running."""
    one, waits = "sleep 600", "echo never"
    running = client.submit_job(entrypoint=one, entrypoint_num_gpus=1, submission_id=HOLDER)
    waiting = client.submit_job(entrypoint=waits, entrypoint_num_gpus=1)
    while client.get_job_status(running) != "RUNNING":
        time.sleep(0.05)
    words = asyncio.run(followed(client, waiting, until="position"))
    before = client.get_job_info(waiting)
    report["queue"] = {
        "words": words,
        "message": before.message,
        "status": before.status,
        "logs": client.get_job_logs(waiting),
        "duplicate": refusal(lambda: client.submit_job(entrypoint=one, submission_id=running)),
        "delete_running": refusal(lambda: client.delete_job(running)),
    }
    told = client.stop_job(waiting)
    stopped = ended(client, waiting)
    report["stop_waiting"] = [told, stopped.status, client.get_job_status(running)]
    told = client.stop_job(running)
    stopped = ended(client, running)
    report["stop_running"] = [told, stopped.status, stopped.driver_exit_code]
    report["stop_ended"] = client.stop_job(running)
    report["deleted"] = [
        client.delete_job(running),
        refusal(lambda: client.get_job_info(running)),
        [job.submission_id for job in client.list_jobs() if job.submission_id == running],
        refusal(lambda: client.submit_job(entrypoint=one, submission_id=running)),
    ]


def failures(client):
    """A failing job ends as FAILED with its code; refusals are one sentence."""
    job = client.submit_job(entrypoint="echo oh; exit 7")
    info = ended(client, job)
    report["failed"] = [info.status, info.driver_exit_code, info.message]

    flaky = (
        'cd "$YARD_CHECKPOINT_DIR"; test -e x && echo second && exit; echo > x; echo first; exit 9'
    )
    again = client.submit_job(entrypoint=flaky, metadata={"trackyard.retries": "1"})
    text = asyncio.run(followed(client, again))
    report["again"] = [text, ended(client, again).status]

    def refused(**body):
        return refusal(lambda: client.submit_job(entrypoint="true", **body))

    report["refused"] = {
        "key": refused(metadata={"trackyard.quue": "x"}),
        "queue": refused(metadata={"trackyard.queue": "nowhere"}),
        "team": refused(metadata={"trackyard.team": "nobodys"}),
        "time": refused(metadata={"trackyard.time": "soon"}),
        "group": refused(entrypoint_resources={"GPU_group_1_ab": 1}),
        "node": refused(entrypoint_resources={"node:10.0.0.1": 0.01}),
        "resource": refused(entrypoint_resources={"unicorn": 1}),
        "conda": refused(runtime_env={"conda": "env"}),
        "gpus": refused(entrypoint_num_gpus=1.5),
        "unknown": refusal(lambda: client.get_job_info("nothing-of-the-kind")),
        "unknown_logs": refusal(lambda: client.get_job_logs("nothing-of-the-kind")),
        "unknown_tail": refusal(lambda: asyncio.run(followed(client, "nothing-of-the-kind"))),
        "owner_word": client.get_job_info(
            client.submit_job(entrypoint="true", metadata={"priority": "mine", "team": "red"})
        ).metadata,
    }


def tokens():
    """Each of Ray's ways to send a token opens the door; a wrong one does not."""
    host = URL.partition("://")[2]
    ways = {
        "bearer": lambda: client_of(TOKEN),
        "own header": lambda: JobSubmissionClient(
            URL, headers={"X-Ray-Authorization": f"Bearer {TOKEN}"}
        ),
        "cookie": lambda: JobSubmissionClient(URL, cookies={"ray-authentication-token": TOKEN}),
        "address": lambda: JobSubmissionClient(f"http://anyone:{TOKEN}@{host}"),
        "below": lambda: client_of(TOKEN, f"{URL}/ray"),
    }
    report["tokens"] = {}
    for name, make in ways.items():
        client = make()
        job = client.submit_job(entrypoint=f"echo by {name}")
        report["tokens"][name] = asyncio.run(followed(client, job))
    report["wrong"] = refusal(lambda: client_of("yard_wrong"))
    report["none"] = refusal(lambda: JobSubmissionClient(URL))


def main():
    client = client_of(TOKEN)
    submit_and_follow(client)
    packages(client)
    queueing(client)
    failures(client)
    tokens()
    report["listed"] = [job.submission_id for job in client.list_jobs()]
    report["version"] = client.get_version()
    print("REPORT " + json.dumps(report, default=str))


main()
