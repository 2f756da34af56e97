"""How this very program is called, for commands that users are shown to type."""

import shlex
import shutil
from pathlib import Path

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
