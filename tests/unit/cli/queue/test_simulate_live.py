"""`yard simulate --from live`: what is added and taken away, and the trace that is replayed."""

import pytest

from trackyard.cli.main import main
from trackyard.cli.queue import simulate_live
from trackyard.core.errors import InvalidInput
from trackyard.core.node import Node, NodeGpu

TODAY = (Node(id="g1", gpus=(NodeGpu(index=0, type="NVIDIA H100"),), cpu_milli=8000),)
JOB = {
    "id": "j1",
    "submitted_at": 1000.0,
    "duration": 600.0,
    "gpus": 1,
    "gpu_milli": 1000,
    "gpu_types": [],
    "cpu_milli": 0,
    "memory_bytes": 0,
    "user": "ann",
    "team": "lab",
    "name": "train",
}


def test_nodes_are_added_like_those_of_the_same_type_and_taken_away() -> None:
    found = simulate_live.changed(TODAY, ["2*8xH100"], ["g1"])
    assert [(len(node.gpus), node.gpu_type, node.cpu_milli) for node in found] == [
        (8, "NVIDIA H100", 8000)
    ] * 2
    for add, remove in ((["many"], []), ([], ["g9"])):
        with pytest.raises(InvalidInput):
            simulate_live.changed(TODAY, add, remove)


def test_today_is_printed_beside_what_would_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four jobs of an hour at once on one GPU wait; with another node they wait less."""
    jobs = [{**JOB, "id": f"j{n}", "duration": 3600.0} for n in range(4)]
    trace = simulate_live.trace_of(jobs, 30)
    place = "trackyard.cli.queue.simulate.read_live"
    monkeypatch.setattr(place, lambda days, limit: (trace, TODAY))
    assert main(["simulate", "--from", "live", "--add", "1xH100", "--json"]) == 0
    import json

    today, more = json.loads(capsys.readouterr().out)["policies"]
    assert (today["policy"], more["policy"]) == ("today", "+1xH100")
    assert more["average_wait_seconds"] < today["average_wait_seconds"]
    assert main(["simulate", "--add", "8xH100"]) == 2
    assert "--from live" in capsys.readouterr().err
