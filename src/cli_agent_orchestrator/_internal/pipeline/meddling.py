"""Lines of a product that its tests may fall for.

Code that is tested runs in the same process as its tests: it can ask which test runs, and put
something of its own in the place of what compares. Honest code seldom speaks of a test framework
at all. What is found is no proof of anything: it is where to look.

Whoever wants to be unseen has the name of a framework made when the code runs, or returns what is
equal to everything. The lines by which that is done are found in honest code as well: doubts.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping

from cli_agent_orchestrator._internal.characters import SEPARATORS
from cli_agent_orchestrator._internal.pipeline import suites
from cli_agent_orchestrator._internal.pipeline.suites import Language, language_of

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
