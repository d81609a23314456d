"""Which changes of a waiting job's place its following client is told."""

from trackyard.core.reasons import Code, Reason
from trackyard.queue.records import JobRow
from trackyard.queue.views import EtaView
from trackyard.rayjobs.records import Listed
from trackyard.rayjobs.service import (
    FIRST_LOOK_SECONDS,
    PLACE_SECONDS,
    RETELL_SECONDS,
    _PlaceWords,
)
from trackyard.rayjobs.views import WaitingInfo

JOB = JobRow(**dict.fromkeys(JobRow._fields) | {"queue": "default"})  # type: ignore[arg-type]
LISTED = Listed("tart", JOB, None)


def waiting(position: int, start_ms: int) -> WaitingInfo:
    return WaitingInfo(Reason(code=Code.HELD), position, 9, EtaView(start_ms=start_ms))


def test_a_new_place_is_told_at_once_and_a_new_forecast_now_and_then() -> None:
    place = _PlaceWords()
    assert place.is_due(0)
    assert "position 3 of 9" in place.take(LISTED, waiting(3, 0), 0)
    assert not place.is_due(PLACE_SECONDS - 1)
    assert place.is_due(PLACE_SECONDS)
    assert place.take(LISTED, waiting(3, 0), 5) == ""
    assert place.take(LISTED, waiting(3, 60_000), 10) == ""
    assert "position 2 of 9" in place.take(LISTED, waiting(2, 60_000), 15)
    assert place.take(LISTED, waiting(2, 120_000), 20) == ""
    later = place.take(LISTED, waiting(2, 180_000), 15 + RETELL_SECONDS)
    assert "predicted start 1970-01-01 00:03 UTC" in later


def test_what_has_not_changed_is_never_repeated() -> None:
    place = _PlaceWords()
    place.take(LISTED, waiting(1, 0), 0)
    assert place.take(LISTED, waiting(1, 0), 10 * RETELL_SECONDS) == ""


def test_a_job_that_no_pass_has_seen_is_not_spoken_of_before_it_had_time_to_start() -> None:
    place, unseen = _PlaceWords(), WaitingInfo(Reason(code=Code.EVALUATING), None, 0, None)
    assert place.take(LISTED, unseen, 0) == ""
    assert place.is_due(0.25), "it is looked at again right away"
    assert "position 4 of 9" in place.take(LISTED, waiting(4, 0), 0.25)

    place = _PlaceWords()
    assert place.take(LISTED, unseen, 0) == ""
    assert "not been looked at" in place.take(LISTED, unseen, FIRST_LOOK_SECONDS)
