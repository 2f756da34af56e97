"""The tmux engine: opens terminals, types into them, and tells what happens in them.

Others import only what is named here. The engine knows nothing of agents.
"""

from . import death as processes
from .engine import DEFAULT_SIZE, Address, Tmux
from .hub import INSTALL_HINT, checked_version
from .observer import TmuxListener
from .protocol import HUB_SESSION, Command, PaneInfo, PaneScreen, Size

__all__ = [
    "DEFAULT_SIZE",
    "HUB_SESSION",
    "INSTALL_HINT",
    "Address",
    "Command",
    "PaneInfo",
    "PaneScreen",
    "Size",
    "Tmux",
    "TmuxListener",
    "checked_version",
    "processes",
]
