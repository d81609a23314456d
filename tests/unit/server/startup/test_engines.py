"""Which engine the settings name, and what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from trackyard.core.errors import SetupError
from trackyard.server.settings import Settings
from trackyard.server.startup.engines import check_engine, ray_token, slurm_site


@pytest.mark.parametrize("engine", ["pbs", "ray", "ray=", "ray=head:8265", "ray=ray://head:1"])
def test_an_engine_that_is_not_there_is_refused(engine: str) -> None:
    with pytest.raises(SetupError) as told:
        check_engine(Settings(engine=engine))
    assert "ray=http://head:8265" in str(told.value.hint)


def test_slurms_table_is_checked_and_its_folder_serves_where_the_server_is_out_of_reach() -> None:
    with pytest.raises(SetupError, match="unknown key 'wey'"):
        check_engine(Settings(engine="slurm", slurm={"wey": "behind"}))
    check_engine(Settings(engine="slurm"))
    assert not slurm_site(Settings(engine="slurm")).nodes_reach_server
    assert slurm_site(
        Settings(engine="slurm", job_url="https://yard.example.com")
    ).nodes_reach_server


def test_a_cluster_elsewhere_must_be_able_to_reach_the_server() -> None:
    far = "ray=http://10.0.0.1:8265"
    with pytest.raises(SetupError, match="cannot reach"):
        check_engine(Settings(engine=far))
    with pytest.raises(SetupError, match="cannot reach"):
        check_engine(Settings(engine=far, host="0.0.0.0"))
    check_engine(Settings(engine=far, host="10.0.0.5"))
    check_engine(Settings(engine=far, job_url="https://yard.example.com"))
    check_engine(Settings(engine="ray=http://127.0.0.1:8265"))
    check_engine(Settings(engine="ray=http://localhost:8265"))


def test_the_clusters_token_comes_from_its_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "from-environment")
    assert ray_token(Settings()) == "from-environment"
    (tmp_path / "token").write_text("from-file\n")
    assert ray_token(Settings(ray_token_file=str(tmp_path / "token"))) == "from-file"
    with pytest.raises(SetupError, match="cannot be read"):
        ray_token(Settings(ray_token_file=str(tmp_path / "none")))
