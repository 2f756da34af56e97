r"""What belongs to the tests of a project: by the paths of files, their texts, and gates' commands.

First what tests look like in each language, and what a product looks like that fools them. Nothing
here is exact: a skip in a comment counts. All patterns take linear time: none can begin again
inside of what it has searched in vain (`{0,3}` in place of `*`).

Then which files of one state of a project are laid over another one, so that the tests are those of
the base or those of the run.
"""

import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct

from ..core.files import cache_of
from ..core.text import SEPARATORS
from ..work.changes import Change


class Language(Struct, frozen=True):
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
    """Comments and texts. Those in the group `kept` are left in: they are looked for only because
    they may hold what looks like the beginning of a comment."""
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
        # "import sys, unittest", "from doctest import unittest", "__import__('unittest')"
        rf"{STATEMENT}(?:import|from)\b[^\n#]{{0,200}}(?<![\w.]){FRAMEWORKS}\b",
        rf"\b(?:__import__|import_module)\( ?['\"]{FRAMEWORKS}\b",
        # "case.assertEqual = ..."
        r"\bassert(?:[A-Z][a-z]{1,20}){1,4}\b",
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
        r"(?<![\w.])type\([^()\n]{1,200},|\bmetaclass ?=(?! ?(?:abc\.)?ABCMeta\b)",
        # "__import__(name)", "import_module('unit' + 'test')"
        rf"\b(?:__import__|import_module)\((?!{LITERAL})",
        # "SourceFileLoader('a', 'a.dat').load_module()": code in a file that looks like none
        r"FileLoader\b|\bspec_from_(?:file_location|loader)\b|\.(?:load|exec)_module\(",
        r"(?<![\w.])setattr\b(?!\( ?(?:self|cls)\b)|(?<!self)\.__dict__\b",
        r"(?<![\w.])(?<!def )(?:exec|eval)\(|\b(?:globals|locals)\(\)",
        r"\b(?:_getframe|currentframe|f_back|f_globals)\b|\b__(?:subclasses|globals|code)__\b",
        r"\bgc\.get_\w{1,40}|\bsys\.(?:settrace|setprofile)\b",
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
        rf"\b(?:require|import)\( ?{SCRIPT_FRAMEWORKS}|\b(?:from|import) ?{SCRIPT_FRAMEWORKS}",
        r"\bglobal(?:This)?\.(?:it|test|describe|expect|assert)\b",
        r"\bassert(?:\.\w{1,40}|\[[^\]\n]{1,80}\]){1,3} ?=(?![=>])",
        r"\brequire\(['\"](?:node:)?assert(?:/strict)?['\"]\)(?:\.\w{1,40}){1,3} ?=(?![=>])",
        r"\b(?:JEST_WORKER_ID|VITEST_WORKER_ID|NODE_TEST_CONTEXT)\b|\brequire\.cache\b",
        r"^process\.exit\(0?\)",
    ),
    doubts=_any(
        # "valueOf() {", "[Symbol.toPrimitive]", what jest takes for a matcher
        r"(?<![\w.$])valueOf\b|\.valueOf ?=(?![=>])|\btoPrimitive\b|\basymmetricMatch",
        # "require(name)", "import('node:' + 'test')"
        rf"(?<![\w.$])(?:require|import) ?\((?!{LITERAL})",
        r"\bcreateRequire\b|\bgetBuiltinModule\b",
        r"\bObject\.(?:definePropert(?:y|ies)|setPrototypeOf)"
        r"\((?! ?(?:\{|this\b|new\b|exports\b|module\.exports\b))",
        r"\bReflect\.(?:set|defineProperty)\b|\b__(?:proto|defineGetter|defineSetter)__\b",
        # "Object.is = ", "Number.prototype.toString = "
        r"\b(?:Object|Function|Number|String|Boolean|Array|Map|Set|Error|Promise|Symbol|Reflect)"
        r"(?:\.prototype)?(?:\.\w{1,40}|\[[^\]\n]{1,80}\]) ?=(?![=>])",
        r"(?<![\w.$])eval\(|\bnew (?:Function|Proxy)\(",
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
    return next((known for known in LANGUAGES if path.endswith(known.suffixes)), None)


def marks_of(pattern: str, text: str) -> list[str]:
    return [mark[0] for mark in re.finditer(pattern, text, re.MULTILINE)] if pattern else []


def spoken_part(text: str, language: Language) -> str:
    return re.sub(language.quiet, lambda found: found["kept"] or found[0][0], text)


FOLDERS = frozenset(
    ("test", "tests", "__tests__", "__mocks__", "__snapshots__", "spec", "e2e", "cypress")
) | {"testdata", "benches"}
# "app/src/integrationTest/java/A.java", "t/lib/Prices.pm"
OF_TESTS_PATTERN = r"(?:^|/)src/(?:it|integrationTest|androidTest)/|^t/"
# "app/src/main/java/ATest.java": what is there is never run as a test
MAIN_PATTERN = r"(?:^|/)src/main/"
# "packages/a/tests/b.rs": cargo runs what lies in the folder itself
# "a/__tests__/b/c.tsx", "test/b.mjs": jest looks into the one, node and mocha into the other
FOUND_PATHS = (
    r"(?:^|/)(?:tests|benches)/[^/]+\.rs\Z"
    r"|(?:^|/)(?:__tests__|test)/(?:[^/]+/)*+[^/]+\.[cm]?[jt]sx?\Z"
)

# All of these are of the whole last part of a path.
FOUND_NAMES = _any(
    # "test_total.py", "total_test.py", "tests.py"
    r"test_.+\.py|.+_test\.py|tests?\.py",
    # "total.test.ts", "login.cy.js", "test.mjs"
    r".+\.(?:test|spec|cy|e2e)\.[cm]?[jt]sx?|(?:test|spec)\.[cm]?[jt]sx?",
    # "total_test.go", "tests.rs"
    r".+_test\.go|tests?\.rs",
    # "TotalTest.java", "OrderIT.kt", "TestTotal.java"
    r".*(?:Test|Tests|TestCase|IT|Spec)\.(?:java|kt|groovy|scala|php|cs|swift)",
    r"Test[A-Z].*\.(?:java|kt)",
    # "basic.t", "prices.bats", "test_total.rb", "total_spec.rb", "total_test.cc"
    r".+\.(?:t|bats)|test_.+\.rb|.+_(?:test|spec)\.(?:rb|exs|dart|cc|cpp|c|php|lua)",
)
DOUBTFUL_NAMES = {
    # "testprice.py" for unittest; "testimonials.py" too
    r"test[^_.].*\.py": r"^[ \t]*(?:async )?def test\w*\(",
    # "test-price.js", "price-test.mjs", "price_test.ts" for node
    r"(?:test-.+|.+[-_]test)\.[cm]?[jt]sx?": r"(?<![\w.$])(?:it|test|describe|assert)\b ?[(.`]",
}
"""By these names a runner looks into a file that may be of the product; what a test has in it."""
HELPER_NAMES = r"conftest\.py|.+\.snap"
SETTINGS_NAMES = _any(
    r"\.?pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml|noxfile\.py|\.coveragerc",
    r"(?:jest|vite|vitest|playwright|cypress|karma|wdio)\.config\.(?:[cm]?[jt]s|json)",
    r"\.mocharc(?:\..+)?|\.nycrc(?:\.json)?|package\.json|vitest\.workspace\..+",
    r"Cargo\.toml|nextest\.toml|pom\.xml|testng\.xml|(?:build|settings)\.gradle(?:\.kts)?",
)
CI_NAMES = _any(
    r"\.gitlab-ci\.ya?ml|\.travis\.ya?ml|azure-pipelines\.ya?ml|bitbucket-pipelines\.ya?ml",
    r"Jenkinsfile.*|(?:GNUm|[Mm])akefile|.+\.mk|\.?[Jj]ustfile|Taskfile\.ya?ml",
    r"\.pre-commit-config\.ya?ml",
)
# ".github/workflows/test.yml", ".circleci/config.yml"
CI_FOLDERS_PATTERN = r"(?:^|/)\.(?:github/(?:workflows|actions)|gitlab|circleci|buildkite)/"
SOURCE_SUFFIXES = (
    *(suffix for language in LANGUAGES for suffix in language.suffixes),
    *(".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".swift", ".m", ".rb", ".php", ".pl", ".pm"),
    *(".lua", ".ex", ".exs", ".erl", ".hs", ".ml", ".clj", ".dart", ".r", ".jl", ".zig", ".nim"),
    *(".sh", ".bash", ".zsh", ".ps1", ".sql", ".css", ".scss", ".vue", ".svelte", ".proto"),
)
EMPTY_SUFFIXES = (*PYTHON.suffixes, *JAVASCRIPT.suffixes, ".rb")
"""Of languages in which a file may have nothing in it."""
# "README.md", "LICENSE": tests may look at these, and they are there for readers
FOR_READERS = (
    r"(?i)(?:readme|changelog|changes|history|licen[cs]e|news|authors|contributing)(?:\..*)?"
)


class PathKind(StrEnum):
    TEST = "test"
    SETTINGS = "settings"
    CI = "ci"
    OTHER = "other"


def kind_of(path: str) -> PathKind:
    *folders, name = path.split("/")
    if _is_named(name, SETTINGS_NAMES):
        return PathKind.SETTINGS
    if _is_named(name, CI_NAMES) or re.search(CI_FOLDERS_PATTERN, path):
        return PathKind.CI
    if not FOLDERS.isdisjoint(folders) or re.search(OF_TESTS_PATTERN, path):
        return PathKind.TEST
    named = _is_named(name, f"{FOUND_NAMES}|{HELPER_NAMES}")
    return PathKind.TEST if named else PathKind.OTHER


def is_found(path: str) -> bool:
    if re.search(FOUND_PATHS, path):
        return True
    return _is_named(path.rpartition("/")[2], FOUND_NAMES) and not re.search(MAIN_PATTERN, path)


def is_doubtful(path: str) -> bool:
    return not is_found(path) and _is_named(path.rpartition("/")[2], "|".join(DOUBTFUL_NAMES))


def holds_tests(path: str, text: str | None) -> bool:
    if is_found(path):
        return True
    name, language = path.rpartition("/")[2], language_of(path)
    mark = "|".join(mark for names, mark in DOUBTFUL_NAMES.items() if _is_named(name, names))
    return language is not None and bool(marks_of(mark, spoken_part(text or "", language)))


def may_be_data(path: str) -> bool:
    name = path.rpartition("/")[2]
    is_source = name.lower().endswith(SOURCE_SUFFIXES)
    is_known = _is_named(name, FOR_READERS) or len(name) < 4 or is_source
    return kind_of(path) is PathKind.OTHER and not is_known


def is_golden(mentioned_in: Sequence[str]) -> bool:
    sources = [path for path in mentioned_in if path.endswith(SOURCE_SUFFIXES)]
    is_product = PathKind.OTHER in map(kind_of, sources)
    return PathKind.TEST in map(kind_of, mentioned_in) and not is_product


def _is_named(name: str, pattern: str) -> bool:
    return re.fullmatch(pattern, name, re.DOTALL) is not None


class Kinds(Struct, frozen=True):
    tests: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    """Files that the command of a gate names; they have a say in what it runs."""

    def of(self, path: str) -> PathKind:
        by_path = kind_of(path)
        if by_path is not PathKind.OTHER:
            return by_path
        if path in self.tests:
            return PathKind.TEST
        return PathKind.SETTINGS if path in self.named else PathKind.OTHER


BY_PATH = Kinds()


def kinds_of_named(texts: Mapping[str, str | None], tests: frozenset[str] = frozenset()) -> Kinds:
    found = set()
    for path, text in texts.items():
        if language := language_of(path):
            marks = f"{language.cases}|{language.assertions}"
            found |= {path} if marks_of(marks, spoken_part(text or "", language)) else set()
    return Kinds(tests | found, frozenset(texts) - found)


class Layers(Struct, frozen=True):
    new_tests: tuple[str, ...] = ()
    old_tests: tuple[str, ...] = ()
    """Those of before that are different now."""
    added: tuple[str, ...] = ()
    """New files that have a say in which tests are run, and how."""
    scripts: tuple[str, ...] = ()
    """What the command of a gate names and is no product, and is different now."""
    new_sources: tuple[str, ...] = ()
    """New files of the product that may be empty and still be found by tests."""
    product: tuple[str, ...] = ()
    """What of the product is different, its source code first."""
    is_untouched: bool = True
    """Is there no difference but what programs leave behind when they are merely run?"""

    def over_result(self, *, had_tests: bool) -> tuple[str, ...]:
        """Return what becomes as it was; new tests stay where there were none to run."""
        added = self.added if had_tests else ()
        return (*self.old_tests, *self.scripts, *added)

    @property
    def over_base(self) -> tuple[str, ...]:
        return (*self.new_tests, *self.scripts) if self.new_tests else ()


def layers_of(changes: Sequence[Change], kinds: Kinds) -> Layers:
    tests = {p for c in changes for p in (c.path, c.old_path) if kinds.of(p) is PathKind.TEST}
    new = dict.fromkeys(c.path for c in changes if c.status in "AR")
    before = [c.old_path for c in changes if c.status != "A"]
    product = [
        c.path
        for c in changes
        if kinds.of(c.path) is PathKind.OTHER and not cache_of(c.path) and not c.is_repository
    ]

    def has_a_say(path: str) -> bool:
        is_helper = _is_named(path.rpartition("/")[2], rf"__init__\.py|{HELPER_NAMES}")
        return path in tests and (path in kinds.tests or is_helper or is_found(path))

    def is_script(path: str) -> bool:
        # Source code may be what is tested: `mypy price.py && pytest`. A manifest is no script.
        is_other = path in kinds.named and path not in tests and language_of(path) is None
        return is_other and kind_of(path) is not PathKind.SETTINGS

    return Layers(
        new_tests=tuple(c.path for c in changes if c.status != "D" and c.path in tests),
        old_tests=tuple(path for path in before if path in tests),
        added=tuple(path for path in new if has_a_say(path)),
        scripts=tuple(path for path in before if is_script(path)),
        new_sources=tuple(
            path
            for path in product
            # Without the text of setup.py nothing can be installed.
            if path in new and path.endswith(EMPTY_SUFFIXES) and path != "setup.py"
        ),
        product=tuple(sorted(product, key=lambda path: not path.endswith(SOURCE_SUFFIXES))),
        is_untouched=all(cache_of(c.path) for c in changes),
    )


MOST_WORDS = 500
# "-v", "--failfast": what follows is no value of these
FLAG_PATTERN = r"-[vqfbcmBS]+|--(?:verbose|quiet|failfast|catch|buffer|locals)"
MODULE_PATTERN = r"[A-Za-z_]\w*(?:\.\w+)*"
# "check_*.py", but not "*.py"
GLOB_PATTERN = r"(?:.*/)?(?=[^/]*[*?\[])(?!\*+(?:\.\w+)?\Z)[^/]+"


def named_files(command: str, files: Collection[str], folder: str = "") -> frozenset[str]:
    known = frozenset(files)
    folders = {""}
    for path in known:
        while (path := posixpath.dirname(path)) not in folders:
            folders.add(path)
    words = _words(command)[:MOST_WORDS]
    values = []
    for word in words:
        # "--file=a", "a::test", "$PWD/a"
        for part in dict.fromkeys((word, word.partition("=")[2])):
            path = part.partition("::")[0].removeprefix("$PWD").removeprefix("${PWD}")
            values += [path.strip("/")] if path.strip("/") else []

    def joined(place: str, path: str) -> str:
        return posixpath.normpath(posixpath.join(place, path))

    places = dict.fromkeys((folder, *(joined(folder, value) for value in values)))
    below = [place for place in places if place in folders]
    found = {joined(place, name) for place in below for name in values} & known
    names = {posixpath.basename(path) for path in found}
    modules = list(_module_files(words, names))
    found |= {joined(place, name) for place in below for name in modules} & known
    for glob in (value for value in values if re.fullmatch(GLOB_PATTERN, value)):
        found |= {
            path
            for path in known
            if fnmatchcase(path, glob) or fnmatchcase(posixpath.basename(path), glob)
        }
    return frozenset(found)


def _words(command: str) -> list[str]:
    try:
        reader = shlex.shlex(command, posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        reader.commenters = ""
        words = list(reader)
    except ValueError:
        words = command.split()
    return [part for word in words for part in (word.split() if " " in word else [word])]


def _module_files(words: Sequence[str], names: Collection[str]) -> Iterator[str]:
    """Yield the files of the modules that a command may name: `checks.price`."""
    for before, word in zip(["", *words], words, strict=False):
        is_value = before.startswith("-") and not re.fullmatch(FLAG_PATTERN, before)
        if is_value or word in names or not re.fullmatch(MODULE_PATTERN, word):
            continue
        parts = word.split(".")
        for length in range(1, len(parts) + 1):
            path = "/".join(parts[:length])
            yield from (f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py")
