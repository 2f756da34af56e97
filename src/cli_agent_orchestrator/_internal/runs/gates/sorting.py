"""Finds out what the files of a run are for, by their texts where their paths do not say it."""

from collections.abc import Sequence
from dataclasses import dataclass

from cli_agent_orchestrator._internal.pipeline import suites
from cli_agent_orchestrator._internal.pipeline.command_words import named_files
from cli_agent_orchestrator._internal.pipeline.kinds import (
    Kinds,
    is_golden,
    kinds_of_named,
    may_be_data,
)
from cli_agent_orchestrator._internal.runs.work.work_folder import WorkFolder
from cli_agent_orchestrator._internal.workspace.changes import Change

LARGEST_FILE = 1024 * 1024
"""Bytes of a file that is looked into."""
MOST_FILES = 2000
"""Changed files that are looked into."""
MOST_DATA = 100
"""Changed files of data whose names are looked for in the tests."""


@dataclass(frozen=True, slots=True)
class Sorter:
    """Looks into the snapshots of a run."""

    work: WorkFolder
    commands: tuple[str, ...]
    """Of the gates."""

    def kinds(self, old: str, new: str, changes: Sequence[Change]) -> Kinds:
        """Return what the files are for that are different between two commits."""
        before = [c.old_path for c in changes if c.status != "A"]
        after = [c.path for c in changes if c.status != "D"]
        sides = [(old, path) for path in before] + [(new, path) for path in after]
        doubtful = [(commit, path) for commit, path in sides if suites.is_doubtful(path)]
        tests = frozenset(
            path
            for commit, path in doubtful[:MOST_FILES]
            if suites.holds_tests(path, self.text(commit, path))
        )
        named = self._named(old) & frozenset(before)
        golden = self._golden(old, [path for path in before if path not in named])
        return kinds_of_named({path: self.text(old, path) for path in named}, tests | golden)

    def text(self, commit: str, path: str) -> str | None:
        """Return the text of a file; None if it has none that can be looked into."""
        data = self.work.read(commit, path, LARGEST_FILE + 1)
        if data is None or len(data) > LARGEST_FILE or b"\0" in data:
            return None
        return data.decode(errors="replace")

    def _golden(self, commit: str, changed: Sequence[str]) -> frozenset[str]:
        """Return what of the changed files is data with which tests compare."""
        data = [path for path in changed if may_be_data(path)][:MOST_DATA]
        return frozenset(path for path in data if is_golden(self._mentioning(commit, path)))

    def _mentioning(self, commit: str, path: str) -> tuple[str, ...]:
        return self.work.mentioning(commit, path.rpartition("/")[2], LARGEST_FILE)

    def _named(self, commit: str) -> frozenset[str]:
        """Return the files of a commit that gates name in their commands."""
        files = self.work.files(commit)
        found = [named_files(command, files, self.work.prefix) for command in self.commands]
        return frozenset().union(*found)
