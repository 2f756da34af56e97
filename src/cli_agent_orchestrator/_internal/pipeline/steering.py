"""What an ask of a person changes in a run, and what is told of it."""

from dataclasses import replace

from cli_agent_orchestrator._internal.pipeline.asks import (
    DO,
    Answered,
    Ask,
    Hint,
    MeantReview,
    Pause,
    Set,
    Skip,
    Stop,
    Unpause,
)
from cli_agent_orchestrator._internal.pipeline.machine import (
    due_review,
    pause,
    skip_review,
    unpause,
)
from cli_agent_orchestrator._internal.pipeline.personal import keep_hint, note_act
from cli_agent_orchestrator._internal.pipeline.state import RunState
from cli_agent_orchestrator._internal.settings.table import BY_NAME
from cli_agent_orchestrator._internal.settings.values import read_change
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.events import (
    Answer,
    AskDeclined,
    HintTaken,
    PauseAsked,
    QuestionAnswered,
    ReviewSkipped,
    SettingChanged,
    StopAsked,
    Unpaused,
)

PAUSES_ALREADY = "the run pauses when the present turn has ended"
PAUSED_ALREADY = "the run is paused already"
NOT_PAUSED = "the run is not paused"
NO_REVIEW = "no review is under way or due"
REVIEW_OVER = "{} is over; nothing was skipped"
TOO_OLD = "it was asked before the run was resumed"

Granted = tuple[RunState, Answer]


def grant(
    state: RunState, ask: Ask, at: float, since: float = 0.0, *, holding: bool = False
) -> Granted:
    """Return the state after an ask, and what is told of it.

    What was meant for a moment that is gone does not count any more: a pause, a stop, a skip that
    nobody heeded `since` the run was taken up. `holding` says that nothing is under way: the run
    waits for its pause to be lifted.
    """
    match ask.wish:
        case Hint() as hint:
            return _hint(state, ask, hint, at)
        case Set() as change:
            return _set(state, ask, change, at)
        case Answered(role, text):
            answered = QuestionAnswered(at, role, text, ask.id)
            return note_act(state, at, answered.words), answered
        case _ if ask.at < since:
            return _decline(state, ask, at, TOO_OLD)
        case Skip(meant):
            return _skip(state, ask, meant, at)
        case Stop():
            stopped = StopAsked(at, ask.id)
            return note_act(state, at, stopped.words), stopped
        case Pause():
            return _pause(state, ask, at, holding)
        case Unpause():
            return _unpause(state, ask, at)


def _decline(state: RunState, ask: Ask, at: float, why: str) -> Granted:
    return state, AskDeclined(at, DO[type(ask.wish)], why, ask.id)


def _pause(state: RunState, ask: Ask, at: float, holding: bool) -> Granted:
    if state.progress.paused:
        return _decline(state, ask, at, PAUSED_ALREADY if holding else PAUSES_ALREADY)
    asked = PauseAsked(at, ask.id)
    return note_act(pause(state), at, asked.words), asked


def _unpause(state: RunState, ask: Ask, at: float) -> Granted:
    if not state.progress.paused:
        return _decline(state, ask, at, NOT_PAUSED)
    lifted = Unpaused(at, ask.id)
    return note_act(unpause(state), at, lifted.words), lifted


def _hint(state: RunState, ask: Ask, hint: Hint, at: float) -> Granted:
    kept = keep_hint(state, hint.role, hint.text)
    if isinstance(kept, str):
        return _decline(state, ask, at, kept)
    taken = HintTaken(at, hint.role or "", hint.text, ask.id)
    return note_act(kept, at, taken.words), taken


def _set(state: RunState, ask: Ask, change: Set, at: float) -> Granted:
    try:
        name, value = read_change(change.name, change.value)
    except UsageError as error:
        return _decline(state, ask, at, str(error))
    settings = state.progress.settings
    changed = SettingChanged(at, name, value, settings.get(name, BY_NAME[name].default), ask.id)
    progress = replace(state.progress, settings={**settings, name: value})
    return note_act(replace(state, progress=progress), at, changed.words), changed


def _skip(state: RunState, ask: Ask, meant: MeantReview | None, at: float) -> Granted:
    review = due_review(state)
    due = review and MeantReview(review.role, review.round, review.cycle)
    if meant is not None and meant != due:
        return _decline(state, ask, at, REVIEW_OVER.format(meant.words))
    if review is None:
        return _decline(state, ask, at, NO_REVIEW)
    terminal_id = state.terminal_of(review.role)
    skipped = ReviewSkipped(at, review.role, review.round, review.cycle, ask.id, terminal_id)
    return note_act(skip_review(state, review), at, skipped.words), skipped
