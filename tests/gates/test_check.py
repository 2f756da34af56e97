"""The result of a gate's command: whether it is believed, and what of it is handed on."""

import pytest
from msgspec.structs import replace

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
)
from cli_agent_orchestrator.gates.counts import TestCounts
from cli_agent_orchestrator.pipeline.reply import extract_test_evidence, first_point
from cli_agent_orchestrator.settings.config import Condensation
from cli_agent_orchestrator.settings.gates import Gate

GATE = Gate("tests", "make test")
FAILED = CheckResult("make test", 2, "one\ntwo\nthree\n", 60, "/archive/004-gate.md")
GREEN, RED = replace(FAILED, exit_code=0), replace(FAILED, exit_code=1)
LATE, NOT_FOUND = replace(FAILED, exit_code=None), replace(FAILED, exit_code=127)
FAULTY = replace(FAILED, exit_code=None, fault="no bwrap")
BASE = BaseResult(1, 5, ("a", "b"))


def counts(passed: int, *failures: str, unnamed: int = 0) -> TestCounts:
    errors = {name: f"{name} is wrong" for name in failures[:1]}
    return TestCounts("pytest", passed, len(failures) + unnamed, 0, failures, errors)


def packages(passed: int) -> TestCounts:
    """Return what `go test` reports without -v."""
    return TestCounts("go", passed, 0, untold=passed)


@pytest.mark.parametrize("result", [NOT_FOUND, replace(FAILED, exit_code=126), FAULTY])
def test_a_gate_that_cannot_be_run_on_the_base_is_refused(result: CheckResult) -> None:
    refusal = refusal_on_base(GATE, result, "k3f9")
    assert doubt_on_base(GATE, result) == ""
    assert f"`make test`: {result.obstacle}; " in refusal
    assert refusal.endswith("`cao resume k3f9 --gate tests='COMMAND'`")


def test_a_gate_that_only_fails_on_the_base_is_not() -> None:
    results = [replace(FAILED, exit_code=code) for code in (0, 1, 2, -9, 125, 128)]
    for result in (*results, replace(NOT_FOUND, counts=counts(5))):
        assert refusal_on_base(GATE, result) == doubt_on_base(GATE, result) == ""


def test_a_gate_that_does_not_end_or_reports_packages_only_is_doubted_on_the_base() -> None:
    assert refusal_on_base(GATE, LATE) == ""
    assert "did not end within 60 s before the first turn" in doubt_on_base(GATE, LATE)
    assert "`go test -v`" in doubt_on_base(GATE, replace(GREEN, counts=packages(2)))
    assert doubt_on_base(GATE, replace(GREEN, counts=counts(2))) == ""


@pytest.mark.parametrize(
    ("result", "tests", "base", "words"),
    [
        (GREEN, None, None, "PASS"),
        (GREEN, None, BaseResult(0, 0), "PASS"),
        (GREEN, counts(5), BASE, "PASS (5 tests)"),
        # Two tests of one package failed, and another package passed.
        (GREEN, packages(2), BaseResult(1, 3, ("a", "b")), "PASS (2 packages)"),
        (FAILED, None, BASE, "ended with exit code 2"),
        (replace(FAILED, exit_code=-9), None, None, "was ended by signal 9"),
        (LATE, None, None, "did not end within 60 s"),
        (NOT_FOUND, None, None, "could not be run: there is no such command"),
        (NOT_FOUND, counts(2, "a"), None, "exit code 127"),
        # A green end is believed only as far as its tests go.
        (GREEN, counts(0), None, "ran no test"),
        (GREEN, counts(4), BASE, "ran 4 tests, 5 before the run"),
        (GREEN, packages(1), BaseResult(0, 2), "ran 1 package, 2 before the run"),
        (GREEN, packages(1), BaseResult(1, 3, ("a", "b")), "ran 1 package, 2 before the run"),
        (GREEN, counts(4, "a"), None, "ended with exit code 0, but 1 of 5 tests failed"),
        (GREEN, None, BASE, "says nothing of its tests; there were 5 before the run"),
        # Failures from before are told apart.
        (RED, counts(3, "a", "c"), BASE, "2 of 5 tests failed, 1 of them not before the run (c)"),
        (RED, counts(3, "a", "b"), BASE, "2 of 5 tests failed, as before the run (a, b)"),
        (FAILED, counts(0, "c", "d", "e", "f"), BASE, "4 of 4 tests failed (c, d, e, …)"),
        (FAILED, counts(2, "test_a (b.C.test_a)", "b.py::c (d)"), None, "(test_a, b.py::c (d))"),
    ],
)
def test_a_gate_is_judged_by_its_end_and_its_tests(
    result: CheckResult, tests: TestCounts | None, base: BaseResult | None, words: str
) -> None:
    judged = judge_check(replace(result, counts=tests), base)
    assert words in str(judged)
    assert judged.passed is words.startswith("PASS")
    assert str(judged).startswith("PASS" if judged.passed else "FAIL: `make test` ")


@pytest.mark.parametrize(
    ("result", "tests", "excused"),
    [
        (RED, counts(3, "a", "b"), True),
        (RED, counts(3, "a", "c"), False),
        (FAILED, counts(3, "a"), False),
        (LATE, counts(4, "a"), False),
        (RED, counts(3, "a", unnamed=1), False),
        (RED, counts(1, "a", "b"), False),
        (GREEN, counts(4, "a"), False),
    ],
)
def test_only_the_same_end_with_no_new_failure_is_excused(
    result: CheckResult, tests: TestCounts, excused: bool
) -> None:
    judged = judge_check(replace(result, counts=tests), BASE, allow_base_failures=True)
    assert judged.passed is excused
    assert ("2 tests failing as before the run" in str(judged)) is excused


def test_a_gate_that_does_not_end_is_not_excused_though_it_did_not_before() -> None:
    late = replace(LATE, counts=counts(4, "a"))
    assert not judge_check(late, base_of(late), allow_base_failures=True).passed


def test_what_is_remembered_of_the_base() -> None:
    assert base_of(FAILED) == BaseResult(2)
    assert base_of(replace(FAILED, counts=counts(3, "a", "b"))) == BaseResult(2, 5, ("a", "b"))


def test_the_evidence_names_failed_tests_and_their_errors_new_ones_first() -> None:
    judged = judge_check(replace(RED, counts=counts(3, "c", "a")), BASE)
    text, _ = evidence_of(judged, Condensation(max_feedback_lines=5))
    assert text.split("\n")[1:] == [
        "- c: c is wrong",
        "- a: it failed before the run, too",
        "It wrote:",
        "two",
        "three",
    ]
    short, _ = evidence_of(judged, Condensation(max_feedback_lines=2))
    assert short.split("\n")[1:] == ["- c: c is wrong"]
    old = judge_check(replace(RED, counts=counts(3, "a")), BASE)
    text, _ = evidence_of(old, Condensation(max_feedback_lines=2))
    assert text.split("\n")[1:] == ["- a: it failed before the run, too: a is wrong"]


def test_the_last_lines_are_handed_on() -> None:
    head = "FAIL: `make test` ended with exit code 2. It wrote:"
    assert evidence_of(FAILED, Condensation(max_feedback_lines=3)) == (f"{head}\ntwo\nthree", 1)
    assert evidence_of(FAILED, Condensation(max_feedback_lines=1)) == (f"{head}\nthree", 2)
    whole = evidence_of(FAILED, Condensation(review_feedback=False, max_feedback_lines=1))
    assert whole == (f"{head}\none\ntwo\nthree", 0)
    silent = replace(FAILED, output="\n\n")
    assert evidence_of(silent, Condensation())[0].endswith(f"exit code 2. {NO_OUTPUT}")
    assert NO_OUTPUT in page_of(silent)


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("x" * 500, ["x" * 500]),
        ("x" * 501, ["x" * 500 + "…"]),
        ("x" * 480 + " https://ada:S81Correct-Horse-9@git.example", ["x" * 480 + " https://ada:…"]),
        (
            "\x1b[31mred\x1b[0m\r\n\x1b]0;title\x07a\tb\x00\x08\n\x1b(Bplain",
            ["red", "a\tb", "plain"],
        ),
    ],
)
def test_lines_are_cut_before_a_secret_and_without_what_a_terminal_obeys(
    output: str, lines: list[str]
) -> None:
    text, _ = evidence_of(replace(FAILED, output=output), Condensation())
    assert text.split("\n")[1:] == lines


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (b"\n \r\n", ""),
        (b"10%\r20%\r", "20%"),
        (b"\x1b[31m red\x1b[0m \x07\n\x1b[2K", "red"),
        (b"\xff\x00x\xc2\x9by", "\ufffdxy"),
        (b"x" * 500, "x" * 200),
    ],
)
def test_the_last_line_with_something_on_it_is_shown(end: bytes, line: str) -> None:
    assert last_line(end) == line


def test_the_archive_has_everything() -> None:
    head = "RESULT: FAIL\nCOMMAND: make test\nEXIT_CODE: {}\n{}EVIDENCE:\none\ntwo\nthree\n"
    assert page_of(FAILED) == head.format(2, "")
    assert page_of(GREEN).startswith("RESULT: PASS\n")
    empty = judge_check(replace(GREEN, counts=counts(0)), None)
    assert page_of(empty) == head.format(0, "BUT: it ran no test\n")
    why = "BUT: it could not be run: no bwrap\nLOG: /logs/4.log\n"
    assert page_of(replace(FAULTY, log="/logs/4.log")) == head.format("none", why)
    cut = replace(FAILED, log="/logs/4.log", left_out=(21 << 20) - 1)
    assert cut.about_log == "20 MB in the middle of its log are left out"
    assert page_of(cut) == head.format(2, f"LOG: /logs/4.log\nBUT: {cut.about_log}\n")
    assert "x" * 501 in page_of(replace(FAILED, output="x" * 501))


UNITTEST = "Ran 2 tests in 0.006s\n\nOK\ntouch: cannot touch '/x': Read-only file system\n"


def test_where_no_test_failed_the_last_line_explains_it() -> None:
    result = CheckResult("make test", 1, UNITTEST, 60, counts=counts(2))
    why = "touch: cannot touch '/x': Read-only file system"
    assert str(result) == f"FAIL: `make test` ended with exit code 1: {why}"
    assert first_point(extract_test_evidence(page_of(result), 30)) == f"In the end it wrote: {why}"
    for tests in (None, counts(2)):
        sandboxed = replace(result, counts=tests, sandboxed=True)
        assert f"ended with exit code 1 in a sandbox: {why}" in str(sandboxed)
    failed = replace(result, counts=counts(1, "t"), sandboxed=True)
    assert str(failed).endswith("in a sandbox: 1 of 2 tests failed (t)")
    assert failed.last_words == ""
