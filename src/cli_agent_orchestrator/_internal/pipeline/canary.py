r"""Tests that must fail, put among those of a project: does its gate notice them?

Code runs in the same process as its tests. It can print the summary of a test runner and end the
process, or put a function of its own in the place of one that compares: whatever the tests are,
the gate passes. So some more are added that fail in every case, to files of tests that were there
before the run. A gate that notices them on the base and not on the result has been made deaf.

They are written where it is known how: Python (unittest, pytest and what is built on them),
JavaScript and TypeScript, Go, Rust. Their names have a word that nobody can know in advance.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cli_agent_orchestrator._internal.pipeline.counts import TestCounts
from cli_agent_orchestrator._internal.pipeline.suites import (
    GO,
    JAVASCRIPT,
    PYTHON,
    RUST,
    holds_tests,
    is_doubtful,
    is_found,
    language_of,
)

MOST_FILES = 20
"""Files that get such tests; a runner's output names a limited number of failures."""

PYTHON_TESTS = """

import unittest as {word}_unittest


class {word}_Test({word}_unittest.TestCase):
    def test_{word}_equal(self):
        self.assertEqual(1, 2)

    def test_{word}_true(self):
        self.assertTrue(False)

    def test_{word}_raised(self):
        raise AssertionError("this test must fail")


"""
JAVASCRIPT_TEST = """
{function}("{word}_thrown", () => {{ throw new Error("this test must fail"); }});
"""
GO_TEST = """
func Test_{word}_fatal(t *testing.T) {{ t.Fatal("this test must fail") }}
"""
RUST_TEST = """
#[test]
fn {word}_panic() {{ panic!("this test must fail"); }}
"""
KINDS = "equal|true|raised|thrown|fatal|panic"
"""What their names end with."""
# if __name__ == "__main__":
MAIN_PATTERN = r"^if __name__\b"
# "test('adds', …", "it(`adds`, …"
FUNCTION_PATTERN = r"^[ \t]*(it|test)\("


@dataclass(frozen=True, slots=True)
class Canaries:
    """Files of tests with some more that must fail."""

    word: str
    """In the names of all that were added."""
    texts: Mapping[str, str]
    """By path: the whole new text."""
    count: int
    """How many were added."""

    def heard_by(self, counts: TestCounts | None) -> frozenset[str]:
        """Return which of them a gate has seen fail."""
        failures = "\n".join(counts.failures if counts else ())
        return frozenset(re.findall(rf"{self.word}\d+_(?:{KINDS})", failures))


def candidates(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the files of tests that can get some more, spread over all there are."""
    found = [path for path in paths if is_found(path) or is_doubtful(path)]
    known = sorted(path for path in found if language_of(path) is not None)
    step = -(-len(known) // MOST_FILES) or 1
    return tuple(known[::step])


def add_canaries(texts: Mapping[str, str], word: str) -> Canaries:
    """Return files of tests with tests that must fail; those in which that is not known are out."""
    # No two in a package may have the same name.
    words = {path: f"{word}{number}" for number, path in enumerate(texts)}
    added = {path: _added(path, text, words[path]) for path, text in texts.items()}
    lengthened = {path: both[0] for path, both in added.items() if both[1]}
    return Canaries(word, lengthened, sum(number for _, number in added.values()))


def _added(path: str, text: str, word: str) -> tuple[str, int]:
    """Return a text with more tests, and how many these are."""
    language = language_of(path)
    if not holds_tests(path, text):
        return text, 0
    if language is PYTHON:
        before, after = _split_at_main(text)
        return before + PYTHON_TESTS.format(word=word) + after, 3
    if language is JAVASCRIPT and (function := re.search(FUNCTION_PATTERN, text, re.MULTILINE)):
        return text + JAVASCRIPT_TEST.format(function=function[1], word=word), 1
    if language is GO and '"testing"' in text:
        return text + GO_TEST.format(word=word), 1
    if language is RUST:
        return text + RUST_TEST.format(word=word), 1
    return text, 0


def _split_at_main(text: str) -> tuple[str, str]:
    """Split a module before that part of it which is run when it is the program."""
    found = re.search(MAIN_PATTERN, text, re.MULTILINE)
    place = found.start() if found else len(text)
    return text[:place], text[place:]
