"""What all pages say in the same way: times, tokens, statuses, links."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from ..core.models import Terminal, TerminalStatus
from ..events import short_line
from ..runs.registry import RunSummary
from ..settings.gates import PROOF
from ..show import timeline as outcome
from ..show.markup import Child, Markup, joined, tag
from ..show.timeline import OutcomeLook
from ..show.turn import tokens_words
from ..usage.tokens import Tokens

HOME = "/dashboard"
NEW_RUN = "/dashboard/new"
MINUTE = 60
UNITS = (("d", 86400), ("h", 3600), ("min", MINUTE))
THOUSAND, MILLION = 1000, 1_000_000
LONGEST_NAME = 60
"""Characters of a role, a flow or a folder: whoever writes them may write a book."""
DOT = " · "

AGENT_WORDS = {
    TerminalStatus.UNKNOWN: "not known",
    TerminalStatus.IDLE: "at rest",
    TerminalStatus.PROCESSING: "working",
    TerminalStatus.COMPLETED: "at rest",
    TerminalStatus.WAITING_USER_ANSWER: "asks you",
    TerminalStatus.ERROR: "error",
}
AGENT_TONES = {
    TerminalStatus.UNKNOWN: "plain",
    TerminalStatus.IDLE: "plain",
    TerminalStatus.PROCESSING: "now",
    TerminalStatus.COMPLETED: "plain",
    TerminalStatus.WAITING_USER_ANSWER: "needs",
    TerminalStatus.ERROR: "bad",
}
"""How a status of an agent is called and colored."""
MARKS = {"needs": "!", "now": "…", "good": "✓", "bad": "✗", "warn": "!", "plain": "●"}
"""By what is said: one character before the words."""


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
    """Return the address of a run's page."""
    return f"{HOME}/runs/{quoted(run)}"


def agent_path(run: str, role: str) -> str:
    """Return the address of an agent's page."""
    return f"{run_path(run)}/agents/{quoted(role)}"


def name(text: str) -> str:
    """Return a name from outside on a line that is not too long."""
    return short_line(text, LONGEST_NAME)


def as_sentence(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def span(seconds: float) -> str:
    """Return how long something takes, roughly, so that it seldom changes.

    >>> span(40), span(150), span(9000)
    ('under a minute', '2 min', '2 h 30 min')
    """
    minutes = int(max(seconds, 0) // 60)
    hours, rest = divmod(minutes, 60)
    days, hours_left = divmod(hours, 24)
    if days:
        return f"{days} d {hours_left} h"
    if hours:
        return f"{hours} h {rest:02d} min"
    return f"{minutes} min" if minutes else "under a minute"


def took(seconds: float) -> str:
    """Say how long something took that has ended.

    >>> took(24.5), took(150)
    ('took 24 s', 'took 2 min')
    """
    return f"took {span(seconds) if seconds >= MINUTE else f'{int(max(seconds, 0))} s'}"


def ago(seconds: float) -> str:
    """Return how long ago something was, roughly.

    >>> ago(20), ago(7300)
    ('just now', '2 h ago')
    """
    for unit, size in UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


def moment(at: float, words: str) -> Markup:
    """Return words about a time, with the time itself for who wants to know it."""
    when = datetime.fromtimestamp(at, UTC)
    return tag("time", words, datetime=when.isoformat(), title=f"{when:%Y-%m-%d %H:%M:%S} UTC")


def amount(count: int) -> str:
    """Return a number of tokens in three digits or so.

    >>> amount(950), amount(48_200), amount(3_100_000)
    ('950', '48k', '3.1M')
    """
    if count >= MILLION:
        return f"{count / MILLION:.1f}M"
    return f"{count // THOUSAND}k" if count >= 10 * THOUSAND else str(count)


def run_tokens(tokens: RunTokens) -> Markup:
    """Say how many tokens a run took."""
    least = "" if tokens.is_whole else "at least "
    words = f"{least}{amount(tokens.used.input)} in, {amount(tokens.used.output)} out"
    return tag("span", words, title=f"Tokens: {tokens_words(tokens.used)}")


def plural(count: int, word: str) -> str:
    """Return a number with its word.

    >>> plural(1, "run"), plural(2, "run")
    ('1 run', '2 runs')
    """
    return f"{count} {word}{'' if count == 1 else 's'}"


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


def at_work(run: RunSummary) -> Markup:
    """Say who works now: an agent, or a gate or the proof, which have none."""
    is_gate = bool(run.providers) and run.role not in run.providers
    gate = "the proof" if run.role == PROOF else f"gate {name(run.role)}"
    words = f"{gate} runs" if is_gate else f"{name(run.role)} works"
    return tag("span", words, class_="who")


def badge(tone: str, words: str) -> Markup:
    """Return a status: its mark and its words say it, its color only helps."""
    return outcome.badge(OutcomeLook(MARKS[tone], tone, words))


def agent_badge(terminal: Terminal) -> Markup:
    """Return the status of an agent."""
    if not terminal.alive:
        return badge("bad", "its program has ended")
    return badge(AGENT_TONES[terminal.status], AGENT_WORDS[terminal.status])


def about(parts: Sequence[Child]) -> Markup:
    """Return short facts in a row."""
    return tag("p", joined(parts, DOT), class_="about")


def ask_button(words: str, path: str, *, kind: str = "", body: str = "", sure: str = "") -> Markup:
    """Return a button that posts something; `sure` is what is asked before."""
    return tag(
        "button",
        words,
        type="button",
        class_=f"button {kind}".strip(),
        data_post=path,
        data_body=body or None,
        data_confirm=sure or None,
    )
