"""The work folder as it was at moments of a run: each a tree in a git directory of the run's own.

    snapshots = Snapshots(path, folder, find_repository(folder, environ), environ)
    before = snapshots.take(0, "start")
    after = snapshots.take(1, "programmer")
    snapshots.changes(before.tree, after.tree)

Tracked and untracked files are kept, ignored ones are not. The user's repository is never written:
its index, HEAD, branches, stash and configuration stay as they are. A snapshot names what it cannot
keep; where an earlier one had it, its tree goes on having that.

The git directory borrows the objects of the user's repository until they are copied, and starts
from a copy of its index, so that only what differs has to be read. It knows nothing of the
repository's settings and attributes: bytes are kept as they are, and no filter can run. Files are
named to git one by one: `git add -A` would ask each repository that lies in the folder for its
state, and run the filters in its configuration.

Paths are relative to the top of the repository, or to the work folder where there is none.
"""

import functools
import json
import os
import posixpath
import re
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from time import time
from typing import Any

from msgspec import Struct, convert, field
from msgspec.structs import replace

from ..core.codec import plain
from ..core.files import Folder
from ..errors import GitError, GitFailed
from ..settings.layout import TEMPORARY_FOLDER
from .changes import LINK_MODE, REPOSITORY_MODE, REST_LEFT_OUT, Change, LeftOut, read_changes
from .git import (
    LARGEST_INDEX,
    LONGEST_SECONDS,
    Git,
    Repository,
    alone_in,
    filtered,
    listed,
    literal,
    uncommitted,
    user_options,
)
from .held_back import is_held, lay

LARGEST_FILE = 50 * 1024 * 1024
TOO_LARGE = f"larger than {LARGEST_FILE // 1024 // 1024} MB"
OWN_REPOSITORY = "a repository of its own: only its commit id is kept"
NO_COMMIT = "a repository without a commit that can be read"
UNREADABLE = "it cannot be read"
ODD = "neither a file nor a link"
MOST_BYTES = 2 * 1024 * 1024 * 1024
LARGEST_DIFF = 8 * 1024 * 1024
LONGEST_WAIT = 120.0
OURS = (TEMPORARY_FOLDER, ".claude/.cc-writes")
MARKER = ".codex"
"""An empty file that one agent leaves behind."""
TAKEN_FILE = "taken.json"
"""Made last: a store without it is not complete."""
DRAFTS = ("*.lock", "objects/*/tmp_*")
"""What a killed process leaves in a store, besides folders."""
STAGING_PREFIX = "staging-"
OPTIONS = {
    "core.bare": "false",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    # A file that a sparse checkout leaves out counts as soon as it is there.
    "core.sparseCheckout": "true",
    "index.sparse": "false",
    "core.logAllRefUpdates": "false",
}
ATTRIBUTES = b"* -text !filter !diff !merge !ident !working-tree-encoding\n"
DIFF_OPTIONS = ("-r", "-M", "--no-ext-diff", "--no-textconv")
# 1b4f0e9851971998e732078544c96b36c3d01cedf7caa332359d6f1d83567014
ID_PATTERN = r"[0-9a-f]{40}([0-9a-f]{24})?"
# H 100644 d00491fd7e5bb6fa28c517a0bb32b8b506539d4d 0	path
ENTRY_PATTERN = r"(?s)(.) (\d+) ([0-9a-f]+) (\d)\t(.*)"
# warning: could not open directory 'src/': Permission denied
SHUT_PATTERN = r"(?m)^warning: could not open directory '(.+)/': "


class Snapshot(Struct, frozen=True):
    tree: str
    sequence: int
    label: str
    at: float
    left_out: tuple[LeftOut, ...] = ()
    private: tuple[str, ...] = ()
    """Files that only their owner may read; git does not keep that."""


class Found(Struct):
    to_store: list[str] = field(default_factory=list)
    to_forget: list[str] = field(default_factory=list)
    """No file of the work folder any more, whatever can be seen under its name."""
    repositories: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    private: list[str] = field(default_factory=list)
    size: int = 0


def look_at(top: Path, path: str) -> tuple[os.stat_result | None, str]:
    """Return what lies at a path, None if nothing does, and why git cannot keep it, or empty."""
    place = os.path.join(top, path)  # noqa: PTH118 - for 50,000 files
    try:
        status = os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return None, ""
    except OSError:
        return None, UNREADABLE
    if stat.S_ISLNK(status.st_mode):
        return status, ""
    if not stat.S_ISREG(status.st_mode):
        return status, ODD
    if status.st_size > LARGEST_FILE:
        return status, TOO_LARGE
    return status, "" if os.access(place, os.R_OK) else UNREADABLE


def is_of_cao(path: str, prefix: str, top: Path, *, is_known: bool) -> bool:
    """Is a path ours or an agent's, in the work folder `prefix` below the top or at the top itself?

    An empty file of an agent's is, unless it is known to be the project's.
    """
    if is_held(path, ours_below(prefix)):
        return True
    if is_known or path not in (MARKER, f"{prefix}/{MARKER}"):
        return False
    status, reason = look_at(top, path)
    return status is not None and not reason and not status.st_size


def ours_below(prefix: str) -> list[str]:
    starts = ("", f"{prefix}/") if prefix else ("",)
    return [f"{start}{name}" for start in starts for name in OURS]


def has_snapshots(path: Path) -> bool:
    return (path / TAKEN_FILE).is_file()


class Snapshots:
    def __init__(
        self,
        path: Path,
        folder: Path,
        repository: Repository | None,
        environ: Mapping[str, str],
        *,
        whole: bool = False,
        apart: Sequence[str] = (),
        most_files: int = 100_000,
    ) -> None:
        """Take where the store is, the work folder, and the repository that this lies in, if any.

        `whole`: is everything below the top the run's? What is `apart` is in no snapshot. The limit
        is for files of a first snapshot that no repository has.
        """
        self.path = path
        self.environ = environ
        self.repository = repository
        self._top = folder if repository is None else repository.top
        self._prefix = "" if repository is None else repository.prefix
        self._reach = "" if whole else self._prefix
        self._apart = tuple(apart)
        self._most_files = most_files
        self._git = Git(path, self._top, environ, options=OPTIONS)
        self._written: tuple[tuple[int, ...], str] = (), ""
        """What the system says of the index, and the tree that was last written from it."""

    @property
    def has_any(self) -> bool:
        return has_snapshots(self.path)

    def all(self) -> tuple[Snapshot, ...]:
        """Return all snapshots in the order in which they were taken."""
        return convert(self._notes().get("taken", ()), tuple[Snapshot, ...])

    @property
    def base(self) -> str:
        return str(self._notes().get("base", ""))

    def take(self, sequence: int, label: str, *, after: Snapshot | None = None) -> Snapshot:
        """Keep the folder under a new or known number; return `after` if it is the same as that."""
        if not self._top.is_dir():
            raise GitError(f"{self._top} is not there any more; there is nothing to keep")
        if self.repository is not None and self._top.is_symlink():
            raise GitError(f"{self._top} is a link now; nothing is kept of where it leads")
        with self._held() as git:
            tree, found = self._gather(git)
            left_out = tuple(found.left_out)
            if after is not None and (tree, left_out) == (after.tree, after.left_out):
                return after
            taken = self.all()
            last = taken[-1] if taken else None
            known = () if last is None else last.private
            private = {*found.private, *known}.difference(
                path for path in found.to_store if path not in found.private
            )
            snapshot = Snapshot(tree, sequence, label, time(), left_out, tuple(sorted(private)))
            kept = [one for one in taken if one.sequence != sequence]
            self._note(taken=plain([*kept, snapshot]))
        return snapshot

    def keep_base(self, start: Snapshot) -> tuple[str, ...]:
        """Keep what is committed beside the first snapshot; return what the user has changed since.

        A file whose bytes differ only by how git lays it out is as it is in the snapshot.
        """
        if self.repository is None or not self.repository.head:
            return ()
        head = self.repository.head
        found = [
            one for one in self.changes(head, start.tree) if not is_held(one.path, self._apart)
        ]
        is_unsure = any(_may_be_same(one) for one in found)
        changed = uncommitted(self.repository, self.environ) if is_unsure else {}
        dirty = [one for one in found if not _may_be_same(one) or one.path in changed]
        paths = {path for one in dirty for path in (one.path, one.old_path)}
        tree = start.tree
        with self._held() as git, self._staging() as scratch:
            if paths:
                git = replace(git, index=Path(shutil.copy(self.path / "index", scratch)))
                entries = [f"0 {'0' * len(head)}\t{path}" for path in paths]
                if any(one.status != "A" for one in dirty):
                    committed = git.names("ls-tree", "-r", "-z", head)
                    entries += [one for one in committed if one.partition("\t")[2] in paths]
                git.run("update-index", "-z", "--index-info", given=listed(entries))
                tree = git.text("write-tree")
            self._note(base=tree)
        return tuple(one.path for one in dirty)

    def changes(self, old: str, new: str) -> tuple[Change, ...]:
        if old == new:
            return ()
        words = ("diff-tree", "-z", "--raw", "--numstat", *DIFF_OPTIONS, *_ids(old, new), "--")
        return read_changes(self._git.text(*words, *self._within()))

    def diff(
        self,
        old: str,
        new: str,
        *,
        stat: bool = False,
        paths: Sequence[str] = (),
        limit: int = LARGEST_DIFF,
    ) -> bytes:
        return self.diffs([(old, new)], stat=stat, paths=paths, limit=limit)[0]

    def diffs(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        stat: bool = False,
        paths: Sequence[str] = (),
        limit: int = LARGEST_DIFF,
    ) -> list[bytes]:
        """Return the difference of each pair by one call of git, up to a limit for all together."""
        form = ("--stat=100", "--summary") if stat else ("-p",)
        words = ("diff-tree", "--stdin", *form, *DIFF_OPTIONS, "--", *self._within(paths))
        asked = [" ".join(_ids(*pair)) for pair in pairs]
        given = "\n".join([*asked, ""]).encode()
        # Git repeats what it was given.
        answer = self._git.ask(*words, given=given, limit=limit + len(given))
        if answer.code and not answer.is_cut:
            raise GitFailed("diff-tree", answer.code, answer.complaint)
        rest = b"\n" + answer.output
        if answer.is_cut:
            rest = rest.rpartition(b"\n")[0] + f"\n{REST_LEFT_OUT}\n".encode()
        patches: list[bytes] = []
        for line in reversed(asked):
            # Git writes each pair on a line of its own; no line of a patch is like that.
            before, mark, patch = rest.rpartition(f"\n{line}\n".encode())
            patches.append(patch if mark else b"")
            rest = before + b"\n" if mark else rest
        return patches[::-1]

    def read(self, tree: str, path: str, limit: int) -> bytes | None:
        answer = self._git.ask("cat-file", "blob", f"{_ids(tree)[0]}:{path}", limit=limit)
        return answer.output if answer.is_cut or answer.code == 0 else None

    def files(self, tree: str) -> list[str]:
        entries = self._git.names("ls-tree", "-r", "-z", *_ids(tree))
        return [one.partition("\t")[2] for one in entries if not one.startswith(REPOSITORY_MODE)]

    def links(self, tree: str) -> dict[str, str]:
        heads = (one.partition("\t")[::2] for one in self._git.names("ls-tree", "-r", "-z", tree))
        blobs = {path: head.split()[2] for head, path in heads if head.startswith(LINK_MODE)}
        if not blobs:
            return {}
        given = "".join(f"{blob}\n" for blob in blobs.values()).encode()
        output = self._git.run("cat-file", "--batch", given=given)
        found = {}
        for path in blobs:
            # "<id> blob <size>", and so many bytes below it
            head, _, rest = output.partition(b"\n")
            size = int(head.split()[2])
            above, target = posixpath.dirname(path), os.fsdecode(rest[:size])
            found[path] = posixpath.normpath(posixpath.join(above, target))
            output = rest[size + 1 :]
        return found

    def mentioning(self, tree: str, word: str) -> tuple[str, ...]:
        answer = self._git.ask("grep", "-l", "-z", "-w", "-F", "-e", word, *_ids(tree))
        if answer.code > 1:
            raise GitFailed("grep", answer.code, answer.complaint)
        return tuple(one.removeprefix(f"{tree}:") for one in answer.names)

    def lay_out(self, tree: str, folder: Path, paths: Iterable[str] | None = None) -> None:
        """Put all files of a snapshot, or some, into a folder that is new or empty."""
        folder.mkdir(parents=True, exist_ok=True)
        with self._staging() as scratch:
            git = replace(self._git, work_tree=folder, index=scratch / "index")
            git.run("read-tree", *_ids(tree))
            if paths is None:
                git.run("checkout-index", "-a", "-q")
            else:
                git.run("checkout-index", "-q", "-z", "--stdin", given=listed(paths))

    def lay_over(self, tree: str, folder: Path, paths: Sequence[str]) -> None:
        """Put some paths of a snapshot over what is laid out; what it does not have is removed."""
        wanted: dict[str, list[str]] = {asked.rstrip("/"): [] for asked in paths}
        for path in self.files(tree):
            for above in {path, *map(str, PurePosixPath(path).parents)} & wanted.keys():
                wanted[above].append(path)
        files = [path for found in wanted.values() for path in found]
        missing = [asked for asked, found in wanted.items() if not found]
        with self._staging() as scratch:
            self.lay_out(tree, scratch / "files", files)
            lay(folder, scratch / "files", files, missing, is_ours=True)

    def differing(self, tree: str) -> tuple[Change, ...]:
        with self._held() as git:
            return tuple(self._differing(git, tree, ()))

    def restore(self, tree: str, paths: Sequence[str] | None = None) -> tuple[str, ...]:
        """Bring all or some paths back to a snapshot, but no ignored files; return what changed."""
        if self._top.is_symlink():
            raise GitError(f"{self._top} is a link now; nothing is put where it leads")
        self._top.mkdir(parents=True, exist_ok=True)
        private = {path for one in self.all() if one.tree == tree for path in one.private}
        keep = tuple(self._prefix.split("/")) if self._prefix else ()
        with self._held() as git, self._staging() as scratch:
            differ = [] if paths == [] else list(self._differing(git, tree, paths or ()))
            files = [one.path for one in differ if one.status != "D"]
            gone = [one.path for one in differ if one.status == "D"]
            # Laid out first: if something of it cannot be read, nothing is touched.
            self.lay_out(tree, scratch / "files", files)
            source = scratch / "files"
            done = lay(self._top, source, files, gone, is_ours=False, keep=keep, private=private)
        return tuple(sorted(done))

    def through_filters(self, paths: Collection[str]) -> tuple[LeftOut, ...]:
        """Return which files go through a filter (Git LFS): a snapshot may have what git stores."""
        if self.repository is None or not paths:
            return ()
        found = filtered(self.repository.git(self.environ), paths)
        return tuple(
            LeftOut(path, f"it goes through the filter {name}, which is not run")
            for name in found
            for path in found[name]
        )

    def keep_for_good(self, seconds: float = LONGEST_SECONDS) -> None:
        """Copy what is borrowed from the user's repository, so that it may change in any way."""
        borrowed = self.path / "objects/info/alternates"
        if not borrowed.exists():
            return
        trees = dict.fromkeys([*(one.tree for one in self.all()), self.base])
        # What is packed already is taken as it is; the rest is not worth the time.
        options = {**OPTIONS, "pack.window": "0", "pack.compression": "1"}
        with self._held() as git:
            git = replace(git, options=options, seconds=seconds)
            pack = str(self.path / "objects/pack/pack")
            given = "".join(f"{tree}\n" for tree in trees if tree)
            git.run("pack-objects", "-q", "--revs", "--non-empty", pack, given=given.encode())
            git.run("prune-packed", "-q")
            borrowed.unlink()

    def _differing(self, git: Git, tree: str, paths: Sequence[str]) -> Iterator[Change]:
        now, found = self._gather(git)
        words = ("diff-tree", "-r", "-z", "--raw", "--no-renames", now, *_ids(tree), "--")
        then = {left.path for one in self.all() if one.tree == tree for left in one.left_out}
        present = {one.path for one in found.left_out}
        for one in read_changes(git.text(*words, *self._within(paths))):
            parts = one.path.split("/")
            above = {"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
            if not (one.is_repository or above & then or one.path in present):
                yield one

    def _gather(self, git: Git) -> tuple[str, Found]:
        is_new = not self.has_any
        more, repositories = self._prepare_index(git) if is_new else ([], [])
        for one in self.all()[-1:]:
            repositories = [left.path for left in one.left_out if left.reason == OWN_REPOSITORY]
        found = self._look(git, more)
        files = len(found.to_store) - len(more)
        if is_new and (files > self._most_files or found.size > MOST_BYTES):
            raise GitError(
                f"{self._top} has {files} files ({found.size // 1024 // 1024} MB) that are in no "
                "repository, too many to keep; commit them, ignore them (.gitignore), or work in "
                "a smaller folder"
            )
        update = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        for path in found.repositories:
            is_kept = git.ask(*update, given=listed([path])).code == 0
            found.left_out.append(LeftOut(path, OWN_REPOSITORY if is_kept else NO_COMMIT))
        found.left_out += [
            LeftOut(path, OWN_REPOSITORY)
            for path in repositories
            if path not in found.repositories and os.path.lexists(self._top / path / ".git")
        ]
        if found.to_forget:
            words = ("update-index", "-z", "--force-remove", "--stdin")
            git.run(*words, given=listed(found.to_forget))
        if found.to_store:
            git.run(*update, given=listed(found.to_store))
        found.left_out.sort(key=lambda one: one.path)
        if self._index_state() != self._written[0]:
            tree = git.text("write-tree")
            self._written = self._index_state(), tree
        return self._written[1], found

    def _index_state(self) -> tuple[int, ...]:
        with suppress(FileNotFoundError):
            status = (self.path / "index").stat()
            return status.st_ino, status.st_mtime_ns, status.st_size
        return (0,)

    def _prepare_index(self, git: Git) -> tuple[list[str], list[str]]:
        """Correct the copy of the user's index; return paths to read again, and repositories."""
        index = git.ask("ls-files", "-v", "-s", "-z")
        if index.code:
            (self.path / "index").unlink(missing_ok=True)
            if self.repository is not None and self.repository.head:
                git.run("read-tree", self.repository.head)
            index = git.checked("ls-files", "-v", "-s", "-z")
        trusted, again, apart, repositories, blobs = [], set(), [], [], {}
        for entry in index.names:
            if match := re.fullmatch(ENTRY_PATTERN, entry):
                tag, mode, blob, stage, path = match.groups()
                if tag.islower():
                    trusted.append(path)
                if is_held(path, self._apart):
                    apart.append(path)
                elif stage != "0":
                    again.add(path)
                elif mode == REPOSITORY_MODE:
                    repositories.append(path)
                elif mode in ("100644", "100755"):
                    blobs[path] = blob
        if trusted:
            words = ("update-index", "-z", "--no-assume-unchanged", "--stdin")
            git.run(*words, given=listed(trusted))
        # So that later looks need not read each file; it fails if there are changes.
        git.ask("update-index", "-q", "--refresh")
        again.update(self._laid_out_otherwise(git, blobs))
        if again or apart:
            words = ("update-index", "-z", "--force-remove", "--stdin")
            git.run(*words, given=listed([*again, *apart]))
        return sorted(again), repositories

    def _laid_out_otherwise(self, git: Git, blobs: Mapping[str, str]) -> list[str]:
        """Return which files have other line ends than their blobs, and so another size.

        Not those that go through a filter: what is stored may stand for a large file elsewhere.
        """
        if self.repository is None or not blobs:
            return []
        users = self.repository.git(self.environ)
        has_attributes = (self.repository.common_dir / "info/attributes").exists() or any(
            path.rpartition("/")[2] == ".gitattributes" for path in blobs
        )
        if not has_attributes and not self._user_options.keys() - {"core.excludesfile"}:
            return []
        asked = "".join(f"{blob}\n" for blob in blobs.values()).encode()
        sizes = git.text("cat-file", "--batch-check=%(objectsize)", given=asked).split("\n")
        found = []
        for path, size in zip(blobs, sizes, strict=True):
            with suppress(OSError):
                if str((self._top / path).lstat().st_size) != size:
                    found.append(path)
        through = {path for paths in filtered(users, found).values() for path in paths}
        return [path for path in found if path not in through]

    def _look(self, git: Git, more: Collection[str]) -> Found:
        """Return what may differ from the index, and `more` paths, by what can be done with it.

        Each is looked at before git reads it: git would follow a link on the way to it, or give up
        at the first that it cannot keep.
        """
        words = ("ls-files", "-t", "-z", "-m", "-o", "--exclude-standard", "--", *self._within())
        answer = replace(git, seconds=120.0).checked(*words)
        # `C changed.txt`, `? new.txt`
        seen = {name[2:]: name[0] != "?" for name in answer.names} | dict.fromkeys(more, True)
        found = Found()
        top = str(self._top)

        @functools.cache
        def is_plain(folder: str) -> bool:
            path = os.path.join(top, folder) if folder else top  # noqa: PTH118 - for 50,000 files
            return os.path.realpath(path) == path

        for name, is_known in seen.items():
            path = name.rstrip("/")
            if self._is_apart(path, is_known=is_known):
                continue
            if not is_plain(path.rpartition("/")[0]):
                found.to_forget.append(path)
                continue
            status, reason = look_at(self._top, path)
            if status is not None and stat.S_ISDIR(status.st_mode):
                # Either it is a repository, or it replaced a file: then its files are listed.
                is_repository = os.path.lexists(self._top / path / ".git")
                (found.repositories if is_repository else found.to_forget).append(path)
            elif reason:
                found.left_out.append(LeftOut(path, reason))
                found.to_forget += [path] * (is_known and reason == ODD)
            else:
                found.to_store.append(path)
            if status is not None and not reason:
                found.size += status.st_size
                if stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077:
                    found.private.append(path)
        shut = re.findall(SHUT_PATTERN, answer.complaint)
        found.left_out += [LeftOut(path, UNREADABLE) for path in shut if not self._is_apart(path)]
        return found

    def _is_apart(self, path: str, *, is_known: bool = True) -> bool:
        is_ours = is_of_cao(path, self._prefix, self._top, is_known=is_known)
        return is_ours or is_held(path, self._apart)

    def _within(self, paths: Sequence[str] = ()) -> list[str]:
        return literal(paths or ([self._reach] if self._reach else []))

    @contextmanager
    def _staging(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self.path, prefix=STAGING_PREFIX) as scratch:
            yield Path(scratch)

    # Any: JSON
    def _notes(self) -> dict[str, Any]:
        try:
            notes: dict[str, Any] = json.loads(Folder(self.path).read(TAKEN_FILE))
        except FileNotFoundError:
            return {}
        return notes

    def _note(self, **news: object) -> None:
        text = json.dumps({**self._notes(), **news})
        Folder(self.path, private=True).replace(TAKEN_FILE, text.encode(), lasting=False)

    @contextmanager
    def _held(self) -> Iterator[Git]:
        """Hold the store, which is made if need be, and yield git that works on it.

        Each git that is started holds it, too: one that outlives a killed process is waited for.
        """
        Folder(self.path, private=True).make()
        with alone_in(self.path, LONGEST_WAIT) as held:
            if held is None:
                raise GitError(
                    f"another process, or git of a run that was killed, is still at work in "
                    f"{self.path}; wait for its end, or end it"
                )
            git = replace(self._git, inherited=(held,))
            self._remove_drafts()
            if not self.has_any:
                self._make(git)
            try:
                yield git
            except GitError:
                # Where the disk is full, what was half written must not stay on it.
                self._remove_drafts()
                raise

    def _remove_drafts(self) -> None:
        for left in (path for pattern in DRAFTS for path in self.path.glob(pattern)):
            left.unlink(missing_ok=True)
        for left in self.path.glob(f"{STAGING_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)

    @functools.cached_property
    def _user_options(self) -> Mapping[str, str]:
        alone = Git(self.path, self.path, self.environ)
        return user_options(self.repository.git(self.environ) if self.repository else alone)

    def _make(self, git: Git) -> None:
        """Make the store. A second time does no harm: what a killed process began is completed."""
        repository = self.repository
        object_format, exclude, alternates = "sha1", b"", b""
        if repository is not None:
            if not repository.inodes:
                raise GitError(f"the repository of {repository.top} is gone")
            object_format = "sha256" if len(repository.head) > 40 else "sha1"
            if not repository.head:
                users = repository.git(self.environ)
                object_format = users.text("rev-parse", "--show-object-format")
            alternates = os.fsencode(repository.common_dir / "objects") + b"\n"
            with suppress(OSError):
                exclude = Folder(repository.common_dir, ("info",)).read("exclude") + b"\n"
        replace(git, work_tree=self.path).run(
            "init", "-q", "--template=", f"--object-format={object_format}"
        )
        ours = ours_below(self._prefix)
        ours = [re.sub(r"[\\*?\[\]#! ]", r"\\\g<0>", f"/{name}/") for name in ours]
        info = Folder(self.path, ("info",), private=True)
        info.replace("exclude", exclude + b"".join(os.fsencode(line) + b"\n" for line in ours))
        info.replace("attributes", ATTRIBUTES)
        Folder(self.path, ("objects", "info"), private=True).replace("alternates", alternates)
        ignored = self._user_options.get("core.excludesfile", "")
        if ignored and Path(ignored).is_file():
            git.run("config", "core.excludesFile", ignored)
        (self.path / "index").unlink(missing_ok=True)
        if repository is None:
            return
        of, to = Folder(repository.git_dir), Folder(self.path, private=True)
        with suppress(OSError):
            # A split index has its other part in files of that name.
            for name in of.names():
                if name == "index" or name.startswith("sharedindex."):
                    to.replace(name, of.read(name, LARGEST_INDEX), lasting=False)
            if (status := of.status("index")) is not None:
                # By it git knows which files may have changed after it read them.
                os.utime(self.path / "index", ns=(status.st_atime_ns, status.st_mtime_ns))


def _may_be_same(change: Change) -> bool:
    """Can a file be as it is committed though its bytes are not, by how git lays it out?"""
    return change.status in ("M", "T") and not change.is_repository


def _ids(*trees: str) -> tuple[str, ...]:
    for tree in trees:
        if not re.fullmatch(ID_PATTERN, tree):
            raise GitError(f"{tree!r} is not the id of a snapshot")
    return trees
