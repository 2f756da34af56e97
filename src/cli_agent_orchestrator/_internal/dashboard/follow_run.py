"""The page of one run over time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass

from cli_agent_orchestrator._internal.dashboard.counting import counting_tokens
from cli_agent_orchestrator._internal.dashboard.news import Listening
from cli_agent_orchestrator._internal.dashboard.page import House, Page
from cli_agent_orchestrator._internal.dashboard.views.asking import AskedBy
from cli_agent_orchestrator._internal.dashboard.views.one_run import (
    GONE,
    NOT_READABLE,
    RunView,
    one_run,
    with_notice,
)
from cli_agent_orchestrator._internal.dashboard.views.words import RunTokens
from cli_agent_orchestrator._internal.dashboard.waking import beside, woken_by_agents
from cli_agent_orchestrator._internal.layout import run_folder, runs_folder
from cli_agent_orchestrator._internal.models import Terminal, TerminalEvent
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.records.event_log import EventReader
from cli_agent_orchestrator._internal.runs.records.registry import RunSummary
from cli_agent_orchestrator._internal.runs.records.run_id import session_name_of
from cli_agent_orchestrator._internal.runs.reports.story import RunStory, story_of
from cli_agent_orchestrator.errors import OrchestratorError
from cli_agent_orchestrator.events import CheckOutput, EventKind, HandoffEvent, RunEvent

LOOK_SECONDS = 5.0
"""So often times are written anew."""
ASKED_SECONDS = 0.5
"""So often it is looked whether an agent that asks has drawn its question anew."""


class StoryReader:
    """Reads a run again and again; of its events only those that are new, and tell of it."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._reader = EventReader(folder)
        self._events: list[RunEvent] = []

    def read(self) -> RunStory:
        """Return the run as it is now; for one thread at a time."""
        self._events += filter(_tells, self._reader.read())
        return story_of(self._folder, self._events)


def _tells(event: RunEvent) -> bool:
    """Does an event belong to the story? Most only say what an agent or a gate does just now."""
    match event:
        case HandoffEvent():
            return event.kind is EventKind.WAITING_FOR_PERSON
        case CheckOutput():
            return False
    return True


@dataclass(frozen=True, slots=True)
class FollowRun:
    """The page of one run."""

    house: House
    run: str
    """Its id."""
    look_seconds: float = LOOK_SECONDS

    async def pages(self) -> AsyncGenerator[Page, None]:
        house, folder = self.house, run_folder(self.house.state_folder, self.run)
        reader, page, shown = StoryReader(folder), Page(self.run, ()), QuestionOnPage()
        async with (
            house.news.of(self.run) as listening,
            beside(shown.watch(house, listening)),
            counting_tokens(house.state_folder, listening) as counted,
            woken_by_agents(listening, house.terminals, self._is_ours),
        ):
            is_last = False
            while not is_last:
                is_last = listening.is_last
                try:
                    story = await asyncio.to_thread(reader.read)
                except (OrchestratorError, OSError):
                    is_there = await asyncio.to_thread(self._is_there)
                    page = with_notice(page, NOT_READABLE if is_there else GONE)
                else:
                    tokens = counted.of(story.summary)
                    page = one_run(self._view(story, tokens, shown), house.clock.now())
                yield page
                await listening.wait(self.look_seconds)

    def _is_ours(self, event: TerminalEvent) -> bool:
        return event.session_name == session_name_of(self.run)

    def _is_there(self) -> bool:
        return self.run in runs_folder(self.house.state_folder).names()

    def _view(self, story: RunStory, tokens: RunTokens | None, shown: "QuestionOnPage") -> RunView:
        run = story.summary
        terminals = agents_here(self.house, run)
        asks = terminals.get(run.asking) if run.is_live else None
        return RunView(story, terminals, shown.look(self.house, asks), tokens)


@dataclass(slots=True)
class QuestionOnPage:
    """What a page shows of what an agent asks.

    Some draw a question in several steps, and nobody tells of that: a key that is pressed for what
    it was before is refused.
    """

    terminal: Terminal | None = None
    """Who may ask."""
    asked: AskedBy | None = None

    def look(self, house: House, terminal: Terminal | None) -> AskedBy | None:
        """Return what an agent asks now, for a page that shows it from now on."""
        self.terminal = terminal
        self.asked = None if terminal is None else question_of(house, terminal)
        return self.asked

    async def watch(self, house: House, listening: Listening) -> None:
        """Wake the page whenever something else is asked than it shows."""
        while True:
            await asyncio.sleep(ASKED_SECONDS)
            if self.terminal is not None and question_of(house, self.terminal) != self.asked:
                listening.wake()


def question_of(house: House, terminal: Terminal) -> AskedBy | None:
    """Return what an agent asks now."""
    with suppress(OrchestratorError):
        question = house.terminals.question(terminal.id)
        return None if question is None else AskedBy(terminal.id, question)
    return None


def agents_here(house: House, run: RunSummary) -> dict[str, Terminal]:
    """Return the agents of a run that this server has, by role."""
    found = {}
    for role, terminal_id in run.terminals.items():
        with suppress(OrchestratorError):
            found[role] = house.terminals.terminal(terminal_id)
    return found
