"""When a review approves, and when a test passed."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.pipeline.flow import Role
from cli_agent_orchestrator.pipeline.reply import REVIEW_FORM, TEST_FORM, find_unclear, find_verdict
from cli_agent_orchestrator.pipeline.review import (
    ReviewAnswer,
    ReviewVerdict,
    TestAnswer,
    TestVerdict,
    is_review_approved,
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


def answer(text: str) -> ReviewAnswer:
    return judge_review(text, ANALYST_REVIEW, 1, ANYTHING).answer


def test_an_approval_with_evidence_counts_in_cycle_2() -> None:
    """Scenario: Approved with sufficient analyst evidence on cycle 2"""
    assert is_review_approved(approval(ANALYST_REVIEW.name), ANALYST_REVIEW, 2, RULES)


@pytest.mark.parametrize("role", REVIEWERS)
def test_an_approval_in_cycle_1_never_counts(role: Role) -> None:
    """Scenario: Approved rejected on cycle 1"""
    verdict = judge_review(approval(role.name), role, 1, RULES)
    assert not is_review_approved(approval(role.name), role, 1, RULES)
    assert verdict.is_early
    assert "cycle 1 is too early" in str(verdict)


def test_an_approval_with_one_evidence_group_does_not_count() -> None:
    """Scenario: Approved rejected with insufficient evidence"""
    text = review("APPROVED", "The proposal is fine.")
    assert not is_review_approved(text, ANALYST_REVIEW, 2, RULES)


def test_without_the_evidence_rule_an_approval_needs_no_notes() -> None:
    """Scenario: Approved without evidence when evidence check disabled"""
    rules = replace(RULES, require_evidence=False)
    assert is_review_approved("REVIEW_RESULT: APPROVED", ANALYST_REVIEW, 2, rules)


def test_missing_evidence_is_named() -> None:
    text = review("APPROVED", "The design and the tests are fine.")
    verdict = judge_review(text, PROGRAMMER_REVIEW, 2, RULES)
    assert not verdict.is_early
    assert str(verdict) == (
        "APPROVED does not count: the notes touch 1 of 4 evidence groups, 3 are needed; "
        "missing: implementation, risk, defects"
    )


def test_missing_notes_are_named() -> None:
    verdict = judge_review("REVIEW_RESULT: APPROVED\n", ANALYST_REVIEW, 1, RULES)
    assert not verdict.is_early
    assert str(verdict) == (
        "APPROVED does not count: cycle 1 is too early, an approval counts from cycle 2 on; "
        "there is no REVIEW_NOTES section"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no verdict at all", "no REVIEW_RESULT line, which counts as REVISE"),
        ("REVIEW_RESULT: REVISE", "REVISE"),
        (approval(ANALYST_REVIEW.name), "APPROVED"),
    ],
)
def test_a_verdict_can_be_shown(text: str, words: str) -> None:
    assert str(judge_review(text, ANALYST_REVIEW, 2, RULES)) == words


def test_without_evidence_groups_notes_are_enough() -> None:
    role = replace(ANALYST_REVIEW, evidence={})
    assert is_review_approved(review("APPROVED", "fine"), role, 2, RULES)
    assert not is_review_approved("REVIEW_RESULT: APPROVED", role, 2, RULES)


@pytest.mark.parametrize("role", REVIEWERS)
def test_three_of_four_groups_are_enough_and_two_are_not(role: Role) -> None:
    notes = approval(role.name).split("\n")
    assert is_review_approved("\n".join(notes[:-1]), role, 2, RULES)
    assert not is_review_approved("\n".join(notes[:-2]), role, 2, RULES)


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


def test_next_step_is_one_word_of_evidence() -> None:
    assert touched(ANALYST_REVIEW, "The next\n  steps are clear") == {"handoff"}


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
    assert not is_review_approved(text, ANALYST_REVIEW, 2, RULES)


@pytest.mark.parametrize("label", ["ANALYST_SUMMARY", "PROGRAMMER_SUMMARY"])
@pytest.mark.parametrize("before", ["fine", "the proposal"])
def test_a_copy_of_the_reviewed_text_is_no_evidence(label: str, before: str) -> None:
    text = f"REVIEW_RESULT: APPROVED\nREVIEW_NOTES:\n{before}\n\n{label}:\n{ANALYST_NOTES}"
    verdict = judge_review(text, ANALYST_REVIEW, 2, RULES)
    assert len(verdict.obstacles) == 1
    assert ("artifacts" in str(verdict)) == (before == "fine")


def test_notes_may_be_empty_and_end_on_the_next_line() -> None:
    text = f"REVIEW_RESULT: APPROVED\nREVIEW_NOTES:\nANALYST_SUMMARY:\n{ANALYST_NOTES}"
    assert not is_review_approved(text, ANALYST_REVIEW, 2, RULES)


def test_evidence_may_stand_on_the_line_of_the_label_and_below_headings() -> None:
    text = (
        "## REVIEW_NOTES: the proposal was read\n### Tracing\nP1 has its place\n"
        "### Downstream\nno contract\n\n**REVIEW_RESULT: APPROVED**"
    )
    assert is_review_approved(text, ANALYST_REVIEW, 2, RULES)


@pytest.mark.parametrize(
    "line",
    [
        "REVIEW_RESULT: APPROVED",
        "review_result: approved",
        "REVIEW_RESULT : Approved.",
        "**REVIEW_RESULT:** APPROVED",
        "**REVIEW_RESULT**: **APPROVED**",
        "__REVIEW_RESULT: APPROVED__",
        "* **REVIEW_RESULT:** APPROVED ✅",
        "\tREVIEW_RESULT: APPROVED (see the notes)",
        "REVIEW_RESULT: APPROVED - nothing open, no issues",
        "REVIEW_RESULT: APPROVED (no issues)",
        "\ufeffREVIEW_RESULT: APPROVED\r",
        "REVIEW_\0RESULT: APPROVED\0",
    ],
)
def test_an_approval_is_read_in_every_dress(line: str) -> None:
    assert answer(line) is ReviewAnswer.APPROVED
    assert answer(f"REVIEW_RESULT: REVISE\r\n{line}\r\nbye\r\n") is ReviewAnswer.APPROVED


@pytest.mark.parametrize(
    "line",
    [
        "REVIEW_RESULT: APPROVED|REVISE",
        "REVIEW_RESULT: APPROVED/REVISE",
        "REVIEW_RESULT: **APPROVED** or **REVISE**",
        "REVIEW_RESULT: REVISE, APPROVED",
        "REVIEW_RESULT: REVISE or REVIEW_RESULT: APPROVED",
        "REVIEW_RESULT: APPROVED <or not>",
        "REVIEW_RESULT: APPROVED?",
        "REVIEW_RESULT: APPROVED only after the fix",
        "REVIEW_RESULT: APPROVEDLY",
        "REVIEW_RESULT: NOT APPROVED",
        "REVIEW_RESULT:",
        "`REVIEW_RESULT: APPROVED` is what you want to read",
        "“REVIEW_RESULT: APPROVED”, or so they say",
        "> I would say REVIEW_RESULT: APPROVED",
        "REVIEW_RESULTS: APPROVED",
        "~~~text\nREVIEW_RESULT: APPROVED\n~~~",
        "```\nREVIEW_RESULT: APPROVED",
    ],
)
def test_what_only_looks_like_a_verdict_is_none(line: str) -> None:
    assert answer(line) is ReviewAnswer.MISSING
    assert answer(f"REVIEW_RESULT: REVISE\n{line}\nbye") is ReviewAnswer.REVISE


@pytest.mark.parametrize(
    "line", ["REVIEW_RESULT: REVISE", "**review_result: revise**", "REVIEW_RESULT: REVISE because"]
)
def test_the_last_verdict_wins(line: str) -> None:
    assert answer(f"REVIEW_RESULT: APPROVED\n{line}") is ReviewAnswer.REVISE
    assert answer(f"{line}\nREVIEW_RESULT: APPROVED") is ReviewAnswer.APPROVED
    verdict = judge_review(line, ANALYST_REVIEW, 1, RULES)
    assert verdict == ReviewVerdict(ReviewAnswer.REVISE, (), "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RESULT: PASS", TestAnswer.PASS),
        ("**Result: pass**", TestAnswer.PASS),
        ("### RESULT: PASSED", TestAnswer.PASS),
        ("RESULT: FAIL", TestAnswer.FAIL),
        ("RESULT: FAILED (2 of 3 pass)", TestAnswer.FAIL),
        ("RESULT: PASS\nRESULT: FAIL because of one step", TestAnswer.FAIL),
        ("RESULT: FAIL\r\n- RESULT: PASS\r\n", TestAnswer.PASS),
        ("RESULT: PASS|FAIL", TestAnswer.MISSING),
        ("RESULT: <PASS or FAIL>", TestAnswer.MISSING),
        ("RESULT: PASS is not possible", TestAnswer.MISSING),
        ("RESULT: PASSING", TestAnswer.MISSING),
        ("REVIEW_RESULT: PASS", TestAnswer.MISSING),
        ("TEST RESULT: PASS", TestAnswer.MISSING),
        ("```\nRESULT: PASS\n```", TestAnswer.MISSING),
        ("", TestAnswer.MISSING),
    ],
)
def test_the_verdict_of_a_test(text: str, expected: TestAnswer) -> None:
    assert judge_test(text).answer is expected
    assert expected is TestAnswer.MISSING or judge_test(text) == TestVerdict(expected, "")


FORMS = {"RESULT: PASS": TEST_FORM, "REVIEW_RESULT: APPROVED": REVIEW_FORM}
AROUND = [("", ""), ("`", "`"), ("'", "'"), ("„", "“"), ("«", "»")]
EMPHASIS = ["", "**", "`**"]
BEFORE = ["", ">", "> - ", "1. ", "## "]


@pytest.mark.parametrize("word", ["PASS", "FAIL"])
def test_a_verdict_counts_however_the_whole_line_is_dressed(word: str) -> None:
    for before, marks, (opened, closed), end in product(BEFORE, EMPHASIS, AROUND, ["", ".", " ✅"]):
        back = marks[::-1]
        for line in (
            f"{before}{marks}{opened}RESULT: {word}{closed}{back}{end}",
            f"{before}{opened}{marks}RESULT:{back} {word}{closed}{end}",
            f"{before}RESULT: {marks}{opened}{word}{closed}{back}{end}",
            f"{before}{marks}RESULT{back}: {opened}{word}{closed}{end}",
        ):
            assert str(judge_test(f"I ran it.\n{line}\nbye")) == word, line
            assert judge_test(f"```\n{line}\n```").answer is TestAnswer.MISSING


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
    verdict = judge_test(f"It works.\n{line}\nbye")
    assert verdict.answer is TestAnswer.MISSING
    assert str(verdict) == f"the line “{line}” is neither PASS nor FAIL, which counts as FAIL"


def test_a_review_that_is_no_clear_verdict_is_named() -> None:
    text = "REVIEW_RESULT: maybe\n- REVIEW_RESULT: APPROVED with remarks"
    assert str(judge_review(text, ANALYST_REVIEW, 2, RULES)) == (
        "the line “- REVIEW_RESULT: APPROVED with remarks” is neither APPROVED nor REVISE, "
        "which counts as REVISE"
    )


BETWEEN = [", ", "; ", " - ", " – ", " → ", " & ", "=", " (", " [ ] ", ". ", " 😀 ", ", **"]


@pytest.mark.parametrize(
    ("good", "bad"),
    [("RESULT: PASS", word) for word in ("FAIL", "FAILED", "FAILING")]
    + [("REVIEW_RESULT: APPROVED", word) for word in ("REVISE", "REVISED")],
)
def test_a_verdict_that_takes_itself_back_is_none_and_is_named(good: str, bad: str) -> None:
    texts = ["but see", "not", "not yet", "no", "no, wait", "Or", "if so"]
    texts += ["except one", "unless it rains", bad, f"no, {bad}", f"3, {bad}: 2", f"10 {bad}"]
    texts += [f"1.0 {bad}", f"or {bad})", f"{bad}__", f"0 {bad}, 2 {bad}", f"but two {bad}"]
    for between, text in product(BETWEEN, texts):
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


def test_a_bad_verdict_counts_whatever_follows_it() -> None:
    for more in ["but it runs", "not PASS", "0 failed", "no"]:
        assert str(judge_test(f"RESULT: FAIL, {more}")) == "FAIL"


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
    assert judge_test(text).answer is TestAnswer.MISSING
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


def test_a_bad_verdict_before_a_comment_counts() -> None:
    assert str(judge_test("RESULT: PASS\nRESULT: FAIL <!-- because\nof this -->")) == "FAIL"


@pytest.mark.parametrize(
    "text", ["RESULT: <PASS or FAIL>", "```\nRESULT: maybe\n```", "the RESULT: good", "RESULT"]
)
def test_what_is_no_result_line_is_not_named(text: str) -> None:
    assert str(judge_test(text)) == "no RESULT line, which counts as FAIL"


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
    assert not is_review_approved(text, ANALYST_REVIEW, 2, RULES)
    text = f"REVIEW_RESULT: APPROVED, {filler * (size // len(filler))}"
    assert is_review_approved(text, ANALYST_REVIEW, 2, RULES) is False


LINES = st.sampled_from(
    [
        "REVIEW_RESULT: APPROVED", "REVIEW_RESULT: REVISE", "REVIEW_NOTES:", "```", "~~~", "text",
        "- artifact P1 downstream handoff", "RESULT: PASS", "RESULT: FAIL", "EVIDENCE:", "",
    ]
)  # fmt: skip


@given(st.lists(LINES, max_size=12), st.integers(1, 3))
def test_line_ends_marks_and_case_change_nothing(lines: list[str], cycle: int) -> None:
    plain = judge_review("\n".join(lines), ANALYST_REVIEW, cycle, RULES)
    dressed = "\ufeff" + "\r\n".join(line.lower() + "\0" for line in lines)
    assert judge_review(dressed, ANALYST_REVIEW, cycle, RULES) == plain


@given(st.text(), st.integers(1, 5), st.sampled_from(REVIEWERS))
def test_no_text_breaks_the_gate(text: str, cycle: int, role: Role) -> None:
    assert is_review_approved(text, role, cycle, RULES) in (True, False)
    assert judge_test(text).answer in TestAnswer


@given(
    st.lists(LINES, max_size=12), st.integers(1, 3), st.integers(0, 4), st.sampled_from(REVIEWERS)
)
def test_stricter_rules_never_approve_more(
    lines: list[str], cycle: int, needed: int, role: Role
) -> None:
    text = "\n".join(lines)
    if is_review_approved(text, role, cycle, ReviewRules(2, True, needed)):
        assert is_review_approved(text, role, cycle, ANYTHING)
        assert "review_result: approved" in text.lower()


@pytest.mark.parametrize("role", REVIEWERS)
@given(st.sets(st.integers(0, 20)))
def test_evidence_is_met_as_an_approval_is_judged(role: Role, chosen: set[int]) -> None:
    names = [name for n, name in enumerate(role.evidence) if n in chosen]
    notes = " and ".join(role.evidence[name][0] for name in names)
    text = f"REVIEW_RESULT: APPROVED\nREVIEW_NOTES: {notes}"
    met = met_evidence(text, role)
    assert list(met) == list(role.evidence)
    assert {name for name, is_met in met.items() if is_met} >= set(names)
    rules = ReviewRules(min_cycles=0, evidence_min_match=len(met))
    assert judge_review(text, role, 1, rules).approved == all(met.values())
    assert not any(met_evidence(notes, role).values()), "there are no notes"
