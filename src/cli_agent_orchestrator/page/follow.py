"""Which page an address means: a view over time, or a piece of one that is fetched when opened."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..core.files import Folder
from ..core.models import Terminal, TerminalEvent
from ..errors import NotFound, OrchestratorError
from ..events import CheckOutput, EventKind, HandoffEvent, RunEvent
from ..runs.event_log import EventReader
from ..runs.flows import Flows
from ..runs.record import is_run_id, session_name_of
from ..runs.report import course_of_run, detail_of, findings_of
from ..runs.screens import first_shown, read_cast, read_screen, roles_with_cast, screen_at
from ..runs.state_file import read_state_of
from ..runs.view import RunView, list_runs, read_run, view_run
from ..settings.config import config_folder
from ..settings.layout import run_folder, runs_folder
from ..show.markup import Markup, joined, screen_lines, tag
from ..show.turn import turn_html
from .all_runs import RunRow, all_runs, done_first, older_runs
from .asking import AskedBy
from .context import Page, PageContext, Watched
from .new_run import FlowOffered, new_run
from .news import Listening, beside, counting_tokens, woken_by_agents
from .one_agent import (
    OWN_TURN,
    SCROLLBACK_LINES,
    AgentSeen,
    one_agent,
    replay_html,
    scrollback_html,
)
from .one_run import GONE, NOT_READABLE, RunOnPage, one_run, with_notice
from .words import HOME, agent_path, quoted, run_path

LOOK_SECONDS = 20.0
"""So often the ages of runs are written anew."""
MOST_FOLDERS = 5
"""Project folders whose flows are offered."""


class RunList:
    """All runs, read anew only where something has changed."""

    def __init__(self, state_folder: Path) -> None:
        self._state_folder = state_folder
        self._known: dict[str, tuple[int, RunView]] = {}
        self._read = 0.0

    def look(self, now: float) -> list[RunView]:
        """Return all runs, the newest first; for one thread at a time."""
        if now - self._read > LOOK_SECONDS:
            # What else they depend on may have changed: a state file that is gone.
            self._known, self._read = {}, now
        changed = runs_folder(self._state_folder).changed()
        known: dict[str, tuple[int, RunView]] = {}
        for name in filter(is_run_id, changed):
            before = self._known.get(name)
            if before is not None and before[0] == changed[name] and not before[1].is_live:
                known[name] = before
                continue
            # Something else that has the name of a run, or one that was just removed.
            with suppress(OSError):
                known[name] = changed[name], read_run(run_folder(self._state_folder, name))
        self._known = known
        runs = (run for _, run in known.values())
        return sorted(runs, key=lambda run: (run.started, run.id), reverse=True)


@dataclass(frozen=True, slots=True)
class FollowRuns:
    """The page of all runs."""

    context: PageContext
    look_seconds: float = LOOK_SECONDS

    async def pages(self) -> AsyncGenerator[Page, None]:
        context, runs = self.context, RunList(self.context.state_folder)
        async with (
            context.news.of() as listening,
            counting_tokens(context.state_folder, listening) as counted,
        ):
            is_last = False
            while not is_last:
                is_last = listening.is_last
                now = context.clock.now()
                found = await asyncio.to_thread(runs.look, now)
                shown, older = done_first(found, now)
                rows = [RunRow(run, self._question(run), counted.of(run)) for run in shown]
                yield all_runs(rows, len(older), now)
                await listening.wait(self.look_seconds)

    def _question(self, run: RunView) -> str:
        terminal = run.terminals.get(run.asking) if run.is_live else None
        if terminal is None:
            return ""
        with suppress(OrchestratorError):
            question = self.context.terminals.question(terminal)
            return question.text if question is not None else ""
        return ""


def older_fragment(context: PageContext) -> Markup:
    """Return the ended runs that the page does not show at once."""
    now = context.clock.now()
    _, older = done_first(list_runs(context.state_folder), now)
    return older_runs([RunRow(run) for run in older], now)


@dataclass(frozen=True, slots=True)
class StartRun:
    """The page that starts a run; it does not change while it is filled in."""

    context: PageContext

    async def pages(self) -> AsyncGenerator[Page, None]:
        yield await asyncio.to_thread(self._page)
        await self.context.news.over.wait()

    def _page(self) -> Page:
        runs = list_runs(self.context.state_folder)
        folders = [*dict.fromkeys(run.project or run.wd for run in runs if run.is_readable)]
        flows = _flows(folders, config_folder(self.context.environ))
        return new_run(folders, flows, self.context.agents())


def _flows(folders: Sequence[str], own: Path) -> list[FlowOffered]:
    """Return the flows of the package, of the user, and of the projects worked on last."""
    found: dict[str, FlowOffered] = {}
    for folder in folders[:MOST_FOLDERS] or [str(own)]:
        with suppress(OrchestratorError, OSError):
            for one in Flows(Path(folder), own).all():
                if one.flow is not None:
                    offered = FlowOffered(one.flow.name, one.flow.description)
                    found.setdefault(one.flow.name, offered)
    return [*found.values()]


class NoSuchRun(NotFound):
    """There is no run with this id; which ones there are, its own page says."""

    def __init__(self, run: str) -> None:
        super().__init__("run", run, ())
        self.args = (f"no run {run!r}",)


def check_run(context: PageContext, run: str) -> None:
    """Raise NotFound if there is no run with this id."""
    if not is_run_id(run) or run not in runs_folder(context.state_folder).names():
        raise NoSuchRun(run)


LOOK_SECONDS_FOLLOW_RUN = 5.0
"""So often times are written anew."""
ASKED_SECONDS = 0.5
"""So often it is looked whether an agent that asks has drawn its question anew."""


class RunReader:
    """Reads a run again and again; of its events only those that are new, and tell of it."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._reader = EventReader(folder)
        self._events: list[RunEvent] = []

    def read(self) -> RunView:
        """Return the run as it is now; for one thread at a time."""
        self._events += filter(_tells, self._reader.read())
        return view_run(self.folder, self._events)

    def page(self) -> RunOnPage:
        """Return the run with what is saved of it; for one thread at a time."""
        run = self.read()
        saved = read_state_of(self.folder)
        return RunOnPage(run, course_of_run(run, saved), findings_of(self.folder, run, saved))


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

    context: PageContext
    run: str
    """Its id."""
    look_seconds: float = LOOK_SECONDS_FOLLOW_RUN

    async def pages(self) -> AsyncGenerator[Page, None]:
        context, folder = self.context, run_folder(self.context.state_folder, self.run)
        reader, page, shown = RunReader(folder), Page(self.run, ()), QuestionOnPage()
        async with (
            context.news.of(self.run) as listening,
            beside(shown.watch(context, listening)),
            counting_tokens(context.state_folder, listening) as counted,
            woken_by_agents(listening, context.terminals, self._is_ours),
        ):
            is_last = False
            while not is_last:
                is_last = listening.is_last
                try:
                    found = await asyncio.to_thread(reader.page)
                except (OrchestratorError, OSError):
                    is_there = await asyncio.to_thread(self._is_there)
                    page = with_notice(page, NOT_READABLE if is_there else GONE)
                else:
                    terminals = agents_here(context, found.run)
                    asks = terminals.get(found.run.asking) if found.run.is_live else None
                    found = replace(
                        found,
                        terminals=terminals,
                        asked=shown.look(context, asks),
                        tokens=counted.of(found.run),
                    )
                    page = one_run(found, context.clock.now())
                yield page
                await listening.wait(self.look_seconds)

    def _is_ours(self, event: TerminalEvent) -> bool:
        return event.session_name == session_name_of(self.run)

    def _is_there(self) -> bool:
        return self.run in runs_folder(self.context.state_folder).names()


@dataclass(slots=True)
class QuestionOnPage:
    """What a page shows of what an agent asks.

    Some draw a question in several steps, and nobody tells of that: a key that is pressed for what
    it was before is refused.
    """

    terminal: Terminal | None = None
    """Who may ask."""
    asked: AskedBy | None = None

    def look(self, context: PageContext, terminal: Terminal | None) -> AskedBy | None:
        """Return what an agent asks now, for a page that shows it from now on."""
        self.terminal = terminal
        self.asked = None if terminal is None else question_of(context, terminal)
        return self.asked

    async def watch(self, context: PageContext, listening: Listening) -> None:
        """Wake the page whenever something else is asked than it shows."""
        while True:
            await asyncio.sleep(ASKED_SECONDS)
            if self.terminal is not None and question_of(context, self.terminal) != self.asked:
                listening.wake()


def question_of(context: PageContext, terminal: Terminal) -> AskedBy | None:
    """Return what an agent asks now."""
    with suppress(OrchestratorError):
        question = context.terminals.question(terminal.id)
        return None if question is None else AskedBy(terminal.id, question)
    return None


def agents_here(context: PageContext, run: RunView) -> dict[str, Terminal]:
    """Return the agents of a run that this server has, by role."""
    found = {}
    for role, terminal_id in run.terminals.items():
        with suppress(OrchestratorError):
            found[role] = context.terminals.terminal(terminal_id)
    return found


LOOK_SECONDS_FOLLOW_AGENT = 5.0


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

    async def watch(self, context: PageContext) -> None:
        while True:
            self.changed.clear()
            async with beside(self._show(context, self.terminal_id)):
                await self.changed.wait()

    async def _show(self, context: PageContext, terminal_id: str) -> None:
        if not terminal_id:
            return
        with suppress(OrchestratorError):
            async with aclosing(context.terminals.watch_screen(terminal_id)) as screens:
                async for text in screens:
                    self.text = text
                    self.listening.wake()


@dataclass(frozen=True, slots=True)
class FollowAgent:
    """The page of one agent."""

    context: PageContext
    run: str
    """The id of its run."""
    role: str
    look_seconds: float = LOOK_SECONDS_FOLLOW_AGENT

    async def pages(self) -> AsyncGenerator[Page, None]:
        context, page = self.context, Page(self.run, ())
        reader = RunReader(run_folder(context.state_folder, self.run))
        async with context.news.of(self.run) as listening:
            screen, shown = _Screen(listening), QuestionOnPage()
            async with (
                woken_by_agents(listening, context.terminals, self._is_ours),
                beside(screen.watch(context)),
                beside(shown.watch(context, listening)),
            ):
                is_last = False
                while not is_last:
                    is_last = listening.is_last
                    try:
                        run = await asyncio.to_thread(reader.read)
                        seen = await self._seen(run, screen, shown)
                    except (OrchestratorError, OSError):
                        page = with_notice(page, GONE)
                    else:
                        page = one_agent(seen, context.clock.now())
                    yield page
                    await listening.wait(self.look_seconds)

    def _is_ours(self, event: TerminalEvent) -> bool:
        return event.session_name == session_name_of(self.run)

    async def _seen(self, run: RunView, screen: _Screen, shown: QuestionOnPage) -> AgentSeen:
        terminal = agents_here(self.context, run).get(self.role)
        screen.turn_to(terminal.id if terminal is not None else "")
        kept = await asyncio.to_thread(self._kept, run)
        asked = shown.look(self.context, terminal)
        if terminal is None:
            return kept
        explanation = None
        with suppress(OrchestratorError):
            explanation = self.context.terminals.explain(terminal.id)
        return replace(
            kept,
            terminal=terminal,
            screen=screen.text,
            explanation=explanation,
            asked=asked,
        )

    def _kept(self, run: RunView) -> AgentSeen:
        """Return what can be seen of an agent that is not here."""
        folder = run_folder(self.context.state_folder, self.run)
        turns = [turn.sequence for turn in run.done_turns if turn.role == self.role]
        last = turns[-1] if turns else 0
        return AgentSeen(
            run,
            self.role,
            screen=read_screen(folder, last, self.role) or "" if last else "",
            api=run.api,
            is_recorded=self.role in roles_with_cast(folder),
            last_turn=last,
        )


LONGEST_NUMBER = 9
"""Digits of a number in an address."""


def watched(path: str, context: PageContext) -> Watched:
    """Return the view that a page's address means; raise NotFound if it means none."""
    match _words(path):
        case []:
            return FollowRuns(context)
        case ["new"]:
            return StartRun(context)
        case ["runs", run]:
            check_run(context, run)
            return FollowRun(context, run)
        case ["runs", run, "agents", role]:
            check_run(context, run)
            known = read_run(run_folder(context.state_folder, run)).providers
            if role not in known:
                raise NotFound("agent", role, known)
            return FollowAgent(context, run, role)
    raise NotFound("page", path, (HOME,))


async def fragment(path: str, context: PageContext) -> Markup:
    """Return a piece of a page that is fetched when it is opened; NotFound if there is none."""
    match _words(path):
        case ["older"]:
            return await asyncio.to_thread(older_fragment, context)
        case ["runs", run, "turns", number]:
            check_run(context, run)
            is_own = urlsplit(path).query == OWN_TURN
            return await asyncio.to_thread(_turn, context, run, _number(number), is_own)
        case ["runs", run, "agents", role, "scrollback"]:
            check_run(context, run)
            return await _scrollback(context, run, role)
        case ["runs", run, "replay", role, *number] if len(number) <= 1:
            check_run(context, run)
            step = _number(number[0]) if number else None
            return await asyncio.to_thread(_replay, context, (run, role), step)
    raise NotFound("piece of a page", path, ())


def _words(path: str) -> Sequence[str]:
    """Return the words of an address after that of all pages."""
    try:
        first, *words = urlsplit(path).path.strip("/").split("/")
    except ValueError:
        first, words = "", []
    if f"/{first}" != HOME:
        raise NotFound("page", path, (HOME,))
    return [unquote(word) for word in words]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER):
        raise NotFound("number", text, ())
    return int(text)


def _turn(context: PageContext, run: str, sequence: int, is_own: bool) -> Markup:
    """Return a turn, with the way to its agent unless it is on the agent's own page."""
    folder = run_folder(context.state_folder, run)
    detail = detail_of(folder, sequence, context.environ)
    shown = turn_html(detail, commentable=read_run(folder).is_live)
    if is_own or detail.turn.is_gate:
        return shown
    link = tag("a", f"The screen of {detail.turn.role}", href=agent_path(run, detail.turn.role))
    return joined((shown, tag("p", link, class_="muted")))


async def _scrollback(context: PageContext, run: str, role: str) -> Markup:
    known = (await asyncio.to_thread(read_run, run_folder(context.state_folder, run))).terminals
    if role not in known:
        raise NotFound("agent", role, known)
    return scrollback_html(await context.terminals.scrollback(known[role], SCROLLBACK_LINES))


def _replay(context: PageContext, agent: tuple[str, str], step: int | None) -> Markup:
    """Return a step of a recording; if none is named, the first that shows something."""
    run, role = agent
    folder: Folder = run_folder(context.state_folder, run)
    cast = read_cast(folder, role)
    if cast is None or not cast.frames:
        raise NotFound("recording", role, ())
    number = first_shown(cast) if step is None else min(step, len(cast.frames) - 1)
    path = f"{run_path(run)}/replay/{quoted(role)}"
    lines = screen_lines(screen_at(cast, number))
    return replay_html(lines, (number, len(cast.frames)), path, cast.frames[number].at)
