"""Tests that must fail: where they are put, and whether a gate has noticed them."""

import ast

import pytest

from cli_agent_orchestrator._internal.pipeline.canary import (
    MOST_FILES,
    Canaries,
    add_canaries,
    candidates,
)
from cli_agent_orchestrator._internal.pipeline.counts import TestCounts

WORD = "cao1f"
PYTHON = "import unittest\n\nclass A(unittest.TestCase):\n    pass\n"
MAIN = 'if __name__ == "__main__":\n    unittest.main()\n'


def added(path: str, text: str) -> Canaries:
    return add_canaries({path: text}, WORD)


@pytest.mark.parametrize(("before", "after"), [(PYTHON, ""), (PYTHON, MAIN), ("", "")])
def test_in_python_they_come_before_what_runs_the_module(before: str, after: str) -> None:
    canaries = added("test_a.py", before + after)
    text = canaries.texts["test_a.py"]
    ast.parse(text)
    assert text.startswith(before)
    assert text.endswith(after)
    assert canaries.count == text.count("    def test_cao1f0_") == 3


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("a.test.ts", "test('a', () => {})\n", 'test("cao1f0_thrown", () => {'),
        ("a.spec.js", "describe('a', () => {\n  it(`b`, f)\n})\n", 'it("cao1f0_thrown", () => {'),
        ("a_test.go", 'import "testing"\n', "func Test_cao1f0_fatal(t *testing.T) {"),
        ("tests/a.rs", "", "#[test]\nfn cao1f0_panic() {"),
    ],
)
def test_each_language_has_its_own(path: str, text: str, line: str) -> None:
    canaries = added(path, text)
    assert canaries.texts[path].startswith(f"{text}\n{line}")
    assert canaries.count == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.test.ts", "const a = 1"),
        ("a_test.go", "package a"),
        ("ATest.java", "class A {}"),
        ("testimonials.py", "class Testimonial: ..."),
    ],
)
def test_where_it_is_not_known_how_nothing_is_added(path: str, text: str) -> None:
    assert added(path, text) == Canaries(WORD, {}, 0)


def test_no_two_files_have_the_same_names() -> None:
    canaries = add_canaries({"a_test.go": '"testing"', "b_test.go": '"testing"'}, WORD)
    assert "Test_cao1f0_fatal" in canaries.texts["a_test.go"]
    assert "Test_cao1f1_fatal" in canaries.texts["b_test.go"]
    assert canaries.count == 2


def test_those_are_heard_that_a_runner_names() -> None:
    canaries = added("test_a.py", PYTHON)
    names = (
        "test_cao1f0_true (test_a.cao1f0_Test.test_cao1f0_true)",
        "test_a.py::cao1f0_Test::test_cao1f0_equal",
        "test_b.py::test_other",
    )
    assert canaries.heard_by(TestCounts("pytest", 0, 3, 0, names)) == {
        "cao1f0_true",
        "cao1f0_equal",
    }
    assert canaries.heard_by(TestCounts("pytest", 3, 0)) == frozenset()
    assert canaries.heard_by(None) == frozenset()


def test_they_are_spread_over_all_files_of_tests() -> None:
    assert candidates(["a.py", "test_b.py", "test_a.py", "TestA.txt", "t/x.txt", "testc.py"]) == (
        "test_a.py",
        "test_b.py",
        "testc.py",
    )
    assert candidates([]) == ()
    for number in (MOST_FILES, MOST_FILES + 1, 10 * MOST_FILES):
        many = candidates([f"test_{n:04}.py" for n in range(number)])
        assert MOST_FILES / 2 < len(many) <= MOST_FILES
        assert many[0] == "test_0000.py"
        assert many[-1] >= f"test_{number * 3 // 4:04}.py"
