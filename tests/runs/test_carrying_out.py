"""How a run ends for whoever started it: what is told, and the exit code."""

from typing import Any

import pytest

from cli_agent_orchestrator._internal.exit_codes import EXIT_ERROR, EXIT_INTERRUPTED
from cli_agent_orchestrator._internal.runs.carrying_out import carry_out
from cli_agent_orchestrator.errors import RunError, Stopped


class Interrupts:
    """Of a run that is to stop, if there is a reason."""

    exit_code = EXIT_INTERRUPTED

    def __init__(self, reason: str = "") -> None:
        self.reason = reason

    def check(self) -> None:
        """Nobody asks here."""

    def when_noted(self, stop: object) -> None:
        """Nor is anybody told."""


class Failing:
    """A conductor whose run fails, and which may have no place left to tell that."""

    def __init__(self, error: Exception, *, is_saved: bool = True, is_deaf: bool = False) -> None:
        self._error = error
        self.is_saved = is_saved
        self._is_deaf = is_deaf
        self.ended: tuple[int, str] | None = None

    def run(self) -> None:
        raise self._error

    def end(self, exit_code: int, reason: str, error: Exception | None) -> None:
        self.ended = exit_code, reason
        if self._is_deaf:
            raise OSError(5, "Input/output error")


# Any: it has what is asked of a conductor here
def failing(error: Exception, **how: bool) -> Any:
    return Failing(error, **how)


@pytest.mark.parametrize(("reason", "told"), [("Ctrl-C", "Ctrl-C"), ("", "enough")])
def test_a_run_that_was_stopped_says_why(reason: str, told: str) -> None:
    conductor = failing(Stopped("enough"))
    assert carry_out(conductor, Interrupts(reason)) == EXIT_INTERRUPTED
    assert conductor.ended == (EXIT_INTERRUPTED, told)


@pytest.mark.parametrize(
    ("is_saved", "said"), [(True, "saved and can be resumed"), (False, "no run was begun")]
)
def test_whom_the_system_fails_hears_whether_the_run_can_go_on(is_saved: bool, said: str) -> None:
    conductor = failing(OSError(28, "No space left on device"), is_saved=is_saved)
    with pytest.raises(RunError, match=f"^No space left on device; .*{said}"):
        carry_out(conductor, Interrupts())
    assert conductor.ended == (EXIT_ERROR, "No space left on device")


def test_a_run_whose_terminal_was_closed_is_interrupted_and_not_at_fault() -> None:
    conductor = failing(OSError(5, "Input/output error"), is_deaf=True)
    assert carry_out(conductor, Interrupts("the terminal was closed")) == EXIT_INTERRUPTED
    assert conductor.ended == (EXIT_INTERRUPTED, "the terminal was closed")


def test_a_fault_of_ours_is_noted_as_one_and_stays_what_it_is() -> None:
    conductor = failing(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        carry_out(conductor, Interrupts())
    assert conductor.ended == (EXIT_ERROR, "a fault of cao: ZeroDivisionError")
