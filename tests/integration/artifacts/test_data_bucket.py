"""A data set from a bucket: every object below a prefix, fetched once."""

from pathlib import Path

import pytest

from tests.integration.artifacts.conftest import Bucket
from trackyard.client import data_add, data_source
from trackyard.core.errors import SetupError


def quiet(_phase: str, _done: int, _total: int | None) -> None:
    pass


def bring(bucket: Bucket, prefix: str) -> data_source.DatasetOrigin:
    address = f"s3://{bucket.name}/{prefix}"
    return data_source.bring(address, unpack=False, layout="auto", progress=quiet)


def test_objects_below_a_prefix_become_files(
    bucket: Bucket, s3_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    client = bucket.client()
    for key, body in {"set/a/1.txt": b"one", "set/b/2.txt": b"two", "other/3.txt": b"x"}.items():
        client.put_object(Bucket=bucket.name, Key=key, Body=body)
    origin = bring(bucket, "set")
    found = data_add.scan(origin.folder, quiet)
    assert [entry.path for entry in found.entries] == ["a/1.txt", "b/2.txt"]
    # What is here and unchanged is not fetched again, so that a broken load goes on.
    kept = (origin.folder / "b" / "2.txt").stat().st_ino
    client.put_object(Bucket=bucket.name, Key="set/a/1.txt", Body=b"ONE")
    again = bring(bucket, "set").folder
    assert (again / "a" / "1.txt").read_bytes() == b"ONE"
    assert (again / "b" / "2.txt").stat().st_ino == kept
    origin.clean()
    with pytest.raises(SetupError, match="holds no objects"):
        bring(bucket, "nothing")
    with pytest.raises(SetupError, match="cannot be read"):
        bring(Bucket(s3_endpoint, "no-such-bucket"), "set")
