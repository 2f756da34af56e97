"""The only way to git: its command line, in surroundings where no program of a repository runs.

    Git(store, work_tree, environ).run("write-tree")

Nothing is inherited that could lead git elsewhere: no GIT_* variable, no configuration of the
user's or the system's. What a repository's own configuration can start (fsmonitor, hooks, gpg, a
pager) is switched off. What cannot be switched off by an option, filters and merge drivers above
all, needs a git directory that is ours (`snapshots.py`), or `defused` ahead of the command.

Where the git directory is, is always said: git never looks for one, so it never asks whose it is.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep
from typing import IO

from ..errors import GitError, GitFailed, GitMissing

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
}
NO_PROTOCOL = "none"
"""No protocol has this name."""
KEPT_VARIABLES = ("HOME", "PATH", "TMPDIR", "XDG_CONFIG_HOME")
LONGEST_SECONDS = 600.0
LARGEST_ANSWER = 64 * 1024 * 1024
LONGEST_COMPLAINT = 2000
CHUNK_BYTES = 64 * 1024
MISSING = "git is not installed, or not on the PATH; snapshots need it"


@dataclass(frozen=True, slots=True)
class Identity:
    """In whose name something is committed; each is a name and an address."""

    author: tuple[str, str]
    committer: tuple[str, str]


NOBODY = Identity(("cao", "cao@localhost"), ("cao", "cao@localhost"))
"""Who commits where the user is not asked."""


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """What git said."""

    code: int
    output: bytes = field(repr=False)
    complaint: str
    """What it wrote for people, shortened."""
    is_cut: bool = False
    """Is there more than was taken?"""

    @property
    def text(self) -> str:
        """The output as text, without the line break at its end."""
        return self.output.decode(errors="surrogateescape").removesuffix("\n")


@dataclass(frozen=True, slots=True)
class Git:
    """One git directory and one work tree."""

    git_dir: Path
    work_tree: Path
    environ: Mapping[str, str] = field(repr=False)
    """The user's own: where git is, and where the user's settings are."""
    index: Path | None = None
    """Where the index is, if not in the git directory."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Configuration on top of what is always said."""
    identity: Identity = NOBODY
    """Of whoever commits."""
    seconds: float = LONGEST_SECONDS
    """How long a command may take."""
    inherited: Sequence[int] = ()
    """Descriptors that a command has as long as it runs, whatever becomes of us: locks."""
    borrowed: str = ""
    """Where more objects can be read, as git takes it from its environment."""
    with_user_settings: bool = False
    """Is the user's own configuration read? Only where nothing of it can start a program."""

    def run(self, *words: str, given: bytes = b"", limit: int = LARGEST_ANSWER) -> bytes:
        """Return what a command writes; raise `GitFailed` if it does not end well."""
        return self.checked(*words, given=given, limit=limit).output

    def checked(self, *words: str, given: bytes = b"", limit: int = LARGEST_ANSWER) -> GitAnswer:
        """Return all that a command says; raise `GitFailed` if it does not end well."""
        answer = self.ask(*words, given=given, limit=limit)
        if answer.is_cut:
            raise GitError(f"git {words[0]} wrote more than {limit} bytes")
        if answer.code:
            raise GitFailed(words[0], answer.code, answer.complaint)
        return answer

    def text(self, *words: str, given: bytes = b"") -> str:
        """Return what a command writes as text, without the line break at its end."""
        return self.run(*words, given=given).decode(errors="surrogateescape").removesuffix("\n")

    def names(self, *words: str, given: bytes = b"") -> list[str]:
        """Return the names that a command with `-z` lists."""
        listed = self.run(*words, given=given).decode(errors="surrogateescape")
        return [name for name in listed.split("\0") if name]

    def ask(self, *words: str, given: bytes = b"", limit: int = LARGEST_ANSWER) -> GitAnswer:
        """Return how a command ended and what it wrote, up to a limit; it may fail."""
        with tempfile.TemporaryFile() as input_file, tempfile.TemporaryFile() as complaints:
            input_file.write(given)
            input_file.seek(0)
            process = self._start(words, input_file, complaints)
            assert process.stdout is not None, "it was asked for"
            output, is_late = _read(process, process.stdout, limit, self.seconds)
            if is_late:
                raise GitError(f"git {words[0]} was ended: it took over {self.seconds:.0f} seconds")
            complaints.seek(0)
            complaint = complaints.read(LONGEST_COMPLAINT).decode(errors="replace").strip()
        return GitAnswer(process.returncode, output[:limit], complaint, len(output) > limit)

    def with_index(self, index: Path) -> "Git":
        """Return the same with an index of its own."""
        return replace(self, index=index)

    def defused(self) -> "Git":
        """Return the same with every filter and merge driver of its configuration replaced.

        For commands that must work in the user's own repository; files arrive as they are stored.
        """
        options = dict(self.options)
        answer = self.ask("config", "-z", "--name-only", "--get-regexp", r"^(filter|merge)\.")
        for key in answer.output.decode(errors="surrogateescape").split("\0"):
            section, _, rest = key.partition(".")
            name, _, last = rest.rpartition(".")
            if section == "filter" and name:
                options |= {f"filter.{name}.{verb}": "" for verb in ("clean", "smudge", "process")}
                options[f"filter.{name}.required"] = "false"
            elif section == "merge" and name and last == "driver":
                # Fails, so the file counts as a conflict and is left to people.
                options[f"merge.{name}.driver"] = "false"
        return replace(self, options=options)

    def _start(
        self, words: tuple[str, ...], given: IO[bytes], complaints: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        program = find_git(self.environ)
        if program is None:
            raise GitMissing(MISSING)
        try:
            return subprocess.Popen(
                [program, f"--git-dir={self.git_dir}", f"--work-tree={self.work_tree}", *words],
                cwd=self.work_tree if self.work_tree.is_dir() else self.git_dir,
                env=self._surroundings(),
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=complaints,
                pass_fds=self.inherited,
                # Ctrl-C is for the run, which decides for itself when it is over.
                start_new_session=True,
            )
        except OSError as error:
            raise GitError(f"git {words[0]} could not be started: {error.strerror}") from error

    def _surroundings(self) -> dict[str, str]:
        options = {**OPTIONS, **self.options}
        settings = {"GIT_CONFIG_COUNT": str(len(options))}
        # Not on the command line, where everybody could read them.
        for number, (key, value) in enumerate(options.items()):
            settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        if self.index is not None:
            settings["GIT_INDEX_FILE"] = str(self.index)
        if self.borrowed:
            settings["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = self.borrowed
        kept = {key: self.environ[key] for key in KEPT_VARIABLES if key in self.environ}
        if not self.with_user_settings:
            settings |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        return kept | settings | {
            "LC_ALL": "C",
            # Nothing is fetched, not even what is missing in a repository that fetches it when it
            # is asked for. A setting alone would not do: one for a single protocol counts more.
            "GIT_ALLOW_PROTOCOL": NO_PROTOCOL,
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_PAGER": "cat",
            "GIT_AUTHOR_NAME": self.identity.author[0],
            "GIT_AUTHOR_EMAIL": self.identity.author[1],
            "GIT_COMMITTER_NAME": self.identity.committer[0],
            "GIT_COMMITTER_EMAIL": self.identity.committer[1],
        }  # fmt: skip


def find_git(environ: Mapping[str, str]) -> str | None:
    """Return where git is, if it is on the PATH."""
    return find_program("git", environ)


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Return where a program is that is on the PATH, or on the system's own if there is none."""
    return shutil.which(name, path=os.pathsep.join(os.get_exec_path(environ)))


def _read(
    process: subprocess.Popen[bytes], stream: IO[bytes], limit: int, seconds: float
) -> tuple[bytes, bool]:
    """Wait for the end of a process; return what it writes, and whether it took too long.

    No more than one byte above the limit is taken.
    """
    output = bytearray()
    late = threading.Event()

    def end() -> None:
        late.set()
        _kill(process)

    too_late = threading.Timer(seconds, end)
    too_late.daemon = True
    too_late.start()
    try:
        while len(output) <= limit and (chunk := os.read(stream.fileno(), CHUNK_BYTES)):
            output += chunk
    finally:
        # At its end it would wait for a reader of the rest.
        if len(output) > limit:
            _kill(process)
        stream.close()
        process.wait()
        too_late.cancel()
    return bytes(output[: limit + 1]), late.is_set()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Patience:
    """How who comes second waits."""

    seconds: float = 120.0
    pause: Callable[[float], None] = sleep


PATIENCE = Patience()


def wait_for_lock(descriptor: int, patience: Patience = PATIENCE) -> bool:
    """Take the lock of a file or folder; was it given up in time?"""
    until = monotonic() + patience.seconds
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if monotonic() >= until:
            return False
        patience.pause(PAUSE_SECONDS)


@contextmanager
def alone_in(folder: Path, seconds: float) -> Iterator[int]:
    """Keep other runs from a repository, and yield what holds it as long as anybody has it open.

    Whoever holds it for longer than that is not waited for: it may be no run at all.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wait_for_lock(descriptor, Patience(seconds))
        yield descriptor
    finally:
        os.close(descriptor)
