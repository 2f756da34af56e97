"""Which page an address means: a view over time, or a piece of one that is fetched when opened."""

import asyncio
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from cli_agent_orchestrator._internal.dashboard.follow_agent import FollowAgent
from cli_agent_orchestrator._internal.dashboard.follow_run import FollowRun
from cli_agent_orchestrator._internal.dashboard.follow_runs import (
    FollowRuns,
    StartRun,
    check_run,
    older_fragment,
)
from cli_agent_orchestrator._internal.dashboard.page import House, Watched
from cli_agent_orchestrator._internal.dashboard.views.one_agent import (
    OWN_TURN,
    SCROLLBACK_LINES,
    replay_html,
    scrollback_html,
)
from cli_agent_orchestrator._internal.dashboard.views.words import (
    HOME,
    agent_path,
    quoted,
    run_path,
)
from cli_agent_orchestrator._internal.html.markup import Markup, joined, tag
from cli_agent_orchestrator._internal.html.screen import screen_lines
from cli_agent_orchestrator._internal.html.turn import turn_html
from cli_agent_orchestrator._internal.layout import run_folder
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.records.journal import COMMAND
from cli_agent_orchestrator._internal.runs.records.registry import summary_of
from cli_agent_orchestrator._internal.runs.records.replay import first_shown, read_cast, screen_at
from cli_agent_orchestrator._internal.runs.reports.story import detail_of
from cli_agent_orchestrator.errors import NotFound

LONGEST_NUMBER = 9
"""Digits of a number in an address."""


def watched(path: str, house: House) -> Watched:
    """Return the view that a page's address means; raise NotFound if it means none."""
    match _words(path):
        case []:
            return FollowRuns(house)
        case ["new"]:
            return StartRun(house)
        case ["runs", run]:
            check_run(house, run)
            return FollowRun(house, run)
        case ["runs", run, "agents", role]:
            check_run(house, run)
            known = summary_of(run_folder(house.state_folder, run)).providers
            if role not in known:
                raise NotFound("agent", role, known)
            return FollowAgent(house, run, role)
    raise NotFound("page", path, (HOME,))


async def fragment(path: str, house: House) -> Markup:
    """Return a piece of a page that is fetched when it is opened; NotFound if there is none."""
    match _words(path):
        case ["older"]:
            return await asyncio.to_thread(older_fragment, house)
        case ["runs", run, "turns", number]:
            check_run(house, run)
            is_own = urlsplit(path).query == OWN_TURN
            return await asyncio.to_thread(_turn, house, run, _number(number), is_own)
        case ["runs", run, "agents", role, "scrollback"]:
            check_run(house, run)
            return await _scrollback(house, run, role)
        case ["runs", run, "replay", role, *number] if len(number) <= 1:
            check_run(house, run)
            step = _number(number[0]) if number else None
            return await asyncio.to_thread(_replay, house, (run, role), step)
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


def _turn(house: House, run: str, sequence: int, is_own: bool) -> Markup:
    """Return a turn, with the way to its agent unless it is on the agent's own page."""
    folder = run_folder(house.state_folder, run)
    detail = detail_of(folder, sequence, house.environ)
    shown = turn_html(detail, commentable=summary_of(folder).is_live)
    if is_own or detail.turn.provider == COMMAND:
        return shown
    link = tag("a", f"The screen of {detail.turn.role}", href=agent_path(run, detail.turn.role))
    return joined((shown, tag("p", link, class_="muted")))


async def _scrollback(house: House, run: str, role: str) -> Markup:
    known = (await asyncio.to_thread(summary_of, run_folder(house.state_folder, run))).terminals
    if role not in known:
        raise NotFound("agent", role, known)
    return scrollback_html(await house.terminals.scrollback(known[role], SCROLLBACK_LINES))


def _replay(house: House, agent: tuple[str, str], step: int | None) -> Markup:
    """Return a step of a recording; if none is named, the first that shows something."""
    run, role = agent
    folder: Folder = run_folder(house.state_folder, run)
    cast = read_cast(folder, role)
    if cast is None or not cast.frames:
        raise NotFound("recording", role, ())
    number = first_shown(cast) if step is None else min(step, len(cast.frames) - 1)
    path = f"{run_path(run)}/replay/{quoted(role)}"
    lines = screen_lines(screen_at(cast, number))
    return replay_html(lines, (number, len(cast.frames)), path, cast.frames[number].at)
