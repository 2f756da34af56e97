"""Git: how it is called, which repository a folder is in, and what others change in that.

    Git(store, work_tree, environ).run("write-tree")

Git is called by its command line alone, in an environment where no program of a repository runs.
Nothing is inherited that could lead it elsewhere: no GIT_* variable, no configuration of the
user's or the system's. What a repository's own configuration can start (fsmonitor, hooks, gpg, a
pager) is switched off. What cannot be switched off by an option, filters and merge drivers above
all, needs a git directory that is ours (`snapshots.py`), or `defused` ahead of the command.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ..core.codec import Private
from ..core.files import Folder
from ..errors import GitError, GitFailed, GitMissing, UsageError
from ..settings.layout import WATCH_FILE

OPTIONS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.pager": "cat",
    "core.quotePath": "false",
    "commit.gpgSign": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.addEmbeddedRepo": "false",
    # Nothing of a repository runs, whoever owns it.
    "safe.directory": "*",
}
KEPT_VARIABLES = ("HOME", "PATH", "TMPDIR", "XDG_CONFIG_HOME")
LONGEST_SECONDS = 600.0
LARGEST_ANSWER = 64 * 1024 * 1024
LONGEST_COMPLAINT = 8000
PAUSE_SECONDS = 0.02
MISSING = "git is not installed, or not on the PATH; snapshots need it"


NOBODY: Mapping[str, str] = {
    "GIT_AUTHOR_NAME": "cao",
    "GIT_AUTHOR_EMAIL": "cao@localhost",
    "GIT_COMMITTER_NAME": "cao",
    "GIT_COMMITTER_EMAIL": "cao@localhost",
}


class GitAnswer(Private, frozen=True):
    code: int
    output: bytes
    complaint: str
    is_cut: bool = False

    @property
    def text(self) -> str:
        return self.output.decode(errors="surrogateescape").removesuffix("\n")

    @property
    def names(self) -> list[str]:
        return [name for name in self.text.split("\0") if name]


class Git(Private, frozen=True):
    git_dir: Path | None
    """None: git looks for the one of the work tree."""
    work_tree: Path
    environ: Mapping[str, str]
    index: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    identity: Mapping[str, str] = field(default_factory=lambda: NOBODY)
    seconds: float = LONGEST_SECONDS
    inherited: Sequence[int] = ()
    """Descriptors that a command holds as long as it runs, even if we are killed: locks."""
    with_user_settings: bool = False
    """Is the user's own configuration read? Only where nothing of it can start a program."""

    def run(self, *words: str, given: bytes = b"") -> bytes:
        return self.checked(*words, given=given).output

    def text(self, *words: str, given: bytes = b"") -> str:
        return self.checked(*words, given=given).text

    def names(self, *words: str, given: bytes = b"") -> list[str]:
        return self.checked(*words, given=given).names

    def checked(self, *words: str, given: bytes = b"") -> GitAnswer:
        answer = self.ask(*words, given=given)
        if answer.is_cut:
            raise GitError(f"git {words[0]} wrote more than {LARGEST_ANSWER} bytes")
        if answer.code:
            raise GitFailed(words[0], answer.code, answer.complaint)
        return answer

    def ask(self, *words: str, given: bytes = b"", limit: int = LARGEST_ANSWER) -> GitAnswer:
        program = find_program("git", self.environ)
        if program is None:
            raise GitMissing(MISSING)
        places = [f"--git-dir={self.git_dir}", f"--work-tree={self.work_tree}"]
        with tempfile.TemporaryFile() as stdout:
            try:
                process = subprocess.Popen(
                    [program, *(places if self.git_dir else ()), *words],
                    cwd=self.work_tree if self.work_tree.is_dir() else self.git_dir,
                    env=self._environment(),
                    stdin=subprocess.PIPE,
                    stdout=stdout,
                    stderr=subprocess.PIPE,
                    pass_fds=self.inherited,
                    # Ctrl-C is for the run, which decides for itself when it is over.
                    start_new_session=True,
                )
            except OSError as error:
                raise GitError(f"git {words[0]} cannot be started: {error.strerror}") from error
            with process:
                try:
                    _, complaint = process.communicate(given, self.seconds)
                except subprocess.TimeoutExpired:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(process.pid, signal.SIGKILL)
                    raise GitError(
                        f"git {words[0]} was ended: it took over {self.seconds:.0f} seconds"
                    ) from None
            stdout.seek(0)
            output = stdout.read(limit + 1)
        said = complaint[:LONGEST_COMPLAINT].decode(errors="replace").strip()
        return GitAnswer(process.returncode, output[:limit], said, len(output) > limit)

    def defused(self) -> "Git":
        """Replace every filter and merge driver, for commands in the user's own repository."""
        options = dict(self.options)
        answer = self.ask("config", "-z", "--name-only", "--get-regexp", r"^(filter|merge)\.")
        for key in answer.names:
            section, _, rest = key.partition(".")
            name, _, last = rest.rpartition(".")
            if section == "filter" and name:
                options |= {f"filter.{name}.{verb}": "" for verb in ("clean", "smudge", "process")}
                options[f"filter.{name}.required"] = "false"
            elif section == "merge" and name and last == "driver":
                # Fails, so the file counts as a conflict and is left to people.
                options[f"merge.{name}.driver"] = "false"
        return replace(self, options=options)

    def _environment(self) -> dict[str, str]:
        options = {**OPTIONS, **self.options}
        settings = {"GIT_CONFIG_COUNT": str(len(options))}
        # Not on the command line, where every user of the machine could read them.
        for number, (key, value) in enumerate(options.items()):
            settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        if self.index is not None:
            settings["GIT_INDEX_FILE"] = str(self.index)
        if not self.with_user_settings:
            settings |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        kept = {key: self.environ[key] for key in KEPT_VARIABLES if key in self.environ}
        return kept | settings | dict(self.identity) | {
            "LC_ALL": "C",
            # Nothing is fetched, not even what is missing in a repository that fetches it when it
            # is asked for. A setting alone would not do: one for a single protocol counts more.
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_PAGER": "cat",
        }  # fmt: skip


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    return shutil.which(name, path=os.pathsep.join(os.get_exec_path(environ)))


def listed(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def literal(paths: Iterable[str]) -> list[str]:
    """Return paths from the top as words of a command, in which no character is special."""
    return [f":(top,literal){path}" for path in paths]


@contextmanager
def alone_in(folder: Path, seconds: float) -> Iterator[int | None]:
    """Keep our other processes out of a folder; yield its lock, None if another keeps that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    until = monotonic() + seconds
    is_held = False
    try:
        while not is_held and monotonic() < until:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_held = True
            except BlockingIOError:
                sleep(PAUSE_SECONDS)
        yield descriptor if is_held else None
    finally:
        os.close(descriptor)


LONGEST_LOOK = 10.0
NOT_FOUND = "not a git repository"
STATUS = ("status", "-z", "--porcelain", "--no-renames", "--ignore-submodules=all")
LARGEST_INDEX = 512 * 1024 * 1024
YEAR = 366 * 24 * 3600
UNDER_WAY = {
    # in the git directory: what the user has begun there
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisect",
}


class Repository(Struct, frozen=True):
    top: Path
    git_dir: Path
    common_dir: Path
    prefix: str
    """Where the work folder lies below `top`: `sub/folder`, or empty."""
    head: str
    branch: str
    under_way: str

    def git(self, environ: Mapping[str, str]) -> Git:
        return Git(self.git_dir, self.top, environ, seconds=LONGEST_LOOK)

    @property
    def inodes(self) -> tuple[int, ...]:
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
        if not self.inodes:
            return "removed"
        has_head = self.git(environ).ask("cat-file", "-e", f"{self.head}^{{commit}}").code == 0
        return "" if has_head or not self.head else "replaced by another one"


def find_repository(folder: Path, environ: Mapping[str, str]) -> Repository | None:
    folder = Path(os.path.realpath(folder))
    if not folder.is_dir():
        return None
    git = Git(None, folder, environ, seconds=LONGEST_LOOK)
    places = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    head_and_branch = ("HEAD", "--symbolic-full-name", "HEAD", "--")
    answer = git.ask("rev-parse", "--path-format=absolute", *places, *head_and_branch)
    if answer.code and NOT_FOUND in answer.complaint:
        return None
    if answer.code and "work tree" in answer.complaint:
        raise UsageError(
            f"{folder} is inside of a bare repository or of a git directory: "
            "there are no files to work on; name a folder with a checkout"
        )
    lines = answer.text.split("\n")
    is_unborn = answer.code != 0
    if len(lines) != len(places) + (0 if is_unborn else 3):
        raise GitError(f"the repository of {folder} cannot be read: {answer.complaint}")
    top, git_dir, common_dir = map(Path, lines[:3])
    if folder != top and top not in folder.parents:
        raise GitError(f"core.worktree of the repository at {folder} names another folder, {top}")
    head, branch = ("", git.ask("symbolic-ref", "HEAD").text) if is_unborn else lines[3:5]
    below = folder.relative_to(top)
    return Repository(
        top=top,
        git_dir=git_dir,
        common_dir=common_dir,
        prefix="" if below == Path() else below.as_posix(),
        head=head,
        # It is `HEAD` if none is checked out.
        branch="" if branch == "HEAD" else branch.removeprefix("refs/heads/"),
        under_way=next(
            (what for name, what in UNDER_WAY.items() if os.path.lexists(git_dir / name)), ""
        ),
    )


def user_identity(repository: Repository | None, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return git's variables for the user who commits there; those of `NOBODY` if it is unknown."""
    git = repository.git(environ) if repository else Git(Path(os.devnull), Path("/"), environ)
    git = replace(git, with_user_settings=True, seconds=LONGEST_LOOK)
    answer = git.ask("config", "-z", "--get-regexp", r"^user\.(name|email)$")
    said = dict(entry.partition("\n")[::2] for entry in answer.names)
    found = dict(NOBODY)
    for kind in ("AUTHOR", "COMMITTER"):
        person = {
            f"GIT_{kind}_{key}": environ.get(f"GIT_{kind}_{key}", "").strip()
            or said.get(f"user.{key.lower()}", "")
            for key in ("NAME", "EMAIL")
        }
        if all(value.strip() for value in person.values()):
            found |= person
    return found


def uncommitted(repository: Repository, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what is in no commit yet, each with the two letters of git's status.

    No filter is run: a file that goes through one counts as changed once git's notes on it say so.
    """
    git = Git(repository.git_dir, repository.top, environ)
    git = replace(git, options=user_options(git)).defused()
    found = changed_files(git)
    modified = [path for path, letters in found.items() if letters == " M"]
    through = [path for paths in filtered(git, modified).values() for path in paths]
    if through:
        # Git reads what is as old as its index: for these, its notes have to do.
        with tempfile.NamedTemporaryFile() as copy:
            copy.write(Folder(repository.git_dir).read("index", LARGEST_INDEX))
            copy.flush()
            os.utime(copy.name, (time() + YEAR, time() + YEAR))
            still = changed_files(replace(git, index=Path(copy.name)), "--", *literal(through))
        found = {path: how for path, how in found.items() if path in still or path not in through}
    return found


def changed_files(git: Git, *words: str) -> dict[str, str]:
    # " M src/cart.py", "?? new.txt"
    return {one[3:]: one[:2] for one in git.names(*STATUS, *words)}


def user_options(git: Git) -> Mapping[str, str]:
    """Return the user's own settings about ignored files and line ends; they start nothing."""
    reader = replace(git, with_user_settings=True, seconds=LONGEST_LOOK)
    pattern = r"^core\.(excludesfile|autocrlf|eol)$"
    entries = reader.ask("config", "-z", "--type=path", "--get-regexp", pattern).names
    return dict(entry.partition("\n")[::2] for entry in entries)


def filtered(git: Git, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
    answer = git.names("check-attr", "-z", "--stdin", "filter", given=listed(names))
    found: dict[str, list[str]] = {}
    for name, value in zip(answer[::3], answer[2::3], strict=True):
        if value not in ("unspecified", "unset", "set"):
            found.setdefault(value, []).append(name)
    return found


CONFIGS = ("config", "config.worktree")
HOOKS = "hooks"
NOT_RUN = ".sample"
LARGEST_WATCHED = 16 * 1024 * 1024
# remote.origin.pushurl, core.sshcommand, extensions.worktreeconfig
PUSH_PATTERN = r"(remote|url|http|credential|include|includeif|core|push|protocol|ssh|extensions)\."
"""Settings that decide where a push goes, and what it starts."""

Settings = Mapping[str, list[str]]


class RepositoryWatch:
    def __init__(
        self, repository: Repository, kept_in: Folder | None, environ: Mapping[str, str]
    ) -> None:
        self._repository = repository
        self._kept_in = kept_in
        self._environ = environ
        folders = dict.fromkeys((repository.common_dir, repository.git_dir))
        self._configs = [folder / name for folder in folders for name in CONFIGS]
        # Any: JSON
        self._last: dict[str, Any] = {}

    def begin(self) -> tuple[str, ...]:
        self._last = self._kept()
        return self.look()

    def look(self) -> tuple[str, ...]:
        before, files = self._last, self._files()
        if before and files == before["files"]:
            return ()
        settings = self._settings()
        start = before.get("start", settings)
        self._last = {"files": files, "settings": settings, "start": start}
        if self._kept_in is not None:
            # Without it a crash is the only thing that hides a change.
            with suppress(OSError):
                text = json.dumps(self._last)
                self._kept_in.replace(WATCH_FILE, text.encode(), lasting=False)
        if not before:
            return ()
        old = before["files"]
        keys = ", ".join(_changed_settings(before["settings"], settings))
        words = []
        for path in (path for path in {**files, **old} if files.get(path) != old.get(path)):
            about = "gone" if path not in files else "new" if path not in old else ""
            if path in files and path.rpartition("/")[2] in CONFIGS:
                about = keys
            words.append(f"{path} ({about})" if about else path)
        return tuple(words)

    def settings_since_start(self) -> tuple[str, ...] | None:
        if not (kept := self._kept()):
            return None
        changed = _changed_settings(kept["start"], self._settings())
        return tuple(key for key in changed if re.match(PUSH_PATTERN, key))

    # Any: JSON
    def _kept(self) -> dict[str, Any]:
        if self._kept_in is not None:
            with suppress(OSError, ValueError):
                kept: dict[str, Any] = json.loads(self._kept_in.read(WATCH_FILE))
                return kept
        return {}

    def _settings(self) -> Settings:
        found: dict[str, list[str]] = {}
        for config in filter(os.path.lexists, self._configs):
            words = ("config", "-z", "--list", "--includes", "--file", str(config))
            for entry in self._repository.git(self._environ).ask(*words).names:
                key, _, value = entry.partition("\n")
                found.setdefault(key, []).append(value)
        return found

    def _files(self) -> dict[str, str]:
        common, top = self._repository.common_dir, self._repository.top
        places = [*self._configs, common / "info" / "attributes"]
        with suppress(OSError):
            names = sorted(Folder(common, (HOOKS,)).names())
            places += [common / HOOKS / name for name in names if not name.endswith(NOT_RUN)]
        found = {}
        for place in places:
            with suppress(FileNotFoundError):
                path = place.relative_to(top) if place.is_relative_to(top) else place
                status = place.lstat()
                try:
                    content = Folder(place.parent).read(place.name, LARGEST_WATCHED)
                except OSError:
                    # A link, a folder or too large: what it is changes with its times.
                    content = str(status.st_ctime_ns).encode()
                found[str(path)] = f"{status.st_mode:o} {hashlib.sha256(content).hexdigest()}"
        return found


def _changed_settings(old: Settings, new: Settings) -> tuple[str, ...]:
    return tuple(sorted(key for key in {**old, **new} if old.get(key) != new.get(key)))
