"""Asking a program something short, whatever the program is: it may hang, or print without end."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST_READ = 64 * 1024
"""Bytes. A program that says more than this has not understood the question."""


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """What a program said."""

    code: int | None
    """Its exit code; None if it did not answer: it took too long, or said too much."""
    text: str
    """What it printed; empty if it did not answer."""


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
    """Return all that a program says until it ends; None if that is too much or takes too long."""
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


OF_ONE_REPOSITORY = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""What `git rev-parse --local-env-vars` lists, in any version of it."""


def without_repository(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which git finds its repository by the folder it works in.

    What else is said to git (who commits, by which ssh) stays.
    """
    return {name: value for name, value in environ.items() if name not in OF_ONE_REPOSITORY}
