"""The private git directory in which the snapshots of a run lie.

It borrows the objects of the user's repository (alternates) until they are copied, and starts from
a copy of its index, so that only what differs has to be read. Of the repository's configuration and
attributes it knows nothing: bytes are kept as they are, and there is no filter that could run.

Whoever changes it holds it, and so does each git that is started meanwhile: one that outlives its
process, because that was killed, is waited for.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ..core.files import Folder
from ..errors import GitError, GitFailed
from . import staging
from .git import PATIENCE, Git, Patience, wait_for_lock
from .repository import LONGEST_LOOK as LONGEST_LOOK_STORE
from .repository import Repository

SETTINGS_PATTERN = r"^core\.(autocrlf|eol)$"
ATTRIBUTES_NAME = ".gitattributes"
LONGEST_LOOK = 10.0


def line_ends(git: Git) -> Mapping[str, str]:
    """Return what the user has set for line ends, in the repository or for all of them."""
    reader = replace(git, with_user_settings=True, seconds=LONGEST_LOOK)
    answer = reader.ask("config", "-z", "--get-regexp", SETTINGS_PATTERN)
    entries = filter(None, answer.text.split("\0"))
    return dict(entry.partition("\n")[::2] for entry in entries)


def laid_out_otherwise(repository: Repository, store: Git, blobs: Mapping[str, str]) -> list[str]:
    """Return which files have another size than what is stored of them, by their ids.

    Those that go through a filter do not count: it may stand for a large file that is elsewhere.
    """
    users = Git(repository.git_dir, repository.top, store.environ)
    if not (_have_attributes(repository, blobs) or line_ends(users)):
        return []
    asked = "".join(f"{blob}\n" for blob in blobs.values()).encode()
    answer = store.text("cat-file", "--batch-check=%(objectsize)", given=asked)
    sizes = zip(blobs, answer.split("\n"), strict=True)
    found = [path for path, size in sizes if size != _size(repository.top / path)]
    filtered = {one for files in staging.filters(users, found).values() for one in files}
    return [path for path in found if path not in filtered]


def _have_attributes(repository: Repository, paths: Mapping[str, str]) -> bool:
    """May there be attributes that say how files are laid out?"""
    return os.path.lexists(repository.common_dir / "info/attributes") or any(
        path.rpartition("/")[2] == ATTRIBUTES_NAME for path in paths
    )


def _size(path: Path) -> str:
    try:
        return str(path.lstat().st_size)
    except OSError:
        return ""


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
LARGEST_INDEX = 512 * 1024 * 1024
READY_FILE = "ready"
"""Made last: a store without it is not complete."""
LOCKS = ("*.lock", "refs/*.lock", "refs/cao/*.lock")
STAGING_PREFIX = "staging-"


class Store:
    """The git directory of a run's snapshots; `git` works on it with the user's files."""

    def __init__(
        self,
        path: Path,
        folder: Path,
        repository: Repository | None,
        environ: Mapping[str, str],
        patience: Patience = PATIENCE,
    ) -> None:
        """Take where it is to be, the work folder, and the repository that this lies in, if any."""
        self.path = path
        self.repository = repository
        top = folder if repository is None else repository.top
        self._held: list[int] = []
        self.git = Git(path, top, environ, options=OPTIONS, inherited=self._held)
        self._patience = patience
        self._folder = Folder(path, private=True)

    @property
    def reader(self) -> Git:
        """Git for what may be in the user's repository alone: commits of the user's."""
        if self.repository is None:
            return self.git
        return replace(self.git, borrowed=os.fsdecode(_objects_of(self.repository)))

    def copy_borrowed(self, seconds: float) -> None:
        """Copy what is borrowed, and borrow nothing from then on."""
        # What is packed already is taken as it is; the rest is not worth the time.
        options = {**OPTIONS, "pack.window": "0", "pack.compression": "1"}
        replace(self.git, options=options, seconds=seconds).run("repack", "-a", "-d", "-q")
        (self.path / "objects/info/alternates").unlink(missing_ok=True)

    def laid_out_otherwise(self, blobs: Mapping[str, str]) -> list[str]:
        """Return which files of the user have other line ends than the blobs that are named."""
        if self.repository is None:
            return []
        return laid_out_otherwise(self.repository, self.git, blobs)

    @contextmanager
    def opened(self, ours: tuple[str, ...]) -> Iterator[bool]:
        """Hold the store, made or mended if need be; say whether it is new.

        What matches `ours` (patterns like those of a `.gitignore`) is not looked at.
        """
        self._folder.make()
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._wait_for(descriptor)
            self._held.append(descriptor)
            try:
                self._tidy()
                is_new = not self.is_ready
                if is_new:
                    self._make(ours)
                yield is_new
            except GitError:
                # Where the disk is full, what was half written must not stay on it.
                self._remove_drafts()
                raise
            finally:
                self._held.remove(descriptor)
        finally:
            os.close(descriptor)

    def _wait_for(self, descriptor: int) -> None:
        """Take the lock of the store, for which a git that a killed process left is waited for."""
        if not wait_for_lock(descriptor, self._patience):
            raise GitError(
                f"another process, or git of a run that was killed, is still at work in "
                f"{self.path}; wait for its end, or end it"
            )

    @property
    def is_ready(self) -> bool:
        return is_ready(self.path)

    def read_index_from(self, commit: str) -> None:
        """Take the index from a commit: the one that is there cannot be used."""
        (self.path / "index").unlink(missing_ok=True)
        if commit:
            with suppress(GitFailed):
                self.git.run("read-tree", commit)

    @contextmanager
    def laid_out(self, commit: str, paths: Iterable[str]) -> Iterator[Path]:
        """Lend a folder of our own with these files of a commit, as they are there."""
        with tempfile.TemporaryDirectory(dir=self.path, prefix=STAGING_PREFIX) as staging:
            folder = Path(staging, "files")
            folder.mkdir()
            self.lay_out(commit, folder, paths)
            yield folder

    def lay_out(self, commit: str, folder: Path, paths: Iterable[str] | None = None) -> None:
        """Put the files of a commit, or some of them, into an empty folder."""
        with tempfile.TemporaryDirectory(dir=self.path, prefix=STAGING_PREFIX) as staging:
            git = replace(self.git, work_tree=folder, index=Path(staging, "index"))
            git.run("read-tree", commit)
            if paths is None:
                git.run("checkout-index", "-a", "-q")
            else:
                git.run("checkout-index", "-q", "-z", "--stdin", given=listed(paths))

    def overlaid(self, commit: str, over: str, paths: Iterable[str]) -> str:
        """Return the tree of a commit, with some files as another one has them."""
        wanted = frozenset(paths)
        if not wanted:
            return self.git.text("rev-parse", f"{commit}^{{tree}}")
        entries = self.git.names("ls-tree", "-r", "-z", over)
        taken = [one for one in entries if one.partition("\t")[2] in wanted]
        with tempfile.TemporaryDirectory(dir=self.path, prefix=STAGING_PREFIX) as staging:
            git = self.git.with_index(Path(staging, "index"))
            git.run("read-tree", commit)
            git.run("update-index", "-z", "--index-info", given=listed(taken))
            return git.text("write-tree")

    def mark_ready(self) -> None:
        self._folder.replace(READY_FILE, b"")

    def _tidy(self) -> None:
        """Remove what a killed process left; nobody else is here while the store is held."""
        locks = [path for kind in LOCKS for path in self.path.glob(kind)]
        for lock in locks:
            lock.unlink(missing_ok=True)
        if locks:
            self._remove_drafts()
        for left in self.path.glob(f"{STAGING_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)

    def _remove_drafts(self) -> None:
        for pattern in ("objects/*/tmp_*", "objects/pack/.tmp-*"):
            for draft in self.path.glob(pattern):
                draft.unlink(missing_ok=True)

    def _make(self, ours: tuple[str, ...]) -> None:
        repository, environ = self.repository, self.git.environ
        object_format, exclude, alternates = "sha1", b"", b""
        if repository is not None:
            users = Git(repository.git_dir, repository.top, environ, seconds=LONGEST_LOOK_STORE)
            object_format = users.text("rev-parse", "--show-object-format")
            alternates = _objects_of(repository) + b"\n"
            with suppress(OSError):
                exclude = Folder(repository.common_dir, ("info",)).read("exclude") + b"\n"
        # A second time does no harm: what a killed process began is completed.
        own = Git(self.path, self.path, environ, inherited=self._held)
        own.run("init", "-q", "--template=", f"--object-format={object_format}")
        lines = b"".join(os.fsencode(line) + b"\n" for line in ours)
        Folder(self.path, ("info",), private=True).replace("exclude", exclude + lines)
        Folder(self.path, ("info",), private=True).replace("attributes", ATTRIBUTES)
        Folder(self.path, ("objects", "info"), private=True).replace("alternates", alternates)
        self._set_ignore_file()
        if repository is not None:
            self._copy_index(repository)

    def _set_ignore_file(self) -> None:
        """Let the user's own list of what is ignored everywhere count."""
        own = Git(self.path, self.path, self.git.environ, seconds=LONGEST_LOOK_STORE)
        users = replace(own, with_user_settings=True)
        answer = users.ask("config", "--global", "--type=path", "--get", "core.excludesFile")
        if answer.code == 0 and answer.text and Path(answer.text).is_file():
            users.run("config", "core.excludesFile", answer.text)

    def _copy_index(self, repository: Repository) -> None:
        users, own = Folder(repository.git_dir), self._folder
        (self.path / "index").unlink(missing_ok=True)
        with suppress(OSError):
            status = users.status("index")
            index = users.read("index", LARGEST_INDEX)
            for name in users.names():
                # A split index: the other part is named in it.
                kind, _, number = name.partition(".")
                with suppress(ValueError):
                    if kind == "sharedindex" and bytes.fromhex(number) in index:
                        own.replace(name, users.read(name, LARGEST_INDEX))
            own.replace("index", index)
            if status is not None:
                # Git tells by it which files may have changed after they were looked at.
                os.utime(self.path / "index", ns=(status.st_atime_ns, status.st_mtime_ns))


def is_ready(path: Path) -> bool:
    """Is there a complete store at a path? No git is asked."""
    return (path / READY_FILE).is_file() and (path / "HEAD").is_file()


def listed(paths: Iterable[str]) -> bytes:
    """Return paths as git reads them with `-z`."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _objects_of(repository: Repository) -> bytes:
    """Return where the objects of a repository are, as git takes it from a list of such places."""
    plain = os.fsencode(repository.common_dir / "objects")
    if not any(byte < 32 or byte in b'":\\' for byte in plain):
        return plain
    return b'"' + b"".join(
        b"\\%03o" % byte if byte < 32 or byte in b'"\\' else bytes([byte]) for byte in plain
    ) + b'"'  # fmt: skip
