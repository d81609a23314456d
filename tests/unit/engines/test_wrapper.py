"""Engines start the runner alone: nothing of the server's reaches it or the command."""

from __future__ import annotations

import sys
import zipfile
from io import BytesIO
from pathlib import Path

from trackyard.core.ports import LaunchSpec, NodeGrant
from trackyard.engines import wrapper


def test_only_harmless_variables_are_inherited() -> None:
    inherited = wrapper.inherited_environment(
        {
            "PATH": "/usr/bin",
            "HOME": "/h",
            "LC_ALL": "C",
            "CUDA_HOME": "/cuda",
            "HTTPS_PROXY": "http://p",
            "YARD_TOKEN": "s",
            "AWS_SECRET_ACCESS_KEY": "s",
            "DATABASE_URL": "s",
            "LD_PRELOAD": "/evil.so",
            "PYTHONSTARTUP": "/evil.py",
            "MLFLOW_TRACKING_TOKEN": "s",
        }
    )
    assert set(inherited) - {"VIRTUAL_ENV"} == {
        "PATH",
        "HOME",
        "LC_ALL",
        "CUDA_HOME",
        "HTTPS_PROXY",
    }
    assert inherited["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"


def test_the_interpreter_is_isolated() -> None:
    assert wrapper.command("x", python="/py")[:4] == ["/py", "-I", "-S", "-c"]


def test_the_bundle_is_the_runner_and_nothing_else() -> None:
    names = zipfile.ZipFile(BytesIO(wrapper.bundle())).namelist()
    assert "__main__.py" in names
    assert "trackyard/runner/supervise.py" in names
    assert all(
        name in ("__main__.py", "trackyard/__init__.py") or name.startswith("trackyard/runner/")
        for name in names
    )


def test_the_bundle_is_the_same_bytes_each_time() -> None:
    first = wrapper.bundle_digest()
    wrapper.bundle.cache_clear()
    assert wrapper.bundle_digest() == first


def test_memory_that_is_only_reserved_is_no_limit() -> None:
    """The engine keeps it free; the runner is not told of it."""

    def told(**more: bool) -> int:
        share = NodeGrant(node_id="n", cpus=2, memory_bytes=1000, **more)
        spec = LaunchSpec(
            job_id="j1", attempt_id="j1-a1", epoch=1, argv=("x",), placement=(share,)
        )
        place = wrapper.MemberPlace(
            member=0,
            state_dir=Path("s"),
            cache_dir=Path("c"),
            addresses=["127.0.0.1"],
            port=1,
            gpu_vendor="nvidia",
            checkpoint_dir=None,
            base_env={},
            python="python3",
        )
        data = wrapper.runner_spec(spec, place)
        assert data["cpus"] == 2
        return int(data["memory_bytes"])

    assert (told(), told(limits_memory=False)) == (1000, 0)
