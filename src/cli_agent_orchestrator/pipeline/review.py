"""Whether a review approves, and whether a test passed.

A reviewer's approval counts when all of this is true:

1. its last verdict line says `REVIEW_RESULT: APPROVED`,
2. the cycle is not one of the first, in which a review always leads to another look,
3. the notes show that the reviewer looked: the REVIEW_NOTES section touches enough of the
   evidence groups that its flow has for the role. Where a flow has none, notes are enough.

A tester's verdict is the last `RESULT: PASS` or `RESULT: FAIL` line; without one it did not pass.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..settings.config import ReviewRules
from .flow import Role
from .reply import VerdictForm, find_label, find_unclear, find_verdict, has_label, split_lines

REVIEW_FORM = VerdictForm("REVIEW_RESULT", "APPROVED", "REVISE")
TEST_FORM = VerdictForm("RESULT", "PASS(?:ED)?", "FAIL(?:ED)?")

NOT_COUNTED = "APPROVED does not count"
"""Begins what is said of an approval that something stands against."""
NOTES_LABEL = "REVIEW_NOTES"
# what ends the notes: the verdict, or a copy of the text under review
AFTER_NOTES = ("REVIEW_RESULT", "ANALYST_SUMMARY", "PROGRAMMER_SUMMARY")


class ReviewAnswer(StrEnum):
    """What a reviewer said."""

    APPROVED = "APPROVED"
    REVISE = "REVISE"
    MISSING = "MISSING"


class TestAnswer(StrEnum):
    """What a tester said."""

    __test__ = False

    PASS = "PASS"
    FAIL = "FAIL"
    MISSING = "MISSING"


@dataclass(frozen=True, slots=True)
class TooEarly:
    """An approval came in a cycle in which none counts."""

    cycle: int
    first: int
    """The first cycle in which an approval counts."""

    def __str__(self) -> str:
        return f"cycle {self.cycle} is too early, an approval counts from cycle {self.first} on"


@dataclass(frozen=True, slots=True)
class NotesMissing:
    """An approval came without notes."""

    def __str__(self) -> str:
        return f"there is no {NOTES_LABEL} section"


@dataclass(frozen=True, slots=True)
class EvidenceMissing:
    """The notes of an approval say too little about what was looked at."""

    missing: tuple[str, ...]
    """The evidence groups that the notes do not touch."""
    found: int
    needed: int

    def __str__(self) -> str:
        return (
            f"the notes touch {self.found} of {self.found + len(self.missing)} evidence groups, "
            f"{self.needed} are needed; missing: {', '.join(self.missing)}"
        )


@dataclass(frozen=True, slots=True)
class FindingsOpen:
    """An approval came while blocking findings of the reviewer's own are open."""

    text: str

    def __str__(self) -> str:
        return self.text


Obstacle = TooEarly | NotesMissing | EvidenceMissing | FindingsOpen


@dataclass(frozen=True, slots=True)
class ReviewVerdict:
    """What a reviewer said, and why an approval did not count."""

    answer: ReviewAnswer
    obstacles: tuple[Obstacle, ...] = ()
    """What stands against an approval; empty unless the answer is one."""
    unclear: str = ""
    """The line that should have been the verdict; empty unless there is one and no verdict."""

    @property
    def approved(self) -> bool:
        """Does the review count as an approval?"""
        return self.answer is ReviewAnswer.APPROVED and not self.obstacles

    @property
    def is_early(self) -> bool:
        """Is it an approval that only came too early to count?"""
        return bool(self.obstacles) and all(isinstance(one, TooEarly) for one in self.obstacles)

    @property
    def why(self) -> str:
        """Why an approval does not count; empty unless the answer is one."""
        return "; ".join(map(str, self.obstacles))

    def __str__(self) -> str:
        if self.answer is ReviewAnswer.MISSING:
            return _lacking(REVIEW_FORM, self.unclear, "APPROVED nor REVISE", "REVISE")
        if not self.obstacles:
            return str(self.answer)
        return f"{NOT_COUNTED}: {self.why}"


@dataclass(frozen=True, slots=True)
class TestVerdict:
    """What a tester said."""

    __test__ = False

    answer: TestAnswer
    unclear: str = ""
    """The line that should have been the verdict; empty unless there is one and no verdict."""

    @property
    def why(self) -> str:
        """Why it counts as failed, although it does not say so."""
        if self.answer is not TestAnswer.MISSING:
            return ""
        return _lacking(TEST_FORM, self.unclear, "PASS nor FAIL", "FAIL")

    def __str__(self) -> str:
        return self.why or str(self.answer)


def _lacking(form: VerdictForm, unclear: str, neither: str, counts_as: str) -> str:
    if unclear:
        return f"the line “{unclear}” is neither {neither}, which counts as {counts_as}"
    return f"no {form.label} line, which counts as {counts_as}"


def is_review_approved(text: str, role: Role, cycle: int, rules: ReviewRules) -> bool:
    """Does a review by this role count as an approval in this cycle?"""
    return judge_review(text, role, cycle, rules).approved


def judge_review(text: str, role: Role, cycle: int, rules: ReviewRules) -> ReviewVerdict:
    """Read a review and say what stands against it."""
    lines = split_lines(text)
    verdict = find_verdict(lines, REVIEW_FORM)
    if verdict is None:
        return ReviewVerdict(ReviewAnswer.MISSING, unclear=find_unclear(lines, REVIEW_FORM))
    if not verdict.positive:
        return ReviewVerdict(ReviewAnswer.REVISE)
    obstacles: list[Obstacle] = []
    if cycle < rules.min_cycles:
        obstacles.append(TooEarly(cycle, rules.min_cycles))
    if rules.require_evidence:
        obstacles += _missing_evidence(lines, role.evidence, rules.evidence_min_match)
    return ReviewVerdict(ReviewAnswer.APPROVED, tuple(obstacles))


def met_evidence(text: str, role: Role) -> dict[str, bool]:
    """Say of each evidence group of a reviewer whether the notes of a review touch it."""
    return _met(_notes_section(split_lines(text)) or "", role.evidence)


def judge_test(text: str) -> TestVerdict:
    """Read a tester's verdict."""
    lines = split_lines(text)
    verdict = find_verdict(lines, TEST_FORM)
    if verdict is None:
        return TestVerdict(TestAnswer.MISSING, find_unclear(lines, TEST_FORM))
    return TestVerdict(TestAnswer.PASS if verdict.positive else TestAnswer.FAIL)


def _missing_evidence(
    lines: Sequence[str], groups: Mapping[str, tuple[str, ...]], needed: int
) -> Sequence[Obstacle]:
    notes = _notes_section(lines)
    if notes is None:
        return [NotesMissing()]
    missing = tuple(name for name, is_met in _met(notes, groups).items() if not is_met)
    found = len(groups) - len(missing)
    return [] if not groups or found >= needed else [EvidenceMissing(missing, found, needed)]


def _met(notes: str, groups: Mapping[str, tuple[str, ...]]) -> dict[str, bool]:
    return {name: _touches(notes, words) for name, words in groups.items()}


def _touches(notes: str, words: Sequence[str]) -> bool:
    """Does one of these words stand in the notes, as a whole and in any case?"""
    pattern = "|".join(r"\s+".join(map(re.escape, word.split())) for word in words)
    return re.search(rf"(?<!\w)(?:{pattern})(?!\w)", notes, re.I) is not None


def _notes_section(lines: Sequence[str]) -> str | None:
    start = find_label(lines, NOTES_LABEL)
    if start is None:
        return None
    rest = range(start + 1, len(lines))
    end = next((i for i in rest if any(has_label(lines[i], a) for a in AFTER_NOTES)), len(lines))
    return "\n".join(lines[start:end])
