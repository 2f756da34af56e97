"""The tmux engine: opens terminals, types into them, and reports what happens in them.

Others import only the names below. The engine knows nothing of agents.
"""

from .connection import INSTALL_HINT, checked_version, drop_error, read_version
from .engine import Tmux
from .observer import TmuxListener
from .protocol import COLUMNS, HUB_SESSION, ROWS, Command, PaneInfo, PaneScreen

__all__ = [
    "COLUMNS",
    "HUB_SESSION",
    "INSTALL_HINT",
    "ROWS",
    "Command",
    "PaneInfo",
    "PaneScreen",
    "Tmux",
    "TmuxListener",
    "checked_version",
    "drop_error",
    "read_version",
]
