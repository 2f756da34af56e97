"""How `cao` ends, and what a run's record keeps of it."""

from cli_agent_orchestrator.errors import RunLocked, UsageError

EXIT_PASS = 0
EXIT_FAIL = 1
"""All rounds are used up."""
EXIT_USAGE = 2
EXIT_ERROR = 3
"""A run that was stopped by an error can be resumed."""
EXIT_INTERRUPTED = 130
EXIT_CLOSED = 141
"""Nobody reads the output any more; what a shell shows for a program that SIGPIPE ended."""


def exit_code_of(error: Exception) -> int:
    """Return how a command ends that an error keeps from going on."""
    # Where another run works, nothing was begun that could be resumed.
    return EXIT_USAGE if isinstance(error, UsageError | RunLocked) else EXIT_ERROR
