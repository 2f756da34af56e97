"""What of a reply is handed on: the notes of a review, the evidence of a test, parts of a summary.

Each function returns text of the reply itself, at most so many lines, and the head of the reply
when what it looks for is not there. How much was left out is counted by `excerpt_of`; the prompt
says so.

Parts of a summary are found by their titles: Markdown headings, lines in bold, `Title:` lines and
list items. A part reaches to the next title of its own kind or a higher one, wanted or not. If
the wanted parts together are too long, each gets a fair share of the lines.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core.secrets import before_secret
from .reply import Excerpt, Output, find_label, find_verdict, split_lines, unfenced
from .review import NOTES_LABEL, TEST_FORM

RESULT_LABEL = "RESULT"
EVIDENCE_LABEL = "EVIDENCE"

# Titles of the parts that are handed on, most important first; True if a summary must have it.
HANDOFF_PARTS = {
    r"\bhand-?offs?\b": True,
    r"\brisks?\b": False,
    r"\bimplementation notes?\b": False,
    r"\bartifacts?\b": False,
}
IMPLEMENTATION_PARTS = {
    r"\bbehaviou?rs? implemented\b|\bimplemented behaviou?rs?\b": True,
    r"\bfiles? changed\b|\bchanged files?\b": True,
}

# "## 5. Explicit handoff"
HEADING_PATTERN = r" {0,3}(?P<marks>#{1,6})\s+(?P<title>\S.*)"
# "**Explicit handoff**", "**5. Explicit handoff:**"
BOLD_PATTERN = r"(?P<bold>\*\*|__)(?P<title>[^*]+)(?P=bold)\s*:?\s*"
# "Files changed: a.py", "FILES_CHANGED:", "**Files changed:** a.py"
LABEL_PATTERN = r"(?:\*\*|__)?(?P<title>[A-Za-z][\w '&()-]*?)(?:\*\*|__)? ?:(?:\*\*|__)?(?=\s|$)"
# "2. Behavior implemented"
NUMBERED_PATTERN = r"(?P<indent>\s*)(?P<number>\d{1,3})[.)]\s+(?P<title>\S.*)"
# "- Behavior implemented: it parses"
BULLET_PATTERN = r"(?P<indent>\s*)[-*+•]\s+(?P<label>\S.*)"
# "- ", "## 2. ", "**REVIEW_NOTES:** ", "EVIDENCE: 1) "
POINT_MARKS_PATTERN = (
    r"^(?:\s+|[-+*•>]\s+|#{1,6}\s+|\*\*|\d{1,3}[.)]\s+"
    r"|(?:REVIEW_NOTES|EVIDENCE)(?:\*\*)?\s*(?::|$)(?:\*\*)?)+"
)
# "RESULT: FAIL", "REVIEW_RESULT: REVISE"
VERDICT_LINE_PATTERN = r"(?:REVIEW_)?RESULT\b"
# "..F.E", ".....  [100%]", "=====": how far a test runner has come, and its rulers
PROGRESS_PATTERN = r"[.FEsxXuPR]+(?:\s*\[\s*\d{1,3}%\])?|[\W_]+"
LONGEST_POINT = 200
# Longer than any title; what is beyond is not looked at.
TITLE_LIMIT = 100
ITEM_WORDS = 6

BOLD_RANK, LABEL_RANK, NUMBERED_RANK, BULLET_RANK = 7, 8, 9, 10


@dataclass(frozen=True, slots=True)
class Title:
    """A line that opens a part of a summary."""

    rank: int
    """The level of a Markdown heading; lesser kinds of titles rank below all of them."""
    text: str
    indent: int = 0
    """How far a list item is indented."""
    number: int = 0
    """The number of a numbered item."""

    def ends(self, part: "Title") -> bool:
        """Does this title end the part that another one opened?

        A lower number than the part's own begins a list inside it: `5. Handoff`, `1. first step`.
        """
        if self.rank == part.rank == NUMBERED_RANK and self.number <= part.number:
            return False
        return self.rank <= part.rank and self.indent <= part.indent


def extract_review_notes(text: str, max_lines: int) -> str:
    """Return a review from its `REVIEW_NOTES:` on."""
    lines = split_lines(text)
    start = find_label(lines, NOTES_LABEL)
    return "\n".join(lines[start or 0 :][:max_lines]).rstrip()


def extract_test_evidence(text: str, max_lines: int) -> str:
    """Return the `RESULT:` line of a test, and the rest from its `EVIDENCE:` on."""
    lines = split_lines(text)
    start = find_label(lines, EVIDENCE_LABEL)
    if start is None:
        return _head(lines, max_lines)
    verdict = find_verdict(lines, TEST_FORM)
    result = find_label(lines, RESULT_LABEL) if verdict is None else verdict.index
    numbers = [number for number in range(start, len(lines)) if number != result]
    chosen = numbers if result is None else [result, *numbers]
    return "\n".join(lines[number] for number in chosen[:max_lines]).rstrip()


def extract_handoff(text: str, max_lines: int) -> str:
    """Return what a programmer needs of an analyst's summary.

    That is: artifacts, implementation notes, risks, and the explicit handoff.
    """
    return _extract_parts(split_lines(text), HANDOFF_PARTS, max_lines)


def extract_implementation(text: str, max_lines: int) -> str:
    """Return what a tester needs of a programmer's summary: files changed, behavior implemented."""
    return _extract_parts(split_lines(text), IMPLEMENTATION_PARTS, max_lines)


def first_point(text: str) -> str:
    """Return the first thing that notes or evidence say, on one line, without its marks.

    Progress of a test runner says nothing.

    >>> first_point("REVIEW_NOTES:\\n\\n- **Rounding** is wrong in `total`")
    'Rounding is wrong in `total`'
    """
    for _, line in unfenced(split_lines(text)):
        point = re.sub(POINT_MARKS_PATTERN, "", _beginning(line)).replace("**", "").strip()
        is_silent = not point or re.fullmatch(PROGRESS_PATTERN, point)
        if not is_silent and not re.match(VERDICT_LINE_PATTERN, point):
            return " ".join(point.split())
    return ""


def _beginning(line: str) -> str:
    """Return a line; of a long one whole words, if it has any.

    Of half a path or half a secret nobody would know what it is, and show it.
    """
    if len(line) <= LONGEST_POINT:
        return line
    words, _, _ = line[: LONGEST_POINT + 1].rpartition(" ")
    most = len(words) if words.strip() else LONGEST_POINT
    return line[: before_secret(line, most)].strip()


def excerpt_of(output: Output, text: str) -> Excerpt:
    """Join a text taken from an output with what it leaves out of it."""
    left_out = len(split_lines(output.text)) - len(split_lines(text))
    return Excerpt(text, max(left_out, 0), output.archive)


def _head(lines: Sequence[str], max_lines: int) -> str:
    return "\n".join(lines[:max_lines]).rstrip()


def _extract_parts(lines: Sequence[str], wanted: Mapping[str, bool], max_lines: int) -> str:
    parts = _find_parts(lines, wanted)
    if any(needed and not parts[pattern] for pattern, needed in wanted.items()):
        return _head(lines, max_lines)
    shares = _share([len(numbers) for numbers in parts.values()], max_lines)
    chosen = [
        n for numbers, share in zip(parts.values(), shares, strict=True) for n in numbers[:share]
    ]
    return "\n".join(lines[number] for number in sorted(chosen))


def _find_parts(lines: Sequence[str], wanted: Mapping[str, bool]) -> Mapping[str, list[int]]:
    """Return the line numbers of each wanted part, blank lines at its end left out."""
    titles = {
        number: title for number, line in unfenced(lines) if (title := _title_of(line)) is not None
    }
    parts: dict[str, list[int]] = {pattern: [] for pattern in wanted}
    pattern, opened = None, None
    blank: list[int] = []
    for number, line in enumerate(lines):
        title = titles.get(number)
        if title and (opened is None or title.ends(opened)):
            pattern = _wanted_by(title, wanted)
            opened = title if pattern else None
            blank = []
        if pattern is None:
            continue
        blank.append(number)
        if line.strip():
            parts[pattern] += blank
            blank = []
    return parts


def _wanted_by(title: Title, wanted: Mapping[str, bool]) -> str | None:
    if title.rank >= NUMBERED_RANK and len(title.text.split()) > ITEM_WORDS:
        return None
    text = title.text.replace("_", " ")
    return next((pattern for pattern in wanted if re.search(pattern, text, re.I)), None)


def _title_of(line: str) -> Title | None:
    """Return the title a line is, if it is one."""
    start = line[:TITLE_LIMIT]
    mark = start.lstrip()[:1]
    if mark == "#" and (heading := re.fullmatch(HEADING_PATTERN, start)):
        return Title(len(heading["marks"]), heading["title"])
    if mark.isdecimal() and (numbered := re.fullmatch(NUMBERED_PATTERN, start)):
        text = _label(numbered["title"]) or numbered["title"]
        return Title(NUMBERED_RANK, text, len(numbered["indent"]), int(numbered["number"]))
    if bullet := re.fullmatch(BULLET_PATTERN, start):
        text = _label(bullet["label"])
        return Title(BULLET_RANK, text, len(bullet["indent"])) if text else None
    if mark in "*_" and (bold := re.fullmatch(BOLD_PATTERN, start)):
        return Title(BOLD_RANK, bold["title"])
    text = _label(start)
    return Title(LABEL_RANK, text) if text else None


def _label(text: str) -> str:
    """Return the words before the colon that makes a text a label, or nothing."""
    if ":" not in text:
        return ""
    label = re.match(LABEL_PATTERN, text)
    return label["title"] if label else ""


def _share(sizes: Sequence[int], limit: int) -> Sequence[int]:
    """Divide lines among parts: nobody gets more than it needs, the first ones get what is over."""
    shares = [0] * len(sizes)
    while limit > 0 and (hungry := [i for i, size in enumerate(sizes) if shares[i] < size]):
        for index in hungry[:limit]:
            shares[index] += 1
        limit -= len(hungry[:limit])
    return shares
