"""Everything a run knows about itself, and its form as JSON.

The JSON is that of the earlier shell script (`version: 1`) with one key more, `progress`, for
what an exact resume needs. Reading mends what is missing or damaged:

    current_round       not a whole number of at least 1: 1
    current_phase       not a phase: analyst
    terminals           a plain id, or an object with id and provider; else empty
    feedbacks           missing or blank: `None yet.`
    any other text      missing: empty
    progress            missing or damaged parts: as at the beginning of the phase

A finished run is always in the phase `done`, and a running one never is. Refused are another
`version`, a `final_status` that is not RUNNING, PASS or FAIL (nobody knows whether such a run is
to go on), and what is no object at all; half a character anywhere is neither saved nor loaded.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from cli_agent_orchestrator.errors import StateError
from cli_agent_orchestrator.handoff.replies import Sent
from cli_agent_orchestrator.pipeline.reply import Excerpt, Output
from cli_agent_orchestrator.pipeline.roles import Phase, Role
from cli_agent_orchestrator.settings import KEPT_NAMES

VERSION = 1
# later than any clock; keeps infinity and numbers too large for a float out
MAX_SECONDS = 1e12
HALF_PATTERN = r"[\ud800-\udfff]"
NO_FEEDBACK = Excerpt("None yet.")
FEEDBACKS = ("feedback", "analyst_feedback", "programmer_feedback")

Member = TypeVar("Member", bound=StrEnum)


class FinalStatus(StrEnum):
    """How a run ended, or that it has not."""

    RUNNING = "RUNNING"
    PASS = "PASS"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt and one reply: whose, and when."""

    role: Role
    round: int
    cycle: int


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The turn in flight: its prompt has been sent, or is about to be."""

    turn: Turn
    id: str
    """Names the message, so that it can be told from all others."""
    sequence: int = 0
    """The number under which the reply will be archived."""
    since: float = 0.0
    """Unix time before it was first sent; an older response file is not its reply."""
    sent: Sent = Sent.MAYBE
    """Does the agent have the prompt?"""
    worked: float = 0.0
    """Seconds that were worked on it before the run was last stopped."""


@dataclass(frozen=True, slots=True)
class OpenNotes:
    """What a reviewer still had to say when the cycles were used up."""

    role: Role
    """The reviewer."""
    round: int
    notes: Excerpt


@dataclass(frozen=True, slots=True)
class Progress:
    """What an exact resume needs beyond the shell script's state."""

    cycle: int = 1
    reviewing: bool = False
    """Is it the reviewer's turn, and not the author's?"""
    in_flight: Dispatch | None = None
    briefed: frozenset[str] = frozenset()
    """Ids of terminals that have had the explore summary and the rest of the context."""
    archive: str = ""
    """The name of the run's archive folder."""
    sequence: int = 0
    """The last number given to an archived file."""
    open_notes: tuple[OpenNotes, ...] = ()
    """Of this round and the one before."""
    providers: Mapping[str, str] = field(default_factory=dict)
    """Which agent runs in each terminal, by the terminal's name."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings it goes by, by variable name."""


def _no_terminals() -> Mapping[str, str]:
    return {role.terminal: "" for role in Role}


def no_outputs() -> Mapping[Role, Output]:
    """Return the outputs of a round that has just begun."""
    return {role: Output("") for role in Role}


@dataclass(frozen=True, slots=True)
class RunState:
    """A run between two turns."""

    api: str
    provider: str
    wd: str
    prompt: str = field(repr=False)
    """The whole text of the task."""
    session_name: str = ""
    terminals: Mapping[str, str] = field(default_factory=_no_terminals)
    """Ids by the terminal's name."""
    round: int = 1
    phase: Phase = Phase.ANALYST
    final_status: FinalStatus = FinalStatus.RUNNING
    feedback: Excerpt = NO_FEEDBACK
    """The tester's evidence from the round before."""
    analyst_feedback: Excerpt = NO_FEEDBACK
    programmer_feedback: Excerpt = NO_FEEDBACK
    outputs: Mapping[Role, Output] = field(default_factory=no_outputs, repr=False)
    """The last reply of each role in this round; empty if there is none."""
    progress: Progress = field(default_factory=Progress)
    updated_at: str = ""
    """When it was last saved, in UTC."""

    def terminal_of(self, role: Role) -> str:
        """Return the id of the terminal a role works in."""
        return self.terminals[role.terminal]

    def has_output(self, role: Role) -> bool:
        """Has this role replied in this round?"""
        return bool(self.outputs[role].text.strip())


def to_json(state: RunState) -> dict[str, Any]:
    """Return the state as JSON data."""
    return {
        "version": VERSION,
        "updated_at": state.updated_at,
        "api": state.api,
        "provider": state.provider,
        "wd": state.wd,
        "prompt": state.prompt,
        "current_round": state.round,
        "current_phase": str(state.phase),
        "final_status": str(state.final_status),
        "session_name": state.session_name,
        "terminals": dict(state.terminals),
        "feedback": state.feedback.text,
        "analyst_feedback": state.analyst_feedback.text,
        "programmer_feedback": state.programmer_feedback.text,
        "outputs": {str(role): output.text for role, output in state.outputs.items()},
        "progress": _progress_to_json(state),
    }


def _progress_to_json(state: RunState) -> dict[str, Any]:
    progress = state.progress
    return {
        "cycle": progress.cycle,
        "reviewing": progress.reviewing,
        "in_flight": None if progress.in_flight is None else _dispatch_to_json(progress.in_flight),
        "briefed": sorted(progress.briefed),
        "archive": progress.archive,
        "sequence": progress.sequence,
        "open_notes": [
            {"role": str(notes.role), "round": notes.round, **_excerpt_to_json(notes.notes)}
            for notes in progress.open_notes
        ],
        "providers": dict(progress.providers),
        "settings": dict(progress.settings),
        "archived_outputs": {
            str(role): output.archive for role, output in state.outputs.items() if output.archive
        },
        "left_out": {name: _left_out_to_json(getattr(state, name)) for name in FEEDBACKS},
    }


def _dispatch_to_json(dispatch: Dispatch) -> dict[str, Any]:
    turn = dispatch.turn
    return {
        "id": dispatch.id,
        "role": str(turn.role),
        "round": turn.round,
        "cycle": turn.cycle,
        "sequence": dispatch.sequence,
        "since": dispatch.since,
        "sent": str(dispatch.sent),
        "worked": dispatch.worked,
    }


def _excerpt_to_json(excerpt: Excerpt) -> dict[str, Any]:
    return {"text": excerpt.text, **_left_out_to_json(excerpt)}


def _left_out_to_json(excerpt: Excerpt) -> dict[str, Any]:
    return {"left_out": excerpt.left_out, "archive": excerpt.archive}


def from_json(data: object) -> RunState:
    """Return the state that JSON data describes, mended as the top of this file says."""
    if not isinstance(data, dict):
        raise StateError("it does not hold a JSON object")
    if data.get("version") not in (VERSION, str(VERSION)) or data["version"] is True:
        raise StateError(f"its version is {data.get('version')!r}, expected {VERSION}")
    extra = _table(data, "progress")
    phase, final_status = _where(data)
    terminals = _table(data, "terminals")
    outputs, archives = _table(data, "outputs"), _table(extra, "archived_outputs")
    left_out = _table(extra, "left_out")
    return RunState(
        api=_text(data, "api"),
        provider=_text(data, "provider"),
        wd=_text(data, "wd"),
        prompt=_text(data, "prompt"),
        session_name=_text(data, "session_name"),
        terminals={role.terminal: _terminal_id(terminals.get(role.terminal)) for role in Role},
        round=_count(data, "current_round", 1),
        phase=phase,
        final_status=final_status,
        outputs={role: Output(_text(outputs, role), _text(archives, role)) for role in Role},
        progress=_progress(extra, terminals),
        updated_at=_text(data, "updated_at"),
        **{name: _feedback(_text(data, name), _table(left_out, name)) for name in FEEDBACKS},
    )


def find_half_character(data: object) -> str | None:
    r"""Return which part of JSON data holds half a character (`"\ud800"`), which is no text.

    For example `outputs.analyst`; None if there is none.
    """
    halves = (name for name, text in _texts(data) if re.search(HALF_PATTERN, text))
    return next(halves, None)


def _texts(data: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in JSON data with its place; the place of a key is that of its table."""
    match data:
        case str():
            yield name, data
        case dict():
            for key, value in data.items():
                yield name, key
                yield from _texts(value, f"{name}.{key}" if name else key)
        case list():
            for number, value in enumerate(data):
                yield from _texts(value, f"{name}.{number}")


def _where(data: Mapping[str, Any]) -> tuple[Phase, FinalStatus]:
    final_status = _member(FinalStatus, data.get("final_status"))
    if final_status is None:
        expected = ", ".join(FinalStatus)
        raise StateError(f"its final_status is {data.get('final_status')!r}, not one of {expected}")
    if final_status is not FinalStatus.RUNNING:
        return Phase.DONE, final_status
    phase = _member(Phase, data.get("current_phase"))
    return (Phase.ANALYST if phase in (None, Phase.DONE) else phase), final_status


def _terminal_id(value: object) -> str:
    return (
        _text(value, "id") if isinstance(value, dict) else value if isinstance(value, str) else ""
    )


def _feedback(text: str, left_out: Mapping[str, Any]) -> Excerpt:
    return _excerpt({**left_out, "text": text}) if text.strip() else NO_FEEDBACK


def _excerpt(data: Mapping[str, Any]) -> Excerpt:
    return Excerpt(_text(data, "text"), _count(data, "left_out", 0), _text(data, "archive"))


def _progress(data: Mapping[str, Any], terminals: Mapping[str, Any]) -> Progress:
    return Progress(
        cycle=_count(data, "cycle", 1),
        reviewing=data.get("reviewing") is True,
        in_flight=_dispatch(_table(data, "in_flight")),
        briefed=frozenset(item for item in _items(data, "briefed") if isinstance(item, str)),
        archive=_text(data, "archive"),
        sequence=_count(data, "sequence", 0),
        open_notes=tuple(
            OpenNotes(role, _count(item, "round", 1), _excerpt(item))
            for item in _items(data, "open_notes")
            if isinstance(item, dict) and (role := _member(Role, item.get("role")))
        ),
        providers=_providers(_table(data, "providers"), terminals),
        settings={
            name: text
            for name, text in _table(data, "settings").items()
            if name in KEPT_NAMES and isinstance(text, str)
        },
    )


def _providers(providers: Mapping[str, Any], terminals: Mapping[str, Any]) -> Mapping[str, str]:
    known = {
        role.terminal: _text(providers, role.terminal)
        or _text(_table(terminals, role.terminal), "provider")
        for role in Role
    }
    return {terminal: provider for terminal, provider in known.items() if provider}


def _dispatch(data: Mapping[str, Any]) -> Dispatch | None:
    role = _member(Role, data.get("role"))
    if role is None or not _text(data, "id"):
        return None
    return Dispatch(
        turn=Turn(role, _count(data, "round", 1), _count(data, "cycle", 1)),
        id=_text(data, "id"),
        sequence=_count(data, "sequence", 0),
        since=_seconds(data, "since"),
        sent=_sent(data.get("sent")),
        worked=_seconds(data, "worked"),
    )


def _sent(value: object) -> Sent:
    """Return what is known about a prompt; earlier versions wrote `true` or `false`."""
    if value is True:
        return Sent.YES
    # One that was saved was about to be sent at least.
    sent = _member(Sent, value)
    return Sent.MAYBE if sent in (None, Sent.NO) else sent


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _items(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _count(data: Mapping[str, Any], key: str, least: int) -> int:
    """Return a whole number; the least one in place of anything else."""
    value = data.get(key)
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return least
    return max(value, least)


def _seconds(data: Mapping[str, Any], key: str) -> float:
    value = data.get(key)
    if not isinstance(value, int | float) or not 0 <= value < MAX_SECONDS:
        return 0.0
    return float(value)


def _member(kind: type[Member], value: object) -> Member | None:
    return next((member for member in kind if member == value), None)
