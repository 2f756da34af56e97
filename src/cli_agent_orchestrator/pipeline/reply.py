"""How an agent's reply is read: clean lines, code fences, labels, verdict lines.

Agents write Markdown. A label such as `REVIEW_NOTES:` or a verdict such as `RESULT: PASS` may
stand in a heading, in bold or behind a bullet. Inside fenced code it is a quotation, and so is a
line that repeats the form it was asked for (`RESULT: PASS|FAIL`, `REVIEW_NOTES: <notes>`); inside
an HTML comment it is not shown. A whole line in quotation marks, in code marks or behind a `>`
counts if no other line is a verdict.
Everything here takes time in proportion to the length of the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..core.text import CONTROLS, is_plain

# "- ```python", "~~~": a fence may stand in a list item
FENCE_OPEN_PATTERN = r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*(?P<fence>`{3,}(?=[^`]*$)|~{3,})"
# "```": nothing but space after it
FENCE_CLOSE_PATTERN = r"\s*(?P<fence>`{3,}|~{3,})\s*$"
LONGEST_REPLY = 512 * 1024
"""Bytes that are kept of a reply to be handed on; the archive has the whole of it."""
COMMENT_OPEN, COMMENT_CLOSE = "<!--", "-->"
# "## ", "- **", "1. __": what may stand before a label
MARKS_PATTERN = r"(?:[\s#*_+•–-]|\d{1,9}[.)])*+"
# what may stand around a whole line that is quoted
QUOTES = "`\"'“”„‘’«»"
# "> ", "- **`": what may stand before a verdict, and "`**" what may stand inside one
VERDICT_MARKS_PATTERN = rf"(?:[\s#*_+•–>{QUOTES}-]|\d{{1,9}}[.)])*+"
INNER_MARKS_PATTERN = rf"[\s*_{QUOTES}]*+"
# "0 failed", "0 tests failed": a bad word that says nothing bad
NONE_PATTERN = r"(?<![\w.,])0[\s*_]{1,9}(?:tests?\s{1,9})?"
# ", but", "(not yet)", "- no, ": what takes a verdict back; "no issues" does not
DOUBT_PATTERN = r"[\W_]*+(?:(?:but|not|or|if|except|unless)\b|no\b(?!\s+\w))"
# All but LF and TAB: they are not typed, and must not hide what a line begins with until then.
CONTROL_PATTERN = f"[{CONTROLS}\ufeff]"
# How much of a line is shown that was no clear verdict.
SHOWN = 80


@dataclass(frozen=True, slots=True)
class Output:
    """An agent's reply as the run keeps it, and where the whole of it is archived."""

    text: str
    archive: str = ""
    """The path of the archived file; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Text to be handed on, and what of the whole it leaves out."""

    text: str
    left_out: int = 0
    """How many lines of the whole are missing."""
    archive: str = ""
    """The path of the whole; empty if unknown."""


@dataclass(frozen=True, slots=True)
class VerdictForm:
    """The line a verdict stands on: a label and the two words that may follow it."""

    label: str
    positive: str
    negative: str


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """A verdict that was found."""

    index: int
    """The number of its line, from 0."""
    positive: bool


def clean_text(text: str) -> str:
    """Return a text with plain line ends, without control characters or broken ones."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    lines = whole.replace("\r\n", "\n").replace("\r", "\n")
    return lines if is_plain(lines) else re.sub(CONTROL_PATTERN, "", lines)


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, cleaned, without blank ones at its two ends."""
    lines = clean_text(text).split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), len(lines))
    last = next(
        (index for index in range(len(lines), first, -1) if lines[index - 1].strip()), first
    )
    return lines[first:last]


def shorten(reply: Output) -> Output:
    """Return a reply that can be handed on: of one that is too long its two ends."""
    data = reply.text.encode("utf-8", "replace")
    if len(data) <= LONGEST_REPLY:
        return reply
    half = LONGEST_REPLY // 2
    head, tail = (part.decode("utf-8", "ignore") for part in (data[:half], data[-half:]))
    where = f"; the whole reply is in {reply.archive}" if reply.archive else ""
    cut = f"({len(data) - 2 * half} bytes were left out here{where})"
    return replace(reply, text=f"{head}\n{cut}\n{tail}")


def unfenced(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line outside fenced code and HTML comments.

    What is not closed reaches the end. A line with text before a comment is yielded.
    """
    inside = ""
    for index, line in enumerate(lines):
        if inside:
            inside = _still_inside(line, inside)
            continue
        inside = _opened(line)
        if not inside or (inside == COMMENT_OPEN and not line.lstrip().startswith(COMMENT_OPEN)):
            yield index, line


def _opened(line: str) -> str:
    """Return the fence or the comment that a line opens."""
    fence = re.match(FENCE_OPEN_PATTERN, line) if "```" in line or "~~~" in line else None
    return fence["fence"] if fence else _opened_comment(line)


def _opened_comment(line: str) -> str:
    if COMMENT_OPEN not in line:
        return ""
    before, mark, after = line.rpartition(COMMENT_OPEN)
    in_code = before.count("`") % 2
    return mark if COMMENT_CLOSE not in after and not in_code else ""


def _still_inside(line: str, inside: str) -> str:
    """Return what of a fence or a comment is open after one more line."""
    if inside == COMMENT_OPEN:
        return _opened_comment(line) if COMMENT_CLOSE in line else inside
    if "```" not in line and "~~~" not in line:
        return inside
    closing = re.match(FENCE_CLOSE_PATTERN, line)
    return "" if closing and closing["fence"].startswith(inside) else inside


def find_label(lines: Sequence[str], label: str) -> int | None:
    """Return the number of the first line that carries a label, outside fenced code if possible."""
    having = [index for index, line in enumerate(lines) if has_label(line, label)]
    if not having:
        return None
    return next((index for index, _ in unfenced(lines) if index in having), having[0])


def has_label(line: str, label: str) -> bool:
    """Does a line begin with this label? Without a colon it must stand alone."""
    if label not in line.upper():
        return False
    found = re.match(
        rf"{MARKS_PATTERN}{label}(?![^\W_])[\s*_]*+(?P<colon>:)?[\s*_]*+(?P<rest>.?)", line, re.I
    )
    if found is None:
        return False
    return found["rest"] != "<" if found["colon"] else not found["rest"]


def find_verdict(lines: Sequence[str], form: VerdictForm) -> VerdictLine | None:
    """Return the last verdict of a reply; a quoted one only if there is no other."""
    plain = quoted = None
    for index, line in unfenced(lines):
        said = _said(line, form)
        positive = None if said is None else _read_verdict(said, form)
        if said is None or positive is None:
            continue
        if said.quoted:
            quoted = VerdictLine(index, positive)
        else:
            plain = VerdictLine(index, positive)
    return plain or quoted


def find_unclear(lines: Sequence[str], form: VerdictForm) -> str:
    """Return the last line that has the label of a verdict but is none, fit to be shown."""
    unclear = ""
    for _, line in unfenced(lines):
        said = _said(line, form)
        if said and not said.words.startswith("<") and _read_verdict(said, form) is None:
            unclear = "".join(char for char in line.strip() if char.isprintable())
    return unclear if len(unclear) <= SHOWN else unclear[:SHOWN] + "…"


@dataclass(frozen=True, slots=True)
class _Said:
    """What stands behind a label."""

    words: str
    quoted: bool
    """Is the line a quotation?"""
    inline: bool
    """Is it one in quotation marks, which must hold nothing but the verdict?"""


def _said(line: str, form: VerdictForm) -> _Said | None:
    if form.label not in line.upper():
        return None
    found = re.match(
        rf"(?P<marks>{VERDICT_MARKS_PATTERN}){form.label}"
        rf"{INNER_MARKS_PATTERN}:{INNER_MARKS_PATTERN}(?P<words>.*)",
        line,
        re.I,
    )
    if found is None:
        return None
    inline = not set(QUOTES).isdisjoint(found["marks"])
    return _Said(found["words"], quoted=inline or ">" in found["marks"], inline=inline)


def _read_verdict(said: _Said, form: VerdictForm) -> bool | None:
    """Return which verdict it is, or None.

    A bad verdict counts whatever follows it; a good one only if nothing follows, or something set
    off by a mark: `RESULT: PASS (12 tests)` is a PASS, `RESULT: PASS is not possible` is none. Nor
    is one that takes itself back: `RESULT: PASS, but two tests FAIL`.
    """
    found = re.match(
        rf"(?P<word>{form.positive}|{form.negative})(?![^\W_]){INNER_MARKS_PATTERN}(?P<rest>.*)",
        said.words,
        re.I,
    )
    if found is None:
        return None
    rest = found["rest"]
    both = rf"(?:[|/\\,]|or\b)\W*(?:{form.label}\W*)?(?:{form.positive}|{form.negative})\b"
    if re.match(both, rest, re.I):
        return None
    if re.fullmatch(form.negative, found["word"], re.I):
        return False
    if said.inline and re.search(r"\w", rest):
        return None
    if rest[:1].isalnum() or rest[:1] in set("|/\\<?") or _takes_back(rest, form):
        return None
    return True


def _takes_back(rest: str, form: VerdictForm) -> bool:
    """Does what follows a good verdict speak against it?"""
    bad = rf"(?<!\w)_*+{form.negative}(?:e?[ds]|ing)?_*+(?!\w)"
    without_none = re.sub(rf"{NONE_PATTERN}{bad}", "", rest, flags=re.I)
    return bool(re.match(DOUBT_PATTERN, rest, re.I) or re.search(bad, without_none, re.I))
