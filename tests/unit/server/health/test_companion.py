"""The Prometheus beside the server: what it is told, and what is read from it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from trackyard.core.errors import SetupError
from trackyard.server.health.companion import Prometheus, check_companions, configuration
from trackyard.server.settings import Settings


def test_it_scrapes_this_server_with_a_token_of_its_own(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, port=8123, prefix="/yard")
    told = yaml.safe_load(configuration(settings, tmp_path / "token"))
    [job] = told["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:8123"]}]
    assert job["metrics_path"] == "/yard/metrics"
    assert job["authorization"] == {"credentials_file": str(tmp_path / "token")}


def test_it_sees_the_exporters_of_a_ray_cluster_too(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, engine="ray=http://head:8265/", ray_token_file="/run/ray")
    told = yaml.safe_load(configuration(settings, tmp_path / "token"))
    ray = told["scrape_configs"][1]
    assert ray["http_sd_configs"] == [
        {
            "url": "http://head:8265/api/prometheus/sd",
            "authorization": {"credentials_file": "/run/ray"},
        }
    ]


def test_what_cannot_be_started_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match="not known"):
        check_companions(("grafana",))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SetupError, match="not installed"):
        check_companions(("prometheus",))


@pytest.fixture
def answering() -> Iterator[int]:
    """Something that answers range queries as Prometheus does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)["query"][0]
            value = "0.75" if query.startswith("max") else "0.5"
            result = []
            if "gpu" in query:
                series = {"metric": {"node": "g1", "gpu": "3"}, "values": [[7200, value]]}
                result.append(series)
            body = json.dumps({"status": "success", "data": {"result": result}}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_long_history_comes_in_the_shape_of_the_servers_own(
    tmp_path: Path, answering: int
) -> None:
    beside = Prometheus(Settings(home=tmp_path))
    beside.port = answering
    found = beside._load(0, 7_200_000, 2)
    assert found is not None
    [load] = found.loads
    assert (load.node_id, load.what, found.width_ms) == ("g1", "gpu3", 3_600_000)
    assert [(one.at_ms, one.mean, one.most) for one in load.points] == [(3_600_000, 50.0, 75.0)]


async def test_without_a_process_the_servers_own_history_is_told(tmp_path: Path) -> None:
    assert await Prometheus(Settings(home=tmp_path)).load(0, 1000, 1) is None
