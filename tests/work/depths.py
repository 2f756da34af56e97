"""Folders in folders, more than a path can name or a recursion can bear."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def folders_in(top: Path, depth: int = 1100, name: str = "d", file: str = "") -> Iterator[None]:
    """Make folders in each other, the last one perhaps with a file in it; remove them at the end.

    What removes the folders of tests may not get that deep.
    """
    top.mkdir(parents=True, exist_ok=True)
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(depth):
            os.mkdir(name, dir_fd=here)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = inner
        if file:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT, dir_fd=here))
        yield
    finally:
        os.close(here)
        subprocess.run(["rm", "-rf", "--", name], cwd=top, check=True)
