"""News of real run folders: told at once, to those who listen, and to nobody else."""

import asyncio
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace
from watchdog.observers.api import BaseObserver

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.events import RunEnded
from cli_agent_orchestrator.page.stream import Listening, News
from cli_agent_orchestrator.runs.record import RunRecord, write_record
from cli_agent_orchestrator.runs.recorder import EventLog
from cli_agent_orchestrator.settings.layout import run_folder

ONE, TWO, NEW = (f"20261115-08403{number}-k3f9" for number in (7, 8, 9))
LIMIT = 60.0
NEVER = 100 * LIMIT
CALM = 0.2
"""Nothing is told in this time, where nothing is to be told; a slow machine cannot fail by it."""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    for run in (ONE, TWO):
        make_run(tmp_path, run)
    return tmp_path


def make_run(state: Path, run: str) -> Folder:
    folder = run_folder(state, run)
    folder.make()
    record = RunRecord(run, "/p", "/p/state.json", "do it", "do it", 1.0)
    write_record(folder, replace(record, id=run))
    return folder


def happen(state: Path, run: str) -> None:
    log = EventLog(run_folder(state, run))
    log.append(RunEnded(1.0, "PASS", 1, 0))
    log.close()


async def told(listening: Listening) -> None:
    """Return when there are news; fail if there are none."""
    assert await listening.wait(LIMIT)


async def is_told(listening: Listening) -> bool:
    return await listening.wait(CALM)


async def test_who_listens_is_told_what_happens_in_a_run(state: Path) -> None:
    news = News(state)
    async with news.of(ONE) as one, news.of(TWO) as two, news.of() as both:
        happen(state, ONE)
        await told(one)
        await told(both)
        assert not await is_told(two)
        write_record(run_folder(state, TWO), RunRecord(TWO, "/q", "/q/s", "", "", 1.0))
        await told(two)
        await told(both)


async def test_nobody_waits_for_the_next_look_to_be_told(state: Path) -> None:
    happen(state, ONE)
    news = News(state, look_seconds=NEVER)
    with run_folder(state, ONE).locked():
        async with news.of() as everybody:
            happen(state, ONE)
            await told(everybody)
            make_run(state, NEW)
            await told(everybody)


async def test_a_run_that_has_ended_is_not_asked_again_whether_it_lives(state: Path) -> None:
    with run_folder(state, ONE).locked():
        pass
    news = News(state, look_seconds=0.01)
    async with news.of() as everybody:
        with run_folder(state, ONE).locked():
            assert not await is_told(everybody)


async def test_no_task_and_no_watch_is_left_when_nobody_listens(state: Path) -> None:
    earlier = {*asyncio.all_tasks(), *threading.enumerate()}  # they may be about to end

    def under_way() -> tuple[int, int]:
        """Return how many new tasks there are, and how many new threads that watch folders."""
        news = {*threading.enumerate()} - earlier
        tasks = asyncio.all_tasks() - earlier
        return len(tasks), sum(isinstance(one, BaseObserver) for one in news)

    async def listen() -> None:
        async with news.of(ONE) as listening:
            await listening.wait(LIMIT)

    news = News(state)
    async with news.of():
        assert under_way() == (1, 1)
    tasks = [asyncio.create_task(listen()) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    async with asyncio.timeout(LIMIT):
        while under_way() != (0, 0):
            await asyncio.sleep(0.001)


async def test_other_names_are_no_runs(state: Path) -> None:
    news = News(state)
    async with news.of() as everybody:
        (state / "runs" / "notes.txt").write_text("x", encoding="utf-8")
        (state / "runs" / ".new-x").mkdir()
        assert not await is_told(everybody)
        (state / "runs" / NEW).symlink_to(state / "runs" / ONE)
        await told(everybody)
