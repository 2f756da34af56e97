"""Finds out what the work of a run is worth: its tests on the base, the base's tests on it."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..core.files import cache_of
from ..errors import GitError
from ..gates.check import BaseResult, CheckResult, judge_check
from ..gates.checking import Checker, GatePlace
from ..gates.counts import TestCounts
from ..settings.gates import Gate
from ..work.changes import Change
from ..work.folder import WorkFolder
from ..work.snapshots import Snapshots
from .canary import ALL_HEARD, Canaries, add_canaries, candidates, judge_canaries
from .languages import language_of
from .suites import (
    Kinds,
    Layers,
    PathKind,
    holds_tests,
    is_doubtful,
    is_golden,
    kinds_of_named,
    layers_of,
    may_be_data,
    named_files,
)
from .tampering import ChangedFile, Suspicion, Trick, find_tampering
from .verdict import MOST_LISTED, GateProof, Proof, is_red, still_failing

LARGEST_FILE = 1024 * 1024
"""Bytes of a file that is looked into."""
MOST_FILES = 2000
"""Changed files that are looked into."""
MOST_DATA = 100
"""Changed files of data whose names are looked for in the tests."""


class Prover:
    """Lays tests of one snapshot over another one, and runs the gates there."""

    def __init__(
        self, checker: Checker, place: GatePlace, work: WorkFolder, most_files: int = MOST_FILES
    ) -> None:
        self._checker = checker
        self._place = place
        self._work = work
        self._most_files = most_files

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
            return Proof(no_snapshots=self._work.why_no_snapshots)
        start, end = snapshots.all()[0].tree, now.tree
        commands = [gate.run for gate in gates]
        changes = snapshots.changes(start, end)
        kinds = self._kinds(start, end, changes, commands)
        layers = layers_of(changes, kinds)
        suspicions = self._suspicions(start, end, changes, kinds)
        before: tuple[Suspicion, ...] = ()
        if snapshots.base:
            # Done by an earlier run, or the user.
            try:
                older = snapshots.changes(snapshots.base, start)
                known = self._kinds(snapshots.base, start, older, commands)
                before = self._suspicions(snapshots.base, start, older, known)
            except GitError:
                why = "what was committed before the run can not be read any more"
                before = (Suspicion(".git", Trick.DELETED, why),)
        texts = {path: self._text(start, path) for path in candidates(self._work.files(start))}
        canaries = add_canaries(
            {path: text for path, text in texts.items() if text is not None}, secrets.choice
        )
        trees = _Trees(start, end, layers)
        found = tuple(
            self._prove_by(gate, trees, base.get(gate.name), passed[gate.name], canaries, log_name)
            for gate in gates
            if passed.get(gate.name, BaseResult(None)).run >= 0
        )
        return Proof(
            found,
            layers.new_tests,
            suspicions,
            layers.product,
            layers.is_untouched,
            before,
            tuple(_patches(snapshots, trees, changes, suspicions)),
            left_behind=tuple(sorted({*map(cache_of, self._work.left_behind(end))})),
        )

    def _prove_by(
        self,
        gate: Gate,
        trees: "_Trees",
        base: BaseResult | None,
        passed: BaseResult,
        canaries: Canaries,
        log_name: str,
    ) -> GateProof:
        """Return the results of one gate on the base and on the result, in fresh checkouts."""
        start, end, layers = trees.start, trees.end, trees.layers
        failed_before = base.failures if base else ()
        turned = tuple(sorted(set(failed_before) - set(passed.failures)))
        old_tests = layers.over_result(had_tests=base is not None and base.run > 0)

        def run(
            label: str,
            commit: str,
            over: str = "",
            paths: Sequence[str] = (),
            texts: Mapping[str, str] | None = None,
        ) -> CheckResult:
            """Run the gate on a commit with paths of another one, and other texts in some files."""
            with self._work.laid_out(commit, over, paths, texts) as folder:
                place = replace(self._place, folder=folder)
                return self._checker.run_fresh(gate, place, f"{log_name}-{gate.name}-{label}")

        def judge(result: CheckResult) -> CheckResult:
            return judge_check(result, base, allow_base_failures=gate.allow_base_failures)

        on_result = judge(run("result", end, start, old_tests))
        on_base: CheckResult | None = None
        emptied: tuple[str, ...] = ()
        if own_tests := layers.over_base:
            on_base = run("base", start, end, own_tests)
            if layers.new_sources and is_red(on_base, len(failed_before)):
                # They may be in the way of others: what counts must fail without them, too.
                emptied = layers.new_sources
                empty = dict.fromkeys(emptied, "")
                on_base = run("base-empty", start, end, own_tests, empty)
        still: tuple[str, ...] = ()
        if turned:
            tells = on_base is not None and is_red(on_base, 0)
            again = on_base if on_base is not None and tells else run("again", start)
            still = still_failing(turned, again.counts, passed.failures)
        heard = ALL_HEARD
        if on_result.passed and canaries.names:

            def run_canaries(label: str, commit: str) -> TestCounts | None:
                return run(label, commit, start, old_tests, canaries.texts).counts

            heard = judge_canaries(
                canaries,
                run_canaries("must-fail", end),
                lambda: run_canaries("must-fail-base", start),
                turned=turned,
                failing=passed.failures,
            )
        found = GateProof(
            gate.name,
            on_result,
            on_base,
            still,
            () if still else turned,
            emptied,
            heard,
            len(failed_before),
            -1 if base is not None and base.run >= 0 else passed.run,
        )
        if found.fault or not old_tests or gate.clean or self._work.holds_back:
            return found
        # In the work folder its new tests may have passed by files that no commit has.
        return replace(found, as_it_is=judge(run("as-it-is", end)))

    def _kinds(
        self, old: str, new: str, changes: Sequence[Change], commands: Sequence[str]
    ) -> Kinds:
        """Return what the files are for that are different between two commits."""
        before = [c.old_path for c in changes if c.status != "A"]
        after = [c.path for c in changes if c.status != "D"]
        sides = [(old, path) for path in before] + [(new, path) for path in after]
        doubtful = [(commit, path) for commit, path in sides if is_doubtful(path)]
        tests = {
            path
            for commit, path in doubtful[:MOST_FILES]
            if holds_tests(path, self._text(commit, path))
        }
        files = self._work.files(old)
        named: set[str] = set()
        for command in commands:
            named |= named_files(command, files, self._work.prefix).intersection(before)
        data = [path for path in before if path not in named and may_be_data(path)]
        tests |= {path for path in data[:MOST_DATA] if is_golden(self._mentioning(old, path))}
        return kinds_of_named({path: self._text(old, path) for path in named}, frozenset(tests))

    def _mentioning(self, commit: str, path: str) -> tuple[str, ...]:
        return self._work.mentioning(commit, path.rpartition("/")[2], LARGEST_FILE)

    def _text(self, commit: str, path: str) -> str | None:
        """Return the text of a file; None if it has none that can be read."""
        data = self._work.read(commit, path, LARGEST_FILE + 1)
        if data is None or len(data) > LARGEST_FILE or b"\0" in data:
            return None
        return data.decode(errors="replace")

    def _suspicions(
        self, old: str, new: str, changes: Sequence[Change], kinds: Kinds
    ) -> tuple[Suspicion, ...]:
        """Return what was done to tests between two commits, or what reaches into them."""
        matter = [
            change
            for change in changes
            for paths in [(change.path, change.old_path)]
            if any(kinds.of(path) is not PathKind.OTHER or language_of(path) for path in paths)
        ]
        # The tests first: not all may be looked into.
        matter.sort(key=lambda one: kinds.of(one.old_path) is PathKind.OTHER)
        read = [
            ChangedFile(
                path=one.path,
                old_path=one.old_path,
                status=one.status,
                old_mode=one.old_mode,
                new_mode=one.new_mode,
                old=self._text(old, one.old_path) if one.status != "A" else None,
                new=self._text(new, one.path) if one.status != "D" else None,
            )
            for one in matter[: self._most_files]
        ]
        return find_tampering(read, kinds, [one.path for one in matter[self._most_files :]])


@dataclass(frozen=True, slots=True)
class _Trees:
    """The project before the run and now, and what of it is laid over the other."""

    start: str
    end: str
    layers: Layers


def _patches(
    snapshots: Snapshots, trees: _Trees, changes: Sequence[Change], suspicions: Sequence[Suspicion]
) -> Iterator[str]:
    """Yield what the run did to each file that is listed, in the order of the list."""
    by_path = {path: change for change in changes for path in (change.path, change.old_path)}
    listed = (by_path[one.path] for one in suspicions[:MOST_LISTED] if one.path in by_path)
    for change in dict.fromkeys(listed):
        paths = sorted({change.path, change.old_path})
        patch = snapshots.diff(trees.start, trees.end, paths=paths, limit=LARGEST_FILE)
        yield patch.decode(errors="replace")
