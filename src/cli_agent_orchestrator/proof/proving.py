"""Finds out what the work of a run is worth: its tests on the base, the base's tests on it."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..core.files import cache_of
from ..errors import GitError
from ..gates.check import BaseResult, CheckResult, judge_check
from ..gates.checking import Checker, GatePlace
from ..settings.gates import Gate
from ..work.changes import Change
from ..work.folder import WorkFolder
from ..work.snapshots import Snapshots
from . import suites
from .canary import Canaries, Hearing, add_canaries, candidates, compare, hear
from .kinds import Kinds, Layers, PathKind, is_golden, kinds_of_named, layers_of, may_be_data
from .suites import language_of, named_files
from .tampering import ChangedFile, Suspicion, Trick, find_tampering
from .verdict import MOST_LISTED, GateProof, Proof, is_red, still_failing

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
        start = snapshots.all()[0]
        changes = snapshots.changes(start.commit, now.commit)
        sorter = Sorter(self._work, tuple(gate.run for gate in gates))
        kinds = sorter.kinds(start.commit, now.commit, changes)
        layers = layers_of(changes, kinds)
        trees = _Trees(start.commit, now.commit, layers)
        canaries = _canaries(sorter, start.commit)
        found = [
            self._prove_by(
                gate, _Known(base.get(gate.name), passed[gate.name]), trees, canaries, log_name
            )
            for gate in gates
            if passed.get(gate.name, BaseResult(None)).run >= 0
        ]
        suspicions = _suspicions(sorter, start.commit, now.commit, changes, self._most_files)
        return Proof(
            tuple(found),
            layers.new_tests,
            suspicions,
            layers.product,
            layers.is_untouched,
            _suspicions_before(sorter, snapshots, start.commit, self._most_files),
            tuple(_patches(snapshots, trees, changes, suspicions)),
            left_behind=tuple(sorted({*map(cache_of, self._work.left_behind(now.commit))})),
        )

    def _prove_by(
        self, gate: Gate, known: "_Known", trees: "_Trees", canaries: Canaries, log_name: str
    ) -> GateProof:
        """Return what one gate says of the base and of the result."""
        name, layers = f"{log_name}-{gate.name}", trees.layers
        old_tests = layers.over_result(had_tests=known.had_tests)
        result = self._run(gate, f"{name}-result", _Layout(trees.now, trees.start, old_tests))
        on_result = judge_check(result, known.base, allow_base_failures=gate.allow_base_failures)
        on_base, emptied = self._run_new_tests(gate, name, known, trees)
        turned = self._still_failing(gate, name, known, trees, on_base)
        faded = tuple(test for test in known.turned if not turned)
        hearing = Hearing()
        if on_result.passed:
            hearing = self._run_with_canaries(gate, name, known, trees, canaries)
        found = GateProof(
            gate.name,
            on_result,
            on_base,
            turned,
            faded,
            emptied,
            hearing.is_deaf,
            hearing.betrayed,
            known.failed_before,
            -1 if known.is_counted else known.passed.run,
        )
        if not found.is_green_after:
            return found
        return replace(found, as_it_is=self._run_as_it_is(gate, name, known, trees))

    def _run_as_it_is(
        self, gate: Gate, name: str, known: "_Known", trees: "_Trees"
    ) -> CheckResult | None:
        """Run a gate on the result, its new tests included; None if that was done already.

        In the work folder they may have passed by files that no commit has.
        """
        is_same = not trees.layers.over_result(had_tests=known.had_tests)
        if is_same or gate.clean or self._work.holds_back:
            return None
        result = self._run(gate, f"{name}-as-it-is", _Layout(trees.now, "", ()))
        return judge_check(result, known.base, allow_base_failures=gate.allow_base_failures)

    def _run_new_tests(
        self, gate: Gate, name: str, known: "_Known", trees: "_Trees"
    ) -> tuple[CheckResult | None, tuple[str, ...]]:
        """Run the run's own tests on the base; return which of its new files were there, empty.

        Those may be in the way of others: what counts must fail without them, too.
        """
        layers = trees.layers
        if not layers.over_base:
            return None, ()
        over = _Layout(trees.start, trees.now, layers.over_base)
        plain = self._run(gate, f"{name}-base", over)
        if not layers.new_sources or not is_red(plain, known.failed_before):
            return plain, ()
        emptied = replace(over, texts=dict.fromkeys(layers.new_sources, ""))
        return self._run(gate, f"{name}-base-empty", emptied), layers.new_sources

    def _still_failing(
        self, gate: Gate, name: str, known: "_Known", trees: "_Trees", on_base: CheckResult | None
    ) -> tuple[str, ...]:
        """Return which tests fail on the base now as they did before the run, and pass with it."""
        if not known.turned:
            return ()
        if on_base is None or not is_red(on_base, 0):
            on_base = self._run(gate, f"{name}-again", _Layout(trees.start, "", ()))
        return still_failing(known.turned, on_base.counts, known.passed.failures)

    def _run_with_canaries(
        self, gate: Gate, name: str, known: "_Known", trees: "_Trees", canaries: Canaries
    ) -> Hearing:
        """Find out what a gate makes of tests that must fail, on the result and on the base."""
        if not canaries.names:
            return Hearing()
        tests = trees.layers.over_result(had_tests=known.had_tests)
        label, layout = f"{name}-must-fail", _Layout(trees.now, trees.start, tests, canaries.texts)
        on_result = self._run(gate, label, layout).counts
        hearing = hear(canaries, on_result, known.turned, known.passed.failures)
        if not hearing.is_in_doubt:
            return hearing
        layout = replace(layout, commit=trees.start)
        on_base = self._run(gate, f"{label}-base", layout).counts
        return compare(hearing, canaries, on_base)

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
    """The project before the run and now, and what of it is laid over the other."""

    start: str
    now: str
    layers: Layers


@dataclass(frozen=True, slots=True)
class _Known:
    """What a gate said before the run, and when it passed."""

    base: BaseResult | None
    passed: BaseResult

    @property
    def had_tests(self) -> bool:
        return self.base is not None and self.base.run > 0

    @property
    def is_counted(self) -> bool:
        """Is it known how many tests there were?"""
        return self.base is not None and self.base.run >= 0

    @property
    def failed_before(self) -> int:
        return len(self.base.failures) if self.base else 0

    @property
    def turned(self) -> tuple[str, ...]:
        """Tests that failed then, and not now."""
        before = self.base.failures if self.base else ()
        return tuple(sorted(set(before) - set(self.passed.failures)))


def _canaries(sorter: Sorter, commit: str) -> Canaries:
    """Return files of tests with some more that must fail."""
    texts = {path: sorter.text(commit, path) for path in candidates(sorter.work.files(commit))}
    known = {path: text for path, text in texts.items() if text is not None}
    return add_canaries(known, secrets.choice)


def _suspicions(
    sorter: Sorter, old: str, new: str, changes: Sequence[Change], most: int
) -> tuple[Suspicion, ...]:
    """Return what was done to tests between two commits."""
    kinds = sorter.kinds(old, new, changes)
    matter = [change for change in changes if _matters(change, kinds)]
    # The tests first: not all may be looked into.
    matter.sort(key=lambda one: kinds.of(one.old_path) is PathKind.OTHER)
    left_out = [one.path for one in matter[most:]]
    read = [_file_change(sorter, old, new, one) for one in matter[:most]]
    return find_tampering(read, kinds, left_out)


def _suspicions_before(
    sorter: Sorter, snapshots: Snapshots, start: str, most: int
) -> tuple[Suspicion, ...]:
    """Return what had been done to tests that is not committed: by an earlier run, or the user."""
    base = snapshots.base
    if not base:
        return ()
    try:
        return _suspicions(sorter, base, start, snapshots.changes(base, start), most)
    except GitError:
        unreadable = "what was committed before the run can not be read any more"
        return (Suspicion(".git", Trick.DELETED, unreadable),)


def _patches(
    snapshots: Snapshots, trees: _Trees, changes: Sequence[Change], suspicions: Sequence[Suspicion]
) -> Iterator[str]:
    """Yield what the run did to each file that is listed, in the order of the list."""
    by_path = {path: change for change in changes for path in (change.path, change.old_path)}
    listed = (by_path[one.path] for one in suspicions[:MOST_LISTED] if one.path in by_path)
    for change in dict.fromkeys(listed):
        paths = sorted({change.path, change.old_path})
        patch = snapshots.diff(trees.start, trees.now, paths=paths, limit=LARGEST_FILE)
        yield patch.decode(errors="replace")


def _matters(change: Change, kinds: Kinds) -> bool:
    """Can a change be one to tests, or reach into them?"""
    paths = (change.path, change.old_path)
    return any(
        kinds.of(path) is not PathKind.OTHER or language_of(path) is not None for path in paths
    )


def _file_change(sorter: Sorter, old: str, new: str, change: Change) -> ChangedFile:
    """Return a change with the texts before and after it."""
    return ChangedFile(
        path=change.path,
        old_path=change.old_path,
        status=change.status,
        old_mode=change.old_mode,
        new_mode=change.new_mode,
        old=sorter.text(old, change.old_path) if change.status != "A" else None,
        new=sorter.text(new, change.path) if change.status != "D" else None,
    )
