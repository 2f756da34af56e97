"""What the files of a project are for: by their paths, and by what else is known of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ..core.files import is_left_behind
from . import suites

SOURCE_SUFFIXES = (
    *(suffix for language in suites.LANGUAGES for suffix in language.suffixes),
    *(".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".swift", ".m", ".rb", ".php", ".pl", ".pm"),
    *(".lua", ".ex", ".exs", ".erl", ".hs", ".ml", ".clj", ".dart", ".r", ".jl", ".zig", ".nim"),
    *(".sh", ".bash", ".zsh", ".ps1", ".sql", ".css", ".scss", ".vue", ".svelte", ".proto"),
)
# "README.md", "LICENSE": tests may look at these, and they are there for readers
FOR_READERS_PATTERN = (
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


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of files in one project."""

    tests: frozenset[str] = frozenset()
    """Files of the tests whose paths do not say so."""
    named: frozenset[str] = frozenset()
    """Files that the command of a gate names; they have a say in what it runs."""

    def of(self, path: str) -> PathKind:
        """Return what a file is for."""
        by_path = kind_of(path)
        if by_path is not PathKind.OTHER:
            return by_path
        if path in self.tests:
            return PathKind.TEST
        return PathKind.SETTINGS if path in self.named else PathKind.OTHER

    @property
    def scripts(self) -> frozenset[str]:
        """Those that are named and can be put back, as they are neither product nor manifest.

        Source code may be what is tested: `mypy price.py && pytest`.
        """
        kept = (path for path in self.named if kind_of(path) is not PathKind.SETTINGS)
        return frozenset(path for path in kept if suites.language_of(path) is None)


BY_PATH = Kinds()


def kinds_of_named(texts: Mapping[str, str | None], tests: frozenset[str] = frozenset()) -> Kinds:
    """Return the kinds of files with what gates name: tests, where their texts say so."""
    found = {path for path, text in texts.items() if _asserts(path, text or "")}
    return Kinds(tests | found, frozenset(texts) - found)


def _asserts(path: str, text: str) -> bool:
    """Are there tests in a source file?"""
    language = suites.language_of(path)
    if language is None:
        return False
    spoken = suites.spoken_part(text, language)
    return bool(suites.marks_of((*language.cases, *language.assertions), spoken))


def kind_of(path: str) -> PathKind:
    """Return what a path alone says; it has slashes and begins in the project."""
    *folders, name = path.split("/")
    if suites.is_named(name, suites.SETTINGS_NAMES):
        return PathKind.SETTINGS
    if suites.is_named(name, suites.CI_NAMES) or re.search(suites.CI_FOLDERS_PATTERN, path):
        return PathKind.CI
    if not suites.FOLDERS.isdisjoint(folders) or re.search(suites.OF_TESTS_PATTERN, path):
        return PathKind.TEST
    named = suites.is_named(name, (*suites.FOUND_NAMES, *suites.HELPER_NAMES))
    return PathKind.TEST if named else PathKind.OTHER


def may_be_data(path: str) -> bool:
    """Is a file neither source code nor anything that its path tells of?"""
    name = path.rpartition("/")[2]
    is_text = re.fullmatch(FOR_READERS_PATTERN, name, re.DOTALL) is not None
    is_known = is_text or len(name) < SHORTEST_NAME or name.lower().endswith(SOURCE_SUFFIXES)
    return kind_of(path) is PathKind.OTHER and not is_known


def is_golden(mentioned_in: Sequence[str]) -> bool:
    """Is data of the tests, by the files in which its name stands?"""
    kinds = {path: kind_of(path) for path in mentioned_in}
    is_product = any(
        kind is PathKind.OTHER and path.endswith(SOURCE_SUFFIXES) for path, kind in kinds.items()
    )
    return PathKind.TEST in kinds.values() and not is_product


EMPTY_SUFFIXES = (*suites.PYTHON.suffixes, *suites.JAVASCRIPT.suffixes, ".rb")
"""Of languages in which a file may have nothing in it."""
# Without its text nothing can be installed.
NEVER_EMPTY = "setup.py"


class Changed(Protocol):
    """A file that is different."""

    @property
    def path(self) -> str: ...
    @property
    def old_path(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def is_repository(self) -> bool: ...


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


def layers_of(changes: Sequence[Changed], kinds: Kinds) -> Layers:
    """Return what is different between two states of a project."""
    tests = {p for c in changes for p in (c.path, c.old_path) if kinds.of(p) is PathKind.TEST}
    added = [c.path for c in changes if c.status in "AR" and c.path in tests]
    before = [c.old_path for c in changes if c.status != "A"]
    return Layers(
        new_tests=tuple(c.path for c in changes if c.status != "D" and c.path in tests),
        old_tests=tuple(path for path in before if path in tests),
        added=tuple(path for path in added if path in kinds.tests or _has_a_say(path)),
        scripts=tuple(path for path in before if path in kinds.scripts and path not in tests),
        new_sources=tuple(
            c.path for c in changes if c.status in "AR" and _is_new_source(c.path, kinds)
        ),
        product=tuple(sorted(_product(changes, kinds), key=_is_no_source)),
        is_untouched=all(is_left_behind(c.path) for c in changes),
    )


def _has_a_say(path: str) -> bool:
    """Does a file of tests decide which are run, or what becomes of them?"""
    name = path.rpartition("/")[2]
    is_helper = name == "__init__.py" or suites.is_named(name, suites.HELPER_NAMES)
    return is_helper or suites.is_found(path)


def _is_new_source(path: str, kinds: Kinds) -> bool:
    is_product = kinds.of(path) is PathKind.OTHER and not is_left_behind(path)
    return is_product and path.endswith(EMPTY_SUFFIXES) and path != NEVER_EMPTY


def _product(changes: Sequence[Changed], kinds: Kinds) -> list[str]:
    files = [c.path for c in changes if not c.is_repository]
    others = [path for path in files if kinds.of(path) is PathKind.OTHER]
    return [path for path in others if not is_left_behind(path)]


def _is_no_source(path: str) -> bool:
    return not path.endswith(SOURCE_SUFFIXES)
