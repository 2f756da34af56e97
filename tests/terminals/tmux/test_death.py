"""The end of a process that is not ours to wait for, noticed by each of the ways."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cli_agent_orchestrator.terminals.tmux.observer import DeathWatch, open_process_watch

PATIENCE = 60.0


class Ends:
    """Remembers which processes have ended."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self._news = asyncio.Event()

    def add(self, key: str) -> None:
        self.keys.append(key)
        self._news.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.keys) < count:
                self._news.clear()
                await self._news.wait()


def no_descriptor(pid: int) -> int:
    raise OSError


@pytest.fixture
def ends() -> Ends:
    return Ends()


async def waiting_program() -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec("head", "-n1", stdin=pipe, stdout=pipe)


@pytest.fixture(params=[open_process_watch, no_descriptor])
async def watch(request: pytest.FixtureRequest, ends: Ends) -> AsyncIterator[DeathWatch]:
    watch = DeathWatch(ends.add, request.param)
    yield watch
    watch.close()


async def test_the_end_of_a_process_is_told_once(watch: DeathWatch, ends: Ends) -> None:
    first, second = await waiting_program(), await waiting_program()
    watch.watch("first", first.pid)
    watch.watch("second", second.pid)
    await second.communicate(b"\n")
    await ends.until(1)
    assert ends.keys == ["second"]
    await first.communicate(b"\n")
    await ends.until(2)
    assert ends.keys == ["second", "first"]


async def test_a_forgotten_process_is_not_told(watch: DeathWatch, ends: Ends) -> None:
    forgotten, watched, last = [await waiting_program() for _ in range(3)]
    watch.watch("forgotten", forgotten.pid)
    watch.watch("watched", watched.pid)
    watch.watch("last", last.pid)
    watch.forget("forgotten")
    watch.forget("never known")
    await forgotten.communicate(b"\n")
    await watched.communicate(b"\n")
    await ends.until(1)
    watch.close()
    watch.close()
    await last.communicate(b"\n")
    assert ends.keys == ["watched"]


async def test_a_process_that_is_gone_already_is_told_later(watch: DeathWatch, ends: Ends) -> None:
    process = await waiting_program()
    await process.communicate(b"\n")
    watch.watch("gone", process.pid)
    assert ends.keys == []
    await ends.until(1)
