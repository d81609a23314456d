"""How nodes, queues, teams and the live view look."""

import argparse
import io

import pytest
from rich.console import Console

from tests.unit.cli import samples
from tests.unit.cli.samples import NOW
from trackyard.cli.fleet import nodes, top
from trackyard.cli.people import teams
from trackyard.cli.queue import queue, queues
from trackyard.core.errors import SetupError

pytestmark = pytest.mark.usefixtures("still_clock")


def test_nodes_are_listed_with_what_is_free(capsys) -> None:
    nodes.draw([samples.node(), samples.node(node_id="c1", gpus=[], state="drained", note="disk")])
    assert capsys.readouterr().out == (
        "NODE\tSTATE\tHEALTH\tGPUS\tFREE\tCPUS FREE\tMEMORY FREE\tJOBS\tNOTE\n"
        "g07\tready\tok\t2xA100\t1\t56 of 64\t448 GiB of 512 GiB\t2\t-\n"
        "c1\tdrained\tok\t-\t0\t56 of 64\t448 GiB of 512 GiB\t2\tdisk\n"
    )


def test_one_node_is_shown_gpu_by_gpu_without_other_teams_names(capsys) -> None:
    shown = samples.node(
        state="drained", note="new disk", actor="ada", notes=["Memory limits are watched."]
    )
    nodes.draw_node(shown)
    assert capsys.readouterr().out == (
        "node        g07\n"
        "host        g07.example.org\n"
        "state       drained (new disk, by ada)\n"
        "health      ok\n"
        "hardware    2xA100 (nvidia, 80 GiB each), driver 550.54, CUDA 12.4\n"
        "cpus        56 of 64 free\n"
        "memory      448 GiB of 512 GiB free\n"
        "labels      rack=r1\n"
        "jobs        jabcdefghjk\n"
        "note        Memory limits are watched.\n"
        "\n"
        "GPU\tTYPE\tMEMORY\tFREE\tHELD BY\n"
        "0\tA100\t80 GiB\t0\tsft-17 (0.5), another team (0.5)\n"
        "1\tA100\t80 GiB\t1\t-\n"
    )


def test_a_yard_without_nodes_says_so(capsys) -> None:
    nodes.draw([])
    assert "there is no node" in capsys.readouterr().err


def test_queues_are_listed_with_their_limits(capsys) -> None:
    limits = {
        "order": "fifo",
        "teams": ["nlp", "vision"],
        "quota_gpus": 8.0,
        "max_gpus_per_job": 4.0,
        "max_wall_seconds": 7200.0,
    }
    plain = {"queued": 3, "running": 1, "gpus_running": 2.0}
    queues.draw(
        [
            {"name": "default", "settings": {}, **plain},
            {"name": "night", "settings": limits, **plain},
        ]
    )
    assert capsys.readouterr().out == (
        "QUEUE\tWAITING\tRUNNING\tGPUS IN USE\tORDER\tTEAMS\tLIMITS\n"
        "default\t3\t1\t2\tdefault\tall\tnone\n"
        "night\t3\t1\t2\tfifo\tnlp,vision\t8 gpus at once, 4 gpus a job, 2h00 a job\n"
    )


def test_teams_are_listed_with_share_and_use(capsys) -> None:
    teams.draw(
        [
            {
                "team": "nlp",
                "share": 2.0,
                "quota_gpus": 8.0,
                "limit_gpus": None,
                "lendable_gpus": 2.0,
                "parent": "research",
                "max_running": None,
                "queued": 4,
                "running": 2,
                "gpus_running": 1.5,
                "used_gpu_hours": 12.3456,
            }
        ]
    )
    row = capsys.readouterr().out.splitlines()[1].split("\t")
    assert row == ["nlp", "research", "2", "8", "-", "2", "4", "2", "1.5", "12.346"]


def _flags(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    queue.register(parser.add_subparsers())
    return parser.parse_args(["queue", "set", "night", *words])


def test_only_the_rules_that_are_given_change() -> None:
    assert queue.changes(_flags()) == {}
    assert queue.changes(_flags("--max-gpus", "4", "--max-time", "2h", "--teams", "a, b")) == {
        "max_gpus_per_job": 4.0,
        "max_wall_seconds": 7200.0,
        "teams": ["a", "b"],
    }


def test_none_lifts_a_limit_and_all_opens_a_queue() -> None:
    lifted = queue.changes(_flags("--quota", "none", "--max-time", "none", "--teams", "all"))
    assert lifted == {"quota_gpus": None, "max_wall_seconds": None, "teams": []}
    assert queue.changes(_flags("--gang", "2x1gpu")) == {"gang": "2x1gpu"}
    assert queue.changes(_flags("--gang", "none")) == {"gang": ""}


def test_half_a_job_is_no_limit() -> None:
    with pytest.raises(SetupError, match=r"--max-running '1\.5' is not a whole number"):
        queue.changes(_flags("--max-running", "1.5"))


def _cluster() -> dict:
    return {
        "totals": {
            "nodes": 2,
            "nodes_ready": 1,
            "gpus": 2,
            "gpus_held": 1.0,
            "jobs_running": 1,
            "jobs_queued": 1,
            "gpus_wanted": 2.0,
        },
        "nodes": [samples.node(), samples.node(node_id="c1", gpus=[], jobs=[], state="down")],
        "jobs": [samples.waiting(), samples.job()],
        "demand": [
            {
                "jobs": 1,
                "job_ids": ["jx"],
                "reason": samples.reason(tier="infeasible", sentence="Nobody has 8 GPUs"),
            },
            {"jobs": 3, "job_ids": [], "reason": samples.reason()},
        ],
    }


def test_the_live_view_shows_totals_gpus_jobs_and_what_cannot_be_met() -> None:
    out = io.StringIO()
    Console(file=out, width=86).print(top.screen(_cluster(), NOW))
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "nodes ready 1 of 2   gpus in use 1 of 2   jobs running 1, waiting 1 (for 2 gpus)",
        "",
        "NODE  STATE  GPU  TYPE  IN USE           HELD BY",
        "g07   ready  0    A100  ██████████ 100%  sft-17 (0.5), another team (0.5)",
        "             1    A100  ░░░░░░░░░░   0%  -",
        "c1    down   -    -     8 of 64 cpus     -",
        "",
        "JOB          NAME      STATE    USER  GPUS    WAIT   WALL   WHY / PROGRESS",
        "jabcdefghjk  sft-17    running  ada   2xA100  4m00   12m40  step 1200",
        "jmnpqrstuvw  ablation  queued   ada   2xA100  16m40  -      capacity: It needs 2 GPUs…",
        "",
        "cannot be met with what is here",
        "  1 job (jx): Nobody has 8 GPUs",
    ]


@pytest.mark.parametrize(
    ("share", "drawn"), [(0, "░" * 10 + "   0%"), (0.5, "█" * 5 + "░" * 5 + "  50%")]
)
def test_a_bar_has_its_number_beside_it(share: float, drawn: str) -> None:
    assert top.bar(share) == drawn
