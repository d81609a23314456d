"""How jobs look: full output, as it is printed in a pipe."""

import pytest

from tests.unit.cli import samples
from tests.unit.cli.samples import NOW
from trackyard.cli.jobs import jobview

pytestmark = pytest.mark.usefixtures("still_clock")


def test_the_list_says_state_story_and_request(capsys) -> None:
    jobview.draw_jobs(
        [
            samples.job(attempt=2),
            samples.waiting(),
            samples.waiting(held=True, reason=None, name="later", gpus=0.5, gpu_types=[]),
            samples.job(state="failed", ended_ms=NOW, sentence="It ended with exit code 1."),
            samples.job(array_id="jx", array_index=4, state="running", stalled=True, step=None),
            samples.job(stopping=True, gpus=16.0, nodes=2),
        ]
    )
    assert capsys.readouterr().out == (
        "JOB\tNAME\tSTATE\tWHY / PROGRESS\tWAIT\tWALL\tGPUS\tSTARTS\n"
        "jabcdefghjk\tsft-17\trunning\tstep 1200, attempt 2\t4m00\t12m40\t2xA100\t-\n"
        "jmnpqrstuvw\tablation\tqueued\t"
        "capacity: It needs 2 GPUs and 1 are free; `jabcdefghjk` hol…\t16m40\t-\t2xA100\t#3\n"
        "jmnpqrstuvw\tlater\theld\tevaluating\t16m40\t-\t0.5 gpu\t#3\n"
        "jabcdefghjk\tsft-17\tfailed\tIt ended with exit code 1.\t4m00\t12m40\t2xA100\t-\n"
        "jabcdefghjk\tsft-17[4]\tstalled\tno sign of progress\t4m00\t12m40\t2xA100\t-\n"
        "jabcdefghjk\tsft-17\tstopping\tstep 1200\t4m00\t12m40\t2 nodes of 8xA100\t-\n"
    )


def test_the_wide_list_adds_who_and_where(capsys) -> None:
    jobview.draw_jobs([samples.job()], is_wide=True)
    assert capsys.readouterr().out.splitlines()[1].split("\t")[8:] == [
        "nlp",
        "ada",
        "default",
        "normal",
        "1",
        "g07",
        "0123456789abcdef0123456789abcdef",
    ]


def test_an_empty_list_says_so_beside_the_data(capsys) -> None:
    jobview.draw_jobs([], empty="no job matches")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "no job matches\n")


def test_the_page_shows_attempts_numbers_and_checkpoints(capsys) -> None:
    first = samples.attempt(
        1,
        state="lost",
        started_ms=NOW - 760_000,
        ended_ms=NOW - 160_000,
        sentence="The node went away.",
        step=900,
        lost_steps=100,
    )
    second = samples.attempt(2, resume_step=800, step=1200)
    source = {"commit": "f" * 40, "branch": "main", "dirty": True}
    saved = {
        "name": "step-00000800-1",
        "step": 800,
        "attempt": 1,
        "size_bytes": 3 << 20,
        "created_ms": NOW - 200_000,
    }
    jobview.draw_job(
        samples.page(
            samples.job(attempt=2),
            attempts=[first, second],
            checkpoints=[saved],
            spec={"source": source},
        )
    )
    assert capsys.readouterr().out == (
        "job         sft-17  (jabcdefghjk)\n"
        "state       running\n"
        "command     python train.py --lr 0.1\n"
        "asks for    2xA100, 8 cpus, 64 GiB, preemptible\n"
        "limit       2h30\n"
        "team        nlp, user ada\n"
        "queue       default, priority normal\n"
        "submitted   16m40 ago\n"
        "wait        4m00\n"
        "wall        12m40\n"
        "gpu-hours   0.422\n"
        "on          g07\n"
        "progress    step 1200, attempt 2\n"
        "commit      ffffffffffff on main with changes\n"
        "run         0123456789abcdef0123456789abcdef\n"
        "\n"
        "ATTEMPT\tSTATE\tWHERE\tSTARTED\tTOOK\tFROM\tSTEP\tEND\n"
        "1\tlost\tg07 gpu 0,1\t12m40 ago\t10m00\tstart\t900 (100 lost)\tThe node went away.\n"
        "2\trunning\tg07 gpu 0,1\t1m40 ago\t1m40\tstep 800\t1200\t-\n"
        "\n"
        "CHECKPOINT\tSTEP\tATTEMPT\tSIZE\tSAVED\n"
        "step-00000800-1\t800\t1\t3 MiB\t3m20 ago\n"
    )


def test_the_page_of_a_waiting_job_says_why(capsys) -> None:
    jobview.draw_job(samples.page(samples.waiting(), eta=samples.eta(), waits_for=["jx"]))
    assert capsys.readouterr().out.split("\n\n")[1] == (
        "ablation waits (capacity): It needs 2 GPUs and 1 are free; `jabcdefghjk` hold what would"
        " fit.\n"
        "  position   3 of 7 in line, queue default\n"
        "  starts     about 09:00 (08:40 to 09:20)\n"
        "  remedy     Wait, or ask for fewer GPUs\n"
    )


def test_why_names_every_reason_and_the_smaller_request_that_starts_now() -> None:
    other = samples.reason(tier="priority", sentence="2 jobs are ahead of it.")
    shown = samples.page(samples.waiting(), eta=samples.eta(60 * 30, 0))
    shown["reasons"].append(other)
    shown["smaller"] = {"gpus": 1.0, "nodes": 1, "sentence": "With 1 GPU it starts now."}
    assert jobview.why_text(shown, NOW).splitlines()[2:] == [
        "  starts     about Sat 14:00",
        "  remedy     Wait, or ask for fewer GPUs",
        "  smaller    With 1 GPU it starts now.",
        "  also       (priority) 2 jobs are ahead of it.",
    ]


@pytest.mark.parametrize("tier", ["misconfigured", "infeasible"])
def test_a_fault_never_looks_like_a_wait(tier: str) -> None:
    shown = samples.page(samples.waiting(reason=samples.reason(tier=tier)))
    assert "starts" not in jobview.why_text(shown, NOW)


@pytest.mark.parametrize(
    ("state", "sentence", "said"),
    [
        ("running", None, "sft-17 does not wait: it is running"),
        ("failed", "Exit code 1.", "sft-17 has ended: it is failed: Exit code 1."),
    ],
)
def test_why_of_a_job_that_does_not_wait_says_so(state, sentence, said) -> None:
    shown = samples.page(samples.job(state=state, sentence=sentence))
    assert jobview.why_text(shown, NOW) == said


@pytest.mark.parametrize(
    ("time_ms", "said"),
    [
        (None, "?"),
        (NOW - 1, "now"),
        (NOW + 4_000, "now"),
        (NOW + 3_600_000, "09:00"),
        (NOW + 24 * 3_600_000, "Sat 08:00"),
        (NOW + 30 * 24 * 3_600_000, "2027-02-14 08:00"),
    ],
)
def test_a_moment_is_said_as_people_say_it(time_ms, said) -> None:
    assert jobview.when(time_ms, NOW) == said


def test_without_a_forecast_none_is_made_up() -> None:
    assert jobview.start_words(None, NOW) == "nobody can tell yet"
    assert jobview.start_words({"start_ms": None}, NOW) == "nobody can tell yet"


def test_a_state_is_coloured_as_well_as_spelled(monkeypatch, capsys) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.delenv("NO_COLOR", raising=False)
    jobview.draw_jobs([samples.job()])
    assert "\x1b[34mrunning" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    jobview.draw_jobs([samples.job()])
    plain = capsys.readouterr().out
    assert "running" in plain
    assert "\x1b[34m" not in plain


def test_what_a_job_asked_for_later_is_on_its_page_and_in_its_why(capsys) -> None:
    """A waiting claim is named with the command that explains it."""
    claim = {
        "job_id": "jcccccccccc",
        "attempt": 1,
        "state": "waiting",
        "source": "gate",
        "demand": "2x1gpu,8cpu",
        "nodes": [],
        "gpus": 0.0,
        "gpu_seconds": 0.0,
    }
    held = {
        **claim,
        "state": "granted",
        "source": "watch",
        "nodes": ["g07", "g08"],
        "gpu_seconds": 7200.0,
    }
    page = samples.page(samples.job(), claims=[claim, held])
    jobview.draw_job(page)
    out = capsys.readouterr().out
    assert "2x1gpu,8cpu\tjcccccccccc\twaiting\t-\t0.000\tasked by attempt 1\n" in out
    assert "granted\tg07, g08\t2.000\ttaken without asking by attempt 1\n" in out
    assert jobview.why_text(page, NOW).endswith(
        "\n  later      2x1gpu,8cpu waits: `yard why jcccccccccc`"
    )


def test_a_claim_names_the_job_it_is_part_of(capsys) -> None:
    claim = samples.job(job_id="jcccccccccc", parent="jabcdefghjk", step=None)
    jobview.draw_jobs([claim])
    jobview.draw_job(samples.page(claim))
    out = capsys.readouterr().out
    assert "running\theld for jabcdefghjk\t" in out
    assert "part of     jabcdefghjk\n" in out
