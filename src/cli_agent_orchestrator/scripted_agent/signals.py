"""How the agent tells its state to programs: the pane's title, an event file, the byte stream."""

import json
import os
from contextlib import suppress
from enum import Enum

from cli_agent_orchestrator.scripted_agent.script import Settings

TITLE_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Event(Enum):
    """What happened, in the words that real agents use for their hooks."""

    SESSION_START = "SessionStart"
    USER_PROMPT_SUBMIT = "UserPromptSubmit"
    PERMISSION_REQUEST = "PermissionRequest"
    PRE_TOOL_USE = "PreToolUse"
    POST_TOOL_USE = "PostToolUse"
    STOP = "Stop"
    STOP_FAILURE = "StopFailure"
    SESSION_END = "SessionEnd"


class Look(Enum):
    """What the agent shows of its state; the value is its word in the byte stream."""

    NOTHING = ""
    IDLE = "idle"
    BUSY = "working"
    ASKING = "blocked"
    DONE = "done"


class Signals:
    """Speaks the signals that the settings leave on."""

    def __init__(self, settings: Settings, event_file: str | None) -> None:
        self._settings = settings
        self._event_file = event_file if settings.events else None
        self._title = ""
        self._look = Look.NOTHING

    def announce(self, look: Look, frame: int) -> str:
        """Return the escape sequences that tell a look, empty if nothing has changed."""
        return self._title_change(look, frame) + self._stream_change(look)

    def _title_change(self, look: Look, frame: int) -> str:
        if not self._settings.title or look is Look.NOTHING:
            return ""
        title = {
            Look.BUSY: f"{TITLE_SPINNER[frame % len(TITLE_SPINNER)]} scripted",
            Look.ASKING: "[ ! ] Action Required",
        }.get(look, "scripted")
        if title == self._title:
            return ""
        self._title = title
        return f"\x1b]2;{title}\x07"

    def _stream_change(self, look: Look) -> str:
        if not self._settings.stream_state or look in (Look.NOTHING, self._look):
            return ""
        self._look = look
        kind = ":kind=permission" if look is Look.ASKING else ""
        return f"\x1b]7501;state={look.value}:app=scripted{kind}\x07"

    def tell(self, event: Event, message: str | None = None) -> None:
        """Append an event to the event file, in one write.

        A hook that fails does not stop an agent, so a file that cannot be written is no error.
        """
        if self._event_file is None:
            return
        fields = {"event": event.value} | ({} if message is None else {"message": message})
        with suppress(OSError):
            # Without waiting: a pipe that nobody reads would hold the agent for ever.
            flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK
            if event is not Event.SESSION_END:  # a file that was taken away is not made again
                flags |= os.O_CREAT
            file = os.open(self._event_file, flags, 0o600)
            try:
                os.write(file, json.dumps(fields).encode() + b"\n")
            finally:
                os.close(file)
