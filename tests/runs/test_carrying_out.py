"""How the end of a run becomes an exit code, and what is told of it, whatever ended it."""

import errno
import logging
import signal
from typing import Any

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.errors import (
    EXIT_CLOSED,
    EXIT_ERROR,
    EXIT_USAGE,
    ApiRefused,
    HandoffError,
    HandoffTimeout,
    OrchestratorError,
    RunError,
    RunLocked,
    Stopped,
    UsageError,
)
from cli_agent_orchestrator.pipeline.state import FinalStatus, RunState
from cli_agent_orchestrator.proof.verdict import ProofWords
from cli_agent_orchestrator.runs.run import carry_out, run_ended
from tests.pipeline.samples import new_state

GONE = OSError(errno.EIO, "the terminal is gone")
HUNG_UP = 128 + signal.SIGHUP
STOPPED = "stopped by a signal"


class Conducted:
    """A run that ends in a certain way."""

    def __init__(
        self, how: Exception | FinalStatus, *, is_saved: bool = True, is_deaf: bool = False
    ) -> None:
        """Take how; one that is deaf has no place left to tell it."""
        self._how = how
        self._is_deaf = is_deaf
        self.is_saved = is_saved
        self.told: list[tuple[int, str]] = []
        self.error: OrchestratorError | None = None

    def run(self) -> RunState:
        if isinstance(self._how, Exception):
            raise self._how
        return RunState("", "codex", "/p", "do it", final_status=self._how)

    def end(self, exit_code: int, reason: str = "", error: OrchestratorError | None = None) -> None:
        self.told.append((exit_code, reason))
        self.error = error
        if self._is_deaf:
            raise GONE


class Interrupted:
    """Signals that have come, or none."""

    def __init__(self, noted: signal.Signals | None = None) -> None:
        self.reason = STOPPED if noted else ""
        self.exit_code = HUNG_UP


def end(run: Conducted, noted: signal.Signals | None = None) -> int:
    # Any: what is asked of a conductor and of the signals is here
    conductor: Any = run
    interrupts: Any = Interrupted(noted)
    return carry_out(conductor, interrupts)


HOW = "it stopped"
BY_USER, BROKEN = Stopped(HOW), BrokenPipeError()
PIPE_GONE, NOBODY = "nobody reads its output any more", "nobody reads the output any more"


@pytest.mark.parametrize(
    ("how", "noted", "is_saved", "told", "raised"),
    [
        (FinalStatus.PASS, None, True, (0, ""), ""),
        (FinalStatus.FAIL, None, True, (1, ""), ""),
        (BY_USER, None, True, (HUNG_UP, HOW), ""),
        (BY_USER, signal.SIGHUP, True, (HUNG_UP, STOPPED), ""),
        # A terminal that was closed is a signal and no error.
        (GONE, signal.SIGHUP, True, (HUNG_UP, STOPPED), ""),
        (GONE, None, True, (EXIT_ERROR, "the terminal is gone"), "gone; the run is saved and can"),
        (GONE, None, False, (EXIT_ERROR, "the terminal is gone"), "gone; no run was begun"),
        (BROKEN, None, True, (EXIT_CLOSED, PIPE_GONE), f"{NOBODY}; what is saved can be resumed"),
        (BROKEN, None, False, (EXIT_CLOSED, PIPE_GONE), f"{NOBODY}; no run was begun"),
        (UsageError("not so"), None, True, (EXIT_USAGE, "not so"), "not so"),
        (RunError("it broke"), None, True, (EXIT_ERROR, "it broke"), "it broke"),
        (KeyError("a secret"), None, True, (EXIT_ERROR, "a fault of cao: KeyError"), "a secret"),
    ],
    ids=repr,
)
def test_how_it_ended_is_told_and_returned_or_raised(
    how: Exception | FinalStatus,
    noted: signal.Signals | None,
    is_saved: bool,
    told: tuple[int, str],
    raised: str,
) -> None:
    run = Conducted(how, is_saved=is_saved)
    if raised:
        with pytest.raises((OrchestratorError, KeyError, BrokenPipeError), match=raised):
            end(run, noted)
    else:
        assert end(run, noted) == told[0]
    assert run.told == [told]
    assert run.error is (how if isinstance(how, OrchestratorError) else None)


def test_where_nothing_can_be_told_any_more_it_ends_the_same() -> None:
    assert end(Conducted(GONE, is_deaf=True), signal.SIGHUP) == HUNG_UP


def test_the_request_behind_an_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    error = HandoffError("the agent is gone")
    error.__cause__ = ApiRefused("GET", "/terminals/9f3c", 404, "Not Found")
    with pytest.raises(HandoffError):
        end(Conducted(error))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith("GET /terminals/9f3c: 404: Not Found")


def passed(proof: ProofWords | None) -> RunState:
    state = new_state()
    progress = replace(state.progress, proof=proof)
    return replace(state, final_status=FinalStatus.PASS, progress=progress)


def test_the_end_of_a_run_names_the_command_that_its_error_has() -> None:
    late = HandoffTimeout("it took too long", to_resume="cao resume k3f9")
    assert str(late) == "it took too long"
    assert run_ended(9.0, None, 3, "", late).to_resume == "cao resume k3f9"
    assert run_ended(9.0, None, 3, "", RunError("`cao resume k3f9`")).to_resume == ""
    assert run_ended(9.0, None, 3, "", RunLocked("x")).error == "RunLocked"
