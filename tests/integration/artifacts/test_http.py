"""The artifact routes of a real server: hostile paths, rights, active content, ranges."""

import hashlib
import json
import os
import uuid
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from tests.integration.artifacts.conftest import CREDENTIALS, Bucket
from tests.integration.artifacts.site import PROXY, Answer, Caller, Site, run_id_of

API = "/api/2.0/mlflow"
MPU = "/api/2.0/mlflow-artifacts/mpu"
BIG = os.urandom(5_000_000)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    server = Site(tmp_path_factory.mktemp("site") / "home")
    server.start()
    yield server
    server.stop()


@dataclass
class People:
    """Callers by what they may do."""

    admin: Caller
    maintainer: Caller
    member: Caller
    viewer: Caller
    stranger: Caller
    nobody: Caller


@pytest.fixture(scope="module")
def people(site: Site) -> People:
    return People(
        admin=site.caller(),
        maintainer=site.caller(site.token_for("mai", "maintainer")),
        member=site.caller(site.token_for("mem", "member")),
        viewer=site.caller(site.token_for("vie", "viewer")),
        stranger=site.caller(site.token_for("str", "owner", team="other")),
        nobody=site.caller(""),
    )


@pytest.fixture
def root(people: People) -> str:
    """A run with two files."""
    root = people.member.run()
    assert people.member.put(root, "a.txt", b"hello").status == 200
    assert people.member.put(root, "dir/b.bin", BIG).status == 200
    return root


#: As they stand in a request line: literal, encoded one to three times, mixed, for other systems.
TRAVERSALS = [
    "..",
    "../x",
    "a/../../x",
    "%2e%2e/x",
    "%2E%2e%2Fx",
    "..%2fx",
    "%252e%252e%252fx",
    "%25252e%25252e/x",
    "..%5cx",
    "..%255cx",
    "a/..;/x",
    "..;x",
    "a%00b",
    "%ef%bc%8e%ef%bc%8e/x",
    "./x",
    "a/./b",
]
UNWRITABLE = [
    *TRAVERSALS,
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "C:/x",
    "C%3a%5cx",
    "a%0ab",
    "a%7fb",
    "a/",
    "a//b",
    "a/%20../b%ff",
    "a*b",
    "x" * 300,
    "/".join(["x" * 200] * 25),
]


def assert_refused(answer: Answer, path: str) -> None:
    """Insist on MLflow's refusal; a NUL is refused before anyone asks what it is part of."""
    expected = "BAD_REQUEST" if "%00" in path else "INVALID_PARAMETER_VALUE"
    assert (answer.status, answer.error) == (400, expected)


@pytest.fixture(scope="module")
def target(people: People) -> str:
    """One run for all hostile paths: none may change it."""
    root = people.member.run()
    assert people.member.put(root, "a.txt", b"hello").status == 200
    return root


class TestHostilePaths:
    @pytest.mark.parametrize("path", UNWRITABLE)
    def test_put(self, site: Site, people: People, target: str, path: str) -> None:
        before = len(site.blobs)
        answer = people.member.put(target, path, b"evil")
        assert_refused(answer, path)
        assert len(site.blobs) == before

    @pytest.mark.parametrize("path", TRAVERSALS)
    @pytest.mark.parametrize("method", ["GET", "DELETE"])
    def test_get_and_delete(self, people: People, target: str, method: str, path: str) -> None:
        answer = people.admin.send(method, f"{PROXY}{target}/{path}")
        assert_refused(answer, path)
        assert people.admin.get(target, "a.txt").body == b"hello"

    @pytest.mark.parametrize("path", [*TRAVERSALS, "/etc/passwd", "*", "**/x", "C:/x", "a%0ab"])
    @pytest.mark.parametrize(
        "route", ["get-artifact", "list", "proxied list", "preview", "upload"]
    )
    def test_in_a_query(self, people: People, target: str, route: str, path: str) -> None:
        run = run_id_of(target)
        targets = {
            "get-artifact": f"/get-artifact?run_uuid={run}&path={path}",
            "list": f"{API}/artifacts/list?run_id={run}&path={path}",
            "proxied list": f"{PROXY}?path={target[1:]}/{path}",
            "preview": f"/api/v1/artifacts/preview?run_id={run}&path={path}",
            "upload": f"/ajax-api/2.0/mlflow/upload-artifact?run_uuid={run}&path={path}",
        }
        method = "POST" if route == "upload" else "GET"
        answer = people.admin.send(method, targets[route], b"x" if method == "POST" else None)
        assert_refused(answer, path)

    @pytest.mark.parametrize("name", ["..", "a/..", "..\\..", "C:\\..", "x" * 300, ""])
    def test_as_the_local_name_of_an_upload_in_parts(
        self, people: People, target: str, name: str
    ) -> None:
        body = {"path": name, "num_parts": 1}
        answer = people.member.send("POST", f"{MPU}/create{target}", body)
        assert (answer.status, answer.error) == (400, "INVALID_PARAMETER_VALUE")

    def test_an_upload_in_parts_keeps_the_last_name_of_a_local_path(
        self, people: People, target: str
    ) -> None:
        body = {"path": "C:\\data\\..\\model.bin", "num_parts": 1}
        answer = people.member.send("POST", f"{MPU}/create{target}/dir", body)
        assert answer.status == 200

    def test_a_root_that_only_begins_like_another_is_not_it(
        self, people: People, target: str
    ) -> None:
        for other in (target + "x", target[:-1], target.replace("/artifacts", "0/artifacts")):
            assert people.admin.get(other, "a.txt").status == 404

    def test_the_wrong_experiment_in_a_path_is_not_found(
        self, people: People, target: str
    ) -> None:
        _, experiment, rest = target.split("/", 2)
        assert people.member.get(f"/{int(experiment) + 1}/{rest}", "a.txt").status == 404
        assert people.member.get(f"/0/{rest}", "a.txt").status == 200


class TestRights:
    def everything(self, root: str) -> list[tuple[str, str, object]]:
        run = run_id_of(root)
        return [
            ("GET", f"{PROXY}{root}/a.txt", None),
            ("PUT", f"{PROXY}{root}/a.txt", b"x"),
            ("DELETE", f"{PROXY}{root}/a.txt", None),
            ("GET", f"{PROXY}?path={root[1:]}", None),
            ("GET", f"{API}/artifacts/list?run_id={run}", None),
            ("GET", f"/get-artifact?run_uuid={run}&path=a.txt", None),
            ("GET", f"/api/v1/artifacts/preview?run_id={run}&path=a.txt", None),
            ("POST", f"/ajax-api/2.0/mlflow/upload-artifact?run_uuid={run}&path=a.txt", b"x"),
            ("POST", f"{MPU}/create{root}", {"path": "x", "num_parts": 1}),
            ("POST", f"{MPU}/complete{root}", {"path": "x", "upload_id": "0" * 32, "parts": []}),
            ("POST", f"{MPU}/abort{root}", {"path": "x", "upload_id": "0" * 32}),
            ("GET", f"/api/2.0/mlflow-artifacts/presigned{root}/a.txt", None),
            ("POST", f"{API}/artifacts/presigned-upload-url", {"run_id": run, "path": "a.txt"}),
            ("POST", f"{API}/artifacts/presigned-download-url", {"run_id": run, "path": "a.txt"}),
        ]

    def test_another_team_finds_nothing(self, people: People, root: str) -> None:
        for method, target, body in self.everything(root):
            answer = people.stranger.send(method, target, body)
            assert (answer.status, answer.error) == (404, "RESOURCE_DOES_NOT_EXIST"), target
        assert people.member.get(root, "a.txt").body == b"hello"

    def test_without_a_credential_nothing_answers(self, people: People, root: str) -> None:
        for method, target, body in self.everything(root):
            assert people.nobody.send(method, target, body).status == 401, target

    def test_a_viewer_reads_and_does_not_write(self, people: People, root: str) -> None:
        assert people.viewer.get(root, "a.txt").body == b"hello"
        assert people.viewer.put(root, "a.txt", b"x").status == 403
        assert people.viewer.send("POST", f"{MPU}/create{root}", {"path": "x"}).status == 403

    def test_a_member_replaces_and_a_maintainer_deletes(self, people: People, root: str) -> None:
        assert people.member.put(root, "a.txt", b"new").status == 200
        for path in ("/a.txt", "/dir", "", "/"):
            answer = people.member.send("DELETE", f"{PROXY}{root}{path}")
            assert (answer.status, answer.error) == (403, "PERMISSION_DENIED")
        assert people.member.get(root, "a.txt").body == b"new"
        assert people.maintainer.send("DELETE", f"{PROXY}{root}/a.txt").status == 200
        assert people.maintainer.send("DELETE", f"{PROXY}{root}/").status == 200
        assert people.member.get(root, "dir/b.bin").status == 404

    def test_a_deleted_run_takes_no_file(self, people: People, root: str) -> None:
        people.admin.send("POST", f"{API}/runs/delete", {"run_id": run_id_of(root)})
        answer = people.member.put(root, "a.txt", b"x")
        assert (answer.status, answer.error) == (400, "INVALID_PARAMETER_VALUE")
        assert people.member.get(root, "a.txt").body == b"hello"

    def test_presigned_addresses_are_refused_as_not_implemented(
        self, people: People, root: str
    ) -> None:
        for method, target, body in self.everything(root)[-3:]:
            answer = people.member.send(method, target, body)
            assert (answer.status, answer.error) == (501, "NOT_IMPLEMENTED")


class TestParts:
    def create(self, people: People, root: str, parts: int) -> dict[str, object]:
        body = {"path": "/tmp/big.bin", "num_parts": parts}
        return dict(json.loads(people.member.send("POST", f"{MPU}/create{root}", body).body))

    def test_a_part_needs_its_token_and_nothing_else(
        self, site: Site, people: People, root: str
    ) -> None:
        upload = self.create(people, root, 2)
        first, second = upload["credentials"]
        path = first["url"].removeprefix(site.url)
        [(header, token)] = first["headers"].items()
        refused = [
            {},
            {header: ""},
            {header: second["headers"][header]},
            {header: token[:-1] + ("0" if token[-1] != "0" else "1")},
        ]
        for headers in refused:
            for caller in (people.nobody, people.member, people.stranger):
                answer = caller.send("PUT", path, b"part", **headers)
                assert (answer.status, answer.error) == (403, "PERMISSION_DENIED")
        for target in (
            path[:-1] + "2",
            path[:-1] + "9",
            path[:-1] + "x",
            path.replace("/1", "/01"),
        ):
            assert people.nobody.send("PUT", target, b"part", **{header: token}).status == 403
        answer = people.nobody.send("PUT", path, b"part", **{header: token})
        assert answer.status == 200
        assert answer.headers["etag"] == f'"{hashlib.sha256(b"part").hexdigest()}"'
        assert people.nobody.send("PUT", path, b"part", **{header: token}).status == 403
        for method in ("GET", "POST", "DELETE"):
            assert people.nobody.send(method, path, **{header: token}).status in (401, 404)

    def test_completed_parts_are_one_file(self, site: Site, people: People, root: str) -> None:
        upload = self.create(people, root, 3)
        pieces = [BIG[:100], BIG[100:3_000_000], BIG[3_000_000:]]
        parts = []
        for credential, piece in zip(upload["credentials"], pieces, strict=True):
            path = credential["url"].removeprefix(site.url)
            answer = people.nobody.send("PUT", path, piece, **credential["headers"])
            parts.append(
                {"part_number": credential["part_number"], "etag": answer.headers["etag"]}
            )
        body = {"path": "/tmp/big.bin", "upload_id": upload["upload_id"], "parts": parts}
        foreign = people.stranger.send("POST", f"{MPU}/complete{root}", body)
        assert foreign.status == 404
        assert people.member.send("POST", f"{MPU}/complete{root}", body).status == 200
        assert people.member.get(root, "big.bin").body == BIG


class TestDownloads:
    def test_a_file_is_an_attachment_that_cannot_run(self, people: People, root: str) -> None:
        page = b"<script>alert(document.domain)</script>"
        for name in ("page.html", "image.svg", "page.xhtml"):
            people.member.put(root, name, page)
            for answer in (
                people.viewer.get(root, name),
                people.viewer.send("GET", f"/get-artifact?run_uuid={run_id_of(root)}&path={name}"),
            ):
                assert answer.body == page
                assert answer.headers["content-disposition"] == f"attachment; filename={name}"
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["content-security-policy"].startswith("sandbox;")

    def test_a_name_cannot_break_out_of_its_header(self, people: People, root: str) -> None:
        name = 'a"; filename=b.exe; größe ✓.txt'
        assert people.member.put(root, quote(name), b"x").status == 200
        answer = people.member.get(root, quote(name))
        assert answer.headers["content-disposition"] == (
            'attachment; filename="a__ filename=b.exe_ gr__e _.txt";'
            f" filename*=UTF-8''{quote(name, safe='')}"
        )

    def test_image_names_of_both_client_generations_survive(
        self, people: People, root: str
    ) -> None:
        for name in ("images/a%step%1%timestamp%17000%00ff.png", "images/a+step+1+x~y.png"):
            assert people.member.put(root, quote(name), name.encode()).status == 200
            assert people.member.get(root, quote(name)).body == name.encode()
        answer = people.member.send(
            "GET", f"{API}/artifacts/list?run_id={run_id_of(root)}&path=images"
        )
        assert [file["path"] for file in json.loads(answer.body)["files"]] == [
            "images/a%step%1%timestamp%17000%00ff.png",
            "images/a+step+1+x~y.png",
        ]

    def test_names_that_a_client_has_respelled_are_still_served(
        self, people: People, root: str
    ) -> None:
        """Stock clients decode what a listing names before they ask for it."""
        for start in ("5e", "9f", "2a", "5c", "2f"):
            name = f"images/i%step%4%{start}0a.png"
            assert people.member.put(root, quote(name), name.encode()).status == 200
            asked = quote(unquote(name, errors="replace"), safe="/")
            assert people.member.get(root, asked).body == name.encode()
        missing = people.member.get(root, quote("images/i%step%4*0b.png"))
        assert (missing.status, missing.error) == (400, "INVALID_PARAMETER_VALUE")

    def test_a_preview_shows_what_is_safe_and_in_a_sandbox(
        self, people: People, root: str
    ) -> None:
        for name, kind in (
            ("a.txt", "text/plain; charset=utf-8"),
            ("x.html", "text/html; charset=utf-8"),
            ("x.js", "text/plain; charset=utf-8"),
            ("x.svg", "image/svg+xml"),
            ("x.parquet", "application/octet-stream"),
        ):
            people.member.put(root, name, b"hello")
            answer = people.viewer.send(
                "GET", f"/api/v1/artifacts/preview?run_id={run_id_of(root)}&path={name}"
            )
            assert (answer.status, answer.headers["content-type"]) == (200, kind)
            policy = answer.headers["content-security-policy"]
            if name == "x.html":
                continue
            assert policy.startswith("sandbox; default-src 'none';")
            assert "allow-" not in policy
            assert "script-src" not in policy
        for name in ("x.exe", "x.pdf", "x.xhtml", "noextension"):
            people.member.put(root, name, b"hello")
            answer = people.viewer.send(
                "GET", f"/api/v1/artifacts/preview?run_id={run_id_of(root)}&path={name}"
            )
            assert (answer.status, answer.error) == (400, "INVALID_PARAMETER_VALUE")

    def test_a_page_runs_its_own_scripts_without_an_origin_or_a_way_out(
        self, people: People, root: str
    ) -> None:
        people.member.put(root, "x.html", b"<script>1</script>")
        answer = people.viewer.send(
            "GET", f"/api/v1/artifacts/preview?run_id={run_id_of(root)}&path=x.html"
        )
        policy = answer.headers["content-security-policy"]
        parts = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
        assert parts["sandbox"] == "allow-scripts"
        assert (parts["default-src"], parts["connect-src"]) == ("'none'", "'none'")
        assert (parts["form-action"], parts["base-uri"]) == ("'none'", "'none'")
        # Nothing that is loaded comes over the network, from us or from elsewhere.
        assert "'self'" not in policy.replace("frame-ancestors 'self'", "")
        assert not {"http:", "https:", "*", "ws:", "wss:"} & set(policy.split())

    @pytest.mark.parametrize(
        ("wanted", "start", "end"),
        [("bytes=0-0", 0, 1), ("bytes=10-", 10, None), ("bytes=-7", -7, None),
         ("bytes=100-4500000", 100, 4_500_001)],
    )  # fmt: skip
    def test_ranges(
        self, people: People, root: str, wanted: str, start: int, end: int | None
    ) -> None:
        answer = people.member.get(root, "dir/b.bin", Range=wanted)
        assert answer.status == 206
        assert answer.body == BIG[start:end]
        first, last, size = (
            answer.headers["content-range"].removeprefix("bytes ").replace("/", "-").split("-")
        )
        assert BIG[int(first) : int(last) + 1] == answer.body
        assert int(size) == len(BIG)

    def test_a_broken_download_resumes_only_if_the_file_is_the_same(
        self, people: People, root: str
    ) -> None:
        etag = people.member.get(root, "a.txt").headers["etag"]
        assert etag == f'"{hashlib.sha256(b"hello").hexdigest()}"'
        rest = people.member.get(root, "a.txt", Range="bytes=2-", If_Range=etag)
        assert (rest.status, rest.body) == (206, b"llo")
        people.member.put(root, "a.txt", b"other")
        whole = people.member.get(root, "a.txt", Range="bytes=2-", If_Range=etag)
        assert (whole.status, whole.body) == (200, b"other")

    def test_a_part_of_a_damaged_file_is_refused(
        self, people: People, root: str, site: Site
    ) -> None:
        content = uuid.uuid4().bytes * 100
        people.member.put(root, "rotten.bin", content)
        files = (path for path in (site.home / "artifacts").rglob("*") if path.is_file())
        blob = next(path for path in files if path.read_bytes() == content)
        blob.chmod(0o600)
        blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        answer = people.member.get(root, "rotten.bin", Range="bytes=0-9")
        assert (answer.status, answer.error) == (500, "INTERNAL_ERROR")

    def test_a_range_outside_says_how_long_the_file_is(self, people: People, root: str) -> None:
        answer = people.member.get(root, "a.txt", Range="bytes=5-")
        assert (answer.status, answer.error) == (416, "INVALID_PARAMETER_VALUE")
        assert answer.headers["content-range"] == "bytes */5"

    def test_head_and_unchanged_send_no_body(self, people: People, root: str) -> None:
        head = people.member.send("HEAD", f"{PROXY}{root}/dir/b.bin")
        assert (head.status, head.headers["content-length"], head.body) == (200, "5000000", b"")
        same = people.member.get(
            root, "a.txt", If_None_Match=f'"{hashlib.sha256(b"hello").hexdigest()}"'
        )
        assert (same.status, same.body) == (304, b"")

    def test_what_is_not_there_is_said_in_mlflows_words(self, people: People, root: str) -> None:
        missing = people.member.get(root, "none")
        assert (missing.status, missing.error) == (404, "RESOURCE_DOES_NOT_EXIST")
        folder = people.member.get(root, "dir")
        assert (folder.status, folder.error) == (400, "INVALID_PARAMETER_VALUE")
        assert "directory" in folder.body.decode()

    def test_a_digest_sent_along_is_checked(self, people: People, root: str) -> None:
        def digest(data: bytes) -> str:
            return f"sha-256=:{b64encode(hashlib.sha256(data).digest()).decode()}:"

        target = f"{PROXY}{root}/a.txt"
        assert people.member.send("PUT", target, b"x", Content_Digest=digest(b"x")).status == 200
        wrong = people.member.send("PUT", target, b"y", Content_Digest=digest(b"z"))
        assert (wrong.status, wrong.error) == (400, "INVALID_PARAMETER_VALUE")
        assert people.member.get(root, "a.txt").body == b"x"

    def test_the_ui_uploads_small_files(self, people: People, root: str) -> None:
        target = f"/ajax-api/2.0/mlflow/upload-artifact?run_uuid={run_id_of(root)}&path=ui/x"
        assert people.member.send("POST", target, b"data").status == 200
        assert people.member.get(root, "ui/x").body == b"data"
        assert people.member.send("POST", target, b"").status == 400
        large = people.member.open("POST", target, f"Content-Length: {10 * 1024 * 1024 + 1}")
        assert large.recv(100).startswith(b"HTTP/1.1 400")
        large.close()

    def test_a_model_version_serves_its_files(self, people: People, root: str) -> None:
        people.member.put(root, "model/MLmodel", b"flavors: {}")
        name = f"model-{run_id_of(root)[:8]}"
        people.member.send("POST", f"{API}/registered-models/create", {"name": name})
        made = people.member.send(
            "POST",
            f"{API}/model-versions/create",
            {"name": name, "source": f"runs:/{run_id_of(root)}/model", "run_id": run_id_of(root)},
        )
        assert made.status == 200
        target = f"/model-versions/get-artifact?name={name}&version=1&path=MLmodel"
        assert people.viewer.send("GET", target).body == b"flavors: {}"
        assert people.stranger.send("GET", target).status == 404


def test_listings_speak_both_of_mlflows_dialects(people: People, root: str) -> None:
    """The proxy names files relative to the folder, the run's listing relative to the root."""
    proxied = people.viewer.send("GET", f"{PROXY}?path={root[1:]}/dir")
    assert json.loads(proxied.body) == {
        "files": [{"path": "b.bin", "is_dir": False, "file_size": 5_000_000}]
    }
    run = run_id_of(root)
    whole = json.loads(people.viewer.send("GET", f"{API}/artifacts/list?run_id={run}").body)
    assert whole == {
        "root_uri": f"mlflow-artifacts:{root}",
        "files": [
            {"path": "a.txt", "is_dir": False, "file_size": 5},
            {"path": "dir", "is_dir": True},
        ],
    }
    inner = people.viewer.send(
        "GET", f"/ajax-api/2.0/mlflow/artifacts/list?run_uuid={run}&path=dir"
    )
    assert [file["path"] for file in json.loads(inner.body)["files"]] == ["dir/b.bin"]


def test_a_bucket_serves_like_a_disk(bucket: Bucket, tmp_path: Path) -> None:
    site = Site(
        tmp_path / "home",
        environment=CREDENTIALS,
        flags=["--artifacts", bucket.url, "--artifacts-endpoint", bucket.endpoint],
    )
    site.start()
    try:
        caller = site.caller()
        root = caller.run()
        for name, data in (("small", b"hello"), ("empty", b""), ("dir/big", BIG * 4)):
            assert caller.put(root, name, data).status == 200
            assert caller.get(root, name).body == data
        tail = caller.get(root, "dir/big", Range="bytes=5-19999990")
        assert (tail.status, tail.body) == (206, (BIG * 4)[5:19_999_991])
        assert caller.send("DELETE", f"{PROXY}{root}").status == 200
        assert bucket.keys() == []
        assert site.blobs == []
    finally:
        site.stop()
