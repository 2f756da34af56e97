"""How a run stands after an event."""

from dataclasses import replace

from cli_agent_orchestrator._internal.models import TerminalStatus
from cli_agent_orchestrator._internal.runs.records.run_record import (
    RunRecord,
    RunStatus,
    SavedSetting,
    without_secrets,
)
from cli_agent_orchestrator.events import (
    AgentsStarting,
    AgentStarted,
    CheckBegan,
    EventKind,
    FilesChanged,
    HandoffEvent,
    NotConverging,
    Paused,
    RunBegan,
    RunEnded,
    RunEvent,
    ServerChosen,
    SettingChanged,
    TurnBegan,
    TurnEnded,
    Unpaused,
)

FIRST_SIGNAL_CODE, LAST_SIGNAL_CODE = 129, 192
"""128 and the number of the signal that ended a program."""
BY_PERSON = "cao set"


def after_event(record: RunRecord, event: RunEvent) -> RunRecord:
    """Return how a run stands after an event."""
    record = _after_circle(_after_question(record, event), event)
    match event:
        case ServerChosen():
            return replace(record, api=without_secrets(event.url))
        case AgentsStarting():
            return replace(record, providers={**record.providers, **event.providers})
        case AgentStarted():
            terminals = {**record.terminals, event.role: event.terminal_id}
            return replace(record, terminals=terminals)
        case RunBegan():
            return replace(
                record,
                session_name=event.session_name,
                terminals=event.terminals,
                providers=event.providers,
            )
        case TurnBegan():
            return replace(record, role=event.role, round=event.round, cycle=event.cycle)
        case Paused():
            return replace(record, status=RunStatus.PAUSED, role="")
        case Unpaused():
            return replace(record, status=RunStatus.RUNNING)
        case CheckBegan():
            return replace(record, role=event.gate, round=event.round, cycle=0)
        case RunEnded():
            return _after_end(record, event)
    return _with_changed_setting(record, event)


def _after_question(record: RunRecord, event: RunEvent) -> RunRecord:
    """Note who asks a person something, until its status says that it does not any more."""
    match event:
        case HandoffEvent(kind=EventKind.WAITING_FOR_PERSON):
            return replace(record, asking=event.role)
        case HandoffEvent(status=None):
            return record
        case HandoffEvent() if event.status is not TerminalStatus.WAITING_USER_ANSWER:
            return replace(record, asking="")
        case TurnBegan() | TurnEnded() | RunEnded():
            return replace(record, asking="")
    return record


def _after_circle(record: RunRecord, event: RunEvent) -> RunRecord:
    """Note why the run does not converge, until an author has changed files or it passes."""
    match event:
        case NotConverging():
            return replace(record, circling=event.why)
        case FilesChanged(allowed=True) if event.count > 0:
            return replace(record, circling="")
        case RunEnded(final_status=RunStatus.PASS):
            return replace(record, circling="")
    return record


def _with_changed_setting(record: RunRecord, event: RunEvent) -> RunRecord:
    if not isinstance(event, SettingChanged):
        return record
    changed = {event.name: SavedSetting(event.value, BY_PERSON)}
    return replace(record, settings={**record.settings, **changed})


def _after_end(record: RunRecord, event: RunEnded) -> RunRecord:
    ended = replace(
        record,
        status=status_at_end(event),
        ended=event.at,
        role="",
        reason=event.reason,
        to_resume=event.to_resume,
        exit_code=event.exit_code,
        proof=event.proof,
        round=event.round or record.round,
    )
    if event.session_left or (record.session_name and not event.round):
        # Without a round it ended before it went on; nobody has ended the agents it had.
        return ended
    return replace(ended, session_name="", terminals={})


def status_at_end(event: RunEnded) -> RunStatus:
    """Return how a run stands that has ended like that."""
    if event.final_status in (RunStatus.PASS, RunStatus.FAIL):
        return RunStatus(event.final_status)
    by_signal = FIRST_SIGNAL_CODE <= event.exit_code <= LAST_SIGNAL_CODE
    return RunStatus.STOPPED if by_signal else RunStatus.FAILED
