"""Which lines of a review raise or answer a finding, and how findings are followed."""

import pytest
from msgspec.structs import replace

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
    objection,
    read_findings,
    read_line,
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
    for form in forms:
        ledger = follow(ledger, form)
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
    form = read_findings("\n".join(f"F{n} advisory text {n}" for n in range(1, 300)))
    assert form is not None
    assert [finding.id for finding in form.findings] == [f"F{n}" for n in range(1, 101)]


@pytest.mark.parametrize(
    ("answer", "is_open"), [(FIXED, False), (WITHDRAWN, False), (UNFIXED, True)]
)
def test_an_answer_closes_a_finding_or_keeps_it_open(answer: FindingAnswer, is_open: bool) -> None:
    ledger = after(raising(SUM), answering(F1=answer))
    assert ledger.tracked == (Tracked(SUM, (answer,)),)
    assert bool(ledger.open) is is_open


def test_what_is_closed_is_answered_no_more_unless_it_came_back() -> None:
    closed = after(raising(SUM), answering(F1=FIXED))
    assert follow(closed, answering(F1=FIXED)) == closed
    assert follow(closed, answering(F1=WITHDRAWN)) == closed
    assert follow(closed, answering(F1=UNFIXED)).tracked[0].answers == (FIXED, UNFIXED)


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
    assert ledger.tracked[0] == Tracked(replace(SUM, where=again.where or SUM.where))


def test_the_same_number_with_something_else_is_a_new_finding() -> None:
    other = Finding("F1", True, "src/b.py:1", "It leaks.")
    ledger = after(raising(SUM, NAME), raising(other))
    assert ledger.tracked[2] == Tracked(replace(other, id="F3"))
    assert ids(after(raising(NAME), raising(replace(NAME, text="Other."))).tracked) == ["F2", "F3"]


def test_new_numbers_are_nobodys() -> None:
    first = Finding("F1", True, "b.py:1", "One.")
    third = Finding("F3", True, "b.py:3", "Three.")
    ledger = after(raising(SUM, NAME), raising(first, third))
    assert ids(ledger.tracked) == ["F1", "F2", "F4", "F3"]


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
        assert ledger.tracked == (Tracked(SUM, (answer, UNFIXED)),)
        # Who repeats it beside the answer has not found it again.
        assert after(raising(SUM), ReviewForm((SUM,), {"F1": answer})).open == ()


def test_an_answer_is_to_the_finding_that_was_open_before() -> None:
    other = Finding("F1", True, "src/b.py:1", "It leaks.")
    ledger = after(raising(SUM), ReviewForm((other,), {"F1": FIXED}))
    assert ledger.tracked == (Tracked(SUM, (FIXED,)), Tracked(replace(other, id="F2")))


def test_only_so_many_findings_are_followed_and_the_needed_ones_first() -> None:
    advisory = [Finding(f"F{n}", False, "", f"text {n}") for n in range(1, MOST_FINDINGS + 1)]
    full = after(raising(*advisory), answering(F5=FIXED))
    more = follow(full, raising(Finding("F200", True, "", "x")))
    assert ids(more.tracked) == [f"F{n}" for n in range(1, 101) if n != 5] + ["F200"]
    more = follow(more, raising(Finding("F201", True, "", "y")))
    assert ids(more.tracked)[-3:] == ["F99", "F200", "F201"]
    assert follow(more, raising(Finding("F202", False, "", "z"))) == more


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
    ledger = Findings((Tracked(SUM, answers), Tracked(NAME, answers)))
    assert ids(stalled(ledger)) == (["F1"] if is_stalled else [])
    assert bool(find_stall(ledger, "critic", 0, "")) is is_stalled


def test_why_a_run_does_not_converge_is_one_sentence() -> None:
    twice = (UNFIXED, UNFIXED)
    one = Findings((Tracked(SUM, twice),))
    two = Findings((*one.tracked, Tracked(replace(SUM, id="F4"), twice)))
    assert find_stall(Findings(), "critic", 0, "") == ""
    assert find_stall(two, "critic", 0, "").startswith("Not converging: F1, F4 are still unfixed")
    assert "the last 3 turns of the critic" in find_stall(Findings(), "critic", 3, "")
    assert find_stall(one, "critic", 1, "tests") == (
        "Not converging: F1 is still unfixed after two attempts; the last turn of the critic "
        "changed nothing; the gate `tests` failed twice on the same files."
    )


def test_open_blocking_findings_stand_against_an_approval() -> None:
    assert objection(Findings()) == ""
    assert objection(after(raising(NAME))) == ""
    assert objection(after(raising(SUM, NAME))) == "1 blocking finding is open: F1"
    third = Finding("F3", True, "", "It leaks.")
    ledger = after(raising(SUM, NAME, third))
    assert objection(ledger) == "2 blocking findings are open: F1, F3"
    assert objection(follow(ledger, answering(F1=FIXED, F3=WITHDRAWN))) == ""


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


def test_who_repeats_the_block_says_nothing_new() -> None:
    ledger = after(raising(SUM, NAME))
    form = read_findings(findings_block(ledger))
    assert form == raising(SUM, NAME)
    assert follow(ledger, form) == ledger


WRONG = Finding("F1", True, "src/a.py:12", "The sum is wrong.")


@pytest.mark.parametrize(
    "line",
    [
        "f1 BLOCKING src/a.py:12 The sum is wrong.",
        "- [x] F1 blocking src/a.py:12 The sum is wrong.",
        "### F1 blocking – src/a.py:12 – The sum is wrong.",
        "__F1 blocking__ src/a.py:12 The sum is wrong.",
        "**F1 (blocking)** — `src/a.py:12` — The sum is wrong.",
        "**F1** [blocking] (src/a.py:12): The sum is wrong.",
        "`F1` `blocking` `src/a.py:12` The sum is wrong.",
        "| F1 | blocking | src/a.py:12 | The sum is wrong. |",
        "F1 blocking src/a.py#L12 The sum is wrong.",
        "F1 blocking [src/a.py:12](src/a.py#L12) The sum is wrong.",
        "F1 blocking. src/a.py:12. The sum is wrong.",
        "F1 blocking\tsrc/a.py:12\tThe  sum is\twrong.",
        "F1, F2 blocking src/a.py:12 The sum is wrong.",
    ],
)
def test_a_finding_is_read_however_it_is_decorated(line: str) -> None:
    assert read_line(line) == WRONG


@pytest.mark.parametrize(
    ("line", "severity", "where", "text"),
    [
        ("F1 advisory The name is bad.", "advisory", "", "The name is bad."),
        ("F1 non-blocking a.py:1 x", "advisory", "a.py:1", "x"),
        ("F1 blocking: blocking call in the loop", "blocking", "", "blocking call in the loop"),
        ("F1 blocking a.py#L3-L7 x", "blocking", "a.py:3-7", "x"),
        ("F1 blocking a.py:3:14 x", "blocking", "a.py:3:14", "x"),
        ("F1 blocking a.py:3", "blocking", "a.py:3", ""),
        ("F1 blocking .github/a.yml:3 x", "blocking", ".github/a.yml:3", "x"),
        ("F1 blocking `my files/a.py:3` x", "blocking", "my files/a.py:3", "x"),
        ("F1 blocking 12:30 is late", "blocking", "", "12:30 is late"),
        ("F1 blocking a.py:3x y", "blocking", "", "a.py:3x y"),
        ("F1 blocking", "blocking", "", ""),
        ("F1 blocking call `total()` here", "blocking", "", "call `total()` here"),
        ("F1 blocking call `total()`", "blocking", "", "call `total()`"),
        ("F1 blocking **bold** words", "blocking", "", "bold words"),
        ("F1 blocking Fixed-size buffers overflow", "blocking", "", "Fixed-size buffers overflow"),
        ("F1 blocking fixed sizes overflow", "blocking", "", "fixed sizes overflow"),
        ("F1 blocking <div> is not closed", "blocking", "", "<div> is not closed"),
    ],
)
def test_place_and_text_are_told_apart(line: str, severity: str, where: str, text: str) -> None:
    assert read_line(line) == Finding("F1", severity == "blocking", where, text)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("F1 Fixed.", "fixed"),
        ("- **F1: fixed** (see a.py:3)", "fixed"),
        ("F1 — `unfixed` — it still crashes", "unfixed"),
        ("| F1 | fixed | a.py:3 |", "fixed"),
        ("F1 is now fixed", "fixed"),
        ("F1: still unfixed", "unfixed"),
        ("F1 not fixed", "unfixed"),
        ("F1: NOT-FIXED", "unfixed"),
        ("F1 unfixed, but nearly", "unfixed"),
        ("F1 (blocking): fixed", "fixed"),
        ("| F1 | blocking | unfixed |", "unfixed"),
        ("F1 fixed the rounding is right now", "fixed"),
    ],
)
def test_an_answer_is_read_however_it_is_decorated(line: str, answer: str) -> None:
    assert read_line(line) == {"F1": answer}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "F1",
        "The finding F1 blocking a.py:3 x",
        "See F1 fixed",
        "F1blocking a.py:3 x",
        "F1 blocking-call in the loop",
        "F0 blocking x",
        "F12345 blocking x",
        "F1a fixed",
        "> F1 blocking a.py:3 quoted",
        "> - F1 fixed",
        "F1 blocking|advisory path:line text",
        "`F1 blocking path:line text`",
        "F1 blocking <path>:<line> <text>",
        "F1 fixed|unfixed|withdrawn",
        "F1 `fixed`, `unfixed` or `withdrawn`",
        "F1 fixed or not fixed",
        "F1 fixed, but not for zero",
        "F1 fixed? No.",
        "F1 fixed-size",
        "F1 partially fixed",
        "F1 withdrawn if nobody minds",
    ],
)
def test_what_is_not_in_the_form_says_nothing(line: str) -> None:
    assert read_line(line) is None


def test_a_long_line_is_cut() -> None:
    read = read_line("F1 blocking a.py:3 " + "x" * 100_000)
    assert isinstance(read, Finding)
    assert len(read.text) == 500
    assert read_line(" " * 3000 + "F1 fixed") is None
    read = read_line("F1 blocking a\x1b[2J\x00b\u2028c\ud800")
    assert isinstance(read, Finding)
    assert read.text == "a [2J b c"


@pytest.mark.parametrize("piece", ["F1 ", "F1,", "_", "[x]", "1. ", "`", "F1 and ", "- ", "(["])
def test_a_hostile_line_is_read_in_linear_time(piece: str) -> None:
    assert read_line(piece * 200_000) is None
