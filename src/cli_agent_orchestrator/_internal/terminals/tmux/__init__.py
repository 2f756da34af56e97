"""The tmux engine: opens terminals, types into them, and tells what happens in them.

Others import only what is named here. The engine knows nothing of agents.
"""

from cli_agent_orchestrator._internal.terminals.tmux import processes
from cli_agent_orchestrator._internal.terminals.tmux.engine import Tmux
from cli_agent_orchestrator._internal.terminals.tmux.hub import INSTALL_HINT, checked_version
from cli_agent_orchestrator._internal.terminals.tmux.keeper import DEFAULT_SIZE, Address
from cli_agent_orchestrator._internal.terminals.tmux.observer import TmuxListener
from cli_agent_orchestrator._internal.terminals.tmux.panes import (
    HUB_SESSION,
    Command,
    PaneInfo,
    PaneScreen,
    Size,
)

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
