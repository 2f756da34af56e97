"""A run as JSON: what is saved, and what is read again.

The JSON is that of the earlier shell script (`version: 1`) with one key more, `progress`, for
what an exact resume needs: the flow, for one, if it is another than the specification's. Roles are
known by the names that the flow gives them; here alone their terminals have the keys of the
specification (`peer_analyst`). Reading mends what is missing or damaged:

    current_round       not a whole number of at least 1: 1
    current_phase       not a stage of the flow: its first one
    terminals           a plain id, or an object with id and provider; else empty
    feedbacks           missing or blank: `None yet.`
    any other text      missing: empty
    progress            missing or damaged parts: as at the beginning of the phase

A finished run is always in the phase `done`, and a running one never is. Refused are another
`version`, a `final_status` that is not RUNNING, PASS or FAIL (nobody knows whether such a run is
to go on), a flow that cannot be read, and what is no object at all; half a character anywhere is
neither saved nor loaded.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any, TypeVar

from ..core.text import HALVES
from ..errors import ConfigError, FlowError, StateError
from ..gates.check import BaseResult
from ..handoff.prompt import Sent
from ..proof.verdict import ProofWords
from ..settings.gates import When, read_gates
from ..settings.table import KEPT_NAMES
from .findings import ledger_from_json, ledger_to_json
from .flow import DONE, Flow, FlowSource
from .flow_file import LOOP, packaged_flow, read_flow
from .reply import Excerpt, Output
from .state import (
    NO_FEEDBACK,
    NO_OUTPUT,
    Dispatch,
    FinalStatus,
    KeptHint,
    OpenNotes,
    PersonalAct,
    Progress,
    RunState,
    Turn,
)

VERSION = 1
# later than any clock; keeps infinity and numbers too large for a float out
MAX_SECONDS = 1e12
HALF_PATTERN = f"[{HALVES}]"
NOTES_KEYS = {"analyst_feedback": "analyst_review", "programmer_feedback": "programmer_review"}
"""Where the specification has the notes of these reviewers; those of others are in `progress`."""

Member = TypeVar("Member", bound=StrEnum)


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
        "current_phase": state.phase or state.flow.first.name,
        "final_status": str(state.final_status),
        "session_name": state.session_name,
        "terminals": {role.terminal: state.terminal_of(role.name) for role in state.flow.roles},
        "feedback": state.feedback.text,
        **{key: state.notes_of(reviewer).text for key, reviewer in NOTES_KEYS.items()},
        "outputs": {role.name: state.output_of(role.name).text for role in state.flow.roles},
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
            {"role": notes.role, "round": notes.round, **_excerpt_to_json(notes.notes)}
            for notes in progress.open_notes
        ],
        "providers": {
            state.flow.role(role).terminal: agent for role, agent in progress.providers.items()
        },
        "settings": dict(progress.settings),
        "paused": progress.paused,
        "heard": progress.heard,
        "hints": _hints_to_json(progress.hints),
        "acts": [{"at": act.at, "text": act.text} for act in progress.acts],
        **_gates_to_json(progress),
        "archived_outputs": {
            role: output.archive for role, output in state.outputs.items() if output.archive
        },
        "left_out": {
            "feedback": _left_out_to_json(state.feedback),
            **{
                key: _left_out_to_json(state.notes_of(reviewer))
                for key, reviewer in NOTES_KEYS.items()
            },
        },
        **_notes_to_json(state),
        **_flow_to_json(state.flow),
    }


def _gates_to_json(progress: Progress) -> dict[str, Any]:
    return {
        "checking": "" if progress.checking is None else str(progress.checking),
        "checks_passed": progress.checks_passed,
        "base": _bases_to_json(progress.base),
        "passed": _bases_to_json(progress.passed),
        "proving": progress.proving,
        "proof": None if progress.proof is None else asdict(progress.proof),
        "failed_on": dict(progress.failed_on),
        "repeated_gate": progress.repeated_gate,
        "findings": {role: ledger_to_json(one) for role, one in progress.findings.items()},
        "is_more_asked": progress.is_more_asked,
        "unchanged_turns": progress.unchanged_turns,
        "approved_tree": progress.approved_tree,
        "is_approved": progress.is_approved,
        "delivered_tree": progress.delivered_tree,
    }


def _bases_to_json(bases: Mapping[str, BaseResult]) -> dict[str, Any]:
    return {
        name: {"exit_code": base.exit_code, "run": base.run, "failures": list(base.failures)}
        for name, base in bases.items()
    }


def _notes_to_json(state: RunState) -> dict[str, Any]:
    """Return the notes of reviewers that the specification does not know."""
    others = {role: notes for role, notes in state.notes.items() if role not in NOTES_KEYS.values()}
    return {"notes": {role: _excerpt_to_json(notes) for role, notes in others.items()}}


def _flow_to_json(flow: Flow) -> dict[str, Any]:
    """Return what the flow was read from; nothing for that of the specification."""
    if flow == packaged_flow(LOOP):
        return {}
    source = flow.source
    return {"flow": {"name": flow.name, "text": source.text, "templates": dict(source.templates)}}


def _dispatch_to_json(dispatch: Dispatch) -> dict[str, Any]:
    turn = dispatch.turn
    return {
        "id": dispatch.id,
        "role": turn.role,
        "round": turn.round,
        "cycle": turn.cycle,
        "sequence": dispatch.sequence,
        "since": dispatch.since,
        "sent": str(dispatch.sent),
        "worked": dispatch.worked,
        "hints": _hints_to_json(dispatch.hints),
    }


def _hints_to_json(hints: Iterable[KeptHint]) -> list[dict[str, str]]:
    return [{"role": hint.role, "text": hint.text} for hint in hints]


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
    flow = _flow(_table(extra, "flow"))
    phase, final_status = _where(data, flow)
    return RunState(
        api=_text(data, "api"),
        provider=_text(data, "provider"),
        wd=_text(data, "wd"),
        prompt=_text(data, "prompt"),
        session_name=_text(data, "session_name"),
        flow=flow,
        terminals=_terminals(_table(data, "terminals"), flow),
        round=_count(data, "current_round", 1),
        phase=phase,
        final_status=final_status,
        feedback=_feedback(_text(data, "feedback"), _table(_table(extra, "left_out"), "feedback")),
        notes=_notes(data, extra, flow),
        outputs=_outputs(_table(data, "outputs"), _table(extra, "archived_outputs"), flow),
        progress=_progress(extra, _table(data, "terminals"), flow),
        updated_at=_text(data, "updated_at"),
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


def _flow(data: Mapping[str, Any]) -> Flow:
    if not data:
        return packaged_flow(LOOP)
    templates = _table(data, "templates")
    source = FlowSource(
        _text(data, "text"), {role: text for role, text in templates.items() if type(text) is str}
    )
    try:
        return read_flow(source, _text(data, "name"), "its flow")
    except FlowError as error:
        raise StateError(str(error)) from error


def _where(data: Mapping[str, Any], flow: Flow) -> tuple[str, FinalStatus]:
    final_status = _member(FinalStatus, data.get("final_status"))
    if final_status is None:
        expected = ", ".join(FinalStatus)
        raise StateError(f"its final_status is {data.get('final_status')!r}, not one of {expected}")
    if final_status is not FinalStatus.RUNNING:
        return DONE, final_status
    stage = flow.stage(_text(data, "current_phase")) or flow.first
    return stage.name, final_status


def _terminals(data: Mapping[str, Any], flow: Flow) -> Mapping[str, str]:
    ids = {role.name: _terminal_id(data.get(role.terminal)) for role in flow.roles}
    return {role: terminal_id for role, terminal_id in ids.items() if terminal_id}


def _outputs(
    texts: Mapping[str, Any], archives: Mapping[str, Any], flow: Flow
) -> Mapping[str, Output]:
    found = {
        role.name: Output(_text(texts, role.name), _text(archives, role.name))
        for role in flow.roles
    }
    return {role: output for role, output in found.items() if output != NO_OUTPUT}


def _notes(data: Mapping[str, Any], extra: Mapping[str, Any], flow: Flow) -> Mapping[str, Excerpt]:
    left_out, others = _table(extra, "left_out"), _table(extra, "notes")
    found = {
        reviewer: _feedback(_text(data, key), _table(left_out, key))
        for key, reviewer in NOTES_KEYS.items()
    }
    for role in flow.roles:
        if role.name in others and role.name not in found:
            told = _table(others, role.name)
            found[role.name] = _feedback(_text(told, "text"), told)
    return {reviewer: notes for reviewer, notes in found.items() if notes != NO_FEEDBACK}


def _terminal_id(value: object) -> str:
    return (
        _text(value, "id") if isinstance(value, dict) else value if isinstance(value, str) else ""
    )


def _feedback(text: str, left_out: Mapping[str, Any]) -> Excerpt:
    return _excerpt({**left_out, "text": text}) if text.strip() else NO_FEEDBACK


def _excerpt(data: Mapping[str, Any]) -> Excerpt:
    return Excerpt(_text(data, "text"), _count(data, "left_out", 0), _text(data, "archive"))


def _progress(data: Mapping[str, Any], terminals: Mapping[str, Any], flow: Flow) -> Progress:
    return Progress(
        cycle=_count(data, "cycle", 1),
        reviewing=data.get("reviewing") is True,
        in_flight=_dispatch(_table(data, "in_flight"), flow),
        briefed=frozenset(item for item in _items(data, "briefed") if isinstance(item, str)),
        archive=_text(data, "archive"),
        sequence=_count(data, "sequence", 0),
        open_notes=tuple(
            OpenNotes(role, _count(item, "round", 1), _excerpt(item))
            for item in _items(data, "open_notes")
            if isinstance(item, dict) and (role := _role(item, flow))
        ),
        providers=_providers(_table(data, "providers"), terminals, flow),
        settings=_settings(_table(data, "settings")),
        paused=data.get("paused") is True,
        heard=_count(data, "heard", 0),
        hints=_hints(data, flow),
        acts=tuple(
            PersonalAct(_seconds(item, "at"), text)
            for item in _items(data, "acts")
            if isinstance(item, dict) and (text := _text(item, "text"))
        ),
        checking=_member(When, data.get("checking")),
        checks_passed=_count(data, "checks_passed", 0),
        base=_bases(_table(data, "base")),
        passed=_bases(_table(data, "passed")),
        proving=data.get("proving") is True,
        proof=_proof(_table(data, "proof")),
        failed_on={
            name: tree for name, tree in _table(data, "failed_on").items() if isinstance(tree, str)
        },
        repeated_gate=_text(data, "repeated_gate"),
        findings={
            role.name: ledger_from_json(_table(data, "findings")[role.name])
            for role in flow.roles
            if role.name in _table(data, "findings")
        },
        is_more_asked=data.get("is_more_asked") is True,
        unchanged_turns=_count(data, "unchanged_turns", 0),
        approved_tree=_text(data, "approved_tree"),
        # Before this was noted, an approval was known by its tree alone.
        is_approved=data.get("is_approved", bool(_text(data, "approved_tree"))) is True,
        delivered_tree=_text(data, "delivered_tree"),
    )


def _settings(data: Mapping[str, Any]) -> Mapping[str, str]:
    found = {
        name: text for name, text in data.items() if name in KEPT_NAMES and isinstance(text, str)
    }
    try:
        read_gates(found.get("GATES", ""))
    except ConfigError as error:
        raise StateError(f"its gates cannot be read: {error}") from error
    return found


def _bases(data: Mapping[str, Any]) -> Mapping[str, BaseResult]:
    return {name: _base(item) for name, item in data.items() if isinstance(item, dict)}


def _base(data: Mapping[str, Any]) -> BaseResult:
    code = data.get("exit_code")
    return BaseResult(
        exit_code=code if type(code) is int else None,
        run=_count(data, "run", -1),
        failures=tuple(name for name in _items(data, "failures") if isinstance(name, str)),
    )


def _providers(
    providers: Mapping[str, Any], terminals: Mapping[str, Any], flow: Flow
) -> Mapping[str, str]:
    known = {
        role.name: _text(providers, role.terminal)
        or _text(_table(terminals, role.terminal), "provider")
        for role in flow.roles
    }
    return {role: provider for role, provider in known.items() if provider}


def _role(data: Mapping[str, Any], flow: Flow) -> str:
    """Return the name of a role of the flow, empty if there is none."""
    name = _text(data, "role")
    return name if any(role.name == name for role in flow.roles) else ""


def _dispatch(data: Mapping[str, Any], flow: Flow) -> Dispatch | None:
    role = _role(data, flow)
    if not role or not _text(data, "id"):
        return None
    reviewed = bool(flow.stage_of(role).reviewer)
    return Dispatch(
        turn=Turn(role, _count(data, "round", 1), _count(data, "cycle", 1), reviewed),
        id=_text(data, "id"),
        sequence=_count(data, "sequence", 0),
        since=_seconds(data, "since"),
        sent=_sent(data.get("sent")),
        worked=_seconds(data, "worked"),
        hints=_hints(data, flow),
    )


def _proof(data: Mapping[str, Any]) -> ProofWords | None:
    """Return what was proven; earlier versions, of whom no PASS goes on, wrote one sentence."""
    if not _text(data, "said"):
        return None
    return ProofWords(
        is_proven=data.get("is_proven") is True,
        said=_text(data, "said"),
        look_at=_text(data, "look_at"),
        before=_text(data, "before"),
    )


def _hints(data: Mapping[str, Any], flow: Flow) -> tuple[KeptHint, ...]:
    return tuple(
        KeptHint(_role(item, flow), text)
        for item in _items(data, "hints")
        if isinstance(item, dict) and (text := _text(item, "text"))
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
