"""Which lines of a review raise or answer a finding, as models write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.pipeline.review import Finding, one_line, read_line, tidy_id

WRONG = Finding("F1", True, "src/a.py:12", "The sum is wrong.")


@pytest.mark.parametrize(
    "line",
    [
        "f1 BLOCKING src/a.py:12 The sum is wrong.",
        "F01 blocking src/a.py:12 The sum is wrong.",
        "* **F1** blocking `src/a.py:12` The sum is wrong.",
        "  1. F1 blocking src/a.py:12 The sum is wrong.",
        "- [x] F1 blocking src/a.py:12 The sum is wrong.",
        "### F1 blocking – src/a.py:12 – The sum is wrong.",
        "**F1 blocking src/a.py:12 The sum is wrong.**",
        "__F1 blocking__ src/a.py:12 The sum is wrong.",
        "**F1 (blocking)** — `src/a.py:12` — The sum is wrong.",
        "**F1** [blocking] (src/a.py:12): The sum is wrong.",
        "`F1` `blocking` `src/a.py:12` The sum is wrong.",
        "`F1 blocking src/a.py:12 The sum is wrong.`",
        "| F1 | blocking | src/a.py:12 | The sum is wrong. |",
        "🔴 F1 blocking src/a.py:12 The sum is wrong.",
        "F1 blocking src/a.py#L12 The sum is wrong.",
        "F1 blocking [src/a.py:12](src/a.py#L12) The sum is wrong.",
        "F1 blocking. src/a.py:12. The sum is wrong.",
        "F1 blocking\tsrc/a.py:12\tThe  sum is\twrong.",
        "REVIEW_NOTES: F1 blocking src/a.py:12 The sum is wrong.",
        "Findings: F1 blocking src/a.py:12 The sum is wrong.",
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
        ("F1 (non-blocking): x", "advisory", "", "x"),
        ("F1 blocking: blocking call in the loop", "blocking", "", "blocking call in the loop"),
        ("F1 blocking a.py:3-7 x", "blocking", "a.py:3-7", "x"),
        ("F1 blocking a.py#L3-L7 x", "blocking", "a.py:3-7", "x"),
        ("F1 blocking a.py:3:14 x", "blocking", "a.py:3:14", "x"),
        ("F1 blocking a.py:3", "blocking", "a.py:3", ""),
        ("F1 blocking .github/a.yml:3 x", "blocking", ".github/a.yml:3", "x"),
        ("F1 blocking /a/b.py:3 x", "blocking", "/a/b.py:3", "x"),
        ("F1 blocking `my files/a.py:3` x", "blocking", "my files/a.py:3", "x"),
        ("F1 blocking 12:30 is late", "blocking", "", "12:30 is late"),
        ("F1 blocking a.py has no end", "blocking", "", "a.py has no end"),
        ("F1 blocking a.py:3x y", "blocking", "", "a.py:3x y"),
        ("F1 blocking", "blocking", "", ""),
        ("F1 blocking call `total()` here", "blocking", "", "call `total()` here"),
        ("F1 blocking **bold** words", "blocking", "", "bold words"),
        ("F1 blocking Fixed-size buffers overflow", "blocking", "", "Fixed-size buffers overflow"),
        ("F1 blocking fixed sizes overflow", "blocking", "", "fixed sizes overflow"),
        ("F1 blocking <div> is not closed", "blocking", "", "<div> is not closed"),
        ("F1 blocking (see below) x", "blocking", "", "(see below) x"),
    ],
)
def test_place_and_text_are_told_apart(line: str, severity: str, where: str, text: str) -> None:
    assert read_line(line) == Finding("F1", severity == "blocking", where, text)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("F1 Fixed.", "fixed"),
        ("F1 withdrawn", "withdrawn"),
        ("- **F1**: fixed", "fixed"),
        ("- **F1: fixed** (see a.py:3)", "fixed"),
        ("F1 — `unfixed` — it still crashes", "unfixed"),
        ("| F1 | fixed | a.py:3 |", "fixed"),
        ("F1 ✅ fixed", "fixed"),
        ("F1 is now fixed", "fixed"),
        ("F1: still unfixed", "unfixed"),
        ("F1 not fixed", "unfixed"),
        ("F1: NOT-FIXED", "unfixed"),
        ("F1 unfixed, but nearly", "unfixed"),
        ("F1 (blocking): fixed", "fixed"),
        ("F1 (blocking) **fixed** – with a test", "fixed"),
        ("| F1 | blocking | unfixed |", "unfixed"),
        ("F1 fixed the rounding is right now", "fixed"),
        ("F1 fixed no issues left", "fixed"),
    ],
)
def test_an_answer_is_read_however_it_is_decorated(line: str, answer: str) -> None:
    assert read_line(line) == {"F1": answer}


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        ("F1, F2 fixed", ("F1", "F2")),
        ("- **F1**, **F2** and **F10**: fixed", ("F1", "F2", "F10")),
        ("F1/F2 & F3 fixed", ("F1", "F2", "F3")),
        ("F1, F1 fixed", ("F1",)),
    ],
)
def test_several_findings_may_be_answered_at_once(line: str, ids: tuple[str, ...]) -> None:
    assert read_line(line) == dict.fromkeys(ids, "fixed")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "F1",
        "F1 is about rounding",
        "The finding F1 blocking a.py:3 x",
        "See F1 fixed",
        "F1blocking a.py:3 x",
        "F1 blocking-call in the loop",
        "F0 blocking x",
        "F12345 blocking x",
        "F1a fixed",
        "PDF1 fixed",
        "> F1 blocking a.py:3 quoted",
        "> - F1 fixed",
        "“F1 fixed”",
        "F1 blocking|advisory path:line text",
        "F1 blocking or advisory",
        "`F1 blocking path:line text`",
        "F1 advisory <text>",
        "F1 blocking <path>:<line> <text>",
        "F1 fixed|unfixed|withdrawn",
        "F1 `fixed`, `unfixed` or `withdrawn`",
        "F1 fixed or not fixed",
        "F1 fixed, but not for zero",
        "F1 fixed? No.",
        "F1 fixed-size",
        "F1 partially fixed",
        "F1 fixes a.py",
        "F1 withdrawn if nobody minds",
    ],
)
def test_what_is_not_in_the_form_says_nothing(line: str) -> None:
    assert read_line(line) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\x1b[2J\x00b\u2028c\ud800", "a [2J b c"),
        (" a \t b\n", "a b"),
        ("x" * 10, "x" * 10),
        ("x" * 11, "x" * 9 + "…"),
        ("x" * 8 + " yzz", "x" * 8 + "…"),
    ],
)
def test_a_text_becomes_one_short_line(text: str, line: str) -> None:
    assert one_line(text, 10) == line


def test_a_long_line_is_cut() -> None:
    read = read_line("F1 blocking a.py:3 " + "x" * 100_000)
    assert isinstance(read, Finding)
    assert read.text == "x" * 499 + "…"
    assert read_line(" " * 3000 + "F1 fixed") is None


@given(st.text())
def test_a_text_stays_as_it_is_once_it_is_one_line(text: str) -> None:
    line = one_line(text, 20)
    assert one_line(line, 20) == line
    assert len(line) <= 20
    assert not line or line.isprintable()


@given(st.integers(1, 9999))
def test_numbers_are_kept_as_they_are(number: int) -> None:
    assert tidy_id(f"F{number}") == f"F{number}" == tidy_id(f"f{number:04}")
    assert read_line(f"F{number} fixed") == {f"F{number}": "fixed"}


@given(st.from_regex(r"\A[A-Z][a-z]{0,9}( [a-z]{1,9}){1,6}\.\Z"), st.booleans())
def test_any_sentence_can_be_found(text: str, blocking: bool) -> None:
    severity = "blocking" if blocking else "advisory"
    read = read_line(f"- **F7** ({severity}) `a/b.py:3`: {text}")
    assert read == Finding("F7", blocking, "a/b.py:3", text)


@given(st.text(alphabet="F1 *_`:-|.()[]ablockingfxedw\n", max_size=60))
def test_no_line_is_too_much(line: str) -> None:
    read = read_line(line)
    if isinstance(read, Finding):
        assert one_line(read.text, 500) == read.text
    else:
        assert read is None or read


@pytest.mark.parametrize("piece", ["F1 ", "F1,", "_", "[x]", "1. ", "`", "F1 and ", "- ", "(["])
def test_a_hostile_line_is_read_in_linear_time(piece: str) -> None:
    assert read_line(piece * 200_000) is None
