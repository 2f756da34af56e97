"""Finds out what the work of a run is worth: its tests on the base, the base's tests on it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cli_agent_orchestrator.gates import Gate
from cli_agent_orchestrator.pipeline.check import BaseResult, judge_check
from cli_agent_orchestrator.pipeline.proof import GateProof, Proof
from cli_agent_orchestrator.pipeline.tampering import (
    FileChange,
    PathKind,
    find_tampering,
    kind_of,
)
from cli_agent_orchestrator.runs.checking import Checker, GatePlace
from cli_agent_orchestrator.runs.work_folder import WorkFolder
from cli_agent_orchestrator.workspace.changes import Change
from cli_agent_orchestrator.workspace.snapshots import Snapshots

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
        new_tests = tuple(c.path for c in changes if c.status != "D" and _is_test(c.path))
        old_tests = [c.old_path for c in changes if c.status != "A" and _is_test(c.old_path)]
        found = []
        for gate in gates:
            if passed.get(gate.name, BaseResult(None)).run < 0:
                continue
            name = f"{log_name}-{gate.name}"
            with self._work.laid_out(now.commit, start.commit, old_tests) as folder:
                place = replace(self._place, folder=folder)
                on_result = self._checker.run_fresh(gate, place, f"{name}-result")
            on_base = None
            if new_tests:
                with self._work.laid_out(start.commit, now.commit, new_tests) as folder:
                    place = replace(self._place, folder=folder)
                    on_base = self._checker.run_fresh(gate, place, f"{name}-base")
            before = base.get(gate.name)
            turned = set(before.failures if before else ()) - set(passed[gate.name].failures)
            found.append(
                GateProof(
                    gate=gate.name,
                    on_result=judge_check(
                        on_result, before, allow_base_failures=gate.allow_base_failures
                    ),
                    on_base=on_base,
                    turned=tuple(sorted(turned)),
                )
            )
        looked_into = [
            _file_change(snapshots, start.commit, now.commit, change)
            for change in changes[:MOST_FILES]
            if _matters(change)
        ]
        return Proof(tuple(found), new_tests, find_tampering(looked_into))


def _matters(change: Change) -> bool:
    """Can a change be one to tests? In Rust, any source file has its own."""
    paths = (change.path, change.old_path)
    return any(kind_of(path) is not PathKind.OTHER or path.endswith(".rs") for path in paths)


def _is_test(path: str) -> bool:
    return kind_of(path) is PathKind.TEST


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
