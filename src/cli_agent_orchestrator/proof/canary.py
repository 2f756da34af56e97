r"""Tests that must fail, put among those of a project: does its gate notice them?

Code runs in the same process as its tests. It can print the summary of a test runner and end the
process, or put a function of its own in the place of one that compares: whatever the tests are,
the gate passes. So some more are added that fail in every case, to files of tests that were there
before the run. A gate that reports them on the base and misses some on the result was tricked.

They are written where it is known how: Python (unittest, pytest and what is built on them),
JavaScript and TypeScript, Go, Rust. In the first three languages some of them compare, in the
ways in which the tests around them do. Nothing in them is the same twice: their names are made of
words by chance, most of them the project's own, in the shape that names of tests have. Code that
lies as long as it sees none of them still cannot do so: with them, what it lies about would fail.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..gates.counts import TestCounts
from .languages import GO, JAVASCRIPT, PYTHON, RUST, language_of, spoken_part
from .suites import holds_tests, is_doubtful, is_found

MOST_FILES = 20
"""Files that get such tests; a runner's output names a limited number of failures."""

PYTHON_TESTS = """

{imports}class {group}(unittest.TestCase):
    def {names[0]}(self):
        self.assertEqual({numbers[0]}, {numbers[1]})

    def {names[1]}(self):
        self.assertTrue({numbers[0]} == {numbers[1]})

    def {names[2]}(self):
        raise AssertionError("{words}")


"""
JAVASCRIPT_TEST = '\n{function}("{name}", ({given}) => {{ {deed}; }});\n'
GO_TEST = '\nfunc {name}(t *testing.T) {{ t.Fatal("{words}") }}\n'
RUST_TEST = '\n#[test]\nfn {name}() {{ panic!("{words}"); }}\n'
IMPORT = "import unittest\n\n\n"
WORDS = [
    "after", "all", "and", "any", "before", "both", "empty", "first", "for", "from", "given",
    "has", "into", "keeps", "known", "last", "left", "list", "long", "many", "more", "name",
    "new", "next", "none", "not", "old", "one", "only", "order", "other", "out", "over", "part",
    "reads", "right", "same", "second", "shows", "short", "single", "some", "than", "then",
    "twice", "two", "under", "until", "value", "when", "where", "with", "without",
]  # fmt: skip
"""Besides those of the project."""
MOST_WORDS = 2000
MOST_TRIES = 100
NUMBERS = [str(number) for number in range(2, 1000)]
# "price" in "test_price", "Price" in "testPrice"
WORD_PATTERN = r"[A-Z]?[a-z]{2,9}"
# "test('adds', …", "it(`adds`, …"
FUNCTION_PATTERN = r"^[ \t]*(it|test)\("
# "assert.strictEqual(a, b)", "deepEqual(a, b)", "t.is(a, b)"
COMPARES_PATTERN = (
    r"(?<![\w.$])((?:[A-Za-z_$][\w$]{0,40}\.){0,3}"
    r"(?:equals?|strictEqual|deepEqual|deepStrictEqual|same|strictSame)|t\.is)\("
)
# "assert(a)", "assert.ok(a)", "t.true(a)"
BELIEVES_PATTERN = r"(?<![\w.$])((?:[A-Za-z_$][\w$]{0,40}\.)?(?:assert|ok)|t\.(?:true|truthy))\("
# "expect(a).toBe(b)", "expect(a).to.deep.equal(b)"
EXPECTS_PATTERN = (
    r"\)\s{0,40}\.(toBe|toEqual|toStrictEqual|to\.(?:be\.)?(?:deep\.)?(?:equals?|eql?))\("
)
MOST_DEEDS = 5
"""Tests that one file of JavaScript gets; each fails in another way."""


Pick = Callable[[Sequence[str]], str]
"""Chooses one of several by chance."""


@dataclass(frozen=True, slots=True)
class Canaries:
    """Files of tests with some more that must fail."""

    names: frozenset[str]
    """Of all that were added."""
    texts: Mapping[str, str]
    """By path: the whole new text."""


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """What a gate reports of tests that must fail."""

    missed: tuple[str, ...] = ()
    """Those that it reports on the base, and not on the result."""
    betrayed: tuple[str, ...] = ()
    """Tests that pass on the result as long as there are none that must fail."""


ALL_HEARD = CanaryResult()


def judge_canaries(
    canaries: Canaries,
    on_result: TestCounts | None,
    run_on_base: Callable[[], TestCounts | None],
    *,
    turned: Sequence[str],
    failing: Sequence[str],
) -> CanaryResult:
    """Return what a gate makes of them; the base is asked only where the result is in doubt.

    Tests that `turned` failed before the run: they pass with it, if it is any good, whatever is
    beside them. Those that are `failing` fail on the result anyway.
    """
    heard, others = _sort(canaries, on_result)
    others -= set(failing)
    if betrayed := others & set(turned):
        return CanaryResult(betrayed=tuple(sorted(betrayed)))
    if not others and heard == canaries.names:
        return ALL_HEARD
    on_base = run_on_base()
    heard_there, others_there = _sort(canaries, on_base)
    more = others - others_there if on_base is not None else ()
    return CanaryResult(tuple(sorted(heard_there - heard)), tuple(sorted(more)))


def _sort(canaries: Canaries, counts: TestCounts | None) -> tuple[set[str], set[str]]:
    """Return which of them a gate has seen fail, and what else."""
    heard, others = set(), set()
    for failure in counts.failures if counts else ():
        names = {name for name in canaries.names if _has(failure, name)}
        heard |= names
        others |= set() if names else {failure}
    return heard, others


def candidates(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the files of tests that can get some more, spread over all there are."""
    found = [path for path in paths if is_found(path) or is_doubtful(path)]
    known = sorted(path for path in found if language_of(path) is not None)
    step = -(-len(known) // MOST_FILES) or 1
    return tuple(known[::step])


def add_canaries(texts: Mapping[str, str], pick: Pick) -> Canaries:
    """Return files of tests with tests that must fail; those in which that is not known are out."""
    namer = _Namer("\n".join(texts.values()), pick)
    added = {path: _add(path, text, namer) for path, text in texts.items()}
    return Canaries(
        frozenset(name for _, names in added.values() for name in names),
        {path: text for path, (text, names) in added.items() if names},
    )


class _Namer:
    """Makes names of words by chance, no two of them the same."""

    def __init__(self, text: str, pick: Pick) -> None:
        own = dict.fromkeys(word.lower() for word in re.findall(WORD_PATTERN, text))
        # Each of its own counts for several.
        self._words = [*list(own)[:MOST_WORDS], *WORDS]
        self._known = set(re.findall(r"\w+", text))
        self.pick = pick

    def words(self) -> list[str]:
        return [self.pick(self._words) for _ in range(4)]

    def name(self, shape: Callable[[Sequence[str]], str]) -> str:
        """Return a new name of some shape."""
        words = self.words()
        for _ in range(MOST_TRIES):
            if not any(_has(known, shape(words)) for known in self._known):
                break
            words.append(self.pick(self._words))
        self._known.add(shape(words))
        return shape(words)

    def two_numbers(self) -> tuple[str, str]:
        number = self.pick(NUMBERS)
        return number, self.pick([other for other in NUMBERS if other != number])


def _has(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _camel(words: Sequence[str]) -> str:
    return "".join(word.capitalize() for word in words)


def _add(path: str, text: str, namer: _Namer) -> tuple[str, Sequence[str]]:
    """Return a text with more tests, and their names."""
    language = language_of(path)
    if not holds_tests(path, text):
        return text, ()
    words = " ".join(namer.words())
    if language is PYTHON:
        return _add_to_python(text, words, namer)
    if language is JAVASCRIPT and (function := re.search(FUNCTION_PATTERN, text, re.MULTILINE)):
        return _add_to_javascript(text, function[1], words, namer)
    if language is GO and '"testing"' in text:
        name = namer.name(lambda words: f"Test{_camel(words)}")
        return text + GO_TEST.format(name=name, words=words), (name,)
    if language is RUST:
        name = namer.name("_".join)
        return text + RUST_TEST.format(name=name, words=words), (name,)
    return text, ()


def _add_to_javascript(
    text: str, function: str, words: str, namer: _Namer
) -> tuple[str, Sequence[str]]:
    number, other = namer.two_numbers()
    spoken = spoken_part(text, JAVASCRIPT)
    expected = re.findall(EXPECTS_PATTERN, spoken) if "expect(" in spoken else []
    deeds = [
        f'throw new Error("{words}")',
        *(f"{call}({number}, {other})" for call in re.findall(COMPARES_PATTERN, spoken)),
        *(f"expect({number}).{matcher}({other})" for matcher in expected),
        # In TypeScript no two different numbers may be compared as they are.
        *(f"{call}(Number({number}) === {other})" for call in re.findall(BELIEVES_PATTERN, spoken)),
    ]
    names = []
    for deed in list(dict.fromkeys(deeds))[:MOST_DEEDS]:
        names.append(namer.name(" ".join))
        given = "t" if deed.startswith("t.") else ""
        text += JAVASCRIPT_TEST.format(function=function, name=names[-1], given=given, deed=deed)
    return text, names


def _add_to_python(text: str, words: str, namer: _Namer) -> tuple[str, Sequence[str]]:
    is_snake = re.search(r"def test[A-Z]", text) is None
    names = [
        namer.name(lambda words: f"test_{'_'.join(words)}" if is_snake else f"test{_camel(words)}")
        for _ in range(3)
    ]
    is_first = re.search(r"^class Test", text, re.MULTILINE) is not None
    group = namer.name(lambda words: f"Test{_camel(words)}" if is_first else f"{_camel(words)}Test")
    more = PYTHON_TESTS.format(
        imports="" if re.search(r"^import unittest$", text, re.MULTILINE) else IMPORT,
        group=group,
        names=names,
        numbers=namer.two_numbers(),
        words=words,
    )
    # Before that part of a module which is run when it is the program
    main = re.search(r"^if __name__\b", text, re.MULTILINE)
    place = main.start() if main else len(text)
    return text[:place] + more + text[place:], names
