"""How a line of a review is read that raises a finding or answers one.

    F1 blocking src/total.py:12 The sum is rounded twice.
    F2 advisory The name says too little.
    F1 fixed
    F2 unfixed it is still `x`

A line may be a list item, a heading or a row of a table, with marks of Markdown around its parts:
`- **F1** (blocking) – [total.py:12](src/total.py#L12): rounded twice`. A quotation does not count,
nor does a copy of the form (`F1 fixed|unfixed|withdrawn`), nor an answer that takes itself back
(`F1 fixed, but not for zero`).
"""

import re
from dataclasses import dataclass

from cli_agent_orchestrator._internal.pipeline.reply import DOUBT_PATTERN

BLOCKING, ADVISORY = "blocking", "advisory"
LONGEST_LINE = 2000
"""Characters of a line that are looked at."""
LONGEST_TEXT = 500
LONGEST_PLACE = 200
LARGEST_ID = 9999

# "- **", "3. ", "| ", "- [x] ", "REVIEW_NOTES: ": what may stand before a number, but no quotation
BEFORE_PATTERN = (
    r"(?:\[[xX]\]|[^\w>\"'“”„‘’«»]|_|\d{1,9}[.)](?=\s))*+"
    r"(?:(?:REVIEW_NOTES|FINDINGS)\b[\W_]*+)?"
)
ID_PATTERN = r"F0{0,3}[1-9]\d{0,3}(?![^\W_])"
# "F1", "F1, **F2** and F3"
IDS_PATTERN = rf"{ID_PATTERN}(?:[\s,&+/*_`]{{1,9}}(?:and\s[*_`]{{0,3}})?{ID_PATTERN}){{0,99}}"
SEVERITY_PATTERN = r"blocking|advisory|non-?blocking"
# "F1: still unfixed"
ANSWER_PATTERN = (
    r"(?:(?:is|now|still)\s){0,2}(?P<answer>fixed|unfixed|not[ -]fixed|withdrawn)(?!\w|-\w)"
)
LINE_PATTERN = (
    rf"{BEFORE_PATTERN}(?P<ids>{IDS_PATTERN})[\W_]*+"
    rf"(?:(?P<severity>{SEVERITY_PATTERN})(?![^\W_]|-\w))?(?P<rest>.*)"
)
# "F1 (blocking): fixed": nothing, or something set off by a mark; "F1 blocking fixed sizes" is none
SET_OFF_PATTERN = r"[\s*_`|)\]]*+(?:$|[.:;,(–—-])"
# "|advisory", " or blocking", "|unfixed", ", unfixed or withdrawn": the form, and no use of it
OTHER_SEVERITY_PATTERN = r"\s*+(?:[|/]|or\b)[\W_]*+(?:blocking|advisory)\b"
OTHER_ANSWER_PATTERN = r"[\W_]*+(?:or[\W_]++)?(?:not )?(?:fixed|unfixed|withdrawn)\b"
# "path:line text", "<text>"
BLANK_PATTERN = r"`?(?:path:line\b|<(?:path|place|file|text)\b)"
# ": ", "** – ", ") ", ". ": what may stand before a place or a text, but not what these begin with
GAP_PATTERN = r"(?:[\s*:;,|)\]–—-]|\.(?=\s|$)|_++(?!\w)|`(?=[\s*:;,|)\]–—-]|$))*+"
# ":12", "#L12-L14", ":12:5"
LINE_NUMBER_PATTERN = r"(?::|#)L?\d{1,7}(?:[-–:]L?\d{1,7})?"
# "src/a.py:12", "(`src/a.py:12-14`)", "[a.py:3](src/a.py#L3)", "`my files/a.py:3`"
PLACE_PATTERN = (
    rf"[(\[]?\*{{0,2}}(?:`(?P<quoted>[^`:#]{{1,150}}{LINE_NUMBER_PATTERN})`"
    rf"|`?(?P<bare>[^\s`:#|*<>()\[\]\"]{{1,150}}{LINE_NUMBER_PATTERN})`?)"
    r"\*{0,2}(?:\]\([^)\s]{0,300}\)|[)\]])?(?=[\s:;,.|*–—-]|$)"
)


@dataclass(frozen=True, slots=True)
class FormLine:
    """What a line says about findings."""

    ids: tuple[str, ...]
    """`F1`; several only in an answer."""
    severity: str = ""
    """`blocking` or `advisory` if it raises a finding."""
    where: str = ""
    text: str = ""
    answer: str = ""
    """`fixed`, `unfixed` or `withdrawn` if it answers."""


def read_line(line: str) -> FormLine | None:
    """Return what a line says about findings; None if nothing.

    >>> read_line("- **F1** (blocking) `a.py:3`: wrong").where
    'a.py:3'
    """
    found = re.match(LINE_PATTERN, line[:LONGEST_LINE], re.I)
    if found is None:
        return None
    ids = tuple(dict.fromkeys(map(tidy_id, re.findall(ID_PATTERN, found["ids"], re.I))))
    rest = found["rest"]
    if not found["severity"]:
        answer = _read_answer(rest)
        return FormLine(ids, answer=answer) if answer else None
    severity = ADVISORY if found["severity"].lower() != BLOCKING else BLOCKING
    if re.match(OTHER_SEVERITY_PATTERN, rest, re.I):
        return None
    rest = _without_gap(rest)
    answer = _read_answer(rest, set_off=True)
    if answer:
        return FormLine(ids, answer=answer)
    if re.match(BLANK_PATTERN, rest, re.I):
        return None
    where, end = _read_place(rest)
    return FormLine(ids[:1], severity, where, tidy_text(rest[end:]))


def tidy_id(text: str) -> str:
    """Return a number as it is kept: `f01` is F1."""
    return f"F{int(text[1:])}"


def tidy_text(text: str) -> str:
    """Return the text of a finding without the marks around it, on one line."""
    bare = _without_gap(text).replace("**", "").rstrip("*_| \t")
    if bare.endswith("`") and bare.count("`") % 2:
        bare = bare[:-1]
    return one_line(bare, LONGEST_TEXT)


def one_line(text: str, longest: int) -> str:
    """Return a text on one line, cut, and without what does not show."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(shown.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def _read_answer(text: str, set_off: bool = False) -> str:
    found = re.match(ANSWER_PATTERN, text, re.I)
    if found is None:
        return ""
    rest = text[found.end() :]
    if re.match(OTHER_ANSWER_PATTERN, rest, re.I) or rest.startswith("?"):
        return ""
    if set_off and not re.match(SET_OFF_PATTERN, rest):
        return ""
    word = found["answer"].lower()
    if word in ("unfixed", "not fixed", "not-fixed"):
        return "unfixed"
    return "" if re.match(DOUBT_PATTERN, rest, re.I) else word


def _read_place(text: str) -> tuple[str, int]:
    """Return the place that a text begins with, and where it ends."""
    found = re.match(PLACE_PATTERN, text)
    if found is None:
        return "", 0
    place = found["quoted"] or found["bare"]
    path, line = re.split(r"[:#]L?", place, maxsplit=1)
    if not re.search(r"[^\W\d_]", path):
        return "", 0
    numbers = line.replace("L", "").replace("–", "-")
    return one_line(f"{path}:{numbers}", LONGEST_PLACE), found.end()


def _without_gap(text: str) -> str:
    return re.sub(rf"\A{GAP_PATTERN}", "", text)
