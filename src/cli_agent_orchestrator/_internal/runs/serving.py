"""The server of a run: told when it is chosen, and asked what its agents may do."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from cli_agent_orchestrator._internal.client import ApiClient
from cli_agent_orchestrator._internal.models import Feature
from cli_agent_orchestrator._internal.pipeline.state import RunState
from cli_agent_orchestrator._internal.runs.opening import OpenRun
from cli_agent_orchestrator._internal.runs.patience import patiently
from cli_agent_orchestrator._internal.runs.surroundings import Surroundings
from cli_agent_orchestrator._internal.runs.teller import Teller
from cli_agent_orchestrator.events import ServerChosen


@contextmanager
def connected(run: OpenRun, given: Surroundings, teller: Teller) -> Iterator[ApiClient]:
    """Lead to the server of a run; raise `Stopped` if the run is to stop by then."""
    config = run.prepared.config
    with given.connect(config, teller.warn) as link:
        given.interrupts.check()
        client = link.client
        client.run_index = run.number
        client.record = config.recording
        # Without API our own commands look in the state folder, and find the same server.
        teller.tell(ServerChosen(teller.now, link.url, link.how, config.api_given))
        if config.permissions and Feature.PERMISSIONS not in client.features():
            teller.warn(
                f"the server at {client.base_url} does not take --permissions: its agents may "
                f"do what it was started with, not {config.permissions}"
            )
        yield client


def permissions_of(client: ApiClient, state: RunState) -> str:
    """Return what the agents of a run may do without asking, as their server says it."""
    if Feature.PERMISSIONS not in patiently(client.features, repeatable=True):
        return ""
    agents = (
        patiently(partial(client.get_terminal, one), repeatable=True)
        for one in state.terminals.values()
    )
    told = (agent.get("permissions") for agent in agents)
    return ", ".join(sorted({str(word) for word in told if word}))
