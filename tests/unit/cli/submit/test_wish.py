"""Flags and job file become one submission."""

import argparse
import textwrap
from pathlib import Path

import pytest

from trackyard.cli.submit import wish
from trackyard.core.errors import SetupError


def asked(*words: str) -> wish.SubmissionFlags:
    parser = argparse.ArgumentParser()
    wish.add_flags(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return wish.collect(parser.parse_args(words))


@pytest.fixture
def job_file(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "job.yaml"
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


def test_every_flag_reaches_its_field() -> None:
    given = asked(
        *"--name a --gpus 0.5 --gpu-type A100,H100 --cpus 4 --memory 8G --nodes 1".split(),
        *"--time 2h --estimate 1h --priority high --team vision --queue night".split(),
        *"--preemptible --retries 3 --after j1 --after j2:any-end --array 0-9%2".split(),
        *"--env A=1 --env B=x=y --experiment e --lease L --label rack=r1 --same rack".split(),
        *"--gang 2x1gpu".split(),
        *"--exclusive --style pack --launcher torchrun --processes-per-node 2".split(),
        *"--grace 10s --progress 5m --hold --tag why=test --no-working-dir".split(),
        *"-- python train.py --gpus 9 -- x".split(),
    )
    assert given.fields == {
        "name": "a",
        "gpus": 0.5,
        "gpu_types": ["A100", "H100"],
        "cpus": 4.0,
        "memory_bytes": 8 * 1024**3,
        "nodes": 1,
        "time_limit_seconds": 7200.0,
        "estimate_seconds": 3600.0,
        "priority": "high",
        "team": "vision",
        "queue": "night",
        "preemptible": True,
        "retries": 3,
        "after": [{"job": "j1", "when": "success"}, {"job": "j2", "when": "any-end"}],
        "array": "0-9%2",
        "env": {"A": "1", "B": "x=y"},
        "experiment": "e",
        "lease": "L",
        "gang": "2x1gpu",
        "labels": {"rack": "r1"},
        "same": "rack",
        "exclusive": True,
        "style": "pack",
        "launcher": "torchrun",
        "processes_per_node": 2,
        "grace_seconds": 10.0,
        "progress_seconds": 300.0,
        "hold": True,
        "tags": {"why": "test"},
        "command": ["python", "train.py", "--gpus", "9", "--", "x"],
    }
    assert given.folder is None


def test_what_is_not_asked_for_is_left_to_the_server() -> None:
    given = asked("echo", "hi")
    assert given.fields == {"command": ["echo", "hi"]}
    assert given.folder == Path()
    assert not given.folder_is_named


def test_a_job_file_has_the_same_keys_as_the_flags(job_file, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# pinned\nnumpy==2.1  # fast\n\nrich\n")
    path = job_file(
        """
        name: night
        command: python train.py --lr 0.1
        gpus: 2
        gpu-type: [A100, H100]
        memory: 64G
        time: 2h30m
        after: [j1, "j2:failure"]
        env: {DEPTH: 3, FAST: true}
        preemptible: true
        pip: requirements.txt
        working_dir: code
        exclude: ["*.bin"]
        """
    )
    given = asked("-f", path)
    assert given.fields == {
        "name": "night",
        "command": ["python", "train.py", "--lr", "0.1"],
        "gpus": 2.0,
        "gpu_types": ["A100", "H100"],
        "memory_bytes": 64 * 1024**3,
        "time_limit_seconds": 9000.0,
        "after": [{"job": "j1", "when": "success"}, {"job": "j2", "when": "failure"}],
        "env": {"DEPTH": "3", "FAST": "true"},
        "preemptible": True,
        "pip": ["numpy==2.1", "rich"],
    }
    assert given.folder == tmp_path / "code"
    assert given.exclude == ("*.bin",)


def test_a_flag_wins_over_the_file_and_variables_are_joined(job_file) -> None:
    path = job_file("{command: a, gpus: 2, env: {A: 1, B: 2}}")
    given = asked("-f", path, "--gpus", "1", "--env", "B=3", "--", "python", "other.py")
    assert given.fields == {
        "command": ["python", "other.py"],
        "gpus": 1.0,
        "env": {"A": "1", "B": "3"},
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[python, -u, train.py]", ["python", "-u", "train.py"]),
        ("python train.py --name 'two words'", ["python", "train.py", "--name", "two words"]),
        ('"cd x && python train.py"', ["bash", "-e", "-c", "cd x && python train.py"]),
        ("|\n  make data\n  make train\n", ["bash", "-e", "-c", "make data\nmake train\n"]),
    ],
)
def test_a_command_in_a_file_is_words_or_a_script(job_file, text: str, words: list[str]) -> None:
    assert asked("-f", job_file(f"command: {text}")).fields["command"] == words


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("command: a\ngpu: 1", "unknown key `gpu`", "did you mean `gpus`?"),
        ("command: a\nfrobnicate: 1", "unknown key `frobnicate`", "keys are the flags"),
        ("command: a\npriority: max", "priority 'max' is none of scavenge, low", "help"),
        ("command: a\npreemptible: yup", "neither true nor false", "true or false"),
        ("command: a\nname: {x: 1}", "is not one word", "single value"),
        ("command: a\ntime: 90", "--time '90' is not a length of time", "units"),
        ("command: ''", "`command` is empty", "python train.py"),
        ("gpus: 1", "there is no command", "at the end"),
        ("- a\n- b", "holds no job", "one key a line"),
        ("a: [", "is not YAML", "docs/submit.md"),
        ("!!python/object/apply:os.system ['true']", "is not YAML", "docs/submit.md"),
    ],
)
def test_a_wrong_file_is_refused_with_a_way_out(job_file, text, message, hint) -> None:
    with pytest.raises(SetupError) as fault:
        asked("-f", job_file(text))
    assert message in fault.value.message
    assert hint in (fault.value.hint or "")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(SetupError, match=r"nowhere.yaml cannot be read"):
        asked("-f", "nowhere.yaml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", "=1", "--", "a"], "has no value"),
        (["--env", "SURELY_NOT_SET", "--", "a"], "not set here"),
        (["--after", "j1:maybe", "--", "a"], "is not understood"),
        (["--pip", "nowhere.txt", "--", "a"], "nowhere.txt cannot be read"),
        (["--"], "there is no command"),
        ([], "there is no command"),
    ],
)
def test_a_wrong_flag_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        asked(*words)


def test_a_variable_named_alone_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert asked("--env", "HF_TOKEN", "--", "a").fields["env"] == {"HF_TOKEN": "secret"}
