"""What the readers make of outputs that are put together: odd ones, and several runs in one."""

import json
from dataclasses import replace

import pytest

from cli_agent_orchestrator.gates.counts import (
    DEEPEST_XML,
    LONGEST_LINE,
    TestCounts,
    lines_of,
    read_junit,
)
from cli_agent_orchestrator.gates.runners import read_counts
from cli_agent_orchestrator.gates.script_runners import MOST_GROUPS, MOST_LINES
from tests.gates.kept_outputs import numbers, output

RULE, DOUBLE_RULE = "-" * 70, "=" * 70


def test_a_line_has_no_control_characters_and_is_not_too_long() -> None:
    assert lines_of("a\x00b\x1b[1mc") == ["abc"]
    longest = "x" * LONGEST_LINE
    assert lines_of(longest) == [longest]
    assert lines_of(f"{longest}y") == [f"{longest}…"]


class TestPytest:
    HEADER = "=========== test session starts ===========\n"

    def test_all_kinds_of_results_are_known(self) -> None:
        assert numbers("1 failed, 2 subtests failed in 0.10s") == ("pytest", 0, 3, 0)
        assert numbers("1 test collected in 0.10s") == ("pytest", 0, 0, 0)
        assert numbers("no tests ran in 0.10s") == ("pytest", 0, 0, 0)
        assert read_counts("3 words in 0.10s") is None

    def test_what_fails_before_the_progress_is_of_the_same_run(self) -> None:
        text = "1 failed in 0.10s\n..   [100%]\n2 passed in 0.10s\n"
        assert numbers(text) == ("pytest", 0, 1, 0)
        printed = "log test session starts today\n"
        text = f".F   [100%]\n{printed}1 failed, 1 passed in 0.10s\n"
        assert numbers(text) == ("pytest", 1, 1, 0)

    def test_progress_can_come_to_its_end_twice(self) -> None:
        text = "..  [100%]\n2 passed in 0.10s\n..  [100%]\n..  [100%]\n4 passed in 0.10s\n"
        assert numbers(text) == ("pytest", 6, 0, 0)

    def test_a_run_with_a_header_frames_its_summary(self) -> None:
        failed, passed = "=== 1 failed in 0.10s ===\n", "=== 2 passed in 0.10s ===\n"
        text = f"{self.HEADER}1 failed in 0.10s\nt.py ..   [100%]\n{passed}"
        assert numbers(text) == ("pytest", 2, 0, 0)
        assert numbers(f"{self.HEADER}{failed}{passed}") == ("pytest", 0, 1, 0)
        assert numbers(f"1 failed in 0.10s\n{passed}") == ("pytest", 0, 1, 0)
        assert numbers(f"{self.HEADER}5 passed in 0.10s\n") == ("pytest", 0, 1, 0)
        assert numbers(f"{self.HEADER}2 failed, 3 passed in 0.10s\n") == ("pytest", 3, 2, 0)

    def test_progress_counts_more_than_a_summary_that_contradicts_it(self) -> None:
        assert numbers(".F   [100%]\n2 passed in 0.10s\n") == ("pytest", 1, 1, 0)
        assert numbers("..   [ 50%]\n2 passed in 0.10s\n") == ("pytest", 2, 1, 0)
        other = "F\n..   [100%]\n2 passed, 1 deselected in 0.10s\n"
        assert numbers(other) == ("pytest", 2, 0, 1)

    def test_progress_without_a_summary_is_counted(self) -> None:
        assert numbers("a.py::b PASSED [ 50%]\na.py::c FAILED [100%]\n") == ("pytest", 1, 1, 0)
        assert numbers("..   [100%]\nall PASSED   [100%]\n") == ("pytest", 2, 0, 0)
        assert numbers("..   [ 50%]\nloaded [100%]\n") == ("pytest", 2, 1, 0)

    def test_a_run_that_was_interrupted_has_failed(self) -> None:
        counts = read_counts("!!!! Interrupted: no !!!!\n1 passed, 2 skipped in 0.10s\n")
        assert counts == TestCounts("pytest", 1, 1, 2, ("Interrupted: no",))

    def test_a_title_outside_of_the_failures_is_none(self) -> None:
        shown = "____ printed ____\nE   x\n=== FAILURES ===\n____ test_a ____\nE   wrong\n"
        counts = read_counts(f"{shown}1 failed in 0.10s\n")
        assert counts == TestCounts("pytest", 0, 1, 0, ("test_a",), {"test_a": "wrong"})

    def test_the_error_of_a_failure_is_what_is_shown_at_length(self) -> None:
        shown = "=== FAILURES ===\n____ A.b ____\nE   wrong\n=== short test summary info ===\n"
        text = f"{shown}FAILED a.py::A::b - short\nFAILED a.py::c\nSUBFAIL printed\n"
        counts = read_counts(f"{text}2 failed in 0.10s\n")
        names = ("a.py::A::b", "a.py::c")
        assert counts == TestCounts("pytest", 0, 2, 0, names, {names[0]: "wrong"})

    def test_a_reason_can_have_brackets(self) -> None:
        reasons = "=== short test summary info ===\nFAILED a.py::b - c[1] - 2\n"
        counts = read_counts(f"{reasons}1 failed in 0.10s\n")
        assert counts == TestCounts("pytest", 0, 1, 0, ("a.py::b",), {"a.py::b": "c[1] - 2"})


class TestJest:
    def test_a_file_that_failed_without_a_failed_test_is_one_failure(self) -> None:
        text = (
            "Test Suites: 1 failed, 1 passed, 2 total\nTests:       1 skipped, 2 passed, 3 total\n"
        )
        assert numbers(text) == ("jest", 2, 1, 1)

    def test_tests_without_their_files_are_no_summary(self) -> None:
        assert read_counts("Tests:       5 passed, 5 total\n") is None
        assert read_counts("printed\nTests:       5 passed, 5 total\n") is None

    def test_a_failure_is_named_with_its_file_although_no_test_passed(self) -> None:
        text = "  ● printed\nFAIL api ./b.test.js (5.2 s)\n  ● adds\n"
        end = "  \n" * MOST_LINES + "Test Suites: 1 failed, 1 total\n"
        counts = read_counts(f"{text}{end}Tests:       1 failed, 1 total\n")
        assert counts == TestCounts("jest", 0, 1, 0, ("./b.test.js › adds",))


class TestVitest:
    SUMMARY = " Test Files  {0} (1)\n      Tests  {0} (1)\n"
    START = " RUN  v3.2.7 /project\n\n"

    def test_a_summary_alone_counts(self) -> None:
        assert numbers(self.SUMMARY.format("1 passed")) == ("vitest", 1, 0, 0)

    def test_a_failure_before_the_first_run_is_not_lost(self) -> None:
        text = self.SUMMARY.format("1 failed") + self.START + self.SUMMARY.format("1 passed")
        assert numbers(text) == ("vitest", 1, 1, 0)

    def test_an_error_outside_of_the_tests_need_not_be_shown(self) -> None:
        name = "an error outside of the tests"
        text = f"{self.SUMMARY.format('1 passed')}     Errors  1 error\n"
        assert read_counts(text) == TestCounts("vitest", 1, 1, 0, (name,))
        text = output("vitest/unhandled").replace("Unhandled Rejection", "Uncaught Exception")
        assert read_counts(text) == read_counts(output("vitest/unhandled"))


class TestMocha:
    def test_only_those_of_several_runs_count_that_were_seen(self) -> None:
        text = [
            "    ✔ one", "  2 passing (1ms)", "  1 passing (3ms)", "  1 passing (1ms)",
            "    ✔ one", "    √ two", "  2 passing (3ms)",
            "  1 passing (1ms)", "  .!", "  3 passing (1ms)", "  2 passing (3ms)",
            "    ✓ last", "  1 passing (3ms)",
        ]  # fmt: skip
        assert numbers("\n".join(text)) == ("mocha", 1 + 2 + 2 + 1, 0, 0)

    def test_no_more_failures_are_named_than_there_are(self) -> None:
        text = "  0 passing (1ms)\n  1 failing\n\n  1) cart\n       adds:\n\n     wrong\n"
        counts = read_counts(f"{text}     again\n  2) printed\n       later:\n     too\n")
        assert counts == TestCounts("mocha", 0, 1, 0, ("cart adds",), {"cart adds": "wrong"})

    def test_a_name_that_does_not_end_is_cut(self) -> None:
        text = "  0 passing (1ms)\n  1 failing\n\n  1) a\n" + "     b\n" * 30
        counts = read_counts(text)
        assert counts is not None
        assert counts.failures == (f"a{' b' * (MOST_GROUPS - 1)}",)


class TestTap:
    def test_a_point_that_failed_counts_more_than_the_numbers_of_node(self) -> None:
        said = "# tests 1\n# pass 1\n# fail 0\n# cancelled 0\n# duration_ms 1\n"
        assert numbers(f"TAP version 13\nnot ok 1 - a\n1..1\n{said}") == ("node", 0, 1, 0)
        assert numbers(f"TAP version 13\nok 1 - a\n1..1\n{said}") == ("node", 1, 0, 0)
        cancelled = said.replace("tests 1", "tests 2").replace("cancelled 0", "cancelled 1")
        assert numbers(f"TAP version 13\nok 1 - a\n1..1\n{cancelled}") == ("node", 1, 1, 0)
        assert numbers("TAP version 13\nok 1 - a\n1..1\n# duration_ms 1\n") == ("tap", 1, 0, 0)

    def test_two_runs_with_the_spec_reporter_are_added(self) -> None:
        said = "ℹ tests 2\nℹ pass 2\nℹ fail 0\nℹ cancelled 0\nℹ duration_ms 1\n"
        assert numbers(f"✔ a (1ms)\n  ✔ b (1ms)\n{said}" * 2) == ("node", 4, 0, 0)

    def test_the_first_error_of_a_cross_stands_close_below_it(self) -> None:
        said = "ℹ tests 2\nℹ pass 0\nℹ fail 2\nℹ cancelled 0\nℹ duration_ms 1\n"
        counts = read_counts(f"✖ a (1ms)\n\n  wrong\n✖ b (1ms)\n\n\n  later\n{said}")
        assert counts == TestCounts("node", 0, 2, 0, ("a", "b"), {"a": "wrong"})

    def test_details_hide_nothing_that_is_no_detail(self) -> None:
        blank = "1..1\nok 1 - a\n  ---\n  text: |\n\n    not ok 7\n  ...\n"
        assert numbers(blank) == ("tap", 1, 0, 0)
        assert numbers("1..2\nok 1 - a\n---\nnot ok 2 - b\n") == ("tap", 1, 1, 0)
        inside = "    ok 1 - b\n    ---\n    not ok 2 - c\n    1..2\n"
        counts = read_counts(f"1..2\nok 1 - a\n{inside}not ok 2 - d\n")
        assert counts == TestCounts("tap", 2, 1, 0, ("c",))

    def test_a_point_sums_up_those_right_before_it(self) -> None:
        text = "1..2\nok 1 - a\n    ok 1 - b\n    1..1\nok 2 - c\n"
        assert numbers(text) == ("tap", 2, 0, 0)

    def test_what_is_wrong_with_a_plan_is_named(self) -> None:
        counts = read_counts("TAP version 13\nnot ok 2\n")
        assert counts == TestCounts("tap", 0, 2, 0, ("test 2", "the plan is missing"))
        counts = read_counts("1..3\nok 1\n")
        assert counts == TestCounts("tap", 1, 2, 0, ("2 planned tests are missing",))
        counts = read_counts("1..1\nok 1\nok 2\n")
        assert counts == TestCounts("tap", 2, 1, 0, ("more tests than planned",))


class TestJunit:
    def test_an_error_of_a_suite_has_no_name(self) -> None:
        error = '<error message="no"/>'
        nameless = ("a test without a name",)
        for inside in (f'{error}<testcase name="a"/>', f'<testcase name="a"/>{error}'):
            counts = read_junit(f"<testsuite>{inside}</testsuite>")
            assert counts == TestCounts("junit", 1, 1, 0, nameless, {nameless[0]: "no"})

    def test_a_case_can_have_a_class_alone(self) -> None:
        text = '<testsuite><testcase classname="a.B"><error>1 &lt; 2</error></testcase></testsuite>'
        assert read_junit(text) == TestCounts("junit", 0, 1, 0, ("a.B",), {"a.B": "1 < 2"})

    def test_what_is_skipped_outside_of_a_case_is_none(self) -> None:
        counts = read_junit('<testsuite><skipped/><testcase name="a"/></testsuite>')
        assert counts == TestCounts("junit", 1, 0)

    def test_blanks_and_a_mark_may_come_before_the_document(self) -> None:
        text = '\ufeff\r\n\t <?xml version="1.0"?><testsuite><testcase name="a"/></testsuite>'
        assert read_junit(text) == TestCounts("junit", 1, 0)

    def test_suites_may_lie_in_each_other_up_to_a_depth(self) -> None:
        for depth, counts in ((DEEPEST_XML - 1, TestCounts("junit", 1, 0)), (DEEPEST_XML, None)):
            text = "<testsuite>" * depth + '<testcase name="a"/>' + "</testsuite>" * depth
            assert read_junit(text) == counts


def failure(kind: str, name: str, error: str = "") -> str:
    """Return how unittest shows a failure at length."""
    text = f"{RULE}\nTraceback (most recent call last):\n  File\n{error}\n\n" if error else ""
    return f"{DOUBLE_RULE}\n{kind}: {name}\n{text}"


def ran(tests: int, result: str = "OK") -> str:
    """Return how unittest sums up."""
    return f"{RULE}\nRan {tests} tests in 0.001s\n\n{result}\n"


class TestUnittest:
    def test_only_those_of_several_runs_count_that_were_seen(self) -> None:
        text = f"{ran(50)}..\n{ran(2)}loading ... done\n{ran(1)}.\n{ran(1)}.\n{ran(1)}"
        assert numbers(text) == ("unittest", 2 + 1 + 1, 0, 0)
        assert numbers(f"{ran(1)}..\n{ran(2)}") == ("unittest", 2, 0, 0)
        assert numbers(ran(3)) == ("unittest", 3, 0, 0)

    def test_each_run_has_its_own_failures(self) -> None:
        text = failure("FAIL", "test_{0} (t.A.test_{0})", "no") + ran(3, "FAILED (failures=1)")
        expected = ("unittest", 4, 2, 0)
        assert numbers(ran(50) + text.format("a") + text.format("b")) == expected
        assert numbers(text.format("a") + text.format("b")) == expected

    def test_a_number_without_a_result_is_no_summary(self) -> None:
        assert read_counts("OK\nRan 3 tests in 0.001s\n") is None

    def test_only_those_passed_that_say_so_where_it_stopped(self) -> None:
        text = "test_a (t.A.test_a) ... ok\ntest_b (t.A.test_b) ... skipped 'x'\n"
        assert numbers(text) == ("unittest", 1, 1, 0)

    def test_all_kinds_of_failures_are_added(self) -> None:
        for kind in ("failures", "errors", "unexpected successes"):
            assert numbers(ran(5, f"FAILED ({kind}=2)")) == ("unittest", 3, 2, 0)
            assert numbers(ran(1, f"FAILED ({kind}=3)")) == ("unittest", 0, 3, 0)

    def test_what_prepares_tests_is_no_test(self) -> None:
        error = failure("ERROR", "setUpClass (t.A)", "no database")
        assert numbers(error + ran(2, "FAILED (errors=1)")) == ("unittest", 2, 1, 0)
        assert numbers(error * 2 + ran(2, "FAILED (errors=1)")) == ("unittest", 2, 1, 0)
        both = error + failure("FAIL", "a (t.B.a)", "no") + failure("FAIL", "b (t.B.b)", "no")
        assert numbers(both + ran(3, "FAILED (failures=2, errors=1)")) == ("unittest", 1, 3, 0)

    def test_parts_of_a_test_are_failures_of_one_test(self) -> None:
        parts = failure("FAIL", "a (t.A.a) (i=1)", "no") + failure("FAIL", "a (t.A.a) (i=2)", "no")
        assert numbers(parts + ran(2, "FAILED (failures=2)")) == ("unittest", 1, 2, 0)

    def test_a_failure_has_no_error_of_another(self) -> None:
        both = failure("UNEXPECTED SUCCESS", "a (t.A.a)") + failure("FAIL", "b (t.A.b)", "wrong")
        result = ran(2, "FAILED (failures=1, unexpected successes=1)")
        counts = read_counts(f"FAIL: printed (t.A.c)\n{both}{result}")
        names = ("a (t.A.a)", "b (t.A.b)")
        assert counts == TestCounts("unittest", 0, 2, 0, names, {names[1]: "wrong"})


def events(*found: tuple[str, ...]) -> str:
    """Return events of `go test -json`: action, test and output in the package `a`."""
    keys = ("Action", "Test", "Output")
    return "\n".join(
        json.dumps({"Package": "a"} | dict(zip(keys, one, strict=False))) for one in found
    )


class TestGo:
    RUN = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n"

    def test_a_test_binary_fails_although_its_tests_pass(self) -> None:
        assert read_counts(f"{self.RUN}FAIL\n") == TestCounts("go", 1, 1, 0, ("go test",))
        assert read_counts(self.RUN) == TestCounts("go", 1, 1, 0, ("go test",))
        counts = read_counts(f"{self.RUN}=== RUN   TestB\n")
        assert counts == TestCounts("go", 1, 1, 0, ("TestB",))

    def test_an_error_before_the_result_is_that_of_the_test(self) -> None:
        expected = TestCounts("go", 0, 1, 0, ("a.TestA",), {"a.TestA": "got 3"})
        end = "--- FAIL: TestA (0.00s)\nFAIL\ta\t0.1s\n"
        assert read_counts(f"    a_test.go:4: got 3\n{end}") == replace(expected, untold=1)
        printed = "=== RUN   TestA\n--- PASS: TestPrinted (0.00s)\n    a_test.go:4: got 3\n"
        assert read_counts(printed + end) == expected

    def test_a_package_that_fails_without_a_test_has_the_first_error(self) -> None:
        text = "panic: no luck\na.go:3:2: later\nFAIL\tshop\t0.1s\n"
        expected = TestCounts("go", 0, 1, 0, ("shop",), {"shop": "panic: no luck"})
        assert read_counts(text) == expected

    def test_events_of_a_package_without_a_test(self) -> None:
        assert numbers(events(("pass",))) == ("go", 1, 0, 0)
        said = ("output", "", "ok  \ta\t0.1s\n")
        assert numbers(events(said, ("pass",))) == ("go", 1, 0, 0)
        said = ("output", "", "ok  \ta\t0.1s [no tests to run]\n")
        assert numbers(events(said, ("pass",))) == ("go", 0, 0, 0)

    @pytest.mark.parametrize(
        ("text", "untold"),
        [
            ("ok  \ta\t0.003s\nok  \tb\t(cached)\n", 2),
            ("--- FAIL: TestA (0.00s)\nFAIL\ta\t0.1s\nok  \tb\t0.1s\n", 2),
            (f"{RUN}PASS\nok  \ta\t0.003s\n", 0),
            ("=== RUN   TestA\n--- FAIL: TestA (0.00s)\nFAIL\ta\t0.1s\n", 0),
            ("ok  \ta\t0.1s [no tests to run]\n?   \tb\t[no test files]\n", 0),
            ("FAIL\ta [build failed]\n", 0),
            (events(("run", "TestA"), ("pass", "TestA"), ("pass",)), 0),
            (events(("pass",)), 1),
        ],
    )
    def test_packages_whose_tests_are_not_counted(self, text: str, untold: int) -> None:
        counts = read_counts(text)
        assert counts is not None
        assert counts.untold == untold

    def test_once_failed_is_failed(self) -> None:
        assert numbers(events(("fail", "TestA"), ("pass", "TestA"), ("pass",))) == ("go", 0, 1, 0)
        assert numbers(events(("fail",), ("pass",))) == ("go", 0, 1, 0)


class TestCargo:
    END = "test result: {} ignored; {} measured; 0 filtered out\n"

    def test_what_is_measured_has_passed(self) -> None:
        text = "running 3 tests\n" + self.END.format("ok. 1 passed; 0 failed; 0", 2)
        assert numbers(text) == ("cargo", 3, 0, 0)

    def test_only_tests_have_passed_where_it_stopped(self) -> None:
        text = "running 3 tests\ntest a ... ok\nloading ... ok\n"
        assert numbers(text) == ("cargo", 1, 1, 0)

    def test_the_first_error_of_a_test_stays(self) -> None:
        panic = "thread 'a' panicked at src/lib.rs:3:5:\n{}\n"
        blocks = f"---- a stdout ----\n{panic.format('first')}{panic.format('second')}"
        blocks += "---- b stdout ----\nprinted\n---- b stdout ----\nlater\n"
        text = f"running 2 tests\n\nfailures:\n\n{blocks}\nfailures:\n    a\n    b\n\n"
        counts = read_counts(text + self.END.format("FAILED. 0 passed; 2 failed; 0", 0))
        assert counts == TestCounts("cargo", 0, 2, 0, ("a", "b"), {"a": "first", "b": "printed"})
