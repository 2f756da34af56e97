"""Which repository a work folder belongs to: found by our own look, and nothing in it is believed.

A `.git` counts if it is a folder with what a git directory has, or a file that points to one which
points back: a linked work tree or a submodule. Anything else of that name (a link, a pipe, a file
that leads to somebody else's repository) is not followed: then the folder counts as none.
What `core.worktree` and `core.bare` say makes no difference: the work tree is where the `.git` is.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..core.files import Folder, NotPlain
from ..errors import GitError, UsageError
from .git import NOBODY, Git, Identity
from .left_out import make_writable

LONGEST_LOOK = 10.0
"""Seconds that git may take to read a few small files."""
LARGEST_POINTER = 8192
POINTER = b"gitdir:"
READ_BY_GIT = ("config", "config.worktree", "packed-refs", "objects/info/alternates")
KEPT_IN_A_TABLE = "refs/heads/.invalid"
"""What HEAD says where branches are kept in another way than as files."""
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
    """The repository of a work folder, as it stood when it was looked at."""

    top: Path
    git_dir: Path
    """Of this work tree."""
    common_dir: Path
    """Of all work trees: objects, branches, configuration."""
    prefix: str
    """Where the work folder lies below `top`: `sub/folder`, or nothing."""
    head: str
    """The commit that is checked out; nothing if there is none."""
    branch: str
    """Nothing if no branch is checked out."""
    under_way: str
    """What the user has begun and not ended: `a merge`, or nothing."""

    @property
    def is_gone(self) -> bool:
        """Is it not there any more, or not enough of it?"""
        return not (
            _is(self.top / ".git") and _is(self.git_dir / "HEAD") and _is_git_dir(self.common_dir)
        )

    def is_another(self, environ: Mapping[str, str]) -> bool:
        """Does it not have what was checked out, so that another one is in its place?"""
        git = Git(self.git_dir, self.top, environ, seconds=LONGEST_LOOK)
        return bool(self.head) and git.ask("cat-file", "-e", f"{self.head}^{{commit}}").code != 0


def find_repository(folder: Path, environ: Mapping[str, str]) -> Repository | None:
    """Return the repository that a folder lies in, or None if it lies in none."""
    folder = Path(os.path.realpath(folder))
    for top in (folder, *folder.parents):
        if os.path.lexists(top / ".git"):
            found = _git_dirs(top, environ)
            if found is None:
                return None
            return _look(Git(found[0], top, environ, seconds=LONGEST_LOOK), found[1], folder)
        if _is_git_dir(top):
            raise UsageError(
                f"{folder} is inside of a bare repository or of a git directory: "
                "there are no files to work on; name a folder with a checkout"
            )
    return None


def has_repository(top: Path, environ: Mapping[str, str]) -> bool:
    """Is there a repository at the top of which a folder is? If git cannot be asked, there may."""
    try:
        return _git_dirs(top, environ) is not None
    except GitError:
        return True


def user_identity(repository: Repository | None, environ: Mapping[str, str]) -> Identity:
    """Return in whose name the user commits there, by variables and settings; else `NOBODY`."""
    folder = Path(os.sep) if repository is None else repository.top
    git_dir = Path(os.devnull) if repository is None else repository.git_dir
    git = Git(git_dir, folder, environ, seconds=LONGEST_LOOK, with_user_settings=True)
    answer = git.ask("config", "-z", "--get-regexp", r"^user\.(name|email)$")
    said = dict(entry.partition("\n")[::2] for entry in answer.text.split("\0"))

    def person(kind: str, otherwise: tuple[str, str]) -> tuple[str, str]:
        name = environ.get(f"GIT_{kind}_NAME", "").strip() or said.get("user.name", "")
        address = environ.get(f"GIT_{kind}_EMAIL", "").strip() or said.get("user.email", "")
        return (name, address) if name.strip() and address.strip() else otherwise

    return Identity(person("AUTHOR", NOBODY.author), person("COMMITTER", NOBODY.committer))


def _look(git: Git, common_dir: Path, folder: Path) -> Repository:
    git_dir, top = git.git_dir, git.work_tree
    _refuse_pipes(git_dir / "HEAD", *(common_dir / name for name in READ_BY_GIT))
    head = Folder(git_dir).read("HEAD", LARGEST_POINTER).decode(errors="surrogateescape").strip()
    branch = head.removeprefix("ref:").strip() if head.startswith("ref:") else ""
    _refuse_pipes(common_dir / branch.replace("\0", ""))
    if branch == KEPT_IN_A_TABLE:
        branch = git.ask("symbolic-ref", "-q", "HEAD").text
    below = folder.relative_to(top)
    return Repository(
        top=top,
        git_dir=git_dir,
        common_dir=common_dir,
        prefix="" if below == Path() else below.as_posix(),
        head=git.ask("rev-parse", "--verify", "-q", "HEAD").text,
        branch=branch.removeprefix("refs/heads/"),
        under_way=next((what for name, what in UNDER_WAY.items() if _is(git_dir / name)), ""),
    )


def _git_dirs(top: Path, environ: Mapping[str, str]) -> tuple[Path, Path] | None:
    """Return the git directory of a work tree and the common one, if they can be used."""
    entry = top / ".git"
    if _is_git_dir(entry):
        return entry, entry
    try:
        pointer = Folder(top).read(".git", LARGEST_POINTER)
    except OSError:
        return None
    if not pointer.startswith(POINTER):
        return None
    git_dir = _named(top, pointer.removeprefix(POINTER))
    common_dir = _common_dir(git_dir)
    if common_dir is not None:
        return (git_dir, common_dir) if _points_back(git_dir, entry) else None
    is_module = _is_git_dir(git_dir) and _is_module_of(git_dir, top, environ)
    return (git_dir, git_dir) if is_module else None


def _is_git_dir(folder: Path) -> bool:
    return (
        _is(folder, stat.S_IFDIR)
        and _is(folder / "HEAD", stat.S_IFREG)
        and _is(folder / "objects", stat.S_IFDIR)
        and _is(folder / "refs", stat.S_IFDIR)
    )


def _common_dir(git_dir: Path) -> Path | None:
    """Return where a linked work tree keeps what is not its own; None if it is no such thing."""
    try:
        common_dir = _named(git_dir, Folder(git_dir).read("commondir", LARGEST_POINTER))
    except OSError:
        return None
    is_below = git_dir.parent == common_dir / "worktrees"
    return common_dir if is_below and _is_git_dir(common_dir) else None


def _points_back(git_dir: Path, entry: Path) -> bool:
    try:
        return _named(git_dir, Folder(git_dir).read("gitdir", LARGEST_POINTER)) == entry
    except OSError:
        return False


def _is_module_of(git_dir: Path, top: Path, environ: Mapping[str, str]) -> bool:
    """Does the git directory of a submodule say that it belongs to this work tree?"""
    git = Git(git_dir, top, environ, seconds=LONGEST_LOOK)
    answer = git.ask("config", "--file", str(git_dir / "config"), "--get", "core.worktree")
    return answer.code == 0 and _named(git_dir, answer.output) == top


def _named(folder: Path, name: bytes) -> Path:
    """Return the path that a file of git's names, seen from its folder."""
    with suppress(ValueError, OSError):
        return Path(os.path.realpath(folder / os.fsdecode(name.strip())))
    return folder / ".git"


def _refuse_pipes(*paths: Path) -> None:
    """Raise for what git would wait for without end."""
    for path in paths:
        if any(_is(path, kind) for kind in (stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR)):
            raise NotPlain(path, f"{path} is no regular file; remove it")


def _is(path: Path, kind: int = 0) -> bool:
    """Is there anything, or with a kind: is it that? No link is followed."""
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError):
        return False
    return not kind or stat.S_IFMT(mode) == kind


LONGEST_POINTER = 8192
UNFINISHED = (b"initializing", b"added with --lock")
"""What locks a work tree until its files are there: git's own words."""


@dataclass(frozen=True, slots=True)
class Link:
    """How it ought to be."""

    common_dir: Path
    name: str
    folder: Path
    branch: str

    @property
    def entry(self) -> Folder:
        """What git keeps about the work tree, its index too."""
        return Folder(self.common_dir, ("worktrees", self.name))

    @property
    def has_folder(self) -> bool:
        """Is there a folder that is no link?"""
        try:
            return stat.S_ISDIR(self.folder.lstat().st_mode)
        except OSError:
            return False

    @property
    def is_unfinished(self) -> bool:
        """Was it left while it was made, before all files were there?"""
        return (content_of(self.entry, "locked") or b"").strip() in UNFINISHED

    def faults(self) -> Iterator[str]:
        """Say what is not as it ought to be."""
        if not self.has_folder:
            yield f"its folder {self.folder} is gone"
        elif content_of(Folder(self.folder), ".git") != self._pointer:
            yield "its .git file is gone or changed"
        if any(content_of(self.entry, name) != text for name, text in self._ways.items()):
            yield "what git knows about it is gone or changed"
        if content_of(self.entry, "HEAD") != self._head:
            yield f"the branch {self.branch} is not checked out in it"
        if self.is_unfinished:
            yield "it was not finished when it was made"

    def write(self) -> None:
        """Write all of them; a `.git` that is no file is moved out, beside the work tree."""
        self._clear()
        folder, beside = Folder(self.folder), Folder(self.folder.parent)
        folder.make()
        if content_of(folder, ".git") is None and os.path.lexists(self.folder / ".git"):
            folder.move(".git", beside, beside.free_name(f"{self.folder.name}.git"))
        folder.replace(".git", self._pointer)
        for name, text in {**self._ways, "HEAD": self._head}.items():
            self.entry.replace(name, text)
        for name in ("index.lock", "HEAD.lock"):
            self.entry.remove(name)

    def finish(self) -> None:
        """Note that all files are there."""
        if self.is_unfinished:
            self.entry.remove("locked")

    def remove(self) -> None:
        """Remove the folder with all that is in it, and the entry."""
        self._clear()
        _remove(Folder(self.folder.parent, (self.folder.name,)))
        _remove(self.entry)

    def _clear(self) -> None:
        """Remove a link or a file in the place of the folder."""
        if os.path.lexists(self.folder) and not self.has_folder:
            self.folder.unlink()

    @property
    def _pointer(self) -> bytes:
        return b"gitdir: " + os.fsencode(self.entry.path) + b"\n"

    @property
    def _ways(self) -> Mapping[str, bytes]:
        return {"gitdir": os.fsencode(self.folder / ".git") + b"\n", "commondir": b"../..\n"}

    @property
    def _head(self) -> bytes:
        return f"ref: refs/heads/{self.branch}\n".encode()


def content_of(folder: Folder, name: str) -> bytes | None:
    """Return what is in a small file, or None if there is none to read."""
    try:
        return folder.read(name, LONGEST_POINTER)
    except OSError:
        return None


def _remove(folder: Folder) -> None:
    """Remove a folder, with the parts of it that may not be changed as they are."""
    try:
        folder.remove_all()
    except PermissionError:
        make_writable(folder.path)
        folder.remove_all()
