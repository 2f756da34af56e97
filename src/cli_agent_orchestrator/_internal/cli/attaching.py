"""How a person gets into an agent's window of tmux, and out of it again."""

import re
import subprocess
from collections.abc import Mapping, Sequence

from cli_agent_orchestrator.errors import TmuxMissing

USUAL_PREFIX = "C-b"
LEAVE_KEY = "d"
HINT_MILLISECONDS = 8000
OWN_TMUX = ("TMUX", "TMUX_PANE")
"""By these a program knows that it runs in a tmux; with them set, attaching is refused."""
# C-b, M-a, C-Space, F12
PREFIX_PATTERN = r"((?:[CMS]-)*)([!-~]|[A-Za-z][A-Za-z0-9]+)"
MODIFIERS = {"C": "Ctrl", "M": "Alt", "S": "Shift"}


def attach_command(socket: str, session: str, window: str, hint: str) -> tuple[str, ...]:
    """Return what attaches to a window and shows there for a while how to leave it.

    Among several who look at it, nobody's small terminal makes the agent's window smaller.
    """
    return (
        *("tmux", "-u", "-L", socket),
        *("attach", "-f", "ignore-size", "-t", f"={session}:={window}", ";"),
        *("display-message", "-d", str(HINT_MILLISECONDS), hint.replace("#", "##")),
    )


def leave_words(prefix: str, outer_prefix: str | None) -> str:
    """Say how an agent's window is left; `outer_prefix` is that of the person's own tmux, if any.

    >>> leave_words("C-b", None)
    'Leave with Ctrl-b d'
    """
    key = key_words(prefix)
    if outer_prefix != prefix:
        return f"Leave with {key} {LEAVE_KEY}"
    return f"Leave with {key} {key} {LEAVE_KEY} (the first {key} is for your own tmux)"


def key_words(key: str) -> str:
    """Return a key of tmux as it is written on a keyboard; the usual one for what is none.

    >>> key_words("C-Space")
    'Ctrl-Space'
    """
    found = re.fullmatch(PREFIX_PATTERN, key)
    if found is None or key == "None":
        return key_words(USUAL_PREFIX)
    modifiers = (MODIFIERS[letter] for letter in found[1].split("-") if letter)
    return "-".join((*modifiers, found[2]))


def read_prefixes(socket: str, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the prefix keys of the agents' tmux, and of the one that the command is typed in."""
    inner = _prefix(["-L", socket], environ)
    return inner, _prefix([], environ) if environ.get("TMUX") else None


def outside_tmux(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a tmux can be attached to from inside another one."""
    return {name: value for name, value in environ.items() if name not in OWN_TMUX}


def _prefix(server: Sequence[str], environ: Mapping[str, str]) -> str:
    try:
        shown = subprocess.run(
            ["tmux", *server, "show-options", "-gv", "prefix"],
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        raise TmuxMissing("tmux is not installed; `cao doctor` says how to get it") from None
    return shown.stdout.strip() or USUAL_PREFIX
