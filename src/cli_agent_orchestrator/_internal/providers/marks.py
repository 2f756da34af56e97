"""What of an agent's interface can be seen on a screen, and what status that makes.

The agents that fill a whole screen differ in how they draw these marks, not in what they mean.
"""

from dataclasses import dataclass

from cli_agent_orchestrator._internal.models import TerminalStatus


@dataclass(frozen=True, slots=True)
class Marks:
    """What can be seen of an agent. Of the newest turn: how it ended, if it did."""

    asks: bool
    """A dialog stands in the place of the input box."""
    ready: bool
    """The input box is there, and nothing hides what is told beside it."""
    working: bool
    failed: bool
    replied: bool
    interrupted: bool = False
    drafted: bool = False
    """There is text in the input box."""

    def status(self, told: TerminalStatus | None = None) -> TerminalStatus:
        """Return the status, given what the title says besides."""
        if self.asks or told is TerminalStatus.WAITING_USER_ANSWER:
            return TerminalStatus.WAITING_USER_ANSWER
        if self.working or told is TerminalStatus.PROCESSING:
            return TerminalStatus.PROCESSING
        if not self.ready:
            return TerminalStatus.UNKNOWN
        if self.interrupted:
            return TerminalStatus.IDLE
        if self.failed:
            # Stopped before any answer, a turn may leave the screen: its text is back in the box,
            # and the failure is that of an older one.
            return TerminalStatus.IDLE if self.drafted else TerminalStatus.ERROR
        return TerminalStatus.COMPLETED if self.replied else TerminalStatus.IDLE
