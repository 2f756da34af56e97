"""Lines of a product that reach into the framework of its tests."""

import pytest

from cli_agent_orchestrator._internal.pipeline.meddling import find_meddling
from cli_agent_orchestrator._internal.pipeline.tampering import Trick, find_tampering
from tests.pipeline.test_tampering import added, modified


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "import unittest"),
        ("a.py", "    import sys, unittest.case"),
        ("a.py", "from unittest import TestCase"),
        ("a.py", "import _pytest.runner"),
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
        ("a.js", "const t = require('node:test');"),
        ("a.ts", "import { vi } from 'vitest';"),
        ("a.mjs", "await import('mocha')"),
        ("a.js", "globalThis.expect = () => ok;"),
        ("a.js", "assert.strict.equal = () => {};"),
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
        assert mark in line


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


def test_the_list_of_changes_has_file_and_line() -> None:
    change = modified("a = 1\n", 'a = 1\n"""\nx\n"""\nimport unittest\n', "price.py")
    (found,) = find_tampering([change])
    assert (found.path, found.trick) == ("price.py", Trick.REACHES)
    assert found.detail == "line 5: import unittest"
    many = added("price.py", "\n".join(f"os._exit({n})" for n in range(5)))
    (found,) = find_tampering([many])
    assert found.detail == "line 1: os._exit(; 4 more lines like that"
    assert find_tampering([added("tests/helper.py", "import unittest\n")]) == ()
    assert find_tampering([added("price.py", None)]) == ()
