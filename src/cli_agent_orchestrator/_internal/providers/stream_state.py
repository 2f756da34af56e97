"""The state an agent reports in its own output: `ESC ] 7501 ; state=working:app=codex BEL`.

Codex 0.166 and the scripted agent speak it. A terminal draws nothing for it, and an answer cannot
contain it, because agents do not draw escape characters.
"""

import re

from cli_agent_orchestrator._internal.providers.base import AgentSignal, SignalKind

STATE_PATTERN = rb"\x1b\]7501;([^\x07\x1b]*)(?:\x07|\x1b\\)"
START = b"\x1b]7501;"
MAX_REPORT = 256
"""A report that is not over after so many bytes is none."""

KIND_OF_STATE = {
    "working": SignalKind.WORKING,
    "blocked": SignalKind.WAITING,
    "done": SignalKind.FINISHED,
    "error": SignalKind.FAILED,
    "idle": SignalKind.READY,
}


def read_states(data: bytes) -> tuple[list[AgentSignal], bytes]:
    """Return the reports in a piece of output, and what must stand before the next piece."""
    signals = []
    end = 0
    for found in re.finditer(STATE_PATTERN, data):
        end = found.end()
        fields = found[1].decode("utf-8", "replace").split(":")
        state = next((f[6:] for f in fields if f.startswith("state=")), "")
        if state in KIND_OF_STATE:
            signals.append(AgentSignal(KIND_OF_STATE[state], state))
    return signals, _unfinished(data[end:])


def _unfinished(data: bytes) -> bytes:
    """Return the beginning of a report that goes on in the next piece."""
    begun = data.rfind(START)
    if begun >= 0:
        rest = data[begun:]
        return rest if len(rest) <= MAX_REPORT else b""
    for length in range(len(START) - 1, 0, -1):
        if data.endswith(START[:length]):
            return START[:length]
    return b""
