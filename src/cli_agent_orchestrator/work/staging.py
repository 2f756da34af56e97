"""All that a work tree holds as a tree of git's: through an index of ours, whatever others did.

Only what git calls changed is looked at, name by name, so that nothing of an agent's is entered: a
repository that lies in the tree is not asked for its state (it would be by `git add`, and the
filters in its configuration would run). Submodules stay at the commit that they had.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..core.files import cache_of, is_left_behind
from .git import Git
from .held_back import is_held
from .left_out import LeftOut, is_ours, sort_out

LEFT_BEHIND = "left behind by a program that was run; .gitignore does not name it"
PRIVATE = "copied from your folder, and not for the repository"
IN_OUR_PLACE = "where cao's own files are"
OWN_REPOSITORY = "a repository of its own"
OPTIONS = {
    # All files are in the tree, and the index is a file of its own.
    "core.sparseCheckout": "false",
    "core.splitIndex": "false",
    "core.untrackedCache": "false",
}


@dataclass(frozen=True, slots=True)
class Fixed:
    """Paths that stay as a commit has them, with all that is below, whatever the work tree has."""

    commit: str
    paths: tuple[str, ...]

    def restore(self, git: Git) -> None:
        """Let the index have just that there."""
        if not self.paths:
            return
        words = [f":(top,literal){path}" for path in self.paths]
        known = git.names("ls-files", "-z", "--", *words)
        git.run("update-index", "-z", "--force-remove", "--stdin", given=_listed(known))
        entries = git.run("ls-tree", "-r", "-z", self.commit, "--", *words)
        git.run("update-index", "-z", "--index-info", given=entries)

    def hide(self, git: Git) -> None:
        """Let git not miss them in the work tree, nor bring them back there."""
        if self.paths:
            words = [f":(top,literal){path}" for path in self.paths]
            known = git.run("ls-files", "-z", "--", *words)
            git.run("update-index", "-z", "--skip-worktree", "--stdin", given=known)


@dataclass(frozen=True, slots=True)
class Rules:
    """What of a work tree is taken."""

    fixed: Fixed
    private: Collection[str] = ()
    """Files that never are."""
    also: Collection[str] = ()
    """Files that are, though something might by now call them ignored."""
    ours: Collection[str] = ()
    """Paths where the user's own folders of cao are: never what is there, nor on the way to it."""
    prefix: str = ""
    """The work folder in the tree; what is ours there is not taken."""


@dataclass(frozen=True, slots=True)
class Staged:
    """What a work tree holds."""

    tree: str
    changed: tuple[str, ...]
    """What differs from the commit it was compared with."""
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A path that is not as it was committed."""

    path: str
    is_known: bool
    """Does the commit have it?"""
    is_gone: bool

    def is_ours(self, prefix: str, top: Path) -> bool:
        """Is it nothing of the project's? The work folder is `prefix` below the top."""
        return is_ours(self.path, prefix, top, is_known=self.is_known)


def stage(git: Git, commit: str, rules: Rules) -> Staged:
    """Take all of a work tree into the index that `git` has, and write it as a tree."""
    git.run("read-tree", commit)
    found = [*differences(git)]
    known = {one.path for one in found} | {*git.names("ls-files", "-z")} if rules.also else set()
    found += [Difference(path, False, False) for path in rules.also if path not in known]
    found = [one for one in found if not one.is_ours(rules.prefix, git.work_tree)]
    touched = [ours for ours in rules.ours if any(is_at(one.path, [ours]) for one in found)]
    found = [one for one in found if not is_at(one.path, touched)]
    found = [one for one in found if not is_held(one.path, rules.fixed.paths)]
    hidden = [one.path for one in found if one.path in rules.private]
    found = [one for one in found if one.path not in rules.private]
    left_behind = [one.path for one in found if not one.is_known and is_left_behind(one.path)]
    found = [one for one in found if one.is_known or not is_left_behind(one.path)]
    gone = [one.path for one in found if one.is_gone]
    there = sort_out(git.work_tree, ((one.path, one.is_known) for one in found if not one.is_gone))
    gone += there.to_forget
    git.run("update-index", "-z", "--force-remove", "--stdin", given=_listed(gone))
    words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
    git.run(*words, given=_listed(there.to_store))
    rules.fixed.restore(git)
    left_out = (
        *there.left_out,
        *(LeftOut(path, IN_OUR_PLACE) for path in touched),
        *(LeftOut(path, PRIVATE) for path in hidden),
        *(LeftOut(place, LEFT_BEHIND) for place in sorted({*map(cache_of, left_behind)})),
        *(LeftOut(path, OWN_REPOSITORY) for path in there.repositories),
    )
    return Staged(git.text("write-tree"), (*gone, *there.to_store), left_out)


def differences(git: Git) -> Iterator[Difference]:
    """Yield what differs from the index; a repository within the tree is named with a slash."""
    git.ask("update-index", "-q", "--refresh")
    compare = ("diff-files", "-z", "--name-status", "--no-renames", "--ignore-submodules=all")
    # The status and the name follow each other.
    answer = iter(git.names(*compare))
    for status, name in zip(answer, answer, strict=True):
        yield Difference(name, is_known=True, is_gone=status == "D")
    for name in git.names("ls-files", "-z", "--others", "--exclude-standard"):
        yield Difference(name, is_known=False, is_gone=False)


def filters(git: Git, names: Iterable[str]) -> Mapping[str, list[str]]:
    """Return which files are meant to go through which filter: `lfs` for files in Git LFS."""
    answer = git.names("check-attr", "-z", "--stdin", "filter", given=_listed(names))
    found: dict[str, list[str]] = {}
    for name, value in zip(answer[::3], answer[2::3], strict=True):
        if value not in ("unspecified", "unset", "set"):
            found.setdefault(value, []).append(name)
    return found


def user_ignore_file(git: Git) -> Mapping[str, str]:
    """Return the setting that names the user's own list of ignored files, if there is one."""
    reader = Git(git.git_dir, git.work_tree, git.environ, with_user_settings=True, seconds=10.0)
    answer = reader.ask("config", "--type=path", "--get", "core.excludesFile")
    return {"core.excludesFile": answer.text} if answer.code == 0 else {}


def is_at(path: str, places: Iterable[str]) -> bool:
    """Is a path at one of some places, below or above it, also where case does not count?"""
    asked = path.rstrip("/").casefold()
    known = [place.casefold() for place in places]
    return is_held(asked, known) or any(is_held(place, [asked]) for place in known)


def _listed(names: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(name) + b"\0" for name in names)
