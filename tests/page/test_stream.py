"""How often a tab is told something, whatever happens, and how soon."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from errno import EACCES

import pytest

from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.page.stream import updates
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


async def failing(error: Exception) -> AsyncGenerator[Page, None]:
    yield Page("", ())
    raise error


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


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (PermissionError(EACCES, "Permission denied", "/state/runs"), "Permission denied"),
        (NotFound("run", "x", []), "no run 'x'"),
    ],
)
async def test_a_page_that_cannot_go_on_says_why(error: Exception, why: str) -> None:
    first, last = [update async for update in updates(failing(error))]
    assert first == {"title": "", "parts": [], "gone": []}
    assert why in last["problem"]
