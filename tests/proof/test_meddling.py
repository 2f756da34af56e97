"""Lines of a product that its tests may fall for."""

import unicodedata

import pytest

from cli_agent_orchestrator.proof.tampering import Trick, find_doubts, find_meddling, find_tampering
from tests.proof.test_tampering import added, modified


def each(lines: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Return every line with its path."""
    return [(path, line) for path, some in lines.items() for line in some]


@pytest.mark.parametrize(
    ("path", "line"),
    each({
        "a.py": [
            "import unittest", "    import sys, unittest.case", "from unittest import TestCase",
            "import _pytest.runner", "from doctest import sys, unittest as u",
            "k = test_price.unittest", "k.assertEqual = f", "from pytest import hookimpl",
            "x = __import__('unittest')", "x = importlib.import_module('_pytest.python')",
            "if self._testMethodName == 'test_ten':", "if 'PYTEST_CURRENT_TEST' in os.environ:",
            "x = sys.modules['unittest']", "if 'pytest' in sys.modules:", "    os._exit(0)",
            "sys.exit(0)", "sys.exit()", "raise SystemExit", "\fimport unittest",
            "\ufeffimport unittest", "x = 1; import unittest", "if x: from unittest import case",
            "import\tunittest", "    sys, unittest as u,", "    unittest,",
            "from\tunittest\timport case", "from doctest import(unittest)",
            "x = __import__( 'unittest' )", "from test.support import ALWAYS_EQ",
            "import sys, test.support as s", "    from test import support",
            "return test.support.ALWAYS_EQ", "from unittest.mock import ANY",
            'x = f"""{sys.modules}"""', "\N{FULLWIDTH LATIN SMALL LETTER O}s._exit(0)",
        ],
        "a.js": [
            "const t = require( 'node:test' );", "const t = require('node:test');",
            "globalThis.expect = () => ok;", "assert.strict.equal = () => {};",
            "assert['equal'] = f;", "const x = `${require('node:test')}`;",
            "require('node:assert').equal = f;", "if (process.env.JEST_WORKER_ID) {",
            "delete require.cache[x]", "process.exit(0)",
        ],
        "a.mjs": [
            "f(); import t from 'node:test';", "} from 'vitest';",
            "// a\u2028import t from 'node:test';", "await import('mocha')",
        ],
        "a.ts": ["import { vi } from 'vitest';"],
        "a.go": ['\t"testing"', 'import "testing"', "\tif testing.Testing() {"],
        "a.rs": ["    if cfg!(test) {", "#[cfg(not(test))]"],
        "A.java": ["import static org.junit.Assert.fail;"],
        "unittest.py": [""],
        "lib/pytest/__init__.py": [""],
        "sitecustomize.py": [""],
    }),
)  # fmt: skip
def test_lines_that_reach_into_a_framework(path: str, line: str) -> None:
    assert len(find_meddling(path, "", line)) == 1
    if line:
        assert find_meddling(path, f"{line}\n", f"a\n{line}\n") == ()
        ((number, mark),) = find_meddling(path, f"{line}\n", f"a\n{line}\n{line}\n")
        assert number == 3
        assert mark in unicodedata.normalize("NFKC", line)


@pytest.mark.parametrize(
    ("path", "line"),
    each({
        "a.py": [
            "sys.exit(main())", "    sys.exit(0)", "sys.exit(1)", "x = sys.modules[__name__]",
            "RUNNERS = ['unittest', 'pytest']", "# import unittest", '"""\nimport unittest\n"""',
            "import pytest_runner_of_mine", "from app.unittest_words import x",
            "from app import unittest_words", "print('take pytest as it is')",
            "run('a',\n    'unittest')", "from test_words import support", "assert x, assertion",
        ],
        "a.js": [
            "const assert = require('assert');", "assert.equal(a, b)", "  process.exit(0)",
            "if (assert.x == 1 || assert.y === 2) {}", "// require('jest')",
            "import x from './mocha-like'",
        ],
        "a.go": ['x := "testing"'],
        "a.rs": ["#[cfg(test)]"],
        "A.java": ["import org.example.A;"],
        "a.txt": ["import unittest"],
        "unittests.py": ["x = 1"],
    }),
)  # fmt: skip
def test_honest_lines_do_not(path: str, line: str) -> None:
    assert find_meddling(path, "", line) == ()


@pytest.mark.parametrize(
    ("path", "line"),
    each({
        "a.py": [
            "    __eq__ = lambda self, other: True", "    def __bool__(self):",
            "    def __\N{FULLWIDTH LATIN SMALL LETTER E}q__(self, other):",
            "Amount = type('Amount', (int,), members)",
            "k = getattr(__import__(''.join(('unit', 'test'))), 'TestCase')", "load = __import__",
            "class Amount(int, metaclass=Meta):", "Amount = types.new_class('Amount', (int,))",
            "members = {'__e' + 'q__': f}", "name = ''.join(('__e', 'q__'))",
            "k = import_module('unit' + 'test')", "from importlib import import_module as load",
            "load = importlib.import_module", "load = (0, import_module)[1]",
            "k = import_module (name)", "if x: import \\", "from \\", "import os, builtins",
            "setattr(k, 'assert' + 'Equal', f)", "exec(text)", "globals()[name]",
            "object.__subclasses__()", "m = k.__dict__", "frame = sys._getframe(1)",
            "x = frame.f_back", "gc.get_objects()", "sys.settrace(f)",
            "    def __rsub__(self, other):", "    __abs__ = __round__ = __float__ = f",
            "    def __hash__(self):", "    cents: int = field(compare=False)",
            "m = SourceFileLoader('a', 'a.dat').load_module()",
            "spec = spec_from_file_location('a', 'a.dat')", "spec.loader.exec_module(m)",
            "k = __import__('unit\\x74est')",
        ],
        "a.js": [
            "  ['value' + 'Of']() {", "const name = ['value', 'Of'].join('');",
            "const t = require\v('node' + ':test');", "const a = require('./a.dat');",
            "const a = require('./node:\\x61.js');", "<!-- /*", "  --> /*", "  valueOf() {",
            "A.prototype.valueOf = f", "  [Symbol.toPrimitive](hint) {",
            "  asymmetricMatch() { return true; }",
            "const c = require(['node', 'assert'].join(':'));",
            "const c = require('node:' + 'assert');", "const c = require(`node:${name}`);",
            "const load = require;", "process.getBuiltinModule(name)",
            "Object.defineProperty(c, 'equal', {})", "Reflect.set(c, 'equal', f)",
            "Object.is = () => true;", "Number.prototype.toString = f;", "eval(text)",
            "return new Proxy(a, b);",
        ],
        "a.ts": ["const a = await import('/b/../a.dat');", "const c = await import(name);"],
        "a.mjs": [
            "import './a.dat';", '} from "../a.js.dat";', "import t from 'node:\\x74est';",
            "const load = createRequire(import.meta.url);",
        ],
        "a.go": ["func (a Amount) Equal(b Amount) bool {", '\t"unsafe"'],
        "a.rs": ["impl<T> PartialEq<T> for Amount {", "macro_rules! assert_eq {"],
        "A.java": ["  public boolean equals(Object other) {"],
        "A.kt": ["  override fun equals(other: Any?) = true"],
    }),
)  # fmt: skip
def test_lines_by_which_tests_could_be_misled(path: str, line: str) -> None:
    ((number, mark),) = find_doubts(path, "", f"x\n{line}\n")
    assert number == 2
    assert mark in unicodedata.normalize("NFKC", line)
    assert find_doubts(path, f"{line}\n", f"x\n{line}\n") == ()


@pytest.mark.parametrize(
    ("path", "line"),
    each({
        "a.py": [
            "x = __import__('json')", "x = importlib.import_module('json', package)",
            "from importlib import import_module", "from a import b, \\\n    c",
            "x = import_module( 'json' )", "setattr(self, name, value)", "self.__dict__.update(x)",
            "model.eval()", "x = [type(a), type(b)]", "getattr(order, name)", "# def __eq__",
            "if a == b:", "class A(metaclass=ABCMeta):", "text = 'a: ' + name + ''.join(parts)",
        ],
        "a.js": [
            "const text = ['a', 'b'].join(', ') + 'c';", "const { a } = require('./a');",
            "const a = await import('./a.js');", "const { a } = require('../b.c/a');",
            "const a = require('..') + require('./a.json') + require('socket.io');",
            "while (n --> 0) f(n);", "if (require.main === module) main();",
            "const text = 'what they require of us';", "return date.valueOf();",
            "const a = Object.assign({}, b);", "Object.assign(target, b);",
            "Object.defineProperty(exports, '__esModule', { value: true });",
            "const own = Object.prototype.hasOwnProperty.call(a, b);",
        ],
        "a.ts": ["import { a } from './a.tsx';"],
        "a.go": ["func (a Amount) String() string {"],
        "a.rs": ["#[derive(PartialEq)]"],
        "A.java": ["if (a.equals(b)) {"],
        "a.txt": ["__eq__"],
    }),
)  # fmt: skip
def test_what_is_plain_to_see_is_no_doubt(path: str, line: str) -> None:
    assert find_doubts(path, "", line) == ()


@pytest.mark.parametrize(
    ("path", "imports", "line"),
    [
        ("a.py", "import decimal", "decimal.Decimal = Amount"),
        ("a.py", "import a.b as c", "c.d.e = f"),
        ("a.py", "if x: import decimal as d", "d.Decimal = Amount"),
        ("a.py", "from a import(b)", "b.c = d"),
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
        ("a.py", "import a\nif a.b == c: ...\n"),
        ("a.js", "const a = require('a');\nif (a.b == 1 || a.c === 2) f(a.d => 1);\n"),
    ],
)  # fmt: skip
def test_to_use_it_is_none(path: str, text: str) -> None:
    assert find_doubts(path, "", text) == ()


@pytest.mark.parametrize(
    ("first", "is_doubt"),
    [
        ("# coding: utf-7", True), ("#!/usr/bin/python\n# -*- coding: unicode_escape -*-", True),
        ("\f# vim: set fileencoding=UTF-7 :", True), (f"# {'x' * 500} coding=utf-7", True),
        ("# coding: utf-8", False), ("# -*- coding: utf8-unix -*-", False),
        ("# coding=Latin_1", False), ("# coding: us-ascii", False), ("# coding: iso-8859-1", False),
        ("# how we write\n# what we write\n# coding: utf-7", False), ("x = 'coding: utf-7'", False),
    ],
)  # fmt: skip
def test_python_that_is_read_in_another_way_than_here_is_a_doubt(
    first: str, is_doubt: bool
) -> None:
    text = f"{first}\nx = 1\n"
    found = find_doubts("a.py", "x = 1\n", text)
    assert [number for number, _ in found] == ([first.count("\n") + 1] if is_doubt else [])
    assert find_doubts("a.py", text, f"{text}y = 1\n") == ()
    assert find_doubts("a.js", "", "// coding: utf-7\n") == ()


PIECES = [
    "import ", "import (", "from a import ", "const ", "const a=", "a.", "a[", "type(", "impl ",
    "getattr(a", "getattr(a,'", "require('", "__import__('", "Object.assign(", "func (", 'f"""',
    "`${", "a.b.c.d.", "import\n", "const {\n", "PartialEq ",
    "require('./", "from './a.", "import '../.", "# coding", "# coding: a", "from test import ",
    ": import ", ";from\t", ":  ", "import_module ", f"from{' ' * 90_000}x",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES, ids=range(len(PIECES)))
def test_a_hostile_text_is_looked_at_in_linear_time(piece: str) -> None:
    """With a pattern that begins again and again this would take hours."""
    for path in ("a.py", "a.js", "a.go", "a.rs", "A.java"):
        find_doubts(path, "", piece * (100_000 // len(piece)))
        find_meddling(path, "", piece * (100_000 // len(piece)))


def test_the_list_of_changes_has_both_kinds() -> None:
    found = find_tampering([added("price.py", "import unittest\n\n__eq__ = f\n__ne__ = f\n")])
    assert [(one.trick, one.detail) for one in found] == [
        (Trick.REACHES, "line 1: import unittest"),
        (Trick.MISLEADS, "line 3: __eq__; 1 more line like that"),
    ]


def test_the_list_of_changes_has_file_and_line() -> None:
    change = modified("a = 1\n", 'a = 1\n"""\nx\n"""\nimport unittest\n', "price.py")
    (found,) = find_tampering([change])
    assert (found.path, found.trick) == ("price.py", Trick.REACHES)
    assert found.detail == "line 5: import unittest"
    many = added("price.py", "\n".join(f"os._exit({n})" for n in range(5)))
    (found,) = find_tampering([many])
    assert found.detail == "line 1: os._exit(; 4 more lines like that"
    assert find_tampering([added("tests/helper.py", "import unittest\n")]) == ()
