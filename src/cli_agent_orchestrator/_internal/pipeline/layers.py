"""What of two states of a project is laid over the other, so that its gates can tell them apart.

Over the result: all that is of the tests as it was before the run, so that nothing was bought by
changing it. Over the base: the tests that the run made or changed, so that they are seen to fail.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cli_agent_orchestrator._internal.caches import is_left_behind
from cli_agent_orchestrator._internal.pipeline import suites
from cli_agent_orchestrator._internal.pipeline.kinds import (
    SOURCE_SUFFIXES,
    Kinds,
    PathKind,
)

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
