"""What was done to the tests of a project between two trees.

Looked at are the files that `suites.py` knows: tests, their settings, CI files, and the unit tests
inside of Rust sources. For each file that was there before:

    gone                        DELETED
    moved                       MOVED_OUT if no runner finds it any more, else MOVED to a new folder
    a link or a submodule now   REPLACED
    fewer cases, assertions     FEWER_CASES, FEWER_ASSERTIONS
    more marks that skip        NEW_SKIPS; in files that are new, too
    lines are missing           LINES_CHANGED: they were removed, changed or put in another order
    other rights                MODE_CHANGED

Of the product, lines are looked at that reach into the framework of its tests, REACHES, and those
by which code can do so unseen or decide itself what it is equal to: MISLEADS. So is source code
that cannot be looked into.

New tests are welcome, and so are new lines in old ones. Settings and CI files are suspicious as
soon as they are new, changed or gone. A suspicion is no proof: it is what a reviewer should look
at, the worst first. An early `return`, a looser tolerance or a subject that was mocked away show
as changed lines at the most.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ..core.text import SEPARATORS
from ..gates.counts import number_of
from . import suites
from .kinds import BY_PATH, Kinds, PathKind, kind_of
from .suites import Language, language_of, marks_of, spoken_part

FRAMEWORKS = r"(?:unittest|_?pytest|nose2?|xunit|test\.support)"
# Where a statement begins: "import a", "if a: import b", "f(); import a"
STATEMENT = r"(?:^|(?<=[;:}]))[ \t]*"
SCRIPT_FRAMEWORKS = r"['\"](?:node:test|@?jest(?:/globals)?|vitest|mocha|ava|tape)['\"]"
MARKS: Mapping[Language, tuple[str, ...]] = {
    suites.PYTHON: (
        # "import sys, unittest", "from _pytest import runner"
        rf"{STATEMENT}import\b[^\n#]{{0,200}}(?<![\w.]){FRAMEWORKS}\b",
        rf"{STATEMENT}from[ \t]+{FRAMEWORKS}\b",
        # "    unittest as u,", within an import of several lines
        rf"^[^\n'\"]{{0,200}}(?<![\w.]){FRAMEWORKS}[ \t]+as\b|^[ \t]*{FRAMEWORKS}[ \t]*[,)]?$",
        # Python's own tests have a thing that is equal to everything.
        rf"{STATEMENT}from[ \t]+test[ \t]+import\b[^\n#]{{0,200}}\bsupport\b|\bALWAYS_EQ\b",
        # "from doctest import unittest", "test_price.unittest", "case.assertEqual = ..."
        rf"{STATEMENT}from[ \t]+[\w.]{{1,200}}[ \t]+import\b"
        rf"[^\n#]{{0,200}}(?<![\w.]){FRAMEWORKS}\b",
        r"(?<=\w)\.unittest\b|\bassert(?:[A-Z][a-z]{1,20}){1,4}\b",
        rf"\b(?:__import__|import_module)\( ?['\"]{FRAMEWORKS}\b",
        r"\b_testMethodName\b|\bPYTEST_CURRENT_TEST\b",
        # "sys.modules['unittest']", but not "sys.modules[__name__]"
        r"\bsys\.modules\b(?!\[__name__\]|\.get\(__name__\))",
        r"\bos\._exit\(",
        # At the margin, and so when it is imported.
        r"^(?:sys\.)?exit\(0?\)|^raise SystemExit(?:\(0?\))?$",
    ),
    suites.JAVASCRIPT: (
        rf"\b(?:require|import)\( ?{SCRIPT_FRAMEWORKS}",
        rf"{STATEMENT}import\b[^\n]{{0,200}}{SCRIPT_FRAMEWORKS}|\bfrom ?{SCRIPT_FRAMEWORKS}",
        r"\bglobal(?:This)?\.(?:it|test|describe|expect|assert)\b",
        r"\bassert(?:\.\w{1,40}|\[[^\]\n]{1,80}\]){1,3} ?=(?![=>])",
        r"\brequire\(['\"](?:node:)?assert(?:/strict)?['\"]\)(?:\.\w{1,40}){1,3} ?=(?![=>])",
        r"\b(?:JEST_WORKER_ID|VITEST_WORKER_ID|NODE_TEST_CONTEXT)\b|\brequire\.cache\b",
        r"^process\.exit\(0?\)",
    ),
    suites.GO: (r"^(?:import )?[ \t]*\"testing\"", r"\btesting\.Testing\(\)"),
    suites.RUST: (r"\bcfg!\(test\)", r"#\[cfg\(not\(test\)\)\]"),
    suites.JAVA: (r"^import (?:static )?org\.(?:junit|testng)\b",),
}
# "'json')" in "__import__('json')", but not "'js\x6fn')"
LITERAL = r" ?['\"][^'\"\n\\]{0,200}['\"] ?[,)]"
# "'./prices.dat'", but not "'./prices'" and not "'./prices.js'"
OTHER_SUFFIX = (
    r"['\"](?:\.{0,2}/|file:)[^'\"\n]{0,200}\."
    r"(?!(?:[cm]?[jt]sx?|json|node)['\"])[^'\"\n./]{1,40}['\"]"
)
# "'unit' + 'test'": a name that is not to be found
MADE_UP = r"['\"]\w{1,40}['\"] ?\+ ?['\"]\w{1,40}['\"]"
DOUBTS: Mapping[Language, tuple[str, ...]] = {
    suites.PYTHON: (
        # "def __eq__(self, other)", "__bool__ = ..."
        r"\b__(?:eq|ne|lt|le|gt|ge|bool|contains|instancecheck|subclasscheck|getattribute)__\b",
        # "assertAlmostEqual" asks for these; a set asks for the hash
        r"\b__(?:sub|rsub|abs|round|float|hash)__\b|\bcompare ?= ?False\b",
        # "type('Amount', (int,), members)", but not "metaclass=ABCMeta"
        r"(?<![\w.])type\([^()\n]{1,200},|\bnew_class\(|\bmake_dataclass\(",
        r"\bmetaclass ?=(?! ?(?:abc\.)?ABCMeta\b)",
        MADE_UP,
        r"(?:''|\"\")\.join\( ?[\[(]{1,2} ?['\"]",
        # "__import__(name)", "import_module('unit' + 'test')"
        rf"\b__import__\b(?!\({LITERAL})",
        rf"(?<!import )\bimport_module\b(?!\({LITERAL})|\bimport_module as\b",
        rf"{STATEMENT}(?:import|from)\b[^\n]{{0,200}}\b(?:runpy|builtins|ctypes)\b",
        # "import \", with the name in the next line
        rf"{STATEMENT}(?:import\b[^\n]{{0,200}}|from\b[ \t]*+[\w.]{{0,200}}[ \t]*+)\\$",
        r"\bresolve_name\(",
        # "SourceFileLoader('a', 'a.dat').load_module()": code in a file that looks like none
        r"\b(?:Source|Sourceless|Extension)FileLoader\b|\bspec_from_(?:file_location|loader)\b",
        r"\.(?:load|exec)_module\(|\bload_source\(",
        r"(?<![\w.])setattr\b(?!\( ?(?:self|cls)\b)",
        r"(?<![\w.])(?<!def )(?:exec|eval)\(|\b(?:globals|locals)\(\)",
        r"\b__(?:subclasses|globals|builtins|code)__\b|(?<!self)\.__dict__\b",
        r"\b_getframe\b|\bcurrentframe\b|\binspect\.stack\b|\btb_frame\b",
        r"\bf_(?:back|locals|globals)\b|\bgc\.get_\w{1,40}",
        r"\bsys\.(?:settrace|setprofile|monitoring|meta_path|path_hooks)\b",
    ),
    suites.JAVASCRIPT: (
        # "valueOf() {", "[Symbol.toPrimitive]", what jest takes for a matcher
        r"(?<![\w.$])valueOf\b|\.valueOf ?=(?![=>])|\btoPrimitive\b|\basymmetricMatch",
        MADE_UP,
        r"['\"] ?\]\.join\( ?(?:''|\"\")",
        # "require(name)", "const load = require;"
        rf"(?<![\w.$])require(?= ?[(;,)\[]|$)(?!\({LITERAL})",
        rf"(?<![\w.$])import ?\((?!{LITERAL})",
        rf"(?:(?<![\w.$])(?:require|import) ?\( ?|\bfrom ?|{STATEMENT}import ?){OTHER_SUFFIX}",
        rf"(?:\bfrom|{STATEMENT}import) ?['\"][^'\"\n\\]{{0,200}}\\",
        # As old as web pages, and node still takes them for the beginning of a comment.
        r"<!--|^[ \t]*-->",
        r"\bcreateRequire\b|\bgetBuiltinModule\b|\bprocess\.(?:binding|mainModule)\b",
        r"\bmodule\.(?:constructor|parent|children|require)\b|\b(?:process|module|globalThis)\[",
        r"\bObject\.(?:definePropert(?:y|ies)|setPrototypeOf)"
        r"\((?! ?(?:\{|this\b|new\b|exports\b|module\.exports\b))",
        r"\bReflect\.(?:set|defineProperty)\b|\b__(?:proto|defineGetter|defineSetter)__\b",
        # "Object.is = ", "Number.prototype.toString = "
        r"\b(?:Object|Function|Number|String|Boolean|Array|Map|Set|Error|Promise|Symbol|Reflect)"
        r"(?:\.prototype)?(?:\.\w{1,40}|\[[^\]\n]{1,80}\]) ?=(?![=>])",
        r"(?<![\w.$])eval\(|\bnew (?:Function|Proxy)\(|\bvm\.\w{1,40}\(",
    ),
    # "func (a Amount) Equal(b Amount) bool"
    suites.GO: (r"^func \([^()\n]{1,80}\) Equal\(", r"^(?:import )?[ \t]*\"unsafe\""),
    # "impl PartialEq for Amount"
    suites.RUST: (
        r"\bimpl\b[^\n]{0,80}\b(?:PartialEq|PartialOrd|Ord)\b[^\n]{0,80} for\b",
        r"\bmacro_rules! ?(?:assert|panic)\w{0,40}",
    ),
    # "public boolean equals(Object other)"
    suites.JAVA: (
        r"\b(?:boolean|fun|def) equals\(|\b(?:int|fun|def) compareTo\(|\bdef ==\(",
        r"\bsetAccessible\(",
    ),
}
# "assert" in "import * as assert from …", "const { equal: assert } = require(…)"
IMPORTS: Mapping[Language, tuple[str, ...]] = {
    suites.PYTHON: (
        rf"{STATEMENT}(?:from[ \t]+[\w.]{{1,200}}[ \t]+)?import\b[ \t]*"
        r"(\([^)]{1,400}\)|[^\n]{1,400})",
    ),
    suites.JAVASCRIPT: (
        STATEMENT + r"import\s{1,9}([\w$ ,*]{0,200}(?:\{[^{}]{1,400}\})?)\s{0,9}from\b",
        r"\b(?:const|let|var)\s{1,9}([\w$]{1,80}|\{[^{}]{1,400}\})\s{0,9}= ?"
        r"(?:await )?(?:require|import)\b",
    ),
}
"""What binds names to something from elsewhere."""
ON_IMPORTED: Mapping[Language, tuple[str, ...]] = {
    suites.PYTHON: (
        # "decimal.Decimal = …", but not "os.environ['A'] = …" and not "amount: decimal.Decimal = …"
        r"(?<![\w.])(?<!: )([A-Za-z_]\w{0,80})(?:\.\w{1,80}){1,4} ?=(?!=)",
        rf"(?<![\w.])getattr\( ?([A-Za-z_]\w{{0,80}})[\w.]{{0,80}},(?!{LITERAL})",
        r"(?<![\w.])vars\( ?([A-Za-z_]\w{0,80})",
    ),
    suites.JAVASCRIPT: (
        r"(?<![\w.$])([A-Za-z_$][\w$]{0,80})(?:\.[\w$]{1,80}|\[[^\]\n]{1,80}\]){1,4} ?=(?![=>])",
        r"\bObject\.assign\( ?([A-Za-z_$][\w$]{0,80})",
    ),
}
"""What is a doubt only if the name in it is imported."""
# "# -*- coding: utf-7 -*-", in one of the first two lines
COOKIE_PATTERN = r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]{1,80})"
PLAIN_CODING_PATTERN = r"(?:utf-?8|(?:us-)?ascii|(?:iso-)?latin-?1|iso-?8859-1)(?:-\w{1,20})?"
SHADOWS = frozenset({"unittest", "pytest", "_pytest", "sitecustomize", "usercustomize"})
"""Modules that are taken in the place of a framework, or before everything else."""

Found = tuple[tuple[int, str], ...]
"""Lines, each with its number and what in it counts."""


def find_meddling(path: str, old: str, new: str) -> Found:
    """Return the lines that a file did not have before and that reach into a framework.

    >>> find_meddling("price.py", "", "total = 1\\nimport unittest\\n")
    ((2, 'import unittest'),)
    """
    language = language_of(path)
    if language is None:
        return ()
    if is_shadow(path) and not old:
        return ((1, f"it takes the place of {_module(path)}"),)
    found = (
        (number, suites.marks_of(MARKS[language], line))
        for number, line in _new_lines(old, new, language)
    )
    return tuple((number, marks[0].strip()) for number, marks in found if marks)


def find_doubts(path: str, old: str, new: str) -> Found:
    """Return the lines that a file did not have before and that its tests could fall for.

    They reach into what is only known when the code runs, change what was imported, or decide what
    is equal.

    >>> find_doubts("price.py", "", "class Amount(int):\\n    __eq__ = always\\n")
    ((2, '__eq__'),)
    """
    language = language_of(path)
    if language is None:
        return ()
    imported = _imported(new, language)
    found = (
        (number, _doubts_in(line, language, imported))
        for number, line in _new_lines(old, new, language)
    )
    lines = tuple((number, marks[0].strip()) for number, marks in found if marks)
    known = [cookie for _, cookie in _odd_codings(old, language)]
    odd = (one for one in _odd_codings(new, language) if one[1] not in known)
    return tuple(sorted((*odd, *lines)))


def _odd_codings(text: str, language: Language) -> Iterator[tuple[int, str]]:
    """Yield the line by which Python reads a file as something else than it looks like."""
    if language is not suites.PYTHON:
        return
    for number, line in enumerate(text.split("\n", 2)[:2], 1):
        cookie = re.match(COOKIE_PATTERN, line)
        if cookie and not _is_plain_coding(cookie[1]):
            yield number, cookie[0].strip()


def _is_plain_coding(name: str) -> bool:
    """Is a text in this coding what it looks like, as far as it is ASCII?"""
    plain = name.lower().replace("_", "-")
    return re.fullmatch(PLAIN_CODING_PATTERN, plain) is not None


def _doubts_in(line: str, language: Language, imported: frozenset[str]) -> list[str]:
    changed = (
        match[0]
        for pattern in ON_IMPORTED.get(language, ())
        for match in re.finditer(pattern, line)
        if match[1] in imported
    )
    return [*suites.marks_of(DOUBTS[language], line), *changed]


def _imported(text: str, language: Language) -> frozenset[str]:
    """Return all names that stand where names are bound to something from elsewhere."""
    spoken = "\n".join(_spoken_lines(text, language))
    bound = (
        names
        for pattern in IMPORTS.get(language, ())
        for names in re.findall(pattern, spoken, re.MULTILINE)
    )
    return frozenset(name for names in bound for name in re.findall(r"[\w$]+", names))


def _new_lines(old: str, new: str, language: Language) -> Iterator[tuple[int, str]]:
    """Return the lines that a file did not have before, with their numbers."""
    known = Counter(_spoken_lines(old, language))
    for number, line in enumerate(_spoken_lines(new, language), 1):
        known[line] -= 1
        if known[line] < 0:
            yield number, line


def is_shadow(path: str) -> bool:
    """Is a file imported in the place of a test framework?"""
    return path.endswith(".py") and _module(path) in SHADOWS


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]


def _spoken_lines(text: str, language: Language) -> list[str]:
    """Return the lines of a text with their numbers kept, without comments and long texts.

    Names are as Python reads them: letters that only look different are the same. A line that a
    language takes for several has line ends in it.
    """

    def quiet(found: re.Match[str]) -> str:
        kept = found["kept"] or (found[0] if _may_hold_code(found) else "")
        return kept or "\n" * found[0].count("\n")

    lines = re.sub(language.quiet, quiet, text).split("\n")
    return [unicodedata.normalize("NFKC", _broken(line)).rstrip() for line in lines]


def _broken(line: str) -> str:
    """Return a line in which what git takes for a part of it, and a language may not, ends it."""
    return re.sub(rf"[\f\v\ufeff{SEPARATORS}]", "\n", line)


def _may_hold_code(found: re.Match[str]) -> bool:
    """Is a text one in which something is run: `${…}`, or {…} after an f?"""
    before = found.string[max(found.start() - 2, 0) : found.start()]
    is_formatted = found[0].startswith(("'", '"')) and "f" in before.lower()
    return is_formatted or (found[0].startswith("`") and "${" in found[0])


LARGEST_TEXT = 1_000_000
"""Characters of a file that is looked into."""
MOST_LINES = 20_000
LONGEST_SHOWN = 200
"""Characters of a path or a mark within a sentence."""
# "#[cfg(test)]", "#[cfg(all(test, unix))]"
UNIT_TESTS_PATTERN = r"[ \t]*#\[cfg\((?:test|all\(test\b.*)\)\]"
EXECUTABLE, LINK = "100755", "120000"
NO_FILE = ("", "000000")
UNREADABLE = "it is not text, or too large to be looked into"


class Trick(StrEnum):
    """What was done, the worst first."""

    DELETED = "deleted"
    MOVED_OUT = "moved out"
    REPLACED = "replaced"
    FEWER_CASES = "fewer cases"
    NEW_SKIPS = "new skips"
    FEWER_ASSERTIONS = "fewer assertions"
    REACHES = "reaches into the tests"
    MISLEADS = "could mislead the tests"
    SETTINGS_CHANGED = "settings changed"
    CI_CHANGED = "CI changed"
    LINES_CHANGED = "lines changed"
    MOVED = "moved"
    MODE_CHANGED = "mode changed"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """How a file differs between two trees."""

    path: str
    old_path: str
    """Another one only if it was moved."""
    status: str
    """As git names it: A, M, D, R or T."""
    old_mode: str
    new_mode: str
    old: str | None = field(repr=False)
    """The text before; None if there was none, or none that can be read."""
    new: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What was done to one file."""

    path: str
    """Where the file is; if it was deleted or moved, where it was."""
    trick: Trick
    detail: str
    """In words: `3 assertions fewer (12 → 9)`."""


RANKS = {trick: rank for rank, trick in enumerate(Trick)}
CHANGED: Mapping[PathKind, Trick] = {
    PathKind.SETTINGS: Trick.SETTINGS_CHANGED,
    PathKind.CI: Trick.CI_CHANGED,
}
ALL_SKIPS = (*suites.SETTINGS_SKIPS, *(skip for known in suites.LANGUAGES for skip in known.skips))


def find_tampering(
    changes: Sequence[ChangedFile], kinds: Kinds = BY_PATH, left_out: Sequence[str] = ()
) -> tuple[Suspicion, ...]:
    """Return what is suspicious about some changes, the worst first.

    Files that are left out, as there are too many, could be anything.
    """
    found = {suspicion for change in changes for suspicion in _look_at(change, kinds)}
    if left_out:
        words = f"not looked into, as too many files were changed{_others(left_out, 'file')}"
        found.add(Suspicion(left_out[0], Trick.MISLEADS, words))
    return tuple(sorted(found, key=lambda s: (RANKS[s.trick], s.path, s.detail)))


def _look_at(change: ChangedFile, kinds: Kinds) -> Iterator[Suspicion]:
    old_kind = PathKind.OTHER if change.status == "A" else kinds.of(change.old_path)
    new_kind = PathKind.OTHER if change.status == "D" else kinds.of(change.path)
    if old_kind is PathKind.TEST:
        yield from _look_at_test(change, new_kind)
    elif new_kind is PathKind.TEST:
        yield from _new_skips(change, "")
    elif suites.RUST in (language_of(change.old_path), language_of(change.path)):
        yield from _look_at_unit_tests(change)
    if new_kind is PathKind.OTHER:
        yield from _reaches(change, is_product=old_kind is PathKind.OTHER)
    for kind, trick in CHANGED.items():
        if kind in (old_kind, new_kind):
            yield from _look_at_settings(change, trick, is_new=old_kind is not kind)


def _look_at_test(change: ChangedFile, new_kind: PathKind) -> Iterator[Suspicion]:
    """Look at a file that was a test before."""
    if change.status == "D":
        yield Suspicion(change.old_path, Trick.DELETED, f"deleted{_held(change)}")
        return
    lost = suites.is_found(change.old_path) and not suites.is_found(change.path)
    if new_kind is not PathKind.TEST or lost:
        where = f"moved to {_shown(change.path)}, where no test runner looks for it{_held(change)}"
        yield Suspicion(change.old_path, Trick.MOVED_OUT, where)
        return
    yield from _moved(change)
    yield from _look_at_mode(change)
    if _is_replaced(change):
        return
    old, new = _readable(change.old), _readable(change.new)
    if old is None or new is None:
        yield Suspicion(change.path, Trick.LINES_CHANGED, f"changed; {UNREADABLE}")
        return
    if language := language_of(change.old_path):
        spoken = spoken_part(old, language), spoken_part(new, language)
        yield from _fewer(change.path, Trick.FEWER_CASES, language.cases, spoken)
        yield from _fewer(change.path, Trick.FEWER_ASSERTIONS, language.assertions, spoken)
    yield from _new_skips(change, old)
    yield from _lines_changed(change, old, new)


def _look_at_unit_tests(change: ChangedFile) -> Iterator[Suspicion]:
    """Look at a Rust source, in which tests may stand among the code."""
    old = "" if change.status == "A" else _readable(change.old)
    is_rust = change.status != "D" and language_of(change.path) is suites.RUST
    new = _readable(change.new) if is_rust else ""
    if old is None or new is None:
        return
    spoken = spoken_part(old, suites.RUST), spoken_part(new, suites.RUST)
    yield from _fewer(change.path, Trick.FEWER_CASES, suites.RUST.cases, spoken)
    tests = _unit_tests(spoken[0]), _unit_tests(spoken[1])
    yield from _fewer(change.path, Trick.FEWER_ASSERTIONS, suites.RUST.assertions, tests)
    yield from _new_skips(change, old)
    yield from _lines_changed(change, _unit_tests(old), _unit_tests(new))


def _look_at_settings(change: ChangedFile, trick: Trick, is_new: bool) -> Iterator[Suspicion]:
    if change.status == "D":
        yield Suspicion(change.old_path, trick, "deleted")
        return
    if change.path != change.old_path and not is_new:
        yield Suspicion(change.old_path, trick, f"moved to {_shown(change.path)}")
    yield from _look_at_mode(change)
    if _is_replaced(change):
        return
    old, new = ("" if is_new else _readable(change.old)), _readable(change.new)
    if is_new:
        yield Suspicion(change.path, trick, "new")
    elif old is None or new is None:
        yield Suspicion(change.path, trick, f"changed; {UNREADABLE}")
    elif old != new:
        yield Suspicion(change.path, trick, _difference(old.split("\n"), new.split("\n")))
    yield from _new_skips(change, old)


def _reaches(change: ChangedFile, is_product: bool) -> Iterator[Suspicion]:
    """Look at a file of the product for what its tests may fall for."""
    if change.status == "D" or not is_product or language_of(change.path) is None:
        return
    old, new = _readable(change.old) or "", _readable(change.new)
    if change.new_mode == LINK:
        yield Suspicion(change.path, Trick.MISLEADS, f"it is a link to {_shown(new or '?')}")
        return
    if new is None:
        yield Suspicion(change.path, Trick.MISLEADS, UNREADABLE)
        return
    for trick, find in ((Trick.REACHES, find_meddling), (Trick.MISLEADS, find_doubts)):
        if found := find(change.path, old, new):
            line, mark = found[0]
            words = f"line {line}: {_shown(mark)}{_others(found, 'line')}"
            yield Suspicion(change.path, trick, words)


def _moved(change: ChangedFile) -> Iterator[Suspicion]:
    if change.path.rpartition("/")[0] != change.old_path.rpartition("/")[0]:
        yield Suspicion(change.old_path, Trick.MOVED, f"moved to {_shown(change.path)}")


def _look_at_mode(change: ChangedFile) -> Iterator[Suspicion]:
    if change.old_mode == change.new_mode or change.old_mode in NO_FILE:
        return
    if _is_replaced(change):
        kinds = {"12": "a symbolic link", "16": "a submodule", "10": "a plain file"}
        now = kinds.get(change.new_mode[:2], f"of mode {_shown(change.new_mode)}")
        yield Suspicion(change.path, Trick.REPLACED, f"it is {now} now")
        return
    now = "executable now" if change.new_mode == EXECUTABLE else "not executable any more"
    yield Suspicion(change.path, Trick.MODE_CHANGED, f"it is {now}")


def _is_replaced(change: ChangedFile) -> bool:
    """Is it another kind of thing now: no file, but a link or a submodule, or the reverse?"""
    return change.old_mode not in NO_FILE and change.old_mode[:2] != change.new_mode[:2]


def _fewer(
    path: str, trick: Trick, patterns: Sequence[str], texts: tuple[str, str]
) -> Iterator[Suspicion]:
    """Compare how many cases or assertions there were and are."""
    before, after = (len(marks_of(patterns, text)) for text in texts)
    if after < before:
        what = "case" if trick is Trick.FEWER_CASES else "assertion"
        lost = f"{number_of(before - after, what)} fewer ({before} → {after})"
        yield Suspicion(path, trick, lost)


def _new_skips(change: ChangedFile, old: str | None) -> Iterator[Suspicion]:
    new, language = _readable(change.new), language_of(change.path)
    is_settings = kind_of(change.path) in CHANGED
    patterns = ALL_SKIPS if is_settings else language.skips if language else ()
    if old is None or new is None or not patterns:
        return
    before, after = (Counter(marks_of(patterns, text)) for text in (old, new))
    more = after.total() - before.total()
    if more > 0:
        mark = _shown(min(after - before))
        counts = f"({before.total()} → {after.total()})"
        words = f"{number_of(more, 'mark')} more that skip or narrow tests {counts}: {mark}"
        yield Suspicion(change.path, Trick.NEW_SKIPS, words)


def _lines_changed(change: ChangedFile, old: str, new: str) -> Iterator[Suspicion]:
    is_code = language_of(change.path) is not None
    before, after = (_lines(text, is_code) for text in (old, new))
    if not _is_within(before, after):
        yield Suspicion(change.path, Trick.LINES_CHANGED, _difference(before, after))


def _lines(text: str, is_code: bool) -> list[str]:
    """Return the lines of a text; of code only those that say something."""
    lines = text.split("\n")
    return [line.rstrip() for line in lines if line.strip()] if is_code else lines


def _is_within(old: Sequence[str], new: Sequence[str]) -> bool:
    """Are all old lines still there, in their order?"""
    rest = iter(new)
    return all(line in rest for line in old)


def _difference(old: Sequence[str], new: Sequence[str]) -> str:
    gone, added = Counter(old) - Counter(new), Counter(new) - Counter(old)
    if gone:
        return f"{gone.total()} of {number_of(len(old), 'line')} removed or changed"
    if _is_within(old, new):
        return f"{number_of(added.total(), 'line')} added"
    return "lines are in another order"


def _unit_tests(text: str) -> str:
    """Return what in a Rust source is built for tests only.

    An item ends at the first line that closes it at its own depth, as formatted code has it.
    """
    found: list[str] = []
    depth: str | None = None
    for line in text.split("\n"):
        if depth is None and re.match(UNIT_TESTS_PATTERN, line):
            depth = line[: len(line) - len(line.lstrip())]
            found.append(line)
        elif depth is not None:
            found.append(line)
            is_over = re.fullmatch(r"\}|[^\s{}#/][^{}]*;", line.removeprefix(depth).rstrip())
            depth = None if is_over else depth
    return "\n".join(found)


def _held(change: ChangedFile) -> str:
    """Return how much was in a file that is gone: ` (2 cases, 5 assertions)`."""
    language, old = language_of(change.old_path), _readable(change.old)
    if language is None or old is None:
        return ""
    spoken = spoken_part(old, language)
    cases, assertions = (
        len(marks_of(patterns, spoken)) for patterns in (language.cases, language.assertions)
    )
    return f" ({number_of(cases, 'case')}, {number_of(assertions, 'assertion')})"


def _readable(text: str | None) -> str | None:
    """Return a text with plain line ends; None if it is too large."""
    if text is None or len(text) > LARGEST_TEXT:
        return None
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain if plain.count("\n") < MOST_LINES else None


def _others(found: Sequence[object], what: str) -> str:
    """Say how many there are besides the first; empty if none."""
    more = len(found) - 1
    return f"; {number_of(more, f'more {what}')} like that" if more else ""


def _shown(text: str) -> str:
    """Return a text from outside fit for a sentence."""
    return "".join(char if char.isprintable() else "?" for char in text[:LONGEST_SHOWN])
