"""What test runners report: real outputs, odd ones, several together, and what is no runner's."""

import json

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.gates.counts import (
    LONGEST_LINE,
    MOST_GROUPS,
    MOST_LINES,
    TestCounts,
    lines_of,
    read_counts,
    read_junit,
)
from tests.gates.kept_outputs import FAKES, NAMES, TRUE, numbers, output


@pytest.mark.parametrize("name", NAMES)
def test_a_real_output_is_read_as_it_says(name: str) -> None:
    text = output(name)
    counts = read_counts(text)

    assert read_counts(text.replace("\n", "\r\n")) == counts, "line endings do not matter"
    if name not in TRUE:
        assert counts is None
        return
    assert counts is not None
    assert [counts.runner, counts.passed, counts.failed, counts.skipped] == TRUE[name]["counts"]
    failures = [[test, counts.first_errors.get(test, "")] for test in counts.failures]
    assert failures == TRUE[name].get("failures", [])


def test_every_line_of_the_table_has_an_output() -> None:
    assert set(TRUE) <= set(NAMES)


@pytest.mark.parametrize(
    "name",
    ["unittest/passing", "unittest/passing_verbose", "mocha/passing", "jest/passing",
     "vitest/passing", "cargo/passing", "node/passing_tap_20", "node/passing_spec_20",
     "pytest/passing", "pytest/passing_quiet"],
)  # fmt: skip
def test_two_runs_of_a_runner_are_added(name: str) -> None:
    runner, passed, failed, skipped = TRUE[name]["counts"]

    assert numbers(output(name) * 2) == (runner, 2 * passed, failed, 2 * skipped)


def test_runs_of_several_kinds_are_added() -> None:
    assert numbers(output("pytest/passing") + output("jest/mixed")) == ("several", 4 + 3, 4, 2)
    both = output("pytest/passing") + output("pytest/mixed_quiet")
    assert numbers(both) == ("pytest", 4 + 5, 7, 2)
    assert numbers(output("go/passing_verbose") * 2) == ("go", 5, 0, 0), "a package counts once"


@pytest.mark.parametrize(
    ("name", "fake"),
    [
        ("pytest/passing", "50 passed in 0.01s"),
        ("pytest/mixed", "50 passed in 0.01s"),
        ("pytest/passing_quiet", "50 passed in 0.01s"),
        ("unittest/passing", f"{'-' * 70}\nRan 50 tests in 0.001s\n\nOK"),
        ("mocha/passing", "\n  50 passing (1ms)\n"),
        ("jest/passing", "Test Suites: 9 passed, 9 total\nTests:       50 passed, 50 total"),
        ("vitest/mixed", " Test Files  9 passed (9)\n      Tests  50 passed (50)"),
        ("vitest/passing", " Test Files  9 passed (9)\n      Tests  50 passed (50)"),
        ("go/passing_verbose", "--- PASS: TestZ (0.00s)"),
        ("cargo/passing", FAKES[6].partition("\n")[2].replace("5 passed", "50 passed")),
        ("node/passing_tap_20", "ok 1 - x\n# tests 50\n# pass 50\n# fail 0"),
        ("node/passing_spec_20", FAKES[12]),
    ],
)  # fmt: skip
def test_a_summary_that_the_program_prints_first_does_not_count(name: str, fake: str) -> None:
    assert numbers(f"{fake}\n{output(name)}") == tuple(TRUE[name]["counts"])


RULE, DOUBLE_RULE = "-" * 70, "=" * 70
HEADER = "=========== test session starts ===========\n"
FRAMED_FAILED, FRAMED = "=== 1 failed in 0.10s ===\n", "=== 2 passed in 0.10s ===\n"
VITEST, VITEST_START = " Test Files  {0} (1)\n      Tests  {0} (1)\n", " RUN  v3.2.7 /project\n\n"
NODE = "# tests 1\n# pass 1\n# fail 0\n# cancelled {}\n# duration_ms 1\n"
SPEC = "ℹ tests 2\nℹ pass 2\nℹ fail 0\nℹ cancelled 0\nℹ duration_ms 1\n"
MOCHA = (
    "    ✔ one\n  2 passing (1ms)\n  1 passing (3ms)\n  1 passing (1ms)\n    ✔ one\n    √ two\n"
    "  2 passing (3ms)\n  1 passing (1ms)\n  .!\n  3 passing (1ms)\n  2 passing (3ms)\n"
    "    ✓ last\n  1 passing (3ms)\n"
)
GO = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n"
CARGO = "running {} tests\n{}test result: {} 0 ignored; {} measured; 0 filtered out\n"


def failure(kind: str, name: str, error: str = "") -> str:
    """Return how unittest shows a failure at length."""
    text = f"{RULE}\nTraceback (most recent call last):\n  File\n{error}\n\n" if error else ""
    return f"{DOUBLE_RULE}\n{kind}: {name}\n{text}"


def ran(tests: int, result: str = "OK") -> str:
    """Return how unittest sums up."""
    return f"{RULE}\nRan {tests} tests in 0.001s\n\n{result}\n"


def events(*outputs: str) -> str:
    """Return events of `go test -json`: it starts with the package `a`, and what that prints."""
    told = [{"Action": "start"}, *({"Action": "output", "Output": f"{one}\n"} for one in outputs)]
    return "\n".join(json.dumps({"Package": "a"} | one) for one in told)


FIXTURE = failure("ERROR", "setUpClass (t.A)", "no database")
TWICE = failure("FAIL", "test_{0} (t.A.test_{0})", "no") + ran(3, "FAILED (failures=1)")
PARTS = failure("FAIL", "a (t.A.a) (i=1)", "no") + failure("FAIL", "a (t.A.a) (i=2)", "no")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 failed, 2 subtests failed in 0.10s", ("pytest", 0, 3, 0)),
        ("1 test collected in 0.10s", ("pytest", 0, 0, 0)),
        ("no tests ran in 0.10s", ("pytest", 0, 0, 0)),
        ("3 words in 0.10s", None),
        ("=========== 3 passed, 1 rerun in 61.20s (0:01:01) ===========", ("pytest", 3, 0, 0)),
        # What would be overwritten, or looks like a title, hides nothing.
        ("1 failed in 0.10s\r5 passed in 0.10s", ("pytest", 0, 1, 0)),
        ("\x1b]0;title\n1 failed in 0.10s\n", ("pytest", 0, 1, 0)),
        # What fails before the progress is of the same run.
        ("1 failed in 0.10s\n..   [100%]\n2 passed in 0.10s\n", ("pytest", 0, 1, 0)),
        (".F   [100%]\na test session starts b\n1 failed, 1 passed in 1.00s", ("pytest", 1, 1, 0)),
        (
            "..  [100%]\n2 passed in 0.10s\n..  [100%]\n..  [100%]\n4 passed in 0.10s\n",
            ("pytest", 6, 0, 0),
        ),
        # A run with a header frames its summary.
        (f"{HEADER}1 failed in 0.10s\nt.py ..   [100%]\n{FRAMED}", ("pytest", 2, 0, 0)),
        (f"{HEADER}{FRAMED_FAILED}{FRAMED}", ("pytest", 0, 1, 0)),
        (f"1 failed in 0.10s\n{FRAMED}", ("pytest", 0, 1, 0)),
        (f"{HEADER}5 passed in 0.10s\n", ("pytest", 0, 1, 0)),
        (f"{HEADER}2 failed, 3 passed in 0.10s\n", ("pytest", 3, 2, 0)),
        # Progress counts more than a summary that contradicts it, and where there is none.
        (".F   [100%]\n2 passed in 0.10s\n", ("pytest", 1, 1, 0)),
        ("..   [ 50%]\n2 passed in 0.10s\n", ("pytest", 2, 1, 0)),
        ("F\n..   [100%]\n2 passed, 1 deselected in 0.10s\n", ("pytest", 2, 0, 1)),
        ("a.py::b PASSED [ 50%]\na.py::c FAILED [100%]\n", ("pytest", 1, 1, 0)),
        ("..   [100%]\nall PASSED   [100%]\n", ("pytest", 2, 0, 0)),
        ("..   [ 50%]\nloaded [100%]\n", ("pytest", 2, 1, 0)),
        ("..F.     [ 40%]\n..", ("pytest", 3, 2, 0)),
        # Only those of several runs count that were seen.
        (
            f"{ran(50)}..\n{ran(2)}loading ... done\n{ran(1)}.\n{ran(1)}.\n{ran(1)}",
            ("unittest", 2 + 1 + 1, 0, 0),
        ),
        (f"{ran(1)}..\n{ran(2)}", ("unittest", 2, 0, 0)),
        (ran(3), ("unittest", 3, 0, 0)),
        ("OK\nRan 3 tests in 0.001s\n", None),
        (ran(50) + TWICE.format("a") + TWICE.format("b"), ("unittest", 4, 2, 0)),
        (TWICE.format("a") + TWICE.format("b"), ("unittest", 4, 2, 0)),
        (
            "test_a (t.A.test_a) ... ok\ntest_b (t.A.test_b) ... skipped 'x'\n",
            ("unittest", 1, 1, 0),
        ),
        (ran(5, "FAILED (failures=2)"), ("unittest", 3, 2, 0)),
        (ran(5, "FAILED (errors=2)"), ("unittest", 3, 2, 0)),
        (ran(1, "FAILED (unexpected successes=3)"), ("unittest", 0, 3, 0)),
        # What prepares tests is no test, and parts of a test are failures of one.
        (FIXTURE + ran(2, "FAILED (errors=1)"), ("unittest", 2, 1, 0)),
        (
            FIXTURE
            + failure("FAIL", "a (t.B.a)", "no")
            + failure("FAIL", "b (t.B.b)", "no")
            + ran(3, "FAILED (failures=2, errors=1)"),
            ("unittest", 1, 3, 0),
        ),
        (PARTS + ran(2, "FAILED (failures=2)"), ("unittest", 1, 2, 0)),
        # Of Go: a test binary names no package, and once failed is failed.
        (f"{GO}PASS\n", ("go", 1, 0, 0)),
        (f"{GO}=== RUN   TestB\n", ("go", 1, 1, 0)),
        (f"{GO}--- FAIL: TestA (0.00s)\n{GO}PASS\n", ("go", 0, 1, 0)),
        (events(), ("go", 0, 1, 0)),
        (events("=== RUN   TestA", "--- PASS: TestA (0.00s)", "PASS"), ("go", 1, 1, 0)),
        (events("FAIL\ta\t0.1s", "ok  \ta\t0.1s"), ("go", 0, 1, 0)),
        (events("ok  \ta\t1s [no tests to run]"), ("go", 0, 0, 0)),
        ('{"Action":7,"Package":"a"}', None),
        # Of cargo: what is measured has passed, and other numbers are not believed.
        (CARGO.format(3, "", "ok. 1 passed; 0 failed;", 2), ("cargo", 3, 0, 0)),
        ("running 3 tests\ntest a ... ok\nloading ... ok\n", ("cargo", 1, 1, 0)),
        (CARGO.format(2, "test a ... ok\n", "ok. 50 passed; 0 failed;", 0), ("cargo", 1, 1, 0)),
        (CARGO.format(2, "test a ... ok\n", "FAILED. 3 passed; 2 failed;", 0), ("cargo", 1, 3, 0)),
        # A file that failed without a failed test is one failure.
        (
            "Test Suites: 1 failed, 1 passed, 2 total\nTests:       1 skipped, 2 passed, 3 total\n",
            ("jest", 2, 1, 1),
        ),
        ("printed\nTests:       5 passed, 5 total\n", None),
        (VITEST.format("1 passed"), ("vitest", 1, 0, 0)),
        (VITEST.format("1 failed") + VITEST_START + VITEST.format("1 passed"), ("vitest", 1, 1, 0)),
        (MOCHA, ("mocha", 1 + 2 + 2 + 1, 0, 0)),
        # A point that failed counts more than the numbers of Node.
        (f"TAP version 13\nnot ok 1 - a\n1..1\n{NODE.format(0)}", ("node", 0, 1, 0)),
        (f"TAP version 13\nok 1 - a\n1..1\n{NODE.format(0)}", ("node", 1, 0, 0)),
        (f"TAP version 13\nok 1 - a\n1..1\n{NODE.format(1)}", ("node", 1, 1, 0)),
        ("TAP version 13\nok 1 - a\n1..1\n# duration_ms 1\n", ("tap", 1, 0, 0)),
        (f"✔ a (1ms)\n  ✔ b (1ms)\n{SPEC}" * 2, ("node", 4, 0, 0)),
        ("1..2\nok 1 - a\nok 2 - b\n", ("tap", 2, 0, 0)),
        ("TAP version 13\nok 1\nnot ok 2\n1..2\n", ("tap", 1, 1, 0)),
        ("1..4\nok 1 - a\nnot ok 2 - b\n", ("tap", 1, 3, 0)),
        ("TAP version 14\nok 1 - a\n", ("tap", 1, 1, 0)),
        ("TAP version 14\n1..3\nok 1\nBail out! no disk\n", ("tap", 1, 3, 0)),
        ("1..0 # SKIP nothing here\n", ("tap", 0, 0, 0)),
        ("1..3\nok 1 # skip\nnot ok 2 # TODO later\nnot ok 3 - a # todo\n", ("tap", 0, 0, 3)),
        # A point sums up those right before it.
        ("1..1\n    ok 1 - b\n    not ok 2 - c\n    1..2\nnot ok 1 - a\n", ("tap", 1, 1, 0)),
        ("1..1\n    ok 1 - b\n    1..1\nnot ok 1 - a\n", ("tap", 1, 1, 0)),
        ("1..2\nok 1 - a\n    ok 1 - b\n    1..1\nok 2 - c\n", ("tap", 2, 0, 0)),
        ("1..2\nnot ok 1 - a {\n    1..1\n    not ok 1 - b\n}\nok 2 - c\n", ("tap", 1, 1, 0)),
        # Details hide nothing that is no detail.
        ("1..2\nok 1 - a\n  ---\n  text: |\n    not ok 7\n  ...\nok 2\n", ("tap", 2, 0, 0)),
        ("1..1\nok 1 - a\n  ---\n  text: |\n\n    not ok 7\n  ...\n", ("tap", 1, 0, 0)),
        ("1..2\nok 1 - a\n  ---\nnot ok 2 - hidden\n", ("tap", 1, 1, 0)),
        ("1..2\nok 1 - a\n---\nnot ok 2 - b\n", ("tap", 1, 1, 0)),
        ("1..1\nok 1 - a\n1..2\nok 1 - b\nok 2 - c\n", ("tap", 3, 0, 0)),
        ("ok 1 - copied\nok then\n", None),
    ],
)
def test_odd_outputs_are_counted(text: str, expected: tuple[str, int, int, int] | None) -> None:
    assert numbers(text) == expected


LONG_TEST = "  0 passing (1ms)\n  1 failing\n\n  1) a\n" + "     b\n" * 30
PYTEST_SHOWN = "=== FAILURES ===\n____ A.b ____\nE   wrong\n=== short test summary info ===\n"
PANIC = "thread 'a' panicked at src/lib.rs:3:5:\n{}\n"
PANICS = (
    f"---- a stdout ----\n{PANIC.format('first')}{PANIC.format('second')}"
    "---- b stdout ----\nprinted\n---- b stdout ----\nlater\n"
)
OLD_PANIC = "---- a stdout ----\nthread 'a' panicked at 'no luck', src/lib.rs:3:5\nnote: more\n"
UNEXPECTED = failure("UNEXPECTED SUCCESS", "a (t.A.a)") + failure("FAIL", "b (t.A.b)", "wrong")
GO_FAILED = TestCounts("go", 0, 1, 0, ("a.TestA",), {"a.TestA": "got 3"})
GO_END = "    a_test.go:4: got 3\n--- FAIL: TestA (0.00s)\nFAIL\ta\t0.1s\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "!!!! Interrupted: no !!!!\n1 passed, 2 skipped in 0.10s\n",
            TestCounts("pytest", 1, 1, 2, ("Interrupted: no",)),
        ),
        (
            "____ printed ____\nE   x\n=== FAILURES ===\n____ test_a ____\nE   wrong\n"
            "1 failed in 0.10s\n",
            TestCounts("pytest", 0, 1, 0, ("test_a",), {"test_a": "wrong"}),
        ),
        (
            f"{PYTEST_SHOWN}FAILED a.py::A::b - short\nFAILED a.py::c\nSUBFAIL printed\n"
            "2 failed in 0.10s\n",
            TestCounts("pytest", 0, 2, 0, ("a.py::A::b", "a.py::c"), {"a.py::A::b": "wrong"}),
        ),
        (
            "=== short test summary info ===\nFAILED a.py::b - c[1] - 2\n1 failed in 0.10s\n",
            TestCounts("pytest", 0, 1, 0, ("a.py::b",), {"a.py::b": "c[1] - 2"}),
        ),
        (
            "FAIL: printed (t.A.c)\n"
            + UNEXPECTED
            + ran(2, "FAILED (failures=1, unexpected successes=1)"),
            TestCounts(
                "unittest", 0, 2, 0, ("a (t.A.a)", "b (t.A.b)"), {"b (t.A.b)": "wrong"}
            ),
        ),
        (GO, TestCounts("go", 1, 1, 0, ("go test",))),
        (GO_END, replace(GO_FAILED, untold=1)),
        (f"=== RUN   TestA\n--- PASS: TestPrinted (0.00s)\n{GO_END}", GO_FAILED),
        (
            "panic: no luck\na.go:3:2: later\nFAIL\tshop\t0.1s\n",
            TestCounts("go", 0, 1, 0, ("shop",), {"shop": "panic: no luck"}),
        ),
        (
            CARGO.format(
                2, f"\nfailures:\n\n{PANICS}\nfailures:\n    a\n    b\n\n",
                "FAILED. 0 passed; 2 failed;", 0,
            ),
            TestCounts("cargo", 0, 2, 0, ("a", "b"), {"a": "first", "b": "printed"}),
        ),
        (
            CARGO.format(
                1, f"\nfailures:\n\n{OLD_PANIC}\nfailures:\n    a\n\n",
                "FAILED. 0 passed; 1 failed;", 0,
            ).replace("1 tests", "1 test"),
            TestCounts("cargo", 0, 1, 0, ("a",), {"a": "'no luck', src/lib.rs:3:5"}),
        ),
        (
            "  ● printed\nFAIL api ./b.test.js (5.2 s)\n  ● adds\n" + "  \n" * MOST_LINES
            + "Test Suites: 1 failed, 1 total\nTests:       1 failed, 1 total\n",
            TestCounts("jest", 0, 1, 0, ("./b.test.js › adds",)),
        ),
        (
            f"{VITEST.format('1 passed')}     Errors  1 error\n",
            TestCounts("vitest", 1, 1, 0, ("an error outside of the tests",)),
        ),
        (
            "  0 passing (1ms)\n  1 failing\n\n  1) cart\n       adds:\n\n     wrong\n     again\n"
            "  2) printed\n       later:\n     too\n",
            TestCounts("mocha", 0, 1, 0, ("cart adds",), {"cart adds": "wrong"}),
        ),
        (LONG_TEST, TestCounts("mocha", 0, 1, 0, (f"a{' b' * (MOST_GROUPS - 1)}",),
                               {f"a{' b' * (MOST_GROUPS - 1)}": "b"})),
        (
            "✖ a (1ms)\n\n  wrong\n✖ b (1ms)\n\n\n  later\n"
            + SPEC.replace("pass 2", "pass 0").replace("fail 0", "fail 2"),
            TestCounts("node", 0, 2, 0, ("a", "b"), {"a": "wrong"}),
        ),
        (
            "1..2\nok 1 - a\n    ok 1 - b\n    ---\n    not ok 2 - c\n    1..2\nnot ok 2 - d\n",
            TestCounts("tap", 2, 1, 0, ("c",)),
        ),
        ("TAP version 13\nok 2\n", TestCounts("tap", 1, 1, 0, ("the plan is missing",))),
        ("1..3\nok 1\n", TestCounts("tap", 1, 2, 0, ("2 planned tests are missing",))),
        ("1..1\nok 1\nok 2\n", TestCounts("tap", 2, 1, 0, ("more tests than planned",))),
    ],
)  # fmt: skip
def test_failures_are_named_with_their_errors(text: str, expected: TestCounts) -> None:
    assert read_counts(text) == expected


@pytest.mark.parametrize(
    ("text", "untold"),
    [
        ("ok  \ta\t0.003s\nok  \tb\t(cached)\n", 2),
        ("--- FAIL: TestA (0.00s)\nFAIL\ta\t0.1s\nok  \tb\t0.1s\n", 2),
        (f"{GO}PASS\nok  \ta\t0.003s\n", 0),
        ("=== RUN   TestA\n--- FAIL: TestA (0.00s)\nFAIL\ta\t0.1s\n", 0),
        ("ok  \ta\t0.1s [no tests to run]\n?   \tb\t[no test files]\n", 0),
        ("FAIL\ta [build failed]\n", 0),
        (events("ok  \ta\t0.1s"), 1),
    ],
)
def test_packages_whose_tests_are_not_counted(text: str, untold: int) -> None:
    counts = read_counts(text)
    assert counts is not None
    assert counts.untold == untold


def test_cases_of_xml_are_counted_and_not_what_a_suite_says_of_them() -> None:
    text = (
        '<testsuites tests="9" failures="0"><testsuite tests="9" failures="0" errors="0">'
        '<testsuite><testcase classname="a.B" name="c"/></testsuite><skipped/>'
        '<testcase classname="a.B" name="d"><failure message="first&#10;second"/></testcase>'
        '<testcase name="e"><error>\n  at once\n  later</error><failure message="no"/></testcase>'
        '<testcase classname="g.H"><error>1 &lt; 2</error></testcase>'
        '<testcase name="f"><skipped/></testcase><testcase name="g"><system-out>x</system-out>'
        "</testcase></testsuite></testsuites>"
    )
    errors = {"a.B.d": "first", "e": "at once", "g.H": "1 < 2"}
    expected = TestCounts("junit", 2, 3, 1, tuple(errors), errors)

    assert read_junit(text) == expected
    assert read_counts(f"\n{text}") == expected
    assert read_counts(f'\ufeff\r\n\t <?xml version="1.0"?>{text}') == expected


def test_an_error_of_a_suite_is_a_failure_without_a_name() -> None:
    text = '<testsuite><error message="no"/><testcase name="a"/></testsuite>'
    name = "a test without a name"
    assert read_junit(text) == TestCounts("junit", 1, 1, 0, (name,), {name: "no"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rubbish",
        "<html/>",
        "<testsuite>",
        '<!DOCTYPE t [<!ENTITY a "aaaaaaaaaa">]><testsuite name="&a;"/>',
        "<testsuite>&undefined;</testsuite>",
        f"<testsuite>{' ' * 16_000_000}</testsuite>",
        "<testsuite>\ud800\x00</testsuite>",
    ],
    ids=range(8),
)
def test_what_is_no_proper_xml_has_no_counts(text: str) -> None:
    assert read_junit(text) is None


def test_lines_names_and_errors_are_cut_and_printable() -> None:
    assert lines_of("a\x00b\x1b[1mc") == ["abc"]
    longest = "x" * LONGEST_LINE
    assert lines_of(f"{longest}\n{longest}y") == [longest, f"{longest}…"]
    reasons = [f"FAILED a.py::test_{n}\u2028{'x' * 400} - y\u200by{'z' * 400}" for n in range(250)]
    text = "\n".join(["=== short test summary info ===", *reasons, "250 failed in 1.00s"])
    counts = read_counts(text)

    assert counts is not None
    assert counts.failed == 250
    assert len(counts.failures) == 200
    assert counts.failures[0] == f"a.py::test_0 {'x' * 400}"[:300]
    assert counts.first_errors[counts.failures[0]] == f"y y{'z' * 400}"[:300]
