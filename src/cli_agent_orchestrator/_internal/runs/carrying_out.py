"""Carries out a run for whoever starts it: told how it ended, with the exit code of that."""

from contextlib import suppress

from cli_agent_orchestrator._internal.exit_codes import (
    EXIT_CLOSED,
    EXIT_ERROR,
    EXIT_FAIL,
    EXIT_PASS,
    exit_code_of,
)
from cli_agent_orchestrator._internal.pipeline.state import FinalStatus
from cli_agent_orchestrator._internal.runs.conductor import Conductor
from cli_agent_orchestrator._internal.runs.refusals import NOT_BEGUN
from cli_agent_orchestrator._internal.runs.surroundings import Interrupts
from cli_agent_orchestrator.errors import OrchestratorError, RunError, Stopped, in_words

EXIT_CODES = {FinalStatus.PASS: EXIT_PASS, FinalStatus.FAIL: EXIT_FAIL}
"""How a finished run ends."""


def carry_out(conductor: Conductor, interrupts: Interrupts) -> int:
    """Take a run to its end and return its exit code; raise what keeps it from going on."""
    try:
        state = conductor.run()
    except Stopped as stopped:
        _end(conductor, interrupts.exit_code, interrupts.reason or str(stopped))
        return interrupts.exit_code
    except OrchestratorError as error:
        _end(conductor, exit_code_of(error), str(error), error)
        raise
    except BrokenPipeError:
        _end(conductor, EXIT_CLOSED, "nobody reads its output any more")
        raise
    except OSError as error:
        if interrupts.reason:
            # A terminal that was closed takes with it the place where things are told.
            _end(conductor, interrupts.exit_code, interrupts.reason)
            return interrupts.exit_code
        _end(conductor, EXIT_ERROR, in_words(error))
        kept = "the run is saved and can be resumed" if conductor.is_saved else NOT_BEGUN
        raise RunError(f"{in_words(error)}; {kept}") from error
    except Exception as error:
        _end(conductor, EXIT_ERROR, f"a fault of cao: {type(error).__name__}")
        raise
    _end(conductor, EXIT_CODES[state.final_status])
    return EXIT_CODES[state.final_status]


def _end(
    conductor: Conductor,
    exit_code: int,
    reason: str = "",
    error: OrchestratorError | None = None,
) -> None:
    # Where the output goes may be what is gone.
    with suppress(OSError):
        conductor.end(exit_code, reason, error)
