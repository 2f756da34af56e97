r"""What tests look like in each language, and what a product looks like that fools them.

Nothing here is exact. Patterns are searched in text, so that a skip in a comment counts; cases and
assertions are counted where comments and texts of several lines are left out, so that a test in a
comment does not count. All of it takes time in proportion to the length of a text, whoever wrote
it: no pattern can begin again inside of what it has searched in vain (`{0,3}` in place of `*`).
"""

import re
from dataclasses import dataclass

from ..core.text import SEPARATORS


@dataclass(frozen=True, slots=True)
class Language:
    """Patterns of one language."""

    suffixes: tuple[str, ...]
    cases: str
    assertions: str
    skips: str
    """What keeps a test from running, from counting, or all others from running."""
    reaches: str
    """What in a product imports or patches a test framework, or ends the process."""
    doubts: str
    """What in a product decides what is equal, or is only known when it runs."""
    quiet: str
    """Comments and texts, in which nothing is run. Those in the group `kept` are left in: they
    are looked for only because they may hold what looks like the beginning of a comment."""
    imports: str = ""
    """What binds names (of the first group that matches) to something from elsewhere."""
    on_imported: str = ""
    """What is a doubt only if the name in it is imported."""


def _any(*patterns: str) -> str:
    return "|".join(patterns)


# "a # b", 'it\'s', and one that goes on after a backslash at the end of its line
SHORT_TEXTS = r"\"(?:[^\"\\\n]|\\[\s\S])*+\"?|'(?:[^'\\\n]|\\[\s\S])*+'?"
# "// a", "/* a */", and one that is not closed
LONG_COMMENTS = r"/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)"
C_COMMENTS = rf"//[^\n]*|{LONG_COMMENTS}"
# "#!/usr/bin/env node"; a line of JavaScript has four possible ends
SCRIPT_COMMENTS = rf"\A\ufeff?#![^\n{SEPARATORS}]*|//[^\n{SEPARATORS}]*|{LONG_COMMENTS}"
LONG_TEXT = r"\"\"\"(?:[^\"\\]|\\[\s\S]|\"(?!\"\"))*+(?:\"\"\"|\\?\Z)"
# Where a statement begins: "import a", "if a: import b", "f(); import a"
STATEMENT = r"(?:^|(?<=[;:}]))[ \t]*"
# "'json')" in "__import__('json')", but not "'js\x6fn')"
LITERAL = r" ?['\"][^'\"\n\\]{0,200}['\"] ?[,)]"
# "'unit' + 'test'": a name that is not to be found
MADE_UP = r"['\"]\w{1,40}['\"] ?\+ ?['\"]\w{1,40}['\"]"
FRAMEWORKS = r"(?:unittest|_?pytest|nose2?|xunit|test\.support)"
NAME = r"[A-Za-z_]\w{0,80}"

PYTHON = Language(
    suffixes=(".py", ".pyi"),
    cases=r"^[ \t]*(?:async )?def test\w*\(|^[ \t]*class Test\w*",
    assertions=_any(
        r"^[ \t]*assert\b|\bself\.(?:assert\w+|fail)\(|\bpytest\.(?:raises|warns|approx|fail)\b",
        r"\.assert_(?:called|any|has|not|awaited)\w*\(",
    ),
    skips=_any(
        # "@pytest.mark.skip", "pytestmark = pytest.mark.xfail(strict=False)"
        r"\bpytest\.mark\.(?:skip|skipif|xfail)\b|\bpytest\.(?:skip|xfail|importorskip)\(",
        r"@(?:unittest\.)?(?:skip|skipIf|skipUnless|expectedFailure)\b|\bself\.skipTest\(",
        r"\braise (?:unittest\.)?SkipTest\b|\b__test__ {0,4}= {0,4}False\b",
        # "collect_ignore = ['test_a.py']", "collect_ignore_glob"
        r"\bcollect_ignore(?:_glob)?\b|(?<![\w-])--(?:ignore|deselect)\b",
        r"\bpytest_(?:ignore_collect|collection_modifyitems|runtest_makereport)\b",
        r"\bpragma: no cover\b|\b(?:sys\.exit|os\._exit)\(0?\)",
    ),
    reaches=_any(
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
        # At the margin, and so when it is imported.
        r"\bos\._exit\(|^(?:sys\.)?exit\(0?\)|^raise SystemExit(?:\(0?\))?$",
    ),
    doubts=_any(
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
        rf"\b__import__\b(?!\({LITERAL})|\bresolve_name\(",
        rf"(?<!import )\bimport_module\b(?!\({LITERAL})|\bimport_module as\b",
        rf"{STATEMENT}(?:import|from)\b[^\n]{{0,200}}\b(?:runpy|builtins|ctypes)\b",
        # "import \", with the name in the next line
        rf"{STATEMENT}(?:import\b[^\n]{{0,200}}|from\b[ \t]*+[\w.]{{0,200}}[ \t]*+)\\$",
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
    quiet=(
        rf"{LONG_TEXT}|'''(?:[^'\\]|\\[\s\S]|'(?!''))*+(?:'''|\\?\Z)|(?P<kept>{SHORT_TEXTS})|#[^\n]*"
    ),
    imports=rf"{STATEMENT}(?:from[ \t]+[\w.]{{1,200}}[ \t]+)?import\b[ \t]*"
    r"(\([^)]{1,400}\)|[^\n]{1,400})",
    on_imported=_any(
        # "decimal.Decimal = …", but not "os.environ['A'] = …" and not "amount: decimal.Decimal = …"
        rf"(?<![\w.])(?<!: )({NAME})(?:\.\w{{1,80}}){{1,4}} ?=(?!=)",
        rf"(?<![\w.])getattr\( ?({NAME})[\w.]{{0,80}},(?!{LITERAL})",
        rf"(?<![\w.])vars\( ?({NAME})",
    ),
)
SCRIPT_FRAMEWORKS = r"['\"](?:node:test|@?jest(?:/globals)?|vitest|mocha|ava|tape)['\"]"
# "'./prices.dat'", but not "'./prices'" and not "'./prices.js'"
OTHER_SUFFIX = (
    r"['\"](?:\.{0,2}/|file:)[^'\"\n]{0,200}\."
    r"(?!(?:[cm]?[jt]sx?|json|node)['\"])[^'\"\n./]{1,40}['\"]"
)
SCRIPT_NAME = r"[A-Za-z_$][\w$]{0,80}"
JAVASCRIPT = Language(
    suffixes=(".js", ".jsx", ".ts", ".tsx", ".cjs", ".mjs", ".cts", ".mts"),
    cases=r"(?<![\w.$])(?:it|test)(?:\.\w{1,40}){0,3} ?[(`]",
    assertions=(r"(?<![\w.$])(?:expect(?:\.\w{1,40})?|assert(?:\.\w{1,40}){0,3})\(|\.should\b"),
    skips=_any(
        # "it.skip(", "test.concurrent.only(", "test.describe.fixme("
        r"(?<![\w.$])(?:describe|it|test|context|suite)(?:\.\w{1,40}){0,3}"
        r"\.(?:skip|skipIf|todo|fails|fixme|failing|only)\b",
        # "xit(", "xdescribe.each"
        r"(?<![\w.$])(?:x(?:describe|it|test|context)|fdescribe|fit)\b(?=[(.`])",
        # "test('a', { skip: true }, …)"
        r"\b(?:this|t)\.skip\(|\b(?:skip|only|todo): ?true\b",
        r"\btestPathIgnorePatterns\b|\bpassWithNoTests\b",
        r"\b(?:istanbul|c8|v8) ignore\b|\bprocess\.exit\(0?\)",
    ),
    reaches=_any(
        rf"\b(?:require|import)\( ?{SCRIPT_FRAMEWORKS}",
        rf"{STATEMENT}import\b[^\n]{{0,200}}{SCRIPT_FRAMEWORKS}|\bfrom ?{SCRIPT_FRAMEWORKS}",
        r"\bglobal(?:This)?\.(?:it|test|describe|expect|assert)\b",
        r"\bassert(?:\.\w{1,40}|\[[^\]\n]{1,80}\]){1,3} ?=(?![=>])",
        r"\brequire\(['\"](?:node:)?assert(?:/strict)?['\"]\)(?:\.\w{1,40}){1,3} ?=(?![=>])",
        r"\b(?:JEST_WORKER_ID|VITEST_WORKER_ID|NODE_TEST_CONTEXT)\b|\brequire\.cache\b",
        r"^process\.exit\(0?\)",
    ),
    doubts=_any(
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
    quiet=rf"(?P<kept>{SHORT_TEXTS})|`(?:[^`\\]|\\[\s\S])*+(?:`|\\?\Z)|{SCRIPT_COMMENTS}",
    # "assert" in "import * as assert from …", "const { equal: assert } = require(…)"
    imports=_any(
        STATEMENT + r"import\s{1,9}([\w$ ,*]{0,200}(?:\{[^{}]{1,400}\})?)\s{0,9}from\b",
        r"\b(?:const|let|var)\s{1,9}([\w$]{1,80}|\{[^{}]{1,400}\})\s{0,9}= ?"
        r"(?:await )?(?:require|import)\b",
    ),
    on_imported=_any(
        rf"(?<![\w.$])({SCRIPT_NAME})(?:\.[\w$]{{1,80}}|\[[^\]\n]{{1,80}}\]){{1,4}} ?=(?![=>])",
        rf"\bObject\.assign\( ?({SCRIPT_NAME})",
    ),
)
GO = Language(
    suffixes=(".go",),
    cases=r"^func (?:Test|Benchmark|Fuzz|Example)\w*\(|\bt\.Run\(",
    assertions=_any(
        r"\b[tb]\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(",
        r"\b(?:assert|require)\.\w+\(|\bcmp\.Diff\(",
    ),
    # "//go:build ignore", "// +build never": it is built only on demand
    skips=_any(
        r"\b[tbf]\.Skip(?:f|Now)?\(|\btesting\.Short\(\)|\bos\.Exit\(0\)",
        r"^//go:build\b|^// ?\+build\b",
    ),
    reaches=r"^(?:import )?[ \t]*\"testing\"|\btesting\.Testing\(\)",
    # "func (a Amount) Equal(b Amount) bool"
    doubts=r"^func \([^()\n]{1,80}\) Equal\(|^(?:import )?[ \t]*\"unsafe\"",
    quiet=rf"(?P<kept>{SHORT_TEXTS})|`[^`]*+(?:`|\Z)|{C_COMMENTS}",
)
RUST = Language(
    suffixes=(".rs",),
    cases=r"#\[\s{0,9}(?:(?:\w{1,40}::)?test|rstest|test_case)\b",
    assertions=_any(
        r"\b(?:debug_)?assert(?:_eq|_ne|_matches)?! ?[(\[{]",
        r"\bprop_assert\w*!|\binsta::assert\w*!",
    ),
    skips=_any(
        r"#!?\[\s{0,9}ignore\b|#\[\s{0,9}should_panic\b|\bprocess::exit\(0\)",
        # "#[cfg_attr(miri, ignore)]"
        r"#!?\[\s{0,9}cfg_attr\([^)]{0,200}?\bignore\b",
        # "#[cfg(any())]": never built
        r"#!?\[\s{0,9}cfg\((?:any\(\)|false|FALSE)\)",
    ),
    reaches=r"\bcfg!\(test\)|#\[cfg\(not\(test\)\)\]",
    # "impl PartialEq for Amount"
    doubts=_any(
        r"\bimpl\b[^\n]{0,80}\b(?:PartialEq|PartialOrd|Ord)\b[^\n]{0,80} for\b",
        r"\bmacro_rules! ?(?:assert|panic)\w{0,40}",
    ),
    quiet=rf"(?P<kept>{SHORT_TEXTS})|{C_COMMENTS}",
)
JAVA = Language(
    suffixes=(".java", ".kt", ".kts", ".groovy", ".scala"),
    cases=r"@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|TestTemplate)\b",
    assertions=_any(
        r"\bassert(?:That|Equals|NotEquals|True|False|Null|NotNull|Same|NotSame|Throws|All|Timeout"
        r"|Iterable|Lines|Array|Instance|DoesNot|Fails|Is|Contains|Content)\w*\(",
        r"\bfail\(|\bverify\w*\(",
    ),
    skips=_any(
        r"@(?:Disabled|Ignore|IgnoreIf|IgnoreRest|DisabledIf\w*|DisabledOn\w*|EnabledIf\w*)\b",
        r"\benabled {0,4}= {0,4}false\b|\bignoreFailures {0,4}= {0,4}true\b",
        r"\bassume(?:True|False|That|NotNull|NoException)\w*\(|<skip(?:Tests|ITs)?>\s{0,9}true",
        r"-DskipTests\b|maven\.test\.skip\b|(?<![\w/])testFailureIgnore\b",
        r"\b(?:System\.exit|exitProcess)\(0\)",
    ),
    reaches=r"^import (?:static )?org\.(?:junit|testng)\b",
    # "public boolean equals(Object other)"
    doubts=_any(
        r"\b(?:boolean|fun|def) equals\(|\b(?:int|fun|def) compareTo\(|\bdef ==\(",
        r"\bsetAccessible\(",
    ),
    quiet=rf"{LONG_TEXT}|(?P<kept>{SHORT_TEXTS})|{C_COMMENTS}",
)
LANGUAGES = (PYTHON, JAVASCRIPT, GO, RUST, JAVA)

SETTINGS_SKIPS = _any(
    # "pytest || true", "run: exit 0"
    r"\|\| ?(?:true|:|exit 0)(?!\w)|\bexit 0\b",
    r"\b(?:continue-on-error|allow_failure): ?true\b|\bif: ?(?:false\b|\$\{\{ ?false ?\}\})",
    # "pytest -k 'not slow'", "go test -short", "cargo test -- --skip slow", "gradle build -x test"
    r"(?<![\w-])(?:-[km][ =][\"']?not|-(?:short|skip)|--(?:skip|no-run)|-x test)\b",
    # "[lib] test = false", "[[test]] harness = false"
    r"\b(?:test|autotests|harness|doctest) {0,4}= {0,4}false\b",
)
"""What narrows the tests in a settings or CI file, besides the marks of all languages."""


def language_of(path: str) -> Language | None:
    """Return the language that a file is written in, if its tests can be read."""
    return next((known for known in LANGUAGES if path.endswith(known.suffixes)), None)


def marks_of(pattern: str, text: str) -> list[str]:
    """Return what in a text matches a pattern, each place once.

    >>> marks_of(PYTHON.skips, "@pytest.mark.skip\\ndef test_a(): pytest.skip('b')")
    ['pytest.mark.skip', 'pytest.skip(']
    """
    return [mark[0] for mark in re.finditer(pattern, text, re.MULTILINE)] if pattern else []


def spoken_part(text: str, language: Language) -> str:
    """Return a text without comments and without texts of several lines."""
    return re.sub(language.quiet, lambda found: found["kept"] or found[0][0], text)
