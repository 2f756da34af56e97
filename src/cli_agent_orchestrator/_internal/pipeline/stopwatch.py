"""How long an agent has worked on a turn."""

from dataclasses import dataclass

from cli_agent_orchestrator._internal.models import TerminalStatus


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """Counts the seconds of a turn, but not those in which its agent waits for a person.

    Nor those in which the run was stopped: the next one begins with what was counted before.
    """

    worked: float
    """Seconds, up to the time `at`."""
    at: float
    """Unix time."""
    waiting: bool = False
    """Does the agent wait for a person since then?"""

    def see(self, status: TerminalStatus, at: float) -> "Stopwatch":
        """Return the watch after the agent was seen to do something at a certain time."""
        return Stopwatch(
            self.worked_by(at), max(at, self.at), status is TerminalStatus.WAITING_USER_ANSWER
        )

    def worked_by(self, at: float) -> float:
        """Return how many seconds will have been worked at a certain time."""
        return self.worked if self.waiting else self.worked + max(at - self.at, 0.0)
