"""The command's variables and the keys of pip environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trackyard.runner.spec import RunnerSpec, parse
from trackyard.runner.workspace.workspace import environment_key, job_environment


def spec(**changes: Any) -> RunnerSpec:
    data: dict[str, Any] = {
        "version": 1,
        "attempt_id": "a1",
        "epoch": 1,
        "job_id": "j1",
        "argv": ["true"],
        "state_dir": "/s",
        "cache_dir": "/c",
        "base_env": {"PATH": "/usr/bin", "CUDA_VISIBLE_DEVICES": "0,1,2,3"},
    }
    return parse({**data, **changes})


def variables(**changes: Any) -> dict[str, str]:
    return job_environment(spec(**changes), venv=None, own={"YARD_EPOCH": "1"})


class TestVariables:
    def test_the_platforms_win_over_the_users_and_the_base(self) -> None:
        values = variables(
            env={"MLFLOW_RUN_ID": "forged", "LR": "1", "YARD_EPOCH": "9"},
            platform_env={"MLFLOW_RUN_ID": "real"},
        )
        assert (values["MLFLOW_RUN_ID"], values["LR"], values["YARD_EPOCH"]) == ("real", "1", "1")

    def test_no_gpus_hides_all_and_a_choice_left_to_the_engine_is_kept(self) -> None:
        assert variables(gpus=[])["CUDA_VISIBLE_DEVICES"] == ""
        assert variables()["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"

    def test_nvidia_gpus_are_chosen_by_index_in_bus_order(self) -> None:
        values = variables(gpus=[{"index": 2}, {"index": 3}])
        assert values["CUDA_VISIBLE_DEVICES"] == "2,3"
        assert values["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"

    def test_amd_gpus_are_chosen_by_hip_alone(self) -> None:
        values = variables(gpus=[{"index": 1, "vendor": "amd"}])
        assert values["HIP_VISIBLE_DEVICES"] == "1"
        assert "CUDA_VISIBLE_DEVICES" not in values

    def test_a_fraction_is_told(self) -> None:
        values = variables(gpus=[{"index": 0, "fraction": 0.5}])
        assert values["YARD_GPU_FRACTION"] == "0.5"
        assert values["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.45"

    def test_a_pip_environment_comes_first_on_the_path(self) -> None:
        values = job_environment(spec(), venv=Path("/c/env"), own={})
        assert values["PATH"] == "/c/env/bin:/usr/bin"
        assert values["VIRTUAL_ENV"] == "/c/env"

    def test_threads_follow_the_cpus_unless_the_user_says_otherwise(self) -> None:
        assert variables(cpus=3.5)["OMP_NUM_THREADS"] == "3"
        assert variables(cpus=3.5, env={"OMP_NUM_THREADS": "8"})["OMP_NUM_THREADS"] == "8"

    def test_modules_come_before_what_the_user_imports_from(self) -> None:
        values = job_environment(
            spec(env={"PYTHONPATH": "/own"}), venv=None, own={}, imports=[Path("/w"), Path("/m")]
        )
        assert values["PYTHONPATH"] == "/w:/m:/own"
        assert "PYTHONPATH" not in variables()

    def test_references_are_filled_in_by_rays_rules_alone(self) -> None:
        env = {"PATH": "/mine:${PATH}", "B": "${NONE}-$PATH"}
        assert variables(env=env)["PATH"] == "/mine:${PATH}"
        values = variables(env=env, ray_rules=True)
        assert (values["PATH"], values["B"]) == ("/mine:/usr/bin", "-$PATH")


class TestEnvironmentKey:
    def test_the_order_of_requirements_does_not_matter(self) -> None:
        one = environment_key(spec(pip=["numpy", "torch==2.5"]), "/py")
        assert one == environment_key(spec(pip=["torch==2.5 ", "", "numpy"]), "/py")

    def test_versions_interpreter_and_isolation_do(self) -> None:
        keys = {
            environment_key(spec(pip=["numpy==1"]), "/py"),
            environment_key(spec(pip=["numpy==2"]), "/py"),
            environment_key(spec(pip=["numpy==1"]), "/other"),
            environment_key(spec(pip=["numpy==1"], pip_system_site_packages=False), "/py"),
        }
        assert len(keys) == 4

    def test_a_local_requirement_depends_on_the_package(self) -> None:
        def key(digest: str, line: str) -> str:
            package = {"digest": digest * 64, "location": "/p"}
            return environment_key(spec(pip=[line], package=package), "/py")

        assert key("a", "-e .") != key("b", "-e .")
        assert key("a", "numpy") == key("b", "numpy")
