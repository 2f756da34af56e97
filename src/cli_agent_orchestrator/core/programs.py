"""Asking a program something short, whatever the program is: it may hang, or print without end."""

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

MOST_READ = 64 * 1024
"""Bytes. A program that says more than this has not understood the question."""


class ShortAnswer(Struct, frozen=True):
    code: int | None
    """Its exit code; None if it did not answer: it took too long, or said too much."""
    text: str


def ask(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    seconds: float,
    *,
    with_errors: bool = False,
    leave: int | None = None,
) -> ShortAnswer:
    """Ask a program; with errors, what it says of them is a part of its answer.

    It is asked far from any project, whose own settings for it may have come from anybody. Nothing
    of it is left. `leave` is a file that can be read from when nobody wants the answer any more.
    Raises OSError if it cannot be started.
    """
    program, *words = argv
    with subprocess.Popen(
        [str(Path(program).absolute()) if os.sep in program else program, *words],
        env=None if env is None else dict(env),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if with_errors else subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            said = _read(process, time.monotonic() + seconds, leave)
        finally:
            # What it started, and holds the pipe, ends with it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    if said is None:
        return ShortAnswer(None, "")
    return ShortAnswer(process.returncode, said.decode("utf-8", "replace"))


def _read(process: subprocess.Popen[bytes], until: float, leave: int | None) -> bytes | None:
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    heard = [pipe] if leave is None else [pipe, leave]
    said = b""
    while len(said) <= MOST_READ:
        ready = select.select(heard, [], [], max(until - time.monotonic(), 0))[0]
        if not ready or leave in ready:
            return None
        piece = os.read(pipe, MOST_READ)
        if not piece:
            break
        said += piece
    else:
        return None
    try:
        process.wait(max(until - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return None
    return said


OF_ONE_REPOSITORY = {
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
}  # fmt: skip
"""What `git rev-parse --local-env-vars` lists, in any version of it."""


def without_repository(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which git finds its repository by the folder it works in."""
    return {name: value for name, value in environ.items() if name not in OF_ONE_REPOSITORY}


MOST_AT_ONCE = 32
NOTHING: Mapping[str, str] = {}

Found = TypeVar("Found")


class Programs:
    """Asks programs side by side; when the context ends, none of them is left."""

    def __init__(
        self, environ: Mapping[str, str], seconds: float = 5, agent_seconds: float = 10
    ) -> None:
        """Some agents take seconds to start on a cold machine, and here all start at once."""
        self._environ = environ
        self.seconds = seconds
        self._agent_seconds = agent_seconds

    def __enter__(self) -> "Programs":
        self.left, self._leave = os.pipe()
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE)
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        self._threads.shutdown()
        os.close(self._leave)
        os.close(self.left)

    def leave(self) -> None:
        """Wait for no answer any more; it may be called more than once, and by any thread."""
        os.write(self._leave, b"\n")

    def begin(self, look: Callable[[], Found]) -> Future[Found]:
        return self._threads.submit(look)

    def find(self, name: str) -> str | None:
        return shutil.which(name, path=self._environ.get("PATH"))

    def ask(
        self,
        argv: Sequence[str],
        *,
        is_agent: bool = False,
        with_errors: bool = False,
        env: Mapping[str, str] = NOTHING,
    ) -> ShortAnswer:
        """Ask a program something short; if it does not answer, the text says why.

        `env` is set on top of the environment.
        """
        seconds = self._agent_seconds if is_agent else self.seconds
        try:
            environ = {**self._environ, **env}
            answer = ask(argv, environ, seconds, with_errors=with_errors, leave=self.left)
        except OSError as error:
            return ShortAnswer(None, f"cannot be started ({error.strerror})")
        if answer.code is None:
            return ShortAnswer(None, f"did not answer within {seconds:g} seconds")
        return answer
