"""How often a tab is told something, whatever happens, and how soon."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from errno import EACCES

from cli_agent_orchestrator.page.stream import SharedPages, updates
from cli_agent_orchestrator.page.words import Page, Part
from cli_agent_orchestrator.show.markup import tag
from tests.virtual_time import run_at_once

SECOND = 1.0
MOST, LEAST = 20, 10
"""Updates in a second in which something happens all the time."""

FAR_TOO_MANY = 1000


class Restless:
    """A page on which something happens all the time."""

    def __init__(self) -> None:
        self.made = 0

    async def pages(self) -> AsyncGenerator[Page, None]:
        while True:
            self.made += 1
            assert self.made < FAR_TOO_MANY, "it is made without a pause"
            yield Page("", (Part("p", tag("p", str(self.made), id="p")),))
            await asyncio.sleep(0)


async def unreadable() -> AsyncGenerator[Page, None]:
    """Yield a page whose files nobody may read any more."""
    yield Page("", ())
    raise PermissionError(EACCES, "Permission denied", "/state/runs")


async def told_in_a_second(pages: AsyncGenerator[Page, None]) -> list[float]:
    """Return when a tab was told something."""
    loop, told = asyncio.get_running_loop(), []
    async with aclosing(updates(pages)) as sent:
        async for _ in sent:
            if loop.time() > SECOND:
                break
            told.append(loop.time())
    return told


def test_a_tab_is_told_at_once_and_then_so_often_that_it_can_follow() -> None:
    page = Restless()
    told = run_at_once(lambda: told_in_a_second(page.pages()))
    assert told[0] == 0.0
    assert LEAST <= len(told) <= MOST + 1
    assert page.made <= MOST + 2


async def test_a_page_whose_files_cannot_be_read_says_why() -> None:
    first, last = [update async for update in updates(unreadable())]
    assert first == {"title": "", "parts": [], "gone": []}
    assert "Permission denied" in last["problem"]


def test_a_page_that_many_look_at_is_not_made_more_often() -> None:
    page, shared = Restless(), SharedPages()

    async def look() -> list[list[float]]:
        tabs = [shared.of("/", page.pages) for _ in range(5)]
        return await asyncio.gather(*map(told_in_a_second, tabs))

    told = run_at_once(look)
    assert {len(one) >= LEAST for one in told} == {True}
    assert LEAST <= page.made <= MOST + 2
