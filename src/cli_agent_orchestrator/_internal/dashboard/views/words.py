"""What all pages say in the same way: times, tokens, statuses, links."""

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from cli_agent_orchestrator._internal.html.markup import Child, Markup, joined, tag
from cli_agent_orchestrator._internal.models import TerminalStatus
from cli_agent_orchestrator._internal.usage.tokens import Tokens
from cli_agent_orchestrator.events import short_line

HOME = "/dashboard"
NEW_RUN = "/dashboard/new"
UNITS = (("d", 86400), ("h", 3600), ("min", 60))
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
    TerminalStatus.UNKNOWN: "quiet",
    TerminalStatus.IDLE: "quiet",
    TerminalStatus.PROCESSING: "working",
    TerminalStatus.COMPLETED: "quiet",
    TerminalStatus.WAITING_USER_ANSWER: "needs",
    TerminalStatus.ERROR: "bad",
}
"""How a status of an agent is called and colored."""


def run_path(run: str) -> str:
    """Return the address of a run's page."""
    return f"{HOME}/runs/{quote(run, safe='')}"


def agent_path(run: str, role: str) -> str:
    """Return the address of an agent's page."""
    return f"{run_path(run)}/agents/{quote(role, safe='')}"


def name(text: str) -> str:
    """Return a name from outside on a line that is not too long."""
    return short_line(text, LONGEST_NAME)


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


def duration(seconds: float) -> str:
    """Return how long something took.

    >>> duration(4.2), duration(125)
    ('4 s', '2 min 05 s')
    """
    whole = round(max(seconds, 0))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else span(seconds)


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


def tokens_words(used: Tokens) -> Markup:
    """Say how many tokens something took."""
    exact = f"{used.input:,} tokens read ({used.cached_input:,} of them cached), {used.output:,}"
    words = f"{amount(used.input)} in, {amount(used.output)} out"
    return tag("span", words, title=f"{exact} written")


def plural(count: int, word: str) -> str:
    """Return a number with its word.

    >>> plural(1, "run"), plural(2, "run")
    ('1 run', '2 runs')
    """
    return f"{count} {word}{'' if count == 1 else 's'}"


def badge(tone: str, words: str) -> Markup:
    """Return a status: its words say it, its color only helps."""
    return tag("span", words, class_=f"badge badge-{tone}")


def facts(parts: Sequence[Child]) -> Markup:
    """Return short facts in a row."""
    return tag("p", joined(parts, DOT), class_="facts")


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
