"""What is shipped into a Ray cluster for the gate."""

import ast
import io
import sys
import zipfile

from trackyard.engines import ray_gate


def test_the_gate_needs_nothing_but_ray_and_the_standard_library() -> None:
    trees = [ast.parse(text) for text in ray_gate.files().values()]
    found = {
        name.partition(".")[0]
        for tree in trees
        for one in ast.walk(tree)
        for name in (
            [alias.name for alias in one.names]
            if isinstance(one, ast.Import)
            else [one.module or ""]
            if isinstance(one, ast.ImportFrom)
            else []
        )
    }
    assert found - {"ray"} <= set(sys.stdlib_module_names)
    assert "ray" in found


def test_the_server_ships_the_gate_without_importing_ray() -> None:
    with zipfile.ZipFile(io.BytesIO(ray_gate.archive())) as found:
        assert found.namelist() == ["trackyard_gate.py", "trackyard_trials.py"]
    assert "ray" not in sys.modules


def test_callbacks_that_a_job_brings_itself_are_kept() -> None:
    found = ray_gate.environment({"RAY_TRAIN_CALLBACKS": "mine.Own, trackyard_gate.Gate"})
    assert found["RAY_TRAIN_CALLBACKS"] == "trackyard_gate.Gate,mine.Own"
    assert found["RAY_TUNE_CALLBACKS"] == "trackyard_gate.Trials"
