r"""What belongs to the tests of a project, as tables: where they lie, and what they look like.

Nothing here is exact. Patterns are searched in text, so that a skip in a comment counts; cases and
assertions are counted where comments and texts of several lines are left out, so that a test in a
comment does not count. All of it takes time in proportion to the length of a text, whoever wrote
it: no pattern can begin again inside of what it has looked at in vain (`{0,3}` in place of `*`).
"""

import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..core.text import SEPARATORS

FOLDERS = frozenset(
    {"test", "tests", "__tests__", "__mocks__", "__snapshots__", "spec", "e2e", "cypress"}
    | {"testdata", "benches"}
)
"""Everything in these is of the tests, golden data too."""
# "app/src/integrationTest/java/A.java", "t/lib/Prices.pm"
OF_TESTS_PATTERN = r"(?:^|/)src/(?:it|integrationTest|androidTest)/|^t/"
# "app/src/main/java/ATest.java": what is there is never run as a test
MAIN_PATTERN = r"(?:^|/)src/main/"
# "packages/a/tests/b.rs": cargo runs what lies in the folder itself
CARGO_PATTERN = r"(?:^|/)(?:tests|benches)/[^/]+\.rs\Z"
# "a/__tests__/b/c.tsx", "test/b.mjs": jest looks into the one, node and mocha into the other
SCRIPTS_PATTERN = r"(?:^|/)(?:__tests__|test)/(?:[^/]+/)*+[^/]+\.[cm]?[jt]sx?\Z"

# All of these are of the whole last part of a path.
FOUND_NAMES = (
    # "test_total.py", "total_test.py", "tests.py"
    r"test_.+\.py",
    r".+_test\.py",
    r"tests?\.py",
    # "total.test.ts", "login.cy.js", "test.mjs"
    r".+\.(?:test|spec|cy|e2e)\.[cm]?[jt]sx?",
    r"(?:test|spec)\.[cm]?[jt]sx?",
    # "total_test.go"
    r".+_test\.go",
    # "tests.rs"
    r"tests?\.rs",
    # "TotalTest.java", "OrderIT.kt", "TestTotal.java"
    r".*(?:Test|Tests|TestCase|IT|Spec)\.(?:java|kt|groovy|scala|php|cs|swift)",
    r"Test[A-Z].*\.(?:java|kt)",
    # "basic.t", "prices.bats", "test_total.rb", "total_spec.rb", "total_test.cc"
    r".+\.(?:t|bats)",
    r"test_.+\.rb",
    r".+_(?:test|spec)\.(?:rb|exs|dart|cc|cpp|c|php|lua)",
)
"""By these names the usual runners find tests."""
DOUBTFUL_NAMES = {
    # "testprice.py" for unittest; "testimonials.py" too
    r"test[^_.].*\.py": r"^[ \t]*(?:async )?def test\w*\(",
    # "test-price.js", "price-test.mjs", "price_test.ts" for node
    r"(?:test-.+|.+[-_]test)\.[cm]?[jt]sx?": r"(?<![\w.$])(?:it|test|describe|assert)\b ?[(.`]",
}
"""By these names a runner looks into a file that may be of the product; what a test has in it."""
HELPER_NAMES = (r"conftest\.py", r".+\.snap")
"""These are of the tests, and no tests themselves."""
SETTINGS_NAMES = (
    r"pytest\.ini|\.pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml|noxfile\.py|\.coveragerc",
    r"(?:jest|vite|vitest|playwright|cypress|karma|wdio)\.config\.(?:[cm]?[jt]s|json)",
    r"\.mocharc\..+|\.mocharc|\.nycrc|\.nycrc\.json|package\.json|vitest\.workspace\..+",
    r"Cargo\.toml|nextest\.toml",
    r"pom\.xml|testng\.xml|(?:build|settings)\.gradle(?:\.kts)?",
)
CI_NAMES = (
    r"\.gitlab-ci\.ya?ml|\.travis\.ya?ml|azure-pipelines\.ya?ml|bitbucket-pipelines\.ya?ml",
    r"Jenkinsfile.*|(?:GNUm|[Mm])akefile|.+\.mk|\.?[Jj]ustfile|Taskfile\.ya?ml",
    r"\.pre-commit-config\.ya?ml",
)
# ".github/workflows/test.yml", ".circleci/config.yml"
CI_FOLDERS_PATTERN = r"(?:^|/)\.(?:github/(?:workflows|actions)|gitlab|circleci|buildkite)/"


@dataclass(frozen=True, slots=True)
class Language:
    """How the tests of a language are written."""

    suffixes: tuple[str, ...]
    skips: tuple[str, ...]
    """What keeps a test from running, from counting, or all others from running."""
    assertions: tuple[str, ...]
    cases: tuple[str, ...]
    quiet: str
    """Comments and texts, in which nothing is run. Those in the group `kept` are left in: they
    are looked for only because they may hold what looks like the beginning of a comment."""


# "a # b", 'it\'s', and one that goes on after a backslash at the end of its line
SHORT_TEXTS = r"\"(?:[^\"\\\n]|\\[\s\S])*+\"?|'(?:[^'\\\n]|\\[\s\S])*+'?"
# "// a", "/* a */", and one that is not closed
LONG_COMMENTS = r"/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)"
C_COMMENTS = rf"//[^\n]*|{LONG_COMMENTS}"
# "#!/usr/bin/env node"; a line of JavaScript has four possible ends
SCRIPT_COMMENTS = rf"\A\ufeff?#![^\n{SEPARATORS}]*|//[^\n{SEPARATORS}]*|{LONG_COMMENTS}"
LONG_TEXT = r"\"\"\"(?:[^\"\\]|\\[\s\S]|\"(?!\"\"))*+(?:\"\"\"|\\?\Z)"

PYTHON = Language(
    suffixes=(".py", ".pyi"),
    skips=(
        # "@pytest.mark.skip", "pytestmark = pytest.mark.xfail(strict=False)"
        r"\bpytest\.mark\.(?:skip|skipif|xfail)\b",
        r"@(?:unittest\.)?(?:skip|skipIf|skipUnless|expectedFailure)\b",
        r"\bpytest\.(?:skip|xfail|importorskip)\(",
        r"\bself\.skipTest\(",
        r"\braise (?:unittest\.)?SkipTest\b",
        # "collect_ignore = ['test_a.py']", "collect_ignore_glob"
        r"\bcollect_ignore(?:_glob)?\b",
        r"\bpytest_(?:ignore_collect|collection_modifyitems|runtest_makereport)\b",
        r"(?<![\w-])--(?:ignore|deselect)\b",
        r"\b__test__ {0,4}= {0,4}False\b",
        r"\bpragma: no cover\b",
        r"\b(?:sys\.exit|os\._exit)\(0?\)",
    ),
    assertions=(
        r"^[ \t]*assert\b",
        r"\bself\.assert\w+\(",
        r"\bself\.fail\(",
        r"\bpytest\.(?:raises|warns|approx|fail)\b",
        r"\.assert_(?:called|any|has|not|awaited)\w*\(",
    ),
    cases=(r"^[ \t]*(?:async )?def test\w*\(", r"^[ \t]*class Test\w*"),
    quiet=(
        rf"{LONG_TEXT}|'''(?:[^'\\]|\\[\s\S]|'(?!''))*+(?:'''|\\?\Z)|(?P<kept>{SHORT_TEXTS})|#[^\n]*"
    ),
)
JAVASCRIPT = Language(
    suffixes=(".js", ".jsx", ".ts", ".tsx", ".cjs", ".mjs", ".cts", ".mts"),
    skips=(
        # "it.skip(", "test.concurrent.only(", "test.describe.fixme("
        r"(?<![\w.$])(?:describe|it|test|context|suite)(?:\.\w{1,40}){0,3}"
        r"\.(?:skip|skipIf|todo|fails|fixme|failing|only)\b",
        # "xit(", "xdescribe.each"
        r"(?<![\w.$])x(?:describe|it|test|context)\b(?=[(.`])",
        r"(?<![\w.$])(?:fdescribe|fit)\b(?=[(.`])",
        r"\b(?:this|t)\.skip\(",
        # "test('a', { skip: true }, …)"
        r"\b(?:skip|only|todo): ?true\b",
        r"\btestPathIgnorePatterns\b",
        r"\bpassWithNoTests\b",
        r"\b(?:istanbul|c8|v8) ignore\b",
        r"\bprocess\.exit\(0?\)",
    ),
    assertions=(
        r"(?<![\w.$])expect(?:\.\w{1,40})?\(",
        r"(?<![\w.$])assert(?:\.\w{1,40}){0,3}\(",
        r"\.should\b",
    ),
    cases=(r"(?<![\w.$])(?:it|test)(?:\.\w{1,40}){0,3} ?[(`]",),
    quiet=rf"(?P<kept>{SHORT_TEXTS})|`(?:[^`\\]|\\[\s\S])*+(?:`|\\?\Z)|{SCRIPT_COMMENTS}",
)
GO = Language(
    suffixes=(".go",),
    skips=(
        r"\b[tbf]\.Skip(?:f|Now)?\(",
        r"\btesting\.Short\(\)",
        # "//go:build ignore", "// +build never": it is built only if somebody asks for it
        r"^//go:build\b",
        r"^// ?\+build\b",
        r"\bos\.Exit\(0\)",
    ),
    assertions=(
        r"\b[tb]\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(",
        r"\b(?:assert|require)\.\w+\(",
        r"\bcmp\.Diff\(",
    ),
    cases=(r"^func (?:Test|Benchmark|Fuzz|Example)\w*\(", r"\bt\.Run\("),
    quiet=rf"(?P<kept>{SHORT_TEXTS})|`[^`]*+(?:`|\Z)|{C_COMMENTS}",
)
RUST = Language(
    suffixes=(".rs",),
    skips=(
        r"#!?\[\s{0,9}ignore\b",
        # "#[cfg_attr(miri, ignore)]"
        r"#!?\[\s{0,9}cfg_attr\([^)]{0,200}?\bignore\b",
        r"#\[\s{0,9}should_panic\b",
        # "#[cfg(any())]": never built
        r"#!?\[\s{0,9}cfg\((?:any\(\)|false|FALSE)\)",
        r"\bprocess::exit\(0\)",
    ),
    assertions=(
        r"\b(?:debug_)?assert(?:_eq|_ne|_matches)?! ?[(\[{]",
        r"\bprop_assert\w*!",
        r"\binsta::assert\w*!",
    ),
    cases=(r"#\[\s{0,9}(?:\w{1,40}::)?test\b", r"#\[\s{0,9}(?:rstest|test_case)\b"),
    quiet=rf"(?P<kept>{SHORT_TEXTS})|{C_COMMENTS}",
)
JAVA = Language(
    suffixes=(".java", ".kt", ".kts", ".groovy", ".scala"),
    skips=(
        r"@(?:Disabled|Ignore|IgnoreIf|IgnoreRest|DisabledIf\w*|DisabledOn\w*|EnabledIf\w*)\b",
        r"\benabled {0,4}= {0,4}false\b",
        r"\bassume(?:True|False|That|NotNull|NoException)\w*\(",
        r"<skip(?:Tests|ITs)?>\s{0,9}true",
        r"-DskipTests\b",
        r"maven\.test\.skip\b",
        r"(?<![\w/])testFailureIgnore\b",
        r"\bignoreFailures {0,4}= {0,4}true\b",
        r"\b(?:System\.exit|exitProcess)\(0\)",
    ),
    assertions=(
        r"\bassert(?:That|Equals|NotEquals|True|False|Null|NotNull|Same|NotSame|Throws|All|Timeout"
        r"|Iterable|Lines|Array|Instance|DoesNot|Fails|Is|Contains|Content)\w*\(",
        r"\bfail\(",
        r"\bverify\w*\(",
    ),
    cases=(r"@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|TestTemplate)\b",),
    quiet=rf"{LONG_TEXT}|(?P<kept>{SHORT_TEXTS})|{C_COMMENTS}",
)
LANGUAGES = (PYTHON, JAVASCRIPT, GO, RUST, JAVA)

SETTINGS_SKIPS = (
    # "pytest || true", "run: exit 0"
    r"\|\| ?(?:true|:|exit 0)(?!\w)",
    r"\bexit 0\b",
    r"\b(?:continue-on-error|allow_failure): ?true\b",
    r"\bif: ?(?:false\b|\$\{\{ ?false ?\}\})",
    # "pytest -k 'not slow'", "go test -short", "cargo test -- --skip slow", "gradle build -x test"
    r"(?<![\w-])-[km][ =][\"']?not\b",
    r"(?<![\w-])-(?:short|skip)\b",
    r"(?<![\w-])--(?:skip|no-run)\b",
    r"(?<![\w-])-x test\b",
    # "[lib] test = false", "[[test]] harness = false"
    r"\b(?:test|autotests|harness|doctest) {0,4}= {0,4}false\b",
)
"""What narrows the tests in a settings or CI file, besides the marks of all languages."""


def language_of(path: str) -> Language | None:
    """Return the language that a file is written in, if its tests can be read."""
    return next((known for known in LANGUAGES if path.endswith(known.suffixes)), None)


def marks_of(patterns: Sequence[str], text: str) -> list[str]:
    """Return what in a text matches one of some patterns, each place once.

    >>> marks_of(PYTHON.skips, "@pytest.mark.skip\\ndef test_a(): pytest.skip('b')")
    ['pytest.mark.skip', 'pytest.skip(']
    """
    if not patterns:
        return []
    found = re.finditer("|".join(f"(?:{pattern})" for pattern in patterns), text, re.MULTILINE)
    return [mark[0] for mark in found]


def spoken_part(text: str, language: Language) -> str:
    """Return a text without comments and without texts of several lines."""
    return re.sub(language.quiet, lambda found: found["kept"] or found[0][0], text)


def is_found(path: str) -> bool:
    """Would a usual test runner find tests in a file, by its path?"""
    name = path.rpartition("/")[2]
    if re.search(CARGO_PATTERN, path) or re.search(SCRIPTS_PATTERN, path):
        return True
    return is_named(name, FOUND_NAMES) and not re.search(MAIN_PATTERN, path)


def is_doubtful(path: str) -> bool:
    """May a runner find tests in a file, or something else?"""
    return not is_found(path) and is_named(path.rpartition("/")[2], tuple(DOUBTFUL_NAMES))


def holds_tests(path: str, text: str | None) -> bool:
    """Would a usual test runner find tests in a file, by its path or else by its text?"""
    if is_found(path):
        return True
    name, language = path.rpartition("/")[2], language_of(path)
    marks = [mark for named, mark in DOUBTFUL_NAMES.items() if is_named(name, (named,))]
    return language is not None and bool(marks_of(marks, spoken_part(text or "", language)))


def is_named(name: str, patterns: Sequence[str]) -> bool:
    """Is this a whole name of one of some kinds?"""
    return any(re.fullmatch(pattern, name, re.DOTALL) for pattern in patterns)


MOST_WORDS = 500
# "-v", "--failfast": what follows is no value of these
FLAG_PATTERN = r"-[vqfbcmBS]+|--(?:verbose|quiet|failfast|catch|buffer|locals)"
MODULE_PATTERN = r"[A-Za-z_]\w*(?:\.\w+)*"
# "check_*.py", but not "*.py"
GLOB_PATTERN = r"(?:.*/)?(?=[^/]*[*?\[])(?!\*+(?:\.\w+)?\Z)[^/]+"


def named_files(command: str, files: Collection[str], folder: str = "") -> frozenset[str]:
    """Return those of a project's files that a command names which is run in a folder of it."""
    known = frozenset(files)
    folders = {above for path in known for above in _above(path)}
    words = _words(command)[:MOST_WORDS]
    values = [value for word in words for value in _values(word)]
    places = [folder, *(_joined(folder, value) for value in values)]
    below = [place for place in dict.fromkeys(places) if not place or place in folders]
    found = {_joined(place, name) for place in below for name in values} & known
    names = {posixpath.basename(path) for path in found}
    modules = list(_module_files(words, names))
    found |= {_joined(place, name) for place in below for name in modules} & known
    globs = [value for value in values if re.fullmatch(GLOB_PATTERN, value)]
    return frozenset(found | {path for path in known for glob in globs if _fits(path, glob)})


def _words(command: str) -> list[str]:
    """Split a command as a shell does, operators too, and what is quoted in it for another one."""
    try:
        reader = shlex.shlex(command, posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        reader.commenters = ""
        words = list(reader)
    except ValueError:
        words = command.split()
    return [part for word in words for part in (word.split() if " " in word else [word])]


def _values(word: str) -> Iterator[str]:
    """Yield what in a word may be a path: `--file=a`, `a::test`, `$PWD/a`."""
    for part in dict.fromkeys((word, word.partition("=")[2])):
        path = part.partition("::")[0].removeprefix("$PWD").removeprefix("${PWD}").strip("/")
        if path:
            yield path


def _module_files(words: Sequence[str], names: Collection[str]) -> Iterator[str]:
    """Yield the files of the modules that a command may name: `checks.price`, but no file's."""
    for before, word in zip(["", *words], words, strict=False):
        is_value = before.startswith("-") and not re.fullmatch(FLAG_PATTERN, before)
        if is_value or word in names or not re.fullmatch(MODULE_PATTERN, word):
            continue
        parts = word.split(".")
        for length in range(1, len(parts) + 1):
            path = "/".join(parts[:length])
            yield from (f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py")


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def _joined(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path))


def _fits(path: str, glob: str) -> bool:
    return fnmatchcase(path, glob) or fnmatchcase(posixpath.basename(path), glob)
