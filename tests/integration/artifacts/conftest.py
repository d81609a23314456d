"""Places for blobs: a disk, and a bucket behind a real HTTP server; and teams to use them."""

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.serving import free_port
from tests.integration.artifacts.team import Team, make_team
from trackyard.artifacts.blobs import BlobStore, open_blobs
from trackyard.artifacts.service import Artifacts
from trackyard.artifacts.uploads import Uploads
from trackyard.store.database import Database

#: Each database and each store, though not every pair: what differs between two differs in one.
EVERYWHERE = pytest.mark.parametrize(
    ("database_url", "blobs"),
    [("sqlite", "disk"), ("sqlite", "s3"), ("postgresql", "disk")],
    indirect=True,
)
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
}


@dataclass(frozen=True)
class Bucket:
    """A bucket on an S3 server of this machine."""

    endpoint: str
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}/pre/fix"

    def client(self) -> Any:
        """Return a client that is none of ours, to look behind our back."""
        import boto3

        return boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1")

    def keys(self) -> list[str]:
        """Return every key in the bucket but the store's own mark."""
        found = self.client().list_objects_v2(Bucket=self.name)
        keys = [entry["Key"] for entry in found.get("Contents", [])]
        return [key for key in keys if not key.endswith("store.id")]

    def unfinished(self) -> int:
        """Return how many multipart uploads were begun and not ended."""
        return len(self.client().list_multipart_uploads(Bucket=self.name).get("Uploads", []))

    def damage(self, blob: str) -> None:
        """Flip the last byte of a blob."""
        client = self.client()
        [key] = [key for key in self.keys() if key.endswith(blob)]
        body = client.get_object(Bucket=self.name, Key=key)["Body"].read()
        client.put_object(Bucket=self.name, Key=key, Body=body[:-1] + bytes([body[-1] ^ 1]))


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """A server that speaks S3, in its own process."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env={**os.environ, **CREDENTIALS},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    endpoint = f"http://127.0.0.1:{port}"
    try:
        _wait_for(endpoint)
        yield endpoint
    finally:
        server.terminate()
        server.wait(10)


def _wait_for(endpoint: str) -> None:
    deadline = time.monotonic() + 180
    while True:
        try:
            httpx.get(f"{endpoint}/moto-api/", timeout=2)
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the S3 server did not start"
            time.sleep(0.1)
        else:
            return


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A fresh bucket, with the credentials for it in the environment as users have them."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    made = Bucket(s3_endpoint, f"bucket-{time.time_ns()}")
    made.client().create_bucket(Bucket=made.name)
    return made


@pytest.fixture(params=["disk", "s3"])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BlobStore]:
    """A blob store, once on disk and once in a bucket."""
    if request.param == "disk":
        store = open_blobs("", home=tmp_path)
    else:
        made: Bucket = request.getfixturevalue("bucket")
        store = open_blobs(made.url, endpoint=made.endpoint, home=tmp_path)
    yield store
    await store.close()


@pytest.fixture
def artifacts(database: Database, blobs: BlobStore) -> Artifacts:
    """The service, on every database and every store."""
    return Artifacts(database, blobs)


@pytest.fixture
def uploads(database: Database, artifacts: Artifacts) -> Uploads:
    """Uploads in parts on the same."""
    return Uploads(database, artifacts)


@pytest.fixture
async def team(database: Database) -> Team:
    """A team with nothing in it."""
    return await make_team(database, "vision")


@pytest.fixture
async def stranger(database: Database) -> Team:
    """Another team on the same database."""
    return await make_team(database, "speech")
