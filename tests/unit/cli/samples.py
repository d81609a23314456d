"""Jobs, nodes and answers as the server sends them, for tests of how they look."""

from typing import Any

NOW = 1_800_000_000_000


def job(**changes: Any) -> dict[str, Any]:
    """A running job of two GPUs, changed as told."""
    return {
        "job_id": "jabcdefghjk",
        "name": "sft-17",
        "state": "running",
        "team": "nlp",
        "user": "ada",
        "queue": "default",
        "priority": "normal",
        "command": "python train.py --lr 0.1",
        "gpus": 2.0,
        "gpu_types": ["A100"],
        "nodes": 1,
        "cpus": 8.0,
        "memory_bytes": 64 * 1024**3,
        "run_id": "0123456789abcdef0123456789abcdef",
        "experiment_id": "0",
        "array_id": "",
        "array_index": None,
        "submitted_ms": NOW - 1_000_000,
        "started_ms": NOW - 760_000,
        "ended_ms": None,
        "attempt": 1,
        "stopping": False,
        "held": False,
        "stalled": False,
        "on": ["g07"],
        "step": 1200,
        "cause": None,
        "sentence": None,
        "time_limit_seconds": 9000.0,
        "preemptible": True,
        "position": None,
        "reason": None,
        **changes,
    }


def waiting(**changes: Any) -> dict[str, Any]:
    """A job that waits for GPUs."""
    return job(
        **{
            "job_id": "jmnpqrstuvw",
            "name": "ablation",
            "state": "queued",
            "started_ms": None,
            "attempt": 0,
            "on": [],
            "step": None,
            "position": 3,
            "reason": reason(),
            **changes,
        }
    )


def reason(**changes: Any) -> dict[str, Any]:
    """Too few free GPUs."""
    return {
        "code": "no_free_gpus",
        "tier": "capacity",
        "sentence": "It needs 2 GPUs and 1 are free; `jabcdefghjk` hold what would fit",
        "remedy": "Wait, or ask for fewer GPUs",
        "needed": 2.0,
        "free": 1.0,
        "limit": None,
        "holders": ["jabcdefghjk"],
        "holder_count": 1,
        "until_ms": NOW + 3_600_000,
        "ahead": 2,
        **changes,
    }


def eta(minutes: float = 60, slack: float = 20) -> dict[str, Any]:
    """A forecast so many minutes from now."""
    at = NOW + int(minutes * 60_000)
    width = int(slack * 60_000)
    return {
        "start_ms": at,
        "earliest_ms": max(NOW, at - width),
        "latest_ms": at + width,
        "confidence": 0.7,
    }


def attempt(number: int, **changes: Any) -> dict[str, Any]:
    """An attempt on a node's two GPUs."""
    return {
        "attempt_id": f"jabcdefghjk-a{number}",
        "number": number,
        "state": "running",
        "cause": None,
        "sentence": None,
        "exit_code": None,
        "signal": None,
        "error_line": None,
        "saved": False,
        "nodes": ["g07"],
        "placement": [
            {"node": "g07", "gpus": [0, 1], "share": 1.0, "cpus": 8.0, "memory_bytes": 64 << 30}
        ],
        "admitted_ms": NOW - 100_000,
        "started_ms": NOW - 100_000,
        "ended_ms": None,
        "seen_ms": NOW,
        "ranks": 1,
        "resume_step": None,
        "step": None,
        "lost_steps": None,
        "stalled": False,
        "loss_nan": False,
        "peak_memory_bytes": None,
        "gpu_seconds": 200.0,
        "log_bytes": [10],
        "log_lost_bytes": 0,
        "environment": {},
        "notes": [],
        **changes,
    }


def page(shown: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A job with all that is known of it."""
    return {
        "job": shown,
        "spec": {},
        "attempts": [],
        "checkpoints": [],
        "reasons": [shown["reason"]] if shown["reason"] else [],
        "eta": None,
        "position": shown["position"],
        "waiting": 7,
        "waited_ms": 240_000,
        "wall_ms": 760_000,
        "gpu_seconds": 1520.0,
        "waits_for": [],
        "version": 3,
        **changes,
    }


def node(**changes: Any) -> dict[str, Any]:
    """A node of two GPUs, one of them shared by two jobs."""
    holder = {
        "job_id": "jabcdefghjk",
        "name": "sft-17",
        "user": "ada",
        "team": "nlp",
        "share": 0.5,
    }
    stranger = {"job_id": "", "name": "", "user": "", "team": "another team", "share": 0.5}
    gpu = {"type": "A100", "vendor": "nvidia", "memory_bytes": 80 << 30}
    return {
        "node_id": "g07",
        "hostname": "g07.example.org",
        "state": "ready",
        "note": "",
        "actor": "",
        "cpus": 64.0,
        "free_cpus": 56.0,
        "memory_bytes": 512 << 30,
        "free_memory_bytes": 448 << 30,
        "gpus": [
            {"index": 0, "free": 0.0, "holders": [holder, stranger], **gpu},
            {"index": 1, "free": 1.0, "holders": [], **gpu},
        ],
        "labels": {"rack": "r1"},
        "notes": [],
        "jobs": ["jabcdefghjk"],
        "job_count": 2,
        "joined_ms": NOW,
        "changed_ms": NOW,
        "health": "ok",
        "checks": [],
        "properties": {
            "node_class": "A100",
            "gpu_vendor": "nvidia",
            "gpu_model": "A100",
            "gpu_count": 2,
            "gpu_memory_bytes": 80 << 30,
            "driver": "550.54",
            "cuda": "12.4",
            "rocm": "",
        },
        "own_labels": {},
        "until_ms": None,
        "state_by": "operator",
        "state_ms": NOW,
        "expected_gpus": 2,
        **changes,
    }


def answer(**changes: Any) -> dict[str, Any]:
    """The server's word on a job that would wait."""
    return {
        "feasible": True,
        "sentence": "It needs 2 GPUs and 1 are free.",
        "starts_now": False,
        "position": 3,
        "waiting": 2,
        "eta": eta(),
        "reasons": [reason()],
        "smaller": [{"gpus": 1.0, "nodes": 1, "sentence": "Drop to 1 GPU: starts now."}],
        **changes,
    }
