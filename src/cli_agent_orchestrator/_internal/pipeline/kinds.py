"""What the files of a project are for: by their paths, and by what else is known of them."""

import re
from dataclasses import dataclass
from enum import StrEnum

from cli_agent_orchestrator._internal.pipeline import suites


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

    def of(self, path: str) -> PathKind:
        """Return what a file is for."""
        by_path = kind_of(path)
        if by_path is PathKind.OTHER and path in self.tests:
            return PathKind.TEST
        return by_path


BY_PATH = Kinds()


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
