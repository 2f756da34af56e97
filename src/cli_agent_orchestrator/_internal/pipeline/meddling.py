"""Lines of a product that reach into the framework of its tests.

Code that is tested runs in the same process as its tests: it can ask which test runs, and put
something of its own in the place of what compares. Honest code seldom speaks of a test framework
at all. What is found is no proof of anything: it is where to look.
"""

import re
from collections import Counter
from collections.abc import Mapping

from cli_agent_orchestrator._internal.pipeline import suites
from cli_agent_orchestrator._internal.pipeline.suites import Language, language_of

FRAMEWORKS = r"(?:unittest|_?pytest|nose2?|xunit)"
SCRIPT_FRAMEWORKS = r"['\"](?:node:test|@?jest(?:/globals)?|vitest|mocha|ava|tape)['\"]"
MARKS: Mapping[Language, tuple[str, ...]] = {
    suites.PYTHON: (
        # "import sys, unittest", "from _pytest import runner"
        rf"^[ \t]*import [^\n#]{{0,200}}(?<![\w.]){FRAMEWORKS}\b",
        rf"^[ \t]*from {FRAMEWORKS}\b",
        rf"\b(?:__import__|import_module)\(['\"]{FRAMEWORKS}\b",
        r"\b_testMethodName\b|\bPYTEST_CURRENT_TEST\b",
        # "sys.modules['unittest']", but not "sys.modules[__name__]"
        r"\bsys\.modules\b(?!\[__name__\]|\.get\(__name__\))",
        r"\bos\._exit\(",
        # At the margin, and so when it is imported.
        r"^(?:sys\.)?exit\(0?\)|^raise SystemExit(?:\(0?\))?$",
    ),
    suites.JAVASCRIPT: (
        rf"\b(?:require|import)\({SCRIPT_FRAMEWORKS}",
        rf"^[ \t]*import\b[^\n]{{0,200}}{SCRIPT_FRAMEWORKS}",
        r"\bglobal(?:This)?\.(?:it|test|describe|expect|assert)\b",
        r"\bassert(?:\.\w{1,40}){1,3} ?=(?![=>])",
        r"\brequire\(['\"](?:node:)?assert(?:/strict)?['\"]\)(?:\.\w{1,40}){1,3} ?=(?![=>])",
        r"\b(?:JEST_WORKER_ID|VITEST_WORKER_ID|NODE_TEST_CONTEXT)\b|\brequire\.cache\b",
        r"^process\.exit\(0?\)",
    ),
    suites.GO: (r"^(?:import )?[ \t]*\"testing\"", r"\btesting\.Testing\(\)"),
    suites.RUST: (r"\bcfg!\(test\)", r"#\[cfg\(not\(test\)\)\]"),
    suites.JAVA: (r"^import (?:static )?org\.(?:junit|testng)\b",),
}
SHADOWS = frozenset({"unittest", "pytest", "_pytest", "sitecustomize", "usercustomize"})
"""Modules that are taken in the place of a framework, or before everything else."""


def find_meddling(path: str, old: str, new: str) -> tuple[tuple[int, str], ...]:
    """Return the lines that a file did not have before and that reach into a framework.

    Each with its number and what in it does so.

    >>> find_meddling("price.py", "", "total = 1\\nimport unittest\\n")
    ((2, 'import unittest'),)
    """
    language = language_of(path)
    if language is None:
        return ()
    if is_shadow(path) and not old:
        return ((1, f"it takes the place of {_module(path)}"),)
    known = Counter(_spoken_lines(old, language))
    found = []
    for number, line in enumerate(_spoken_lines(new, language), 1):
        known[line] -= 1
        if known[line] < 0 and (marks := suites.marks_of(MARKS[language], line)):
            found.append((number, marks[0].strip()))
    return tuple(found)


def is_shadow(path: str) -> bool:
    """Is a file imported in the place of a test framework?"""
    return path.endswith(".py") and _module(path) in SHADOWS


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]


def _spoken_lines(text: str, language: Language) -> list[str]:
    """Return the lines of a text with their numbers kept, without comments and long texts."""

    def quiet(found: re.Match[str]) -> str:
        return found["kept"] or "\n" * found[0].count("\n")

    return [line.rstrip() for line in re.sub(language.quiet, quiet, text).split("\n")]
