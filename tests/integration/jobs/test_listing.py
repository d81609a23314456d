"""Lists of jobs: newest first or in order of start, always as things stand."""

from typing import Any

from tests.integration.jobs.yard import Yard, member
from trackyard.control.listing import ListQuery
from trackyard.queue.views import JobList


async def listed(yard: Yard, **wish: Any) -> JobList:
    return await yard.jobs.listing(ListQuery(team_id=yard.user.team_id, **wish))


async def test_a_kept_job_is_shown_anew_once_it_changed(yard: Yard) -> None:
    """Asking twice gives the same; a change of the job, its place or its reason is seen."""
    await yard.run_job(gpus=2)
    first = (await yard.submit(gpus=1)).job_id
    second = (await yard.submit(gpus=1)).job_id
    for _ in range(2):
        found = (await listed(yard, states=["queued"])).jobs
        assert [(job.job_id, job.position) for job in found] == [(second, 2), (first, 1)]
        assert {job.reason.tier for job in found if job.reason} == {"capacity"}
    await yard.jobs.hold_jobs(yard.user, first)
    await yard.tick()
    found = (await listed(yard, states=["queued"])).jobs
    assert [(job.job_id, job.held) for job in found] == [(second, False), (first, True)]
    await yard.jobs.stop_jobs(yard.user, second, None)
    found = (await listed(yard)).jobs
    assert {job.job_id: job.state for job in found}[second] == "stopped"


async def test_what_runs_is_shown_with_its_present_step(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    for step in (1, 7):
        yard.clock.advance(30)
        await yard.beat(job, progress={"step": step})
        assert [one.step for one in (await listed(yard)).jobs] == [step]


async def test_the_line_comes_in_order_of_start_page_by_page(yard: Yard) -> None:
    """Urgent before normal, pages by place, each job once, counts over all of them."""
    await yard.run_job(gpus=2)
    plain = [(await yard.submit(gpus=2)).job_id for _ in range(4)]
    urgent = (await yard.submit(gpus=2, priority="high")).job_id
    pages, before = [], None
    while True:
        page = await listed(yard, by_position=True, limit=2, before=before)
        pages.append([job.job_id for job in page.jobs])
        assert page.counts["queued"] == 5
        assert page.counts["running"] == 1
        if page.next is None:
            break
        before = int(page.next)
    assert pages == [[urgent, plain[0]], plain[1:3], plain[3:]]
    assert [job.position for job in (await listed(yard, by_position=True)).jobs] == [1, 2, 3, 4, 5]


async def test_what_only_someone_can_start_is_told_apart(yard: Yard) -> None:
    await yard.run_job(gpus=2)
    waits = (await yard.submit(gpus=1)).job_id
    held = (await yard.submit(gpus=1, hold=True)).job_id
    huge = (await yard.submit(gpus=64)).job_id
    stuck = await listed(yard, by_position=True, stuck=True)
    assert {job.job_id for job in stuck.jobs} == {held, huge}
    others = await listed(yard, by_position=True, stuck=False)
    assert [job.job_id for job in others.jobs] == [waits]


async def test_the_line_shows_a_team_its_own_jobs_alone(yard: Yard) -> None:
    await yard.run_job(gpus=2)
    mine = (await yard.submit(gpus=1, name="mine")).job_id
    other = await member(yard.directory, "bob", "rivals")
    found = await yard.jobs.listing(ListQuery(team_id=other.team_id, by_position=True))
    assert found.jobs == []
    assert found.counts["queued"] == 0
    named = await listed(yard, by_position=True, filters={"name": "mine"})
    assert [job.job_id for job in named.jobs] == [mine]
    assert (await listed(yard, by_position=True, filters={"name": "else"})).jobs == []


async def test_a_list_tells_the_foreseen_start_of_those_at_the_head(yard: Yard) -> None:
    await yard.run_job(gpus=2, time_limit_seconds=600)
    job = (await yard.submit(gpus=1, time_limit_seconds=60)).job_id
    assert (await listed(yard, by_position=True)).jobs[0].eta is None
    await listed(yard, by_position=True, with_eta=True)
    await yard.jobs._lists.foresight.close()
    for order in (True, False):
        found = await listed(yard, states=["queued"], by_position=order, with_eta=True)
        (shown,) = found.jobs
        assert shown.job_id == job
        assert shown.eta is not None
        assert shown.eta.latest_ms is not None
        assert shown.eta.latest_ms <= yard.clock.time_ms() + 600_000


async def test_what_ended_is_listed_by_its_end(yard: Yard) -> None:
    """A job submitted first and ended last stands first; pages follow without a gap."""
    first = (await yard.submit(gpus=1, hold=True)).job_id
    second = (await yard.submit(gpus=1, hold=True)).job_id
    waits = (await yard.submit(gpus=1, hold=True)).job_id
    for job in (second, first):
        await yard.jobs.stop_jobs(yard.user, job, 0)
        yard.clock.advance(5)
    found = await listed(yard, by_end=True)
    assert [job.job_id for job in found.jobs] == [first, second]
    page = await listed(yard, by_end=True, limit=1)
    assert page.next is not None
    ended_ms, number = page.next.split("-")
    rest = await listed(yard, by_end=True, before_end=(int(ended_ms), int(number)))
    assert [job.job_id for job in rest.jobs] == [second]
    assert waits not in [job.job_id for job in found.jobs]
