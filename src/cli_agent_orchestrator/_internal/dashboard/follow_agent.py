"""The page of one agent over time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace

from cli_agent_orchestrator._internal.dashboard.follow_run import (
    QuestionOnPage,
    StoryReader,
    agents_here,
)
from cli_agent_orchestrator._internal.dashboard.news import Listening
from cli_agent_orchestrator._internal.dashboard.page import House, Page
from cli_agent_orchestrator._internal.dashboard.views.one_agent import AgentSeen, one_agent
from cli_agent_orchestrator._internal.dashboard.views.one_run import GONE, with_notice
from cli_agent_orchestrator._internal.dashboard.waking import beside, woken_by_agents
from cli_agent_orchestrator._internal.layout import run_folder
from cli_agent_orchestrator._internal.models import TerminalEvent
from cli_agent_orchestrator._internal.runs.records.replay import roles_with_cast
from cli_agent_orchestrator._internal.runs.records.run_id import session_name_of
from cli_agent_orchestrator._internal.runs.records.screens import read_screen
from cli_agent_orchestrator._internal.runs.reports.story import RunStory
from cli_agent_orchestrator.errors import OrchestratorError

LOOK_SECONDS = 5.0


@dataclass(slots=True)
class _Screen:
    """What a terminal shows, for as long as it is the agent's."""

    listening: Listening
    terminal_id: str = ""
    text: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when another terminal is to be watched."""

    def turn_to(self, terminal_id: str) -> None:
        if terminal_id != self.terminal_id:
            self.terminal_id, self.text = terminal_id, ""
            self.changed.set()

    async def watch(self, house: House) -> None:
        while True:
            self.changed.clear()
            async with beside(self._show(house, self.terminal_id)):
                await self.changed.wait()

    async def _show(self, house: House, terminal_id: str) -> None:
        if not terminal_id:
            return
        with suppress(OrchestratorError):
            async with aclosing(house.terminals.watch_screen(terminal_id)) as screens:
                async for text in screens:
                    self.text = text
                    self.listening.wake()


@dataclass(frozen=True, slots=True)
class FollowAgent:
    """The page of one agent."""

    house: House
    run: str
    """The id of its run."""
    role: str
    look_seconds: float = LOOK_SECONDS

    async def pages(self) -> AsyncGenerator[Page, None]:
        house, page = self.house, Page(self.run, ())
        reader = StoryReader(run_folder(house.state_folder, self.run))
        async with house.news.of(self.run) as listening:
            screen, shown = _Screen(listening), QuestionOnPage()
            async with (
                woken_by_agents(listening, house.terminals, self._is_ours),
                beside(screen.watch(house)),
                beside(shown.watch(house, listening)),
            ):
                is_last = False
                while not is_last:
                    is_last = listening.is_last
                    try:
                        story = await asyncio.to_thread(reader.read)
                        seen = await self._seen(story, screen, shown)
                    except (OrchestratorError, OSError):
                        page = with_notice(page, GONE)
                    else:
                        page = one_agent(seen, house.clock.now())
                    yield page
                    await listening.wait(self.look_seconds)

    def _is_ours(self, event: TerminalEvent) -> bool:
        return event.session_name == session_name_of(self.run)

    async def _seen(self, story: RunStory, screen: _Screen, shown: QuestionOnPage) -> AgentSeen:
        terminal = agents_here(self.house, story.summary).get(self.role)
        screen.turn_to(terminal.id if terminal is not None else "")
        kept = await asyncio.to_thread(self._kept, story)
        asked = shown.look(self.house, terminal)
        if terminal is None:
            return kept
        explanation = None
        with suppress(OrchestratorError):
            explanation = self.house.terminals.explain(terminal.id)
        return replace(
            kept,
            terminal=terminal,
            screen=screen.text,
            explanation=explanation,
            asked=asked,
        )

    def _kept(self, story: RunStory) -> AgentSeen:
        """Return what can be seen of an agent that is not here."""
        folder = run_folder(self.house.state_folder, self.run)
        turns = [turn.sequence for turn in story.turns if turn.role == self.role and turn.outcome]
        last = turns[-1] if turns else 0
        return AgentSeen(
            story.summary,
            self.role,
            screen=read_screen(folder, last, self.role) or "" if last else "",
            api=story.record.api,
            is_recorded=self.role in roles_with_cast(folder),
            last_turn=last,
        )
