"""The pages over time: gathers what they show, and makes them again when it may have changed."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from cli_agent_orchestrator._internal.dashboard.page import House, Page, Part, Watched
from cli_agent_orchestrator._internal.html.markup import Markup, joined, tag
from cli_agent_orchestrator._internal.runs.records.registry import RunSummary, list_runs
from cli_agent_orchestrator.errors import NotFound

HOME = "/dashboard"
LOOK_SECONDS = 60.0


def watched(path: str, house: House) -> Watched:
    """Return the page at an address."""
    if path != HOME:
        raise NotFound("page", path[:100], [HOME])
    return AllRuns(house)


async def fragment(path: str, house: House) -> Markup:
    """Return what is fetched when it is opened."""
    raise NotFound("page", path[:100], [])


@dataclass(frozen=True, slots=True)
class AllRuns:
    """The runs, the newest first."""

    house: House

    async def pages(self) -> AsyncGenerator[Page, None]:
        async with self.house.news.of() as listening:
            while True:
                runs = await asyncio.to_thread(list_runs, self.house.state_folder)
                rows = joined(map(_row, runs))
                yield Page("Runs", (Part("runs", tag("ul", rows, id="runs")),))
                await listening.wait(LOOK_SECONDS)


def _row(run: RunSummary) -> Markup:
    return tag("li", f"{run.id} {run.words} {run.task}")
