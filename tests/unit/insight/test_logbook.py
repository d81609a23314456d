"""The logbook as a pure function: sentences, losses, differences, notes, digests, exports."""

import itertools
import random
from dataclasses import replace
from typing import Any

from trackyard.insight.logbook.books import lineage_entries, run_entries, team_entries
from trackyard.insight.logbook.digest import DigestTally, month_of, week_of
from trackyard.insight.logbook.entries import Logbook, count_kinds, select
from trackyard.insight.logbook.facts import AttemptFact, Curve, EventFact, Parent, RunFacts
from trackyard.insight.logbook.notes import mentioned
from trackyard.insight.logbook.render import (
    digest_html,
    digest_markdown,
    logbook_html,
    logbook_markdown,
    markdown_html,
)
from trackyard.insight.logbook.timeline import lanes_of

T0 = 1_794_000_000_000
MINUTE = 60_000
LOST = "resumed on gpu-11 from step 48,000; 212 steps and 9 min lost."
JOB, RUN = "jabcdefghij", "a" * 32


class Log:
    """Writes events one after the other."""

    def __init__(self, first: int = 1) -> None:
        self.events: list[EventFact] = []
        self._ids = itertools.count(first)

    def job(self, minute: float, kind: str, actor: str = "system", **data: Any) -> None:
        data = {"name": "opt", "run_id": RUN, **data}
        self._add(minute, kind, actor, "job", JOB, data)

    def run(self, minute: float, kind: str, actor: str = "ada", **data: Any) -> None:
        self._add(minute, kind, actor, "run", RUN, data)

    def node(self, minute: float, kind: str, node: str, **data: Any) -> None:
        self._add(minute, kind, "system", "node", node, data)

    def _add(
        self, minute: float, kind: str, actor: str, subject: str, subject_id: str, data: Any
    ) -> None:
        time_ms = T0 + round(minute * MINUTE)
        event = EventFact(next(self._ids), time_ms, actor, kind, subject, subject_id, data)
        self.events.append(event)


def two_attempts() -> RunFacts:
    """A job that lost its node and went on elsewhere."""
    log = Log()
    log.job(0, "job.submitted", actor="ada", queue="default", gpus=8.0, nodes=1)
    log.job(4, "job.admitted", attempt=1, nodes=["gpu-07"], gpus=8.0, waited_ms=4 * MINUTE)
    log.job(5, "job.running", attempt=1, nodes=["gpu-07"], resume_step=None)
    log.job(50, "checkpoint.saved", attempt=1, step=48_000, size_bytes=3_200_000_000)
    log.run(55, "note.added", note="nabcdefghij", text="lr looks *high*, @bob?", mentions=["bob"])
    log.job(
        59,
        "attempt.lost",
        attempt=1,
        cause="node_lost",
        sentence="ECC error.",
        nodes=["gpu-07"],
        ran_ms=54 * MINUTE,
    )
    log.job(59, "job.requeued", attempt=1, sentence="again")
    log.job(60, "job.admitted", attempt=2, nodes=["gpu-11"], gpus=8.0, waited_ms=0)
    log.job(61, "job.running", attempt=2, nodes=["gpu-11"], resume_step=48_000)
    log.job(62, "job.rolled_back", attempt=2, step=48_000, reached=48_212)
    log.job(
        90, "attempt.ended", attempt=2, cause="succeeded", ran_ms=29 * MINUTE, nodes=["gpu-11"]
    )
    log.job(90, "job.succeeded", attempts=2, wall_ms=85 * MINUTE)
    around = Log(first=100)
    around.node(58, "node.check_failed", "gpu-07", sentence="ECC errors on GPU 3.")
    environment = {"digest": "x", "command": ["train"], "pip": ["torch==2.8"], "env": {"A": "1"}}
    other = {
        **environment,
        "digest": "y",
        "pip": ["torch==2.9"],
        "env": {"A": "2"},
        "nodes": {"gpu-11": {"nvidia_driver": "580"}},
    }
    return RunFacts(
        run_id=RUN,
        name="opt",
        status="FINISHED",
        start_ms=T0,
        end_ms=T0 + 90 * MINUTE,
        job_id=JOB,
        events=log.events,
        around=around.events,
        attempts=[
            AttemptFact(
                number=1,
                nodes=("gpu-07",),
                admitted_ms=T0 + 4 * MINUTE,
                started_ms=T0 + 5 * MINUTE,
                ended_ms=T0 + 59 * MINUTE,
                step=48_212,
                environment={**environment, "nodes": {"gpu-07": {"nvidia_driver": "570"}}},
            ),
            AttemptFact(
                number=2,
                nodes=("gpu-11",),
                admitted_ms=T0 + 60 * MINUTE,
                started_ms=T0 + 61 * MINUTE,
                ended_ms=T0 + 90 * MINUTE,
                resume_step=48_000,
                environment=other,
            ),
        ],
    )


def sentences(facts: RunFacts, *kinds: str) -> list[str]:
    return [entry.sentence for entry in select(run_entries(facts), kinds=kinds)]


def test_a_lost_attempt_is_told_with_cause_place_and_loss() -> None:
    assert sentences(two_attempts(), "attempt") == [
        "Attempt 1 started on gpu-07 after 4 min in the queue.",
        f"Attempt 1 lost node gpu-07: ECC error; {LOST}",
        "Attempt 2 resumed on gpu-11 from step 48,000.",
        "Attempt 2 succeeded after 29 min.",
    ]


def test_what_differs_between_attempts_is_listed() -> None:
    (entry,) = select(run_entries(two_attempts()), kinds=["config"])
    told = [(one.what, one.name, one.before, one.after) for one in entry.differences]
    assert told == [
        ("pip", "torch", "==2.8", "==2.9"),
        ("variable", "A", "(changed)", "(changed)"),
        ("driver", "driver", "570", "580"),
    ]
    assert entry.sentence.startswith("Attempt 2 differs from attempt 1: torch ==2.8 → ==2.9, A")


def test_events_of_nodes_notes_and_checkpoints_stand_between_them_in_order() -> None:
    entries = run_entries(two_attempts())
    assert [entry.time_ms for entry in entries] == sorted(entry.time_ms for entry in entries)
    words = [entry.sentence for entry in entries]
    assert "A health check of gpu-07 failed: ECC errors on GPU 3." in words
    assert "Attempt 1 saved a checkpoint at step 48,000 (3.2 GB)." in words
    assert "Job opt succeeded after 1 h 25 min and 2 attempts." in words
    (note,) = select(entries, kinds=["note"])
    assert (note.id, note.mentions, note.detail) == (
        "nabcdefghij",
        ["bob"],
        "lr looks *high*, @bob?",
    )


def test_alerts_are_entries_and_marks_on_the_timeline() -> None:
    log = Log()
    alert = {"alert": "loss > 10", "incident": 7, "severity": "warning"}
    log.run(1, "alert.fired", actor="system", name="opt", sentence="loss is 12.", **alert)
    log.run(2, "alert.acknowledged", actor="bob", name="opt", **alert)
    log.run(3, "alert.escalated", actor="system", name="opt", **alert)
    log.run(4, "alert.resolved", actor="system", name="opt", sentence="loss is 2.", **alert)
    log.job(5, "job.succeeded", attempts=1)
    facts = RunFacts(run_id=RUN, name="opt", job_id=JOB, start_ms=T0, events=log.events)
    wanted = [
        'Alert "loss > 10" fired for opt: loss is 12.',
        'Bob acknowledged alert "loss > 10" for opt.',
        'Nobody acknowledged alert "loss > 10" for opt: escalated.',
        'Alert "loss > 10" for opt was resolved: loss is 2.',
    ]
    assert [one.lower() for one in sentences(facts, "alert")] == [one.lower() for one in wanted]
    (lane,) = [one for one in lanes_of([facts], run_entries(facts), T0) if one.name == "Alerts"]
    assert [span.from_ms - T0 for span in lane.spans] == [MINUTE * at for at in (1, 2, 3, 4)]
    # A run with a job is told of by its job; its alerts are its own.
    told = team_entries(log.events, {RUN: "opt"})
    assert [one.sentence.lower() for one in told][:4] == [one.lower() for one in wanted]


def test_a_rebuilt_logbook_is_the_same_to_the_last_letter() -> None:
    """The same facts in another order of reading give equal entries with equal ids."""
    facts = two_attempts()
    shuffled = list(facts.events)
    random.Random(7).shuffle(shuffled)
    shuffled.sort(key=lambda event: event.id)
    again = RunFacts(
        **{name: getattr(facts, name) for name in RunFacts.__slots__} | {"events": shuffled}
    )
    assert run_entries(again) == run_entries(facts)
    ids = [entry.id for entry in run_entries(facts)]
    assert len(ids) == len(set(ids))


def test_an_attempt_that_is_not_resumed_yet_says_only_what_is_known() -> None:
    facts = two_attempts()
    cut = [event for event in facts.events if event.id <= 7]
    early = RunFacts(
        **{name: getattr(facts, name) for name in RunFacts.__slots__} | {"events": cut}
    )
    assert sentences(early, "attempt")[-1] == "Attempt 1 lost node gpu-07: ECC error."


def test_notes_can_be_changed_and_removed() -> None:
    log = Log()
    log.run(0, "run.created", name="opt")
    log.run(1, "note.added", note="na", text="one", mentions=[])
    log.run(2, "note.added", note="nb", text="two", mentions=[])
    log.run(3, "note.edited", note="na", text="three", mentions=[])
    log.run(4, "note.removed", note="nb")
    facts = RunFacts(run_id=RUN, name="opt", events=log.events)
    (note,) = select(run_entries(facts), kinds=["note"])
    assert (note.detail, note.edited_ms) == ("three", T0 + 3 * MINUTE)


def test_only_spoken_names_are_mentions() -> None:
    text = "@ada, see `@property` and mail bob@example.org (@carl.x). @ada again"
    assert mentioned(text) == ["ada", "carl.x"]


def test_a_fork_tells_which_parameters_changed() -> None:
    facts = RunFacts(
        run_id=RUN,
        name="fork",
        start_ms=T0,
        params={"lr": "1e-4", "layers": "12"},
        commit="b" * 40,
        parents=[
            Parent(
                relation="fork of",
                run_id="b" * 32,
                name="base",
                params={"lr": "3e-4", "layers": "12"},
                commit="a" * 40,
            )
        ],
    )
    (entry,) = run_entries(facts)
    assert entry.sentence == (
        "Run fork is a fork of base; changed: lr 3e-4 → 1e-4 and git commit"
        " aaaaaaaaaaaa → bbbbbbbbbbbb."
    )


def test_a_fork_tells_what_changed_in_its_code_and_environment() -> None:
    def diff(name: str, *lines: str) -> str:
        return "\n".join(
            [f"diff --git a/{name} b/{name}", f"--- a/{name}", f"+++ b/{name}", *lines]
        )

    parent = Parent(
        relation="fork of",
        run_id="b" * 32,
        name="base",
        commit="c" * 40,
        diff=diff("train.py", "-lr = 1", "+lr = 2"),
        environment={"digest": "x", "commit": "c" * 40, "pip": ["torch==2.8"]},
    )
    own = AttemptFact(
        number=1,
        nodes=("g1",),
        admitted_ms=T0,
        environment={"digest": "y", "commit": "d" * 40, "pip": ["torch==2.9"]},
    )
    facts = RunFacts(
        run_id=RUN,
        name="fork",
        start_ms=T0,
        commit="d" * 40,
        diff=diff("train.py", "-lr = 1", "+lr = 3", "+warmup = 5") + "\n" + diff("new.py", "+x"),
        attempts=[own],
        parents=[parent],
    )
    (entry,) = run_entries(facts)
    told = [(one.what, one.name, one.before, one.after) for one in entry.differences]
    assert told == [
        ("commit", "git commit", "c" * 12, "d" * 12),
        ("diff", "new.py", "", "+1 -0"),
        ("diff", "train.py", "+1 -1", "+2 -1"),
        ("pip", "torch", "==2.8", "==2.9"),
    ]


def test_a_learning_rate_that_was_changed_between_attempts_is_told() -> None:
    facts = two_attempts()
    rate = [1.2e-4] * 5 + [float("nan")] + [6e-5] * 3
    times = [T0 + minute * MINUTE for minute in (10, 20, 30, 40, 58, 59, 63, 70, 80)]
    curve = Curve(
        metric="train/lr", steps=range(9), times=times, values=rate, least=rate, most=rate
    )
    (entry,) = select(run_entries(replace(facts, rates=[curve])), kinds=["config"])
    first = entry.differences[0]
    assert (first.name, first.before, first.after) == ("train/lr", "0.00012", "6e-05")
    # A schedule that goes on as it did is no change.
    steady = replace(curve, values=[1.2e-4 - 1e-7 * at for at in range(9)])
    (entry,) = select(run_entries(replace(facts, rates=[steady])), kinds=["config"])
    assert entry.differences[0].name != "train/lr"


def test_a_lineage_tells_an_event_of_a_shared_node_once() -> None:
    facts = two_attempts()
    other = RunFacts(run_id="c" * 32, name="next", around=facts.around)
    entries = lineage_entries([facts, other])
    assert count_kinds(entries)["node"] == 1


def test_a_team_reads_names_and_ends() -> None:
    facts = two_attempts()
    entries = team_entries([*facts.events, *facts.around], {RUN: "opt-175b"})
    words = [entry.sentence for entry in entries]
    assert any(one.startswith("Attempt 1 lost node gpu-07") for one in words)
    book = Logbook("team", "t", "t", entries, {})
    assert "opt-175b: Attempt 1 lost node gpu-07" in logbook_markdown(book)
    assert select(entries, kinds=["note"])[0].run_name == "opt-175b"
    assert len(select(entries, query="ECC gpu-07")) == 2


def test_a_checkpoint_is_as_long_as_training_waited_for_it() -> None:
    log = Log()
    log.job(4, "job.admitted", attempt=1, nodes=["g1"], gpus=1.0, waited_ms=0)
    log.job(5, "job.running", attempt=1, nodes=["g1"], resume_step=None)
    saved = T0 + 9 * MINUTE
    times = {"began_ms": saved - MINUTE, "saved_ms": saved}
    log.job(10, "checkpoint.saved", attempt=1, step=7, size_bytes=1, **times)
    facts = RunFacts(run_id=RUN, name="opt", job_id=JOB, events=log.events)
    lanes = {lane.name: lane.spans for lane in lanes_of([facts], [], T0 + 20 * MINUTE)}
    (span,) = lanes["Checkpoints"]
    assert (span.from_ms, span.to_ms) == (saved - MINUTE, saved)


def test_the_timeline_has_a_lane_for_each_state() -> None:
    facts = two_attempts()
    lanes = {lane.name: lane.spans for lane in lanes_of([facts], run_entries(facts), T0)}
    assert list(lanes) == [
        "Waiting",
        "Starting",
        "Running",
        "Checkpoints",
        "Lost",
        "Nodes",
        "Notes",
    ]
    minutes = [
        ((span.from_ms - T0) // MINUTE, (span.to_ms - T0) // MINUTE) for span in lanes["Lost"]
    ]
    assert minutes == [(50, 59)]
    assert [span.tone for span in lanes["Running"]] == ["bad", "good"]


def test_exports_hold_every_sentence_and_run_nothing() -> None:
    log = Log()
    log.run(
        0, "note.added", note="na", text="<script>alert(1)</script> **bold** `a<b`", mentions=[]
    )
    facts = RunFacts(run_id=RUN, name="<b>x</b>", events=log.events)
    entries = run_entries(facts)
    book = Logbook("run", RUN, "<b>x</b>", entries, count_kinds(entries))
    page = logbook_html(book)
    assert "<script>" not in page
    assert "<b>x</b>" not in page
    assert "<strong>bold</strong>" in page
    assert "<code>a&lt;b</code>" in page
    assert 'id="na"' in page
    text = logbook_markdown(book)
    assert "ada noted:" in text
    assert "# Logbook of run \\<b\\>x" in text


def test_links_of_notes_lead_to_the_web_alone() -> None:
    assert 'href="https://a.b/c"' in markdown_html("[x](https://a.b/c)")
    assert "<a" not in markdown_html("[x](javascript:alert)")
    assert "<pre>x &lt; y</pre>" in markdown_html("```\nx < y\n```")
    assert markdown_html("- a\n- b") == "<ul><li>a</li><li>b</li></ul>"


def test_a_digest_counts_what_ran_and_what_was_lost() -> None:
    facts = two_attempts()
    period = week_of("2026-W45", 0)
    tally = DigestTally("research", period, period.until_ms)
    for event in sorted([*facts.events, *facts.around], key=lambda one: one.time_ms):
        tally.add(event)
    digest = tally.done()
    assert digest.jobs == {"submitted": 1, "succeeded": 1, "failed": 0, "stopped": 0}
    assert (digest.attempts, digest.lost_steps) == (2, 212)
    assert digest.gpu_hours == round(8 * (55 + 30) / 60, 3)
    assert digest.lost_gpu_hours == round(8 * 9 / 60, 3)
    assert [(one.cause, one.attempts) for one in digest.causes] == [
        ("node_lost", 1),
        ("succeeded", 1),
    ]
    assert digest.nodes[0].node == "gpu-07"
    assert "1.2 GPU-hours (10.6% of them) and 212 steps had to be done again." in digest.sentences
    assert "lost their node" in digest_markdown(digest)
    assert "lost their node" in digest_html(digest)


def test_weeks_and_months_are_read_as_people_write_them() -> None:
    now = 1_794_960_000_000  # Wednesday, 18 November 2026
    assert week_of("", now).name == "2026-W47"
    assert week_of("last", now).name == "2026-W46"
    assert month_of("2026-12", now).until_ms == month_of("2027-01", now).since_ms
    assert month_of("last", now).name == "2026-10"


def test_empty_runs_have_empty_logbooks() -> None:
    facts = RunFacts(run_id=RUN, name="none", curves=[])
    assert run_entries(facts) == []
    empty = Curve(metric="loss", steps=[], times=[], values=[], least=[], most=[])
    assert run_entries(RunFacts(run_id=RUN, name="none", curves=[empty])) == []
