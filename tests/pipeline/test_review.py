"""When a review approves, and when a test passed."""

from itertools import product

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.pipeline.flow import Role
from cli_agent_orchestrator.pipeline.reply import REVIEW_FORM, TEST_FORM, find_unclear, find_verdict
from cli_agent_orchestrator.pipeline.review import (
    Verdict,
    judge_review,
    judge_test,
    met_evidence,
)
from cli_agent_orchestrator.settings.config import ReviewRules
from tests.pipeline.samples import ANALYST_NOTES, LOOP, approval, review

RULES = ReviewRules()
ANYTHING = ReviewRules(min_cycles=0, require_evidence=False)
ANALYST_REVIEW = LOOP.role("analyst_review")
PROGRAMMER_REVIEW = LOOP.role("programmer_review")
REVIEWERS = [ANALYST_REVIEW, PROGRAMMER_REVIEW]


def answer(text: str) -> bool | None:
    return judge_review(text, ANALYST_REVIEW, 1, ANYTHING).positive


EARLY = "cycle 1 is too early, an approval counts from cycle 2 on"
WITHOUT_NOTES = "REVIEW_RESULT: APPROVED\n"
NO_NOTES = "there is no REVIEW_NOTES section"
FEW = "the notes touch 1 of 4 evidence groups, 3 are needed; missing: "
NO_GROUPS = replace(ANALYST_REVIEW, evidence={})
LENIENT = replace(RULES, require_evidence=False)


@pytest.mark.parametrize(
    ("text", "role", "cycle", "rules", "against"),
    [
        (approval("analyst_review"), ANALYST_REVIEW, 2, RULES, ""),
        (approval("analyst_review"), ANALYST_REVIEW, 1, RULES, EARLY),
        (
            review("APPROVED", "The proposal is fine."),
            ANALYST_REVIEW,
            2,
            RULES,
            f"{FEW}traceability, downstream contracts, handoff",
        ),
        (WITHOUT_NOTES, ANALYST_REVIEW, 2, LENIENT, ""),
        (WITHOUT_NOTES, ANALYST_REVIEW, 1, RULES, f"{EARLY}; {NO_NOTES}"),
        (WITHOUT_NOTES, NO_GROUPS, 2, RULES, NO_NOTES),
        (review("APPROVED", "fine"), NO_GROUPS, 2, RULES, ""),
    ],
)
def test_an_approval_counts_if_it_is_not_early_and_has_evidence(
    text: str, role: Role, cycle: int, rules: ReviewRules, against: str
) -> None:
    """
    Scenario: Approved with sufficient analyst evidence on cycle 2
    Scenario: Approved rejected on cycle 1
    Scenario: Approved rejected with insufficient evidence
    Scenario: Approved without evidence when evidence check disabled
    """
    verdict = judge_review(text, role, cycle, rules)
    assert str(verdict) == (f"APPROVED does not count: {against}" if against else "APPROVED")
    assert verdict.approved is not bool(against)
    assert verdict.is_early is (against == EARLY)


@pytest.mark.parametrize("role", REVIEWERS)
def test_three_of_four_groups_are_enough_and_two_are_not(role: Role) -> None:
    notes = approval(role.name).split("\n")
    assert judge_review("\n".join(notes[:-1]), role, 2, RULES).approved
    assert not judge_review("\n".join(notes[:-2]), role, 2, RULES).approved


def touched(role: Role, notes: str) -> set[str]:
    """Return the evidence groups that notes touch."""
    met = met_evidence(review("APPROVED", notes), role)
    return {name for name, is_met in met.items() if is_met}


@pytest.mark.parametrize(
    ("role", "group", "words"),
    [
        (ANALYST_REVIEW, "artifacts", "artifact artifacts Proposal DESIGN tasks spec specs"),
        (ANALYST_REVIEW, "traceability", "P1 p2 P4 P1-P4 (P1) P1–P4 traceability Phases"),
        (ANALYST_REVIEW, "downstream contracts", "downstream contracts planner API converter"),
        (
            ANALYST_REVIEW,
            "handoff",
            "handoff Handoffs actionable **concrete** handoff/contractless",
        ),
        (PROGRAMMER_REVIEW, "implementation", "implementations Code tasks change diff files"),
        (PROGRAMMER_REVIEW, "validation", "validation test TESTS command runs pytest"),
        (PROGRAMMER_REVIEW, "risk", "risk risks regression qualities coverage evidence"),
        (PROGRAMMER_REVIEW, "defects", "fix fixes issue defect gap gaps failures"),
    ],
)
def test_words_of_a_group_count(role: Role, group: str, words: str) -> None:
    for word in words.split():
        assert touched(role, f"see {word}, there") == {group}


@pytest.mark.parametrize(
    ("role", "words"),
    [
        (ANALYST_REVIEW, "P5 P12 specific rapid designer capis mytasks"),
        (PROGRAMMER_REVIEW, "prefix latest profile rerunning untested"),
    ],
)
def test_parts_of_words_are_no_evidence(role: Role, words: str) -> None:
    assert touched(role, words) == set()


def test_evidence_counts_only_in_the_notes() -> None:
    text = f"{ANALYST_NOTES}\nREVIEW_NOTES:\nfine\nREVIEW_RESULT: APPROVED\n{ANALYST_NOTES}"
    assert not judge_review(text, ANALYST_REVIEW, 2, RULES).approved


@pytest.mark.parametrize("label", ["ANALYST_SUMMARY", "PROGRAMMER_SUMMARY"])
@pytest.mark.parametrize("before", ["fine", "the proposal"])
def test_a_copy_of_the_reviewed_text_is_no_evidence(label: str, before: str) -> None:
    text = f"REVIEW_RESULT: APPROVED\nREVIEW_NOTES:\n{before}\n\n{label}:\n{ANALYST_NOTES}"
    verdict = judge_review(text, ANALYST_REVIEW, 2, RULES)
    assert len(verdict.obstacles) == 1
    assert ("artifacts" in str(verdict)) == (before == "fine")


@pytest.mark.parametrize(
    "line",
    [
        "REVIEW_RESULT: APPROVED|REVISE",
        "REVIEW_RESULT: REVISE, APPROVED",
        "REVIEW_RESULT: REVISE or REVIEW_RESULT: APPROVED",
        "REVIEW_RESULT: APPROVED <or not>",
        "REVIEW_RESULT: APPROVED?",
        "REVIEW_RESULT: APPROVED only after the fix",
        "REVIEW_RESULT: NOT APPROVED",
        "`REVIEW_RESULT: APPROVED` is what you want to read",
        "> I would say REVIEW_RESULT: APPROVED",
        "~~~text\nREVIEW_RESULT: APPROVED\n~~~",
        "```\nREVIEW_RESULT: APPROVED",
    ],
)
def test_what_only_looks_like_a_verdict_is_none(line: str) -> None:
    assert answer(line) is None
    assert answer(f"REVIEW_RESULT: REVISE\n{line}\nbye") is False


@pytest.mark.parametrize(
    "line", ["REVIEW_RESULT: REVISE", "**review_result: revise**", "REVIEW_RESULT: REVISE because"]
)
def test_the_last_verdict_wins(line: str) -> None:
    assert answer(f"REVIEW_RESULT: APPROVED\n{line}") is False
    assert answer(f"{line}\nREVIEW_RESULT: APPROVED") is True
    verdict = judge_review(line, ANALYST_REVIEW, 1, RULES)
    assert verdict == Verdict(REVIEW_FORM, False, (), "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RESULT: PASS", True),
        ("**Result: pass**", True),
        ("RESULT: FAIL", False),
        ("RESULT: FAILED (2 of 3 pass)", False),
        ("RESULT: PASS\nRESULT: FAIL because of one step", False),
        ("RESULT: FAIL\r\n- RESULT: PASS\r\n", True),
        ("RESULT: PASS|FAIL", None),
        ("RESULT: PASS is not possible", None),
        ("RESULT: PASSING", None),
        ("REVIEW_RESULT: PASS", None),
        ("", None),
    ],
)
def test_the_verdict_of_a_test(text: str, expected: bool | None) -> None:
    assert judge_test(text).positive is expected


FORMS = {"RESULT: PASS": TEST_FORM, "REVIEW_RESULT: APPROVED": REVIEW_FORM}
AROUND = [("", ""), ("`", "`"), ("„", "“")]
EMPHASIS = ["", "**", "`**"]
BEFORE = ["", "> - ", "## "]


@pytest.mark.parametrize("word", ["PASS", "FAIL"])
def test_a_verdict_counts_however_the_whole_line_is_dressed(word: str) -> None:
    for before, marks, (opened, closed), end in product(BEFORE, EMPHASIS, AROUND, ["", " ✅"]):
        back = marks[::-1]
        for line in (
            f"{before}{marks}{opened}RESULT: {word}{closed}{back}{end}",
            f"{before}{opened}{marks}RESULT:{back} {word}{closed}{end}",
            f"{before}RESULT: {marks}{opened}{word}{closed}{back}{end}",
            f"{before}{marks}RESULT{back}: {opened}{word}{closed}{end}",
        ):
            assert str(judge_test(f"I ran it.\n{line}\nbye")) == word, line
            assert judge_test(f"```\n{line}\n```").positive is None


@pytest.mark.parametrize(
    "quoted", ["> RESULT: {}", "`RESULT: {}`", "“RESULT: {}”", "> **RESULT: {}**"]
)
@pytest.mark.parametrize(("own", "other"), [("PASS", "FAIL"), ("FAIL", "PASS")])
def test_a_quoted_verdict_never_stands_against_one_that_is_not(
    own: str, other: str, quoted: str
) -> None:
    lines = [f"RESULT: {own}", quoted.format(other)]
    assert str(judge_test("\n".join(lines))) == own
    assert str(judge_test("\n".join(lines[::-1]))) == own
    assert str(judge_test("\n".join([lines[1], quoted.format(own)]))) == own


@pytest.mark.parametrize(
    "line",
    [
        "RESULT: PASS with remarks",
        "**RESULT: PASS with remarks**",
        "`RESULT: PASS with remarks`",
        "`RESULT: PASS` in the end",
        "> RESULT: PASS|FAIL",
        "RESULT: unclear",
        "RESULT:",
    ],
)
def test_a_line_that_is_no_clear_verdict_is_named(line: str) -> None:
    verdict = judge_test(f"RESULT: hm\n{line}\nbye")
    assert verdict.positive is None
    assert str(verdict) == f"the line “{line}” is neither PASS nor FAIL, which counts as FAIL"


@pytest.mark.parametrize(
    ("good", "bad"), [("RESULT: PASS", "FAILED"), ("REVIEW_RESULT: APPROVED", "REVISE")]
)
def test_a_verdict_that_takes_itself_back_is_none_and_is_named(good: str, bad: str) -> None:
    texts = ["but see", "not yet", "no, wait", "Or", "if so", "except one", "unless it rains", bad]
    texts += [f"no, {bad}", f"10 {bad}", f"1.0 {bad}", f"{bad}__", f"0 {bad}, 2 {bad}"]
    for between, text in product((", ", " → ", " (", ". ", ", **"), texts):
        line = f"{good}{between}{text}"
        assert find_verdict([line], FORMS[good]) is None, line
        assert find_unclear([line], FORMS[good]) == line


EXPLAINED = [
    *("12 passed, 0 failed", "**0** failed", "0 FAIL", "0 tests failed", "no failures"),
    *("notes below", "tests/test_fail.py", "ordinary", "butter", "0 REVISE"),
]


@pytest.mark.parametrize("more", EXPLAINED)
def test_a_verdict_that_is_only_explained_counts(more: str) -> None:
    for between, good in product((" (", ", ", " - "), FORMS):
        if "REVISE" not in more or good.startswith("REVIEW"):
            assert find_verdict([f"{good}{between}{more}"], FORMS[good]) is not None, more


@pytest.mark.parametrize(
    "text",
    [
        "<!--\nRESULT: PASS\n-->",
        "a <!-- b\nRESULT: PASS\n-->",
        "<!-- one --> <!-- two\nRESULT: PASS\n--> <!--\nRESULT: PASS\n-->",
        "<!--\n```\nRESULT: PASS\n-->\nbye",
        "<!--\nRESULT: PASS",
        "<!-- RESULT: PASS -->",
        "<!--\n--> RESULT: PASS",
    ],
)
def test_a_verdict_in_a_comment_does_not_count(text: str) -> None:
    assert judge_test(text).positive is None
    assert str(judge_test(f"RESULT: FAIL\n{text}")) == "FAIL"


@pytest.mark.parametrize(
    "text",
    [
        "<!-- x -->\nRESULT: PASS",
        "<!--\nx\n-->\nRESULT: PASS",
        "it writes `<!--` now\nRESULT: PASS",
        "```\n<!--\n```\nRESULT: PASS",
        "-->\nRESULT: PASS",
    ],
)
def test_a_verdict_beside_a_comment_counts(text: str) -> None:
    assert str(judge_test(text)) == "PASS"


def test_an_unclear_line_is_shown_in_short_and_without_control_characters() -> None:
    shown = "RESULT: ok[31m" + "x" * 66
    text = f"  RESULT: ok\x1b[31m{'x' * 66}"
    assert judge_test(text).unclear == shown
    assert len(shown) == 80
    assert judge_test(text + "y").unclear == shown + "…"


@pytest.mark.slow
@pytest.mark.parametrize(
    "filler",
    [
        "x", " ", "\n", "*", "- ", "`", "```\n", "1. ", "=", "\0", "\r", ": ", "REVIEW_RESULT: ",
        "APPROVED or ", "REVIEW_RESULT: APPROVED\n", "REVIEW_NOTES:\n", "next ", "<!--\n", "-->\n",
        "APPROVED, ", "0 ", "0 revise ", "no ", "<!-- -->",
    ],
)  # fmt: skip
def test_a_huge_reply_is_judged(filler: str) -> None:
    size = 100_000 if "\n" in filler else 500_000
    text = f"REVIEW_RESULT: {filler * (size // len(filler))}\nREVIEW_RESULT: REVISE"
    assert not judge_review(text, ANALYST_REVIEW, 2, RULES).approved
    text = f"REVIEW_RESULT: APPROVED, {filler * (size // len(filler))}"
    assert judge_review(text, ANALYST_REVIEW, 2, RULES).approved is False
