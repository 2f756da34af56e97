"""The pages over time, and the pieces that are fetched when opened, by their addresses."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from ..core.files import Folder
from ..core.models import Question, Terminal
from ..errors import NotFound, OrchestratorError, StateError
from ..events import CheckOutput, EventKind, HandoffEvent, RunEvent
from ..pipeline.flow import Flow
from ..runs.flows import Flows
from ..runs.record import EventReader, is_run_id, session_name_of
from ..runs.recorder import read_state_of
from ..runs.report import course_of_run, detail_of, findings_of
from ..runs.screens import first_shown, read_cast, read_screen, roles_with_cast, screen_at
from ..runs.usage import usage_of_turns
from ..runs.view import RunView, list_runs, read_run, view_run
from ..settings.layout import config_folder, run_folder, runs_folder
from ..show.markup import Markup, joined, screen_lines, tag
from ..show.turn import turn_html
from ..usage.tokens import NONE_USED
from .all_runs import all_runs, done_first, older_runs
from .new_run import new_run
from .one_agent import (
    OWN_TURN,
    SCROLLBACK_LINES,
    AgentSeen,
    one_agent,
    replay_html,
    scrollback_html,
)
from .one_run import GONE, NOT_READABLE, one_run, with_notice
from .stream import Listening, PageContext, beside
from .words import HOME, Page, RunOnPage, agent_path, quoted, run_path, run_tokens

RENEW_SECONDS = 20.0
"""After which all runs are read anew, and the times in their list written anew."""
ASKED_SECONDS = 0.5
"""Between two looks whether an agent that asks has drawn its question anew."""
MOST_FLOW_FOLDERS = 5
MOST_KEPT = 500
Moment = tuple[float | None, int, str]
"""The end of a run, its round and role: its tokens are counted once for each."""


class RunList:
    def __init__(self, state_folder: Path) -> None:
        self._state_folder = state_folder
        self._known: dict[str, tuple[int, RunView]] = {}
        self._read = 0.0

    def look(self, now: float) -> list[RunView]:
        if now - self._read > RENEW_SECONDS:
            # They depend on other files, too: a state file that is gone.
            self._known, self._read = {}, now
        changed = runs_folder(self._state_folder).changed()
        before, self._known = self._known, {}
        for name in filter(is_run_id, changed):
            at, run = before.get(name, (0, None))
            # Something else with the name of a run, or one that was just removed.
            with suppress(OSError):
                if run is None or run.is_live or at != changed[name]:
                    run = read_run(run_folder(self._state_folder, name))
                self._known[name] = changed[name], run
        runs = (run for _, run in self._known.values())
        return sorted(runs, key=lambda run: (run.started, run.id), reverse=True)


async def follow_runs(context: PageContext) -> AsyncGenerator[Page, None]:
    runs, counted = RunList(context.state_folder), Counted(context.state_folder)
    async with context.news.of() as listening, beside(counted.count(listening)):
        while await listening.is_due(max(context.look_seconds, RENEW_SECONDS)):
            now = context.clock.now()
            found = await asyncio.to_thread(runs.look, now)
            shown, older = done_first(found, now)
            rows = []
            for run in shown:
                asker = run.terminals.get(run.asking, "") if run.is_live else ""
                asked = question_of(context, asker)
                rows.append(RunOnPage(run, asked=asked, tokens=counted.of(run)))
            yield all_runs(rows, len(older), now)


async def start_run(context: PageContext) -> AsyncGenerator[Page, None]:
    def read() -> Page:
        runs = list_runs(context.state_folder)
        folders = [*dict.fromkeys(run.project or run.wd for run in runs if run.is_readable)]
        own = config_folder(context.environ)
        # The flows of the package, of the user, and of the projects worked on last.
        flows: dict[str, Flow] = {}
        for folder in folders[:MOST_FLOW_FOLDERS] or [str(own)]:
            with suppress(OrchestratorError, OSError):
                for one in Flows(Path(folder), own).all():
                    if one.flow is not None:
                        flows.setdefault(one.flow.name, one.flow)
        return new_run(folders, [*flows.values()], context.agents())

    yield await asyncio.to_thread(read)
    await context.news.over.wait()


class RunReader:
    """Reads a run again and again, but each event only once; for one thread at a time."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._reader = EventReader(folder)
        self._events: list[RunEvent] = []

    def read(self) -> RunView:
        self._events += filter(_tells, self._reader.read())
        return view_run(self.folder, self._events)

    def page(self) -> RunOnPage:
        run = self.read()
        saved = read_state_of(self.folder)
        return RunOnPage(run, course_of_run(run, saved), findings_of(self.folder, run, saved))

    def agent(self, role: str) -> AgentSeen:
        run = self.read()
        last = max((turn.sequence for turn in run.done_turns if turn.role == role), default=0)
        return AgentSeen(
            run,
            role,
            screen=(read_screen(self.folder, last, role) or "") if last else "",
            is_recorded=role in roles_with_cast(self.folder),
            last_turn=last,
        )


def _tells(event: RunEvent) -> bool:
    """Does an event belong to the story? Most only say what an agent or a gate does now."""
    if isinstance(event, HandoffEvent):
        return event.kind is EventKind.WAITING_FOR_PERSON
    return not isinstance(event, CheckOutput)


async def follow_run(context: PageContext, run: str) -> AsyncGenerator[Page, None]:
    reader = RunReader(run_folder(context.state_folder, run))
    page, shown, counted = Page(run, ()), QuestionOnPage(context), Counted(context.state_folder)
    async with (
        context.news.of(run) as listening,
        beside(shown.watch(listening)),
        beside(counted.count(listening)),
        beside(hear_agents(context, run, listening)),
    ):
        while await listening.is_due(context.look_seconds):
            try:
                found = await asyncio.to_thread(reader.page)
            except (OrchestratorError, OSError):
                names = await asyncio.to_thread(runs_folder(context.state_folder).names)
                page = with_notice(page, NOT_READABLE if run in names else GONE)
            else:
                terminals = agents_here(context, found.run)
                asker = terminals.get(found.run.asking) if found.run.is_live else None
                asked, tokens = shown.look(asker.id if asker else ""), counted.of(found.run)
                found = replace(found, terminals=terminals, asked=asked, tokens=tokens)
                page = one_run(found, context.clock.now())
            yield page


async def hear_agents(context: PageContext, run: str, listening: Listening) -> None:
    session = session_name_of(run)
    async with aclosing(context.terminals.subscribe()) as events:
        async for event in events:
            if event.session_name == session:
                listening.wake()


class QuestionOnPage:
    """The question that a page shows.

    Some agents draw a question in several steps without any event: a key for an earlier step is
    refused.
    """

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._shown: tuple[str, Question | None] = ("", None)

    def look(self, terminal_id: str) -> Question | None:
        asked = question_of(self._context, terminal_id)
        self._shown = (terminal_id, asked)
        return asked

    async def watch(self, listening: Listening) -> None:
        while True:
            await asyncio.sleep(ASKED_SECONDS)
            terminal_id, asked = self._shown
            if question_of(self._context, terminal_id) != asked:
                listening.wake()


def question_of(context: PageContext, terminal_id: str) -> Question | None:
    if terminal_id:
        with suppress(OrchestratorError):
            return context.terminals.question(terminal_id)
    return None


def agents_here(context: PageContext, run: RunView) -> dict[str, Terminal]:
    found = {}
    for role, terminal_id in run.terminals.items():
        with suppress(OrchestratorError):
            found[role] = context.terminals.terminal(terminal_id)
    return found


class Counted:
    """The tokens of the runs on a page, counted one after the other in the background."""

    def __init__(self, state_folder: Path) -> None:
        self._state_folder = state_folder
        self._wanted: asyncio.Queue[tuple[str, Moment]] = asyncio.Queue()
        self._asked: dict[str, Moment] = {}
        self._found: dict[str, Markup | None] = {}

    def of(self, run: RunView) -> Markup | None:
        """Return the tokens if they are known; if not, or if they changed, they are counted."""
        moment = (run.ended, run.round, run.role)
        if self._asked.get(run.id) != moment:
            self._asked[run.id] = moment
            self._wanted.put_nowait((run.id, moment))
        return self._found.get(run.id)

    async def count(self, listening: Listening) -> None:
        while True:
            run, moment = await self._wanted.get()
            tokens = await asyncio.to_thread(count_tokens, self._state_folder, run, moment)
            if self._found.get(run) != tokens:
                self._found[run] = tokens
                listening.wake()


@lru_cache(maxsize=MOST_KEPT)
def count_tokens(state_folder: Path, run: str, moment: Moment) -> Markup | None:
    folder = run_folder(state_folder, run)
    try:
        turns = [turn for turn in view_run(folder).turns if not turn.is_gate]
    except (OSError, StateError):
        return None
    ended, _, _ = moment
    found = usage_of_turns(folder, turns, ended)
    is_whole = all(turn.sequence in found for turn in turns if turn.outcome)
    return run_tokens(sum(found.values(), NONE_USED), is_whole=is_whole) if found else None


class _Screen:
    def __init__(self) -> None:
        self.text = ""
        self._terminal_id = ""
        self._changed = asyncio.Event()

    def turn_to(self, terminal_id: str) -> None:
        if terminal_id != self._terminal_id:
            self._terminal_id, self.text = terminal_id, ""
            self._changed.set()

    async def watch(self, context: PageContext, listening: Listening) -> None:
        async def show() -> None:
            with suppress(OrchestratorError):
                async with aclosing(context.terminals.watch_screen(self._terminal_id)) as screens:
                    async for text in screens:
                        self.text = text
                        listening.wake()

        while True:
            self._changed.clear()
            async with beside(show()):
                await self._changed.wait()


async def follow_agent(context: PageContext, run: str, role: str) -> AsyncGenerator[Page, None]:
    reader = RunReader(run_folder(context.state_folder, run))
    page, screen, shown = Page(run, ()), _Screen(), QuestionOnPage(context)
    async with (
        context.news.of(run) as listening,
        beside(hear_agents(context, run, listening)),
        beside(screen.watch(context, listening)),
        beside(shown.watch(listening)),
    ):
        while await listening.is_due(context.look_seconds):
            try:
                seen = await asyncio.to_thread(reader.agent, role)
            except (OrchestratorError, OSError):
                page = with_notice(page, GONE)
            else:
                terminal = agents_here(context, seen.run).get(role)
                here = terminal.id if terminal is not None else ""
                screen.turn_to(here)
                asked = shown.look(here)
                if terminal is not None:
                    seen = replace(seen, terminal=terminal, screen=screen.text, asked=asked)
                    with suppress(OrchestratorError):
                        seen = replace(seen, explanation=context.terminals.explain(here))
                page = one_agent(seen, context.clock.now())
            yield page


LONGEST_NUMBER = 9


def watched(path: str, context: PageContext) -> AsyncGenerator[Page, None]:
    match _words(path):
        case []:
            return follow_runs(context)
        case ["new"]:
            return start_run(context)
        case ["runs", run]:
            _known_run(context, run)
            return follow_run(context, run)
        case ["runs", run, "agents", role]:
            known = read_run(_known_run(context, run)).providers
            if role not in known:
                raise NotFound("agent", role, known)
            return follow_agent(context, run, role)
    raise NotFound("page", path, (HOME,))


async def fragment(path: str, context: PageContext) -> Markup:
    match _words(path):
        case ["older"]:
            now = context.clock.now()
            runs = await asyncio.to_thread(list_runs, context.state_folder)
            _, older = done_first(runs, now)
            return older_runs([RunOnPage(run) for run in older], now)
        case ["runs", run, "turns", number]:
            # On the agent's own page no link leads there.
            is_own = urlsplit(path).query == OWN_TURN
            return await asyncio.to_thread(_turn, context, run, _number(number), is_own)
        case ["runs", run, "agents", role, "scrollback"]:
            folder = _known_run(context, run)
            known = (await asyncio.to_thread(read_run, folder)).terminals
            if role not in known:
                raise NotFound("agent", role, known)
            return scrollback_html(
                await context.terminals.scrollback(known[role], SCROLLBACK_LINES)
            )
        case ["runs", run, "replay", role, *number] if len(number) <= 1:
            step = _number(number[0]) if number else None
            return await asyncio.to_thread(_replay, context, run, role, step)
    raise NotFound("piece of a page", path, ())


def _words(path: str) -> Sequence[str]:
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


def _known_run(context: PageContext, run: str) -> Folder:
    if not is_run_id(run) or run not in runs_folder(context.state_folder).names():
        raise NotFound("run", run, ())
    return run_folder(context.state_folder, run)


def _turn(context: PageContext, run: str, sequence: int, is_own: bool) -> Markup:
    folder = _known_run(context, run)
    detail = detail_of(folder, sequence, context.environ)
    shown = turn_html(detail, commentable=read_run(folder).is_live)
    if is_own or detail.turn.is_gate:
        return shown
    link = tag("a", f"The screen of {detail.turn.role}", href=agent_path(run, detail.turn.role))
    return joined((shown, tag("p", link, class_="muted")))


def _replay(context: PageContext, run: str, role: str, step: int | None) -> Markup:
    """Return a step of a recording; without a number, the first that shows something."""
    cast = read_cast(_known_run(context, run), role)
    if cast is None or not cast.frames:
        raise NotFound("recording", role, ())
    number = first_shown(cast) if step is None else min(step, len(cast.frames) - 1)
    path = f"{run_path(run)}/replay/{quoted(role)}"
    lines = screen_lines(screen_at(cast, number))
    return replay_html(lines, (number, len(cast.frames)), path, cast.frames[number].at)
