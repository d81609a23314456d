"""The cache never serves a run that has changed since it was put there."""

from trackyard.store.sqlite.changes import EVERYTHING
from trackyard.tracking.run_cache import RunCache
from trackyard.tracking.runs import RunData, RunInfo, RunView


def run(name: str = "a") -> RunView:
    return RunView(
        RunInfo(name, "0", name, "u", "RUNNING", 1, None, "x", "active", name), RunData()
    )


def test_a_run_stays_until_a_commit_changees_it() -> None:
    cache, one, two = RunCache(), run("one"), run("two")
    cache.put(1, 7, one, size=10, mark=cache.mark())
    cache.put(2, 7, two, size=10, mark=cache.mark())
    cache.committed({2})
    assert cache.get(1, 7) is one
    assert cache.get(2, 7) is None


def test_another_team_does_not_see_it() -> None:
    cache = RunCache()
    cache.put(1, 7, run(), size=10, mark=cache.mark())
    assert cache.get(1, 8) is None


def test_what_was_loaded_while_a_commit_was_under_way_is_not_kept() -> None:
    cache = RunCache()
    mark = cache.mark()
    cache.committed({1})
    cache.put(1, 7, run(), size=10, mark=mark)
    assert cache.get(1, 7) is None
    fresh = run()
    cache.put(1, 7, fresh, size=10, mark=cache.mark())
    assert cache.get(1, 7) is fresh


def test_a_commit_that_changees_everything_empties_it() -> None:
    cache = RunCache()
    cache.put(1, 7, run(), size=10, mark=cache.mark())
    before = cache.mark()
    cache.committed({EVERYTHING})
    cache.put(2, 7, run(), size=10, mark=before)
    assert cache.get(1, 7) is None
    assert cache.get(2, 7) is None


def test_it_holds_no_more_than_its_limit() -> None:
    cache = RunCache(limit=100)
    for inner in range(50):
        cache.put(inner, 7, run(), size=30, mark=cache.mark())
    assert sum(cache.get(inner, 7) is not None for inner in range(50)) <= 3
    assert cache.get(49, 7) is not None
