"""What commands share: heavy imports put off, how `cao` is called here, a question and a width."""

import gc
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from ..errors import UsageError


@contextmanager
def importing() -> Iterator[None]:
    """Collect no garbage while modules are imported.

    There is none, and looking for it takes a tenth of the time. What was imported stays, so later
    collections need not look at it either. Only for a process that is ours alone.
    """
    # httpx would import its command line, and with it rich and pygments, which nothing here calls.
    # None is how Python notes that a module cannot be imported.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.freeze()


MODULE = "cli_agent_orchestrator"


def own_command(script: str, python: str, path: str | None) -> str:
    """Return what starts this program again, in any folder: `cao` only if the PATH leads here.

    `script` is the first word of the command line, `python` the program that runs it.
    """
    file = Path(script).absolute()
    if file.name == "__main__.py":
        return shlex.join([python, "-m", MODULE])
    known = shutil.which("cao", path=path)
    if known is not None and Path(known).exists() and Path(known).samefile(file):
        return "cao"
    return shlex.quote(str(file))


def confirm(question: str, done: str) -> bool:
    """Ask the user; without a terminal to ask in, refuse. `done` is the word for what is asked."""
    if not sys.stdin.isatty():
        raise UsageError(f"nothing was {done}; add --yes if all of this is meant")
    agreed = click.confirm(question)
    if not agreed:
        click.echo(f"Nothing was {done}.")
    return agreed


def current_folder() -> Path:
    return Path.cwd().resolve()


def terminal_width() -> int | None:
    # COLUMNS, which would count more, may be that of another terminal.
    with suppress(OSError):
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    return None
