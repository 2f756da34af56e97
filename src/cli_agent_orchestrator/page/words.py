"""What all pages say in the same way: times, tokens, statuses, links, questions."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from msgspec import Struct, field

from ..core.models import Question, Terminal, TerminalStatus, Tokens
from ..core.text import age, duration, short_line
from ..events import PROOF
from ..pipeline.flow import Planned
from ..pipeline.review import Findings
from ..runs.view import RunView
from ..show import turn as outcome
from ..show.markup import Attribute, Child, Markup, joined, tag
from ..show.turn import OutcomeLook, tokens_words

HOME = "/dashboard"
NEW_RUN = "/dashboard/new"
LONGEST_NAME = 60
DOT = " · "
LOADING = tag("p", "Loading …", class_="muted")
ALL_RUNS = tag("a", "All runs", href=HOME)

AGENT_LOOKS = {
    TerminalStatus.UNKNOWN: ("plain", "not known"),
    TerminalStatus.IDLE: ("plain", "at rest"),
    TerminalStatus.PROCESSING: ("now", "working"),
    TerminalStatus.COMPLETED: ("plain", "at rest"),
    TerminalStatus.WAITING_USER_ANSWER: ("needs", "asks you"),
    TerminalStatus.ERROR: ("bad", "error"),
}
MARKS = {"needs": "!", "now": "…", "good": "✓", "bad": "✗", "warn": "!", "plain": "●"}
"""By tone: one character before the words."""


class Part(Struct, frozen=True):
    """A piece of a page that changes as a whole."""

    id: str
    html: Markup
    """One element that has this id."""
    into: str = "main"


class Page(Struct, frozen=True):
    title: str
    parts: tuple[Part, ...]
    """In the order of the page; one that holds others comes before them."""


class RunOnPage(Struct, frozen=True):
    run: RunView
    course: tuple[Planned, ...] = ()
    """The stages of its flow with its gates and the proof; empty if that is not known."""
    findings: Mapping[str, Findings] = field(default_factory=dict)
    terminals: Mapping[str, Terminal] = field(default_factory=dict)
    asked: Question | None = None
    tokens: Markup | None = None


def quoted(word: str) -> str:
    return quote(word, safe="", errors="replace")


def run_path(run: str) -> str:
    return f"{HOME}/runs/{quoted(run)}"


def agent_path(run: str, role: str) -> str:
    return f"{run_path(run)}/agents/{quoted(role)}"


def name(text: str) -> str:
    return short_line(text, LONGEST_NAME)


def moment(at: float, words: str) -> Markup:
    when = datetime.fromtimestamp(at, UTC)
    return tag("time", words, datetime=when.isoformat(), title=f"{when:%Y-%m-%d %H:%M:%S} UTC")


def time_of(run: RunView, now: float) -> Markup:
    if run.ended is not None:
        took = duration(run.spent(run.ended))
        return moment(run.ended, f"{age(now - run.ended)} ago, took {took}")
    if run.is_live:
        return moment(run.started, age(run.spent(now)))
    return moment(run.started, f"began {age(now - run.started)} ago")


def round_of(run: RunView) -> str:
    most = f" of {run.max_rounds}" if run.max_rounds else ""
    return f"round {run.round}{most}" if run.round else ""


def amount(count: int) -> str:
    """Return a number of tokens in three digits or so.

    >>> amount(950), amount(48_200), amount(3_100_000)
    ('950', '48k', '3.1M')
    """
    if count >= 1_000_000:
        return f"{count / 1_000_000:.1f}M"
    return f"{count // 1000}k" if count >= 10_000 else str(count)


def run_tokens(used: Tokens, *, is_whole: bool) -> Markup:
    """Return the tokens of a run; `is_whole`: are they known of all its agents?"""
    least = "" if is_whole else "at least "
    words = f"{least}{amount(used.input)} in, {amount(used.output)} out"
    return tag("span", words, title=f"Tokens: {tokens_words(used)}")


def with_code(text: str) -> Markup:
    """Return a text in which what stands between backticks is code.

    >>> with_code("see `cao runs`")
    'see <code>cao runs</code>'
    """
    pieces = text.split("`")
    # The last of an odd number of backticks stands for itself.
    if len(pieces) % 2 == 0:
        pieces[-2:] = ["`".join(pieces[-2:])]
    return joined(tag("code", one) if odd % 2 else one for odd, one in enumerate(pieces))


def at_work(run: RunView) -> Markup:
    is_gate = bool(run.providers) and run.role not in run.providers
    gate = "the proof" if run.role == PROOF else f"gate {name(run.role)}"
    words = f"{gate} runs" if is_gate else f"{name(run.role)} works"
    return tag("span", words, class_="who")


def badge(tone: str, words: str) -> Markup:
    return outcome.badge(OutcomeLook(MARKS[tone], tone, words))


def agent_badge(terminal: Terminal) -> Markup:
    if not terminal.alive:
        return badge("bad", "its program has ended")
    return badge(*AGENT_LOOKS[terminal.status])


def about(*facts: Child) -> Markup:
    return tag("p", joined(filter(None, facts), DOT), class_="about")


def waits_words(run: RunView, *commands: str) -> Markup | None:
    if not run.waiting or run.is_live:
        return None
    codes = joined((tag("code", command) for command in commands), ", ")
    branch = tag("code", name(run.waiting))
    return tag("p", "Its work waits on the branch ", branch, ": ", codes, class_="muted")


def way_back(*links: Child) -> Part:
    way = joined(links, " / ")
    return Part("way", tag("nav", way, id="way", class_="way", aria_label="Way back"))


def section(number: str, title: Child, *inner: Child, kind: str = "card") -> Markup:
    heading = tag("h2", title, id=f"{number}-title")
    return tag(
        "section", heading, *inner, id=number, class_=kind, aria_labelledby=f"{number}-title"
    )


def folded(words: Child, inner: Markup, number: str, kind: str | None = None) -> Markup:
    return tag("details", tag("summary", words), inner, id=number, class_=kind)


def fetched(number: str, words: str, path: str, kind: str | None = "card") -> Markup:
    summary, inner = tag("summary", words), tag("div", LOADING, data_into=True)
    return tag("details", summary, inner, id=number, class_=kind, data_fragment=path)


def button(words: str, kind: str = "", **more: Attribute) -> Markup:
    return tag("button", words, type="button", class_=f"button {kind}".strip(), **more)


def form(
    path: str,
    words: str,
    *fields: Child,
    kind: str = "form",
    disabled: bool = False,
    **more: Attribute,
) -> Markup:
    send = tag("button", words, class_="button", type="submit", disabled=disabled)
    return tag("form", *fields, send, class_=kind, data_post=path, **more)


def text_area(number: str, called: str, **more: Attribute) -> Markup:
    described = f"{number}-note"
    where = {"id": f"{number}-text", "name": called, "aria_describedby": described}
    return tag("textarea", rows=4, required=True, **where, **more)


LONGEST_QUESTION = 4000
"""Its screen has all of it."""
LONGEST_LABEL = 200
KEYS = (
    # key, text of its button, text for a screen reader instead
    ("Enter", "Enter", None),
    ("Escape", "Esc", None),
    ("Up", "↑", "arrow up"),
    ("Down", "↓", "arrow down"),
    ("Left", "←", "arrow left"),
    ("Right", "→", "arrow right"),
    *((character, character, None) for character in "123456789yn"),
)


def question_html(question: Question, terminal_id: str) -> Markup:
    text = question.text[:LONGEST_QUESTION] or "It asks something."
    words = tag("p", text, class_="question")
    if not question.choices:
        return joined((words, key_buttons(question, terminal_id)))
    choices = (
        _answer(
            f"{choice.key}  {choice.label[:LONGEST_LABEL]}".strip(),
            choice.key,
            question,
            terminal_id,
        )
        for choice in question.choices
    )
    return joined((words, tag("div", *choices, class_="buttons")))


def key_buttons(question: Question, terminal_id: str) -> Markup:
    buttons = (_answer(words, key, question, terminal_id, label) for key, words, label in KEYS)
    label = "Keys that answer it"
    return tag("div", *buttons, class_="buttons keys", role="group", aria_label=label)


def _answer(
    words: str, key: str, question: Question, terminal_id: str, label: str | None = None
) -> Markup:
    # Bound to this question: if it has gone, nothing is pressed.
    body = json.dumps({"key": key, "question": question.fingerprint})
    path = f"/terminals/{terminal_id}/answer"
    return button(words, data_post=path, data_body=body, aria_label=label)
