"""Finds out what the work of a run is worth: its tests on the base, the base's tests on it."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cli_agent_orchestrator._internal.gates import Gate
from cli_agent_orchestrator._internal.pipeline import suites
from cli_agent_orchestrator._internal.pipeline.canary import Canaries, add_canaries, candidates
from cli_agent_orchestrator._internal.pipeline.check import BaseResult, CheckResult, judge_check
from cli_agent_orchestrator._internal.pipeline.kinds import Kinds, PathKind
from cli_agent_orchestrator._internal.pipeline.proof import GateProof, Proof
from cli_agent_orchestrator._internal.pipeline.tampering import (
    FileChange,
    Suspicion,
    Trick,
    find_tampering,
)
from cli_agent_orchestrator._internal.runs.checking import Checker, GatePlace
from cli_agent_orchestrator._internal.runs.work_folder import WorkFolder
from cli_agent_orchestrator._internal.workspace.changes import Change
from cli_agent_orchestrator._internal.workspace.snapshots import Snapshots
from cli_agent_orchestrator.errors import GitError

LARGEST_FILE = 1024 * 1024
"""Bytes of a file that is looked into."""
MOST_FILES = 2000
"""Changed files that are looked into."""


class Prover:
    """Lays tests of one snapshot over another one, and runs the gates there."""

    def __init__(self, checker: Checker, place: GatePlace, work: WorkFolder) -> None:
        self._checker = checker
        self._place = place
        self._work = work

    def prove(
        self,
        gates: Sequence[Gate],
        base: Mapping[str, BaseResult],
        passed: Mapping[str, BaseResult],
        log_name: str,
    ) -> Proof:
        """Return what can be proven by those gates that count their tests."""
        snapshots, now = self._work.snapshots, self._work.now
        if snapshots is None or now is None:
            return Proof()
        start = snapshots.all()[0]
        changes = snapshots.changes(start.commit, now.commit)
        kinds = _kinds(snapshots, start.commit, now.commit, changes)
        trees = _trees(start.commit, now.commit, changes, kinds)
        canaries = _canaries(snapshots, start.commit)
        found = []
        for gate in gates:
            if passed.get(gate.name, BaseResult(None)).run < 0:
                continue
            name, before = f"{log_name}-{gate.name}", base.get(gate.name)
            old_tests = trees.tests_as_before(before)
            on_result = judge_check(
                self._run(gate, f"{name}-result", _Layout(trees.now, trees.start, old_tests)),
                before,
                allow_base_failures=gate.allow_base_failures,
            )
            on_base = None
            if trees.new_tests:
                over = _Layout(trees.start, trees.now, trees.new_tests)
                on_base = self._run(gate, f"{name}-base", over)
            turned = set(before.failures if before else ()) - set(passed[gate.name].failures)
            is_deaf = on_result.passed and self._is_deaf(gate, name, trees, old_tests, canaries)
            found.append(
                GateProof(gate.name, on_result, on_base, tuple(sorted(turned)), is_deaf=is_deaf)
            )
        suspicions = _suspicions(snapshots, start.commit, now.commit)
        if self._work.head:
            # An earlier run may have left them, or the user.
            suspicions += self._suspicions_before(snapshots, start.commit)
        return Proof(tuple(found), trees.new_tests, suspicions)

    def _suspicions_before(self, snapshots: Snapshots, start: str) -> tuple[Suspicion, ...]:
        try:
            found = _suspicions(snapshots, self._work.head, start)
        except GitError:
            unreadable = "what was committed before the run can not be read any more"
            return (Suspicion(".git", Trick.DELETED, unreadable),)
        return tuple(
            replace(one, detail=f"{one.detail}, before the run and not committed") for one in found
        )

    def _is_deaf(
        self, gate: Gate, name: str, trees: "_Trees", tests: Sequence[str], canaries: Canaries
    ) -> bool:
        """Does a gate miss failures on the result that it notices on the base?"""
        if not canaries.count:
            return False
        label, layout = f"{name}-must-fail", _Layout(trees.now, trees.start, tests, canaries.texts)
        on_result = canaries.heard_by(self._run(gate, label, layout).counts)
        if len(on_result) == canaries.count:
            return False
        layout = replace(layout, commit=trees.start)
        on_base = canaries.heard_by(self._run(gate, f"{label}-base", layout).counts)
        return bool(on_base - on_result)

    def _run(self, gate: Gate, log_name: str, layout: "_Layout") -> CheckResult:
        with self._work.laid_out(layout.commit, layout.over, layout.paths, layout.texts) as folder:
            return self._checker.run_fresh(gate, replace(self._place, folder=folder), log_name)


@dataclass(frozen=True, slots=True)
class _Layout:
    """A fresh checkout: a commit, with some paths of another one, and other texts in some files."""

    commit: str
    over: str
    paths: Sequence[str]
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Trees:
    """The project before the run and now, and what is different of its tests."""

    start: str
    now: str
    new_tests: tuple[str, ...]
    """Made or changed by the run."""
    old_tests: tuple[str, ...]
    """Those of before that are different now."""
    added: tuple[str, ...]
    """New files that have a say in which tests are run, and how."""

    def tests_as_before(self, before: BaseResult | None) -> tuple[str, ...]:
        """Return what is to be as it was, so that the tests are the base's.

        New ones stay where there were none: else there would be nothing to run.
        """
        had_tests = before is not None and before.run > 0
        return (*self.old_tests, *self.added) if had_tests else self.old_tests


def _kinds(snapshots: Snapshots, old: str, new: str, changes: Sequence[Change]) -> Kinds:
    """Return what the files are for that are different, by their texts where need be."""
    sides = [(old, c.old_path) for c in changes if c.status != "A"]
    sides += [(new, c.path) for c in changes if c.status != "D"]
    doubtful = [(commit, path) for commit, path in sides if suites.is_doubtful(path)]
    return Kinds(
        frozenset(
            path
            for commit, path in doubtful[:MOST_FILES]
            if suites.holds_tests(path, _text(snapshots, commit, path))
        )
    )


def _trees(start: str, now: str, changes: Sequence[Change], kinds: Kinds) -> _Trees:
    tests = {p for c in changes for p in (c.path, c.old_path) if kinds.of(p) is PathKind.TEST}
    added = [c.path for c in changes if c.status in "AR" and c.path in tests]
    return _Trees(
        start,
        now,
        new_tests=tuple(c.path for c in changes if c.status != "D" and c.path in tests),
        old_tests=tuple(c.old_path for c in changes if c.status != "A" and c.old_path in tests),
        added=tuple(path for path in added if path in kinds.tests or _has_a_say(path)),
    )


def _canaries(snapshots: Snapshots, commit: str) -> Canaries:
    """Return files of tests with some more that must fail."""
    texts = {path: _text(snapshots, commit, path) for path in candidates(snapshots.files(commit))}
    known = {path: text for path, text in texts.items() if text is not None}
    return add_canaries(known, f"cao{secrets.token_hex(6)}")


def _has_a_say(path: str) -> bool:
    """Does a file of tests decide which are run, or what becomes of them?"""
    name = path.rpartition("/")[2]
    is_helper = name == "__init__.py" or suites.is_named(name, suites.HELPER_NAMES)
    return is_helper or suites.is_found(path)


def _suspicions(snapshots: Snapshots, old: str, new: str) -> tuple[Suspicion, ...]:
    """Return what was done to tests between two commits."""
    changes = snapshots.changes(old, new)
    kinds = _kinds(snapshots, old, new, changes)
    matter = [change for change in changes if _matters(change, kinds)][:MOST_FILES]
    return find_tampering([_file_change(snapshots, old, new, c) for c in matter], kinds)


def _matters(change: Change, kinds: Kinds) -> bool:
    """Can a change be one to tests? In Rust, any source file has its own."""
    paths = (change.path, change.old_path)
    return any(kinds.of(path) is not PathKind.OTHER or path.endswith(".rs") for path in paths)


def _file_change(snapshots: Snapshots, old: str, new: str, change: Change) -> FileChange:
    """Return a change with the texts before and after it."""
    return FileChange(
        path=change.path,
        old_path=change.old_path,
        status=change.status,
        old_mode=change.old_mode,
        new_mode=change.new_mode,
        old=_text(snapshots, old, change.old_path) if change.status != "A" else None,
        new=_text(snapshots, new, change.path) if change.status != "D" else None,
    )


def _text(snapshots: Snapshots, commit: str, path: str) -> str | None:
    data = snapshots.read(commit, path, LARGEST_FILE + 1)
    if data is None or len(data) > LARGEST_FILE or b"\0" in data:
        return None
    return data.decode(errors="replace")
