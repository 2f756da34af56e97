"""What a review says: whether it approves, and what it found; and whether a test passed.

A reviewer's approval counts when all of this is true:

1. its last verdict line says `REVIEW_RESULT: APPROVED`,
2. the cycle is not one of the first, in which a review always leads to another look,
3. the notes show that the reviewer looked: the REVIEW_NOTES section touches enough of the
   evidence groups that its flow has for the role. Where a flow has none, notes are enough.

A tester's verdict is the last `RESULT: PASS` or `RESULT: FAIL` line; without one it did not pass.

A reviewer that numbers its findings writes a line for each of them, and in later cycles an answer
to each that is open. A number is kept for good: the same number with the same place or text is the
finding there was, and so is the same place and text with another number; a number that is used
again for something else is replaced by the next free one. What is not answered stays open. What
was fixed or withdrawn and is found again is open again, as unfixed.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from ..core.text import short_line
from ..settings.config import ReviewRules
from .flow import Role
from .reply import (
    DOUBT_PATTERN,
    NOTES_LABEL,
    REVIEW_FORM,
    TEST_FORM,
    VerdictForm,
    find_label,
    find_unclear,
    find_verdict,
    has_label,
    split_lines,
    unfenced,
)

NOT_COUNTED = "APPROVED does not count"
# what ends the notes: the verdict, or a copy of the text under review
AFTER_NOTES = ("REVIEW_RESULT", "ANALYST_SUMMARY", "PROGRAMMER_SUMMARY")


class Verdict(Struct, frozen=True):
    form: VerdictForm
    positive: bool | None = None
    obstacles: tuple[str, ...] = ()
    """What speaks against an approval; empty unless the verdict is one."""
    unclear: str = ""
    """The line that should have been the verdict; empty unless there is one and no verdict."""
    is_early: bool = False
    """Is it an approval that only came too early to count?"""

    @property
    def approved(self) -> bool:
        return bool(self.positive) and not self.obstacles

    @property
    def why(self) -> str:
        """Why an approval does not count, or a test without a verdict counts as failed."""
        is_silent_test = self.form is TEST_FORM and self.positive is None
        return str(self) if is_silent_test else "; ".join(self.obstacles)

    def __str__(self) -> str:
        form = self.form
        if self.positive is None:
            lacks = f"no {form.label} line"
            if self.unclear:
                lacks = f"the line “{self.unclear}” is neither {form.good} nor {form.bad}"
            return f"{lacks}, which counts as {form.bad}"
        if self.obstacles:
            return f"{NOT_COUNTED}: {self.why}"
        return form.good if self.positive else form.bad


def judge_review(text: str, role: Role, cycle: int, rules: ReviewRules) -> Verdict:
    lines = split_lines(text)
    verdict = _read_verdict(lines, REVIEW_FORM)
    if not verdict.positive:
        return verdict
    obstacles: list[str] = []
    first = rules.min_cycles
    if cycle < first:
        obstacles.append(f"cycle {cycle} is too early, an approval counts from cycle {first} on")
    notes = _notes_section(lines)
    if rules.require_evidence and notes is None:
        obstacles.append(f"there is no {NOTES_LABEL} section")
    elif rules.require_evidence and notes is not None:
        met = _find_evidence(notes, role.evidence)
        missing = [name for name, is_met in met.items() if not is_met]
        found, needed = len(met) - len(missing), rules.evidence_min_match
        if met and found < needed:
            obstacles.append(
                f"the notes touch {found} of {len(met)} evidence groups, {needed} are needed; "
                f"missing: {', '.join(missing)}"
            )
    is_early = cycle < first and len(obstacles) == 1
    return replace(verdict, obstacles=tuple(obstacles), is_early=is_early)


def met_evidence(text: str, role: Role) -> dict[str, bool]:
    return _find_evidence(_notes_section(split_lines(text)) or "", role.evidence)


def judge_test(text: str) -> Verdict:
    return _read_verdict(split_lines(text), TEST_FORM)


def _read_verdict(lines: Sequence[str], form: VerdictForm) -> Verdict:
    found = find_verdict(lines, form)
    if found is None:
        return Verdict(form, unclear=find_unclear(lines, form))
    return Verdict(form, found[1])


def _find_evidence(notes: str, groups: Mapping[str, tuple[str, ...]]) -> dict[str, bool]:
    met = {}
    for name, words in groups.items():
        pattern = "|".join(r"\s+".join(map(re.escape, word.split())) for word in words)
        met[name] = re.search(rf"(?<!\w)(?:{pattern})(?!\w)", notes, re.I) is not None
    return met


def _notes_section(lines: Sequence[str]) -> str | None:
    start = find_label(lines, NOTES_LABEL)
    if start is None:
        return None
    rest = range(start + 1, len(lines))
    end = next((i for i in rest if any(has_label(lines[i], a) for a in AFTER_NOTES)), len(lines))
    return "\n".join(lines[start:end])


BLOCKING, ADVISORY = "blocking", "advisory"
LONGEST_LINE = 2000
LONGEST_TEXT = 500
LONGEST_PLACE = 200

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


class FindingAnswer(StrEnum):
    FIXED = "fixed"
    UNFIXED = "unfixed"
    WITHDRAWN = "withdrawn"


class Finding(Struct, frozen=True):
    id: str
    blocking: bool
    where: str
    text: str


def read_line(line: str) -> Finding | Mapping[str, FindingAnswer] | None:
    """Return the finding that a line raises, or its answers to known ones; None if neither.

    >>> read_line("- **F1** (blocking) `a.py:3`: wrong").where
    'a.py:3'
    """
    found = re.match(LINE_PATTERN, line[:LONGEST_LINE], re.I)
    if found is None:
        return None
    ids = [f"F{int(number[1:])}" for number in re.findall(ID_PATTERN, found["ids"], re.I)]
    rest, severity = found["rest"], found["severity"]
    if severity:
        if re.match(OTHER_SEVERITY_PATTERN, rest, re.I):
            return None
        rest = _without_gap(rest)
    if answer := _read_answer(rest, set_off=bool(severity)):
        return dict.fromkeys(ids, answer)
    if not severity or re.match(BLANK_PATTERN, rest, re.I):
        return None
    where, end = _read_place(rest)
    return Finding(ids[0], severity.lower() == BLOCKING, where, _tidy_text(rest[end:]))


def _tidy_text(text: str) -> str:
    bare = _without_gap(text).replace("**", "").rstrip("*_| \t")
    if bare.endswith("`") and bare.count("`") % 2:
        bare = bare[:-1]
    return _short_line(bare, LONGEST_TEXT)


def _short_line(text: str, most: int) -> str:
    return short_line("".join(char if char.isprintable() else " " for char in text), most)


def _read_answer(text: str, set_off: bool) -> FindingAnswer | None:
    found = re.match(ANSWER_PATTERN, text, re.I)
    if found is None:
        return None
    rest = text[found.end() :]
    if re.match(OTHER_ANSWER_PATTERN, rest, re.I) or rest.startswith("?"):
        return None
    if set_off and not re.match(SET_OFF_PATTERN, rest):
        return None
    word = found["answer"].lower()
    if word in ("unfixed", "not fixed", "not-fixed"):
        return FindingAnswer.UNFIXED
    return None if re.match(DOUBT_PATTERN, rest, re.I) else FindingAnswer(word)


def _read_place(text: str) -> tuple[str, int]:
    found = re.match(PLACE_PATTERN, text)
    if found is None:
        return "", 0
    place = found["quoted"] or found["bare"]
    path, line = re.split(r"[:#]L?", place, maxsplit=1)
    if not re.search(r"[^\W\d_]", path):
        return "", 0
    numbers = line.replace("L", "").replace("–", "-")
    return _short_line(f"{path}:{numbers}", LONGEST_PLACE), found.end()


def _without_gap(text: str) -> str:
    return re.sub(rf"\A{GAP_PATTERN}", "", text)


MOST_FINDINGS = 100
"""So many are followed: open before closed, blocking before advisory, old before new."""
MOST_ANSWERS = 20
STALLED_AFTER = 2
"""So many times a blocking finding may be unfixed."""
HOW_TO_RAISE = (
    "Number your findings from {first} on, each on a line of its own outside of code blocks: "
    "`{first} blocking path:line text` if it has to change before an approval, "
    "`{first} advisory path:line text` if not; without a place, leave `path:line` out."
)
HOW_TO_ANSWER = """\
Author: deal with each of them, the blocking ones first, and say under its number what you did.
Reviewer: answer each of them on a line of its own: its number, and `fixed`, `unfixed` or
`withdrawn`, with a few words if they help. An approval counts when no blocking one is open."""


class ReviewForm(Struct, frozen=True):
    findings: tuple[Finding, ...]
    answers: Mapping[str, FindingAnswer]


class Tracked(Struct, frozen=True):
    finding: Finding
    answers: tuple[FindingAnswer, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.answers[-1:] in ((), (FindingAnswer.UNFIXED,))


class Findings(Struct, frozen=True):
    tracked: tuple[Tracked, ...] = ()

    @property
    def open(self) -> tuple[Tracked, ...]:
        return tuple(entry for entry in self.tracked if entry.is_open)

    @property
    def open_blocking(self) -> tuple[Tracked, ...]:
        return tuple(entry for entry in self.open if entry.finding.blocking)


def read_findings(reply: str) -> ReviewForm | None:
    findings: list[Finding] = []
    answers: dict[str, FindingAnswer] = {}
    lacks_text = False
    for _, line in unfenced(split_lines(reply)):
        said = read_line(line)
        if isinstance(said, Finding):
            lacks_text = False
            if len(findings) < MOST_FINDINGS:
                findings.append(said)
                lacks_text = not said.text
        elif said is not None:
            answers |= said
            lacks_text = False
        elif lacks_text and line.strip():
            is_verdict = re.match(r"[\W_]*+(?:REVIEW_)?RESULT\b", line, re.I)
            text = "" if is_verdict else _tidy_text(line)
            findings[-1] = replace(findings[-1], text=text)
            lacks_text = False
    if not findings and not answers:
        return None
    return ReviewForm(tuple(dict.fromkeys(findings)), answers)


def follow(ledger: Findings, form: ReviewForm) -> Findings:
    tracked = [_answered(entry, form.answers.get(entry.finding.id)) for entry in ledger.tracked]
    for finding in form.findings:
        index = _find(tracked, finding)
        if index is None:
            number = _free_id(finding.id, tracked, form)
            tracked.append(Tracked(replace(finding, id=number)))
            continue
        entry = tracked[index]
        where = finding.where or entry.finding.where
        kept = replace(entry.finding, blocking=finding.blocking, where=where)
        is_over = not entry.is_open and entry.finding.id not in form.answers
        unfixed = FindingAnswer.UNFIXED if is_over else None
        tracked[index] = _answered(replace(entry, finding=kept), unfixed)

    def is_needed_less(index: int) -> tuple[bool, bool]:
        return not tracked[index].is_open, not tracked[index].finding.blocking

    followed = sorted(range(len(tracked)), key=is_needed_less)[:MOST_FINDINGS]
    return Findings(tuple(tracked[index] for index in sorted(followed)))


def _answered(entry: Tracked, answer: FindingAnswer | None) -> Tracked:
    if answer is None or not (entry.is_open or answer is FindingAnswer.UNFIXED):
        return entry
    return replace(entry, answers=(*entry.answers, answer)[-MOST_ANSWERS:])


def _find(tracked: Sequence[Tracked], finding: Finding) -> int | None:
    place, words = finding.where, finding.text.casefold()
    same = None
    for index, entry in enumerate(tracked):
        known = entry.finding
        is_same_place = bool(place) and place == known.where
        is_same_text = bool(words) and words == known.text.casefold()
        if known.id == finding.id and (is_same_place or is_same_text or not (place or words)):
            return index
        if same is None and entry.is_open and is_same_text and place == known.where:
            same = index
    return same


def _free_id(wanted: str, tracked: Sequence[Tracked], form: ReviewForm) -> str:
    taken = {entry.finding.id for entry in tracked}
    if wanted not in taken:
        return wanted
    taken |= {finding.id for finding in form.findings}
    return _next_id(taken)


def _next_id(taken: set[str]) -> str:
    return f"F{1 + max((int(number[1:]) for number in taken), default=0)}"


def stalled(ledger: Findings) -> tuple[Tracked, ...]:
    return tuple(
        entry
        for entry in ledger.open_blocking
        if entry.answers.count(FindingAnswer.UNFIXED) >= STALLED_AFTER
    )


def find_stall(ledger: Findings, author: str, unchanged_turns: int, repeated_gate: str) -> str:
    reasons: list[str] = []
    if unfixed := stalled(ledger):
        verb = "is" if len(unfixed) == 1 else "are"
        reasons.append(f"{_ids(unfixed)} {verb} still unfixed after two attempts")
    if unchanged_turns > 0:
        turns = "the last turn" if unchanged_turns == 1 else f"the last {unchanged_turns} turns"
        reasons.append(f"{turns} of the {author} changed nothing")
    if repeated_gate:
        reasons.append(f"the gate `{repeated_gate}` failed twice on the same files")
    return f"Not converging: {'; '.join(reasons)}." if reasons else ""


def objection(ledger: Findings) -> str:
    if not (blocking := ledger.open_blocking):
        return ""
    are = "finding is" if len(blocking) == 1 else "findings are"
    return f"{len(blocking)} blocking {are} open: {_ids(blocking)}"


def _ids(tracked: Sequence[Tracked]) -> str:
    return ", ".join(entry.finding.id for entry in tracked)


def findings_block(ledger: Findings) -> str:
    if not ledger.open:
        return ""
    lines = []
    for finding in (entry.finding for entry in ledger.open):
        severity = BLOCKING if finding.blocking else ADVISORY
        lines.append(" ".join(filter(None, (finding.id, severity, finding.where, finding.text))))
    first = _next_id({entry.finding.id for entry in ledger.tracked})
    return "\n".join([*lines, "", HOW_TO_ANSWER, HOW_TO_RAISE.format(first=first)])
