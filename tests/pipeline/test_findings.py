"""How findings are followed from review to review."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.pipeline.review import (
    MOST_ANSWERS,
    MOST_FINDINGS,
    Finding,
    FindingAnswer,
    Findings,
    ReviewForm,
    Tracked,
    find_stall,
    findings_block,
    follow,
    how_to_raise,
    objection,
    read_findings,
    stalled,
)

FIXED, UNFIXED, WITHDRAWN = FindingAnswer.FIXED, FindingAnswer.UNFIXED, FindingAnswer.WITHDRAWN
SUM = Finding("F1", True, "src/a.py:12", "The sum is wrong.")
NAME = Finding("F2", False, "", "The name says too little.")
REVIEW = """REVIEW_RESULT: REVISE
REVIEW_NOTES:
- The design was checked.
- **F1** blocking `src/a.py:12`: The sum is wrong.
- **F2** advisory: The name says too little.
"""


def raising(*findings: Finding) -> ReviewForm:
    return ReviewForm(findings, {})


def answering(**answers: FindingAnswer) -> ReviewForm:
    return ReviewForm((), answers)


def after(*forms: ReviewForm) -> Findings:
    """Return the ledger after these reviews, one a cycle."""
    ledger = Findings()
    for number, form in enumerate(forms):
        ledger = follow(ledger, form, 1, 1 + number)
    return ledger


def ids(tracked: tuple[Tracked, ...]) -> list[str]:
    return [entry.finding.id for entry in tracked]


def test_a_review_in_the_form_is_read() -> None:
    assert read_findings(REVIEW) == ReviewForm((SUM, NAME), {})


def test_answers_are_read_and_the_last_word_counts() -> None:
    reply = "F1 unfixed at first\nF2, F3: withdrawn\nF1 fixed\n"
    assert read_findings(reply) == ReviewForm((), {"F1": FIXED, "F2": WITHDRAWN, "F3": WITHDRAWN})


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "REVIEW_RESULT: APPROVED\nREVIEW_NOTES:\n- no findings, F1 to F3 are all right",
        "```\nF1 blocking a.py:3 x\n```",
        "- ~~~text\n  F1 fixed\n  ~~~",
        "<!--\nF1 fixed\n-->",
        "> F1 blocking a.py:3 x",
        "F1 fixed|unfixed|withdrawn",
        "```\nF1 blocking not closed",
    ],
)
def test_a_review_in_other_words_does_not_follow_the_form(reply: str) -> None:
    assert read_findings(reply) is None


def test_a_finding_may_have_its_text_on_the_next_line() -> None:
    reply = "### F1 blocking src/a.py:12\n\n  - **The sum** is wrong.\nMore.\n"
    assert read_findings(reply) == raising(SUM)
    assert read_findings("F1 blocking\nREVIEW_RESULT: REVISE") == raising(
        Finding("F1", True, "", "")
    )
    assert read_findings("F1 blocking a.py:1\nF2 advisory b\nc") == raising(
        Finding("F1", True, "a.py:1", ""), Finding("F2", False, "", "b")
    )
    assert read_findings("F1 blocking a.py:1\nF2 fixed\nc") == ReviewForm(
        (Finding("F1", True, "a.py:1", ""),), {"F2": FIXED}
    )


def test_a_finding_that_is_told_twice_is_one() -> None:
    assert read_findings(REVIEW + REVIEW) == ReviewForm((SUM, NAME), {})


def test_only_so_many_findings_are_read() -> None:
    lines = [f"F{n} advisory text {n}" for n in range(1, 300)]
    form = read_findings("\n".join(lines))
    assert form is not None
    assert [finding.id for finding in form.findings] == [f"F{n}" for n in range(1, 101)]


def test_new_findings_are_open() -> None:
    ledger = follow(Findings(), raising(SUM, NAME), 2, 3)
    assert ledger.tracked == (Tracked(SUM, 3, 2), Tracked(NAME, 3, 2))
    assert ledger.open == ledger.tracked
    assert ids(ledger.open_blocking) == ["F1"]


@pytest.mark.parametrize(
    ("answer", "is_open"), [(FIXED, False), (WITHDRAWN, False), (UNFIXED, True)]
)
def test_an_answer_closes_a_finding_or_keeps_it_open(answer: FindingAnswer, is_open: bool) -> None:
    ledger = after(raising(SUM), answering(F1=answer))
    assert ledger.tracked == (Tracked(SUM, 1, 1, (answer,)),)
    assert bool(ledger.open) is is_open


def test_a_finding_without_an_answer_stays_as_it_was() -> None:
    ledger = after(raising(SUM, NAME), answering(F2=FIXED), answering())
    assert ledger.tracked == (Tracked(SUM, 1, 1), Tracked(NAME, 1, 1, (FIXED,)))
    assert ids(ledger.open) == ["F1"]


def test_answers_to_unknown_numbers_are_ignored() -> None:
    assert after(raising(SUM), answering(F7=FIXED)) == after(raising(SUM))
    assert after(ReviewForm((SUM,), {"F1": FIXED})) == after(raising(SUM))


def test_what_is_closed_is_answered_no_more_unless_it_came_back() -> None:
    closed = after(raising(SUM), answering(F1=FIXED))
    assert follow(closed, answering(F1=FIXED), 1, 3) == closed
    assert follow(closed, answering(F1=WITHDRAWN), 1, 3) == closed
    assert follow(closed, answering(F1=UNFIXED), 1, 3).tracked[0].answers == (FIXED, UNFIXED)


@pytest.mark.parametrize(
    "again",
    [
        SUM,
        replace(SUM, text="Rounded twice."),
        replace(SUM, where="src/a.py:15"),
        replace(SUM, text="THE SUM IS WRONG."),
        replace(SUM, where="", text=""),
    ],
)
def test_the_same_number_and_place_or_text_is_the_old_finding(again: Finding) -> None:
    ledger = after(raising(SUM, NAME), raising(again))
    assert ids(ledger.tracked) == ["F1", "F2"]
    assert ledger.tracked[0] == Tracked(replace(SUM, where=again.where or SUM.where), 1, 1)


def test_the_same_number_with_something_else_is_a_new_finding() -> None:
    other = Finding("F1", True, "src/b.py:1", "It leaks.")
    ledger = after(raising(SUM, NAME), raising(other))
    assert ledger.tracked[2] == Tracked(replace(other, id="F3"), 2, 1)
    assert ids(after(raising(NAME), raising(replace(NAME, text="Other."))).tracked) == ["F2", "F3"]


def test_new_numbers_are_nobodys() -> None:
    first = Finding("F1", True, "b.py:1", "One.")
    third = Finding("F3", True, "b.py:3", "Three.")
    ledger = after(raising(SUM, NAME), raising(first, third))
    assert ids(ledger.tracked) == ["F1", "F2", "F4", "F3"]


def test_a_number_is_given_even_if_the_largest_is_taken() -> None:
    last = Finding("F9999", True, "", "Last.")
    ledger = after(raising(SUM, last), raising(replace(last, text="Other.")))
    assert ids(ledger.tracked) == ["F1", "F9999", "F2"]


def test_the_same_finding_with_another_number_is_the_old_one_while_it_is_open() -> None:
    again = replace(SUM, id="F9")
    assert after(raising(SUM), raising(again)) == after(raising(SUM))
    assert ids(after(raising(SUM), answering(F1=FIXED), raising(again)).tracked) == ["F1", "F9"]
    moved = replace(again, where="b.py:1")
    assert ids(after(raising(SUM), raising(moved)).tracked) == ["F1", "F9"]
    untold = Finding("F9", True, SUM.where, "")
    assert ids(after(raising(replace(SUM, text="")), raising(untold)).tracked) == ["F1", "F9"]


def test_a_closed_finding_that_is_found_again_is_unfixed() -> None:
    for answer in (FIXED, WITHDRAWN):
        ledger = after(raising(SUM), answering(F1=answer), raising(SUM))
        assert ledger.tracked == (Tracked(SUM, 1, 1, (answer, UNFIXED)),)


def test_a_finding_that_is_repeated_with_its_answer_has_that_answer() -> None:
    ledger = after(raising(SUM), ReviewForm((SUM,), {"F1": FIXED}))
    assert ledger.tracked == (Tracked(SUM, 1, 1, (FIXED,)),)


def test_an_answer_is_to_the_finding_that_was_open_before() -> None:
    other = Finding("F1", True, "src/b.py:1", "It leaks.")
    ledger = after(raising(SUM), ReviewForm((other,), {"F1": FIXED}))
    assert ledger.tracked == (
        Tracked(SUM, 1, 1, (FIXED,)),
        Tracked(replace(other, id="F2"), 2, 1),
    )


def test_a_reviewer_may_change_its_mind_about_how_much_it_matters() -> None:
    ledger = after(raising(SUM), raising(replace(SUM, blocking=False)))
    assert ids(ledger.open) == ["F1"]
    assert ledger.open_blocking == ()


def test_only_so_many_findings_are_followed_and_the_needed_ones_first() -> None:
    advisory = [Finding(f"F{n}", False, "", f"text {n}") for n in range(1, MOST_FINDINGS + 1)]
    full = after(raising(*advisory), answering(F5=FIXED))
    more = follow(full, raising(Finding("F200", True, "", "x")), 1, 3)
    assert ids(more.tracked) == [f"F{n}" for n in range(1, 101) if n != 5] + ["F200"]
    more = follow(more, raising(Finding("F201", True, "", "y")), 1, 4)
    assert ids(more.tracked)[-3:] == ["F99", "F200", "F201"]
    assert follow(more, raising(Finding("F202", False, "", "z")), 1, 5) == more


def test_only_the_last_answers_are_kept() -> None:
    ledger = after(raising(SUM), *[answering(F1=UNFIXED)] * 30, answering(F1=FIXED))
    assert len(ledger.tracked[0].answers) == MOST_ANSWERS
    assert ledger.tracked[0].answers[-1] is FIXED


@pytest.mark.parametrize(
    ("answers", "is_stalled"),
    [
        ((), False),
        ((UNFIXED,), False),
        ((UNFIXED, UNFIXED), True),
        ((UNFIXED, UNFIXED, UNFIXED), True),
        ((UNFIXED, FIXED, UNFIXED), True),
        ((UNFIXED, UNFIXED, FIXED), False),
        ((UNFIXED, UNFIXED, WITHDRAWN), False),
    ],
)
def test_a_blocking_finding_that_is_unfixed_twice_is_stalled(
    answers: tuple[FindingAnswer, ...], is_stalled: bool
) -> None:
    ledger = Findings((Tracked(SUM, 1, 1, answers), Tracked(NAME, 1, 1, answers)))
    assert ids(stalled(ledger)) == (["F1"] if is_stalled else [])
    assert bool(find_stall(ledger, "critic", 0, "")) is is_stalled


def test_why_a_run_does_not_converge_is_one_sentence() -> None:
    twice = (UNFIXED, UNFIXED)
    one = Findings((Tracked(SUM, 1, 1, twice),))
    two = Findings((*one.tracked, Tracked(replace(SUM, id="F4"), 1, 1, twice)))
    assert find_stall(Findings(), "critic", 0, "") == ""
    assert find_stall(one, "critic", 0, "") == (
        "Not converging: F1 is still unfixed after two attempts."
    )
    assert find_stall(two, "critic", 0, "") == (
        "Not converging: F1, F4 are still unfixed after two attempts."
    )
    assert find_stall(Findings(), "critic", 1, "") == (
        "Not converging: the last turn of the critic changed nothing."
    )
    assert find_stall(Findings(), "critic", 3, "") == (
        "Not converging: the last 3 turns of the critic changed nothing."
    )
    assert find_stall(Findings(), "critic", 0, "tests\x1b\n") == (
        "Not converging: the gate `tests` failed twice on the same files."
    )
    assert find_stall(one, "critic", 1, "tests") == (
        "Not converging: F1 is still unfixed after two attempts; the last turn of the critic "
        "changed nothing; the gate `tests` failed twice on the same files."
    )
    assert len(find_stall(Findings(), "critic", 0, "x" * 999)) < 200


def test_open_blocking_findings_stand_against_an_approval() -> None:
    assert objection(Findings()) == ""
    assert objection(after(raising(NAME))) == ""
    assert objection(after(raising(SUM, NAME))) == "1 blocking finding is open: F1"
    third = Finding("F3", True, "", "It leaks.")
    ledger = after(raising(SUM, NAME, third))
    assert objection(ledger) == "2 blocking findings are open: F1, F3"
    assert objection(follow(ledger, answering(F1=FIXED, F3=WITHDRAWN), 1, 2)) == ""


def test_author_and_reviewer_are_told_what_is_open() -> None:
    third = Finding("F3", True, "", "It leaks.")
    block = findings_block(after(raising(SUM, NAME, third), answering(F3=FIXED)))
    lines = block.split("\n")
    assert lines[:3] == [
        "F1 blocking src/a.py:12 The sum is wrong.",
        "F2 advisory The name says too little.",
        "",
    ]
    assert "F4 blocking path:line text" in lines[-1]
    assert all(f"`{answer}`" in block for answer in FindingAnswer)
    assert findings_block(Findings()) == ""
    assert findings_block(after(raising(SUM), answering(F1=FIXED))) == ""


def test_a_reviewer_is_asked_for_the_form_from_the_beginning() -> None:
    assert "`F1 blocking path:line text`" in how_to_raise(Findings())
    assert read_findings(how_to_raise(Findings())) is None


def test_who_repeats_the_block_says_nothing_new() -> None:
    ledger = after(raising(SUM, NAME))
    form = read_findings(findings_block(ledger))
    assert form == raising(SUM, NAME)
    assert follow(ledger, form, 1, 2) == ledger


TEXTS = st.sampled_from(["", "The sum is wrong.", "It leaks.", "the sum is wrong."])
FINDINGS = st.builds(
    Finding,
    st.integers(1, 5).map("F{}".format) | st.just("F9999"),
    st.booleans(),
    st.sampled_from(["", "a.py:1", "b.py:2"]),
    TEXTS,
)
ANSWERS: st.SearchStrategy[Mapping[str, FindingAnswer]] = st.dictionaries(
    st.integers(1, 6).map("F{}".format), st.sampled_from(FindingAnswer), max_size=4
)
FORMS = st.builds(ReviewForm, st.lists(FINDINGS, max_size=5).map(tuple), ANSWERS)
LEDGERS = st.lists(FORMS, max_size=6).map(lambda forms: after(*forms))


@given(LEDGERS, FORMS)
def test_nothing_that_is_followed_is_lost_or_renumbered(ledger: Findings, form: ReviewForm) -> None:
    later = follow(ledger, form, 1, 9)
    assert ids(later.tracked)[: len(ledger.tracked)] == ids(ledger.tracked)
    assert len(set(ids(later.tracked))) == len(later.tracked)
    for old, new in zip(ledger.tracked, later.tracked, strict=False):
        assert (new.raised, new.round, new.finding.text) == (
            old.raised,
            old.round,
            old.finding.text,
        )
        assert len(new.answers) - len(old.answers) in (0, 1)


@given(LEDGERS, FORMS)
def test_a_finding_is_closed_only_by_its_answer(ledger: Findings, form: ReviewForm) -> None:
    later = follow(ledger, form, 1, 9)
    for old, new in zip(ledger.tracked, later.tracked, strict=False):
        if old.is_open and not new.is_open:
            assert form.answers[old.finding.id] in (FIXED, WITHDRAWN)


@given(LEDGERS, FORMS)
def test_what_a_review_raises_is_open_afterwards_or_answered(
    ledger: Findings, form: ReviewForm
) -> None:
    later = follow(ledger, form, 1, 9)
    known = {e.finding.text.casefold() for e in later.open}
    for finding in form.findings:
        if finding.id not in form.answers and finding.text and finding.where:
            same = [e for e in later.open if e.finding.id == finding.id]
            assert same or finding.text.casefold() in known


@given(LEDGERS)
def test_the_block_can_be_read_back(ledger: Findings) -> None:
    form = read_findings(findings_block(ledger))
    told = [entry.finding.id for entry in ledger.open]
    assert [f.id for f in form.findings] == told if form else not told
    assert bool(objection(ledger)) is bool(ledger.open_blocking)


@given(st.text(alphabet="F12 blockingadvisoryfixedunwithdrawn.:py`*-\n", max_size=200))
def test_any_reply_can_be_read_and_followed(reply: str) -> None:
    form = read_findings(reply)
    if form is not None:
        follow(Findings(), form, 1, 1)
