"""A work tree of a run's own: a branch `cao/<run>` in a folder beside the user's checkout.

    worktree = Worktree(repository, folder, environ, branch="cao/r1", tip=repository.head)
    worktree, remarks = worktree.make()
    commit = worktree.commit(message, identity)
    worktree = replace(worktree, tip=commit.id)

Agents work in the folder and do not commit; we do. They can break all that they can reach: the
folder, its `.git` file, the branch. So we go by our own record, check whether it still holds
(`faults`), and `repair` it. The snapshots keep the content of files.

The folder must lie where agents cannot write (not below `/tmp`), and so must what is beside it.

`.worktreeinclude` at the top of the project has the form of a `.gitignore`; other tools know it,
too. It names files like `.env` that are ignored or not yet added. They are copied, never linked; a
link is not followed, and what is in the new tree already stays as it is.
"""

import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from ..core.codec import Private
from ..core.files import Folder, cache_of
from ..core.models import TreeFacts
from ..core.text import first_names
from ..errors import GitError, GitFailed, in_words
from ..settings.layout import TEMPORARY_FOLDER
from .changes import LeftOut
from .git import (
    NOBODY,
    Git,
    Repository,
    alone_in,
    changed_files,
    filtered,
    listed,
    literal,
    user_options,
)
from .held_back import is_held, remove_folder
from .snapshots import OURS, Snapshots, is_of_cao, look_at

LEFT_BEHIND = "left behind by a program that was run; .gitignore does not name it"
PRIVATE = "copied from your folder, and not for the repository"
OWN_REPOSITORY = "a repository of its own"
UNFINISHED = (b"initializing", b"added with --lock")
"""What locks a work tree until its files are there: git's own words."""
INCLUDE_FILE = ".worktreeinclude"
LARGEST_COPY = 64 * 1024 * 1024
LONGEST_POINTER = 8192
LONGEST_WAIT = 10.0
OPTIONS = {
    # All files are in the tree, and the index is a file of its own.
    "core.sparseCheckout": "false",
    "core.splitIndex": "false",
    "core.untrackedCache": "false",
    "i18n.commitEncoding": "UTF-8",
}


class Commit(Struct, frozen=True):
    id: str
    left_out: tuple[LeftOut, ...]
    remarks: tuple[str, ...]


class Worktree(TreeFacts, Private, frozen=True):
    repository: Repository
    folder: Path
    environ: Mapping[str, str]
    project: Path = Path()

    @property
    def wd(self) -> Path:
        return self.folder / self.repository.prefix

    @property
    def own_repository(self) -> Repository:
        """The repository as it is seen from the work tree, whatever an agent has written there."""
        git_dir = self.entry.path
        places = replace(self.repository, top=self.folder, git_dir=git_dir, under_way="")
        return replace(places, head=self.tip, branch=self.branch)

    def snapshots(self, store: Path) -> Snapshots:
        return Snapshots(
            store, self.wd, self.own_repository, self.environ, whole=True, apart=self.held_back
        )

    def make(self) -> "tuple[Worktree, tuple[str, ...]]":
        if os.path.lexists(self.folder):
            raise GitError(f"there is something at {self.folder} already; move it away")
        made = replace(self, folder=Path(os.path.realpath(self.folder)))
        if made.branch_tip():
            raise GitError(
                f"the branch {self.branch} exists already; rename it (git branch -m) or remove it"
            )
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made._add("--no-track", "-b", self.branch, str(made.folder), self.tip)
        pointer = Folder(made.folder).read(".git", LONGEST_POINTER)
        made = replace(made, name=Path(os.fsdecode(pointer.strip())).name)
        try:
            made._fill()
        except (GitError, OSError):
            # No agent worked there: half a work tree is of no use.
            made.remove(self.tip)
            raise
        remarks = []
        git = Git(made.entry.path, made.folder, self.environ, options=OPTIONS)
        entries = [line.partition("\t") for line in git.names("ls-files", "-z", "--stage")]
        if submodules := [name for mode, _, name in entries if mode.startswith("160000")]:
            remarks.append(f"submodules are empty here: {first_names(submodules)}")
        for filter_name, files in filtered(git, [name for _, _, name in entries]).items():
            stored = f"here as they are stored, not through the filter {filter_name}"
            remarks.append(f"{stored}: {first_names(files)}")
        try:
            copied, not_copied = made._copy(made._included_by_list())
        except (GitError, OSError) as error:
            reason = getattr(error, "strerror", error)
            return made, (*remarks, f"{INCLUDE_FILE} was not followed: {reason}")
        return replace(made, included=copied), (*remarks, *not_copied)

    @property
    def entry(self) -> Folder:
        return Folder(self.repository.common_dir, ("worktrees", self.name or self.folder.name))

    @property
    def exists(self) -> bool:
        return self.folder.is_dir() and not self.folder.is_symlink()

    @property
    def is_unfinished(self) -> bool:
        return self._is_marked_unfinished or not (self.exists and self.entry.names())

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def branch_tip(self) -> str:
        return self._store.ask("rev-parse", "-q", "--verify", f"{self.ref}^{{commit}}").text

    def faults(self) -> tuple[str, ...]:
        return (*self._link_faults(), *self._branch_faults())

    @property
    def is_lost(self) -> bool:
        """Is the folder gone, or is nothing there but what we ourselves have written since?"""
        if not self.exists:
            return True
        if os.path.lexists(self.folder / ".git"):
            return False
        ours = self.wd / TEMPORARY_FOLDER
        for place, folders, files in os.walk(self.folder):
            folders[:] = [name for name in folders if Path(place, name) != ours]
            if files:
                return False
        return True

    def repair(self) -> tuple[str, ...]:
        """Bring branch, folder and `.git` file back; return what was broken.

        The files of a lost folder are those of the last commit. All others stay as they are. A
        `.git` folder in the place of the file is moved out, beside the work tree.
        """
        link_faults, branch_faults = tuple(self._link_faults()), self._branch_faults()
        if not link_faults and not branch_faults:
            return ()
        if self._store.ask("cat-file", "-e", f"{self.tip}^{{commit}}").code:
            raise GitError(f"the commits of {self.branch} are gone from the repository")
        if branch_faults:
            self._store.run("update-ref", "--no-deref", "-m", "cao: repair", self.ref, self.tip)
        is_empty = not self.exists or self._is_marked_unfinished
        folder, beside = Folder(self.folder), Folder(self.folder.parent)
        try:
            if link_faults:
                if os.path.lexists(self.folder) and not self.exists:
                    self.folder.unlink()
                folder.make()
                if stat.S_ISDIR(folder.mode(".git")):
                    folder.move(".git", beside, beside.free_name(f"{self.folder.name}.git"))
                folder.remove(".git")
                remove_folder(self.entry)
                with tempfile.TemporaryDirectory(dir=beside.path, prefix=".link-") as scratch:
                    place = Path(scratch, self.entry.path.name)
                    self._add(str(place), self.branch)
                    Folder(place).move(".git", folder, ".git")
                    self._store.run("worktree", "repair", str(self.folder))
        except OSError as error:
            raise GitError(f"the work tree cannot be repaired: {in_words(error)}") from error
        if is_empty:
            self._fill()
            self.include()
        else:
            self._refresh()
            self.entry.remove("locked")
        return (*link_faults, *branch_faults)

    def commit(
        self, message: str, identity: Mapping[str, str], prepared: Collection[str] = ()
    ) -> Commit:
        """Commit all but what is `prepared`: what was there before the work, and is as it was."""
        if faults := self.faults():
            raise GitError(f"the work tree {self.folder} is damaged: {'; '.join(faults)}")
        parent = self.branch_tip()
        with self._own_index(identity) as git:
            git.run("read-tree", parent)
            if prepared:
                # What an agent has committed of it is work.
                since = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", self.tip, parent)
                prepared = set(prepared).difference(git.names(*since))
            changed, left_out = self._stage(git, prepared)
            if self.held_back:
                git.run("reset", "-q", self.tip, "--", *literal(self.held_back))
            tree, commit = git.text("write-tree"), parent
            if tree != git.text("rev-parse", f"{parent}^{{tree}}"):
                words = ("commit-tree", tree, "-p", parent)
                commit = git.text(*words, given=message.encode(errors="replace"))
                git.run("update-ref", "--no-deref", "-m", "cao: commit", self.ref, commit, parent)
            remarks = []
            # Since the last one of ours.
            if by_agents := git.text("rev-list", f"{self.tip}..{parent}").split():
                what = f"{len(by_agents)} commits in {self.branch}"
                remarks.append(f"{what} were made by an agent; they stay")
            if leaked := self.leaked(self.tip):
                named = first_names(leaked)
                remarks.append(f"an agent committed files that are yours alone: {named}")
            for name, files in filtered(git, changed).items():
                stored = f"stored as they are, not through the filter {name}"
                remarks.append(f"{stored}: {first_names(files)}")
        # Agents that ask for the status see that all is committed.
        self._refresh()
        return Commit(commit, tuple(left_out), tuple(remarks))

    def include(self) -> None:
        self._copy(self.included)

    def uncommitted(self) -> tuple[str, ...]:
        with self._own_index() as git:
            git.run("read-tree", self.ref)
            return tuple(path for path, _ in self._differences(git))

    def leaked(self, base: str) -> list[str]:
        if not self.included:
            return []
        log = ("log", "-z", "--format=", "--name-only", "--no-renames", "--no-ext-diff", "-m")
        touched = self._store.names(*log, f"{base}..{self.ref}", "--")
        return sorted({*touched} & {*self.included})

    def checked_out_elsewhere(self) -> str:
        folder = ""
        for line in self._store.names("worktree", "list", "--porcelain", "-z"):
            key, _, value = line.partition(" ")
            if key == "worktree":
                folder = value
            elif key == "branch" and value == self.ref and folder != str(self.folder):
                return folder
        return ""

    def remove(self, tip: str) -> None:
        try:
            if os.path.lexists(self.folder) and not self.exists:
                self.folder.unlink()
            remove_folder(Folder(self.folder.parent, (self.folder.name,)))
            remove_folder(self.entry)
        except OSError as error:
            raise GitError(f"the work tree cannot be removed: {in_words(error)}") from error
        if tip:
            self._store.run("update-ref", "--no-deref", "-d", self.ref, tip)

    def _add(self, *words: str) -> None:
        # Git gives up where it reads half of what another one is writing.
        with alone_in(self.repository.common_dir, LONGEST_WAIT):
            self._store.run("worktree", "add", "-q", "-f", "--lock", "--no-checkout", *words)

    def _link_faults(self) -> Iterator[str]:
        pointer = b"gitdir: " + os.fsencode(self.entry.path)
        if not self.exists:
            yield f"its folder {self.folder} is gone"
        elif _line(Folder(self.folder), ".git") != pointer:
            yield "its .git file is gone or changed"
        known = (_line(self.entry, "gitdir"), _line(self.entry, "commondir"))
        if known != (os.fsencode(self.folder / ".git"), b"../.."):
            yield "what git knows about it is gone or changed"
        elif _line(self.entry, "HEAD") != f"ref: {self.ref}".encode():
            yield f"the branch {self.branch} is not checked out in it"
        if self._is_marked_unfinished:
            yield "it was not finished when it was made"

    def _branch_faults(self) -> tuple[str, ...]:
        words = ("for-each-ref", f"--contains={self.tip}", "--format=%(refname)%(symref)")
        if self._store.ask(*words, self.ref).text == self.ref:
            return ()
        if self._store.ask("symbolic-ref", "-q", self.ref).code == 0:
            return (f"the branch {self.branch} was made another name of a branch",)
        now = self.branch_tip()
        if not now:
            return (f"the branch {self.branch} is gone",)
        return (f"the history of {self.branch} was rewritten; what it was is {now}",)

    @property
    def _is_marked_unfinished(self) -> bool:
        return _line(self.entry, "locked") in UNFINISHED

    def _fill(self) -> None:
        """Bring the files of the branch into the folder; none that is there is written over."""
        git = self._refresh()
        # It fails where a file is there already, too; named one by one they take far longer.
        done = git.ask("checkout-index", "--all", "-q", "--index")
        if git.run("ls-files", "-z", "--deleted"):
            raise GitFailed("checkout-index", done.code, done.complaint)
        self.entry.remove("locked")

    def _refresh(self) -> Git:
        """Let the index that agents see be that of the branch, without what is held back."""
        git = Git(self.entry.path, self.folder, self.environ, options=OPTIONS).defused()
        # An agent that was ended may have left it.
        self.entry.remove("index.lock")
        git.run("read-tree", self.ref)
        if self.held_back:
            # Git does not miss them in the work tree then, nor brings them back there.
            known = git.run("ls-files", "-z", "--", *literal(self.held_back))
            git.run("update-index", "-z", "--skip-worktree", "--stdin", given=known)
        git.ask("update-index", "-q", "--refresh")
        return git

    def _differences(self, git: Git) -> Iterator[tuple[str, bool]]:
        for name, letters in changed_files(git, "--untracked-files=all").items():
            path = name.rstrip("/")
            is_known = letters != "??"
            is_same = letters[1] == " "
            is_ours = is_of_cao(path, self.repository.prefix, self.folder, is_known=is_known)
            if not (is_same or is_ours or is_held(path, self.held_back)):
                yield path, is_known

    def _stage(self, git: Git, prepared: Collection[str]) -> tuple[list[str], list[LeftOut]]:
        changed, left_out = [], {}
        for path, is_known in self._differences(git):
            if path in prepared:
                continue
            status, reason = look_at(self.folder, path)
            if path in self.included:
                left_out[path] = PRIVATE
            elif not is_known and cache_of(path):
                left_out[cache_of(path)] = LEFT_BEHIND
            elif status is not None and stat.S_ISDIR(status.st_mode):
                left_out[path] = OWN_REPOSITORY
            elif reason:
                left_out[path] = reason
            else:
                changed.append(path)
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        git.run(*words, given=listed(changed))
        return changed, [LeftOut(path, reason) for path, reason in sorted(left_out.items())]

    def _included_by_list(self) -> list[str]:
        """Return the files that the list names, which is copied so that no link is followed."""
        users = self.repository.git(self.environ)
        try:
            patterns = Folder(users.work_tree).read(INCLUDE_FILE, 64 * 1024)
        except FileNotFoundError:
            return []
        with tempfile.NamedTemporaryFile(dir=self.folder.parent, prefix=".include-") as copy:
            copy.write(patterns)
            copy.flush()
            words = ("ls-files", "-z", "--others", "--ignored", f"--exclude-from={copy.name}")
            names = users.names(*words)
        apart = (*OURS, *self.held_back)
        return [name for name in names if not name.endswith("/") and not is_held(name, apart)]

    def _copy(self, names: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
        copied: list[str] = []
        remarks: list[str] = []
        room = 256 * 1024 * 1024
        for name in names:
            place = PurePosixPath(name)
            of = Folder(self.repository.top, place.parent.parts)
            to = Folder(self.folder, place.parent.parts)
            try:
                if to.mode(place.name):
                    remarks.append(f"{name} was not copied: the work tree has a file of that name")
                    continue
                data = of.read(place.name, min(LARGEST_COPY, room))
                mode = stat.S_IMODE(of.mode(place.name)) & 0o777
                to.create(place.name, data, mode, lasting=False)
                (to.path / place.name).chmod(mode)
            except OSError as error:
                remarks.append(f"{name} was not copied: {error.strerror or error}")
                continue
            room -= len(data)
            copied.append(name)
        return tuple(copied), remarks

    @property
    def _store(self) -> Git:
        common_dir = self.repository.common_dir
        return Git(common_dir, self.repository.top, self.environ, options=OPTIONS)

    @contextmanager
    def _own_index(self, identity: Mapping[str, str] = NOBODY) -> Iterator[Git]:
        """Yield git with an index that no agent could write to."""
        if not self.exists:
            raise GitError(f"the folder {self.folder} is gone")
        with tempfile.TemporaryDirectory(dir=self.folder.parent, prefix=".index-") as scratch:
            git = replace(self._store, work_tree=self.folder, index=Path(scratch, "index"))
            options = {**OPTIONS, **user_options(git)}
            yield replace(git, options=options, identity=identity).defused()


def _line(folder: Folder, name: str) -> bytes | None:
    with suppress(OSError):
        return folder.read(name, LONGEST_POINTER).strip()
    return None
