"""The work of a run comes to the user: into the branch that is checked out, or away with it.

Nothing uncommitted is ever lost. Whether a merge would have conflicts is found out first, without
touching anything. Then the checkout is moved in one way only, a fast-forward: where it takes a
merge, the merge commit is made beforehand. So there is no merge that could stop halfway, and what
is staged elsewhere stays staged. Git refuses where a file of the user's would be written over; an
ignored one is as precious as any other.
"""

import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import PurePosixPath

from ..core.files import Folder
from ..errors import GitError
from .git import Git, GitAnswer, Identity, alone_in, listed
from .repository import STATUS, STATUS_LETTERS, Repository, filtered, find_repository
from .worktree import Worktree, first_of

MINIMUM_VERSION = (2, 38)
"""The first git that tells conflicts beforehand."""
LONGEST_WAIT = 60.0
"""Seconds for other runs whose work is applied."""
UNKNOWN = "??"
"""How git calls a file that it does not know."""
# "	a.txt", below "error: Your local changes to the following files would be overwritten"
IN_THE_WAY_PATTERN = r"(?m)^\t(.+)$"
FAST_FORWARD = ("merge", "-q", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-stat")
RESTORE = ("restore", "--source=HEAD", "--staged", "--worktree")


class MergeKind(StrEnum):
    """How a delivery ended."""

    FAST_FORWARDED = "fast-forwarded"
    MERGED = "merged"
    ALREADY_THERE = "already there"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The result of merging a branch; if it was refused, nothing changed unless it says so."""

    kind: MergeKind
    commit: str = ""
    """What is checked out now; empty if it was refused."""
    files: tuple[str, ...] = ()
    """With conflicts, or in the way."""
    reason: str = ""
    """Why it was refused, and what to do."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """How a branch is merged."""

    identity: Identity
    message: str
    """Of the merge commit, if there has to be one."""
    environ: Mapping[str, str] = field(repr=False)
    onto: str = ""
    """The branch that must be checked out; any if it is empty."""


def apply(repository: Repository, branch: str, terms: Terms) -> MergeResult:
    """Merge a branch into the one that the user has checked out, or return what is in the way."""
    with alone_in(repository.common_dir, LONGEST_WAIT) as held:
        now = find_repository(repository.top, terms.environ)
        if now is None:
            return _refused(f"{repository.top} is no repository any more")
        options = {
            "i18n.commitEncoding": "UTF-8",
            "merge.verifySignatures": "false",
            "pull.twohead": "ort",
            f"branch.{now.branch}.mergeOptions": "",
        }
        git = Git(now.git_dir, now.top, terms.environ, None, options, terms.identity)
        git = replace(git.defused(), inherited=() if held is None else (held,))
        return _apply(now, branch, terms, git)


def _apply(now: Repository, branch: str, terms: Terms, git: Git) -> MergeResult:
    tip = git.ask("rev-parse", "-q", "--verify", f"refs/heads/{branch}^{{commit}}").text
    onto = terms.onto
    if not tip:
        return _refused(f"there is no branch {branch} (any more)")
    if now.under_way:
        return _refused(f"{now.under_way} is under way in {now.top}; end it first")
    if not now.head:
        return _refused(f"there is no commit in {now.top} to merge into")
    if not now.branch:
        to = onto or "to the one you mean"
        return _refused(f"no branch is checked out in {now.top}; git switch {to}")
    if onto and now.branch != onto:
        return _refused(
            f"{now.branch} is checked out in {now.top}, and the work began on {onto}: "
            f"git switch {onto}"
        )
    if _is_ancestor(git, tip, now.head):
        return MergeResult(MergeKind.ALREADY_THERE, now.head)
    if _is_ancestor(git, now.head, tip):
        return _move(git, now.head, tip, MergeKind.FAST_FORWARDED)
    # git version 2.39.5 (Apple Git-154)
    version = re.search(r"(\d+)\.(\d+)", git.text("version"))
    if version is None or tuple(map(int, version.groups())) < MINIMUM_VERSION:
        return _refused(
            f"this git cannot tell conflicts beforehand (2.38 can), and {branch} needs a merge: "
            f"git merge {branch}"
        )
    options = ("--write-tree", "-z", "--name-only", "--no-messages")
    merged = git.ask("merge-tree", *options, now.head, tip)
    tree, *conflicts = merged.text.split("\0")
    if merged.code not in (0, 1) or not tree:
        raise GitError(f"git cannot merge: {merged.complaint}")
    if merged.code:
        return MergeResult(
            MergeKind.REFUSED,
            files=tuple(dict.fromkeys(filter(None, conflicts))),
            reason=f"the same places were changed; to settle it yourself: git merge {branch}",
        )
    message = terms.message.encode(errors="replace")
    commit = git.text("commit-tree", tree, "-p", now.head, "-p", tip, given=message)
    return _move(git, now.head, commit, MergeKind.MERGED)


def _move(git: Git, head: str, commit: str, kind: MergeKind) -> MergeResult:
    """Bring the checkout forward to a commit, if nothing of the user's is in the way."""
    touched = git.names("diff-tree", "-r", "-z", "--name-only", "--no-renames", head, commit)
    before = _changed(git, touched)
    # Git itself would bring back a file that the user has removed.
    removed = tuple(path for path, letters in before.items() if letters == " D")
    answer = GitAnswer(1, b"", "") if removed else git.ask(*FAST_FORWARD, commit)
    if answer.code == 0 and git.ask("rev-parse", "HEAD").text == commit:
        remarks = []
        for name, files in filtered(git, touched).items():
            advice = " (git lfs pull brings their content)" if name == "lfs" else ""
            text = f"arrived as stored, not through the filter {name}{advice}"
            remarks.append(f"{text}: {first_of([*files])}")
        return MergeResult(kind, commit, remarks=tuple(remarks))
    in_the_way = removed or tuple(re.findall(IN_THE_WAY_PATTERN, answer.complaint))
    if in_the_way:
        return MergeResult(
            MergeKind.REFUSED,
            files=in_the_way,
            reason="files of yours would be written over; commit them or move them away",
        )
    return _refused(f"git refused: {answer.complaint}\n{_taken_back(git, touched, before)}")


def _changed(git: Git, paths: Collection[str]) -> dict[str, str]:
    """Return which of some files are not as they are committed, each with git's two letters."""
    entries = git.names(*STATUS, "--untracked-files=all")
    found = {one[STATUS_LETTERS:]: one[: STATUS_LETTERS - 1] for one in entries}
    return {path: found[path] for path in paths if path in found}


def _taken_back(git: Git, touched: Collection[str], before: Mapping[str, str]) -> str:
    """Put back what git wrote before it stopped, on a disk that is full say; return the outcome."""
    wrong = {path: how for path, how in _changed(git, touched).items() if path not in before}
    for path in (path for path, letters in wrong.items() if letters == UNKNOWN):
        place = PurePosixPath(path)
        with suppress(OSError):
            Folder(git.work_tree, place.parent.parts).remove(place.name)
    known = [path for path, letters in wrong.items() if letters != UNKNOWN]
    if known:
        git.ask(*RESTORE, "--pathspec-from-file=-", "--pathspec-file-nul", given=listed(known))
    left = [path for path in _changed(git, wrong) if path not in before]
    if not left:
        return "nothing was changed"
    command = shlex.join(["git", "-C", str(git.work_tree), *RESTORE, "--", *left])
    return f"it stopped halfway; what brings its files back:\n  {command}"


def _refused(reason: str) -> MergeResult:
    return MergeResult(MergeKind.REFUSED, reason=reason)


def _is_ancestor(git: Git, commit: str, of: str) -> bool:
    return git.ask("merge-base", "--is-ancestor", commit, of).code == 0


def discard(worktree: Worktree, kept: str, read: Callable[[str], bytes | None]) -> str:
    """Remove a work tree and its branch, if a snapshot has all that is in them; why does it stay?

    `kept` is the commit of the branch that the snapshot goes with, `read` returns what it has of a
    file. Ignored files (dependencies, what was built, copies of the user's own) go with the tree.
    """
    tip = worktree.branch_tip()
    if tip and tip != kept:
        return f"{worktree.branch} has commits that no snapshot has"
    if worktree.is_locked and not worktree.is_unfinished:
        return f"it is locked; to unlock it: git worktree unlock {worktree.folder}"
    if other := worktree.checked_out_elsewhere():
        return f"{worktree.branch} is checked out in {other}"
    if worktree.exists and not worktree.is_unfinished:
        unsaved = [path for path in worktree.uncommitted() if not _is_kept(worktree, path, read)]
        if unsaved:
            return f"it has files that no snapshot has as they are: {', '.join(unsaved)}"
    worktree.remove(tip)
    return ""


def _is_kept(worktree: Worktree, path: str, read: Callable[[str], bytes | None]) -> bool:
    """Does a snapshot have a file as it is now? One that is gone need not be there."""
    place = PurePosixPath(path)
    if not os.path.lexists(worktree.folder / path):
        return True
    if (worktree.folder / path).is_symlink():
        return read(path) == os.fsencode((worktree.folder / path).readlink())
    try:
        return read(path) == Folder(worktree.folder, place.parent.parts).read(place.name)
    except OSError:
        return False
