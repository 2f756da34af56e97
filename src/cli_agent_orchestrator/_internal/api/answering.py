"""Answers what an agent asks: which one of a run it is, and that its run knows of it."""

import asyncio

from cli_agent_orchestrator._internal.api.backend import Backend, Terminals
from cli_agent_orchestrator._internal.models import (
    Question,
    RunAgents,
    Terminal,
    TerminalStatus,
)
from cli_agent_orchestrator.errors import NotFound, NotSteerable

LONGEST_CHOICE = 200


async def answer_question(
    backend: Backend, terminal_id: str, key: str, fingerprint: str | None
) -> bool:
    """Press a key that answers what an agent asks; say whether it ceases to ask.

    The run of the agent keeps it with all else that people do.
    """
    terminals = backend.terminals
    session, asked = terminals.terminal(terminal_id).session_name, terminals.question(terminal_id)
    is_answered = await terminals.answer(terminal_id, key, fingerprint=fingerprint)
    if backend.runs is not None:
        text = _words_of(asked, key)
        await asyncio.to_thread(backend.runs.note_answer, session, terminal_id, text)
    return is_answered


def _words_of(asked: Question | None, key: str) -> str:
    """Return the words of the choice that a key stands for, else the key."""
    labels = [one.label.strip() for one in asked.choices if one.key == key] if asked else []
    return next(filter(None, labels), key)[:LONGEST_CHOICE]


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
