"""JupyterLab behind the server, as programs use it: VS Code's calls, tracked cells, an outage."""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.acceptance.jobs.yard import eventually
from tests.acceptance.jobs_cli.yarding import JobServer, Yard, end_all
from tests.acceptance.serving import ENVS

PATIENCE = 150.0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """A server whose jobs find JupyterLab on their PATH."""
    folder = tmp_path_factory.mktemp("lab")
    path = f"{ENVS / 'notebook' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    server = JobServer(folder / "home", environment={"PATH": path, "HOME": str(folder)})
    server.start()
    server.wait_for_nodes()
    (folder / "user").mkdir()
    yield Yard(server, folder / "user")
    server.kill()
    end_all(folder)


class Kernel:
    """A kernel driven as VS Code drives one: the REST API and the channel's WebSocket."""

    def __init__(self, address: str) -> None:
        base, _, self._token = address.partition("?token=")
        self.base = base
        self._client = httpx.Client(
            base_url=base, headers={"Authorization": f"token {self._token}"}, timeout=PATIENCE
        )
        made = self.ask("POST", "api/sessions", json=_session())
        self.id = str(made.json()["kernel"]["id"])

    def ask(self, method: str, path: str, **how: Any) -> httpx.Response:
        answer = self._client.request(method, path, **how)
        assert answer.status_code < 400, answer.text
        return answer

    def run(self, code: str) -> str:
        """Run a cell; return what it printed."""
        session = uuid.uuid4().hex
        url = "ws" + self.base.removeprefix("http") + f"api/kernels/{self.id}/channels"
        url += f"?session_id={session}&token={self._token}"
        message = _execution(code, session)
        printed = ""
        with connect(url, open_timeout=PATIENCE, max_size=None) as line:
            line.send(json.dumps(message))
            while True:
                reply = json.loads(line.recv(timeout=PATIENCE))
                if reply["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                    continue
                content = reply["content"]
                printed += content.get("text", "") if reply["msg_type"] == "stream" else ""
                assert reply["msg_type"] != "error", content
                if reply["msg_type"] == "status" and content["execution_state"] == "idle":
                    return printed


def _session() -> dict[str, Any]:
    kernel = {"name": "python3"}
    return {"name": "a", "path": f"{uuid.uuid4().hex}.ipynb", "type": "notebook", "kernel": kernel}


def _execution(code: str, session: str) -> dict[str, Any]:
    header = {
        "msg_id": uuid.uuid4().hex,
        "username": "vscode",
        "session": session,
        "msg_type": "execute_request",
        "version": "5.3",
    }
    content = {"code": code, "silent": False, "store_history": True}
    return {
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": content,
        "channel": "shell",
    }


@pytest.fixture(scope="module")
def notebook(lab: Yard) -> dict[str, Any]:
    """A running notebook, as `yard notebook --url` gives it."""
    found: dict[str, Any] = lab.read("notebook", "--url", "--name", "bench")
    return found


def test_a_program_runs_cells_with_the_token_made_for_it(notebook: dict[str, Any]) -> None:
    """The calls that VS Code makes for a remote kernel, by header and by address."""
    kernel = Kernel(notebook["url"])
    assert "python3" in kernel.ask("GET", "api/kernelspecs").json()["kernelspecs"]
    assert kernel.run("print(6 * 7)") == "42\n"
    assert kernel.ask("POST", f"api/kernels/{kernel.id}/restart").json()["id"] == kernel.id
    assert kernel.run("print('again')") == "again\n"


def test_a_cells_run_bears_the_cell_as_its_version(lab: Yard, notebook: dict[str, Any]) -> None:
    """Runs of cells are runs of their own, below the notebook's, with the cell's source."""
    kernel = Kernel(notebook["url"])
    cell = (
        "import mlflow\nwith mlflow.start_run() as run:\n    mlflow.log_metric('score', 0.5)\n"
        "print(run.info.run_id)"
    )
    run_id = kernel.run(cell).strip().splitlines()[-1]
    run = lab.server.get("/api/2.0/mlflow/runs/get", run_id=run_id)["run"]
    tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
    assert tags["yard.cell.source"] == cell
    assert tags["mlflow.source.type"] == "NOTEBOOK"
    assert tags["mlflow.source.git.commit"].startswith("cell:")
    job = lab.page(notebook["job_id"])["job"]
    assert tags["mlflow.parentRunId"] == job["run_id"] != run_id
    assert run["data"]["metrics"][0]["value"] == 0.5


def test_the_server_killed_under_it_leaves_kernels_as_they_were(
    lab: Yard, notebook: dict[str, Any]
) -> None:
    """The runner opens its tunnel again; variables of the kernel are still there."""
    kernel = Kernel(notebook["url"])
    kernel.run("here = 'kept'")
    lab.server.kill()
    lab.server.start()
    eventually(lambda: _answers(notebook["url"]), patience=PATIENCE)
    assert kernel.run("print(here)") == "kept\n"


def _answers(address: str) -> bool:
    base, _, token = address.partition("?")
    answer = httpx.get(f"{base}api/status?{token}", timeout=PATIENCE)
    return answer.status_code == 200


def test_nobody_else_and_no_cookie_reaches_it(lab: Yard, notebook: dict[str, Any]) -> None:
    """Another member's token, no token, a browser on the server's own host: each is refused."""
    base, _, _ = notebook["url"].partition("?")
    job = notebook["job_id"]
    assert httpx.get(base, timeout=PATIENCE).status_code == 401
    lab.ok("user", "add", "eve", "--team", "default")
    eve = lab.read("token", "create", "--user", "eve", "--team", "default", "--role", "member")[
        "token"
    ]
    headers = {"Authorization": f"Bearer {eve}"}
    assert httpx.get(base, headers=headers, timeout=PATIENCE).status_code == 403
    opened = httpx.post(
        f"{lab.server.url}/api/v1/jobs/{job}/app", headers=headers, json={}, timeout=PATIENCE
    )
    assert opened.status_code == 403
    page = httpx.get(
        notebook["url"], headers={"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}
    )
    assert page.status_code == 403
    token = notebook["url"].partition("token=")[2]
    outside = httpx.get(
        f"{lab.server.url}/api/v1/session", headers={"Authorization": f"Bearer {token}"}
    )
    assert outside.status_code == 403


def test_its_folder_lasts_and_an_idle_one_is_warned_and_stopped(lab: Yard) -> None:
    """A file written in one notebook is in the next of the same name, after an idle stop."""
    first = lab.read("notebook", "--url", "--name", "short", "--idle", "40s")
    kernel = Kernel(first["url"])
    kernel.run("open('kept.txt', 'w').write('still here')")
    lab.until_state(first["job_id"], "stopped")
    log = lab.logs(first["job_id"])
    assert "it will be stopped in" in log
    assert "without use; its folder is kept" in log
    # The interpreter is chosen, as of an environment that is not on the node's PATH.
    python = str(ENVS / "notebook" / "bin" / "python")
    second = lab.read("notebook", "--url", "--name", "short", "--python", python)
    assert second["job_id"] != first["job_id"]
    code = "import sys; print(open('kept.txt').read(), sys.executable)"
    assert Kernel(second["url"]).run(code) == f"still here {python}\n"
    lab.ok("stop", second["job_id"], "--now", "--wait")


#: Writes what TensorBoard shows: one scalar, as a training would.
EVENTS = """
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter("logs")
summary = Summary(value=[Summary.Value(tag="loss", simple_value=0.25)])
writer.add_event(Event(step=3, wall_time=1.0, summary=summary))
writer.close()
"""


def test_tensorboard_is_served_by_the_same_proxy(lab: Yard, tmp_path: Path) -> None:
    """`--app` fills in port and path; the folder travels; large files come through whole."""
    programs = ENVS / "tensorboard" / "bin"
    subprocess.run([str(programs / "python"), "-c", EVENTS], cwd=tmp_path, check=True)
    app = f"{programs / 'tensorboard'} --logdir logs --host 127.0.0.1 --port {{port}}"
    words = ("notebook", "--url", "--json", "--app", app + " --path_prefix {path}")
    found = json.loads(lab.ok(*words, folder=tmp_path))
    base, _, token = found["url"].partition("?")
    with httpx.Client(base_url=base, params=token, timeout=PATIENCE) as client:
        page = client.get("")
        assert "<title>TensorBoard</title>" in page.text
        assert page.headers["content-security-policy"].endswith("sandbox")
        assert len(client.get("index.js").content) > 1_000_000
        eventually(lambda: client.get("data/runs").json() == ["."], patience=PATIENCE)
        points = client.get("data/plugin/scalars/scalars", params={"run": ".", "tag": "loss"})
        assert [point[1:] for point in points.json()] == [[3, 0.25]]
    lab.ok("stop", found["job_id"], "--now", "--wait")
