"""A run in a work tree of its own: the tree is prepared, repaired, and its work committed."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec.structs import replace

from ..core.files import cache_of
from ..core.models import TreeFacts
from ..core.text import first_names, plural
from ..errors import GitError, OrchestratorError, RunError, UsageError
from ..pipeline.state import RunState
from ..settings.layout import (
    KEPT_PATTERN,
    SNAPSHOTS_FOLDER,
    TASK_FILE,
    config_folder,
    path_inside,
    run_folder,
    worktree_folder,
)
from ..settings.table import SETTINGS_FILE
from ..work.delivery import CommittedWork, commit_message
from ..work.git import Repository, find_repository, uncommitted, user_identity
from ..work.held_back import find
from ..work.snapshots import Snapshots, is_of_cao
from ..work.worktree import Commit, Worktree
from .record import RunRecord, SavedTree

BRANCH_PREFIX = "cao/"
FOLDER_GONE = "all of its files were gone; they are as the last snapshot has them"
AFTER_VERDICT_LABEL, PUT_BACK_LABEL = "after the verdict", "as it was judged"
LATE_LABEL = "kept late"
"""Of a work tree whose last turn has no snapshot."""
NOTE = """\
You work in a work tree of your own, on a branch of its own. Do not commit, stash, switch branches
or change the history: what passes is committed for you. Files that git ignores (dependencies, what
was built) may be missing here."""
HELD_BACK_NOTE = """
Some files of the project are held back and missing here. Tests are run with them all the same."""


def note_of(tree: Worktree) -> str:
    return NOTE + HELD_BACK_NOTE if tree.held_back else NOTE


def saved_tree(tree: Worktree) -> SavedTree:
    return SavedTree(str(tree.folder), str(tree.repository.common_dir), **_facts(tree))


# Any: fields of `TreeFacts`
def _facts(tree: TreeFacts) -> dict[str, Any]:
    return {name: getattr(tree, name) for name in TreeFacts.__struct_fields__}


def check_held_back(tree: Worktree, paths: Sequence[str]) -> None:
    """Refuse to resume with other files held back: agents have seen them, or gates lack them."""
    before = tree.held_back
    if before != _from_top(tree.repository, paths):
        began = f"holding back {', '.join(before)}" if before else "without any"
        raise UsageError(f"held_back is settled when a run begins, and this one began {began}")


def repair_tree(tree: Worktree, store: Path) -> tuple[str, ...]:
    """Bring back what others have broken, and return it; files come from the last snapshot."""
    is_lost = tree.is_lost
    try:
        faults = tree.repair()
        if is_lost:
            snapshots = tree.snapshots(store)
            if taken := snapshots.all():
                snapshots.restore(taken[-1].tree)
            tree.include()
    except (GitError, OSError) as error:
        raise RunError(f"the run's work tree is broken: {error}") from error
    return (FOLDER_GONE, *faults) if is_lost else faults


def commit_tree(
    tree: Worktree, store: Path, run: str, state: RunState, task_line: str
) -> tuple[Worktree, Commit]:
    """Commit what was judged: the last snapshot. What differs from it is kept and put back.

    What is as the first snapshot has it was there before the work: its setup made it.
    """
    identity = user_identity(tree.repository, tree.environ)
    snapshots, remarks = tree.snapshots(store), []
    prepared: set[str] = set()
    if taken := snapshots.all():
        number = max(one.sequence for one in taken) + 1
        turn = last_turn(state)
        # An older snapshot has nothing of what was done in the last turn.
        if turn and not any(s.sequence > turn[0] or (s.sequence, s.label) == turn for s in taken):
            # After the turn, so that it counts as one of it from then on.
            number = max(number, turn[0] + 1)
            taken = (snapshots.take(number, LATE_LABEL),)
            number += 1
            late = "has no snapshot: committed is what there was afterwards"
            remarks.append(f"the turn of {turn[1]} {late}")
        judged = taken[-1].tree
        prepared = _prepared(snapshots, judged)
        differing = [one.path for one in snapshots.differing(judged)]
        if changed := [path for path in differing if not cache_of(path)]:
            snapshots.take(number, AFTER_VERDICT_LABEL)
            snapshots.restore(judged, changed)
            snapshots.take(number + 1, PUT_BACK_LABEL)
            named = first_names(changed)
            remarks.append(f"changed after the verdict, and not committed: {named}")
    done = tree.commit(commit_message(task_line, work_of(run, state)), identity, prepared)
    done = replace(done, remarks=(*remarks, *done.remarks))
    return replace(tree, tip=done.id), done


def _prepared(snapshots: Snapshots, now: str = "") -> set[str]:
    """Return what was made before the work and is the same in a snapshot, or on the disk."""
    if not snapshots.base:
        return set()
    start = snapshots.all()[0].tree
    since = snapshots.changes(start, now) if now else snapshots.differing(start)
    made, changed = (
        {path for one in changes for path in (one.path, one.old_path)}
        for changes in (snapshots.changes(snapshots.base, start), since)
    )
    return made - changed


def changed_since_setup(tree: Worktree, store: Path) -> bool:
    """Is there something in a work tree that is neither committed nor there from the beginning?"""
    changed = {path for path in tree.uncommitted() if not cache_of(path)}
    return bool(changed and changed - _prepared(tree.snapshots(store)))


def plan_tree(
    project: Path,
    state_folder: Path,
    run: str,
    environ: Mapping[str, str],
    held_back: Sequence[str] = (),
) -> tuple[Worktree, tuple[str, ...]]:
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
        environ,
        project,
        branch=f"{BRANCH_PREFIX}{run}",
        tip=repository.head,
        held_back=_from_top(repository, held_back),
        base=repository.head,
        onto=repository.branch,
    )
    find(repository.top, tree.held_back)
    dirty = [
        path
        for path, letters in uncommitted(repository, environ).items()
        if not is_of_cao(
            path.rstrip("/"), repository.prefix, repository.top, is_known=letters != "??"
        )
        # They are read where they are.
        and (letters != "??" or PurePosixPath(path).name not in (SETTINGS_FILE, TASK_FILE))
    ]
    if not dirty:
        return tree, ()
    return tree, (f"what is not committed is not in the work tree: {first_names(dirty)}",)


def reopen_tree(record: RunRecord, saved: SavedTree, environ: Mapping[str, str]) -> Worktree:
    """Return the tree of a run as its record has it; raise if its repository is not there."""
    project = Path(record.project)
    repository = _repository(project, environ)
    if str(repository.common_dir) != saved.common_dir:
        raise UsageError(f"the work tree of {record.id} belongs to {saved.common_dir}, not to that")
    return Worktree(repository, Path(saved.folder), environ, project, **_facts(saved))


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
            f"{name} passed" if said.run < 0 else f"{name} passed ({plural(said.run, 'test')})"
            for name, said in state.progress.passed.items()
        ),
        reviewers=tuple(
            f"{role} ({state.provider_of(role)})"
            for role in reviewers
            if state.has_output(role) and role not in still_open
        ),
        proof=str(state.progress.proof or ""),
    )


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
