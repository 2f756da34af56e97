r"""Finds out what the work of a run is worth: its tests on the base, the base's tests on it.

Tests that must fail (canaries) are added, too. Code runs in the same process as its tests: it can
print the summary of a test runner and end the process, or replace a function that compares. A gate
that reports these tests on the base and misses some on the result was tricked. They are written for
Python, JavaScript, TypeScript, Go and Rust, and some compare as the tests around them do. Their
names are random words, most of them the project's own, so that no code can recognize them.
"""

import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from ..core.files import cache_of
from ..errors import GitError
from ..gates.check import BaseResult, CheckResult, judge_check
from ..gates.checking import GatePlace, GateRunner
from ..gates.counts import TestCounts
from ..settings.gates import Gate
from ..work.changes import Change
from ..work.folder import WorkFolder
from .suites import (
    GO,
    JAVASCRIPT,
    PYTHON,
    RUST,
    Kinds,
    Layers,
    PathKind,
    holds_tests,
    is_doubtful,
    is_found,
    is_golden,
    kind_of,
    kinds_of_named,
    language_of,
    layers_of,
    may_be_data,
    named_files,
    spoken_part,
)
from .tampering import Suspicion, Trick, find_tampering
from .verdict import MOST_LISTED, GateProof, Proof, is_red, still_failing

MOST_CANARY_FILES = 20
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
WORDS = [
    "after", "all", "and", "any", "before", "both", "empty", "first", "for", "from", "given",
    "has", "into", "keeps", "known", "last", "left", "list", "long", "many", "more", "name",
    "new", "next", "none", "not", "old", "one", "only", "order", "other", "out", "over", "part",
    "reads", "right", "same", "second", "shows", "short", "single", "some", "than", "then",
    "twice", "two", "under", "until", "value", "when", "where", "with", "without",
]  # fmt: skip
MOST_WORDS = 2000
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


def judge_canaries(
    names: Collection[str],
    on_result: TestCounts | None,
    run_on_base: Callable[[], TestCounts | None],
    *,
    turned: Sequence[str],
    failing: Sequence[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which of them a gate misses, and which other tests pass only without them.

    The base is asked only where the result is in doubt. Tests that `turned` failed before the run
    and must pass with it. Those that are `failing` fail on the result anyway.
    """
    seen, others = _sort(names, on_result)
    others -= set(failing)
    if betrayed := others & set(turned):
        return (), tuple(sorted(betrayed))
    if not others and seen == set(names):
        return (), ()
    on_base = run_on_base()
    seen_there, others_there = _sort(names, on_base)
    more = others - others_there if on_base is not None else ()
    return tuple(sorted(seen_there - seen)), tuple(sorted(more))


def _sort(names: Collection[str], counts: TestCounts | None) -> tuple[set[str], set[str]]:
    seen, others = set(), set()
    for failure in counts.failures if counts else ():
        found = {name for name in names if _has(failure, name)}
        seen |= found
        others |= set() if found else {failure}
    return seen, others


def candidates(paths: Sequence[str]) -> tuple[str, ...]:
    found = [path for path in paths if is_found(path) or is_doubtful(path)]
    known = sorted(path for path in found if language_of(path) is not None)
    step = -(-len(known) // MOST_CANARY_FILES) or 1
    return tuple(known[::step])


def add_canaries(texts: Mapping[str, str], pick: Pick) -> tuple[frozenset[str], dict[str, str]]:
    """Return the names of tests that must fail, and the files of tests that got some."""
    namer = _Namer("\n".join(texts.values()), pick)
    added = {path: _add(path, text, namer) for path, text in texts.items()}
    names = frozenset(name for _, names in added.values() for name in names)
    return names, {path: text for path, (text, names) in added.items() if names}


class _Namer:
    def __init__(self, text: str, pick: Pick) -> None:
        own = dict.fromkeys(word.lower() for word in re.findall(WORD_PATTERN, text))
        # Each of its own counts for several.
        self._words = [*list(own)[:MOST_WORDS], *WORDS]
        self._known = set(re.findall(r"\w+", text))
        self.pick = pick

    def words(self) -> list[str]:
        return [self.pick(self._words) for _ in range(4)]

    def name(self, shape: Callable[[Sequence[str]], str]) -> str:
        words = self.words()
        for _ in range(100):
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
        return f'{text}\nfunc {name}(t *testing.T) {{ t.Fatal("{words}") }}\n', (name,)
    if language is RUST:
        name = namer.name("_".join)
        return f'{text}\n#[test]\nfn {name}() {{ panic!("{words}"); }}\n', (name,)
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
        text += f'\n{function}("{names[-1]}", ({given}) => {{ {deed}; }});\n'
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
        imports="" if re.search(r"^import unittest$", text, re.M) else "import unittest\n\n\n",
        group=group,
        names=names,
        numbers=namer.two_numbers(),
        words=words,
    )
    # Before that part of a module which is run when it is the program
    main = re.search(r"^if __name__\b", text, re.MULTILINE)
    place = main.start() if main else len(text)
    return text[:place] + more + text[place:], names


LARGEST_FILE = 1024 * 1024
MOST_FILES = 2000


class Prover(Struct, frozen=True):
    runner: GateRunner
    place: GatePlace
    work: WorkFolder
    most_files: int = MOST_FILES

    def prove(
        self,
        gates: Sequence[Gate],
        base: Mapping[str, BaseResult],
        passed: Mapping[str, BaseResult],
        log_name: str,
    ) -> Proof:
        snapshots, now = self.work.snapshots, self.work.now
        if snapshots is None or now is None:
            return Proof(no_snapshots=self.work.why_no_snapshots)
        start, end = snapshots.all()[0].tree, now.tree
        commands = [gate.run for gate in gates]
        changes = snapshots.changes(start, end)
        kinds = self._kinds(start, end, changes, commands)
        layers = layers_of(changes, kinds)
        suspicions = self._suspicions(start, end, changes, kinds)
        before: tuple[Suspicion, ...] = ()
        if snapshots.base:
            # Done by an earlier run, or the user.
            try:
                older = snapshots.changes(snapshots.base, start)
                known = self._kinds(snapshots.base, start, older, commands)
                before = self._suspicions(snapshots.base, start, older, known)
            except GitError:
                why = "what was committed before the run can not be read any more"
                before = (Suspicion(".git", Trick.DELETED, why),)
        links = self.work.links(start)
        files = candidates(self.work.files(start))
        read = {path: self._text(start, links.get(path, path)) for path in files}
        texts = {path: text for path, text in read.items() if text is not None}
        canaries = add_canaries(texts, secrets.choice)
        trees = (start, end)
        found = tuple(
            self._prove_by(
                gate, trees, layers, base.get(gate.name), passed[gate.name], canaries, log_name
            )
            for gate in gates
            if passed.get(gate.name, BaseResult(None)).run >= 0
        )
        by_path = {path: one for one in changes for path in (one.path, one.old_path)}
        listed = (by_path[one.path] for one in suspicions[:MOST_LISTED] if one.path in by_path)
        patches = (
            snapshots.diff(*trees, paths=sorted({one.path, one.old_path}), limit=LARGEST_FILE)
            for one in dict.fromkeys(listed)
        )
        return Proof(
            found,
            layers.new_tests,
            suspicions,
            layers.product,
            layers.is_untouched,
            before,
            tuple(patch.decode(errors="replace") for patch in patches),
            left_behind=tuple(sorted({*map(cache_of, self.work.left_behind(end))})),
        )

    def _prove_by(
        self,
        gate: Gate,
        trees: tuple[str, str],
        layers: Layers,
        base: BaseResult | None,
        passed: BaseResult,
        canaries: tuple[frozenset[str], dict[str, str]],
        log_name: str,
    ) -> GateProof:
        (start, end), (canary_names, canary_texts) = trees, canaries
        failed_before = base.failures if base else ()
        turned = tuple(sorted(set(failed_before) - set(passed.failures)))
        old_tests = layers.over_result(had_tests=base is not None and base.run > 0)

        def run(
            label: str,
            commit: str,
            over: str = "",
            paths: Sequence[str] = (),
            texts: Mapping[str, str] | None = None,
        ) -> CheckResult:
            with self.work.laid_out(commit, over, paths, texts) as folder:
                place = replace(self.place, folder=folder)
                return self.runner.run_fresh(gate, place, f"{log_name}-{gate.name}-{label}")

        def judge(result: CheckResult) -> CheckResult:
            return judge_check(result, base, allow_base_failures=gate.allow_base_failures)

        on_result = judge(run("result", end, start, old_tests))
        on_base: CheckResult | None = None
        emptied: tuple[str, ...] = ()
        if own_tests := layers.over_base:
            on_base = run("base", start, end, own_tests)
            if layers.new_sources and is_red(on_base, len(failed_before)):
                # They may be in the way of others: what counts must fail without them, too.
                emptied = layers.new_sources
                empty = dict.fromkeys(emptied, "")
                on_base = run("base-empty", start, end, own_tests, empty)
        still: tuple[str, ...] = ()
        if turned:
            is_known = on_base is not None and is_red(on_base, 0)
            again = on_base if on_base is not None and is_known else run("again", start)
            still = still_failing(turned, again.counts, passed.failures)
        missed: tuple[str, ...] = ()
        betrayed: tuple[str, ...] = ()
        if on_result.passed and canary_names:

            def run_canaries(label: str, commit: str) -> TestCounts | None:
                return run(label, commit, start, old_tests, canary_texts).counts

            missed, betrayed = judge_canaries(
                canary_names,
                run_canaries("must-fail", end),
                lambda: run_canaries("must-fail-base", start),
                turned=turned,
                failing=passed.failures,
            )
        found = GateProof(
            gate.name,
            on_result,
            on_base,
            turned=still,
            faded=() if still else turned,
            emptied=emptied,
            missed=missed,
            betrayed=betrayed,
            failed_before=len(failed_before),
            passed_with=-1 if base is not None and base.run >= 0 else passed.run,
        )
        if found.fault or not old_tests or gate.clean or self.work.holds_back:
            return found
        # In the work folder its new tests may have passed by files that no commit has.
        return replace(found, as_it_is=judge(run("as-it-is", end)))

    def _kinds(
        self, old: str, new: str, changes: Sequence[Change], commands: Sequence[str]
    ) -> Kinds:
        before = [c.old_path for c in changes if c.status != "A"]
        after = [c.path for c in changes if c.status != "D"]
        sides = [(old, path) for path in before] + [(new, path) for path in after]
        doubtful = [(commit, path) for commit, path in sides if is_doubtful(path)]
        tests = {
            path
            for commit, path in doubtful[:MOST_FILES]
            if holds_tests(path, self._text(commit, path))
        }
        for commit, paths in ((old, before), (new, after)):
            # What a test leads to is a test, and so is all in a folder of tests.
            led_to = {
                target
                for path, target in self.work.links(commit).items()
                if kind_of(path) is PathKind.TEST
            }
            tests |= {
                path for path in paths if led_to & {path, *map(str, PurePosixPath(path).parents)}
            }
        files = self.work.files(old)
        named: set[str] = set()
        for command in commands:
            named |= named_files(command, files, self.work.prefix).intersection(before)
        data = [path for path in before if path not in named and may_be_data(path)]
        for path in data[:100]:
            if is_golden(self.work.mentioning(old, path.rpartition("/")[2], LARGEST_FILE)):
                tests.add(path)
        return kinds_of_named({path: self._text(old, path) for path in named}, frozenset(tests))

    def _text(self, commit: str, path: str) -> str | None:
        data = self.work.read(commit, path, LARGEST_FILE + 1)
        if data is None or len(data) > LARGEST_FILE or b"\0" in data:
            return None
        return data.decode(errors="replace")

    def _suspicions(
        self, old: str, new: str, changes: Sequence[Change], kinds: Kinds
    ) -> tuple[Suspicion, ...]:
        matter = [
            change
            for change in changes
            for paths in [(change.path, change.old_path)]
            if any(kinds.of(path) is not PathKind.OTHER or language_of(path) for path in paths)
        ]
        # The tests first: not all may be looked into.
        matter.sort(key=lambda one: kinds.of(one.old_path) is PathKind.OTHER)
        read = [
            (
                one,
                self._text(old, one.old_path) if one.status != "A" else None,
                self._text(new, one.path) if one.status != "D" else None,
            )
            for one in matter[: self.most_files]
        ]
        return find_tampering(read, kinds, [one.path for one in matter[self.most_files :]])
