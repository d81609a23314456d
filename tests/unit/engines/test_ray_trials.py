"""What a search inside a job tells of its trials."""

from types import SimpleNamespace
from typing import Any

from trackyard.engines.ray_gate.trials import MOST, Teller, described


def trial(name: str = "t1", **facts: Any) -> SimpleNamespace:
    return SimpleNamespace(
        trial_id=name,
        status=facts.get("status", "RUNNING"),
        evaluated_params=facts.get("chosen", {"lr": 0.5}),
        config={"lr": 0.5, "fixed": object()},
        last_result=facts.get("result"),
        get_error=lambda: ValueError("boom"),
    )


def test_a_trial_is_described_by_what_was_chosen_and_the_scripts_own_numbers() -> None:
    result = {
        "loss": 0.25,
        "nested": {"f1": 0.5},
        "note": "text",
        "bad": float("nan"),
        "training_iteration": 3,
        "time_total_s": 1.5,
        "pid": 7,
        "config": {"lr": 0.5},
        "done": False,
    }
    chosen = {"train_loop_config/lr": 0.5, "layers": (1, 2), "name": "x" * 999}
    found = described(trial(result=result, chosen=chosen, status="TERMINATED"), 4)
    assert (found["number"], found["state"]) == (4, "terminated")
    assert found["metrics"] == {"loss": 0.25, "nested/f1": 0.5}
    assert found["params"] == {"train_loop_config/lr": 0.5, "layers": "[1, 2]", "name": "x" * 200}
    assert (found["iterations"], found["seconds"], found["error"]) == (3, 1.5, "")


def test_a_failed_trial_says_why_and_one_without_choices_shows_its_configuration() -> None:
    found = described(trial(chosen={}, status="ERROR"), 1)
    assert found["error"] == "boom"
    assert found["params"]["lr"] == 0.5
    assert found["metrics"] == {}


def test_everything_is_told_before_the_search_returns_each_trial_under_its_number() -> None:
    sent: list[dict[str, Any]] = []

    def send(body: dict[str, Any]) -> bool:
        sent.append(body)
        return True

    teller = Teller(send)
    trials = [trial(f"t{number}", status="TERMINATED") for number in range(MOST + 1)]
    teller.note(trials[:2], "loss")
    teller.finish(trials)
    last = {one["trial"]: one for body in sent for one in body["trials"]}
    assert len(last) == MOST + 1
    assert [last[f"t{number}"]["number"] for number in (0, 1, MOST)] == [1, 2, MOST + 1]
    assert {body["metric"] for body in sent} == {"loss"}
    assert max(len(body["trials"]) for body in sent) <= MOST


def test_a_server_that_refuses_is_not_asked_again() -> None:
    sent: list[dict[str, Any]] = []

    def send(body: dict[str, Any]) -> bool:
        sent.append(body)
        return False

    teller = Teller(send)
    teller.finish([trial()])
    teller.finish([trial("t2")])
    assert len(sent) == 1
