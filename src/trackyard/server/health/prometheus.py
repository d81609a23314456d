"""What the server tells Prometheus: the fleet, the queue, attempts, ingest, answers, the database.

Owns names, units and labels: base units, `_total` for what only grows, and label sets that are
bounded by nodes, GPUs, teams, queues, routes and the catalogues of events and causes, never by
jobs, runs or users. It is given what it tells and reads nothing itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from trackyard import __version__
from trackyard.control.loop import LastPass
from trackyard.core.health import CheckVerdict
from trackyard.core.job import PriorityClass
from trackyard.core.resources import WHOLE
from trackyard.fleet.nodes import NodeRow
from trackyard.fleet.verdicts import CheckRow
from trackyard.server.health.tally import ANSWER_EDGES, WAIT_EDGES, Histogram, Tally
from trackyard.server.health.watchdog import EDGES, Watchdog

CONTENT_TYPE = CONTENT_TYPE_LATEST
_GPU = re.compile(r"gpu_(\d{1,3})_(\w+)")
#: Samples of a GPU: the metric, what to multiply by, and the sentence.
_GPU_SAMPLES = {
    "utilization_percentage": ("utilization_ratio", 0.01, "Share of time a GPU was busy."),
    "memory_usage_megabytes": ("memory_used_bytes", 1e6, "Memory of a GPU in use."),
    "power_usage_watts": ("power_watts", 1.0, "Power that a GPU draws."),
    "temperature_celsius": ("temperature_celsius", 1.0, "Temperature of a GPU."),
    "clock_megahertz": ("clock_hertz", 1e6, "Clock of a GPU's cores."),
}
_NODE_SAMPLES = {
    "cpu_utilization_percentage": ("cpu_utilization_ratio", 0.01, "Share of a node's CPUs busy."),
    "system_memory_usage_percentage": (
        "memory_used_ratio",
        0.01,
        "Share of a node's memory in use.",
    ),
    "disk_usage_percentage": ("disk_used_ratio", 0.01, "Share of a node's work disk in use."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetrics:
    """All that is told, as it was at one moment."""

    looked: LastPass
    nodes: Sequence[NodeRow]
    checks: Mapping[str, Sequence[CheckRow]]
    samples: Mapping[str, Mapping[str, float]]
    tally: Tally
    watchdog: Watchdog
    now_ms: int
    is_leader: bool
    database: str
    database_bytes: int
    commits: int
    writes: int
    #: by class, where this server counts them
    gpu_seconds: Mapping[str, float]


def exposition(facts: ServerMetrics) -> bytes:
    """Return everything in Prometheus' text form."""
    return generate_latest(_Families(facts))


class _Families:
    """A registry of one moment."""

    def __init__(self, facts: ServerMetrics) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        facts = self._facts
        yield _gauge("yard_build_info", "The version that runs.", {"version": __version__}, 1)
        yield from _fleet(facts)
        yield from _health(facts)
        yield from _queue(facts)
        yield from _attempts(facts.tally)
        yield from _gpu_seconds(facts)
        yield from _answers(facts.tally)
        yield from _database(facts)
        yield from _event_loop(facts.watchdog)


def _fleet(facts: ServerMetrics) -> Iterator[Metric]:
    """Nodes and GPUs: how many, in what state, held by whom, and what was sampled of them."""
    states = GaugeMetricFamily(
        "yard_node_state", "1 for a node's state.", labels=["node", "state"]
    )
    gpus = GaugeMetricFamily("yard_node_gpus", "GPUs of a node.", labels=["node", "type"])
    for row in facts.nodes:
        states.add_metric([row.id, row.in_force.value], 1)
        for model, count in Counter(gpu.model for gpu in row.facts.gpus).items():
            gpus.add_metric([row.id, model], count)
    yield states
    yield gpus
    held: Counter[tuple[str, str]] = Counter()
    for running in facts.looked.loaded.snapshot.running:
        for share in running.placement.shares:
            held[share.node, running.job.team] += len(share.gpus) * share.gpu_milli
    used = GaugeMetricFamily(
        "yard_node_gpus_held", "GPUs of a node that a team's jobs hold.", labels=["node", "team"]
    )
    for (node, team), milli in sorted(held.items()):
        used.add_metric([node, team], milli / WHOLE)
    yield used
    now = facts.now_ms / 1000
    leased = {
        node
        for lease in facts.looked.loaded.snapshot.leases
        if lease.starts_at <= now < lease.ends_at
        for node in lease.nodes
    }
    yield _gauge("yard_nodes_leased", "Nodes that are leased now.", {}, len(leased))
    yield from _samples(facts.samples)


def _samples(samples: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    gpus = {
        key: GaugeMetricFamily(f"yard_gpu_{name}", words, labels=["node", "gpu"])
        for key, (name, _, words) in _GPU_SAMPLES.items()
    }
    nodes = {
        key: GaugeMetricFamily(f"yard_node_{name}", words, labels=["node"])
        for key, (name, _, words) in _NODE_SAMPLES.items()
    }
    for node, values in sorted(samples.items()):
        for key, value in values.items():
            if (found := _GPU.fullmatch(key)) and found[2] in gpus:
                gpus[found[2]].add_metric([node, found[1]], value * _GPU_SAMPLES[found[2]][1])
            elif key in nodes:
                nodes[key].add_metric([node], value * _NODE_SAMPLES[key][1])
    yield from gpus.values()
    yield from nodes.values()


def _health(facts: ServerMetrics) -> Iterator[Metric]:
    """What health checks found last: temperatures, memory errors, clocks, disks."""
    labels = ["node", "check"]
    verdicts = GaugeMetricFamily(
        "yard_node_check_failed", "1 where a check of a node's health fails.", labels=labels
    )
    numbers = GaugeMetricFamily(
        "yard_node_check_value", "What a health check read.", labels=[*labels, "unit"]
    )
    for node, checks in sorted(facts.checks.items()):
        for check in checks:
            verdicts.add_metric([node, check.name], int(check.verdict == CheckVerdict.FAIL))
            if check.number is not None:
                numbers.add_metric([node, check.name, check.unit], check.number)
    yield verdicts
    yield numbers


def _queue(facts: ServerMetrics) -> Iterator[Metric]:
    """What waits and what runs, by queue and priority class."""
    snapshot, loaded = facts.looked.loaded.snapshot, facts.looked.loaded
    labels = ["queue", "priority"]
    count: Counter[tuple[str, str]] = Counter()
    wanted: Counter[tuple[str, str]] = Counter()
    oldest: dict[tuple[str, str], float] = {}
    for one in snapshot.waiting:
        row = loaded.waiting[one.job.id]
        key = (row.queue, PriorityClass(row.priority).name.lower())
        count[key] += 1
        wanted[key] += round(one.job.request.total_gpus * WHOLE)
        waited = (facts.now_ms - row.submitted_ms) / 1000
        oldest[key] = max(oldest.get(key, 0.0), waited)
    yield _by("yard_jobs_waiting", "Jobs in the queue.", labels, count)
    yield _by(
        "yard_gpus_wanted",
        "GPUs that waiting jobs ask for.",
        labels,
        {key: milli / WHOLE for key, milli in wanted.items()},
    )
    yield _by("yard_oldest_wait_seconds", "The longest wait of a waiting job.", labels, oldest)
    running = Counter(
        (row.queue, PriorityClass(row.priority).name.lower()) for row, _ in loaded.running.values()
    )
    yield _by("yard_jobs_running", "Jobs that hold resources.", labels, running)
    words = "Seconds that the last pass over the queue took."
    yield _gauge("yard_scheduler_pass_seconds", words, {}, facts.looked.took_seconds)
    age = max(0.0, (facts.now_ms - facts.looked.at_ms) / 1000)
    yield _gauge("yard_scheduler_pass_age_seconds", "Seconds since the last pass.", {}, age)
    yield _gauge("yard_scheduler_leader", "1 where this server schedules.", {}, facts.is_leader)


def _attempts(tally: Tally) -> Iterator[Metric]:
    """What has happened, as this server wrote it down."""
    name = "yard_attempts_ended"
    ended = CounterMetricFamily(name, "Attempts that ended, by cause.", labels=["cause"])
    for cause, number in sorted(tally.attempts.items()):
        ended.add_metric([cause], number)
    yield ended
    events = CounterMetricFamily("yard_events", "Events written, by kind.", labels=["kind"])
    for kind, number in sorted(tally.events.items()):
        events.add_metric([kind], number)
    yield events
    waits = HistogramMetricFamily(
        "yard_job_wait_seconds", "Time from submission to each start of an attempt."
    )
    waits.add_metric([], _buckets(tally.waits, WAIT_EDGES), tally.waits.total)
    yield waits
    yield CounterMetricFamily("yard_metric_points", "Metric points taken in.", value=tally.points)


def _gpu_seconds(facts: ServerMetrics) -> Iterator[Metric]:
    """Where GPU time went; what a job held counts once its attempt has ended."""
    words = "GPU-seconds by what they were spent on; those of a job count when its attempt ends."
    family = CounterMetricFamily("yard_gpu_seconds", words, labels=["class"])
    for kind, seconds in facts.gpu_seconds.items():
        family.add_metric([kind], seconds)
    yield family


def _answers(tally: Tally) -> Iterator[Metric]:
    answers = CounterMetricFamily(
        "yard_http_requests", "Requests answered.", labels=["route", "status"]
    )
    for (route, status), number in sorted(tally.answers.items()):
        answers.add_metric([route or "none", str(status)], number)
    yield answers
    seconds = HistogramMetricFamily(
        "yard_http_request_duration_seconds",
        "Time until an answer was ready to be sent.",
        labels=["route"],
    )
    for route, histogram in sorted(tally.answer_seconds.items()):
        buckets = _buckets(histogram, ANSWER_EDGES)
        seconds.add_metric([route or "none"], buckets, histogram.total)
    yield seconds


def _database(facts: ServerMetrics) -> Iterator[Metric]:
    kind = {"kind": facts.database}
    yield _gauge("yard_database_size_bytes", "Size of the database.", kind, facts.database_bytes)
    yield CounterMetricFamily("yard_database_commits", "Commits.", value=facts.commits)
    yield CounterMetricFamily(
        "yard_database_writes", "Writes that shared them.", value=facts.writes
    )


def _event_loop(watchdog: Watchdog) -> Iterator[Metric]:
    lag = HistogramMetricFamily(
        "yard_event_loop_lag_seconds", "Lateness of a timer on the event loop."
    )
    edges = [*(f"{edge:g}" for edge in EDGES), "+Inf"]
    sums = accumulate(watchdog.counts)
    lag.add_metric([], list(zip(edges, sums, strict=True)), watchdog.total_seconds)
    yield lag
    stalls = CounterMetricFamily(
        "yard_event_loop_stalls",
        "Times the event loop stood still for 50 ms or more, by what it was at.",
        labels=["during"],
    )
    for during, number in sorted(watchdog.stalls_by_name.items()):
        stalls.add_metric([during], number)
    yield stalls


def _gauge(name: str, words: str, labels: dict[str, str], value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=list(labels))
    family.add_metric(list(labels.values()), value)
    return family


def _by(
    name: str, words: str, labels: list[str], values: Mapping[tuple[str, str], float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(list(key), value)
    return family


def _buckets(histogram: Histogram, edges: tuple[float, ...]) -> list[tuple[str, float]]:
    named = [*(f"{edge:g}" for edge in edges), "+Inf"]
    return list(zip(named, accumulate(histogram.counts), strict=True))
