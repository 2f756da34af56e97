"""Nothing that a program under test prints hides a failure, stops the reader or slows it down."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.gates.counts import read_counts, read_junit
from tests.gates.kept_outputs import FAKES, NAMES, TRUE, output

RED, PLAIN = "\x1b[31m", "\x1b[0m"
# Nobody can tell who finished a run that was cut off in the middle: its exit code must be asked.
CUT_OFF = {"pytest/killed", "unittest/killed_verbose"}
FAILING = [name for name, said in TRUE.items() if said["counts"][2] and name not in CUT_OFF]
NOISE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=60).map(
    lambda text: f"log {text.replace(' in ', ' ')}"
)


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
def test_nothing_around_a_failure_makes_it_a_success(
    name: str, before: Sequence[str], after: Sequence[str]
) -> None:
    text = output(name)
    if text.startswith("<"):
        return
    counts = read_counts("\n".join([*before, text, *after]))

    assert counts is not None
    assert counts.failed > 0


LINES = st.sampled_from(
    sorted({line for name in NAMES for line in output(name).split("\n") if len(line) < 300})
)


@given(st.lists(LINES | st.text(max_size=30) | st.sampled_from(FAKES), max_size=60))
def test_whatever_is_printed_the_counts_make_sense(lines: Sequence[str]) -> None:
    text = "\n".join(lines)
    read_junit(text)
    counts = read_counts(text)

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


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE)
def test_a_piece_without_end_is_read(piece: str) -> None:
    """What takes quadratic time takes minutes here."""
    counts = read_counts("1..9\n" + piece * (64_000 // len(piece)))

    assert counts is None or counts.passed >= 0


def test_half_a_megabyte_of_everything_is_read() -> None:
    each = 256_000 // len(HOSTILE)
    counts = read_counts("".join(piece * (each // len(piece)) + "\n" for piece in HOSTILE))

    assert counts is not None
    assert counts.failed > 0
