"""What a request of the user changes in a run, and the event that reports it."""

from .. import events
from ..errors import UsageError
from ..settings.table import BY_NAME
from ..settings.values import read_change
from .machine import due_review, skip_review
from .requests import Answered, Hint, Pause, SentRequest, Set, Skip, Stop, Unpause
from .state import RunState, keep_hint, note_act

PAUSES_ALREADY = "the run pauses when the present turn has ended"
PAUSED_ALREADY = "the run is paused already"
NOT_PAUSED = "the run is not paused"
NO_REVIEW = "no review is under way or due"
TOO_OLD = "it was asked before the run was resumed"


def grant(
    state: RunState, ask: SentRequest, at: float, since: float = 0.0, *, holding: bool = False
) -> tuple[RunState, events.Answer]:
    """Return the state after a request, and the event that reports it.

    A pause, a stop or a skip from before `since`, when the run was resumed, counts no more.
    `holding` says that nothing is under way: the run waits for its pause to be lifted.
    """
    try:
        after, event = _grant(state, ask, at, since, holding)
    except UsageError as why:
        word = str(ask.request.__struct_config__.tag)
        return state, events.AskDeclined(at, word, str(why), ask.id)
    return note_act(after, at, event.words), event


def _grant(
    state: RunState, ask: SentRequest, at: float, since: float, holding: bool
) -> tuple[RunState, events.Steered]:
    match ask.request:
        case Hint(role, text):
            return keep_hint(state, role, text), events.HintTaken(at, role or "", text, ask.id)
        case Set(wanted, text):
            name, value = read_change(wanted, text)
            settings = state.progress.settings
            before = settings.get(name, BY_NAME[name].default)
            changed = events.SettingChanged(at, name, value, before, ask.id)
            return state.progressed(settings={**settings, name: value}), changed
        case Answered(role, text):
            return state, events.QuestionAnswered(at, role, text, ask.id)
        case _ if ask.at < since:
            raise UsageError(TOO_OLD)
        case Stop():
            return state, events.StopAsked(at, ask.id)
        case Pause():
            if state.progress.paused:
                raise UsageError(PAUSED_ALREADY if holding else PAUSES_ALREADY)
            return state.progressed(paused=True), events.PauseAsked(at, ask.id)
        case Unpause():
            if not state.progress.paused:
                raise UsageError(NOT_PAUSED)
            return state.progressed(paused=False), events.Unpaused(at, ask.id)
        case Skip() as skip:
            return _skip(state, skip, ask.id, at)


def _skip(
    state: RunState, skip: Skip, ask: str, at: float
) -> tuple[RunState, events.ReviewSkipped]:
    due = due_review(state)
    meant = (skip.role, skip.round, skip.cycle)
    if skip.role is not None and meant != (due and (due.role, due.round, due.cycle)):
        review = f"the review of round {skip.round}, cycle {skip.cycle} by {skip.role}"
        raise UsageError(f"{review} is over; nothing was skipped")
    if due is None:
        raise UsageError(NO_REVIEW)
    terminal_id = state.terminal_of(due.role)
    skipped = events.ReviewSkipped(at, due.role, due.round, due.cycle, ask, terminal_id)
    return skip_review(state, due), skipped
