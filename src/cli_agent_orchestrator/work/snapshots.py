"""The work folder as it was at moments of a run: each a commit in a git directory of the run's own.

    repository = find_repository(folder, environ)
    snapshots = Snapshots(Store(path, folder, repository, environ))
    before = snapshots.take(0, "start")
    after = snapshots.take(1, "programmer")
    snapshots.changes(before.commit, after.commit)

Tracked and untracked files are kept, ignored ones are not. Nothing of the user's repository is
written: its index, HEAD, branches, stash and configuration stay as they are. What cannot be kept is
named in the snapshot; where an earlier one had it, its tree goes on having that.

Paths are relative to the top of the repository, or to the work folder where there is none. Only
what lies in the work folder counts, or all of a work tree that is the run's own, and nothing that
is kept apart.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ..core.clock import Clock, SystemClock
from ..errors import GitError, GitFailed
from .changes import REPOSITORY_MODE, REST_LEFT_OUT, Change, read_changes
from .gathering import LIMITS, Gathering, LookLimits, Scope
from .git import LONGEST_SECONDS
from .held_back import Laying
from .left_out import UNREADABLE, LeftOut, Untouched, open_to_owner
from .store import Store

__all__ = ["Change", "LeftOut", "Scope", "Snapshot", "Snapshots"]

REFS = "refs/cao/"
BASE_REF = "refs/cao-base"
LARGEST_DIFF = 8 * 1024 * 1024
DIFF_OPTIONS = ("-r", "-M", "--no-ext-diff", "--no-textconv")
DEEPEST_SHUT = 32
"""Folders in each other that nobody may read, which are made readable."""
TICK = 0.001
"""Seconds at least from one snapshot to the next."""
# 1b4f0e9851971998e732078544c96b36c3d01cedf7caa332359d6f1d83567014
ID_PATTERN = r"[0-9a-f]{40}([0-9a-f]{24})?"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The work folder at one moment."""

    commit: str
    tree: str
    sequence: int
    label: str
    at: float
    left_out: tuple[LeftOut, ...]


def last_of(taken: Iterable[Snapshot]) -> Snapshot:
    """Return the one that was taken last: a turn may have a lower number than what came since."""
    return max(taken, key=lambda one: one.at)


class Snapshots:
    """All snapshots of one run."""

    def __init__(
        self,
        store: Store,
        clock: Clock | None = None,
        scope: Scope | None = None,
        limits: LookLimits = LIMITS,
    ) -> None:
        self._store = store
        self._top = store.git.work_tree
        self._repository = store.repository
        self._git = store.reader
        self._clock = clock or SystemClock()
        self._gathering = Gathering(store, scope or Scope(), limits)
        self._newest: float | None = None

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of git."""
        return self._git.environ

    def take(self, sequence: int, label: str) -> Snapshot:
        """Keep the work folder as it is now; the same sequence again takes the place of the first.

        It may change meanwhile: each file is kept as it was at some moment of that time.
        """
        if not self._top.is_dir():
            raise GitError(f"{self._top} is not there any more; there is nothing to keep")
        if self._repository is not None and self._top.is_symlink():
            raise GitError(f"{self._top} is a link now; nothing is kept of where it leads")
        with self._store.opened(self._gathering.ignored()) as is_new:
            tree, left_out = self._gathering.gather(is_new, self._last_commit)
            at = self._newest = self._later_time()
            about = {"label": label, "at": at, "left_out": [asdict(one) for one in left_out]}
            commit = self._git.text("commit-tree", tree, given=json.dumps(about).encode())
            self._git.run("update-ref", f"{REFS}{sequence:06d}", commit)
            if is_new:
                self._store.mark_ready()
        return Snapshot(commit, tree, sequence, label, at, left_out)

    def _later_time(self) -> float:
        """Return the time, or one after all others: a clock may go back, and it tells the order."""
        if self._newest is None:
            self._newest = max((one.at for one in self.all()), default=0.0)
        return max(self._clock.now(), self._newest + TICK)

    @property
    def has_any(self) -> bool:
        """Has one been taken? No git is asked."""
        return self._store.is_ready

    def all(self) -> tuple[Snapshot, ...]:
        """Return all snapshots, oldest first."""
        if not self._store.is_ready:
            return ()
        fields = "%(refname)%00%(objectname)%00%(tree)%00%(contents)%00"
        listed = self._git.text("for-each-ref", f"--format={fields}", REFS).split("\0")
        found = []
        for name, commit, tree, about in zip(*(listed[i::4] for i in range(4)), strict=False):
            sequence = int(name.rpartition("/")[2])
            found.append(_read_snapshot(commit, tree, sequence, about))
        return tuple(found)

    def keep_base(self, head: str, start: Snapshot, same: Collection[str]) -> str:
        """Keep what is committed as the first snapshot has it, and return that commit.

        Files that are the same but for how git lays them out are as they are in the snapshot.
        """
        with self._store.opened(self._gathering.ignored()):
            tree = self._store.overlaid(_ids(head)[0], start.commit, same)
            commit = self._git.text("commit-tree", tree, given=b"base")
            self._git.run("update-ref", BASE_REF, commit)
        return commit

    @property
    def base(self) -> str:
        """What was committed when the run began, as a commit of ours; empty if nothing was."""
        return self._git.ask("rev-parse", "--verify", "-q", BASE_REF).text

    def changes(self, old: str, new: str) -> tuple[Change, ...]:
        """Return what is different in `new`."""
        words = ("diff-tree", "-z", "--raw", "--numstat", *DIFF_OPTIONS, *_ids(old, new), "--")
        return read_changes(self._git.text(*words, *self._gathering.within()))

    def diff(
        self,
        old: str,
        new: str,
        *,
        stat: bool = False,
        paths: Sequence[str] = (),
        limit: int = LARGEST_DIFF,
    ) -> bytes:
        """Return what is different in `new` as a patch, or as a table; a very long one is cut."""
        form = ("--stat=100", "--summary") if stat else ("-p",)
        words = ("diff-tree", *form, *DIFF_OPTIONS, *_ids(old, new), "--")
        answer = self._git.ask(*words, *self._gathering.within(paths), limit=limit)
        if answer.is_cut:
            shown, _, _ = answer.output.rpartition(b"\n")
            return shown + f"\n{REST_LEFT_OUT}\n".encode()
        if answer.code:
            raise GitFailed("diff-tree", answer.code, answer.complaint)
        return answer.output

    def diffs(self, pairs: Sequence[tuple[str, str]], limit: int = LARGEST_DIFF) -> list[bytes]:
        """Return what is different in the second of two trees, for each pair, by one call of git.

        Of what is longer than the limit in all, the rest of a patch and all after it are left out.
        """
        if not pairs:
            return []
        asked = [" ".join(_ids(*pair)) for pair in pairs]
        words = ("diff-tree", "--stdin", "-p", *DIFF_OPTIONS, "--", *self._gathering.within())
        given = "".join(f"{line}\n" for line in asked).encode()
        answer = self._git.ask(*words, given=given, limit=limit)
        if answer.code and not answer.is_cut:
            raise GitFailed("diff-tree", answer.code, answer.complaint)
        return _split_diffs(answer.output, asked, is_cut=answer.is_cut)

    def read(self, commit: str, path: str, limit: int) -> bytes | None:
        """Return a file of a snapshot, up to a limit, or None if it is not there."""
        answer = self._git.ask("cat-file", "blob", f"{_ids(commit)[0]}:{path}", limit=limit)
        return answer.output if answer.is_cut or answer.code == 0 else None

    def mentioning(self, commit: str, word: str) -> tuple[str, ...]:
        """Return the files of a snapshot in which a word stands."""
        words = ("grep", "-l", "-z", "-w", "-F", "-e", word, *_ids(commit))
        answer = self._git.ask(*words)
        if answer.code > 1:
            raise GitFailed("grep", answer.code, answer.complaint)
        listed = answer.output.decode(errors="surrogateescape").split("\0")
        return tuple(one.removeprefix(f"{commit}:") for one in listed if one)

    def lay_out(self, commit: str, folder: Path) -> None:
        """Put a snapshot into an empty folder, which is made if it is not there."""
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise GitError(f"{folder} is not empty; a snapshot needs a folder of its own")
        self._store.lay_out(_ids(commit)[0], folder)

    def lay_over(self, commit: str, folder: Path, paths: Sequence[str]) -> None:
        """Put some files of a snapshot, or all below some folders, over what is laid out.

        A path that the snapshot does not have is removed.
        """
        wanted: dict[str, list[str]] = {asked.rstrip("/"): [] for asked in paths}
        for path in self.files(commit):
            for above in {path, *map(str, PurePosixPath(path).parents)} & wanted.keys():
                wanted[above].append(path)
        files = [path for found in wanted.values() for path in found]
        laying = Laying(folder, is_ours=True)
        laying.remove(asked for asked, found in wanted.items() if not found)
        with self._store.laid_out(commit, files) as source:
            laying.put(files, source)
        laying.check()

    def restore(self, commit: str, paths: Sequence[str] | None = None) -> tuple[str, ...]:
        """Bring the work folder, or some paths of it, back to a snapshot; return what changed.

        Files that were made since are removed. Ignored files, and what either state could not
        keep, are left alone.
        """
        if self._top.is_symlink():
            raise GitError(f"{self._top} is a link now; nothing is put where it leads")
        self._top.mkdir(parents=True, exist_ok=True)
        laying = Laying(self._top, is_ours=False, keep=self._gathering.folder)
        with self._store.opened(self._gathering.ignored()) as is_new:
            differ = self._differing(commit, paths or (), is_new)
            files = [one.path for one in differ if one.status != "D"]
            # Laid out first: if something of it cannot be read, nothing is touched.
            with self._store.laid_out(commit, files) as source:
                laying.remove(one.path for one in differ if one.status == "D")
                laying.put(files, source)
        laying.check()
        return tuple(sorted(laying.done))

    def differing(self, commit: str) -> tuple[Change, ...]:
        """Return what a restore would do now; `D` is what it would remove."""
        with self._store.opened(self._gathering.ignored()) as is_new:
            return tuple(self._differing(commit, (), is_new))

    def make_readable(self, but: Iterable[LeftOut]) -> tuple[str, ...]:
        """Let the user read what is theirs and cannot be read; return what that was.

        Only so can it be kept before something else takes its place. What was so before is left.
        """
        before = {one.path for one in but}
        done: set[str] = set()
        with self._store.opened(self._gathering.ignored()) as is_new:
            for _ in range(DEEPEST_SHUT):
                _, left_out = self._gathering.gather(is_new, self._last_commit)
                shut = {one.path for one in left_out if one.reason == UNREADABLE} - done - before
                opened = {path for path in sorted(shut) if open_to_owner(self._top / path)}
                if not opened:
                    break
                done |= opened
        return tuple(sorted(done))

    def keep_for_good(self, seconds: float = LONGEST_SECONDS) -> None:
        """Copy what is borrowed from the user's repository, so that it may change in any way."""
        with self._store.opened(self._gathering.ignored()):
            self._store.copy_borrowed(seconds)

    def _differing(self, commit: str, paths: Sequence[str], is_new: bool) -> list[Change]:
        """Return how a snapshot differs from what is there now, without what is left alone."""
        left_out = self._left_out_of(commit)
        tree, present = self._gathering.gather(is_new, self._last_commit)
        words = ("diff-tree", "-r", "-z", "--raw", "--no-renames", tree, commit, "--")
        listed = self._git.text(*words, *self._gathering.within(paths))
        untouched = Untouched(left_out, present)
        return [
            one
            for one in read_changes(listed)
            if self._gathering.is_inside(one.path) and not untouched.has(one)
        ]

    def files(self, commit: str) -> list[str]:
        """Return the files and links of a snapshot."""
        listed = self._git.names("ls-tree", "-r", "-z", *_ids(commit))
        return [one.partition("\t")[2] for one in listed if not one.startswith(REPOSITORY_MODE)]

    def _left_out_of(self, commit: str) -> tuple[LeftOut, ...]:
        _, _, about = self._git.text("cat-file", "commit", *_ids(commit)).partition("\n\n")
        return _read_snapshot("", "", 0, about).left_out

    def _last_commit(self) -> str:
        """Return the newest snapshot, or else what the user has checked out."""
        taken = self.all()
        if taken:
            return last_of(taken).commit
        return "" if self._repository is None else self._repository.head


def _read_snapshot(commit: str, tree: str, sequence: int, about: str) -> Snapshot:
    # Any: JSON
    said: dict[str, Any] = json.loads(about)
    left_out = tuple(LeftOut(**one) for one in said["left_out"])
    return Snapshot(commit, tree, sequence, said["label"], said["at"], left_out)


def _ids(*commits: str) -> tuple[str, ...]:
    for commit in commits:
        if not re.fullmatch(ID_PATTERN, commit):
            raise GitError(f"{commit!r} is not the id of a snapshot")
    return commits


def _split_diffs(output: bytes, asked: Sequence[str], *, is_cut: bool) -> list[bytes]:
    """Return the patch of each pair; git writes the pair on a line of its own before it.

    No line of a patch is like that: those of files have a mark before them.
    """
    written, at = b"\n" + output, 0
    starts: list[int] = []
    for line in asked:
        at = written.find(f"\n{line}\n".encode(), at)
        if at < 0:
            break
        starts.append(at)
    ends = [*starts[1:], len(written)]
    found = [
        written[start + len(line) + 2 : end + 1]
        for start, end, line in zip(starts, ends, asked, strict=False)
    ]
    if is_cut and found:
        found[-1] = found[-1].rpartition(b"\n")[0] + f"\n{REST_LEFT_OUT}\n".encode()
    return [*found, *([b""] * (len(asked) - len(found)))]
