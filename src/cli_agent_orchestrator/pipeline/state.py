"""Everything a run knows about itself, and its two forms as JSON.

What is kept (`version: 2`) is the state as it is, without the flow if that is the specification's.
The form of the shell script (`version: 1`) is for scripts and other programs. It is written with
every save and has one key more, `run`: by that the run is found where it is really kept. A file
whose run is not known here is read too, and repaired:

    current_round       not a whole number of at least 1: 1
    current_phase       not a stage of the flow: its first one
    terminals           a plain id, or an object with id and provider; else empty
    feedbacks           missing or blank: `None yet.`
    any other text      missing: empty

Refused are another `version`, a `final_status` that is not RUNNING, PASS or FAIL, another flow
than the specification's, and what is no object.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ..core import codec
from ..core.codec import Private
from ..errors import StateError, UsageError
from ..events import StepEnded
from ..gates.check import BaseResult
from ..handoff.wait import Sent
from ..proof.verdict import ProofWords
from ..settings.gates import Gate, When, read_gates
from ..settings.layout import STATE_VERSION
from .flow import DONE, Flow
from .flow_file import LOOP, packaged_flow
from .reply import Excerpt, Output
from .review import Findings

NO_FEEDBACK = Excerpt("None yet.")
NO_OUTPUT = Output("")


class FinalStatus(StrEnum):
    RUNNING = "RUNNING"
    PASS = "PASS"
    FAIL = "FAIL"


class Turn(Struct, frozen=True):
    role: str
    round: int
    cycle: int
    reviewed: bool = True
    """What follows from its role and the flow: two turns of one place are the same turn."""

    @property
    def place(self) -> tuple[str, int, int]:
        return self.role, self.round, self.cycle

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Turn) and self.place == other.place

    def __hash__(self) -> int:
        return hash(self.place)


class KeptHint(Struct, frozen=True):
    role: str
    text: str


class Dispatch(Struct, frozen=True):
    turn: Turn
    id: str
    sequence: int = 0
    since: float = 0.0
    sent: Sent = Sent.MAYBE
    worked: float = 0.0
    """Seconds that were worked on it before the run was last stopped."""
    hints: tuple[KeptHint, ...] = ()


class OpenNotes(Struct, frozen=True):
    role: str
    round: int
    notes: Excerpt


class PersonalAct(Struct, frozen=True):
    at: float
    words: str


class Progress(Struct, frozen=True):
    cycle: int = 1
    reviewing: bool = False
    in_flight: Dispatch | None = None
    ended: StepEnded | None = None
    """The last step, for a run that was killed before it had told of its end."""
    briefed: frozenset[str] = frozenset()
    """Ids of terminals that have had the explore summary and the rest of the context."""
    archive: str = ""
    sequence: int = 0
    open_notes: tuple[OpenNotes, ...] = ()
    providers: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    paused: bool = False
    heard: int = 0
    """How much of the control file has been processed, in bytes."""
    hints: tuple[KeptHint, ...] = ()
    acts: tuple[PersonalAct, ...] = ()
    checking: When | None = None
    checks_passed: int = 0
    base: Mapping[str, BaseResult] = field(default_factory=dict)
    passed: Mapping[str, BaseResult] = field(default_factory=dict)
    """What each gate said when it last passed after the tester."""
    proving: bool = False
    proof: ProofWords | None = None
    failed_on: Mapping[str, str] = field(default_factory=dict)
    repeated_gate: str = ""
    """The gate that failed twice on the same tree, if one did in this round."""
    findings: Mapping[str, Findings] = field(default_factory=dict)
    is_more_asked: bool = False
    unchanged_turns: int = 0
    approved_tree: str = ""
    """The work folder as the last review of the work approved it; empty if unknown."""
    is_approved: bool = False
    delivered_tree: str = ""
    """The work folder as the author of the work last left it."""


class RunState(Private, frozen=True):
    api: str
    provider: str
    wd: str
    prompt: str
    session_name: str = ""
    flow: Flow = field(default_factory=partial(packaged_flow, LOOP))
    terminals: Mapping[str, str] = field(default_factory=dict)
    round: int = 1
    phase: str = ""
    """The name of the stage, or `done`; empty for the first stage."""
    final_status: FinalStatus = FinalStatus.RUNNING
    feedback: Excerpt = NO_FEEDBACK
    notes: Mapping[str, Excerpt] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    updated_at: str = ""

    # Any: fields of the progress, each of its own type
    def progressed(self, **changes: Any) -> "RunState":
        return replace(self, progress=replace(self.progress, **changes))

    @property
    def gates(self) -> tuple[Gate, ...]:
        return read_gates(self.progress.settings.get("GATES", ""))

    def terminal_of(self, role: str) -> str:
        return self.terminals.get(role, "")

    def provider_of(self, role: str) -> str:
        return self.progress.providers.get(role) or self.provider

    def output_of(self, role: str) -> Output:
        return self.outputs.get(role, NO_OUTPUT)

    def has_output(self, role: str) -> bool:
        return bool(self.output_of(role).text.strip())

    def notes_of(self, reviewer: str) -> Excerpt:
        return self.notes.get(reviewer, NO_FEEDBACK)


MOST_HINTS = 20
MOST_ACTS = 200


def keep_hint(state: RunState, role: str | None, text: str) -> RunState:
    known = [one.name for one in state.flow.roles]
    if role is not None and role not in known:
        flow = state.flow.name
        raise UsageError(f"the flow {flow} has no role {role!r}; there are: {', '.join(known)}")
    if len(state.progress.hints) >= MOST_HINTS:
        raise UsageError(f"{MOST_HINTS} hints are waiting for their prompts already")
    return state.progressed(hints=(*state.progress.hints, KeptHint(role or "", text)))


def hints_for(state: RunState, role: str) -> tuple[KeptHint, ...]:
    return tuple(hint for hint in state.progress.hints if hint.role in ("", role))


def drop_hints(state: RunState, role: str) -> RunState:
    told = hints_for(state, role)
    return state.progressed(hints=tuple(one for one in state.progress.hints if one not in told))


def take_hints_back(state: RunState, review: Turn) -> RunState:
    dispatch = state.progress.in_flight
    if dispatch is None or dispatch.turn != review:
        return state
    return state.progressed(hints=(*dispatch.hints, *state.progress.hints))


def note_act(state: RunState, at: float, text: str) -> RunState:
    return state.progressed(acts=(*state.progress.acts, PersonalAct(at, text))[-MOST_ACTS:])


VERSION = 1
NOTES_KEYS = {"analyst_feedback": "analyst_review", "programmer_feedback": "programmer_review"}


def encode_state(state: RunState) -> bytes:
    content = {"version": STATE_VERSION, **codec.plain(state)}
    if state.flow == packaged_flow(LOOP):
        del content["flow"]
    return codec.encode(content)


def decode_state(data: bytes) -> RunState:
    try:
        content = codec.parse(data)
        if content["version"] == STATE_VERSION:
            return codec.repaired(RunState, content, needed=("final_status", "flow"))
    except (ValueError, LookupError, TypeError) as error:
        raise StateError(f"it is not the state of a run: {error}") from error
    raise StateError("it was written by another version of cao")


# Any: JSON of any form
def to_json(state: RunState) -> dict[str, Any]:
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
    """Return the state that JSON data describes, repaired as the top of this file says."""
    if not isinstance(data, dict):
        raise StateError("it does not hold a JSON object")
    if data.get("version") not in (VERSION, str(VERSION)) or data["version"] is True:
        raise StateError(f"its version is {data.get('version')!r}, expected {VERSION}")
    status = data.get("final_status")
    if status not in list(FinalStatus):
        raise StateError(f"its final_status is {status!r}, not one of {', '.join(FinalStatus)}")
    flow = packaged_flow(LOOP)
    if (named := data.get("flow", LOOP)) != LOOP:
        raise StateError(f"its flow is {named!r}, and the run itself is not known here")
    is_over = status != FinalStatus.RUNNING
    stage = flow.stage(_text(data, "current_phase")) or flow.first
    terminals, outputs = _table(data, "terminals"), _table(data, "outputs")
    notes = {reviewer: _feedback(data, key) for key, reviewer in NOTES_KEYS.items()}
    ids, agents = {}, {}
    for role in flow.roles:
        terminal = terminals.get(role.terminal)
        table = terminal if isinstance(terminal, dict) else {"id": terminal}
        ids[role.name], agents[role.name] = _text(table, "id"), _text(table, "provider")
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
