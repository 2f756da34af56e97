"""What the command of a gate came to."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.gates.check import (
    NO_OUTPUT,
    BaseResult,
    CheckResult,
    base_of,
    doubt_on_base,
    evidence_of,
    judge_check,
    last_line,
    page_of,
    refusal_on_base,
    resume_with_another,
)
from cli_agent_orchestrator.gates.counts import TestCounts
from cli_agent_orchestrator.pipeline.condense import extract_test_evidence, first_point
from cli_agent_orchestrator.settings.config import Condensation
from cli_agent_orchestrator.settings.gates import Gate

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


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"exit_code": 127}, "there is no such command"),
        ({"exit_code": 126}, "it cannot be executed"),
        ({"exit_code": None, "fault": "no bwrap"}, "no bwrap"),
    ],
)
def test_a_gate_that_cannot_be_run_on_the_base_is_refused(
    changed: dict[str, Any], why: str
) -> None:
    result = replace(FAILED, **changed)
    refusal = refusal_on_base(Gate("tests", "make test"), result, "k3f9")
    assert doubt_on_base(Gate("tests", "make test"), result) == ""
    start = "the gate tests cannot be run before the first turn: `make test`: "
    assert refusal.startswith(f"{start}{why}; no agent could mend that.")
    resume = resume_with_another(Gate("tests", "make test"), "k3f9")
    assert resume == "cao resume k3f9 --gate tests='COMMAND'"
    assert refusal.endswith(f" Resume with another one: `{resume}`")


def test_a_gate_that_does_not_end_on_the_base_may_be_what_is_to_be_mended() -> None:
    gate, result = Gate("tests", "make test"), replace(FAILED, exit_code=None)
    assert refusal_on_base(gate, result) == ""
    assert doubt_on_base(gate, result) == (
        "the gate tests did not end within 60 s before the first turn; unless the task is to mend "
        "that, it needs more time (--gate-timeout, or its `seconds` in cao.toml)"
    )


@pytest.mark.parametrize(("passed", "failed"), [(2, 0), (1, 1)])
def test_a_gate_that_tells_of_packages_only_is_doubted_on_the_base(
    passed: int, failed: int
) -> None:
    result = replace(FAILED, exit_code=0, counts=TestCounts("go", passed, failed, untold=2))
    assert doubt_on_base(Gate("tests", "make test"), result) == (
        "the gate tests does not say how many tests it runs: without -v, `go test` tells of "
        "packages only, and a test that is removed is not missed; let it run `go test -v`"
    )
    assert doubt_on_base(Gate("tests", "make test"), replace(result, counts=counts(2))) == ""


@pytest.mark.parametrize("code", [0, 1, 2, -9, 125, 128])
def test_a_gate_that_only_fails_on_the_base_is_not_refused(code: int) -> None:
    result = replace(FAILED, exit_code=code)
    assert refusal_on_base(Gate("tests", "make test"), result) == ""
    assert doubt_on_base(Gate("tests", "make test"), result) == ""


def test_a_gate_that_counted_tests_was_run_whatever_its_code() -> None:
    result = replace(FAILED, exit_code=127, counts=counts(5))
    assert refusal_on_base(Gate("tests", "make test"), result) == ""


def counts(passed: int, *failures: str, unnamed: int = 0) -> TestCounts:
    errors = {name: f"{name} is wrong" for name in failures[:1]}
    return TestCounts("pytest", passed, len(failures) + unnamed, 0, failures, errors)


def packages(passed: int) -> TestCounts:
    """Return what `go test` tells without -v."""
    return TestCounts("go", passed, 0, untold=passed)


BASE = BaseResult(1, 5, ("a", "b"))
GREEN = replace(FAILED, exit_code=0)


@pytest.mark.parametrize(
    ("result", "base", "allowed", "passed", "words"),
    [
        # tests, and what the exit code says of them
        (replace(GREEN, counts=counts(5)), None, False, True, "PASS (5 tests)"),
        (replace(GREEN, counts=counts(1)), None, False, True, "PASS (1 test)"),
        (replace(GREEN, counts=packages(2)), None, False, True, "PASS (2 packages)"),
        (replace(GREEN, counts=packages(1)), BaseResult(0, 1), False, True, "PASS (1 package)"),
        (
            replace(GREEN, counts=packages(1)),
            BaseResult(0, 2),
            False,
            False,
            "ran 1 package, 2 before the run",
        ),
        # Two tests of one package failed, and another package passed.
        (
            replace(GREEN, counts=packages(2)),
            BaseResult(1, 3, ("a", "b")),
            False,
            True,
            "PASS (2 packages)",
        ),
        (
            replace(GREEN, counts=packages(1)),
            BaseResult(1, 3, ("a", "b")),
            False,
            False,
            "ran 1 package, 2 before the run",
        ),
        (replace(GREEN, counts=counts(0)), None, False, False, "ran no test"),
        (replace(GREEN, counts=counts(4)), BASE, False, False, "ran 4 tests, 5 before the run"),
        (replace(GREEN, counts=counts(5)), BASE, False, True, "PASS (5 tests)"),
        (replace(GREEN, counts=counts(9)), BaseResult(0), False, True, "PASS (9 tests)"),
        (
            replace(GREEN, counts=counts(4, "a")),
            None,
            False,
            False,
            "ended with exit code 0, but 1 of 5 tests failed",
        ),
        # what failed before is told apart, and excused only where that is wanted
        (
            replace(FAILED, exit_code=1, counts=counts(3, "a", "c")),
            BASE,
            False,
            False,
            "exit code 1: 2 of 5 tests failed, 1 of them not before the run (c)",
        ),
        (
            replace(FAILED, exit_code=1, counts=counts(3, "a", "b")),
            BASE,
            False,
            False,
            "exit code 1: 2 of 5 tests failed, as before the run (a, b)",
        ),
        (
            replace(FAILED, exit_code=1, counts=counts(3, "a", "b")),
            BASE,
            True,
            True,
            "PASS (5 tests), 2 tests failing as before the run",
        ),
        (replace(FAILED, exit_code=1, counts=counts(3, "a", "c")), BASE, True, False, "not before"),
        (replace(FAILED, exit_code=2, counts=counts(3, "a")), BASE, True, False, "exit code 2"),
        (replace(FAILED, exit_code=None, counts=counts(4, "a")), BASE, True, False, "60 s"),
        (
            replace(FAILED, exit_code=1, counts=counts(3, "a", unnamed=1)),
            BASE,
            True,
            False,
            "2 of 5 tests failed, as before the run (a)",
        ),
        (
            replace(FAILED, exit_code=1, counts=counts(1, "a", "b")),
            BASE,
            True,
            False,
            "3 tests failed, as before the run (a, b)",
        ),
        (replace(GREEN, counts=counts(4, "a")), BASE, True, False, "exit code 0, but 1 of 5"),
        (
            replace(FAILED, counts=counts(0, "c", "d", "e", "f")),
            BASE,
            False,
            False,
            "4 of 4 tests failed (c, d, e, …)",
        ),
        # tests that have fallen silent
        (GREEN, BASE, False, False, "says nothing of its tests; there were 5 before the run"),
        (GREEN, BaseResult(0, 0), False, True, "PASS"),
        (GREEN, BaseResult(1), False, True, "PASS"),
        (FAILED, BASE, False, False, "ended with exit code 2"),
        # what could not be run
        (replace(FAILED, exit_code=127), None, False, False, "no such command"),
        (replace(FAILED, exit_code=126), None, False, False, "cannot be executed"),
        (
            replace(FAILED, counts=counts(2, "test_a (test_b.C.test_a)", "b.py::c (d)")),
            None,
            False,
            False,
            "(test_a, b.py::c (d))",
        ),
        (replace(FAILED, exit_code=1), BASE, False, False, "exit code 1"),
        (GREEN, BaseResult(0), False, True, "PASS"),
        (
            replace(FAILED, exit_code=127, counts=counts(2, "a")),
            None,
            False,
            False,
            "exit code 127",
        ),
    ],
)
def test_a_gate_is_believed_only_as_far_as_its_tests_go(
    result: CheckResult, base: BaseResult | None, allowed: bool, passed: bool, words: str
) -> None:
    judged = judge_check(result, base, allow_base_failures=allowed)
    assert words in str(judged)
    assert judged.passed is passed
    assert str(judged).startswith("PASS" if passed else "FAIL: `make test` ")


def test_what_is_remembered_of_the_base() -> None:
    assert base_of(FAILED) == BaseResult(2)
    assert base_of(replace(FAILED, counts=counts(3, "a", "b"))) == BaseResult(2, 5, ("a", "b"))


def test_the_evidence_names_failed_tests_and_what_is_wrong_with_them_new_ones_first() -> None:
    result = replace(FAILED, exit_code=1, counts=counts(3, "c", "a"))
    text = evidence_of(judge_check(result, BASE), Condensation(max_feedback_lines=5))[0]
    assert text.split("\n")[1:] == [
        "- c: c is wrong",
        "- a: it failed before the run, too",
        "It wrote:",
        "two",
        "three",
    ]
    short = evidence_of(judge_check(result, BASE), Condensation(max_feedback_lines=2))[0]
    assert short.split("\n")[1:] == ["- c: c is wrong"]
    whole = evidence_of(judge_check(result, BASE), Condensation(review_feedback=False))[0]
    assert whole.endswith("It wrote:\none\ntwo\nthree")


def test_of_a_failure_from_before_the_evidence_has_the_error_too() -> None:
    result = replace(FAILED, exit_code=1, counts=counts(3, "a"))
    text = evidence_of(judge_check(result, BASE), Condensation(max_feedback_lines=2))[0]
    assert text.split("\n")[1:] == ["- a: it failed before the run, too: a is wrong"]


def test_the_archive_says_why_a_command_that_ended_well_did_not_pass() -> None:
    page = page_of(judge_check(replace(GREEN, counts=counts(0)), None))
    assert page.startswith("RESULT: FAIL\nCOMMAND: make test\nEXIT_CODE: 0\nBUT: it ran no test\n")


def test_the_last_lines_are_handed_on() -> None:
    head = "FAIL: `make test` ended with exit code 2. It wrote:"
    assert evidence_of(FAILED, Condensation(max_feedback_lines=3)) == (f"{head}\ntwo\nthree", 1)
    assert evidence_of(FAILED, Condensation(max_feedback_lines=1))[0] == f"{head}\nthree"
    whole = evidence_of(FAILED, Condensation(review_feedback=False, max_feedback_lines=1))
    assert whole == (f"{head}\none\ntwo\nthree", 0)


def test_where_a_line_is_cut_no_part_of_a_secret_is_handed_on() -> None:
    result = replace(FAILED, output="x" * 480 + " https://ada:S81Correct-Horse-9@git.example")
    assert evidence_of(result, Condensation())[0].endswith("xx https://ada:…")


def test_a_long_line_is_cut_where_it_is_handed_on() -> None:
    for size, shown in ((500, "x" * 500), (501, "x" * 500 + "…")):
        result = replace(FAILED, output="x" * size)
        assert evidence_of(result, Condensation())[0].split("\n")[1] == shown
        assert evidence_of(result, Condensation(review_feedback=False))[0].endswith("x" * size)
        assert "x" * size in page_of(result)


def test_a_silent_command_is_said_to_be_silent() -> None:
    silent = replace(FAILED, output="\n\n")
    assert evidence_of(silent, Condensation())[0].endswith(f"exit code 2. {NO_OUTPUT}")
    assert NO_OUTPUT in page_of(silent)


def test_the_archive_has_everything() -> None:
    assert page_of(FAILED) == (
        "RESULT: FAIL\nCOMMAND: make test\nEXIT_CODE: 2\nEVIDENCE:\none\ntwo\nthree\n"
    )
    assert page_of(replace(FAILED, exit_code=0)).startswith("RESULT: PASS\n")
    assert "EXIT_CODE: none\n" in page_of(replace(FAILED, exit_code=None))


def test_what_a_terminal_would_obey_is_taken_out() -> None:
    output = "\x1b[31mred\x1b[0m\r\n\x1b]0;title\x07a\tb\x00\x08\n\x1b(Bplain"
    text = evidence_of(replace(FAILED, output=output), Condensation())[0]
    assert text.split("\n")[1:] == ["red", "a\tb", "plain"]


@given(st.text(), st.integers(1, 9))
def test_any_output_is_bounded_and_printable(output: str, lines: int) -> None:
    text, _ = evidence_of(replace(FAILED, output=output), Condensation(max_feedback_lines=lines))
    assert len(text.split("\n")) <= max(lines, 2)
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (b"", ""),
        (b"\n \r\n", ""),
        (b"a\nb", "b"),
        (b"a\nb\n\n  \n", "b"),
        (b"10%\r20%\r", "20%"),
        (b"\x1b[31m red\x1b[0m \x07\n\x1b[2K", "red"),
        (b"\xff\x00x\xc2\x9by", "\ufffdxy"),
        (b"x" * 500, "x" * 200),
    ],
)
def test_the_last_line_with_something_on_it_is_shown(end: bytes, line: str) -> None:
    assert last_line(end) == line


@pytest.mark.parametrize(("left_out", "size"), [(1, 1), (20 << 20, 20), ((21 << 20) - 1, 20)])
def test_how_much_its_log_does_not_have_is_said(left_out: int, size: int) -> None:
    result = replace(FAILED, log="/logs/4.log", left_out=left_out)
    assert result.about_log == f"{size} MB in the middle of its log are left out"
    lines = page_of(result).splitlines()
    assert lines[lines.index("LOG: /logs/4.log") + 1] == f"BUT: {result.about_log}"
    assert "BUT" not in page_of(replace(result, left_out=0))


def test_why_it_could_not_be_run_is_told_and_where_its_log_is() -> None:
    result = replace(FAILED, exit_code=None, fault="no sandbox is available", log="/logs/4.log")
    assert str(result) == "FAIL: `make test` could not be run: no sandbox is available"
    assert not result.passed
    assert page_of(result).splitlines()[:5] == [
        "RESULT: FAIL",
        "COMMAND: make test",
        "EXIT_CODE: none",
        "BUT: it could not be run: no sandbox is available",
        "LOG: /logs/4.log",
    ]


UNITTEST = "Ran 2 tests in 0.006s\n\nOK\ntouch: cannot touch '/x': Read-only file system\n"


def test_where_no_test_failed_the_last_line_says_why() -> None:
    result = CheckResult("make test", 1, UNITTEST, 60, counts=counts(2))
    why = "touch: cannot touch '/x': Read-only file system"
    assert str(result) == f"FAIL: `make test` ended with exit code 1: {why}"
    page = page_of(result)
    assert first_point(extract_test_evidence(page, 30)) == f"In the end it wrote: {why}"
    assert page.endswith(f"\n{UNITTEST}")


@pytest.mark.parametrize("tests", [None, counts(2)])
def test_a_command_that_failed_in_a_sandbox_says_that_and_what_it_wrote_last(
    tests: TestCounts | None,
) -> None:
    result = CheckResult("make test", 1, UNITTEST, 60, counts=tests, sandboxed=True)
    assert "ended with exit code 1 in a sandbox: touch: cannot touch" in str(result)


def test_failed_tests_say_more_than_the_last_line() -> None:
    result = CheckResult("make test", 1, UNITTEST, 60, counts=counts(1, "t"), sandboxed=True)
    assert str(result).endswith("ended with exit code 1 in a sandbox: 1 of 2 tests failed (t)")
    assert result.last_words == ""
