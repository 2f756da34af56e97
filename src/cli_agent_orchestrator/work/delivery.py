"""What a run made comes to the user: into the branch that is checked out, or away with it.

Nothing uncommitted is ever lost. Whether a merge would have conflicts, and which files would be
written over, is found out first, without touching anything. Then the checkout is moved in one way
only, a fast-forward: where it takes a merge, the merge commit is made beforehand. So there is no
merge that could stop halfway, and what is staged elsewhere stays staged.

A file that is ignored is as precious as any other: git itself would write over it.
"""

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath

from ..core.files import Folder
from ..errors import GitError
from . import staging
from .git import Git, Identity, alone_in
from .left_out import refuse_pipes_of, walk
from .repository import Repository, find_repository
from .worktree import Worktree, first_of

AT_ONCE = 500
"""Paths that are named to git in one command."""

Mark = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BeforeDelivery:
    """What lay where a delivery is about to write, all of it committed."""

    git: Git
    marks: dict[str, Mark | None]
    """By path: what tells a file from another that takes its place; None if there was none."""
    known: frozenset[str]
    """Paths that the index has."""
    new_folders: tuple[str, ...]
    """Folders that are not there yet, the deepest first."""

    @classmethod
    def look(cls, git: Git, paths: Sequence[str], new: Sequence[str]) -> "BeforeDelivery":
        """Note how the files of a delivery are now; `new` are those that git does not know yet."""
        top = git.work_tree
        parents = {str(one) for path in new for one in [*PurePosixPath(path).parents][:-1]}
        missing = (one for one in parents if not _is_folder(top / one))
        marks = {path: _mark(top / path) for path in paths}
        folders = sorted(missing, key=lambda one: one.count("/"), reverse=True)
        return cls(git, marks, frozenset(paths) - frozenset(new), tuple(folders))

    def go(self) -> str:
        """Put back what is another file now; return what is not as it was, and what helps."""
        for path in self._changed(known=False):
            place = PurePosixPath(path)
            with suppress(OSError):
                Folder(self.git.work_tree, place.parent.parts).remove(place.name)
        for folder in self.new_folders:
            with suppress(OSError):
                (self.git.work_tree / folder).rmdir()
        again = list(self._changed(known=True))
        for begin in range(0, len(again), AT_ONCE):
            self._ask("checkout-index", "-f", "-q", "--", *again[begin : begin + AT_ONCE])
        self._ask("update-index", "-q", "--refresh")
        return "\n".join(filter(None, [self._left(again), *self._filtered(again)]))

    def _changed(self, *, known: bool) -> Iterator[str]:
        for path, before in self.marks.items():
            if (path in self.known) is known and _mark(self.git.work_tree / path) != before:
                yield path

    def _left(self, again: list[str]) -> str:
        """Say which files are not as they were, with the command that puts them back."""
        differing = self._differing(again)
        new = list(self._changed(known=False))
        top = self.git.work_tree
        commands = []
        if new:
            commands.append(shlex.join(["rm", "-f", "--", *(str(top / path) for path in new)]))
        if differing:
            words = ["git", "-C", str(top), "checkout-index", "-f", "--", *differing]
            commands.append(shlex.join(words))
        if not commands:
            return ""
        names = ", ".join(sorted([*new, *differing]))
        lines = "\n  ".join(commands)
        return f"these files are not as they were: {names}. What puts them back:\n  {lines}"

    def _filtered(self, again: list[str]) -> Iterator[str]:
        """Say what is there as it is stored: no filter of a repository is run by us."""
        with suppress(GitError, OSError):
            for name, files in staging.filters(self.git, again).items():
                advice = " (git lfs checkout brings their content)" if name == "lfs" else ""
                listed = ", ".join(files)
                yield f"put back as stored, not through the filter {name}{advice}: {listed}"

    def _differing(self, paths: list[str]) -> list[str]:
        found: list[str] = []
        for begin in range(0, len(paths), AT_ONCE):
            some = paths[begin : begin + AT_ONCE]
            try:
                listed = [f":(top,literal){path}" for path in some]
                found += self.git.names("diff-files", "--name-only", "-z", "--", *listed)
            except (GitError, OSError):
                found += some
        return found

    def _ask(self, *words: str) -> None:
        # What it could not do is seen afterwards.
        with suppress(GitError, OSError):
            self.git.ask(*words)


def _mark(path: Path) -> Mark | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    if _is_folder(path):
        return (found.st_mode,)
    return (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not os.path.islink(path)  # noqa: PTH114


CAN_CHECK_MERGES = (2, 38)
MISSING = "000000"
LONGEST_WAIT = 60.0
"""Seconds for other runs whose work is applied."""
MOST_COMPARED = 2000
"""Paths that are named to git at once."""
# error: Entry 'touched.txt' not uptodate. Cannot merge.
REFUSED_PATTERN = r"'(.+)' (?:not uptodate|would be overwritten)"


class MergeKind(StrEnum):
    """How a delivery ended."""

    FAST_FORWARDED = "fast-forwarded"
    MERGED = "merged"
    ALREADY_THERE = "already there"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What became of the wish to have a branch merged; if it was refused, nothing changed."""

    kind: MergeKind
    commit: str = ""
    """What is checked out now; nothing if it was refused."""
    conflicts: tuple[str, ...] = ()
    in_the_way: tuple[str, ...] = ()
    """Files of the user's that would have been lost."""
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
    """The branch that must be checked out; any if nothing is said."""


@dataclass(frozen=True, slots=True)
class Touched:
    """A path that a delivery changes."""

    path: str
    is_new: bool
    is_removed: bool


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """What a snapshot has of a work tree."""

    commit: str
    """Of its branch."""
    read: Callable[[str], bytes | None]
    """What is in a file; None if the snapshot does not have it."""


@dataclass(frozen=True, slots=True)
class Discard:
    """What became of the wish to remove a work tree and its branch."""

    is_done: bool
    reason: str = ""
    unsaved: tuple[str, ...] = ()
    """Files that no snapshot has as they are."""


def apply(repository: Repository, branch: str, terms: Terms) -> MergeResult:
    """Merge a branch into the one that the user has checked out, or say what is in the way."""
    now = find_repository(repository.top, terms.environ)
    if now is None:
        return _refused(f"{repository.top} is no repository any more")
    refuse_pipes_of(now.top, now.common_dir)
    with alone_in(now.common_dir, LONGEST_WAIT) as held:
        # As it is now that no other run moves it.
        now = find_repository(repository.top, terms.environ) or now
        return _apply(now, branch, terms, replace(_git(now, terms), inherited=(held,)))


def _apply(now: Repository, branch: str, terms: Terms, git: Git) -> MergeResult:
    tip = git.ask("rev-parse", "-q", "--verify", f"refs/heads/{branch}^{{commit}}").text
    if reason := _hindrance(now, branch, tip, terms.onto):
        return _refused(reason)
    if _is_ancestor(git, tip, now.head):
        return MergeResult(MergeKind.ALREADY_THERE, now.head)
    if _is_ancestor(git, now.head, tip):
        return _move(git, now.head, tip, MergeKind.FAST_FORWARDED)
    if _version(git) < CAN_CHECK_MERGES:
        return _refused(
            f"this git cannot tell conflicts beforehand (2.38 can), and {branch} needs a merge: "
            f"git merge {branch}"
        )
    tree, conflicts = _merged(git, now.head, tip)
    if conflicts:
        return MergeResult(
            MergeKind.REFUSED,
            conflicts=conflicts,
            reason=f"the same places were changed; to settle it yourself: git merge {branch}",
        )
    words = ("commit-tree", tree, "-p", now.head, "-p", tip)
    commit = git.text(*words, given=terms.message.encode(errors="replace"))
    return _move(git, now.head, commit, MergeKind.MERGED)


def discard(worktree: Worktree, kept: KeptFiles) -> Discard:
    """Remove a work tree and its branch, if a snapshot has all that is in them.

    Files that git ignores (dependencies, what was built, copies of the user's own) go with it.
    """
    tip = worktree.branch_tip()
    if tip and tip != kept.commit:
        return Discard(False, f"{worktree.branch} has commits that no snapshot has")
    if "locked" in worktree.link.entry.names():
        return Discard(False, f"it is locked; to unlock it: git worktree unlock {worktree.folder}")
    if other := worktree.checked_out_elsewhere():
        return Discard(False, f"{worktree.branch} is checked out in {other}")
    if worktree.exists:
        unsaved = [path for path in worktree.uncommitted() if not _is_kept(worktree, path, kept)]
        if unsaved:
            return Discard(False, "it has files that no snapshot has as they are", tuple(unsaved))
    worktree.remove(tip)
    return Discard(True)


def discard_unfinished(worktree: Worktree) -> Discard:
    """Remove a work tree that was not finished when it was made: nobody has worked there."""
    tip = worktree.branch_tip()
    if tip and tip != worktree.tip:
        return Discard(False, f"{worktree.branch} has commits that no snapshot has")
    if other := worktree.checked_out_elsewhere():
        return Discard(False, f"{worktree.branch} is checked out in {other}")
    worktree.remove(tip)
    return Discard(True)


def _refused(reason: str) -> MergeResult:
    return MergeResult(MergeKind.REFUSED, reason=reason)


def _git(repository: Repository, terms: Terms) -> Git:
    options = {"i18n.commitEncoding": "UTF-8"}
    git = Git(repository.git_dir, repository.top, terms.environ, None, options, terms.identity)
    return git.defused()


def _hindrance(now: Repository, branch: str, tip: str, onto: str) -> str:
    """Say why a branch cannot be merged whatever is in it; nothing if it can."""
    if not tip:
        return f"there is no branch {branch} (any more)"
    if now.under_way:
        return f"{now.under_way} is under way in {now.top}; end it first"
    if not now.head:
        return f"there is no commit in {now.top} to merge into"
    if not now.branch:
        return f"no branch is checked out in {now.top}; git switch {onto or 'to the one you mean'}"
    if onto and now.branch != onto:
        return (
            f"{now.branch} is checked out in {now.top}, and the work began on {onto}: "
            f"git switch {onto}"
        )
    return ""


def _is_ancestor(git: Git, commit: str, of: str) -> bool:
    return git.ask("merge-base", "--is-ancestor", commit, of).code == 0


def _version(git: Git) -> tuple[int, ...]:
    # git version 2.39.5 (Apple Git-154)
    match = re.search(r"(\d+)\.(\d+)", git.text("version"))
    return tuple(map(int, match.groups())) if match else (0,)


def _merged(git: Git, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
    """Return the tree of a merge, and the files in which there are conflicts."""
    words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
    answer = git.ask(*words)
    tree, *names = answer.text.split("\0")
    if answer.code not in (0, 1) or not tree:
        raise GitError(f"git cannot merge: {answer.complaint}")
    conflicts = tuple(dict.fromkeys(name for name in names if name))
    return tree, conflicts or (("(git does not say where)",) if answer.code else ())


def _move(git: Git, head: str, commit: str, kind: MergeKind) -> MergeResult:
    """Bring the checkout forward to a commit, if nothing of the user's is in the way."""
    touched = _touched(git, head, commit)
    if _is_half_done(git, commit, touched):
        moved = _set_head(git, head, commit)
        return _refused(f"git refused: {moved}") if moved else MergeResult(kind, commit)
    in_the_way = tuple(sorted(_in_the_way(git, touched)))
    if not in_the_way:
        complaint = _fast_forward(git, head, commit, touched)
        if not complaint:
            return MergeResult(kind, commit, remarks=tuple(_remarks(git, touched)))
        in_the_way = tuple(re.findall(REFUSED_PATTERN, complaint))
        if not in_the_way:
            return _refused(f"git refused: {complaint}")
    return MergeResult(
        MergeKind.REFUSED,
        in_the_way=in_the_way,
        reason="files of yours would be written over; commit them or move them away",
    )


def _fast_forward(git: Git, head: str, commit: str, touched: list[Touched]) -> str:
    """Do what `git merge --ff-only` does, all of it or nothing; return git's complaint, if any.

    Git's own command goes by more settings, and notes its try even where it refuses. Where git
    stops halfway its files are put back; the complaint says so if they cannot be.
    """
    every, new = [one.path for one in touched], [one.path for one in touched if one.is_new]
    way_back = BeforeDelivery.look(git, every, new)
    # Says by its code that there are changes, which is no secret by now.
    git.ask("update-index", "-q", "--refresh")
    answer = git.ask("read-tree", "-m", "-u", head, commit)
    if answer.code:
        return "\n".join(filter(None, [answer.complaint, way_back.go()]))
    complaint = _set_head(git, head, commit)
    if complaint:
        git.run("read-tree", "-m", "-u", commit, head)
    return complaint


def _set_head(git: Git, head: str, commit: str) -> str:
    moved = git.ask("update-ref", "-m", "cao: bring the work of a run", "HEAD", commit, head)
    if moved.code:
        return moved.complaint
    git.ask("update-ref", "--no-deref", "ORIG_HEAD", head)
    return ""


def _is_half_done(git: Git, commit: str, touched: list[Touched]) -> bool:
    """Are all files as they are to become, in the index too? A killed delivery leaves it so."""
    git.ask("update-index", "-q", "--refresh")
    paths = [f":(top,literal){one.path}" for one in touched]
    parts = [paths[i : i + MOST_COMPARED] for i in range(0, len(paths), MOST_COMPARED)]
    return bool(parts) and all(_is_as_in(git, commit, part) for part in parts)


def _is_as_in(git: Git, commit: str, paths: list[str]) -> bool:
    in_index = git.ask("diff-index", "--cached", "--quiet", commit, "--", *paths)
    return in_index.code == 0 and git.ask("diff-files", "--quiet", "--", *paths).code == 0


def _touched(git: Git, old: str, new: str) -> list[Touched]:
    listed = iter(git.names("diff-tree", "-r", "-z", "--raw", "--no-renames", old, new))
    # :100644 000000 d00491fd 00000000 D, and then the name
    pairs = zip(listed, listed, strict=True)
    modes = ((head[1:].split(" ")[:2], name) for head, name in pairs)
    return [Touched(name, was == MISSING, becomes == MISSING) for (was, becomes), name in modes]


def _in_the_way(git: Git, touched: list[Touched]) -> set[str]:
    """Return what the user has not committed, or git does not know, where something is to come."""
    removed = {one.path for one in touched if one.is_removed}
    found = _uncommitted(git) & {one.path for one in touched}
    for one in touched:
        if one.is_new:
            found |= set(_unknown(git.work_tree, one.path, removed))
    return found


def _uncommitted(git: Git) -> set[str]:
    words = ("status", "-z", "--porcelain=v2", "--no-renames", "--untracked-files=no")
    found = set()
    for entry in git.names(*words, "--ignore-submodules=all"):
        # 1 .M N... 100644 100644 100644 d00491f d00491f name; with a conflict two more fields
        found.add(entry.split(" ", 10 if entry.startswith("u ") else 8)[-1])
    return found


def _unknown(top: Path, path: str, removed: set[str]) -> Iterator[str]:
    """Yield what lies at or above the place of a new file, and is no file that goes away."""
    for parent in [*reversed(PurePosixPath(path).parents)][1:]:
        if _kind(top / parent) not in (0, stat.S_IFDIR):
            if str(parent) not in removed:
                yield str(parent)
            return
    kind = _kind(top / path)
    if kind == stat.S_IFDIR:
        for folder, _, names in walk(top / path):
            below = (os.path.relpath(folder / name, top) for name in names)
            yield from (name for name in below if name not in removed)
    elif kind:
        yield path


def _kind(path: Path) -> int:
    """Return what lies somewhere as the system's number for it; 0 if nothing does."""
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except OSError:
        return 0


def _remarks(git: Git, touched: list[Touched]) -> Iterator[str]:
    arrived = [one.path for one in touched if not one.is_removed]
    for name, files in staging.filters(git, arrived).items():
        advice = " (git lfs pull brings their content)" if name == "lfs" else ""
        yield f"arrived as stored, not through the filter {name}{advice}: {first_of(files)}"


def _is_kept(worktree: Worktree, path: str, kept: KeptFiles) -> bool:
    """Does a snapshot have a file as it is now? One that is gone need not be there."""
    place = PurePosixPath(path)
    kind = _kind(worktree.folder / path)
    if not kind:
        return True
    if kind == stat.S_IFLNK:
        return kept.read(path) == os.fsencode((worktree.folder / path).readlink())
    try:
        content = Folder(worktree.folder, place.parent.parts).read(place.name)
    except OSError:
        return False
    return kept.read(path) == content
