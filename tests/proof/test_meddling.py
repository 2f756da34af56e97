"""Lines of a product that its tests may fall for."""

from collections.abc import Callable

import pytest

from cli_agent_orchestrator.proof.tampering import (
    Found,
    Trick,
    find_doubts,
    find_meddling,
    find_tampering,
)
from tests.proof.test_tampering import added, modified


def each(lines: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Return every line with its path."""
    return [(path, line) for path, some in lines.items() for line in some]


REACHING = each({
    "a.py": [
        "import unittest", "    import sys, unittest.case", "from unittest import TestCase",
        "import _pytest.runner", "from doctest import sys, unittest as u", "k.assertEqual = f",
        "x = importlib.import_module('_pytest.python')", "if self._testMethodName == 'test_ten':",
        "if 'PYTEST_CURRENT_TEST' in os.environ:", "x = sys.modules['unittest']", "    os._exit(0)",
        "sys.exit()", "raise SystemExit", "x = 1; import unittest", "if x: from unittest import a",
    ],
    "a.js": [
        "const t = require( 'node:test' );", "globalThis.expect = () => ok;",
        "assert.strict.equal = () => {};", "assert['equal'] = f;",
        "require('node:assert').equal = f;", "if (process.env.JEST_WORKER_ID) {",
        "delete require.cache[x]", "process.exit(0)",
    ],
    "a.mjs": ["f(); import t from 'node:test';", "} from 'vitest';", "await import('mocha')"],
    "a.go": ['\t"testing"', 'import "testing"', "\tif testing.Testing() {"],
    "a.rs": ["    if cfg!(test) {", "#[cfg(not(test))]"],
    "A.java": ["import static org.junit.Assert.fail;"],
})  # fmt: skip
MISLEADING = each({
    "a.py": [
        "    __eq__ = lambda self, other: True", "    __abs__ = __round__ = f",
        "Amount = type('Amount', (int,), members)", "class Amount(int, metaclass=Meta):",
        "    cents: int = field(compare=False)", "k = import_module('unit' + 'test')",
        "k = __import__('unit\\x74est')", "k = __import__(name)",
        "m = SourceFileLoader('a', 'a.dat').load_module()", "spec.loader.exec_module(m)",
        "spec = spec_from_file_location('a', 'a.dat')", "setattr(k, 'assert' + 'Equal', f)",
        "m = k.__dict__", "exec(text)", "globals()[name]", "frame = sys._getframe(1)",
        "object.__subclasses__()", "gc.get_objects()", "sys.settrace(f)",
    ],
    "a.js": [
        "  valueOf() {", "A.prototype.valueOf = f", "  [Symbol.toPrimitive](hint) {",
        "  asymmetricMatch() { return true; }", "const c = require('node:' + 'assert');",
        "const c = require(`node:${name}`);", "process.getBuiltinModule(name)",
        "Object.defineProperty(c, 'equal', {})", "Reflect.set(c, 'equal', f)",
        "Object.is = () => true;", "Number.prototype.toString = f;", "eval(text)",
        "return new Proxy(a, b);",
    ],
    "a.ts": ["const c = await import(name);"],
    "a.go": ["func (a Amount) Equal(b Amount) bool {", '\t"unsafe"'],
    "a.rs": ["impl<T> PartialEq<T> for Amount {", "macro_rules! assert_eq {"],
    "A.java": ["  public boolean equals(Object other) {"],
    "A.kt": ["  override fun equals(other: Any?) = true"],
})  # fmt: skip
HONEST = each({
    "a.py": [
        "sys.exit(main())", "    sys.exit(0)", "sys.exit(1)", "x = sys.modules[__name__]",
        "RUNNERS = ['unittest', 'pytest']", "# import unittest", '"""\nimport unittest\n"""',
        "import pytest_runner_of_mine", "from app.unittest_words import x",
        "from app import unittest_words", "print('take pytest as it is')",
        "assert x, assertion", "x = __import__('json')", "x = import_module( 'json', package)",
        "from importlib import import_module", "setattr(self, name, value)",
        "self.__dict__.update(x)", "model.eval()", "x = [type(a), type(b)]",
        "getattr(order, name)", "if a == b:", "class A(metaclass=ABCMeta):",
    ],
    "a.js": [
        "const assert = require('assert');", "assert.equal(a, b)", "  process.exit(0)",
        "if (assert.x == 1 || assert.y === 2) {}", "// require('jest')",
        "import x from './mocha-like'", "const { a } = require('./a');",
        "const a = await import('./a.js');", "if (require.main === module) main();",
        "return date.valueOf();", "Object.assign(target, b);",
        "Object.defineProperty(exports, '__esModule', { value: true });",
        "const own = Object.prototype.hasOwnProperty.call(a, b);",
    ],
    "a.go": ['x := "testing"', "func (a Amount) String() string {"],
    "a.rs": ["#[cfg(test)]", "#[derive(PartialEq)]"],
    "A.java": ["import org.example.A;", "if (a.equals(b)) {"],
    "a.txt": ["import unittest", "__eq__"],
    "unittests.py": ["x = 1"],
})  # fmt: skip


@pytest.mark.parametrize(
    ("find", "path", "line"),
    [*((find_meddling, *one) for one in REACHING), *((find_doubts, *one) for one in MISLEADING)],
)
def test_each_new_line_of_the_kind_is_found(
    find: Callable[[str, str, str], Found], path: str, line: str
) -> None:
    ((number, mark),) = find(path, f"{line}\n", f"x\n{line}\n{line}\n")
    assert number == 3
    assert mark in line
    assert find(path, f"{line}\n", f"x\n{line}\n") == ()


@pytest.mark.parametrize(("path", "line"), HONEST)
def test_honest_lines_are_not(path: str, line: str) -> None:
    assert find_meddling(path, "", line) == find_doubts(path, "", line) == ()


@pytest.mark.parametrize("path", ["unittest.py", "lib/pytest/__init__.py", "sitecustomize.py"])
def test_a_module_in_the_place_of_a_framework_is_one(path: str) -> None:
    assert len(find_meddling(path, "", "")) == 1


@pytest.mark.parametrize(
    ("path", "imports", "line"),
    [
        ("a.py", "import decimal", "decimal.Decimal = Amount"),
        ("a.py", "if x: import decimal as d", "d.Decimal = Amount"),
        ("a.py", "from a import (\n    b,\n    c as d,\n)", "d.e = f"),
        ("a.py", "import sys", "x = getattr(sys, name)"), ("a.py", "import sys", "x = vars(sys)"),
        ("a.js", "const c = require('node:assert');", "c.equal = f;"),
        ("a.js", "const { strict: c } = require('node:assert');", "c[name] = f;"),
        ("a.mjs", "import * as c from 'node:assert';", "c.strict['equal'] = f;"),
        ("a.mjs", "import {\n  a,\n  b as c,\n} from 'x';", "Object.assign(c, d);"),
    ],
)  # fmt: skip
def test_to_change_what_was_imported_is_one(path: str, imports: str, line: str) -> None:
    assert find_doubts(path, "", f"{line}\n") == ()
    ((number, _),) = find_doubts(path, "", f"{imports}\n{line}\n")
    assert number == imports.count("\n") + 2


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "import os\nos.environ['A'] = 'b'\n"),
        ("a.py", "import typing\ndef f(a: typing.Any = None): ...\n"),
        ("a.py", "import sys\nx = getattr(sys, 'ps1', '')\n"),
        ("a.js", "const a = require('a');\nif (a.b == 1 || a.c === 2) f(a.d => 1);\n"),
    ],
)
def test_to_use_it_is_none(path: str, text: str) -> None:
    assert find_doubts(path, "", text) == ()


PIECES = [
    "import ", "import (", "from a import ", "const ", "const a=", "a.", "a[", "type(", "impl ",
    "getattr(a", "getattr(a,'", "require('", "__import__('", "Object.assign(", "func (",
    "a.b.c.d.", "import\n", "const {\n", "PartialEq ", ": import ", ";from\t", ":  ",
    f"from{' ' * 90_000}x",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES, ids=range(len(PIECES)))
def test_a_hostile_text_is_looked_at_in_linear_time(piece: str) -> None:
    """With a pattern that begins again and again this would take hours."""
    for path in ("a.py", "a.js", "a.go", "a.rs", "A.java"):
        find_doubts(path, "", piece * (100_000 // len(piece)))
        find_meddling(path, "", piece * (100_000 // len(piece)))


def test_the_list_of_changes_has_file_line_and_kind() -> None:
    found = find_tampering([added("price.py", "import unittest\n\n__eq__ = f\n__ne__ = f\n")])
    assert [(one.trick, one.detail) for one in found] == [
        (Trick.REACHES, "line 1: import unittest"),
        (Trick.MISLEADS, "line 3: __eq__; 1 more line like that"),
    ]
    change = modified("a = 1\n", 'a = 1\n"""\nx\n"""\nimport unittest\n', "price.py")
    (suspicion,) = find_tampering([change])
    assert (suspicion.path, suspicion.detail) == ("price.py", "line 5: import unittest")
    assert find_tampering([added("tests/helper.py", "import unittest\n")]) == ()
