"""What an agent showed when its turn had ended, and where its records are: asked for in one."""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ..core.files import Folder
from ..core.models import AgentView
from ..errors import OrchestratorError
from ..settings.layout import screen_name, turns_folder
from .usage import note_records

# analyst_review
ROLE_PATTERN = r"[a-z][a-z0-9_-]{0,60}"
LARGEST_SCREEN = 64 * 1024
"""Bytes; of more, the last."""


class Shows(Protocol):
    """What is needed of the server."""

    def get_view(self, terminal_id: str) -> AgentView: ...


@dataclass(frozen=True, slots=True)
class Screens:
    """The screens of a run."""

    agents: Shows
    run: Folder

    def keep(self, terminal_id: str, sequence: int, role: str) -> None:
        """Keep what an agent shows now, and note its records; no harm if that cannot be."""
        with suppress(OrchestratorError, OSError):
            view = self.agents.get_view(terminal_id)
            if view.screen:
                data = view.screen.encode(errors="replace")[-LARGEST_SCREEN:]
                turns_folder(self.run).replace(screen_name(sequence, role), data, lasting=False)
            note_records(self.run, terminal_id, view.records)


def read_screen(run: Folder, sequence: int, role: str) -> str | None:
    """Return what an agent showed when its turn had ended; None if that is not known."""
    # Whoever can write the events of a run might name a file elsewhere.
    if not re.fullmatch(ROLE_PATTERN, role):
        return None
    try:
        data = turns_folder(run).read(screen_name(sequence, role), LARGEST_SCREEN)
    except OSError:
        return None
    # The first character may have been cut.
    return data.decode(errors="ignore")
