"""What test runners say: real outputs, several together, and what is no runner's."""

import pytest

from cli_agent_orchestrator.gates.counts import TestCounts, add_counts, number_of, read_junit
from cli_agent_orchestrator.gates.runners import read_counts
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


def test_summaries_of_several_runners_are_added() -> None:
    text = output("pytest/passing") + output("jest/mixed")

    assert numbers(text) == ("several", 4 + 3, 4, 2)


def test_two_runs_of_pytest_are_added() -> None:
    assert numbers(output("pytest/passing") * 2) == ("pytest", 8, 0, 0)
    assert numbers(output("pytest/passing_quiet") * 2) == ("pytest", 8, 0, 0)
    both = output("pytest/passing") + output("pytest/mixed_quiet")
    assert numbers(both) == ("pytest", 4 + 5, 7, 2)


@pytest.mark.parametrize(
    "name", ["unittest/passing", "unittest/passing_verbose", "mocha/passing", "jest/passing",
             "vitest/passing", "cargo/passing", "node/passing_tap_20", "node/passing_spec_20"],
)  # fmt: skip
def test_two_runs_of_a_runner_are_added(name: str) -> None:
    runner, passed, failed, skipped = TRUE[name]["counts"]

    assert numbers(output(name) * 2) == (runner, 2 * passed, failed, 2 * skipped)


def test_packages_whose_tests_are_not_counted_are_added() -> None:
    parts = [TestCounts("go", 1, 0, untold=1), TestCounts("go", 0, 1, untold=1)]
    assert add_counts(parts) == TestCounts("go", 1, 1, untold=2)


def test_a_package_of_go_that_is_told_twice_counts_once() -> None:
    assert numbers(output("go/passing_verbose") * 2) == ("go", 5, 0, 0)


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


def test_a_carriage_return_hides_no_failure() -> None:
    assert numbers("1 failed in 0.10s\r5 passed in 0.10s") == ("pytest", 0, 1, 0)


def test_a_title_of_a_window_hides_no_line() -> None:
    assert numbers("\x1b]0;title\n1 failed in 0.10s\n") == ("pytest", 0, 1, 0)


def test_a_long_run_of_pytest_says_its_time_twice() -> None:
    text = "=========== 3 passed, 1 rerun in 61.20s (0:01:01) ==========="

    assert numbers(text) == ("pytest", 3, 0, 0)


def test_progress_of_pytest_that_stops_is_a_failure() -> None:
    assert numbers("..F.     [ 40%]\n..") == ("pytest", 3, 2, 0)


def test_a_test_binary_of_go_names_no_package() -> None:
    text = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n"

    assert numbers(f"{text}PASS\n") == ("go", 1, 0, 0)
    assert numbers(f"{text}=== RUN   TestB\n") == ("go", 1, 1, 0)


def test_events_of_go_that_stop_are_a_failure() -> None:
    assert numbers('{"Action":"pass","Package":"a","Test":"TestA"}') == ("go", 1, 1, 0)
    assert numbers('{"Action":"start","Package":"a"}') == ("go", 0, 1, 0)
    assert numbers('{"Action":7,"Package":"a"}') is None


def test_a_panic_of_an_old_rust_is_told_on_one_line() -> None:
    text = (
        "running 1 test\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\n"
        "thread 'a' panicked at 'no luck', src/lib.rs:3:5\nnote: more\n\nfailures:\n    a\n\n"
        "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n"
    )
    counts = read_counts(text)

    assert counts is not None
    assert counts.first_errors == {"a": "'no luck', src/lib.rs:3:5"}


def test_a_target_of_cargo_that_tells_of_other_tests_did_not_finish() -> None:
    text = "running 2 tests\ntest a ... ok\ntest result: {} 0 ignored; 0 measured; 0 filtered out\n"

    assert numbers(text.format("ok. 50 passed; 0 failed;")) == ("cargo", 1, 1, 0)
    assert numbers(text.format("FAILED. 3 passed; 2 failed;")) == ("cargo", 1, 3, 0)


def test_files_and_tests_of_jest_can_fail_together() -> None:
    text = (
        "FAIL ./a.test.js\n  ● Test suite failed to run\n\n    no module\n"
        "FAIL ./b.test.js\n  ● adds\n\n    wrong\n\n"
        "Test Suites: 2 failed, 2 total\nTests:       1 failed, 2 passed, 3 total\n"
    )
    counts = read_counts(text)

    assert counts == TestCounts(
        "jest",
        passed=2,
        failed=2,
        failures=("./a.test.js › Test suite failed to run", "./b.test.js › adds"),
        first_errors={
            "./a.test.js › Test suite failed to run": "no module",
            "./b.test.js › adds": "wrong",
        },
    )


def test_old_subtests_of_pytest_are_named() -> None:
    text = "=== short test summary info ===\nSUBFAIL a.py::test_b - no\n1 failed in 0.10s\n"
    counts = read_counts(text)

    assert counts is not None
    assert counts.failures == ("a.py::test_b",)


def test_a_compiler_that_only_says_that_it_failed_has_no_first_error() -> None:
    text = "errors ahead\nerror: could not compile `a` (lib)\nerror: no\n"
    text += "error: could not compile `b`\n"
    counts = read_counts(text)

    assert counts is not None
    assert counts.failures == ("could not compile `a` (lib)", "could not compile `b`")
    assert counts.first_errors == {"could not compile `b`": "error: no"}


def test_vitest_that_never_sums_up_did_not_finish() -> None:
    assert numbers(" RUN  v3.2.7 /project\n\n ✓ a.test.js (2 tests) 3ms\n") == ("vitest", 0, 1, 0)


@pytest.mark.parametrize(
    ("text", "passed", "failed", "skipped"),
    [
        ("1..2\nok 1 - a\nok 2 - b\n", 2, 0, 0),
        ("TAP version 13\nok 1\nnot ok 2\n1..2\n", 1, 1, 0),
        ("1..4\nok 1 - a\nnot ok 2 - b\n", 1, 3, 0),
        ("1..1\nok 1\nok 2\n", 2, 1, 0),
        ("TAP version 14\nok 1 - a\n", 1, 1, 0),
        ("TAP version 14\n1..3\nok 1\nBail out! no disk\n", 1, 3, 0),
        ("1..0 # SKIP nothing here\n", 0, 0, 0),
        ("1..3\nok 1 # skip\nnot ok 2 # TODO later\nnot ok 3 - a # todo\n", 0, 0, 3),
        ("1..1\n    ok 1 - b\n    not ok 2 - c\n    1..2\nnot ok 1 - a\n", 1, 1, 0),
        ("1..1\n    ok 1 - b\n    1..1\nnot ok 1 - a\n", 1, 1, 0),
        ("1..2\nnot ok 1 - a {\n    1..1\n    not ok 1 - b\n}\nok 2 - c\n", 1, 1, 0),
        ("1..2\nok 1 - a\n  ---\n  text: |\n    not ok 7\n  ...\nok 2\n", 2, 0, 0),
        ("1..2\nok 1 - a\n  ---\nnot ok 2 - hidden\n", 1, 1, 0),
        ("1..1\nok 1 - a\n1..2\nok 1 - b\nok 2 - c\n", 3, 0, 0),
    ],
)
def test_the_test_anything_protocol_is_read(
    text: str, passed: int, failed: int, skipped: int
) -> None:
    assert numbers(text) == ("tap", passed, failed, skipped)


def test_points_without_a_plan_or_a_version_are_no_protocol() -> None:
    assert read_counts("ok 1 - copied\nok then\n") is None


def test_children_are_counted_and_not_what_a_suite_says_of_them() -> None:
    text = (
        '<testsuites tests="9" failures="0"><testsuite tests="9" failures="0" errors="0">'
        '<testsuite><testcase classname="a.B" name="c"/></testsuite>'
        '<testcase classname="a.B" name="d"><failure message="first&#10;second"/></testcase>'
        '<testcase name="e"><error>\n  at once\n  later</error><failure message="no"/></testcase>'
        '<testcase name="f"><skipped/></testcase><testcase name="g"><system-out>x</system-out>'
        "</testcase></testsuite></testsuites>"
    )
    expected = TestCounts("junit", 2, 2, 1, ("a.B.d", "e"), {"a.B.d": "first", "e": "at once"})

    assert read_junit(text) == expected
    assert read_counts(f"\n{text}") == expected


def test_an_error_of_a_suite_itself_is_a_failure() -> None:
    text = '<testsuite><error message="no database"/><testcase name="a"/></testsuite>'
    counts = read_junit(text)

    assert counts is not None
    assert (counts.passed, counts.failed) == (1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rubbish",
        "<html/>",
        "<testsuite>",
        '<!DOCTYPE t [<!ENTITY a "aaaaaaaaaa">]><testsuite name="&a;"/>',
        "<testsuite>&undefined;</testsuite>",
        "<testsuite>" * 200 + "</testsuite>" * 200,
        f"<testsuite>{' ' * 64_000_000}</testsuite>",
        "<testsuite>\ud800\x00</testsuite>",
    ],
    ids=range(9),
)
def test_what_is_no_proper_xml_has_no_counts(text: str) -> None:
    assert read_junit(text) is None


def test_names_and_errors_are_cut_and_printable() -> None:
    reasons = [f"FAILED a.py::test_{n}\u2028{'x' * 400} - y\u200by{'z' * 400}" for n in range(250)]
    text = "\n".join(["=== short test summary info ===", *reasons, "250 failed in 1.00s"])
    counts = read_counts(text)

    assert counts is not None
    assert counts.failed == 250
    assert len(counts.failures) == 200
    assert counts.failures[0] == f"a.py::test_0 {'x' * 400}"[:300]
    assert counts.first_errors[counts.failures[0]] == f"y y{'z' * 400}"[:300]


def test_sums_keep_the_first_error_of_a_test() -> None:
    parts = [
        TestCounts("go", 1, 1, 0, ("a",), {}),
        TestCounts("go", 0, 2, 3, ("b", "a"), {"a": "second"}),
    ]

    assert add_counts(parts) == TestCounts("go", 1, 3, 3, ("a", "b"), {"a": "second"})
    assert add_counts(parts).run == 4


def test_a_number_of_things_is_said_in_words() -> None:
    numbers = [number_of(count, "test") for count in (0, 1, 2)]
    assert numbers == ["0 tests", "1 test", "2 tests"]
