"""Which repository a work folder belongs to, and what git says about it.

Git finds the repository. It counts if its work tree holds the folder: what `core.worktree` of a
foreign repository names elsewhere is not followed.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import GitError, UsageError
from .git import NOBODY, Git, Identity, listed

LONGEST_LOOK = 10.0
"""Seconds that git may take to read a few small files."""
NOT_FOUND = "not a git repository"
STATUS = ("status", "-z", "--porcelain", "--no-renames", "--ignore-submodules=all")
STATUS_LETTERS = 3
"""`?? new.txt`, ` M changed.txt`"""
UNDER_WAY = {
    # in the git directory: what the user has begun there
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisect",
}


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository of a work folder, as it was when git was asked."""

    top: Path
    git_dir: Path
    """Of this work tree."""
    common_dir: Path
    """Of all work trees: objects, branches, configuration."""
    prefix: str
    """Where the work folder lies below `top`: `sub/folder`, or empty."""
    head: str
    """The commit that is checked out; empty if there is none."""
    branch: str
    """Empty if no branch is checked out."""
    under_way: str
    """What the user has begun and not ended: `a merge`, or empty."""

    def git(self, environ: Mapping[str, str], seconds: float = LONGEST_LOOK) -> Git:
        return Git(self.git_dir, self.top, environ, seconds=seconds)

    @property
    def inodes(self) -> tuple[int, ...]:
        """What stays the same as long as it is the same; empty if it is gone."""
        if not (os.path.lexists(self.top / ".git") and os.path.lexists(self.git_dir / "HEAD")):
            return ()
        try:
            config, *folders = (
                (self.common_dir / name).stat() for name in ("config", "objects", "refs")
            )
        except OSError:
            return ()
        # A new repository may get the inodes of the removed one; its settings are newer.
        return (config.st_mtime_ns, *(folder.st_ino for folder in folders))

    def became(self, environ: Mapping[str, str]) -> str:
        """Return what became of it if it is not the same any more, or empty."""
        if not self.inodes:
            return "removed"
        has_head = self.git(environ).ask("cat-file", "-e", f"{self.head}^{{commit}}").code == 0
        return "" if has_head or not self.head else "replaced by another one"


def find_repository(folder: Path, environ: Mapping[str, str]) -> Repository | None:
    """Return the repository that a folder lies in, or None if it lies in none."""
    folder = Path(os.path.realpath(folder))
    if not folder.is_dir():
        return None
    git = Git(None, folder, environ, seconds=LONGEST_LOOK)
    places = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    answer = git.ask("rev-parse", "--path-format=absolute", *places)
    if answer.code and NOT_FOUND in answer.complaint:
        return None
    if answer.code and "work tree" in answer.complaint:
        raise UsageError(
            f"{folder} is inside of a bare repository or of a git directory: "
            "there are no files to work on; name a folder with a checkout"
        )
    lines = answer.text.split("\n")
    if answer.code or len(lines) != len(places):
        raise GitError(f"the repository of {folder} cannot be read: {answer.complaint}")
    top, git_dir, common_dir = map(Path, lines)
    if folder != top and top not in folder.parents:
        raise GitError(f"core.worktree of the repository at {folder} names another folder, {top}")
    git = replace(git, git_dir=git_dir, work_tree=top)
    below = folder.relative_to(top)
    return Repository(
        top=top,
        git_dir=git_dir,
        common_dir=common_dir,
        prefix="" if below == Path() else below.as_posix(),
        head=git.ask("rev-parse", "--verify", "-q", "HEAD").text,
        branch=git.ask("symbolic-ref", "-q", "HEAD").text.removeprefix("refs/heads/"),
        under_way=next(
            (what for name, what in UNDER_WAY.items() if os.path.lexists(git_dir / name)), ""
        ),
    )


def user_identity(repository: Repository | None, environ: Mapping[str, str]) -> Identity:
    """Return in whose name the user commits there, by variables and settings; else `NOBODY`."""
    git = Git(Path(os.devnull), Path(os.sep), environ) if repository is None else (
        repository.git(environ)
    )  # fmt: skip
    git = replace(git, with_user_settings=True, seconds=LONGEST_LOOK)
    answer = git.ask("config", "-z", "--get-regexp", r"^user\.(name|email)$")
    said = dict(entry.partition("\n")[::2] for entry in answer.names)

    def person(kind: str, otherwise: tuple[str, str]) -> tuple[str, str]:
        name = environ.get(f"GIT_{kind}_NAME", "").strip() or said.get("user.name", "")
        address = environ.get(f"GIT_{kind}_EMAIL", "").strip() or said.get("user.email", "")
        return (name, address) if name.strip() and address.strip() else otherwise

    return Identity(person("AUTHOR", NOBODY.author), person("COMMITTER", NOBODY.committer))


def uncommitted(repository: Repository, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what is in no commit yet, each with the two letters by which git calls it.

    No filter is run. A file that goes through one is listed as soon as git's notes on it do not
    hold any more.
    """
    git = Git(repository.git_dir, repository.top, environ)
    git = replace(git, options=user_options(git)).defused()
    return {one[STATUS_LETTERS:]: one[: STATUS_LETTERS - 1] for one in git.names(*STATUS)}


def user_options(git: Git) -> Mapping[str, str]:
    """Return the user's own settings about ignored files and line ends; they start nothing."""
    reader = replace(git, with_user_settings=True, seconds=LONGEST_LOOK)
    pattern = r"^core\.(excludesfile|autocrlf|eol)$"
    entries = reader.ask("config", "-z", "--type=path", "--get-regexp", pattern).names
    return dict(entry.partition("\n")[::2] for entry in entries)


def filtered(git: Git, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return which files are meant to go through which filter: `lfs` for files in Git LFS."""
    answer = git.names("check-attr", "-z", "--stdin", "filter", given=listed(names))
    found: dict[str, list[str]] = {}
    for name, value in zip(answer[::3], answer[2::3], strict=True):
        if value not in ("unspecified", "unset", "set"):
            found.setdefault(value, []).append(name)
    return found
