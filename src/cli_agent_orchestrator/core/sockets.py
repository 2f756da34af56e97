"""Where the user's own server listens: a Unix socket in the state folder.

The folder `sockets` is open to its owner alone, so whoever can connect is the user: commands need
no token. Where the state folder cannot hold a socket (a path that is too long, a network drive),
`sockets` is a link to a folder in the runtime folder of the user or in the temporary folder.
"""

import os
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

FOLDER = "sockets"
LASTING, PASSING = "server", "passing"
"""The sockets: of a server that lasts, and of one that ends with a short command."""
ADDRESS_FILE = "server"
"""The file in the state folder that has the address at which a server listens for browsers."""
LONGEST_PATH = 100
"""Bytes; systems take 103 at least."""
LOOPBACK = "127.0.0.1"
NOWHERE = "http://localhost"
"""What stands for the address of a server that listens on its socket alone."""


def server_url(host: str, port: int) -> str:
    """Return the address of a server that listens there, as its own machine reaches it."""
    host = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def find_socket(state_dir: Path, name: str) -> Path | None:
    """Return the socket of this name if it is there, in a folder that only its owner can enter."""
    folder = Path(os.path.realpath(state_dir / FOLDER))
    path = folder / name
    return path if _is_private(folder) and path.is_socket() else None


@contextmanager
def listening(state_dir: Path, name: str, environ: Mapping[str, str]) -> Iterator[socket.socket]:
    """Listen on a socket of the state folder, which the caller has locked."""
    folder = state_dir.absolute() / FOLDER
    try:
        if not folder.is_symlink():
            folder.mkdir(mode=0o700, exist_ok=True)
        listener, path = _listen(folder, name)
    except OSError:
        base = environ.get("XDG_RUNTIME_DIR", "")
        base = base if os.access(base, os.W_OK) else tempfile.gettempdir()
        folder.unlink() if folder.is_symlink() else folder.rmdir()
        folder.symlink_to(tempfile.mkdtemp(prefix="cao-", dir=base))
        listener, path = _listen(folder, name)
    with listener:
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)
            if folder.is_symlink():
                folder.unlink()
                path.parent.rmdir()


def _listen(folder: Path, name: str) -> tuple[socket.socket, Path]:
    folder = Path(os.path.realpath(folder))
    path = folder / name
    if not _is_private(folder):
        raise PermissionError(f"others may enter {folder}")
    # The state folder is locked: what is left here is of servers that were killed.
    for left in (LASTING, PASSING):
        (folder / left).unlink(missing_ok=True)
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise OSError(f"a socket cannot have so long a path: {path}")
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen(512)
    except OSError:
        listener.close()
        raise
    return listener, path


def _is_private(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return is_own and not status.st_mode & 0o077
