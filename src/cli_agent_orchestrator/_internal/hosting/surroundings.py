"""What the programs on this machine give to a run: servers, agents, flows, the state folder."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from cli_agent_orchestrator._internal.config import state_folder
from cli_agent_orchestrator._internal.hosting.connect import Importing
from cli_agent_orchestrator._internal.hosting.flows import flows_of
from cli_agent_orchestrator._internal.hosting.link import server_for
from cli_agent_orchestrator._internal.hosting.notifying import NotifyingView
from cli_agent_orchestrator._internal.pipeline.flow import Flow
from cli_agent_orchestrator._internal.providers import get_provider
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.surroundings import Interrupts, ServerLink, Surroundings


def surroundings_of(
    view: NotifyingView,
    interrupts: Interrupts,
    environ: Mapping[str, str],
    *,
    importing: Importing = nullcontext,
    api_given: bool = False,
) -> Surroundings:
    """Return what a run is given here; `importing` is around the import of our own server."""

    def connect(
        config: RunConfig, on_warning: Callable[[str], None]
    ) -> AbstractContextManager[ServerLink]:
        return server_for(config, environ, on_warning, importing=importing)

    def find_flow(named: str, folder: Path) -> Flow:
        return flows_of(folder, environ, api_given=api_given).find(named)

    return Surroundings(
        view,
        interrupts,
        connect,
        get_provider,
        state_folder(environ),
        environ,
        find_flow,
        pop_warnings=view.pop_warnings,
    )
