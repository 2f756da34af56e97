"""Which agent of a run asks something that is to be answered."""

from cli_agent_orchestrator._internal.api.backend import Terminals
from cli_agent_orchestrator._internal.models import RunAgents, Terminal, TerminalStatus
from cli_agent_orchestrator.errors import NotFound, NotSteerable


def find_asking(terminals: Terminals, agents: RunAgents) -> tuple[str, str]:
    """Return the role and the terminal of the one agent that asks; raise who does what instead."""
    found = {role: _terminal(terminals, agents, role) for role in agents.terminals}
    if not found:
        raise NotSteerable(f"the run {agents.run} has no agents yet")
    if not any(found.values()):
        whose = f"the server at {agents.api} has them" if agents.api else "another server has them"
        raise NotSteerable(f"the agents of the run {agents.run} are not on this server; {whose}")
    asking = [role for role, terminal in found.items() if terminal and _asks(terminal)]
    if not asking:
        states = ", ".join(f"{role} is {_state(terminal)}" for role, terminal in found.items())
        raise NotSteerable(f"nobody asks anything in the run {agents.run}: {states}")
    if len(asking) > 1:
        raise NotSteerable(
            f"several agents of the run {agents.run} ask something, say which role is meant: "
            f"{', '.join(asking)}"
        )
    return asking[0], agents.terminals[asking[0]]


def _terminal(terminals: Terminals, agents: RunAgents, role: str) -> Terminal | None:
    """Return the terminal of a role if it is here, and of this run."""
    try:
        terminal = terminals.terminal(agents.terminals[role])
    except NotFound:
        return None
    # Until all agents are there, the run has not said which session they are in.
    is_of_run = agents.session_name in ("", terminal.session_name)
    return terminal if is_of_run else None


def _asks(terminal: Terminal) -> bool:
    return terminal.status is TerminalStatus.WAITING_USER_ANSWER


def _state(terminal: Terminal | None) -> str:
    return "not there" if terminal is None else terminal.status
