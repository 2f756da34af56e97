"""The only way to git: its command line, in an environment where no program of a repository runs.

    Git(store, work_tree, environ).run("write-tree")

Nothing is inherited that could lead git elsewhere: no GIT_* variable, no configuration of the
user's or the system's. What a repository's own configuration can start (fsmonitor, hooks, gpg, a
pager) is switched off. What cannot be switched off by an option, filters and merge drivers above
all, needs a git directory that is ours (`snapshots.py`), or `defused` ahead of the command.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep

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
    # Nothing of a repository runs, whoever owns it.
    "safe.directory": "*",
}
NO_PROTOCOL = "none"
"""No protocol has this name."""
KEPT_VARIABLES = ("HOME", "PATH", "TMPDIR", "XDG_CONFIG_HOME")
LONGEST_SECONDS = 600.0
LARGEST_ANSWER = 64 * 1024 * 1024
LONGEST_COMPLAINT = 8000
PAUSE_SECONDS = 0.02
MISSING = "git is not installed, or not on the PATH; snapshots need it"


@dataclass(frozen=True, slots=True)
class Identity:
    """In whose name something is committed; each is a name and an address."""

    author: tuple[str, str]
    committer: tuple[str, str]


NOBODY = Identity(("cao", "cao@localhost"), ("cao", "cao@localhost"))


@dataclass(frozen=True, slots=True)
class GitAnswer:
    code: int
    output: bytes = field(repr=False)
    complaint: str
    """What it wrote for people, shortened."""
    is_cut: bool = False
    """Is there more than was taken?"""

    @property
    def text(self) -> str:
        return self.output.decode(errors="surrogateescape").removesuffix("\n")

    @property
    def names(self) -> list[str]:
        """The names that a command with `-z` lists."""
        return [name for name in self.text.split("\0") if name]


@dataclass(frozen=True, slots=True)
class Git:
    """One git directory and one work tree."""

    git_dir: Path | None
    """None: git looks for the one of the work tree."""
    work_tree: Path
    environ: Mapping[str, str] = field(repr=False)
    """The user's own: where git is, and where the user's settings are."""
    index: Path | None = None
    """Where the index is, if not in the git directory."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Configuration on top of what is always set."""
    identity: Identity = NOBODY
    seconds: float = LONGEST_SECONDS
    """How long a command may take."""
    inherited: Sequence[int] = ()
    """Descriptors that a command holds as long as it runs, even if we are killed: locks."""
    with_user_settings: bool = False
    """Is the user's own configuration read? Only where nothing of it can start a program."""

    def run(self, *words: str, given: bytes = b"") -> bytes:
        """Return what a command writes; raise `GitFailed` if it fails."""
        return self.checked(*words, given=given).output

    def text(self, *words: str, given: bytes = b"") -> str:
        return self.checked(*words, given=given).text

    def names(self, *words: str, given: bytes = b"") -> list[str]:
        """Return the names that a command with `-z` lists."""
        return self.checked(*words, given=given).names

    def checked(self, *words: str, given: bytes = b"") -> GitAnswer:
        """Return all that a command writes; raise `GitFailed` if it fails."""
        answer = self.ask(*words, given=given)
        if answer.is_cut:
            raise GitError(f"git {words[0]} wrote more than {LARGEST_ANSWER} bytes")
        if answer.code:
            raise GitFailed(words[0], answer.code, answer.complaint)
        return answer

    def ask(self, *words: str, given: bytes = b"", limit: int = LARGEST_ANSWER) -> GitAnswer:
        """Return how a command ended and what it wrote, up to a limit; it may fail."""
        program = find_program("git", self.environ)
        if program is None:
            raise GitMissing(MISSING)
        places = () if self.git_dir is None else (
            f"--git-dir={self.git_dir}", f"--work-tree={self.work_tree}"
        )  # fmt: skip
        with (
            tempfile.TemporaryFile() as stdin,
            tempfile.TemporaryFile() as stdout,
            tempfile.TemporaryFile() as stderr,
        ):
            stdin.write(given)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    [program, *places, *words],
                    cwd=self.work_tree if self.work_tree.is_dir() else self.git_dir,
                    env=self._environment(),
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=self.inherited,
                    # Ctrl-C is for the run, which decides for itself when it is over.
                    start_new_session=True,
                )
            except OSError as error:
                raise GitError(f"git {words[0]} cannot be started: {error.strerror}") from error
            late = threading.Event()
            # Not by a limit for the wait, which looks only now and then.
            timer = threading.Timer(self.seconds, _end, (process, late))
            timer.daemon = True
            timer.start()
            process.wait()
            timer.cancel()
            if late.is_set():
                raise GitError(f"git {words[0]} was ended: it took over {self.seconds:.0f} seconds")
            stdout.seek(0)
            output = stdout.read(limit + 1)
            stderr.seek(0)
            complaint = stderr.read(LONGEST_COMPLAINT).decode(errors="replace").strip()
        return GitAnswer(process.returncode, output[:limit], complaint, len(output) > limit)

    def defused(self) -> "Git":
        """Return the same with every filter and merge driver of its configuration replaced.

        For commands that must work in the user's own repository; files arrive as they are stored.
        """
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


def _end(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Return where a program is that is on the PATH, or on the system's own if there is none."""
    return shutil.which(name, path=os.pathsep.join(os.get_exec_path(environ)))


def listed(paths: Iterable[str]) -> bytes:
    """Return paths as git reads them with `-z`."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def literal(paths: Iterable[str]) -> list[str]:
    """Return paths from the top as words of a command, in which no character is special."""
    return [f":(top,literal){path}" for path in paths]


@contextmanager
def alone_in(folder: Path, seconds: float) -> Iterator[int | None]:
    """Keep other processes of ours out of a folder, and yield the descriptor that holds it.

    After so many seconds None is yielded: another has it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    until = monotonic() + seconds
    try:
        while not (is_held := _lock(descriptor)) and monotonic() < until:
            sleep(PAUSE_SECONDS)
        yield descriptor if is_held else None
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
