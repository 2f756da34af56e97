"""A sandbox for gates: bubblewrap on Linux, sandbox-exec on macOS.

In it a command reads what the user can read, writes to its folder and to temporary files alone, and
has no network. With bubblewrap it has a /tmp of its own, sees no Unix socket of a program outside
(tmux, docker, gpg-agent would run commands for it), and all its processes end with it.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from ..core.programs import ask
from ..errors import in_words

TRY_SECONDS = 20
MOST_WORDS = 200
"""Characters of what a sandbox says that cannot be used."""
HIDDEN = ("/tmp", "/var/tmp", "/run")
"""Empty in it: temporary files of others, and sockets that lead out of it."""
# What a command may write to on macOS besides its folder.
SEATBELT_PROFILE = """\
(version 1)
(allow default)
(deny network*)
(deny file-write*)
(allow file-write*
  (subpath (param "FOLDER"))
  (subpath "/private/tmp")
  (subpath "/private/var/folders")
  (subpath "/dev"))
"""


class Sandbox(StrEnum):
    """A program that runs another one in a sandbox."""

    BUBBLEWRAP = "bwrap"
    SEATBELT = "sandbox-exec"


@dataclass(frozen=True, slots=True)
class Search:
    """Which sandbox there is, or why there is none."""

    sandbox: Sandbox | None
    problem: str = ""


NONE = "no sandbox is available"
BY_SYSTEM = {"linux": Sandbox.BUBBLEWRAP, "darwin": Sandbox.SEATBELT}
INSTALL = {Sandbox.BUBBLEWRAP: "install bubblewrap", Sandbox.SEATBELT: "it comes with macOS"}


def sandbox_words(sandbox: Sandbox, folder: Path, hidden: Sequence[Path] = ()) -> tuple[str, ...]:
    """Return the words before a command that runs in a sandbox and may write to a folder.

    `hidden` are folders that are empty in it, in which a program outside may make a socket later.
    """
    if sandbox is Sandbox.SEATBELT:
        return (sandbox, "-D", f"FOLDER={folder}", "-p", SEATBELT_PROFILE)
    empty = [*HIDDEN, *(str(path.resolve()) for path in hidden)]
    return (
        *(sandbox, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(word for path in empty for word in ("--tmpfs", path)),
        # On some systems the programs are there.
        *("--ro-bind-try", "/run/current-system", "/run/current-system"),
        # After what hides it, if it is in one of these.
        *("--bind", str(folder), str(folder), "--chdir", str(folder)),
        *(word for path in _sockets(empty, folder) for word in ("--ro-bind", "/dev/null", path)),
        *("--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--cap-drop", "ALL", "--new-session", "--die-with-parent"),
        *("--setenv", "TMPDIR", "/tmp", "--"),
    )


def _sockets(empty: Sequence[str], folder: Path) -> list[str]:
    """Return the Unix sockets of all programs that a command would see."""
    found = set()
    with suppress(OSError):
        for line in Path("/proc/net/unix").read_text("utf-8", "surrogateescape").splitlines()[1:]:
            # "0000000000000000: 00000002 00000000 00010000 0001 01 37 /home/ada/.gnupg/S.gpg-agent"
            path = Path([*line.split(None, 7), ""][7]).resolve()
            is_hidden = any(path.is_relative_to(place) for place in empty)
            with suppress(OSError):
                if path.is_socket() and (not is_hidden or path.is_relative_to(folder)):
                    found.add(str(path))
    return sorted(found)


@cache
def find_sandbox(
    system: str = sys.platform,
    path: str | None = None,
    *,
    seconds: float = TRY_SECONDS,
    leave: int | None = None,
) -> Search:
    """Return the sandbox of a system; that it is installed does not mean that it may be used.

    It is looked for in the folders of `path`, or of PATH. `leave` is as for `ask`.
    """
    sandbox = BY_SYSTEM.get(system)
    if sandbox is None:
        return Search(None, NONE)
    program = shutil.which(sandbox, path=path)
    if program is None or not os.path.isabs(program):  # noqa: PTH117
        return Search(None, f"{NONE} ({INSTALL[sandbox]})")
    try:
        with tempfile.TemporaryDirectory() as folder:
            _, *words = sandbox_words(sandbox, Path(folder).resolve())
            tried = [program, *words, "true"]
            done = ask(tried, None, seconds, with_errors=True, leave=leave)
    except OSError as error:
        return Search(None, f"{NONE} ({sandbox} cannot be used: {in_words(error)})")
    if done.code != 0:
        silent = f"it did not answer within {seconds:g} seconds"
        said = " ".join(done.text.split())[:MOST_WORDS] or silent
        return Search(None, f"{NONE} ({sandbox} cannot be used: {said})")
    return Search(sandbox)
