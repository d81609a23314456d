"""Flags of `yard queue set` and `yard team set`, read into settings."""

import argparse

import pytest

from trackyard.cli.people import team
from trackyard.cli.queue import queue
from trackyard.cli.queue.explain_policy import lines
from trackyard.cli.queue.queues import rules
from trackyard.cli.submit.wish import add_flags, collect
from trackyard.core.errors import SetupError

GIB = 2**30


def asked(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    queue.register(parser.add_subparsers())
    return parser.parse_args(["queue", "set", "q", *words])


def test_amounts_are_read_and_none_takes_them_back() -> None:
    flags = (
        "--default-cpus 2 --default-memory 4G --default-cpus-per-gpu 3"
        " --default-memory-per-gpu 16G --max-cpus 8 --max-memory none"
    )
    assert queue.changes(asked(*flags.split())) == {
        "default_cpus": 2.0,
        "default_memory_bytes": 4 * GIB,
        "default_cpus_per_gpu": 3.0,
        "default_memory_per_gpu_bytes": 16 * GIB,
        "max_cpus_per_job": 8.0,
        "max_memory_per_job_bytes": None,
    }


def test_switches_are_words() -> None:
    found = queue.changes(asked("--zero-cpus", "no", "--preemptible-default", "always"))
    assert found == {"zero_cpus": False, "preemptible_default": "always"}
    with pytest.raises(SystemExit):
        asked("--preemptible-default", "maybe")


def test_classes_are_joined_with_those_there_are() -> None:
    known = {"urgent": "owner", "high": "maintainer"}
    assert queue.classes(["urgent=member", "high=default"], known) == {"urgent": "member"}
    with pytest.raises(SetupError, match="--class"):
        queue.classes(["urgent"], known)


@pytest.mark.parametrize(("text", "hours"), [("24h", 24), ("2d", 48), ("12.5", 12.5)])
def test_a_budget_is_a_number_of_hours(text: str, hours: float) -> None:
    assert team._hours(text) == hours
    assert team._hours("none") == "none"


def test_a_queue_s_rules_are_told() -> None:
    words = rules(
        {
            "default_cpus": 2,
            "default_memory_per_gpu_bytes": 16 * GIB,
            "max_memory_per_job_bytes": 64 * GIB,
            "zero_cpus": False,
            "classes": {"urgent": "owner"},
            "preemptible_default": "yes",
        }
    )
    assert words == (
        "64 GiB a job, 2 cpus by default, 16 GiB a gpu by default, no jobs without cpus,"
        " urgent for owners, preemptible by default"
    )


def test_promises_are_printed_by_topic() -> None:
    one = {"team": "t", "queue": "q", "topics": [{"topic": "order", "sentences": ["A."]}]}
    assert lines(one) == ["team t, queue q", "  order", "    - A."]


def _wish(*words: str) -> dict[str, object]:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return collect(parser.parse_args([*words, "--no-working-dir", "--", "x"])).fields


def test_being_preemptible_is_said_asked_or_left_open() -> None:
    assert "preemptible" not in _wish()
    assert _wish("--preemptible")["preemptible"] is True
    assert _wish("--not-preemptible")["preemptible"] is False
    with pytest.raises(SetupError, match="contradict"):
        _wish("--preemptible", "--not-preemptible")


def test_a_flag_wins_over_the_file_s_opposite(tmp_path) -> None:
    for key, flag, expected in (
        ("preemptible", "--not-preemptible", False),
        ("not_preemptible", "--preemptible", True),
    ):
        path = tmp_path / "job.yaml"
        path.write_text(f"{key}: true\ncommand: [x]\n")
        assert _wish("-f", str(path), flag)["preemptible"] is expected


def test_no_cpus_and_no_memory_can_be_asked_for() -> None:
    assert (_wish("--cpus", "0", "--memory", "0")["cpus"], _wish()) == (0.0, {"command": ["x"]})
