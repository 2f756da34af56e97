"""How many tokens a run took: counted in a thread, since its agents' records may be long."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path

from cli_agent_orchestrator._internal.dashboard.news import Listening
from cli_agent_orchestrator._internal.dashboard.views.words import RunTokens
from cli_agent_orchestrator._internal.dashboard.waking import beside
from cli_agent_orchestrator._internal.layout import run_folder
from cli_agent_orchestrator._internal.runs.records.event_log import read_events
from cli_agent_orchestrator._internal.runs.records.journal import COMMAND
from cli_agent_orchestrator._internal.runs.records.registry import RunSummary
from cli_agent_orchestrator._internal.runs.records.turns import turns_of
from cli_agent_orchestrator._internal.runs.records.usage import usage_of_turns
from cli_agent_orchestrator._internal.usage.tokens import NONE_USED

MOST_KEPT = 500
"""Runs whose tokens are kept in mind."""
Moment = tuple[float | None, int, str]
"""When a run ended, its round, and who works: when its tokens were counted."""


@lru_cache(maxsize=MOST_KEPT)
def count_tokens(state_folder: Path, run: str, moment: Moment) -> RunTokens | None:
    """Return what the agents of a run took, counted once for each moment of it."""
    folder = run_folder(state_folder, run)
    try:
        turns = [turn for turn in turns_of(read_events(folder)) if turn.provider != COMMAND]
    except OSError:
        return None
    ended, _, _ = moment
    found = usage_of_turns(folder, turns, ended)
    is_whole = all(turn.sequence in found for turn in turns if turn.outcome)
    return RunTokens(sum(found.values(), NONE_USED), is_whole) if found else None


class Counted:
    """The tokens of the runs that a page shows, counted one after the other; nobody waits."""

    def __init__(self) -> None:
        self._wanted: asyncio.Queue[RunSummary] = asyncio.Queue()
        self._asked: dict[str, Moment] = {}
        self._found: dict[str, RunTokens | None] = {}

    def of(self, run: RunSummary) -> RunTokens | None:
        """Return what is known of a run; what is not, or has changed since, is counted soon."""
        if self._asked.get(run.id) != _moment_of(run):
            self._asked[run.id] = _moment_of(run)
            self._wanted.put_nowait(run)
        return self._found.get(run.id)

    async def count(self, state_folder: Path, listening: Listening) -> None:
        """Count what is asked for, and wake who listens when that changes something."""
        while True:
            run = await self._wanted.get()
            tokens = await asyncio.to_thread(count_tokens, state_folder, run.id, _moment_of(run))
            if self._found.get(run.id) != tokens:
                self._found[run.id] = tokens
                listening.wake()


@asynccontextmanager
async def counting_tokens(
    state_folder: Path, listening: Listening
) -> AsyncGenerator[Counted, None]:
    """Count tokens for as long as a page is looked at."""
    counted = Counted()
    async with beside(counted.count(state_folder, listening)):
        yield counted


def _moment_of(run: RunSummary) -> Moment:
    """Return what is other when the tokens of a run are to be counted anew."""
    return (run.ended, run.round, run.role)
