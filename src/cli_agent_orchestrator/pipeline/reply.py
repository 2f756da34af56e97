"""How an agent's reply is read, and what of it is handed on.

Agents write Markdown. A label such as `REVIEW_NOTES:` or a verdict such as `RESULT: PASS` may
stand in a heading, in bold or behind a bullet. Inside fenced code it is a quotation, and so is a
line that repeats the form it was asked for (`RESULT: PASS|FAIL`, `REVIEW_NOTES: <notes>`); inside
an HTML comment it is not shown. A whole line in quotation marks, in code marks or behind a `>`
counts if no other line is a verdict.
Everything here takes time in proportion to the length of the text.

Handed on are the notes of a review, the evidence of a test, parts of a summary: text of the reply
itself, at most so many lines, or its head when what is looked for is not there. `excerpt_of` counts
how much was left out; the prompt reports it.

Parts of a summary are found by their titles: Markdown headings, lines in bold, `Title:` lines and
list items. A part reaches to the next title of its own kind or a higher one, wanted or not. If
the wanted parts together are too long, each gets a fair share of the lines.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..core.secrets import before_secret
from ..core.text import CONTROLS

# "- ```python", "~~~": a fence may stand in a list item
FENCE_OPEN_PATTERN = r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*(?P<fence>`{3,}(?=[^`]*$)|~{3,})"
# "```": nothing but space after it
FENCE_CLOSE_PATTERN = r"\s*(?P<fence>`{3,}|~{3,})\s*$"
LONGEST_REPLY = 512 * 1024
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


class Output(Struct, frozen=True):
    text: str
    archive: str = ""


class Excerpt(Struct, frozen=True):
    text: str
    left_out: int = 0
    archive: str = ""


class VerdictForm(Struct, frozen=True):
    label: str
    good: str
    bad: str
    ending: str = ""


REVIEW_FORM = VerdictForm("REVIEW_RESULT", "APPROVED", "REVISE")
TEST_FORM = VerdictForm("RESULT", "PASS", "FAIL", "(?:ED)?")
NOTES_LABEL = "REVIEW_NOTES"


def clean_text(text: str) -> str:
    """Return a text with plain line ends, without control characters or broken ones."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    lines = whole.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(CONTROL_PATTERN, "", lines)


def split_lines(text: str) -> list[str]:
    lines = clean_text(text).split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), len(lines))
    last = next(
        (index for index in range(len(lines), first, -1) if lines[index - 1].strip()), first
    )
    return lines[first:last]


def shorten(reply: Output) -> Output:
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
    fence = re.match(FENCE_OPEN_PATTERN, line) if "```" in line or "~~~" in line else None
    return fence["fence"] if fence else _opened_comment(line)


def _opened_comment(line: str) -> str:
    if COMMENT_OPEN not in line:
        return ""
    before, mark, after = line.rpartition(COMMENT_OPEN)
    is_code = before.count("`") % 2
    return "" if COMMENT_CLOSE in after or is_code else mark


def _still_inside(line: str, inside: str) -> str:
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


def find_verdict(lines: Sequence[str], form: VerdictForm) -> tuple[int, bool] | None:
    """Return the last verdict and its line; a quoted one only if there is no other."""
    found: dict[bool, tuple[int, bool]] = {}
    for index, positive, is_quoted in _verdict_lines(lines, form):
        if positive is not None:
            found[is_quoted] = (index, positive)
    return found.get(False) or found.get(True)


def find_unclear(lines: Sequence[str], form: VerdictForm) -> str:
    """Return the last line that has the label of a verdict but is none, fit to be shown."""
    unclear = [index for index, positive, _ in _verdict_lines(lines, form) if positive is None]
    line = "".join(filter(str.isprintable, lines[unclear[-1]].strip())) if unclear else ""
    return line if len(line) <= SHOWN else line[:SHOWN] + "…"


def _verdict_lines(
    lines: Sequence[str], form: VerdictForm
) -> Iterator[tuple[int, bool | None, bool]]:
    """Yield the lines that have the label of a verdict, but for `RESULT: <PASS or FAIL>`.

    Each as its number, whether it is good, bad or unclear, and whether it is quoted.
    """
    for index, line in unfenced(lines):
        if form.label not in line.upper():
            continue
        found = re.match(
            rf"(?P<marks>{VERDICT_MARKS_PATTERN}){form.label}"
            rf"{INNER_MARKS_PATTERN}:{INNER_MARKS_PATTERN}(?P<words>(?!<).*)",
            line,
            re.I,
        )
        if found is not None:
            inline = not set(QUOTES).isdisjoint(found["marks"])
            positive = _read_verdict(found["words"], form, inline=inline)
            yield index, positive, inline or ">" in found["marks"]


def _read_verdict(words: str, form: VerdictForm, *, inline: bool) -> bool | None:
    """Return which verdict the words behind a label are, or None.

    A bad verdict counts whatever follows it; a good one only if nothing follows, or something set
    off by a mark: `RESULT: PASS (12 tests)` is a PASS, `RESULT: PASS is not possible` is none. Nor
    is one that takes itself back: `RESULT: PASS, but two tests FAIL`. An `inline` one, in quotation
    marks, must hold nothing else.
    """
    good, bad = (rf"{word}{form.ending}" for word in (form.good, form.bad))
    found = re.match(
        rf"(?P<word>{good}|{bad})(?![^\W_]){INNER_MARKS_PATTERN}(?P<rest>.*)", words, re.I
    )
    if found is None:
        return None
    rest = found["rest"]
    both = rf"(?:[|/\\,]|or\b)\W*(?:{form.label}\W*)?(?:{good}|{bad})\b"
    if re.match(both, rest, re.I):
        return None
    if re.fullmatch(bad, found["word"], re.I):
        return False
    if inline and re.search(r"\w", rest):
        return None
    said_bad = rf"(?<!\w)_*+{bad}(?:e?[ds]|ing)?_*+(?!\w)"
    without_none = re.sub(rf"{NONE_PATTERN}{said_bad}", "", rest, flags=re.I)
    takes_back = re.match(DOUBT_PATTERN, rest, re.I) or re.search(said_bad, without_none, re.I)
    return None if rest[:1].isalnum() or rest[:1] in set("|/\\<?") or takes_back else True


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


class Title(Struct, frozen=True):
    rank: int
    text: str
    indent: int = 0
    number: int = 0

    def ends(self, part: "Title") -> bool:
        """Does this title end the part that another one opened?

        A lower number than the part's own begins a list inside it: `5. Handoff`, `1. first step`.
        """
        if self.rank == part.rank == NUMBERED_RANK and self.number <= part.number:
            return False
        return self.rank <= part.rank and self.indent <= part.indent


def extract_review_notes(text: str, max_lines: int) -> str:
    lines = split_lines(text)
    return _head(lines[find_label(lines, NOTES_LABEL) or 0 :], max_lines)


def extract_test_evidence(text: str, max_lines: int) -> str:
    lines = split_lines(text)
    start = find_label(lines, EVIDENCE_LABEL)
    if start is None:
        return _head(lines, max_lines)
    verdict = find_verdict(lines, TEST_FORM)
    result = find_label(lines, RESULT_LABEL) if verdict is None else verdict[0]
    evidence = [line for number, line in enumerate(lines[start:], start) if number != result]
    return _head(evidence if result is None else [lines[result], *evidence], max_lines)


def extract_handoff(text: str, max_lines: int) -> str:
    """Return what a programmer needs of an analyst's summary.

    That is: artifacts, implementation notes, risks, and the explicit handoff.
    """
    return _extract_parts(split_lines(text), HANDOFF_PARTS, max_lines)


def extract_implementation(text: str, max_lines: int) -> str:
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

    Half a path or half a secret would not be recognized, and would be shown.
    """
    if len(line) <= LONGEST_POINT:
        return line
    words, _, _ = line[: LONGEST_POINT + 1].rpartition(" ")
    most = len(words) if words.strip() else LONGEST_POINT
    return line[: before_secret(line, most)].strip()


def excerpt_of(output: Output, text: str) -> Excerpt:
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
    if ":" not in text:
        return ""
    label = re.match(LABEL_PATTERN, text)
    return label["title"] if label else ""


def _share(sizes: Sequence[int], limit: int) -> Sequence[int]:
    shares = [0] * len(sizes)
    while limit > 0 and (hungry := [i for i, size in enumerate(sizes) if shares[i] < size]):
        for index in hungry[:limit]:
            shares[index] += 1
        limit -= len(hungry[:limit])
    return shares
