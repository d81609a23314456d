"""What the settings promise, in words made from their numbers."""

from dataclasses import fields, replace

import pytest

from trackyard.queue.shares.promises import SILENT, SPOKEN, PromiseTerms, promises, stop_words
from trackyard.queue.shares.settings import QueueSettings, TeamShare
from trackyard.scheduling.policy import PRESETS, Policy, PreemptionRules

GIB = 2**30


def told(
    policy: Policy | None = None,
    rules: QueueSettings | None = None,
    share: TeamShare | None = None,
    **others: TeamShare,
) -> dict[str, str]:
    share = share or TeamShare()
    terms = PromiseTerms(
        policy=policy or Policy(),
        queue="q",
        rules=rules or QueueSettings(),
        team="vision",
        share=share,
        shares={"vision": share, **others},
    )
    return {one.topic: " ".join(one.sentences) for one in promises(terms)}


def test_each_field_of_preemption_is_spoken_of_or_of_no_weight() -> None:
    """Whoever adds a rule adds its sentence."""
    assert {field.name for field in fields(PreemptionRules)} == SPOKEN | SILENT


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("reclaim_after_seconds", 7260.0, "2 h 1 min"),
        ("yield_ratio", 3.5, "3.5 times"),
        ("min_run_seconds", 1260.0, "21 min"),
        ("grace_seconds", 42.0, "42 s"),
    ],
)
def test_numbers_come_from_the_policy(field: str, value: float, words: str) -> None:
    rules = replace(PreemptionRules(), **{field: value})
    assert words in told(Policy(preemption=rules))["preemption"]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_and_order_has_its_words(name: str) -> None:
    found = told(PRESETS[name])
    assert {"order", "reservation", "waiting", "preemption", "quota", "classes"} <= set(found)


def test_the_queue_s_own_order_counts() -> None:
    assert "submitted first" in told(rules=QueueSettings(order="fifo"))["order"]
    assert "no bound" in told(rules=QueueSettings(order="fifo"))["waiting"]
    assert "2 d of waiting halve" in told()["waiting"]


def test_quota_and_borrowing() -> None:
    found = told(share=TeamShare(quota_gpus=8, limit_gpus=12), audio=TeamShare(quota_gpus=4))
    assert "8 GPUs are team vision's own" in found["quota"]
    assert "never holds more than 12 GPUs" in found["quota"]
    assert "4 GPUs in all" in found["borrowing"]
    assert "30 min after its own job began to wait" in found["borrowing"]


def test_departments_and_loans() -> None:
    found = told(
        share=TeamShare(parent="ai", quota_gpus=4, lendable_gpus=1, share=2),
        ai=TeamShare(quota_gpus=8, share=3),
        audio=TeamShare(parent="ai", quota_gpus=4, lendable_gpus=2),
        shop=TeamShare(quota_gpus=16),
    )
    assert "in department ai, which has 8 GPUs of its own and a share of 3" in found["quota"]
    assert "within it the shares are vision 2, audio 1" in found["quota"]
    assert "20 GPUs in all, those of department ai first" in found["borrowing"]
    assert "lend to such jobs (2 GPUs)" in found["borrowing"]
    assert "lends 1 GPUs of its quota" in found["borrowing"]


def test_department_is_told_whom_it_stands_for() -> None:
    found = told(share=TeamShare(quota_gpus=8), audio=TeamShare(parent="vision", quota_gpus=4))
    assert "is a department of audio" in found["quota"]
    assert "department" not in told()["quota"]


def test_classes_and_budget() -> None:
    found = told(
        rules=QueueSettings(classes={"high": "owner"}),
        share=TeamShare(classes={"urgent": "admin"}, urgent_gpu_hours=24),
    )["classes"]
    assert "Priority urgent is for admins (set by the team)." in found
    assert "Priority high is for the role owner and above (set by the queue)." in found
    assert "24 GPU-hours in 7 days" in found
    assert "urgent is for the role maintainer" in told()["classes"]


def test_default_requests_and_limits() -> None:
    plain = told()["default requests"]
    assert "1 CPU and no memory of its own" in plain
    assert "its GPUs' part of the node's CPUs" in plain
    rules = QueueSettings(
        default_cpus=2,
        default_memory_bytes=4 * GIB,
        default_cpus_per_gpu=3,
        default_memory_per_gpu_bytes=16 * GIB,
        max_cpus_per_job=9,
        max_memory_per_job_bytes=64 * GIB,
        zero_cpus=False,
    )
    found = told(rules=rules)
    for words in ("2 CPUs and 4 GiB", "3 CPUs for each GPU", "16 GiB for each GPU", "is refused"):
        assert words in found["default requests"]
    assert "9 CPUs in one job, 64 GiB of memory in one job" in found["limits"]


def test_what_being_preemptible_means() -> None:
    policy = Policy()
    assert stop_words(policy, is_preemptible=False).startswith("Not preemptible: once it runs")
    words = stop_words(policy, is_preemptible=True)
    assert words.startswith("Preemptible: it may be stopped for a job of a higher class")
    assert "10 min" in words
    assert "nobody is stopped" in stop_words(PRESETS["fifo"], is_preemptible=True)
