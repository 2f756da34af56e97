"""What the command of a gate came to."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.config import Condensation
from cli_agent_orchestrator.pipeline.check import NO_OUTPUT, CheckResult, evidence_of, page_of
from cli_agent_orchestrator.pipeline.reply import Excerpt

FAILED = CheckResult("make test", 2, "one\ntwo\nthree\n", 60, "/archive/004-gate.md")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "PASS"),
        (2, "FAIL: `make test` ended with exit code 2"),
        (-9, "FAIL: `make test` was ended by signal 9"),
        (None, "FAIL: `make test` did not end within 60 s"),
    ],
)
def test_a_result_can_be_shown(code: int | None, words: str) -> None:
    result = replace(FAILED, exit_code=code)
    assert str(result) == words
    assert result.passed == (code == 0)


def test_the_last_lines_are_handed_on() -> None:
    head = "FAIL: `make test` ended with exit code 2. It wrote:"
    assert evidence_of(FAILED, Condensation(max_feedback_lines=3)) == Excerpt(
        f"{head}\ntwo\nthree", 1, "/archive/004-gate.md"
    )
    assert evidence_of(FAILED, Condensation(max_feedback_lines=1)).text == f"{head}\nthree"
    whole = evidence_of(FAILED, Condensation(review_feedback=False, max_feedback_lines=1))
    assert whole == Excerpt(f"{head}\none\ntwo\nthree", 0, "/archive/004-gate.md")


def test_a_long_line_is_cut_where_it_is_handed_on() -> None:
    for size, shown in ((500, "x" * 500), (501, "x" * 500 + "…")):
        result = replace(FAILED, output="x" * size)
        assert evidence_of(result, Condensation()).text.split("\n")[1] == shown
        assert evidence_of(result, Condensation(review_feedback=False)).text.endswith("x" * size)
        assert "x" * size in page_of(result)


def test_a_silent_command_is_said_to_be_silent() -> None:
    silent = replace(FAILED, output="\n\n")
    assert evidence_of(silent, Condensation()).text.endswith(f"exit code 2. {NO_OUTPUT}")
    assert NO_OUTPUT in page_of(silent)


def test_the_archive_has_everything() -> None:
    assert page_of(FAILED) == (
        "RESULT: FAIL\nCOMMAND: make test\nEXIT_CODE: 2\nEVIDENCE:\none\ntwo\nthree\n"
    )
    assert page_of(replace(FAILED, exit_code=0)).startswith("RESULT: PASS\n")
    assert "EXIT_CODE: none\n" in page_of(replace(FAILED, exit_code=None))


def test_what_a_terminal_would_obey_is_taken_out() -> None:
    output = "\x1b[31mred\x1b[0m\r\n\x1b]0;title\x07a\tb\x00\x08\n\x1b(Bplain"
    text = evidence_of(replace(FAILED, output=output), Condensation()).text
    assert text.split("\n")[1:] == ["red", "a\tb", "plain"]


@given(st.text(), st.integers(1, 9))
def test_any_output_is_bounded_and_printable(output: str, lines: int) -> None:
    excerpt = evidence_of(replace(FAILED, output=output), Condensation(max_feedback_lines=lines))
    assert len(excerpt.text.split("\n")) <= max(lines, 2)
    assert "\x1b" not in excerpt.text
