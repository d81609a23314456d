"""The little language of alerts: what can be written, and what is said of what cannot."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackyard.core.alerts import EXAMPLES, Condition, ConditionKind, parse, seconds_of
from trackyard.core.errors import InvalidInput


def test_every_example_is_understood() -> None:
    assert {parse(one).condition.kind for one in EXAMPLES} == set(ConditionKind)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "loss > 10 for 5m",
            Condition(
                kind=ConditionKind.THRESHOLD,
                metric="loss",
                operator=">",
                value=10.0,
                seconds=300.0,
            ),
        ),
        (
            "val loss <= 1e-3",
            Condition(kind=ConditionKind.THRESHOLD, metric="val loss", operator="<=", value=1e-3),
        ),
        (
            "tokens/s drops 30% in 1h30m",
            Condition(
                kind=ConditionKind.CHANGE,
                metric="tokens/s",
                operator="drops",
                value=0.3,
                seconds=5400.0,
            ),
        ),
        ("loss is nan", Condition(kind=ConditionKind.NAN, metric="loss")),
        ("nan", Condition(kind=ConditionKind.NAN)),
        (
            "no val/loss for 15m",
            Condition(kind=ConditionKind.ABSENCE, metric="val/loss", seconds=900.0),
        ),
        ("stall 20m", Condition(kind=ConditionKind.STALL, seconds=1200.0)),
        ("stalled", Condition(kind=ConditionKind.STALL)),
        ("failed", Condition(kind=ConditionKind.STATE, words=("failed",))),
        ("state failed,stopped", Condition(kind=ConditionKind.STATE, words=("failed", "stopped"))),
        ("log xid", Condition(kind=ConditionKind.LOG, pattern="xid")),
        ("log 'loss scale > 2'", Condition(kind=ConditionKind.LOG, pattern="loss scale > 2")),
        ("lease start", Condition(kind=ConditionKind.LEASE, words=("starts",))),
        ("budget exhausted", Condition(kind=ConditionKind.BUDGET, words=("exhausted",))),
        ("wait > 2h", Condition(kind=ConditionKind.WAIT, seconds=7200.0)),
    ],
)
def test_a_rule_says_what_it_looks_at(text: str, expected: Condition) -> None:
    assert parse(text).condition == expected


def test_where_it_is_told_stands_at_the_end() -> None:
    parsed = parse("loss > 10 for 5m via ops, night-shift")
    assert (parsed.text, parsed.via) == ("loss > 10 for 5m", ("ops", "night-shift"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "one line"),
        ("loss", "not understood"),
        ("loss > ten", "no number"),
        ("loss > nan", "is nan"),
        ("loss > 1 for 5", "no length of time"),
        ("loss > 1 for 60d", "between"),
        ("log nothing", "ecc, xid, nccl"),
        ("log '('", "no regular expression"),
        ("log '(a+)+b'", "very long"),
        ("state asleep", "one or more of"),
        ("loss drops 200% in 5m", "cannot be watched"),
        ("a\nb", "one line"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_to_write(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        parse(text)


@given(st.text(max_size=600))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        parse(text)


def test_lengths_of_time_add_up() -> None:
    assert seconds_of("1h30m", what="it") == 5400


@pytest.mark.parametrize("text", ["los >> 3", "> 3", "loss > > 3", "loss <> 3"])
def test_a_doubled_sign_is_no_name_of_a_metric(text: str) -> None:
    with pytest.raises(InvalidInput, match="not understood"):
        parse(text)
