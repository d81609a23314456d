"""The shelf never serves a run that has changed since it was put there."""

from trackyard.store.transaction import EVERYTHING
from trackyard.tracking.runs import Run, RunData, RunInfo
from trackyard.tracking.shelf import Shelf


def run(name: str = "a") -> Run:
    return Run(RunInfo(name, "0", name, "u", "RUNNING", 1, None, "x", "active", name), RunData())


def test_a_run_stays_until_a_commit_touches_it() -> None:
    shelf, one, two = Shelf(), run("one"), run("two")
    shelf.put(1, 7, one, size=10, mark=shelf.mark())
    shelf.put(2, 7, two, size=10, mark=shelf.mark())
    shelf.committed({2})
    assert shelf.get(1, 7) is one
    assert shelf.get(2, 7) is None


def test_another_team_does_not_see_it() -> None:
    shelf = Shelf()
    shelf.put(1, 7, run(), size=10, mark=shelf.mark())
    assert shelf.get(1, 8) is None


def test_what_was_loaded_while_a_commit_was_under_way_is_not_kept() -> None:
    shelf = Shelf()
    mark = shelf.mark()
    shelf.committed({1})
    shelf.put(1, 7, run(), size=10, mark=mark)
    assert shelf.get(1, 7) is None
    fresh = run()
    shelf.put(1, 7, fresh, size=10, mark=shelf.mark())
    assert shelf.get(1, 7) is fresh


def test_a_commit_that_touches_everything_empties_it() -> None:
    shelf = Shelf()
    shelf.put(1, 7, run(), size=10, mark=shelf.mark())
    before = shelf.mark()
    shelf.committed({EVERYTHING})
    shelf.put(2, 7, run(), size=10, mark=before)
    assert shelf.get(1, 7) is None
    assert shelf.get(2, 7) is None


def test_it_holds_no_more_than_its_limit() -> None:
    shelf = Shelf(limit=100)
    for inner in range(50):
        shelf.put(inner, 7, run(), size=30, mark=shelf.mark())
    assert sum(shelf.get(inner, 7) is not None for inner in range(50)) <= 3
    assert shelf.get(49, 7) is not None
