"""The tmux engine: opens terminals, types into them, and tells what happens in them.

Others import only what is named here. The engine knows nothing of agents.
"""

from .connection import INSTALL_HINT, checked_version, drop_error
from .engine import Address, Tmux
from .observer import TmuxListener
from .protocol import COLUMNS, HUB_SESSION, ROWS, Command, PaneInfo, PaneScreen

__all__ = [
    "COLUMNS",
    "HUB_SESSION",
    "INSTALL_HINT",
    "ROWS",
    "Address",
    "Command",
    "PaneInfo",
    "PaneScreen",
    "Tmux",
    "TmuxListener",
    "checked_version",
    "drop_error",
]
