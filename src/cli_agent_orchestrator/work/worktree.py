"""A work tree of a run's own: a branch `cao/<run>` in a folder beside the user's checkout.

    worktree, remarks = Worktree(repository, folder, "cao/r1", repository.head, environ).make()
    commit = worktree.commit(message, identity)
    worktree = replace(worktree, tip=commit.id)

Agents work in the folder and do not commit; we do. What they can reach they can also break: the
folder, its `.git` file, the branch. So we go by what we know ourselves, look whether it still holds
(`faults`), and bring it back (`mend`). What was in the files is for the snapshots to keep.

The folder belongs where agents cannot write (not below `/tmp`), and so does what is beside it.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..core.files import Folder
from ..errors import GitError, in_words
from . import included as inclusion
from . import staging
from .git import NOBODY, Git, Identity, alone_in
from .held_back import is_held
from .left_out import LeftOut, refuse_pipes_of
from .repository import LONGEST_POINTER, Link, Repository
from .staging import Fixed, Staged

SHOWN_NAMES = 5
LONGEST_WAIT = 10.0
"""Seconds for others that make a work tree."""
OPTIONS = {
    **staging.OPTIONS,
    "i18n.commitEncoding": "UTF-8",
}


@dataclass(frozen=True, slots=True)
class Commit:
    """What became of the wish to commit all that is in a work tree."""

    id: str
    """The commit that the branch is at now."""
    is_new: bool
    """False if there was nothing to commit."""
    by_agents: tuple[str, ...]
    """Commits since the last one of ours that we did not make, the latest first. They stay."""
    left_out: tuple[LeftOut, ...]
    remarks: tuple[str, ...]
    """What the user should know, as sentences."""


@dataclass(frozen=True, slots=True)
class Worktree:
    """A work tree, as it ought to be."""

    repository: Repository
    folder: Path
    branch: str
    tip: str
    """The last commit of ours in the branch, or the one it began at."""
    environ: Mapping[str, str] = field(repr=False)
    included: tuple[str, ...] = ()
    """Files of the user's that were copied into it; no commit gets them."""
    name: str = ""
    """What git calls it, if not by the name of its folder."""
    held_back: tuple[str, ...] = ()
    """Paths that are left out of it; commits have there what `tip` has."""
    ours: tuple[str, ...] = ()
    """Paths where the user's own folders of cao are; commits have there what `tip` has."""

    def make(self) -> "tuple[Worktree, tuple[str, ...]]":
        """Make the branch, and the folder with its files; say what is special about it."""
        if not self.tip:
            raise GitError("the repository has no commit yet, so there is nothing to branch off")
        if os.path.lexists(self.folder):
            raise GitError(f"there is something at {self.folder} already; move it away")
        worktree = replace(self, folder=Path(os.path.realpath(self.folder)))
        if worktree.branch_tip():
            raise GitError(
                f"the branch {self.branch} exists already; rename it (git branch -m) or remove it"
            )
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        words = ("worktree", "add", "-q", "--lock", "--no-checkout", "--no-track", "-b")
        # Git gives up where it reads half of what another one is writing.
        with alone_in(self.repository.common_dir, LONGEST_WAIT):
            worktree._store.run(*words, self.branch, str(worktree.folder), self.tip)
        pointer = Folder(worktree.folder).read(".git", LONGEST_POINTER)
        worktree = replace(worktree, name=Path(os.fsdecode(pointer.strip())).name)
        try:
            worktree.link.write()
            worktree._fill()
        except (GitError, OSError):
            # Nobody worked there: half a work tree is of no use.
            worktree.remove(self.tip)
            raise
        return worktree._with_included()

    @property
    def link(self) -> Link:
        """How git, folder and branch find each other."""
        name = self.name or self.folder.name
        return Link(self.repository.common_dir, name, self.folder, self.branch)

    @property
    def exists(self) -> bool:
        """Is there a folder that is no link?"""
        return self.link.has_folder

    @property
    def is_unfinished(self) -> bool:
        """Was it left while it was made, so that there may be half of it or none?"""
        return self.link.is_unfinished or not (self.exists and self.link.entry.names())

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def branch_tip(self) -> str:
        """Return the commit that the branch is at, or nothing if there is no such branch."""
        return self._store.ask("rev-parse", "-q", "--verify", f"{self.ref}^{{commit}}").text

    def faults(self) -> tuple[str, ...]:
        """Say what of it others have broken; files, and commits on top of ours, are no faults."""
        return (*self.link.faults(), *self._branch_faults())

    def mend(self) -> tuple[str, ...]:
        """Bring branch, folder and `.git` file back; return what was broken.

        The files of a lost folder are those of the last commit. All others stay as they are. A
        `.git` folder in the place of the file is moved out, beside the work tree.
        """
        faults = self.faults()
        if not faults:
            return ()
        if self._store.ask("cat-file", "-e", f"{self.tip}^{{commit}}").code:
            raise GitError(f"the commits of {self.branch} are gone from the repository")
        if self._branch_faults():
            self._store.run("update-ref", "--no-deref", "-m", "cao: mend", self.ref, self.tip)
        is_empty = not self.exists or self.link.is_unfinished
        try:
            self.link.write()
        except OSError as error:
            raise GitError(f"the work tree cannot be mended: {in_words(error)}") from error
        if is_empty:
            self._fill()
            inclusion.include(self._user_git, self.folder, list(self.included))
        else:
            git = self._checked_out
            git.run("read-tree", self.ref)
            self._fixed.hide(git)
        return faults

    def commit(self, message: str, identity: Identity, also: Sequence[str] = ()) -> Commit:
        """Commit all files, `also` those that somebody has had ignored since.

        Without a change there is no new commit.
        """
        faults = self.faults()
        if faults:
            raise GitError(f"the work tree {self.folder} is damaged: {'; '.join(faults)}")
        parent = self.branch_tip()
        with self._own_index(identity) as git:
            fixed = Fixed(self.tip, (*self.held_back, *self.ours))
            prefix = self.repository.prefix
            rules = staging.Rules(fixed, self.included, also, self.ours, prefix)
            staged = staging.stage(git, parent, rules)
            is_new = staged.tree != git.text("rev-parse", f"{parent}^{{tree}}")
            commit = parent
            if is_new:
                words = ("commit-tree", staged.tree, "-p", parent)
                commit = git.text(*words, given=message.encode(errors="replace"))
                git.run("update-ref", "--no-deref", "-m", "cao: commit", self.ref, commit, parent)
            self._fixed.hide(git)
            assert git.index is not None, "it has one of its own"
            # Agents that ask for the status see that all is committed.
            self.link.entry.replace("index", git.index.read_bytes(), lasting=False)
            by_agents = tuple(git.text("rev-list", f"{self.tip}..{parent}").split())
            remarks = tuple(self._remarks(git, staged, by_agents))
        return Commit(commit, is_new, by_agents, staged.left_out, remarks)

    def uncommitted(self) -> tuple[str, ...]:
        """Return the files that differ from the last commit, but those of ours and ignored ones."""
        with self._own_index() as git:
            git.run("read-tree", self.ref)
            return tuple(
                one.path
                for one in staging.differences(git)
                if not one.is_ours(self.repository.prefix, self.folder)
                and not is_held(one.path, self.held_back)
                and not staging.is_at(one.path, self.ours)
            )

    def leaked(self, base: str) -> list[str]:
        """Return the user's own files that agents have committed since a commit."""
        return self._leaked(self._store, base, self.ref)

    def _leaked(self, git: Git, base: str, tip: str) -> list[str]:
        return sorted(_touched(git, base, tip) & {*self.included}) if self.included else []

    def in_our_place(self, base: str) -> list[str]:
        """Return what was committed since a commit where the user's own folders of cao are."""
        touched = _touched(self._store, base, self.ref) if self.ours else ()
        return sorted(path for path in touched if staging.is_at(path, self.ours))

    def checked_out_elsewhere(self) -> str:
        """Return the folder of another work tree that has the branch checked out, if any."""
        folder = ""
        for line in self._store.names("worktree", "list", "--porcelain", "-z"):
            key, _, value = line.partition(" ")
            if key == "worktree":
                folder = value
            elif key == "branch" and value == self.ref and folder != str(self.folder):
                return folder
        return ""

    def remove(self, tip: str) -> None:
        """Remove the folder, what git knows of it, and the branch if it is still at a commit."""
        try:
            self.link.remove()
        except OSError as error:
            raise GitError(f"the work tree cannot be removed: {in_words(error)}") from error
        if tip:
            self._store.run("update-ref", "--no-deref", "-d", self.ref, tip)

    def _remarks(self, git: Git, staged: Staged, by_agents: tuple[str, ...]) -> Iterator[str]:
        if by_agents:
            yield f"{len(by_agents)} commits in {self.branch} were made by an agent; they stay"
        if by_agents and (leaked := self._leaked(git, self.tip, by_agents[0])):
            yield f"an agent committed files that are yours alone: {first_of(leaked)}"
        for name, files in staging.filters(git, staged.changed).items():
            yield f"stored as they are, not through the filter {name}: {first_of(files)}"

    def _with_included(self) -> "tuple[Worktree, tuple[str, ...]]":
        remarks = list(self._special())
        copied: tuple[str, ...] = ()
        try:
            named = inclusion.named_files(self._user_git, self.folder.parent)
        except (GitError, OSError) as error:
            reason = getattr(error, "strerror", error)
            remarks.append(f"{inclusion.FILE} was not followed: {reason}")
        else:
            names = [name for name in named if not is_held(name, self.held_back)]
            copied, left_out = inclusion.include(self._user_git, self.folder, names)
            remarks += [f"{one.path} was not copied: {one.reason}" for one in left_out]
        return replace(self, included=copied), tuple(remarks)

    def _special(self) -> Iterator[str]:
        """Say what differs from the user's own checkout of the same commit."""
        git = self._checked_out
        entries = [line.partition("\t") for line in git.names("ls-files", "-z", "--stage")]
        submodules = [name for mode, _, name in entries if mode.startswith("160000")]
        if submodules:
            yield f"submodules are empty here: {first_of(submodules)}"
        for name, files in staging.filters(git, [name for _, _, name in entries]).items():
            yield f"here as they are stored, not through the filter {name}: {first_of(files)}"

    def _branch_faults(self) -> tuple[str, ...]:
        if self._store.ask("symbolic-ref", "-q", self.ref).code == 0:
            return (f"the branch {self.branch} was made another name of a branch",)
        now = self.branch_tip()
        if not now:
            return (f"the branch {self.branch} is gone",)
        if self._store.ask("merge-base", "--is-ancestor", self.tip, now).code:
            return (f"the history of {self.branch} was rewritten; what it was is {now}",)
        return ()

    def _fill(self) -> None:
        """Bring the files of the branch into the folder; none that is there is written over."""
        git = self._checked_out
        git.run("read-tree", self.ref)
        self._fixed.hide(git)
        missing = git.run("ls-files", "-z", "--deleted")
        git.run("checkout-index", "-z", "--stdin", "--index", given=missing)
        self.link.finish()

    @property
    def _fixed(self) -> Fixed:
        return Fixed(self.tip, self.held_back)

    @property
    def _store(self) -> Git:
        """Git in the repository itself, for branches and objects."""
        common_dir = self.repository.common_dir
        return Git(common_dir, self.repository.top, self.environ, options=OPTIONS)

    @property
    def _user_git(self) -> Git:
        return Git(self.repository.git_dir, self.repository.top, self.environ)

    @property
    def _checked_out(self) -> Git:
        """Git as it is in the folder, with the index that agents see."""
        return Git(self.link.entry.path, self.folder, self.environ, options=OPTIONS).defused()

    @contextmanager
    def _own_index(self, identity: Identity = NOBODY) -> Iterator[Git]:
        """Lend git with an index that no agent could write to, and nothing of theirs besides."""
        if not self.exists:
            raise GitError(f"the folder {self.folder} is gone")
        common_dir = self.repository.common_dir
        refuse_pipes_of(self.folder, common_dir)
        with tempfile.TemporaryDirectory(dir=self.folder.parent, prefix=".index-") as scratch:
            git = Git(common_dir, self.folder, self.environ, Path(scratch) / "index", OPTIONS)
            git = replace(git, options={**OPTIONS, **staging.user_ignore_file(git)}).defused()
            yield replace(git, identity=identity)


def _touched(git: Git, base: str, tip: str) -> set[str]:
    """Return every path that a commit since another one changes."""
    log = ("log", "-z", "--format=", "--name-only", "--no-renames", "--no-ext-diff", "-m")
    return {*git.names(*log, f"{base}..{tip}", "--")}


def first_of(names: list[str]) -> str:
    """Return the first names of many."""
    shown = ", ".join(repr(name) for name in names[:SHOWN_NAMES])
    rest = len(names) - SHOWN_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown
