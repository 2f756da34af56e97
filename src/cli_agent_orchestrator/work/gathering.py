"""Brings the index of a store up to date with the work folder, by as few looks as will do.

Git lists what may differ from the index; each of these is looked at here before git reads it, since
git would follow a link on the way, wait for a pipe or give up at the first that it cannot keep.
"""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..core.files import Folder
from ..errors import GitError, GitFailed
from .held_back import is_held
from .left_out import (
    NO_COMMIT,
    OURS,
    OWN_REPOSITORY,
    UNREADABLE,
    LeftOut,
    Sorted,
    is_ours,
    odd_files,
    refuse_pipes,
    sort_out,
    starts,
    walk,
)
from .store import Store, listed

TRIES = 100
"""How many files may become unreadable while they are read."""
# fatal: Unable to process path src/secret.txt
REFUSED_PATTERN = r"(?s)Unable to process path (.*)\Z"
FILE_MODES = ("100644", "100755")
# H 100644 d00491fd7e5bb6fa28c517a0bb32b8b506539d4d 0	path
ENTRY_PATTERN = r"(?s)(.) (\d+) ([0-9a-f]+) (\d)\t(.*)"
# 160000 d00491fd7e5bb6fa28c517a0bb32b8b506539d4d 0	path
REPOSITORY_PATTERN = rb"(?:^|\0)160000 [0-9a-f]+ \d\t([^\0]*)"
# warning: could not open directory 'src/': Permission denied
SHUT_PATTERN = r"(?m)^warning: could not open directory '(.+)/': "
OTHER = "?"
"""How git marks what is not in the index."""
GONE = "invalid object"
"""What git says when the index names something that is not there."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What of a repository is looked at: the work folder, or more than that, or less."""

    whole: bool = False
    """Is it all that lies below the top?"""
    apart: tuple[str, ...] = ()
    """What is never looked at, and in no snapshot, whoever has it."""


@dataclass(frozen=True, slots=True)
class LookLimits:
    """How much a look may find."""

    seconds: float = 120.0
    """For git, to list what may differ."""
    most_files: int = 100_000
    """That a first snapshot copies because no repository has them."""
    most_bytes: int = 2 * 1024 * 1024 * 1024
    """Of these."""


LIMITS = LookLimits()


@dataclass(slots=True)
class Gathering:
    """The work folder, and the store whose index follows it."""

    store: Store
    scope: Scope = field(default_factory=Scope)
    limits: LookLimits = LIMITS
    _repositories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Paths of repositories of their own, by tree."""

    @property
    def top(self) -> Path:
        """Where paths begin."""
        return self.store.git.work_tree

    @property
    def prefix(self) -> str:
        """Where below the top the work folder lies; empty if it is the top."""
        return "" if self.store.repository is None else self.store.repository.prefix

    def gather(
        self, is_new: bool, last_commit: Callable[[], str]
    ) -> tuple[str, tuple[LeftOut, ...]]:
        """Return the tree of the work folder as it is now, and what is not in it.

        The last commit stands in for an index that cannot be read.
        """
        # Where most are planted; a look into every folder would be too much each time.
        refuse_pipes([str(self.top)])
        known = self._prepare_index(last_commit) if is_new else []
        try:
            found = self._look(known)
        except GitFailed:
            self.store.read_index_from(last_commit())
            found = self._look(())
        if is_new:
            self._refuse_too_much(found, len(known))
        self._update(found)
        try:
            tree = self.store.git.text("write-tree")
        except GitFailed as error:
            if GONE not in error.complaint:
                raise
            # The user's repository no longer has what was borrowed from it.
            known = self.store.git.names("ls-files", "-z")
            self.store.read_index_from("")
            found = self._look(known)
            self._update(found)
            tree = self.store.git.text("write-tree")
        own = (LeftOut(path, OWN_REPOSITORY) for path in self._repositories_in(tree))
        left_out = {one.path: one for one in (*self._odd_files(), *own, *found.left_out)}
        return tree, tuple(left_out[path] for path in sorted(left_out))

    def _prepare_index(self, last_commit: Callable[[], str]) -> list[str]:
        """Make the copy of the user's index tell the truth; return the paths to be looked at."""
        answer = self.store.git.ask("ls-files", "-v", "-s", "-z")
        if answer.code:
            self.store.read_index_from(last_commit())
            answer = self.store.git.ask("ls-files", "-v", "-s", "-z")
        trusted, conflicts, blobs = [], [], {}
        for entry in answer.text.split("\0"):
            if match := re.fullmatch(ENTRY_PATTERN, entry):
                tag, mode, blob, stage, path = match.groups()
                if tag.islower():
                    trusted.append(path)
                if stage != "0":
                    conflicts.append(path)
                elif mode in FILE_MODES:
                    blobs[path] = blob
        if trusted:
            words = ("update-index", "-z", "--no-assume-unchanged", "--stdin")
            self.store.git.run(*words, given=listed(trusted))
        # So that later looks need not read each file; says so if there are changes.
        self.store.git.ask("update-index", "-q", "--refresh")
        otherwise = self.store.laid_out_otherwise(blobs)
        words = ("update-index", "-z", "--force-remove", "--stdin")
        self.store.git.run(*words, given=listed(otherwise))
        return sorted({*conflicts, *otherwise})

    def _refuse_too_much(self, found: Sorted, known: int) -> None:
        """Raise rather than copy a whole home folder, say, that somebody works in."""
        files, size = len(found.to_store) - known, found.bytes_to_store
        if files > self.limits.most_files or size > self.limits.most_bytes:
            raise GitError(
                f"{self.top} has {files} files ({size // 1024 // 1024} MB) that are in no "
                "repository, too many to keep; commit them, ignore them (.gitignore), or work in "
                "a smaller folder"
            )

    def _look(self, more: Iterable[str]) -> Sorted:
        """Return what may be different from the index, and more paths, by what can be done."""
        words = ("ls-files", "-t", "-z", "-m", "-o", "--exclude-standard", "--", *self.within())
        try:
            answer = replace(self.store.git, seconds=self.limits.seconds).checked(*words)
        except GitFailed:
            raise
        except GitError:
            refuse_pipes(str(folder) for folder, _, _ in walk(self.top))
            raise
        listed = filter(None, answer.output.decode(errors="surrogateescape").split("\0"))
        seen = {name[2:]: name[0] != OTHER for name in listed}
        seen |= dict.fromkeys(more, True)
        found = sort_out(
            self.top,
            ((path, known) for path, known in seen.items() if not self.is_ours(path, known)),
        )
        shut = re.findall(SHUT_PATTERN, answer.complaint)
        found.left_out += [LeftOut(path, UNREADABLE) for path in shut if not self.is_ours(path)]
        return found

    def _odd_files(self) -> list[LeftOut]:
        """Return the pipes and sockets that are not ignored: git lists neither."""
        found = [
            replace(one, path=f"{self.reach}/{one.path}" if self.reach else one.path)
            for one in odd_files(self.top / self.reach)
        ]
        found = [one for one in found if not self.is_ours(one.path)]
        if not found:
            return []
        words = ("check-ignore", "-z", "--stdin")
        answer = self.store.git.ask(*words, given=listed(one.path for one in found))
        ignored = answer.output.decode(errors="surrogateescape").split("\0")
        return [one for one in found if one.path not in ignored]

    def _update(self, found: Sorted) -> None:
        """Bring the index up to date; what cannot be read is noted in `found`."""
        self._forget_what_is_apart()
        if found.to_forget:
            words = ("update-index", "-z", "--force-remove", "--stdin")
            self.store.git.run(*words, given=listed(found.to_forget))
        # Repositories first: if one is refused, nothing was read for nothing.
        paths = dict.fromkeys([*found.repositories, *found.to_store])
        refuse_pipes({str((self.top / path).parent) for path in paths} | {str(self.top)})
        options = ("-z", "--add", "--remove", "--replace", "--stdin")
        for _ in range(TRIES):
            if not paths:
                return
            answer = self.store.git.ask("update-index", *options, given=listed(paths))
            if answer.code == 0:
                return
            path = _refused(answer.complaint, paths)
            if path is None or self._is_plain(path):
                raise GitFailed("update-index", answer.code, answer.complaint)
            del paths[path]
            is_repository = path in found.repositories
            found.left_out.append(LeftOut(path, NO_COMMIT if is_repository else UNREADABLE))
        raise GitError("the files of the work folder change too quickly to be kept")

    def _forget_what_is_apart(self) -> None:
        """Take out of the index what came into it with a commit, or from the user's own."""
        if self.scope.apart:
            words = ("ls-files", "-z", "--", *map(_literally, self.scope.apart))
            known = self.store.git.names(*words)
            words = ("update-index", "-z", "--force-remove", "--stdin")
            self.store.git.run(*words, given=listed(known))

    def _is_plain(self, path: str) -> bool:
        """Could a file be read, so that not it but the store is at fault?"""
        *parts, name = path.split("/")
        try:
            Folder(self.top, tuple(parts)).open_to_read(name).close()
        except OSError:
            return False
        return True

    def _repositories_in(self, tree: str) -> tuple[str, ...]:
        """Return the paths of a tree, which is that of the index, that are repositories."""
        if tree not in self._repositories:
            listed = self.store.git.run("ls-files", "-s", "-z", "--", *self.within())
            found = re.findall(REPOSITORY_PATTERN, listed)
            self._repositories[tree] = tuple(map(os.fsdecode, found))
        return self._repositories[tree]

    def within(self, paths: Iterable[str] = ()) -> list[str]:
        """Return the words that limit a command to paths, or to the work folder."""
        chosen = list(paths) or [self.reach] * bool(self.reach)
        if not self.scope.apart:
            return [_literally(path) for path in chosen]
        without = (f":(top,exclude,literal){path}" for path in self.scope.apart)
        return [*(map(_literally, chosen) if chosen else [":(top)"]), *without]

    def is_ours(self, path: str, is_known: bool = True) -> bool:
        """Is a path never looked at? Some only if no snapshot has them."""
        return is_held(path, self.scope.apart) or is_ours(
            path, self.prefix, self.top, is_known=is_known
        )

    def is_inside(self, path: str) -> bool:
        """Is a path one of those that are looked at?"""
        within = not self.reach or is_held(path, [self.reach])
        return within and not self.is_ours(path)

    @property
    def reach(self) -> str:
        """Where all lies that is looked at; empty for the top."""
        return "" if self.scope.whole else self.prefix

    @property
    def folder(self) -> tuple[str, ...]:
        """The work folder below the top."""
        return tuple(self.prefix.split("/")) if self.prefix else ()

    def ignored(self) -> tuple[str, ...]:
        """Return patterns of what git need not look at."""
        ours = (f"{start}{name}/" for start in sorted(starts(self.prefix)) for name in OURS)
        names = (*ours, *self.scope.apart)
        return tuple(f"/{_as_pattern(name)}" for name in names if "\n" not in name)


def _as_pattern(path: str) -> str:
    return re.sub(r"([\\*?\[\]#! ])", r"\\\1", path)


def _literally(path: str) -> str:
    return f":(top,literal){path}"


def _refused(complaint: str, paths: Iterable[str]) -> str | None:
    """Return which of the paths git could not read."""
    match = re.search(REFUSED_PATTERN, complaint)
    shown = (match[1] if match else "").strip()
    return next((one for one in paths if shown in _as_git_writes(one)), None)


def _as_git_writes(path: str) -> tuple[str, str]:
    """Return a path as it can be in a complaint: git writes ? for a control character there."""
    text = os.fsencode(path).decode(errors="replace").strip()
    return text, re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "?", text)
