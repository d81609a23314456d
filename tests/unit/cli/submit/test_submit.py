"""What `yard submit` says before and after queueing."""

from pathlib import Path

import pytest

from tests.unit.cli import samples
from tests.unit.cli.samples import NOW
from trackyard.cli.submit import sending, submit
from trackyard.cli.submit.wish import SubmissionFlags
from trackyard.client.package import FolderPackage
from trackyard.core.errors import SetupError

pytestmark = pytest.mark.usefixtures("still_clock")
FIELDS = {"command": ["python", "train.py", "--name", "two words"], "gpus": 2.0}
PACKAGE = FolderPackage(
    digest="a" * 64, content=b"", files=12, size_bytes=34_000, left_out=("pipe",)
)


def test_the_plan_of_a_job_that_starts_now_is_short() -> None:
    answer = samples.answer(starts_now=True, position=None, reasons=[], smaller=[])
    assert submit.plan_text(FIELDS, answer, PACKAGE, NOW) == (
        "command     python train.py --name 'two words'\n"
        "asks for    2 gpus\n"
        "queue       default, priority normal\n"
        "package     12 files, 33.2 KiB, 1 left out (aaaaaaaaaaaa)\n"
        "starts      now"
    )


def test_the_plan_of_a_job_that_waits_says_until_when_behind_whom_and_what_is_smaller() -> None:
    fields = {
        **FIELDS,
        "gpu_types": ["A100"],
        "nodes": 4,
        "cpus": 8.0,
        "memory_bytes": 64 << 30,
        "queue": "night",
        "priority": "high",
        "array": "0-9%2",
    }
    assert submit.plan_text(fields, samples.answer(), None, NOW).splitlines()[1:] == [
        "asks for    4 nodes of 2xA100, 8 cpus, 64 GiB, array 0-9%2",
        "queue       night, priority high",
        "waits       It needs 2 GPUs and 1 are free.",
        "starts      about 09:00 (08:40 to 09:20)",
        "position    3 of 3 in line",
        "remedy      Wait, or ask for fewer GPUs",
        "smaller     Drop to 1 GPU: starts now.",
    ]


def test_the_plan_of_an_infeasible_job_names_no_start() -> None:
    answer = samples.answer(feasible=False, eta=None, sentence="It needs 8 GPUs; nobody has them.")
    lines = submit.plan_text(FIELDS, answer, None, NOW).splitlines()
    assert "feasible    no: It needs 8 GPUs; nobody has them." in lines
    assert not any(line.startswith("starts") for line in lines)


def test_the_footer_names_the_next_commands_with_the_ids_filled_in() -> None:
    assert submit.footer([samples.job()]) == (
        "\nqueued jabcdefghjk (sft-17)\n"
        "  yard logs -f jabcdefghjk\n"
        "  yard why jabcdefghjk\n"
        "  yard show jabcdefghjk\n"
        "  yard stop jabcdefghjk"
    )


def test_the_footer_of_an_array_stops_all_of_it() -> None:
    jobs = [
        samples.job(job_id=f"jaaaaaaaaaa-{index}", array_id="jaaaaaaaaaa", array_index=index)
        for index in range(3)
    ]
    assert submit.footer(jobs).splitlines()[1:] == [
        "queued jaaaaaaaaaa (sft-17, 3 jobs)",
        "  yard logs -f jaaaaaaaaaa-0",
        "  yard why jaaaaaaaaaa-0",
        "  yard show jaaaaaaaaaa-0",
        "  yard stop jaaaaaaaaaa",
    ]


def test_the_home_folder_is_not_sent_by_accident(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    asked = SubmissionFlags(fields={}, folder=Path(), folder_is_named=False, exclude=())
    with pytest.raises(SetupError, match="not a folder to send along by accident") as fault:
        sending.build(asked)
    assert "--no-working-dir" in str(fault.value.hint)
    named = SubmissionFlags(fields={}, folder=Path(), folder_is_named=True, exclude=())
    assert sending.build(named) is not None


def test_without_a_folder_nothing_is_packaged() -> None:
    assert (
        sending.build(SubmissionFlags(fields={}, folder=None, folder_is_named=True, exclude=()))
        is None
    )
    assert sending.source_fields(None) is None
