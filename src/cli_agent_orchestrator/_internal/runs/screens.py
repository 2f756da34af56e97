"""What an agent showed when its turn had ended: asked for once, and kept in the run folder."""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from cli_agent_orchestrator._internal.layout import screen_name, screens_folder
from cli_agent_orchestrator._internal.models import OutputMode
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.turns import ROLE_PATTERN
from cli_agent_orchestrator.errors import OrchestratorError

LARGEST_SCREEN = 64 * 1024
"""Bytes; of more, the last."""


class Shows(Protocol):
    """What is needed of the server."""

    def get_output(self, terminal_id: str, mode: str = ...) -> str: ...


@dataclass(frozen=True, slots=True)
class Screens:
    """The screens of a run."""

    agents: Shows
    run: Folder

    def keep(self, terminal_id: str, sequence: int, role: str) -> None:
        """Keep what an agent shows now; a run does not suffer if that cannot be."""
        with suppress(OrchestratorError, OSError):
            text = self.agents.get_output(terminal_id, OutputMode.SCREEN)
            if text:
                data = text.encode(errors="replace")[-LARGEST_SCREEN:]
                screens_folder(self.run).replace(screen_name(sequence, role), data, lasting=False)


def read_screen(run: Folder, sequence: int, role: str) -> str | None:
    """Return what an agent showed when its turn had ended; None if that is not known."""
    # Whoever can write the events of a run might name a file elsewhere.
    if not re.fullmatch(ROLE_PATTERN, role):
        return None
    try:
        data = screens_folder(run).read(screen_name(sequence, role), LARGEST_SCREEN)
    except OSError:
        return None
    # The first character may have been cut.
    return data.decode(errors="ignore")
