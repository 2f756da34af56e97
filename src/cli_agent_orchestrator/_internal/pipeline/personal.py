"""What people leave in the state of a run: hints for its prompts, and what they did."""

from dataclasses import replace

from cli_agent_orchestrator._internal.pipeline.state import KeptHint, PersonalAct, RunState, Turn

MOST_HINTS = 20
"""So many may wait to be told."""
MOST_ACTS = 200


def keep_hint(state: RunState, role: str | None, text: str) -> RunState | str:
    """Return the state in which a hint waits to be told, or why it cannot."""
    known = [one.name for one in state.flow.roles]
    if role is not None and role not in known:
        return f"the flow {state.flow.name} has no role {role!r}; there are: {', '.join(known)}"
    if len(state.progress.hints) >= MOST_HINTS:
        return f"{MOST_HINTS} hints are waiting for their prompts already"
    hints = (*state.progress.hints, KeptHint(role or "", text))
    return replace(state, progress=replace(state.progress, hints=hints))


def hints_for(state: RunState, role: str) -> tuple[KeptHint, ...]:
    """Return the hints that the next prompt has if it is for this role."""
    return tuple(hint for hint in state.progress.hints if hint.role in ("", role))


def drop_hints(state: RunState, role: str) -> RunState:
    """Return the state after a role was told its hints."""
    hints = tuple(hint for hint in state.progress.hints if hint.role not in ("", role))
    return replace(state, progress=replace(state.progress, hints=hints))


def take_hints_back(state: RunState, review: Turn) -> RunState:
    """Return the state in which the hints of a prompt to which nothing is heard wait again."""
    dispatch = state.progress.in_flight
    if dispatch is None or dispatch.turn != review:
        return state
    hints = (*dispatch.hints, *state.progress.hints)
    return replace(state, progress=replace(state.progress, hints=hints))


def note_act(state: RunState, at: float, text: str) -> RunState:
    """Return the state that remembers what a person did."""
    acts = (*state.progress.acts, PersonalAct(at, text))[-MOST_ACTS:]
    return replace(state, progress=replace(state.progress, acts=acts))
