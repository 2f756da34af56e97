"""Has a run conducted from the command line: signals, server, exit code."""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import click

from cli_agent_orchestrator._internal.cli.importing import importing
from cli_agent_orchestrator._internal.cli.interrupts import Interrupts
from cli_agent_orchestrator._internal.config import state_folder
from cli_agent_orchestrator._internal.exit_codes import EXIT_CLOSED, EXIT_ERROR, exit_code_of
from cli_agent_orchestrator._internal.hosting.flows import flows_of
from cli_agent_orchestrator._internal.hosting.link import server_for
from cli_agent_orchestrator._internal.pipeline.flow import Flow
from cli_agent_orchestrator._internal.providers import get_provider
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.conductor import EXIT_CODES, NOT_BEGUN, Conductor
from cli_agent_orchestrator._internal.runs.request import RunRequest
from cli_agent_orchestrator._internal.runs.surroundings import Link, Surroundings
from cli_agent_orchestrator._internal.runs.view import View
from cli_agent_orchestrator.errors import OrchestratorError, RunError, Stopped, in_words

STOPPED = "stopped by a signal"
CLOSED = "cao: nobody reads the output any more; what is saved can be resumed"


def conduct(
    request: RunRequest,
    view: View,
    environ: Mapping[str, str] = os.environ,
    *,
    state_stays: bool = True,
) -> int:
    """Carry out a run and return its exit code; raise what keeps it from going on."""

    def connect(
        config: RunConfig, on_warning: Callable[[str], None]
    ) -> AbstractContextManager[Link]:
        return server_for(config, environ, on_warning, importing=importing)

    def find_flow(named: str, folder: Path) -> Flow:
        return flows_of(folder, environ, api_given=request.config.api_given).find(named)

    with Interrupts() as interrupts, view:
        given = Surroundings(
            view,
            interrupts,
            connect,
            get_provider,
            state_folder(environ),
            find_flow,
            environ,
            state_stays,
        )
        with Conductor(request, given) as conductor:
            return _take_to_its_end(conductor, interrupts)


def _take_to_its_end(conductor: Conductor, interrupts: Interrupts) -> int:
    try:
        state = conductor.run()
    except Stopped as stopped:
        _end(conductor, interrupts.exit_code, STOPPED if interrupts.noted else str(stopped))
        return interrupts.exit_code
    except OrchestratorError as error:
        _end(conductor, exit_code_of(error), str(error), error)
        raise
    except BrokenPipeError:
        _end(conductor, EXIT_CLOSED, "nobody reads its output any more")
        # Told on the other channel: the run is not lost, and its agents may still be there.
        with suppress(OSError):
            click.echo(CLOSED, err=True)
        raise
    except OSError as error:
        if interrupts.noted is not None:
            # A terminal that was closed takes with it the place where things are told.
            _end(conductor, interrupts.exit_code, STOPPED)
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
