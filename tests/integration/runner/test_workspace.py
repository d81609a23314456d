"""Packages and pip environments as jobs meet them: fetched, checked, cached, refused."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.integration.runner.conftest import Start, wait_until
from tests.integration.runner.server import AttemptServer


def packed(files: dict[str, str]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return target.getvalue()


def package(content: bytes, location: str, **keys: str) -> dict[str, str]:
    digest = hashlib.sha256(content).hexdigest()
    return {"digest": digest, "location": location, "format": "zip", **keys}


def test_the_command_runs_inside_its_unpacked_package(start: Start, server: AttemptServer) -> None:
    content = packed({"train.py": "import model; print(model.NAME)", "model.py": "NAME = 'm1'"})
    server.files["/api/v1/packages/p1"] = content
    place = f"{server.url}/api/v1/packages/p1"
    spec = {"package": package(content, place), "to": server}
    runner = start(argv=[sys.executable, "train.py"], **spec)
    assert runner.wait()["cause"] == "succeeded"
    assert runner.log == b"m1\n"
    server.files.clear()
    again = start(argv=[sys.executable, "train.py"], **spec)
    assert again.wait()["cause"] == "succeeded", "the second job finds it in the cache"


def test_a_package_with_another_content_is_refused(start: Start, tmp_path: Path) -> None:
    content = packed({"train.py": "print('good')"})
    place = tmp_path / "p.zip"
    place.write_bytes(packed({"train.py": "print('evil')"}))
    record = start(argv=["true"], package=package(content, str(place))).wait()
    assert record["cause"] == "setup"
    assert "digest" in record["sentence"]


def test_a_package_that_reaches_outside_fails_the_job_and_writes_nothing(
    start: Start, tmp_path: Path
) -> None:
    content = packed({"ok.py": "", "../../canary.txt": "outside"})
    place = tmp_path / "p.zip"
    place.write_bytes(content)
    runner = start(argv=["true"], package=package(content, str(place)))
    record = runner.wait()
    assert record["cause"] == "setup"
    assert "canary.txt" in record["sentence"]
    assert list(tmp_path.rglob("canary.txt")) == []
    assert not (runner.state / "work").exists()


def test_a_link_in_a_tar_is_refused(start: Start, tmp_path: Path) -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        entry = tarfile.TarInfo("link")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(entry)
    place = tmp_path / "p.tgz"
    place.write_bytes(target.getvalue())
    spec = package(target.getvalue(), str(place), format="tar.gz")
    record = start(argv=["true"], package=spec).wait()
    assert (record["cause"], "a link" in record["sentence"]) == ("setup", True)


def test_a_server_without_the_package_fails_the_job_plainly(
    start: Start, server: AttemptServer
) -> None:
    spec = package(b"", f"{server.url}/api/v1/packages/none")
    record = start(argv=["true"], to=server, package=spec).wait()
    assert record["cause"] == "setup"
    assert "404" in record["sentence"]


def test_modules_are_imported_from_beside_the_folder(start: Start, tmp_path: Path) -> None:
    """Each module archive is unpacked on its own and found by Python, the folder's files too."""
    script = "import near, far\nprint(near.WORD, far.WORD)"
    refs = {}
    for name, files in {
        "folder": {"near.py": "WORD = 'near'", "sub/main.py": script},
        "module": {"far/__init__.py": "WORD = 'far'"},
    }.items():
        content = packed(files)
        (tmp_path / name).write_bytes(content)
        refs[name] = package(content, str(tmp_path / name))
    runner = start(
        argv=[sys.executable, "sub/main.py"],
        package=refs["folder"],
        modules=[refs["module"]],
        ray_rules=True,
    )
    record = runner.wait()
    assert record["cause"] == "succeeded", (record, runner.log)
    assert runner.log == b"near far\n"


def test_pip_requirements_are_installed_once_for_all(start: Start, tmp_path: Path) -> None:
    """A wheel made here is installed without an index, and the second job uses the cache."""
    wheel = make_wheel(tmp_path)
    code = "import yardtest, msgspec; print(yardtest.NAME)"
    spec = {"pip": [str(wheel)], "env": {"PIP_NO_INDEX": "1"}}
    first = start(argv=["python", "-c", code], **spec)
    record = first.wait(timeout=120)
    assert record["cause"] == "succeeded", (record, first.log)
    assert first.log.endswith(b"from a wheel\n")
    again = start(argv=["python", "-c", code], **spec)
    assert again.wait()["cause"] == "succeeded"
    assert again.log == b"from a wheel\n"
    assert len(list((tmp_path / "cache/environments").glob("[0-9a-f]*"))) == 1


def test_a_requirement_that_cannot_be_installed_names_pips_own_words(start: Start) -> None:
    runner = start(
        argv=["python", "-c", "pass"],
        pip=["no-such-distribution-anywhere==1.0"],
        env={"PIP_NO_INDEX": "1"},
    )
    record = runner.wait(timeout=120)
    assert record["cause"] == "setup"
    assert "no-such-distribution-anywhere" in record["sentence"]
    assert "pip requirements" in record["sentence"]


def test_a_stop_during_set_up_ends_it(start: Start, tmp_path: Path) -> None:
    slow, begun = tmp_path / "slowpython", tmp_path / "begun"
    slow.write_text(f"#!/bin/sh\n: > {begun}\nsleep 600\n")
    slow.chmod(0o755)
    runner = start(argv=["true"], pip=["anything"], python=str(slow))
    wait_until(begun.exists, "the set-up never began")
    runner.send_stop("stopped", 5)
    record = runner.wait()
    assert record["cause"] == "stopped"
    assert json.loads((runner.state / "exit.json").read_text()) == record


def make_wheel(folder: Path) -> Path:
    name = "yardtest-1.0"
    wheel = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("yardtest.py", "NAME = 'from a wheel'\n")
        info = f"{name}.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: yardtest\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(
            f"{info}/RECORD",
            f"yardtest.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
        )
    return wheel


def test_a_folder_that_another_program_owns_is_copied(start: Start, tmp_path: Path) -> None:
    """What the command writes stays when that program throws its own folder away."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "main.py").write_text(
        "import shutil, sys\nshutil.rmtree(sys.argv[1])\n"
        "open('result.json', 'w').write('{}')\nprint('written')\n"
    )
    runner = start(argv=[sys.executable, "main.py", str(theirs)], source_dir=str(theirs))
    record = runner.wait()
    assert record["cause"] == "succeeded", (record, runner.log)
    assert runner.log == b"written\n"
