"""A saved run as JSON: as it is kept, and as the earlier shell script saved it.

What is kept (`version: 2`) is the state as it is, without the flow if that is the specification's.
The form of the shell script (`version: 1`) is for scripts and other programs. It is written with
every save and has one key more, `run`: by that the run is found where it is really kept. Read is a
file of which nobody knows the run, and mended:

    current_round       not a whole number of at least 1: 1
    current_phase       not a stage of the flow: its first one
    terminals           a plain id, or an object with id and provider; else empty
    feedbacks           missing or blank: `None yet.`
    any other text      missing: empty

Refused are another `version`, a `final_status` that is not RUNNING, PASS or FAIL (nobody knows
whether such a run is to go on), another flow than the specification's, and what is no object.
"""

from collections.abc import Mapping
from typing import Any

from ..core import codec
from ..errors import StateError
from .flow import DONE
from .flow_file import LOOP, packaged_flow
from .reply import Excerpt, Output
from .state import NO_FEEDBACK, FinalStatus, Progress, RunState

VERSION = 1
KEPT_VERSION = 2
NOTES_KEYS = {"analyst_feedback": "analyst_review", "programmer_feedback": "programmer_review"}
"""Where the specification has the notes of these reviewers."""


def encode_state(state: RunState) -> bytes:
    """Return the state as it is kept."""
    content = {"version": KEPT_VERSION, **codec.plain(state)}
    if state.flow == packaged_flow(LOOP):
        del content["flow"]
    return codec.encode(content)


def decode_state(data: bytes) -> RunState:
    """Return a state that was kept; damaged parts have their defaults."""
    try:
        content = codec.parse(data)
        if content["version"] == KEPT_VERSION:
            return codec.repaired(RunState, content, needed=("final_status", "flow"))
    except (ValueError, LookupError, TypeError) as error:
        raise StateError(f"it is not the state of a run: {error}") from error
    raise StateError("it was written by another version of cao")


# Any: JSON of any form
def to_json(state: RunState) -> dict[str, Any]:
    """Return the state as JSON data."""
    roles = state.flow.roles
    return {
        "version": VERSION,
        "run": state.progress.archive,
        "flow": state.flow.name,
        "updated_at": state.updated_at,
        "api": state.api,
        "provider": state.provider,
        "wd": state.wd,
        "prompt": state.prompt,
        "current_round": state.round,
        "current_phase": state.phase or state.flow.first.name,
        "final_status": str(state.final_status),
        "session_name": state.session_name,
        "terminals": {role.terminal: state.terminal_of(role.name) for role in roles},
        "feedback": state.feedback.text,
        **{key: state.notes_of(reviewer).text for key, reviewer in NOTES_KEYS.items()},
        "outputs": {role.name: state.output_of(role.name).text for role in roles},
    }


def from_json(data: object) -> RunState:
    """Return the state that JSON data describes, mended as the top of this file says."""
    if not isinstance(data, dict):
        raise StateError("it does not hold a JSON object")
    if data.get("version") not in (VERSION, str(VERSION)) or data["version"] is True:
        raise StateError(f"its version is {data.get('version')!r}, expected {VERSION}")
    status = data.get("final_status")
    if status not in list(FinalStatus):
        raise StateError(f"its final_status is {status!r}, not one of {', '.join(FinalStatus)}")
    flow = packaged_flow(LOOP)
    # Earlier versions kept it in `progress`.
    named = data.get("flow", _table(_table(data, "progress"), "flow").get("name", flow.name))
    if named != flow.name:
        raise StateError(f"its flow is {named!r}, and the run itself is not known here")
    is_over = status != FinalStatus.RUNNING
    stage = flow.stage(_text(data, "current_phase")) or flow.first
    terminals, outputs = _table(data, "terminals"), _table(data, "outputs")
    notes = {reviewer: _feedback(data, key) for key, reviewer in NOTES_KEYS.items()}
    ids, agents = {}, {}
    for role in flow.roles:
        match terminals.get(role.terminal):
            case {"id": str(terminal_id), "provider": str(provider)}:
                ids[role.name] = terminal_id
                agents[role.name] = provider
            case {"id": str(terminal_id)}:
                ids[role.name] = terminal_id
            case str(terminal_id):
                ids[role.name] = terminal_id
    return RunState(
        api=_text(data, "api"),
        provider=_text(data, "provider"),
        wd=_text(data, "wd"),
        prompt=_text(data, "prompt"),
        session_name=_text(data, "session_name"),
        terminals={role: terminal_id for role, terminal_id in ids.items() if terminal_id},
        round=_round(data.get("current_round")),
        phase=DONE if is_over else stage.name,
        final_status=FinalStatus(status),
        feedback=_feedback(data, "feedback"),
        notes={reviewer: one for reviewer, one in notes.items() if one != NO_FEEDBACK},
        outputs={
            role.name: Output(text) for role in flow.roles if (text := _text(outputs, role.name))
        },
        progress=Progress(providers={role: agent for role, agent in agents.items() if agent}),
        updated_at=_text(data, "updated_at"),
    )


def _feedback(data: Mapping[str, Any], key: str) -> Excerpt:
    text = _text(data, key)
    return Excerpt(text) if text.strip() else NO_FEEDBACK


def _round(value: object) -> int:
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
        value = int(value)
    return max(value, 1) if isinstance(value, int) and not isinstance(value, bool) else 1


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    # Half a character is no text.
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""
