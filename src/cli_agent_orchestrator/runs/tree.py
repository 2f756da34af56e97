"""A run in a work tree of its own: the tree is prepared, repaired, and its work committed."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ..core.files import is_left_behind
from ..errors import (
    GitError,
    OrchestratorError,
    RunError,
    RunLocked,
    StateError,
    UsageError,
)
from ..pipeline.state import RunState
from ..settings.config import config_folder
from ..settings.layout import (
    KEPT_PATTERN,
    SNAPSHOTS_FOLDER,
    TEMPORARY_FOLDER,
    path_inside,
    run_folder,
    worktree_folder,
)
from ..work.delivery import CommittedWork, commit_message
from ..work.git import Repository, find_repository, uncommitted, user_identity
from ..work.held_back import find
from ..work.snapshots import Snapshots, is_of_cao
from ..work.worktree import Commit, Worktree, first_of
from .record import Fate, RunRecord, SavedTree, keeping_runs_out, read_record
from .recorder import Recorder

BRANCH_PREFIX = "cao/"
FOLDER_GONE = "all of its files were gone; they are as the last snapshot has them"
AFTER_VERDICT_LABEL, PUT_BACK_LABEL = "after the verdict", "as it was judged"
LATE_LABEL = "kept late"
"""Of a work tree whose last turn has no snapshot."""
NOTE = """\
You work in a work tree of your own, on a branch of its own. Do not commit, stash, switch branches
or change the history: what passes is committed for you. Files that git ignores (dependencies, what
was built) may be missing here."""
"""What agents are told."""
HELD_BACK_NOTE = """
Some files of the project are held back and missing here. Tests are run with them all the same."""
"""What they are told besides, if that is so."""


@dataclass(frozen=True, slots=True)
class OwnTree:
    """A work tree, and where the rest of its run is."""

    project: Path
    """The user's own folder."""
    wd: Path
    """The same folder in the work tree: there the agents work."""
    worktree: Worktree
    base: str
    """The commit that it began at."""
    onto: str
    """The branch that the user had checked out; nothing if there was none."""

    @property
    def repository(self) -> Repository:
        """The repository as it is seen from the work tree, whatever an agent has written there."""
        tree = self.worktree
        return replace(
            tree.repository,
            top=tree.folder,
            git_dir=tree.entry.path,
            head=tree.tip,
            branch=tree.branch,
            under_way="",
        )

    @property
    def note(self) -> str:
        return NOTE + HELD_BACK_NOTE if self.worktree.held_back else NOTE

    @property
    def saved(self) -> SavedTree:
        tree = self.worktree
        return SavedTree(
            folder=str(tree.folder),
            branch=tree.branch,
            base=self.base,
            tip=tree.tip,
            onto=self.onto,
            name=tree.name,
            included=tree.included,
            common_dir=str(tree.repository.common_dir),
            held_back=tree.held_back,
        )

    def make(self) -> "tuple[OwnTree, tuple[str, ...]]":
        made, remarks = self.worktree.make()
        return replace(self, worktree=made), remarks

    def check_held_back(self, paths: Sequence[str]) -> None:
        """Refuse to go on with other files held back: agents have seen them, or gates lack them."""
        before = self.worktree.held_back
        if before != _from_top(self.worktree.repository, paths):
            began = f"holding back {', '.join(before)}" if before else "without any"
            raise UsageError(f"held_back is settled when a run begins, and this one began {began}")

    def remove(self) -> None:
        """Remove it again, with its branch; nobody has worked there."""
        self.worktree.remove(self.base)

    def repair(self, store: Path) -> tuple[str, ...]:
        """Bring back what others have broken, and return it; files come from the last snapshot."""
        is_lost = self._is_lost()
        try:
            faults = self.worktree.repair()
            if is_lost:
                snapshots = self.snapshots(store)
                if taken := snapshots.all():
                    snapshots.restore(taken[-1].tree)
                self.worktree.include()
        except (GitError, OSError) as error:
            raise RunError(f"the run's work tree is broken: {error}") from error
        return (FOLDER_GONE, *faults) if is_lost else faults

    def _is_lost(self) -> bool:
        """Is the folder gone, or is nothing there but what we ourselves have written since?"""
        tree = self.worktree
        if not tree.exists:
            return True
        if os.path.lexists(tree.folder / ".git"):
            return False
        ours = self.wd / TEMPORARY_FOLDER
        for place, folders, files in os.walk(tree.folder):
            folders[:] = [name for name in folders if Path(place, name) != ours]
            if files:
                return False
        return True

    def snapshots(self, store: Path) -> Snapshots:
        """Return the snapshots of the run, by what is known and not by what an agent may write."""
        tree = self.worktree
        return Snapshots(
            store, self.wd, self.repository, tree.environ, whole=True, apart=tree.held_back
        )

    def commit(
        self, store: Path, run: str, state: RunState, task_line: str
    ) -> "tuple[OwnTree, Commit]":
        tree = self.worktree
        identity = user_identity(tree.repository, tree.environ)
        late = self._keep_late(store, state)
        put_back = self._put_back(store)
        done = tree.commit(commit_message(task_line, work_of(run, state)), identity)
        remarks = [*late, *done.remarks]
        if put_back:
            remarks.append(f"changed after the verdict, and not committed: {first_of(put_back)}")
        done = replace(done, remarks=tuple(remarks))
        return replace(self, worktree=replace(tree, tip=done.id)), done

    def _keep_late(self, store: Path, state: RunState) -> tuple[str, ...]:
        """Take a snapshot if there is none since the last turn, and say so.

        An older one has nothing of what was done in that turn.
        """
        snapshots = self.snapshots(store)
        taken, turn = snapshots.all(), last_turn(state)
        if not taken or turn is None:
            return ()
        if any(one.sequence > turn[0] or (one.sequence, one.label) == turn for one in taken):
            return ()
        # After the turn, so that it counts as one of it from then on.
        last = max(turn[0], *(one.sequence for one in taken))
        snapshots.take(last + 1, LATE_LABEL)
        return (f"the turn of {turn[1]} has no snapshot: committed is what there was afterwards",)

    def _put_back(self, store: Path) -> list[str]:
        """Bring back what was judged, which the last snapshot has; return which files differed.

        Those are kept in a snapshot of their own.
        """
        snapshots = self.snapshots(store)
        taken = snapshots.all()
        if not taken:
            return []
        judged = taken[-1]
        differing = [one.path for one in snapshots.differing(judged.tree)]
        changed = [path for path in differing if not is_left_behind(path)]
        if changed:
            number = max(one.sequence for one in taken) + 1
            snapshots.take(number, AFTER_VERDICT_LABEL)
            snapshots.restore(judged.tree, changed)
            snapshots.take(number + 1, PUT_BACK_LABEL)
        return changed


def plan_tree(
    project: Path,
    state_folder: Path,
    run: str,
    environ: Mapping[str, str],
    held_back: Sequence[str] = (),
) -> tuple[OwnTree, tuple[str, ...]]:
    """Return the tree that a run is to have, and what to warn of; raise why there can be none."""
    repository = _repository(project, environ)
    if not repository.head:
        raise UsageError(f"{repository.top} has no commit yet: commit something, or work in place")
    if repository.under_way:
        raise UsageError(f"{repository.under_way} is under way in {repository.top}; end it first")
    for own in (state_folder, config_folder(environ)):
        if path_inside(repository.top, own):
            raise UsageError(
                f"cao's own folder {own} is inside of the repository {repository.top}, so a work "
                "tree of it could change that; work in the folder itself (--no-worktree), or "
                "set CAO_STATE_DIR and CAO_CONFIG_DIR to folders elsewhere"
            )
    git = repository.git(environ)
    inside = f"{repository.head}:{repository.prefix}"
    if repository.prefix and git.ask("cat-file", "-e", inside).code:
        raise UsageError(f"{project} is in no commit yet, so a work tree would not have it")
    tree = Worktree(
        repository,
        Path(os.path.realpath(worktree_folder(state_folder, run))),
        f"{BRANCH_PREFIX}{run}",
        repository.head,
        environ,
        held_back=_from_top(repository, held_back),
    )
    find(repository.top, tree.held_back)
    planned = OwnTree(
        project=project,
        wd=tree.folder / repository.prefix,
        worktree=tree,
        base=repository.head,
        onto=repository.branch,
    )
    dirty = [
        path
        for path, letters in uncommitted(repository, environ).items()
        if not is_of_cao(
            path.rstrip("/"), repository.prefix, repository.top, is_known=letters != "??"
        )
    ]
    if not dirty:
        return planned, ()
    return planned, (f"what is not committed is not in the work tree: {first_of(dirty)}",)


def reopen_tree(
    record: RunRecord, saved: SavedTree, state_folder: Path, environ: Mapping[str, str]
) -> OwnTree:
    """Return the tree of a run as its record has it; raise if its repository is not there."""
    project = Path(record.project)
    repository = _repository(project, environ)
    if str(repository.common_dir) != saved.common_dir:
        raise UsageError(f"the work tree of {record.id} belongs to {saved.common_dir}, not to that")
    tree = Worktree(
        repository,
        Path(saved.folder),
        saved.branch,
        saved.tip,
        environ,
        saved.included,
        saved.name,
        saved.held_back,
    )
    return OwnTree(
        project=project,
        wd=tree.folder / repository.prefix,
        worktree=tree,
        base=saved.base,
        onto=saved.onto,
    )


def store_of(state_folder: Path, run: str) -> Path:
    return run_folder(state_folder, run).path / SNAPSHOTS_FOLDER


def last_turn(state: RunState) -> tuple[int, str] | None:
    archived = ((role, Path(one.archive).name) for role, one in state.outputs.items())
    found = [
        (int(match[1]), role)
        for role, name in archived
        if (match := re.fullmatch(KEPT_PATTERN, name))
    ]
    return max(found, default=None)


def work_of(run: str, state: RunState) -> CommittedWork:
    """Return what the trailers of a commit say: how the work was judged.

    A reviewer counts who had the last word in this round, and none that was still open.
    """
    still_open = {one.role for one in state.progress.open_notes if one.round == state.round}
    reviewers = [stage.reviewer for stage in state.flow.stages if stage.reviewer]
    return CommittedWork(
        run=run,
        round=state.round,
        flow=state.flow.name,
        gates=tuple(
            f"{name} passed" if said.run < 0 else f"{name} passed ({_tests(said.run)})"
            for name, said in state.progress.passed.items()
        ),
        reviewers=tuple(
            f"{role} ({state.provider_of(role)})"
            for role in reviewers
            if state.has_output(role) and role not in still_open
        ),
        proof=str(state.progress.proof or ""),
    )


def _tests(count: int) -> str:
    return f"{count} test{'' if count == 1 else 's'}"


def _from_top(repository: Repository, paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{repository.prefix}/{path}" if repository.prefix else path for path in paths)


def _repository(project: Path, environ: Mapping[str, str]) -> Repository:
    try:
        found = find_repository(project, environ)
    except UsageError:
        raise
    except (OrchestratorError, OSError) as error:
        raise UsageError(f"the repository of {project} cannot be used: {error}") from error
    if found is None:
        raise UsageError(
            f"{project} is in no git repository, and a work tree needs one: `git init` and a first "
            "commit, or work in the folder itself (--no-worktree)"
        )
    return found


def hold_tree(run: str, state_folder: Path, recorder: Recorder) -> tuple[RunRecord, SavedTree]:
    """Keep other commands from a run in a work tree that is to go on; return what is known of it.

    Raise why it cannot go on.
    """
    folder = run_folder(state_folder, run)
    if (found := read_record(folder)) is None or found.tree is None:
        raise UsageError(f"{run} is no run with a work tree")
    try:
        recorder.hold(run)
    except RunLocked:
        # If it is a run itself that is at work, this says which.
        with suppress(StateError), keeping_runs_out(Path(found.wd)):
            pass
        raise
    # As it is now that nobody else changes it.
    record = read_record(folder)
    if record is None or record.tree is None:
        raise UsageError(f"the run {run} is removed")
    if record.tree.delivered is Fate.DISCARDED:
        became = "applied" if record.tree.is_applied else "discarded"
        raise UsageError(f"the work of the run {run} was {became}: start a new one")
    return record, record.tree
