"""The demo's data: large enough, sound, and the same on every start from one seed."""

import struct
import zlib

from trackyard.cli.demo.demo_curves import make_runs
from trackyard.cli.demo.demo_files import files_of, png

NOW = 1_800_000_000_000


def test_project_has_over_two_hundred_runs_in_every_state() -> None:
    runs = list(make_runs(1, NOW))
    assert len(runs) >= 200
    assert {run.status for run in runs} == {"RUNNING", "FINISHED", "FAILED", "KILLED"}
    assert max(len(run.points) for run in runs) > 5000
    assert all(run.end_ms is None or run.end_ms >= run.start_ms for run in runs)
    assert all(run.start_ms <= NOW for run in runs)


def test_same_seed_makes_the_same_runs() -> None:
    first, second = (list(make_runs(5, NOW, 0.05)) for _ in range(2))
    assert [run.name for run in first] == [run.name for run in second]
    assert first[0].points == second[0].points


def test_files_of_a_run_cover_every_viewer() -> None:
    run = next(run for run in make_runs(1, NOW, 0.1) if run.files)
    endings = {path.rpartition(".")[2] for path, _ in files_of(run)}
    assert {"json", "log", "md", "html", "png", "csv", "wav", "yaml", "txt"} <= endings


def test_picture_is_a_png_that_holds_its_pixels() -> None:
    data = png([[(1, 2, 3), (4, 5, 6)]])
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    size = struct.unpack(">I", data[33:37])[0]
    assert zlib.decompress(data[41 : 41 + size]) == bytes([0, 1, 2, 3, 4, 5, 6])
