"""What is laid over what."""

import pytest

from cli_agent_orchestrator.proof.suites import (
    Kinds,
    Layers,
    PathKind,
    is_golden,
    kinds_of_named,
    layers_of,
    may_be_data,
)
from cli_agent_orchestrator.work.changes import Change


def changed(status: str, path: str, old_path: str = "", mode: str = "100644") -> Change:
    return Change(path, old_path or path, status, mode, mode, 1, 1)


def test_tests_go_both_ways_and_new_ones_are_not_of_before() -> None:
    changes = [
        changed("M", "test_a.py"),
        changed("A", "test_b.py"),
        changed("D", "test_c.py"),
        changed("R", "tests/test_e.py", "test_d.py"),
        changed("A", "tests/data.txt"),
        changed("A", "tests/__init__.py"),
        changed("A", "conftest.py"),
        changed("A", "testf.py"),
        changed("M", "price.py"),
    ]
    layers = layers_of(changes, Kinds(frozenset({"testf.py"})))
    new = ("test_a.py", "test_b.py", "tests/test_e.py", "tests/data.txt")
    assert layers.over_base == (*new, "tests/__init__.py", "conftest.py", "testf.py")
    old = ("test_a.py", "test_c.py", "test_d.py")
    assert layers.over_result(had_tests=False) == old
    more = ("test_b.py", "tests/test_e.py", "tests/__init__.py", "conftest.py", "testf.py")
    assert layers.over_result(had_tests=True) == (*old, *more)


def test_scripts_of_a_gate_go_with_tests_and_never_alone_over_the_base() -> None:
    kinds = Kinds(named=frozenset({"run.sh", "x.mk", "price.py", "Cargo.toml"}))
    changes = [changed("M", path) for path in ("run.sh", "x.mk", "price.py", "Cargo.toml")]
    layers = layers_of(changes, kinds)
    assert layers.over_result(had_tests=True) == ("run.sh", "x.mk")
    assert layers.over_base == ()
    layers = layers_of([*changes, changed("A", "test_a.py")], kinds)
    assert layers.over_base == ("test_a.py", "run.sh", "x.mk")
    assert layers_of([], kinds) == Layers()


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("checks.py", "class A(B):\n    def test_a(self): ...\n", PathKind.TEST),
        ("checks.js", "assert.equal(1, 1)", PathKind.TEST),
        ("price.py", "def price(): ...\n", PathKind.SETTINGS),
        ("price.py", None, PathKind.SETTINGS), ("run.sh", "assert.equal(1, 1)", PathKind.SETTINGS),
        ("test_a.py", "", PathKind.TEST), ("x.mk", "", PathKind.CI),
    ],
)  # fmt: skip
def test_what_a_gate_names_is_known_by_its_text(
    path: str, text: str | None, kind: PathKind
) -> None:
    assert kinds_of_named({path: text}).of(path) is kind
    assert kinds_of_named({}, frozenset({"a.py"})).of("a.py") is PathKind.TEST


def test_new_source_files_of_the_product_can_be_empty() -> None:
    new = ("done.py", "a/b.mjs", "lib/c.ts", "d.rb")
    others = ("test_a.py", "e.txt", "f.go", "setup.py", "tests/g.py", "node_modules/h.js")
    changes = [changed("A", path) for path in (*new, *others)]
    changes += [changed("M", "old.py"), changed("R", "moved.py", "was.py"), changed("D", "no.py")]
    assert layers_of(changes, Kinds()).new_sources == (*new, "moved.py")


@pytest.mark.parametrize(
    ("path", "is_data"),
    [
        ("expected.txt", True), ("data/prices.json", True), ("expected", True), ("a.c", False),
        ("price.py", False), ("run.sh", False), ("README.md", False), ("v", False),
        ("tests/a.txt", False), ("package.json", False),
    ],
)  # fmt: skip
def test_data_is_what_is_no_source_code(path: str, is_data: bool) -> None:
    assert may_be_data(path) is is_data


def test_data_is_golden_if_tests_mention_it_and_the_product_does_not() -> None:
    assert is_golden(["test_a.py"])
    assert is_golden(["tests/a.txt", "docs/a.md", "Makefile"])
    assert not is_golden(["test_a.py", "price.py"])
    assert not is_golden(["docs/a.md"])
    assert not is_golden([])


def test_the_product_is_named_its_source_first() -> None:
    paths = ("a.txt", "b/price.py", "test_a.py", "setup.cfg", "run.sh", "x/__pycache__/a.pyc")
    changes = [*(changed("M", path) for path in paths), changed("D", "c.go")]
    kinds = Kinds(named=frozenset({"run.sh"}))
    assert layers_of(changes, kinds).product == ("b/price.py", "c.go", "a.txt")


def test_a_repository_of_its_own_is_no_product_and_yet_something_that_was_made() -> None:
    layers = layers_of([changed("A", "nested", mode="160000")], Kinds())
    assert (layers.product, layers.is_untouched) == ((), False)
