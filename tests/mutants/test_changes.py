"""Which small changes are made to a module."""

import ast

import pytest

from tests.mutants.__main__ import EQUIVALENT, NOT_TRIED, TESTS, file_of
from tests.mutants.changes import changes_of
from tests.test_architecture import PURE, module_id, named


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("a < b", {"a <= b", "a >= b", "pass"}),
        ("x = a is not b", {"x = a is b"}),
        ("x = a and (not b)", {"x = a or not b", "x = a and b"}),
        ("x = a + 3", {"x = a - 3", "x = a + 4", "x = a + 2"}),
        ("x = 'word'", {"x = ''"}),
        ("x = True", {"x = False"}),
        ("x = a if b else c", {"x = c if b else a"}),
        ("a.x = b", {"pass"}),
        ("if a:\n    b = c", {"if not a:\n    b = c"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("def f():\n    return False", {"def f():\n    return True"}),
    ],
)
def test_one_thing_is_changed_at_a_time(source: str, changed: set[str]) -> None:
    assert {ast.unparse(change.made(source)) for change in changes_of(source)} == changed


@pytest.mark.parametrize(
    "source",
    [
        "'a docstring'",
        "import a",
        "x: Literal['a']",
        "def f(x: 'T') -> 'T': ...",
        "@dataclass(frozen=True)\nclass C: ...",
        "class C:\n    __test__ = False",
        "x = f'{a} of {b}'",
        "LOOK_SECONDS = 0.5",
        "LARGEST_LINE = 64 * 1024",
        "HOLD_SECONDS = {A.x: 15.0, A.y: 60}",
    ],
)
def test_what_only_readers_and_tools_look_at_is_left_alone(source: str) -> None:
    assert changes_of(source) == []


def test_a_change_says_where_it_is() -> None:
    source = "class C:\n    def f(self):\n        return self.a > self.b\n"
    [first, *_] = [c for c in changes_of(source) if ">=" in c.words]
    assert (first.line, first.where) == (3, "C.f")
    assert first.words == "self.a > self.b  →  self.a >= self.b"


def test_a_field_and_a_constant_have_names_too() -> None:
    found = {change.where for change in changes_of("A = [1]\nclass C:\n    x: int = 3")}
    assert found == {"A", "C.x"}


def test_every_pure_module_is_tried_or_has_a_reason_not_to_be() -> None:
    pure = set(map(module_id, named(PURE)))
    assert not pure - set(TESTS) - set(NOT_TRIED)
    assert not set(TESTS) & set(NOT_TRIED)


def test_what_is_judged_equivalent_is_a_change_that_can_be_made() -> None:
    judged = {module for module, _, _ in EQUIVALENT}
    assert judged <= set(TESTS)
    possible = {
        (module, change.where, change.words)
        for module in judged
        for change in changes_of(file_of(module).read_text(encoding="utf-8"))
    }
    assert not EQUIVALENT - possible
