"""Lines of a product that its tests may fall for."""

import unicodedata

import pytest

from cli_agent_orchestrator.proof.tampering import Trick, find_doubts, find_meddling, find_tampering
from tests.proof.test_tampering import added, modified


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "import unittest"),
        ("a.py", "    import sys, unittest.case"),
        ("a.py", "from unittest import TestCase"),
        ("a.py", "import _pytest.runner"),
        ("a.py", "from doctest import sys, unittest as u"),
        ("a.py", "k = test_price.unittest"),
        ("a.py", "k.assertEqual = f"),
        ("a.py", "from pytest import hookimpl"),
        ("a.py", "x = __import__('unittest')"),
        ("a.py", "x = importlib.import_module('_pytest.python')"),
        ("a.py", "if self._testMethodName == 'test_ten':"),
        ("a.py", "if 'PYTEST_CURRENT_TEST' in os.environ:"),
        ("a.py", "x = sys.modules['unittest']"),
        ("a.py", "if 'pytest' in sys.modules:"),
        ("a.py", "    os._exit(0)"),
        ("a.py", "sys.exit(0)"),
        ("a.py", "sys.exit()"),
        ("a.py", "raise SystemExit"),
        ("a.py", "\fimport unittest"),
        ("a.py", "\ufeffimport unittest"),
        ("a.py", "x = 1; import unittest"),
        ("a.py", "if x: from unittest import case"),
        ("a.py", "import\tunittest"),
        ("a.py", "    sys, unittest as u,"),
        ("a.py", "    unittest,"),
        ("a.py", "from\tunittest\timport case"),
        ("a.py", "from doctest import(unittest)"),
        ("a.py", "x = __import__( 'unittest' )"),
        ("a.js", "const t = require( 'node:test' );"),
        ("a.mjs", "f(); import t from 'node:test';"),
        ("a.mjs", "} from 'vitest';"),
        ("a.py", "from test.support import ALWAYS_EQ"),
        ("a.py", "import sys, test.support as s"),
        ("a.py", "    from test import support"),
        ("a.py", "return test.support.ALWAYS_EQ"),
        ("a.py", "from unittest.mock import ANY"),
        ("a.js", "const t = require('node:test');"),
        ("a.mjs", "// a\u2028import t from 'node:test';"),
        ("a.ts", "import { vi } from 'vitest';"),
        ("a.mjs", "await import('mocha')"),
        ("a.js", "globalThis.expect = () => ok;"),
        ("a.js", "assert.strict.equal = () => {};"),
        ("a.js", "assert['equal'] = f;"),
        ("a.js", "const x = `${require('node:test')}`;"),
        ("a.py", 'x = f"""{sys.modules}"""'),
        ("a.py", "\N{FULLWIDTH LATIN SMALL LETTER O}s._exit(0)"),
        ("a.js", "require('node:assert').equal = f;"),
        ("a.js", "if (process.env.JEST_WORKER_ID) {"),
        ("a.js", "delete require.cache[x]"),
        ("a.js", "process.exit(0)"),
        ("a.go", '\t"testing"'),
        ("a.go", 'import "testing"'),
        ("a.go", "\tif testing.Testing() {"),
        ("a.rs", "    if cfg!(test) {"),
        ("a.rs", "#[cfg(not(test))]"),
        ("A.java", "import static org.junit.Assert.fail;"),
        ("unittest.py", ""),
        ("lib/pytest/__init__.py", ""),
        ("sitecustomize.py", ""),
    ],
)
def test_lines_that_reach_into_a_framework(path: str, line: str) -> None:
    assert len(find_meddling(path, "", line)) == 1
    if line:
        assert find_meddling(path, f"{line}\n", f"a\n{line}\n") == ()
        ((number, mark),) = find_meddling(path, f"{line}\n", f"a\n{line}\n{line}\n")
        assert number == 3
        assert mark in unicodedata.normalize("NFKC", line)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "sys.exit(main())"),
        ("a.py", "    sys.exit(0)"),
        ("a.py", "sys.exit(1)"),
        ("a.py", "x = sys.modules[__name__]"),
        ("a.py", "RUNNERS = ['unittest', 'pytest']"),
        ("a.py", "# import unittest"),
        ("a.py", '"""\nimport unittest\n"""'),
        ("a.py", "import pytest_runner_of_mine"),
        ("a.py", "from app.unittest_words import x"),
        ("a.py", "from app import unittest_words"),
        ("a.py", "print('take pytest as it is')"),
        ("a.py", "run('a',\n    'unittest')"),
        ("a.py", "from test_words import support"),
        ("a.py", "assert x, assertion"),
        ("a.js", "const assert = require('assert');"),
        ("a.js", "assert.equal(a, b)"),
        ("a.js", "  process.exit(0)"),
        ("a.js", "if (assert.x == 1 || assert.y === 2) {}"),
        ("a.js", "// require('jest')"),
        ("a.js", "import x from './mocha-like'"),
        ("a.go", 'x := "testing"'),
        ("a.rs", "#[cfg(test)]"),
        ("A.java", "import org.example.A;"),
        ("a.txt", "import unittest"),
        ("unittests.py", "x = 1"),
    ],
)
def test_honest_lines_do_not(path: str, line: str) -> None:
    assert find_meddling(path, "", line) == ()


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "    __eq__ = lambda self, other: True"),
        ("a.py", "    def __bool__(self):"),
        ("a.py", "    def __\N{FULLWIDTH LATIN SMALL LETTER E}q__(self, other):"),
        ("a.py", "Amount = type('Amount', (int,), members)"),
        ("a.py", "k = getattr(__import__(''.join(('unit', 'test'))), 'TestCase')"),
        ("a.py", "load = __import__"),
        ("a.py", "class Amount(int, metaclass=Meta):"),
        ("a.py", "Amount = types.new_class('Amount', (int,))"),
        ("a.py", "members = {'__e' + 'q__': f}"),
        ("a.py", "name = ''.join(('__e', 'q__'))"),
        ("a.js", "  ['value' + 'Of']() {"),
        ("a.js", "const name = ['value', 'Of'].join('');"),
        ("a.py", "k = import_module('unit' + 'test')"),
        ("a.py", "from importlib import import_module as load"),
        ("a.py", "load = importlib.import_module"),
        ("a.py", "load = (0, import_module)[1]"),
        ("a.js", "const t = require\v('node' + ':test');"),
        ("a.py", "k = import_module (name)"),
        ("a.py", "if x: import \\"),
        ("a.py", "from \\"),
        ("a.py", "import os, builtins"),
        ("a.py", "setattr(k, 'assert' + 'Equal', f)"),
        ("a.py", "exec(text)"),
        ("a.py", "globals()[name]"),
        ("a.py", "object.__subclasses__()"),
        ("a.py", "m = k.__dict__"),
        ("a.py", "frame = sys._getframe(1)"),
        ("a.py", "x = frame.f_back"),
        ("a.py", "gc.get_objects()"),
        ("a.py", "sys.settrace(f)"),
        ("a.py", "    def __rsub__(self, other):"),
        ("a.py", "    __abs__ = __round__ = __float__ = f"),
        ("a.py", "    def __hash__(self):"),
        ("a.py", "    cents: int = field(compare=False)"),
        ("a.py", "m = SourceFileLoader('a', 'a.dat').load_module()"),
        ("a.py", "spec = spec_from_file_location('a', 'a.dat')"),
        ("a.py", "spec.loader.exec_module(m)"),
        ("a.py", "k = __import__('unit\\x74est')"),
        ("a.js", "const a = require('./a.dat');"),
        ("a.js", "const a = require('./node:\\x61.js');"),
        ("a.ts", "const a = await import('/b/../a.dat');"),
        ("a.mjs", "import './a.dat';"),
        ("a.mjs", '} from "../a.js.dat";'),
        ("a.mjs", "import t from 'node:\\x74est';"),
        ("a.js", "<!-- /*"),
        ("a.js", "  --> /*"),
        ("a.js", "  valueOf() {"),
        ("a.js", "A.prototype.valueOf = f"),
        ("a.js", "  [Symbol.toPrimitive](hint) {"),
        ("a.js", "  asymmetricMatch() { return true; }"),
        ("a.js", "const c = require(['node', 'assert'].join(':'));"),
        ("a.js", "const c = require('node:' + 'assert');"),
        ("a.js", "const c = require(`node:${name}`);"),
        ("a.js", "const load = require;"),
        ("a.ts", "const c = await import(name);"),
        ("a.mjs", "const load = createRequire(import.meta.url);"),
        ("a.js", "process.getBuiltinModule(name)"),
        ("a.js", "Object.defineProperty(c, 'equal', {})"),
        ("a.js", "Reflect.set(c, 'equal', f)"),
        ("a.js", "Object.is = () => true;"),
        ("a.js", "Number.prototype.toString = f;"),
        ("a.js", "eval(text)"),
        ("a.js", "return new Proxy(a, b);"),
        ("a.go", "func (a Amount) Equal(b Amount) bool {"),
        ("a.go", '\t"unsafe"'),
        ("a.rs", "impl<T> PartialEq<T> for Amount {"),
        ("a.rs", "macro_rules! assert_eq {"),
        ("A.java", "  public boolean equals(Object other) {"),
        ("A.kt", "  override fun equals(other: Any?) = true"),
    ],
)
def test_lines_by_which_tests_could_be_misled(path: str, line: str) -> None:
    ((number, mark),) = find_doubts(path, "", f"x\n{line}\n")
    assert number == 2
    assert mark in unicodedata.normalize("NFKC", line)
    assert find_doubts(path, f"{line}\n", f"x\n{line}\n") == ()


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "x = __import__('json')"),
        ("a.py", "x = importlib.import_module('json', package)"),
        ("a.py", "from importlib import import_module"),
        ("a.py", "from a import b, \\\n    c"),
        ("a.py", "x = import_module( 'json' )"),
        ("a.py", "setattr(self, name, value)"),
        ("a.py", "self.__dict__.update(x)"),
        ("a.py", "model.eval()"),
        ("a.py", "x = [type(a), type(b)]"),
        ("a.py", "getattr(order, name)"),
        ("a.py", "# def __eq__"),
        ("a.py", "if a == b:"),
        ("a.py", "class A(metaclass=ABCMeta):"),
        ("a.py", "text = 'a: ' + name + ''.join(parts)"),
        ("a.js", "const text = ['a', 'b'].join(', ') + 'c';"),
        ("a.js", "const { a } = require('./a');"),
        ("a.js", "const a = await import('./a.js');"),
        ("a.js", "const { a } = require('../b.c/a');"),
        ("a.js", "const a = require('..') + require('./a.json') + require('socket.io');"),
        ("a.ts", "import { a } from './a.tsx';"),
        ("a.js", "while (n --> 0) f(n);"),
        ("a.js", "if (require.main === module) main();"),
        ("a.js", "const text = 'what they require of us';"),
        ("a.js", "return date.valueOf();"),
        ("a.js", "const a = Object.assign({}, b);"),
        ("a.js", "Object.assign(target, b);"),
        ("a.js", "Object.defineProperty(exports, '__esModule', { value: true });"),
        ("a.js", "const own = Object.prototype.hasOwnProperty.call(a, b);"),
        ("a.go", "func (a Amount) String() string {"),
        ("a.rs", "#[derive(PartialEq)]"),
        ("A.java", "if (a.equals(b)) {"),
        ("a.txt", "__eq__"),
    ],
)
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
        ("a.py", "import sys", "x = getattr(sys, name)"),
        ("a.py", "import sys", "x = vars(sys)"),
        ("a.js", "const c = require('node:assert');", "c.equal = f;"),
        ("a.js", "const { strict: c } = require('node:assert');", "c[name] = f;"),
        ("a.mjs", "import * as c from 'node:assert';", "c.strict['equal'] = f;"),
        ("a.mjs", "import {\n  a,\n  b as c,\n} from 'x';", "Object.assign(c, d);"),
    ],
)
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
)
def test_to_use_it_is_none(path: str, text: str) -> None:
    assert find_doubts(path, "", text) == ()


@pytest.mark.parametrize(
    ("first", "is_doubt"),
    [
        ("# coding: utf-7", True),
        ("#!/usr/bin/python\n# -*- coding: unicode_escape -*-", True),
        ("\f# vim: set fileencoding=UTF-7 :", True),
        (f"# {'x' * 500} coding=utf-7", True),
        ("# coding: utf-8", False),
        ("# -*- coding: utf8-unix -*-", False),
        ("# coding=Latin_1", False),
        ("# coding: us-ascii", False),
        ("# coding: iso-8859-1", False),
        ("# how we write\n# what we write\n# coding: utf-7", False),
        ("x = 'coding: utf-7'", False),
    ],
)
def test_python_that_is_read_in_another_way_than_here_is_a_doubt(
    first: str, is_doubt: bool
) -> None:
    text = f"{first}\nx = 1\n"
    found = find_doubts("a.py", "x = 1\n", text)
    assert [number for number, _ in found] == ([first.count("\n") + 1] if is_doubt else [])
    assert find_doubts("a.py", text, f"{text}y = 1\n") == ()
    assert find_doubts("a.js", "", "// coding: utf-7\n") == ()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", 'E = "\\\n"""\nimport unittest\n# """\n'),
        ("a.js", 'e = "\\\n/*";\nconst t = require("node:test");\n// */\n'),
    ],
)
def test_a_text_that_goes_on_in_the_next_line_hides_nothing(path: str, text: str) -> None:
    ((number, _),) = find_meddling(path, "", text)
    assert number == 3


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
