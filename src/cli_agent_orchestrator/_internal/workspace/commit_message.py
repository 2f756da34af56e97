"""The message of a commit that the orchestrator makes: what was asked, and how it was judged.

    Slugify: keep digits

    Cao-Run: 20261115-101500-slugify
    Cao-Round: 2
    Cao-Flow: build
    Cao-Gate: tests passed (12 tests)
    Cao-Proof: proven: 2 tests that failed before now pass with the change to slug.py
    Cao-Reviewer: programmer_review (codex)

The lines at the end are trailers, which programs read. They are ours alone: a line of somebody
else's that git could take for one, or for the end of the message, is indented.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cli_agent_orchestrator._internal.characters import BREAKS, CONTROLS, DIRECTIONS, HALVES

LONGEST_SUBJECT = 72
LONGEST_VALUE = 200
LONGEST_SHOWN = 2000
"""Characters of a value in a pull request."""
LONGEST_BODY = 8000
INDENT = "    "
UNPRINTABLE_PATTERN = f"[{CONTROLS}{HALVES}{DIRECTIONS}\ufeff]"
"""Also what lets text run backwards: a reader would see other words than a program."""
LINE_PATTERN = r"\r\n|[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"
HEADING_PATTERN = r"^\s*#+\s+"
PLACE_PATTERN = r"(?<![\w.…/-])(?:~|//)?/(?:[^\s/:;,'\"`()]+/)*(?=[^\s/]|['\"])"
"""The folders of a path that begins at the root or at home: they lie on one machine alone."""
JUDGED = "How it was judged:"
NOT_KNOWN = "How it was judged is not known any more; its commit may say it:"
NOT_CHECKED = "No gate was run, so this is the word of the agents alone:"
PROSE_PATTERN = r"(?!diff -|From )(?:[-*] )?\w(?![\w-]*\s*:)"
"""A line that is neither a trailer ("Reviewed-by: me") nor a rule ("---") nor the head of a patch
("diff -", "From ")."""


@dataclass(frozen=True, slots=True)
class GateResult:
    """What a gate found."""

    name: str
    outcome: str
    """passed, failed, could not run"""
    details: str = ""
    """12 tests"""


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Who approved of the work."""

    role: str
    provider: str


@dataclass(frozen=True, slots=True)
class CommittedWork:
    """What a commit holds."""

    run: str
    round: int
    flow: str
    gates: tuple[GateResult, ...] = ()
    reviewers: tuple[Reviewer, ...] = ()
    proof: str = ""
    """What was proven, in words; names of files and tests in it may be anybody's."""
    is_known: bool = True
    """Is it still known how it was judged?"""


def commit_message(task: str, work: CommittedWork, body: str = "") -> str:
    """Return the whole message: a subject from the task, a text if there is one, the trailers."""
    parts = [subject(task) or f"Work of run {_one_line(work.run)}", _quoted(body), trailers(work)]
    return "\n\n".join(part for part in parts if part) + "\n"


def request_text(task: str, work: CommittedWork) -> str:
    """Return the text of a pull request: what was asked, and how it was judged.

    What others have named is in a block of code, where it is no markup: nobody is called by it,
    and no issue is closed.
    """
    lines = trailers(work, LONGEST_SHOWN).split("\n")
    judged = JUDGED if work.gates else NOT_CHECKED
    if not work.is_known:
        judged = NOT_KNOWN
    return "\n".join([task.strip(), "", judged, "", *(f"{INDENT}{line}" for line in lines), ""])


def subject(task: str) -> str:
    """Return the first line of a task that says something, shortened.

    >>> subject("# Slugify: keep digits")
    'Slugify: keep digits'
    """
    for line in _lines(task):
        words = _one_line(re.sub(HEADING_PATTERN, "", line))
        if any(character.isalnum() for character in words):
            return _shortened(words, LONGEST_SUBJECT)
    return ""


def trailers(work: CommittedWork, longest: int = LONGEST_VALUE) -> str:
    """Return the lines that programs read, each of one line whatever its value is made of."""
    return "\n".join(f"Cao-{key}: {_value(value, longest)}" for key, value in _facts(work))


def _facts(work: CommittedWork) -> Iterator[tuple[str, str]]:
    yield "Run", work.run
    yield "Round", str(work.round)
    yield "Flow", work.flow
    for gate in work.gates:
        details = f" ({gate.details})" if gate.details else ""
        yield "Gate", f"{gate.name} {gate.outcome}{details}"
    if work.proof:
        yield "Proof", re.sub(PLACE_PATTERN, "…/", work.proof)
    for reviewer in work.reviewers:
        yield "Reviewer", f"{reviewer.role} ({reviewer.provider})"


def _value(text: str, longest: int) -> str:
    return _shortened(_one_line(text), longest) or "-"


def _quoted(body: str) -> str:
    """Return a text of others' in which no line can be taken for one of ours."""
    lines = [line.rstrip() for line in _lines(body[:LONGEST_BODY])]
    return "\n".join(_harmless(lines)).strip("\n")


def _harmless(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line if not line or re.match(PROSE_PATTERN, line) else INDENT + line


def _lines(text: str) -> list[str]:
    return [re.sub(UNPRINTABLE_PATTERN, "", line) for line in re.split(LINE_PATTERN, text)]


def _one_line(text: str) -> str:
    return " ".join(re.sub(UNPRINTABLE_PATTERN, "", re.sub(f"[{BREAKS}\r]", " ", text)).split())


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
