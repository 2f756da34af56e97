"""The page of one agent: its live screen, why it has its status, and its question."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ..core.models import Explanation, Question, Terminal
from ..core.text import age, short_line
from ..runs.view import RunView
from ..show.markup import Child, Markup, screen_lines, tag
from .words import (
    AGENT_LOOKS,
    ALL_RUNS,
    Page,
    Part,
    about,
    agent_badge,
    agent_path,
    badge,
    button,
    fetched,
    folded,
    form,
    key_buttons,
    name,
    question_html,
    quoted,
    run_path,
    section,
    text_area,
    way_back,
)

SCROLLBACK_LINES = 2000
LONGEST_DETAIL = 200
OWN_TURN = "own"
"""The query for a turn on the page of its agent."""
TO_AGENT = (
    "This goes straight to the agent, as if you typed it into its terminal. What it answers is "
    "no part of the run's own record."
)
ASKS = "It asks a question. Answer that first: what is typed now could answer it by accident."


class AgentSeen(Struct, frozen=True):
    run: RunView
    role: str
    terminal: Terminal | None = None
    """None if this server does not have it."""
    screen: str = ""
    """With colors; the last one if it is gone."""
    explanation: Explanation | None = None
    asked: Question | None = None
    is_recorded: bool = False
    last_turn: int = 0

    @property
    def is_elsewhere(self) -> bool:
        is_here = self.terminal is not None
        return not is_here and self.run.is_live and self.role in self.run.terminals

    @property
    def status(self) -> str:
        if self.terminal is None:
            return "not on this server" if self.is_elsewhere else "ended"
        if not self.terminal.alive:
            return "its program has ended"
        return AGENT_LOOKS[self.terminal.status][1]


def one_agent(seen: AgentSeen, now: float) -> Page:
    run = tag("a", short_line(seen.run.task_line, 60) or "The run", href=run_path(seen.run.id))
    main, side = tag("div", id="agent-main"), tag("div", id="agent-side", class_="side")
    parts = (
        way_back(ALL_RUNS, run),
        Part("agent-top", tag("div", id="agent-top")),
        Part("need-area", tag("div", id="need-area", role="status")),
        Part("frame", tag("div", main, side, id="frame", class_="agent-frame")),
        Part("head", _head(seen), "agent-top"),
        Part("need", _need(seen.asked, seen.terminal), "need-area"),
        Part("gone", _gone(seen), "agent-top"),
        *_screen(seen),
        *_below(seen),
        Part("why", _why(seen.explanation, now), "agent-side"),
    )
    return Page(f"{name(seen.role)}: {seen.status}", parts)


def scrollback_html(text: str) -> Markup:
    lines = _down_to_the_last(screen_lines(text)[-SCROLLBACK_LINES:])
    if not lines:
        return tag("p", "It has shown nothing yet.", class_="muted")
    return _box("scrollback-box", "What it has shown so far", lines)


def replay_html(lines: Sequence[Markup], place: tuple[int, int], path: str, at: float) -> Markup:
    number, count = place
    leap = max(2, count // 20)
    ways = (
        ("First", "The first step", 0),
        (f"−{leap}", f"Back {leap} steps", number - leap),
        ("−1", "Back 1 step", number - 1),
        ("+1", "On 1 step", number + 1),
        (f"+{leap}", f"On {leap} steps", number + leap),
        ("Last", "The last step", count - 1),
    )
    buttons = (
        button(
            words,
            "button-small",
            data_fragment=f"{path}/{min(max(to, 0), count - 1)}",
            disabled=not 0 <= to < count or to == number,
            aria_label=label,
        )
        for words, label, to in ways
    )
    told = f"Step {number + 1} of {count}, {at:.1f} s after its start"
    return tag(
        "div",
        tag("p", told, class_="muted"),
        tag("div", *buttons, class_="buttons"),
        _box("replay-box", "The agent's screen at this step", lines),
    )


def _head(seen: AgentSeen) -> Markup:
    terminal, run = seen.terminal, seen.run
    facts: list[Child] = [name(run.providers.get(seen.role, ""))]
    if terminal is not None:
        facts.append(tag("code", terminal.id))
        if terminal.permissions:
            facts.append(f"permissions: {name(terminal.permissions)}")
        if terminal.action and terminal.alive:
            action = short_line(terminal.action, LONGEST_DETAIL)
            facts.append(tag("span", action, class_="action"))
    if run.is_live and run.role == seen.role:
        facts.append(tag("span", "its turn now", class_="who"))
    status = badge("plain", seen.status) if terminal is None else agent_badge(terminal)
    return tag(
        "header",
        tag("h1", name(seen.role)),
        tag("p", status, class_="badges"),
        about(*facts),
        id="head",
        class_="run-head",
    )


def _need(asked: Question | None, terminal: Terminal | None) -> Markup:
    if asked is None or terminal is None:
        return tag("div", id="need", hidden=True)
    has_choices = bool(asked.choices)
    return tag(
        "div",
        tag("h2", "It asks you"),
        question_html(asked, terminal.id),
        folded("Other keys", key_buttons(asked, terminal.id), "more-keys") if has_choices else None,
        id="need",
        class_="card card-needs",
    )


def _gone(seen: AgentSeen) -> Markup:
    if seen.terminal is not None:
        return tag("p", id="gone", hidden=True)
    words = "This agent has ended."
    if seen.is_elsewhere:
        where = f" at {seen.run.api[:LONGEST_DETAIL]}" if seen.run.api else ""
        words = f"This agent is not on this server, but on the one{where} that its run uses."
    still = " Below is what it showed at the end of its last turn." if seen.screen else ""
    return tag("p", words, still, id="gone", class_="card card-quiet")


def _screen(seen: AgentSeen) -> Iterator[Part]:
    if seen.terminal is None and not seen.screen:
        return
    title = "Screen" if seen.terminal is not None else "Its last screen"
    frame = tag("div", tag("h2", title), _box("screen", title), id="screen-frame")
    yield Part("screen-frame", frame, "agent-main")
    for number, line in enumerate(_down_to_the_last(screen_lines(seen.screen))):
        html = tag("div", line, id=f"line-{number}", class_="line")
        yield Part(f"line-{number}", html, "screen")


def _down_to_the_last(lines: list[Markup]) -> list[Markup]:
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _box(number: str, label: str, lines: Iterable[Markup] = ()) -> Markup:
    inner = (tag("div", line, class_="line") for line in lines)
    return tag(
        "div", *inner, id=number, class_="screen", tabindex=0, role="region", aria_label=label
    )


def _below(seen: AgentSeen) -> Iterator[Part]:
    run, terminal = run_path(seen.run.id), seen.terminal
    offered = []
    if terminal is not None:
        path = f"{agent_path(seen.run.id, seen.role)}/scrollback"
        offered.append(("scrollback", "What it has shown so far", path))
    if seen.is_recorded:
        path = f"{run}/replay/{quoted(seen.role)}"
        offered.append(("replay", "Replay its screen from the start", path))
    if seen.last_turn:
        path = f"{run}/turns/{seen.last_turn}?{OWN_TURN}"
        offered.append(("last-turn", f"Its last turn ({seen.last_turn})", path))
    for number, words, path in offered:
        yield Part(number, fetched(number, words, path), "agent-main")
    if terminal is not None and terminal.alive:
        form = _message_form(seen.role, terminal.id, is_asking=seen.asked is not None)
        yield Part("message", section("message", "Message", form), "agent-side")


def _message_form(role: str, terminal_id: str, *, is_asking: bool) -> Markup:
    return form(
        f"/terminals/{terminal_id}/input",
        "Send",
        tag("label", "Say something to it", for_="message-text"),
        text_area("message", "message", disabled=is_asking),
        tag("p", ASKS if is_asking else TO_AGENT, id="message-note", class_="muted"),
        disabled=is_asking,
        data_said=f"Sent to the {name(role)}.",
    )


def _why(explanation: Explanation | None, now: float) -> Markup:
    if explanation is None:
        return tag("div", id="why", hidden=True)
    told = []
    for one in explanation.evidence:
        says = AGENT_LOOKS[one.status][1] if one.status else "says nothing"
        when = "since before this server began" if one.found else f"{age(now - one.at)} ago"
        detail = tag("span", short_line(one.detail, LONGEST_DETAIL), class_="muted")
        told.append(tag("li", tag("b", name(one.source)), f" {says}, {when} ", detail))
    reason = explanation.reason[:LONGEST_DETAIL]
    why = tag("p", reason[:1].upper() + reason[1:])
    return section("why", "Why this status", why, tag("ul", *told, class_="told"))
