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


@pytest.mark.parametrize(("verdict", "code"), [(FinalStatus.PASS, 0), (FinalStatus.FAIL, 1)])
def test_a_verdict_is_the_exit_code(verdict: FinalStatus, code: int) -> None:
    run = Conducted(verdict)
    assert end(run) == code
    assert run.told == [(code, "")]


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError("not so"), EXIT_USAGE), (RunError("it broke"), EXIT_ERROR)]
)
def test_an_error_is_told_as_the_end_and_goes_on_to_the_user(error: Exception, code: int) -> None:
    run = Conducted(error)
    with pytest.raises(type(error)) as caught:
        end(run)
    assert caught.value is error
    assert run.told == [(code, str(error))]
    assert run.error is error


@pytest.mark.parametrize(
    ("noted", "reason"), [(signal.SIGHUP, STOPPED), (None, "stopped by a person")]
)
def test_who_stopped_it_is_told(noted: signal.Signals | None, reason: str) -> None:
    run = Conducted(Stopped("stopped by a person"))
    assert end(run, noted) == HUNG_UP
    assert run.told == [(HUNG_UP, reason)]


@pytest.mark.parametrize("is_deaf", [False, True])
def test_a_terminal_that_was_closed_is_a_signal_and_no_error(is_deaf: bool) -> None:
    run = Conducted(GONE, is_deaf=is_deaf)
    assert end(run, signal.SIGHUP) == HUNG_UP
    assert run.told == [(HUNG_UP, STOPPED)]


@pytest.mark.parametrize(
    ("is_saved", "words"),
    [(True, "the run is saved and can be resumed"), (False, "no run was begun")],
)
def test_what_the_system_refuses_is_told_with_what_is_left_of_the_run(
    is_saved: bool, words: str
) -> None:
    run = Conducted(GONE, is_saved=is_saved)
    with pytest.raises(RunError, match=f"the terminal is gone; {words}"):
        end(run)
    assert run.told == [(EXIT_ERROR, "the terminal is gone")]


@pytest.mark.parametrize(
    ("is_saved", "words"), [(True, "what is saved can be resumed"), (False, "no run was begun")]
)
def test_a_closed_output_is_told_with_what_is_left_of_the_run(is_saved: bool, words: str) -> None:
    run = Conducted(BrokenPipeError(), is_saved=is_saved)
    with pytest.raises(BrokenPipeError, match=f"nobody reads the output any more; {words}"):
        end(run)
    assert [code for code, _ in run.told] == [EXIT_CLOSED]


def test_a_fault_of_the_program_is_told_without_its_words() -> None:
    run = Conducted(KeyError("a secret"))
    with pytest.raises(KeyError):
        end(run)
    assert run.told == [(EXIT_ERROR, "a fault of cao: KeyError")]


def test_the_request_behind_an_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    error = HandoffError("the agent is gone")
    error.__cause__ = ApiRefused("GET", "/terminals/9f3c", 404, "Not Found")
    with pytest.raises(HandoffError):
        end(Conducted(error))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith("GET /terminals/9f3c: 404: Not Found")


def passed(proof: ProofWords) -> RunState:
    state = new_state()
    progress = replace(state.progress, proof=proof)
    return replace(state, final_status=FinalStatus.PASS, progress=progress)


def test_the_end_of_a_run_has_each_part_of_what_was_proven() -> None:
    proven = passed(ProofWords(True, "it is", "1 change", "2 changes"))
    shown = run_ended(9.0, proven, 0, "")
    assert shown.proof == (
        "proven: it is; look at 1 change; before the run and not committed: 2 changes"
    )
    assert (shown.proven, shown.gaps) == (True, "")
    assert (shown.look_at, shown.before) == ("1 change", "2 changes")
    missing = run_ended(9.0, passed(ProofWords(False, "no tests")), 0, "")
    assert (missing.proof, missing.proven) == ("not proven: no tests", False)
    assert (missing.gaps, missing.look_at, missing.before) == ("no tests", "", "")


def test_the_end_of_a_run_names_the_command_that_its_error_has() -> None:
    late = HandoffTimeout("it took too long", to_resume="cao resume k3f9")
    assert str(late) == "it took too long"
    assert run_ended(9.0, None, 3, "", late).to_resume == "cao resume k3f9"
    assert run_ended(9.0, None, 3, "", RunError("`cao resume k3f9`")).to_resume == ""
    assert run_ended(9.0, None, 3, "", RunLocked("x")).error == "RunLocked"
