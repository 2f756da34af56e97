"""What all pages say in the same way: times, tokens, statuses, links, questions."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from ..core.models import Question, Terminal, TerminalStatus
from ..core.text import age, duration, short_line
from ..runs.view import RunView
from ..settings.gates import PROOF
from ..show import turn as outcome
from ..show.markup import Attribute, Child, Markup, joined, tag
from ..show.turn import OutcomeLook, tokens_words
from ..usage.tokens import Tokens

HOME = "/dashboard"
NEW_RUN = "/dashboard/new"
LONGEST_NAME = 60
"""Characters of a role, a flow or a folder: whoever writes them may write a book."""
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
"""The tone and the words of an agent's status."""
MARKS = {"needs": "!", "now": "…", "good": "✓", "bad": "✗", "warn": "!", "plain": "●"}
"""By tone: one character before the words."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a page that changes as a whole."""

    id: str
    html: Markup
    """One element that has this id."""
    into: str = "main"
    """The id of the element that holds it."""


@dataclass(frozen=True, slots=True)
class Page:
    """All that a tab shows at one moment."""

    title: str
    parts: tuple[Part, ...]
    """In the order in which they stand in the page; one that holds others comes before them."""


@dataclass(frozen=True, slots=True)
class RunTokens:
    """What the agents of a run took, as far as it is known."""

    used: Tokens
    is_whole: bool
    """Is it known of all of them?"""


def quoted(word: str) -> str:
    """Return a name as one word of an address, whatever is in it."""
    return quote(word, safe="", errors="replace")


def run_path(run: str) -> str:
    return f"{HOME}/runs/{quoted(run)}"


def agent_path(run: str, role: str) -> str:
    return f"{run_path(run)}/agents/{quoted(role)}"


def name(text: str) -> str:
    """Return a name from outside on a line that is not too long."""
    return short_line(text, LONGEST_NAME)


def moment(at: float, words: str) -> Markup:
    """Return words about a time, with the time itself for who wants to know it."""
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


def run_tokens(tokens: RunTokens | None) -> Markup | None:
    if tokens is None:
        return None
    least = "" if tokens.is_whole else "at least "
    words = f"{least}{amount(tokens.used.input)} in, {amount(tokens.used.output)} out"
    return tag("span", words, title=f"Tokens: {tokens_words(tokens.used)}")


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
    """Return a status: its mark and its words say it, its color only helps."""
    return outcome.badge(OutcomeLook(MARKS[tone], tone, words))


def agent_badge(terminal: Terminal) -> Markup:
    if not terminal.alive:
        return badge("bad", "its program has ended")
    return badge(*AGENT_LOOKS[terminal.status])


def about(*facts: Child) -> Markup:
    """Return short facts in a row, without those that are empty."""
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
    """Return a part of a page that has a heading."""
    heading = tag("h2", title, id=f"{number}-title")
    return tag(
        "section", heading, *inner, id=number, class_=kind, aria_labelledby=f"{number}-title"
    )


def folded(words: Child, inner: Markup, number: str, kind: str | None = None) -> Markup:
    return tag("details", tag("summary", words), inner, id=number, class_=kind)


def fetched(number: str, words: str, path: str, kind: str | None = "card") -> Markup:
    """Return what can be opened, and is fetched from an address then."""
    summary, inner = tag("summary", words), tag("div", LOADING, data_into=True)
    return tag("details", summary, inner, id=number, class_=kind, data_fragment=path)


def button(words: str, kind: str = "", **more: Attribute) -> Markup:
    return tag("button", words, type="button", class_=f"button {kind}".strip(), **more)


LONGEST_QUESTION = 4000
"""Characters of what an agent asks; its screen has all of it."""
LONGEST_LABEL = 200
KEYS = (
    # key, what stands on its button, and what a screen reader says instead
    ("Enter", "Enter", None),
    ("Escape", "Esc", None),
    ("Up", "↑", "arrow up"),
    ("Down", "↓", "arrow down"),
    ("Left", "←", "arrow left"),
    ("Right", "→", "arrow right"),
    *((character, character, None) for character in "123456789yn"),
)
"""Keys that answer most questions."""


@dataclass(frozen=True, slots=True)
class AskedBy:
    """A question, and the terminal of the agent that asks it."""

    terminal_id: str
    question: Question


def question_html(asked: AskedBy) -> Markup:
    """Return what an agent asks, with its choices; without any, the keys that answer most."""
    text = asked.question.text[:LONGEST_QUESTION] or "It asks something."
    words = tag("p", text, class_="question")
    if not asked.question.choices:
        return joined((words, key_buttons(asked)))
    choices = (
        _answer(f"{choice.key}  {choice.label[:LONGEST_LABEL]}".strip(), choice.key, asked)
        for choice in asked.question.choices
    )
    return joined((words, tag("div", *choices, class_="buttons")))


def key_buttons(asked: AskedBy) -> Markup:
    buttons = (_answer(words, key, asked, label) for key, words, label in KEYS)
    label = "Keys that answer it"
    return tag("div", *buttons, class_="buttons keys", role="group", aria_label=label)


def _answer(words: str, key: str, asked: AskedBy, label: str | None = None) -> Markup:
    # Bound to this very question: if it has gone, nothing is pressed.
    body = json.dumps({"key": key, "question": asked.question.fingerprint})
    path = f"/terminals/{asked.terminal_id}/answer"
    return button(words, data_post=path, data_body=body, aria_label=label)
