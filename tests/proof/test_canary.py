"""Tests that must fail: where they are put, and whether a gate has noticed them."""

import ast
import itertools
import re
from collections.abc import Sequence

import pytest

from cli_agent_orchestrator.gates.counts import TestCounts
from cli_agent_orchestrator.proof.proving import (
    MOST_CANARY_FILES,
    add_canaries,
    candidates,
    judge_canaries,
)

PYTHON = "import unittest\n\nclass A(unittest.TestCase):\n    def test_price(self): ...\n"
MAIN = 'if __name__ == "__main__":\n    unittest.main()\n'


EQUALS = r"[a-e]\.equal\((\d+), (\d+)\)"


class Chance:
    """Takes one after the other."""

    def __init__(self) -> None:
        self.numbers = itertools.count()

    def __call__(self, several: Sequence[str]) -> str:
        return several[next(self.numbers) * 7 % len(several)]


def added(path: str, text: str) -> tuple[frozenset[str], dict[str, str]]:
    return add_canaries({path: text}, Chance())


@pytest.mark.parametrize(
    ("before", "after", "name", "group"),
    [
        (PYTHON, "", r"test(_[a-z]+){4}", r"([A-Z][a-z]+){4}Test"),
        (PYTHON, MAIN, r"test(_[a-z]+){4}", r"([A-Z][a-z]+){4}Test"),
        ("class TestA:\n    def testPrice(self): ...\n", "", r"test([A-Z][a-z]+){4}", r"Test\w+"),
    ],
)
def test_in_python_they_look_like_the_others_and_come_before_what_runs_the_module(
    before: str, after: str, name: str, group: str
) -> None:
    names, texts = added("test_a.py", before + after)
    text = texts["test_a.py"]
    ast.parse(text)
    assert text.startswith(before)
    assert text.endswith(after)
    assert text.count("import unittest\n") == 1
    assert len(names) == 3
    assert set(re.findall(r"def (test\w+)", text.removeprefix(before))) == names
    assert all(re.fullmatch(name, one) for one in names)
    assert re.search(rf"^class {group}\(unittest\.TestCase\):$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("a.test.ts", "test('a', () => {})\n", r'test\("(?P<name>[a-z]+( [a-z]+){3})", \(\) => {'),
        ("a.spec.js", "d('a', () => {\n  it(`b`, f)\n})\n", r'it\("(?P<name>[a-z ]+)", \(\) => {'),
        ("a_test.go", 'import "testing"\n', r"func (?P<name>Test([A-Z][a-z]+){4})\(t \*testing"),
        ("tests/a.rs", "", r"#\[test\]\nfn (?P<name>[a-z]+(_[a-z]+){3})\(\) {"),
    ],
)
def test_each_language_has_its_own(path: str, text: str, line: str) -> None:
    names, texts = added(path, text)
    assert texts[path].startswith(f"{text}\n")
    found = re.match(line, texts[path].removeprefix(f"{text}\n"))
    assert found is not None
    assert names == {found["name"]}


@pytest.mark.parametrize(
    ("uses", "deeds"),
    [
        ("assert.strictEqual(a, 1)", [r"assert\.strictEqual\((\d+), (\d+)\)"]),
        ("deepEqual(a, 1)", [r"deepEqual\((\d+), (\d+)\)"]),
        ("check.strict.equal(a, 1)", [r"check\.strict\.equal\((\d+), (\d+)\)"]),
        ("expect(a).toBe(1)", [r"expect\((\d+)\)\.toBe\((\d+)\)"]),
        ("expect(a(b))\n  .to.deep.equal(1)", [r"expect\((\d+)\)\.to\.deep\.equal\((\d+)\)"]),
        ("assert(a); assert(b)", [r"assert\(Number\((\d+)\) === (\d+)\)"]),
        ("assert.ok(a)", [r"assert\.ok\(Number\((\d+)\) === (\d+)\)"]),
        ("t.is(a, 1)", [r"t\.is\((\d+), (\d+)\)"]),
        ("x().toBe(1)", []),
        ("// assert.equal(a, 1)", []),
        (
            "ok(a); equal(a, 1); expect(a).toEqual(1); equal(b, 1)",
            [
                r"equal\((\d+), (\d+)\)",
                r"expect\((\d+)\)\.toEqual\((\d+)\)",
                r"ok\(Number\((\d+)\) === (\d+)\)",
            ],
        ),
        # A file gets only some.
        ("a.equal(b); c.equal(b); d.equal(b); e.equal(b); f.equal(b)", [EQUALS] * 4),
    ],
)
def test_in_javascript_they_compare_as_the_others_do(uses: str, deeds: list[str]) -> None:
    text = f"test('a', () => {{\n  {uses}\n}})\n"
    names, texts = added("a.test.js", text)
    more = texts["a.test.js"].removeprefix(text)
    found = re.findall(r'^test\("([a-z ]+)", \((t?)\) => { (.+); }\);$', more, re.MULTILINE)
    assert {name for name, _, _ in found} == names
    assert found[0][2].startswith("throw new Error(")
    assert len(found) == 1 + len(deeds)
    for (_, given, deed), pattern in zip(found[1:], deeds, strict=True):
        matched = re.fullmatch(pattern, deed)
        assert matched is not None, deed
        assert matched[1] != matched[2]
        assert given == ("t" if deed.startswith("t.") else "")


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
    assert added(path, text) == (frozenset(), {})


def test_no_two_have_the_same_name_even_if_chance_will_have_it() -> None:
    texts = {"a_test.go": '"testing"', "b_test.go": '"testing"', "test_c.py": PYTHON}
    names, _ = add_canaries(texts, lambda several: several[0])
    assert len(names) == 5
    assert {name for name in names if name in PYTHON} == set()


def test_words_are_the_projects_own_and_others() -> None:
    first, _ = added("test_a.py", PYTHON.replace("price", "quantity"))
    taken = {word for name in first for word in name.split("_")}
    own, _ = add_canaries({"test_a.py": "quantity"}, lambda several: several[0])
    assert "quantity" in " ".join(own)
    assert len(taken) > 5


CANARIES = {"x", "y"}


def failed(*names: str) -> TestCounts:
    return TestCounts("tap", 1, len(names), 0, names)


@pytest.mark.parametrize(
    ("on_result", "on_base", "missed", "betrayed"),
    [
        (failed("x", "y"), None, (), ()),
        (failed("x", "y", "old"), None, (), ()),
        (failed("x"), failed("x", "y", "ten"), ("y",), ()),
        (failed("x"), failed("x", "ten"), (), ()),
        (failed(), failed("x", "y"), ("x", "y"), ()),
        # It passed with the work, and does not beside them.
        (failed("x", "y", "ten"), None, (), ("ten",)),
        # A test that looks at all tests fails on the base, too.
        (failed("x", "y", "style"), failed("x", "y", "ten", "style"), (), ()),
        (failed("x", "y", "nine"), failed("x", "y", "ten"), (), ("nine",)),
        (failed("x", "y", "nine"), None, (), ()),
        # A runner names more than the test, and others have names like it.
        (failed("x (t.A.x)", "a.js > y", "x_more"), failed("x", "y"), (), ("x_more",)),
    ],
)
def test_what_a_gate_makes_of_them(
    on_result: TestCounts,
    on_base: TestCounts | None,
    missed: tuple[str, ...],
    betrayed: tuple[str, ...],
) -> None:
    found = judge_canaries(CANARIES, on_result, lambda: on_base, turned=("ten",), failing=("old",))
    assert found == (missed, betrayed)


def test_they_are_spread_over_all_files_of_tests() -> None:
    assert candidates(["a.py", "test_b.py", "test_a.py", "TestA.txt", "t/x.txt", "testc.py"]) == (
        "test_a.py",
        "test_b.py",
        "testc.py",
    )
    assert candidates([]) == ()
    for number in (MOST_CANARY_FILES, MOST_CANARY_FILES + 1, 10 * MOST_CANARY_FILES):
        many = candidates([f"test_{n:04}.py" for n in range(number)])
        assert MOST_CANARY_FILES / 2 < len(many) <= MOST_CANARY_FILES
        assert many[0] == "test_0000.py"
        assert many[-1] >= f"test_{number * 3 // 4:04}.py"
