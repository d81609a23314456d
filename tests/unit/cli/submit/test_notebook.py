"""`yard notebook`: which flags become which job."""

import argparse
from typing import Any

import pytest

from trackyard.cli.submit import notebook
from trackyard.core.errors import SetupError


class Recorded:
    """An API that notes what is submitted."""

    def __init__(self) -> None:
        self.sent: dict[str, Any] = {}

    def post(self, _path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.sent = {name: value for name, value in body.items() if name != "key"}
        return {"jobs": [{"job_id": "j1"}]}


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    notebook.register(parser.add_subparsers())
    return parser.parse_args(["notebook", *words])


def submitted(*words: str) -> dict[str, Any]:
    api, args = Recorded(), parsed(*words)
    notebook._submit(api, args, args.name or notebook.NAME)  # type: ignore[arg-type]
    return api.sent


def test_a_notebook_takes_the_flags_of_a_submission() -> None:
    """A lease, a part of a GPU and data sets reach the job; its folder bears its name."""
    assert submitted(
        "--gpus", "0.5", "--lease", "mine", "--data", "food11@v3", "--name", "lab"
    ) == {
        "command": ["jupyter-lab"],
        "name": "lab",
        "gpus": 0.5,
        "lease": "mine",
        "data": ["food11@v3"],
        "interactive": {"kind": "notebook", "folder": "lab", "idle_seconds": 7200.0},
    }


def test_the_interpreter_and_the_idle_time_are_chosen() -> None:
    """An interpreter runs JupyterLab as its module; 0 means never."""
    sent = submitted("--python", "/opt/torch/bin/python", "--idle", "0")
    assert sent["command"] == ["/opt/torch/bin/python", "-m", "jupyterlab"]
    assert sent["interactive"] == {"kind": "notebook", "folder": "notebook"}


def test_an_app_is_its_command_line() -> None:
    """Quotes are read as a shell reads them."""
    sent = submitted("--app", "streamlit run 'my app.py'", "--no-working-dir")
    assert sent["command"] == ["streamlit", "run", "my app.py"]
    assert sent["interactive"] == {"kind": "app", "idle_seconds": 7200.0}


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--app", ""], "--app is empty"), (["--app", "run 'open"], "No closing quotation")],
)
def test_a_wrong_app_is_refused(words: list[str], says: str) -> None:
    """The sentence names the flag."""
    with pytest.raises(SetupError, match=says):
        submitted(*words)


def test_python_and_app_exclude_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """An app names its interpreter itself."""
    monkeypatch.setattr(notebook.Api, "from_environment", Recorded)
    with pytest.raises(SetupError, match="--python is for JupyterLab"):
        notebook.run(parsed("--app", "x", "--python", "y"))
