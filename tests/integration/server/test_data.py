"""Data sets over HTTP, on both databases: whole or not at all, by content, kept while needed."""

import hashlib
import json
from typing import Any

import pytest

from tests.integration.server.platform import Caller, Platform, new_run, refused
from trackyard.artifacts.upkeep import collect_garbage
from trackyard.artifacts.verify import check_all_files
from trackyard.core.dataset import PART_BYTES, ManifestEntry, digest_of_parts, encode_manifest
from trackyard.datasets import upkeep

DATA = "/api/v1/data"
FILES = {
    "train/cat/1.png": b"\x89PNG cat",
    "train/dog/1.png": b"\x89PNG dog",
    "val/cat/2.png": b"\x89PNG cat two",
    "labels.csv": b"file,label\n1.png,cat\n",
    "notes.txt": b"a note",
    "empty.bin": b"",
}


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pack(*pieces: bytes) -> bytes:
    header = [[sha(piece), len(piece)] for piece in pieces]
    return json.dumps(header).encode() + b"\n" + b"".join(pieces)


def manifest(files: dict[str, bytes]) -> bytes:
    return encode_manifest(
        ManifestEntry(path, len(data), sha(data)) for path, data in files.items()
    )


async def ok(caller: Caller, method: str, path: str, body: Any = None, **more: Any) -> Any:
    answer = await caller(method, path, body, **more)
    assert answer.status == 200, answer.body
    return answer.json()


async def add(caller: Caller, name: str, files: dict[str, bytes], query: str = "") -> Any:
    """Do what `yard data add` does: send what is missing, then name the version."""
    wanted = [sha(data) for data in files.values() if data]
    missing = (await ok(caller, "POST", f"{DATA}/missing", {"contents": wanted}))["missing"]
    pieces = {sha(data): data for data in files.values()}
    if missing:
        await ok(caller, "POST", f"{DATA}/contents", raw=pack(*(pieces[one] for one in missing)))
    return await ok(caller, "POST", f"{DATA}/{name}/versions{query}", raw=manifest(files))


async def test_equal_content_is_the_same_version_and_is_sent_once(platform: Platform) -> None:
    admin = platform.admin
    first = await add(admin, "pets", FILES)
    assert (first["is_new"], first["version"]["version"]) == (True, 1)
    assert first["version"]["layout"] == "imagefolder"
    assert first["version"]["classes"] == {"train": {"cat": 1, "dog": 1}, "val": {"cat": 1}}
    again = await add(admin, "pets", FILES)
    assert (again["is_new"], again["version"]["version"]) == (False, 1)
    assert again["version"]["digest"] == sha(manifest(FILES))
    changed = {**FILES, "notes.txt": b"another note", "extra.md": b"# hi"}
    del changed["val/cat/2.png"]
    wanted = [sha(data) for data in changed.values() if data]
    missing = await ok(admin, "POST", f"{DATA}/missing", {"contents": wanted})
    assert set(missing["missing"]) == {sha(b"another note"), sha(b"# hi")}
    second = await add(admin, "pets", changed)
    assert second["version"]["version"] == 2
    diff = await ok(admin, "GET", f"{DATA}/pets/diff?old=v1&new=v2")
    assert {(one["what"], one["path"]) for one in diff["changes"]} == {
        ("changed", "notes.txt"),
        ("added", "extra.md"),
        ("removed", "val/cat/2.png"),
    }
    listed = await ok(admin, "GET", DATA)
    assert [(one["newest"]["version"], one["versions"]) for one in listed["data"]] == [(2, 2)]


async def test_nothing_is_visible_until_all_of_it_is_there(platform: Platform) -> None:
    admin = platform.admin
    answer = await ok(admin, "POST", f"{DATA}/pets/versions", raw=manifest(FILES))
    assert answer["version"] is None
    assert set(answer["missing"]) == {sha(data) for data in FILES.values() if data}
    assert (await ok(admin, "GET", DATA))["data"] == []
    refused(await admin("GET", f"{DATA}/pets"), 404)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'["../up", 1, "' + b"0" * 64 + b'"]\n', "'..'"),
        (b'["/etc/passwd", 1, "' + b"0" * 64 + b'"]\n', "absolute"),
        (b'["a", 1, "short"]\n', "64 hex digits"),
        (b"nonsense\n", "not JSON"),
        (b"", "empty"),
        (b'["a", 0, "' + b"0" * 64 + b'"]\n["a/b", 0, "' + b"0" * 64 + b'"]\n', "both a file"),
        (b'["b", 0, "' + b"0" * 64 + b'"]\n["a", 0, "' + b"0" * 64 + b'"]\n', "order"),
    ],
)
async def test_a_bad_manifest_is_refused_with_its_reason(
    platform: Platform, body: bytes, says: str
) -> None:
    answer = await platform.admin("POST", f"{DATA}/bad/versions", raw=body)
    assert says in refused(answer, 400)


async def test_contents_that_are_not_what_they_say_are_not_kept(platform: Platform) -> None:
    admin = platform.admin
    body = json.dumps([[sha(b"one"), 3], [sha(b"two"), 3]]).encode() + b"\n"
    assert "damaged" in refused(await admin("POST", f"{DATA}/contents", raw=body + b"oneTWO"), 400)
    assert "ended" in refused(await admin("POST", f"{DATA}/contents", raw=body + b"one"), 400)
    assert "continues" in refused(
        await admin("POST", f"{DATA}/contents", raw=body + b"onetwo!"), 400
    )
    answer = await ok(admin, "POST", f"{DATA}/missing", {"contents": [sha(b"one")]})
    assert answer["missing"] == [sha(b"one")]
    refused(await admin("POST", f"{DATA}/missing", {"contents": ["x"]}), 400)


async def test_files_are_read_whole_in_parts_and_as_previews(platform: Platform) -> None:
    admin = platform.admin
    big = bytes(range(256)) * (PART_BYTES // 256) + b"the end"
    parts = [big[:PART_BYTES], big[PART_BYTES:]]
    for part in parts:
        await ok(admin, "POST", f"{DATA}/contents", raw=pack(part))
    await ok(admin, "POST", f"{DATA}/contents", raw=pack(*(one for one in FILES.values() if one)))
    digests = tuple(sha(part) for part in parts)
    whole = ManifestEntry("big.bin", len(big), digest_of_parts(digests), digests)
    body = encode_manifest(
        [whole, *(ManifestEntry(path, len(data), sha(data)) for path, data in FILES.items())]
    )
    await ok(admin, "POST", f"{DATA}/pets/versions?layout=files", raw=body)
    one = f"{DATA}/pets/versions/v1"
    assert (await admin("GET", f"{one}/file?path=big.bin")).body == big
    assert (await admin("GET", f"{one}/file?path=empty.bin")).body == b""
    assert (await admin("GET", f"{one}/manifest")).body == body
    fetched = await admin("POST", f"{DATA}/fetch", {"contents": [digests[1], sha(b"a note")]})
    assert fetched.body == b"the enda note"
    table = await ok(admin, "GET", f"{one}/preview?path=labels.csv")
    assert (table["kind"], table["columns"], table["rows"]) == (
        "table",
        ["file", "label"],
        [["1.png", "cat"]],
    )
    assert (await ok(admin, "GET", f"{one}/preview?path=notes.txt"))["text"] == "a note"
    assert (await ok(admin, "GET", f"{one}/preview?path=big.bin"))["kind"] == "binary"
    page = await ok(admin, "GET", f"{one}/files?folder=train")
    assert [folder["name"] for folder in page["folders"]] == ["cat", "dog"]
    samples = await ok(admin, "GET", f"{one}/samples?of_class=cat")
    assert {file["path"] for file in samples["files"]} == {"train/cat/1.png", "val/cat/2.png"}
    refused(await admin("GET", f"{one}/file?path=../token"), 404)


async def test_other_teams_see_nothing_of_it(platform: Platform) -> None:
    await add(platform.admin, "pets", FILES)
    eve = await platform.caller("eve", "others", "owner")
    assert (await ok(eve, "GET", DATA))["data"] == []
    refused(await eve("GET", f"{DATA}/pets/versions/v1/file?path=notes.txt"), 404)
    refused(await eve("POST", f"{DATA}/fetch", {"contents": [sha(b"a note")]}), 404)
    mallory = await platform.caller("mallory", "default", "viewer")
    refused(await mallory("POST", f"{DATA}/contents", raw=pack(b"x")), 403)
    refused(await mallory("DELETE", f"{DATA}/pets/versions/v1"), 403)


async def test_a_job_names_a_version_and_its_run_says_so(platform: Platform) -> None:
    admin = platform.admin
    await add(admin, "pets", FILES)
    wish = {"command": ["true"], "hold": True, "data": ["PETS=pets"]}
    job = (await ok(admin, "POST", "/api/v1/jobs", wish))["jobs"][0]
    run = (await ok(admin, "GET", f"/api/2.0/mlflow/runs/get?run_id={job['run_id']}"))["run"]
    (used,) = run["inputs"]["dataset_inputs"]
    assert used["dataset"]["name"] == "pets"
    assert json.loads(used["dataset"]["source"])["uri"] == "yard:pets@v1"
    users = await ok(admin, "GET", f"{DATA}/pets/versions/latest/users")
    assert [(one["run_id"], one["job_id"]) for one in users["uses"]] == [
        (job["run_id"], job["job_id"])
    ]
    told = refused(await admin("DELETE", f"{DATA}/pets/versions/v1"), 409)
    assert job["job_id"] in told
    for data, says in [
        (["nothing"], "no data set"),
        (["pets@v9"], "no version"),
        (["pets", "pets@v1"], "twice"),
        (["pets@"], "not a version"),
        (["MLFLOW_RUN_ID=pets"], "set by the platform"),
    ]:
        answer = await admin("POST", "/api/v1/jobs", {**wish, "data": data})
        assert says in refused(answer, 400), data


async def test_a_logged_input_is_linked_by_its_path_or_name(platform: Platform) -> None:
    admin = platform.admin
    digest = (await add(admin, "pets", FILES))["version"]["digest"]
    for source in (
        {"uri": f"/srv/cache/data/{digest}"},
        {"uri": f"/srv/cache/data/{digest}/train"},
        {"url": "http://yard:8000/data/pets@v1"},
        {"uri": "yard:pets@v1"},
    ):
        run = await new_run(admin)
        dataset = {
            "name": "mine",
            "digest": "1",
            "source_type": "local",
            "source": json.dumps(source),
        }
        await ok(
            admin,
            "POST",
            "/api/2.0/mlflow/runs/log-inputs",
            {"run_id": run, "datasets": [{"dataset": dataset}]},
        )
        users = await ok(admin, "GET", f"{DATA}/pets/versions/v1/users")
        assert run in {one["run_id"] for one in users["uses"]}, source


async def test_clean_up_keeps_what_a_registered_model_needs(platform: Platform) -> None:
    admin, services = platform.admin, platform.services
    await add(admin, "needed", {"a.txt": b"needed", "b.txt": b"shared"})
    await add(admin, "unused", {"c.txt": b"unused", "b.txt": b"shared"})
    run = await new_run(admin)
    dataset = {"name": "d", "digest": "1", "source": json.dumps({"uri": "yard:needed@v1"})}
    body = {"run_id": run, "datasets": [{"dataset": dataset}]}
    await ok(admin, "POST", "/api/2.0/mlflow/runs/log-inputs", body)
    await ok(admin, "POST", "/api/2.0/mlflow/registered-models/create", {"name": "net"})
    source = {"name": "net", "source": "s3://elsewhere/model", "run_id": run}
    await ok(admin, "POST", "/api/2.0/mlflow/model-versions/create", source)
    await services.database.write(lambda tx: tx.run("UPDATE data_versions SET used_ms = 1"))
    plan = await ok(admin, "POST", f"{DATA}/clean", {"unused_days": 30, "dry_run": True})
    assert [one["name"] for one in plan["versions"]] == ["unused"]
    assert [one["needed_by"] for one in plan["kept"]] == ["registered model net/1"]
    await ok(admin, "POST", f"{DATA}/clean", {"unused_days": 30})
    listed = await ok(admin, "GET", DATA)
    assert [one["newest"]["name"] for one in listed["data"]] == ["needed"]
    # What only the removed version held is still safe: somebody may be adding it again.
    kept = await ok(admin, "POST", f"{DATA}/missing", {"contents": [sha(b"unused")]})
    assert kept["missing"] == []
    principal = await services.directory.authenticate(str(admin.token))
    assert principal is not None
    found = await upkeep.clean(
        services.database,
        services.artifacts,
        services.data,
        principal,
        unused_days=None,
        dry_run=False,
        grace_ms=-1000,
    )
    assert found.contents == 1
    gone = await ok(admin, "POST", f"{DATA}/missing", {"contents": [sha(b"unused")]})
    assert gone["missing"] == [sha(b"unused")]
    answer = await admin("GET", f"{DATA}/needed/versions/v1/file?path=b.txt")
    assert answer.body == b"shared"


async def test_the_stores_own_clean_up_and_check_know_data_sets(platform: Platform) -> None:
    services = platform.services
    await add(platform.admin, "pets", FILES)
    await collect_garbage(services.database, services.artifacts, grace_ms=-1000)
    answer = await platform.admin("GET", f"{DATA}/pets/versions/v1/file?path=notes.txt")
    assert answer.body == b"a note"
    checked = await check_all_files(services.database, services.artifacts.blobs)
    assert checked.bad == []
    assert checked.files >= 2
    places = [path async for path in services.artifacts.blobs.walk()]
    damaged = await services.artifacts.blobs.local_file(places[0].blob)
    assert damaged is not None
    with open(damaged, "r+b") as file:  # noqa: ASYNC230, PTH123
        file.write(b"?")
    checked = await check_all_files(services.database, services.artifacts.blobs)
    assert [bad.file.kind for bad in checked.bad] == ["data"]
