"""What belongs to the tests of a project: by the paths of files, their texts, and gates' commands.

Of two states of a project it says what of one is laid over the other, so that the tests are those
of the base or those of the run.
"""

import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from ..core.files import is_left_behind
from ..work.changes import Change
from .languages import JAVASCRIPT, LANGUAGES, PYTHON, language_of, marks_of, spoken_part

FOLDERS = frozenset(
    [
        "test",
        "tests",
        "__tests__",
        "__mocks__",
        "__snapshots__",
        "spec",
        "e2e",
        "cypress",
        "testdata",
        "benches",
    ]
)
"""Everything in these is of the tests, golden data too."""
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
FOUND_NAMES = "|".join(
    (
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
)
"""By these names the usual runners find tests."""
DOUBTFUL_NAMES = {
    # "testprice.py" for unittest; "testimonials.py" too
    r"test[^_.].*\.py": r"^[ \t]*(?:async )?def test\w*\(",
    # "test-price.js", "price-test.mjs", "price_test.ts" for node
    r"(?:test-.+|.+[-_]test)\.[cm]?[jt]sx?": r"(?<![\w.$])(?:it|test|describe|assert)\b ?[(.`]",
}
"""By these names a runner looks into a file that may be of the product; what a test has in it."""
HELPER_NAMES = r"conftest\.py|.+\.snap"
"""These are of the tests, and no tests themselves."""
SETTINGS_NAMES = "|".join(
    (
        r"\.?pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml|noxfile\.py|\.coveragerc",
        r"(?:jest|vite|vitest|playwright|cypress|karma|wdio)\.config\.(?:[cm]?[jt]s|json)",
        r"\.mocharc(?:\..+)?|\.nycrc(?:\.json)?|package\.json|vitest\.workspace\..+",
        r"Cargo\.toml|nextest\.toml|pom\.xml|testng\.xml|(?:build|settings)\.gradle(?:\.kts)?",
    )
)
CI_NAMES = "|".join(
    (
        r"\.gitlab-ci\.ya?ml|\.travis\.ya?ml|azure-pipelines\.ya?ml|bitbucket-pipelines\.ya?ml",
        r"Jenkinsfile.*|(?:GNUm|[Mm])akefile|.+\.mk|\.?[Jj]ustfile|Taskfile\.ya?ml",
        r"\.pre-commit-config\.ya?ml",
    )
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
NEVER_EMPTY = "setup.py"
"""Without its text nothing can be installed."""
# "README.md", "LICENSE": tests may look at these, and they are there for readers
FOR_READERS = (
    r"(?i)(?:readme|changelog|changes|history|licen[cs]e|news|authors|contributing)(?:\..*)?"
)
SHORTEST_NAME = 4
"""Letters of a name that does not stand in a text by accident."""


class PathKind(StrEnum):
    """What a file is for."""

    TEST = "test"
    SETTINGS = "settings"
    CI = "ci"
    OTHER = "other"


def kind_of(path: str) -> PathKind:
    """Return what a path alone says; it has slashes and begins in the project."""
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
    """Would a usual test runner find tests in a file, by its path?"""
    if re.search(FOUND_PATHS, path):
        return True
    return _is_named(path.rpartition("/")[2], FOUND_NAMES) and not re.search(MAIN_PATTERN, path)


def is_doubtful(path: str) -> bool:
    """May a runner find tests in a file, or something else?"""
    return not is_found(path) and _is_named(path.rpartition("/")[2], "|".join(DOUBTFUL_NAMES))


def holds_tests(path: str, text: str | None) -> bool:
    """Would a usual test runner find tests in a file, by its path or else by its text?"""
    if is_found(path):
        return True
    name, language = path.rpartition("/")[2], language_of(path)
    mark = "|".join(mark for names, mark in DOUBTFUL_NAMES.items() if _is_named(name, names))
    return language is not None and bool(marks_of(mark, spoken_part(text or "", language)))


def may_be_data(path: str) -> bool:
    """Is a file neither source code nor anything that its path tells of?"""
    name = path.rpartition("/")[2]
    is_source = name.lower().endswith(SOURCE_SUFFIXES)
    is_known = _is_named(name, FOR_READERS) or len(name) < SHORTEST_NAME or is_source
    return kind_of(path) is PathKind.OTHER and not is_known


def is_golden(mentioned_in: Sequence[str]) -> bool:
    """Is data of the tests, by the files in which its name stands?"""
    sources = [path for path in mentioned_in if path.endswith(SOURCE_SUFFIXES)]
    is_product = PathKind.OTHER in map(kind_of, sources)
    return PathKind.TEST in map(kind_of, mentioned_in) and not is_product


def _is_named(name: str, pattern: str) -> bool:
    return re.fullmatch(pattern, name, re.DOTALL) is not None


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of files in one project."""

    tests: frozenset[str] = frozenset()
    """Files of the tests whose paths do not say so."""
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
    """Return the kinds of files with what gates name: tests, where their texts say so."""
    found = set()
    for path, text in texts.items():
        if language := language_of(path):
            marks = f"{language.cases}|{language.assertions}"
            found |= {path} if marks_of(marks, spoken_part(text or "", language)) else set()
    return Kinds(tests | found, frozenset(texts) - found)


@dataclass(frozen=True, slots=True)
class Layers:
    """What is different of the tests of a project, and of its product."""

    new_tests: tuple[str, ...] = ()
    """Made or changed by the run."""
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
        """Return what is to be as it was, so that the tests are the base's.

        New ones stay where there were none: else there would be nothing to run.
        """
        added = self.added if had_tests else ()
        return (*self.old_tests, *self.scripts, *added)

    @property
    def over_base(self) -> tuple[str, ...]:
        """Return what is to be as it is now, so that the tests are the run's."""
        return (*self.new_tests, *self.scripts) if self.new_tests else ()


def layers_of(changes: Sequence[Change], kinds: Kinds) -> Layers:
    """Return what is different between two states of a project."""
    tests = {p for c in changes for p in (c.path, c.old_path) if kinds.of(p) is PathKind.TEST}
    new = dict.fromkeys(c.path for c in changes if c.status in "AR")
    before = [c.old_path for c in changes if c.status != "A"]
    product = [
        c.path
        for c in changes
        if kinds.of(c.path) is PathKind.OTHER and not is_left_behind(c.path) and not c.is_repository
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
            if path in new and path.endswith(EMPTY_SUFFIXES) and path != NEVER_EMPTY
        ),
        product=tuple(sorted(product, key=lambda path: not path.endswith(SOURCE_SUFFIXES))),
        is_untouched=all(is_left_behind(c.path) for c in changes),
    )


MOST_WORDS = 500
# "-v", "--failfast": what follows is no value of these
FLAG_PATTERN = r"-[vqfbcmBS]+|--(?:verbose|quiet|failfast|catch|buffer|locals)"
MODULE_PATTERN = r"[A-Za-z_]\w*(?:\.\w+)*"
# "check_*.py", but not "*.py"
GLOB_PATTERN = r"(?:.*/)?(?=[^/]*[*?\[])(?!\*+(?:\.\w+)?\Z)[^/]+"


def named_files(command: str, files: Collection[str], folder: str = "") -> frozenset[str]:
    """Return those of a project's files that a command names which is run in a folder of it."""
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
    """Split a command as a shell does, operators too, and what is quoted in it for another one."""
    try:
        reader = shlex.shlex(command, posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        reader.commenters = ""
        words = list(reader)
    except ValueError:
        words = command.split()
    return [part for word in words for part in (word.split() if " " in word else [word])]


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
