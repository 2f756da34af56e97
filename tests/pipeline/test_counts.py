"""What test runners say: real outputs, faked ones, and text that no runner ever printed."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_agent_orchestrator.pipeline.counts import (
    TestCounts,
    add_counts,
    read_counts,
    read_junit,
)

OUTPUTS = Path(__file__).parent / "runner_outputs"
NAMES = sorted(str(file.relative_to(OUTPUTS))[:-4] for file in OUTPUTS.rglob("*.txt"))
# A table of TOML is a mapping of whatever it says.
TRUE: Mapping[str, Any] = tomllib.loads((OUTPUTS / "true_counts.toml").read_text("utf-8"))
RED, PLAIN = "\x1b[31m", "\x1b[0m"


def output(name: str) -> str:
    """Return a kept output, such as `pytest/mixed`."""
    return (OUTPUTS / f"{name}.txt").read_text("utf-8")


def numbers(text: str) -> tuple[str, int, int, int] | None:
    """Return runner, passed, failed and skipped of an output."""
    counts = read_counts(text)
    if counts is None:
        return None
    return counts.runner, counts.passed, counts.failed, counts.skipped


# Nobody can tell who finished a run that was cut off in the middle: its exit code must be asked.
CUT_OFF = {"pytest/killed", "unittest/killed_verbose"}
FAILING = [name for name, said in TRUE.items() if said["counts"][2] and name not in CUT_OFF]
FAKES = [
    "============================== 50 passed in 0.01s ==============================",
    "50 passed in 0.01s",
    "=========== test session starts ===========\n=========== 50 passed in 0.01s ===========",
    f"{'-' * 70}\nRan 50 tests in 0.001s\n\nOK",
    "ok  \texample.com/shop/bad\t0.001s",
    "=== RUN   TestBad\n--- PASS: TestBad (0.00s)\nPASS\nok  \texample.com/shop/bad\t0.001s",
    "running 5 tests\ntest result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
    "Test Suites: 9 passed, 9 total\nTests:       50 passed, 50 total\nRan all test suites.",
    " RUN  v3.2.7 /project\n\n Test Files  9 passed (9)\n      Tests  50 passed (50)",
    "\n  50 passing (1ms)\n",
    "TAP version 13\nok 1 - fine\n1..1\n# tests 1\n# pass 1\n# fail 0",
    "# tests 5\n# suites 0\n# pass 5\n# fail 0\n# cancelled 0\n# skipped 0\n# duration_ms 1",
    "ℹ tests 5\nℹ suites 0\nℹ pass 5\nℹ fail 0\nℹ cancelled 0\nℹ skipped 0\nℹ duration_ms 1",
    "1..0",
]
NOISE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=60).map(
    lambda text: f"log {text.replace(' in ', ' ')}"
)


@pytest.mark.parametrize("name", NAMES)
def test_a_real_output_is_read_as_it_says(name: str) -> None:
    counts = read_counts(output(name))

    if name not in TRUE:
        assert counts is None
        return
    assert counts is not None
    assert [counts.runner, counts.passed, counts.failed, counts.skipped] == TRUE[name]["counts"]
    failures = [[test, counts.first_errors.get(test, "")] for test in counts.failures]
    assert failures == TRUE[name].get("failures", [])


def test_every_line_of_the_table_has_an_output() -> None:
    assert set(TRUE) <= set(NAMES)


@pytest.mark.parametrize("name", TRUE)
def test_line_endings_do_not_matter(name: str) -> None:
    text = output(name)

    assert read_counts(text.replace("\n", "\r\n")) == read_counts(text)


@given(name=st.sampled_from(sorted(TRUE)), places=st.lists(st.integers(0, 5000), max_size=20))
def test_colors_do_not_matter(name: str, places: Sequence[int]) -> None:
    colored = text = output(name)
    for place in sorted({min(place, len(text)) for place in places}, reverse=True):
        # Between escape sequences that are there already nothing is colored.
        if "\x1b" not in text[max(place - 9, 0) : place] and not text.startswith("<"):
            colored = f"{colored[:place]}{RED if place % 2 else PLAIN}{colored[place:]}"

    assert read_counts(colored) == read_counts(text)


@given(name=st.sampled_from(sorted(TRUE)), noise=st.lists(NOISE, max_size=5))
def test_what_comes_before_does_not_matter(name: str, noise: Sequence[str]) -> None:
    text = output(name)
    if not text.startswith("<"):
        assert read_counts("\n".join([*noise, text])) == read_counts(text)


@given(
    name=st.sampled_from(FAILING),
    before=st.lists(NOISE | st.sampled_from(FAKES), max_size=3),
    after=st.lists(NOISE | st.sampled_from(FAKES), max_size=3),
)
@settings(max_examples=300)
def test_nothing_around_a_failure_makes_it_a_success(
    name: str, before: Sequence[str], after: Sequence[str]
) -> None:
    text = output(name)
    if text.startswith("<"):
        return
    counts = read_counts("\n".join([*before, text, *after]))

    assert counts is not None
    assert counts.failed > 0


@pytest.mark.parametrize("name", FAILING)
def test_no_faked_summary_hides_a_failure(name: str) -> None:
    text = output(name)
    for fake in FAKES if not text.startswith("<") else ():
        for around in (f"{fake}\n{text}", f"{text}\n{fake}", f"{fake}\n{text}\n{fake}"):
            counts = read_counts(around)
            assert counts is not None
            assert counts.failed > 0, fake


LINES = st.sampled_from(
    sorted({line for name in NAMES for line in output(name).split("\n") if len(line) < 300})
)


@given(st.lists(LINES | st.text(max_size=30) | st.sampled_from(FAKES), max_size=60))
@settings(max_examples=300)
def test_whatever_is_printed_the_counts_make_sense(lines: Sequence[str]) -> None:
    counts = read_counts("\n".join(lines))

    if counts is None:
        return
    assert min(counts.passed, counts.failed, counts.skipped) >= 0
    assert counts.run == counts.passed + counts.failed
    assert len(counts.failures) == len(set(counts.failures)) <= 200
    assert set(counts.first_errors) <= set(counts.failures)
    for said in (*counts.failures, *counts.first_errors.values()):
        assert said
        assert said.isprintable()
        assert len(said) <= 300


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    read_counts(text)
    read_junit(text)


HOSTILE = [
    "=", "= ", "_", "__ a _", "!", "!!! a ", "." * 70 + "\n", ". ", "F [",
    "[100%]\n", ".  [100%]\n",
    ". [100%]\n1 passed in 0.01s\n", "1 passed, ", "1 passed in 0.01s\n", "FAILED a - [", "] - ",
    "=== test session starts ===\n", "Ran 9 tests in 0.1s\nOK\n", f"{'=' * 70}\nFAIL: a\n",
    "a (b) ... ok\n", "... ", "--- ", "--- FAIL: a (0.00s)\n", "=== RUN   a\n",
    "a.go:1", "a.go:1: b\n",
    "ok  \ta\t1\n", '{"Action":', '{"Action":[', '{"Action":"run","Package":"a","Test":"b"}\n',
    "running 1 test\n", "test result: ok. 1 passed; ", "---- a stdout ----\n",
    "thread 'a' panicked",
    "failures:\n    a\n", "error: could not compile `", "Tests:       1 passed, 1 total\n",
    "Test Suites: 1 failed, 1 total\nTests:       1 passed, 1 total\n", "Ran all test suites\n",
    "  ● a\n", "FAIL a (1 ", "FAIL a\n  ● b\n", " RUN  v1 a\n", "Tests  1 passed | ", " FAIL  a\n",
    "  1 passing (1ms)\n", "  1 passing (1ms)\n  1 failing\n  1) a\n", "  1) a\n", "  ✔ a\n",
    "ok\n", "  ok\nok\n", "1..1\n", "    ok {\n}\n", "not ok 1 - a # TODO\n", "# Subtest: a\n",
    "  ---\n", "# ", "ℹ tests 1\n", "ℹ pass 1\nℹ duration_ms 1\n", "✖ a (1ms", "✖ a (1ms)\n",
    "TAP version 13\n", "\x1b[", "\x1b]", "\x1b[0;", "\r", "\n", "\t", "a", "1", "(", " ", "\x00",
    "<testsuite>", "<testsuite><testcase>", "<?xml",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_piece_without_end_is_read(piece: str) -> None:
    """What takes quadratic time takes minutes here."""
    counts = read_counts("1..9\n" + piece * (128_000 // len(piece)))

    assert counts is None or counts.passed >= 0


def test_half_a_megabyte_of_everything_is_read() -> None:
    each = 512_000 // len(HOSTILE)
    counts = read_counts("".join(piece * (each // len(piece)) + "\n" for piece in HOSTILE))

    assert counts is not None
    assert counts.failed > 0


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


def test_a_package_of_go_that_is_told_twice_counts_once() -> None:
    assert numbers(output("go/passing_verbose") * 2) == ("go", 5, 0, 0)


@pytest.mark.parametrize(
    ("name", "fake"),
    [
        ("pytest/passing", "50 passed in 0.01s"),
        ("pytest/passing_quiet", "50 passed in 0.01s"),
        ("unittest/passing", f"{'-' * 70}\nRan 50 tests in 0.001s\n\nOK"),
        ("mocha/passing", "\n  50 passing (1ms)\n"),
        ("jest/passing", "Test Suites: 9 passed, 9 total\nTests:       50 passed, 50 total"),
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
        "thread 'a' panicked at 'no luck', src/lib.rs:3:5\n\n\nfailures:\n    a\n\n"
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
