"""Engines start the runner alone: nothing of the server's reaches it or the command."""

from __future__ import annotations

import sys
import zipfile
from io import BytesIO
from pathlib import Path

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
