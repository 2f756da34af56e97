"""The id of a run, the same wherever the run has a name: `20261115-084037-k3f9`.

It is the name of the run's folders and of its tmux session (with `cao-` before it).
"""

import re
import secrets
import string
from datetime import datetime

from cli_agent_orchestrator._internal.clock import Clock

SESSION_PREFIX = "cao-"
LETTERS = string.ascii_lowercase + string.digits
RANDOM_LETTERS = 4

# 20261115-084037-k3f9; runs of earlier versions: 20250131-120000, 20250131-120000-2
RUN_ID_PATTERN = r"[0-9]{8}-[0-9]{6}(-[0-9a-z]{1,8})?"


def new_run_id(clock: Clock) -> str:
    """Return an id that no run has: the local time and a few random letters."""
    tail = "".join(secrets.choice(LETTERS) for _ in range(RANDOM_LETTERS))
    return f"{datetime.fromtimestamp(clock.now()):%Y%m%d-%H%M%S}-{tail}"


def began_at(run_id: str) -> float | None:
    """Return the Unix time that an id is made of; None if no calendar has it."""
    try:
        return datetime.strptime("-".join(run_id.split("-")[:2]), "%Y%m%d-%H%M%S").timestamp()
    except (ValueError, OverflowError):
        return None


def is_run_id(text: str) -> bool:
    """Can this be the id of a run? Nothing else ever names a folder."""
    return re.fullmatch(RUN_ID_PATTERN, text, re.ASCII) is not None


def short_name(run_id: str) -> str:
    """Return what people can call a run by: its last letters.

    Not if they could be taken for a date, or for the id of a terminal.

    >>> short_name("20261115-084037-k3f9"), short_name("20261115-084037-2026")
    ('k3f9', '20261115-084037-2026')
    """
    tail = run_id.rpartition("-")[2]
    is_clear = len(tail) == RANDOM_LETTERS and re.fullmatch(r"[0-9a-f]*", tail) is None
    return tail if is_clear else run_id


def session_name_of(run_id: str) -> str:
    """Return the name of a run's session, as the server calls it too: it can be ended by that."""
    return f"{SESSION_PREFIX}{run_id}"


def run_of_session(session: str) -> str:
    """Return the id of the run that a session belongs to; empty if it is no run's."""
    name = session.removeprefix(SESSION_PREFIX)
    return name if name != session and is_run_id(name) else ""
