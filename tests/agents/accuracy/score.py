"""Compares what was told about a turn with what is true of it.

The truth is what the model and the person did: the stub knows when an answer began and ended, and
the keys are ours. What was told is a list of statuses, each of which holds until the next one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cli_agent_orchestrator.core.models import TerminalStatus

ANSWER_SECONDS = 2.5
"""After how long an answered question must not be told any more."""

_PROCESSING = TerminalStatus.PROCESSING
_WAITING = TerminalStatus.WAITING_USER_ANSWER


class Mistake(StrEnum):
    """A way to be wrong about a turn."""

    FALSE_FINISHED = "false finished"
    """Completed was told while the agent worked or asked, or of a turn that ended otherwise."""
    FALSE_IDLE = "false idle"
    FALSE_FAILED = "false failed"
    FALSE_WAITING = "false waiting"
    FALSE_WORKING = "false working"
    """Processing was told when the agent asked, or after the turn's end had been told."""
    MISSED_WAITING = "missed waiting"
    """Nobody was told that the agent asked, or it was taken back before it was answered."""
    MISSED_END = "missed end"
    """The end of the turn was never told."""
    UNKNOWN = "unknown"
    """Nothing could be told while the agent worked."""


FALSE = {
    TerminalStatus.COMPLETED: Mistake.FALSE_FINISHED,
    TerminalStatus.IDLE: Mistake.FALSE_IDLE,
    TerminalStatus.ERROR: Mistake.FALSE_FAILED,
    TerminalStatus.WAITING_USER_ANSWER: Mistake.FALSE_WAITING,
    TerminalStatus.PROCESSING: Mistake.FALSE_WORKING,
    TerminalStatus.UNKNOWN: Mistake.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Told:
    """A status as the event stream told it."""

    at: float
    """In the time of `time.monotonic()`, as the stub's ledger has it."""
    status: TerminalStatus
    reason: str = ""
    kind: str = "status"


@dataclass(frozen=True, slots=True)
class Span:
    """From one moment to just before another."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Truth:
    """What is true of one turn."""

    sent: float
    """From when on the agent worked."""
    end: float
    """The model's last byte, or the key that stopped the turn."""
    rest: TerminalStatus
    """What is true from the end on."""
    until: float
    """How long that was watched."""
    before: frozenset[TerminalStatus] = frozenset({_PROCESSING})
    """What may still be told between the end and its being told."""
    asks: Span | None = None
    """From the model's question to the key that answered it; the agent works after that."""


@dataclass(frozen=True, slots=True)
class Score:
    """How well one turn was told."""

    mistakes: frozenset[Mistake] = field(default_factory=frozenset)
    delay: float | None = None
    """From the turn's end to its being told; None if it was told before, or never."""
    asked_delay: float | None = None
    """From the question to its being told."""


def score(truth: Truth, told: Sequence[Told], grace: float = 0.0) -> Score:
    """Return how well a turn was told.

    `grace` is the time after a key press that a screen may still show what was before it.
    """
    mistakes: set[Mistake] = set()
    caught_up = truth.sent + grace
    worked = Span(caught_up, truth.asks.start if truth.asks else truth.end)
    mistakes |= _false(_within(told, worked), {_PROCESSING})
    before = set(truth.before)
    if truth.asks is not None:
        asks = Span(max(caught_up, truth.asks.start), truth.asks.end)
        mistakes |= _judge_question(asks, told)
        before.add(_WAITING)
        mistakes |= _judge_work_after(Span(asks.end, truth.end), told, before)
    mistakes |= _judge_end(truth, told, before, caught_up)
    return Score(
        frozenset(mistakes),
        _first(told, Span(truth.end, truth.until), truth.rest),
        _first(told, truth.asks, _WAITING) if truth.asks else None,
    )


def score_all(truths: Sequence[Truth], told: Sequence[Told], grace: float = 0.0) -> Score:
    """Return how well the last of some turns was told, with the mistakes of all of them."""
    scores = [score(truth, told, grace) for truth in truths]
    return replace(scores[-1], mistakes=frozenset().union(*(one.mistakes for one in scores)))


def _judge_question(asks: Span, told: Sequence[Told]) -> set[Mistake]:
    """A question takes a moment to be told, but then it stays told until it is answered."""
    statuses = _within(told, asks)
    if not statuses or statuses[-1] is not _WAITING:
        return {Mistake.MISSED_WAITING}
    told_once = statuses.index(_WAITING)
    early = _false(statuses[:told_once], {_PROCESSING})
    return early | _false(statuses[told_once:], {_WAITING})


def _judge_work_after(
    span: Span, told: Sequence[Told], before: set[TerminalStatus]
) -> set[Mistake]:
    """An answer takes a moment to be told, but then nothing is asked any more."""
    statuses = _within(told, span)
    while statuses and statuses[0] is _WAITING:
        statuses.pop(0)
    still = _within(told, Span(span.start + ANSWER_SECONDS, span.end))[:1]
    return _false(statuses, before - {_WAITING}) | _false(still, before - {_WAITING})


def _judge_end(
    truth: Truth, told: Sequence[Told], before: set[TerminalStatus], caught_up: float
) -> set[Mistake]:
    """The end takes a moment to be told, but then it stays told."""
    # A turn may be over before its sending is confirmed.
    begin = max(truth.end, truth.sent)
    late = 0.0 if _at(told, begin) is truth.rest else None
    late = _first(told, Span(begin, truth.until), truth.rest) if late is None else late
    if late is None:
        unclear = _within(told, Span(max(begin, caught_up), truth.until))
        return {Mistake.MISSED_END} | _false(unclear, before)
    known = begin + late
    early = _within(told, Span(max(begin, caught_up), known))
    return _false(early, before) | _false(_within(told, Span(known, truth.until)), {truth.rest})


def _within(told: Sequence[Told], span: Span) -> list[TerminalStatus]:
    """Return the statuses that held in a span, among them the one that held at its start."""
    if span.start >= span.end:
        return []
    held = _at(told, span.start)
    later = [entry.status for entry in told if span.start < entry.at < span.end]
    return [held, *later] if held else later


def _at(told: Sequence[Told], moment: float) -> TerminalStatus | None:
    """Return the status that held at a moment."""
    before = [entry.status for entry in told if entry.at <= moment]
    return before[-1] if before else None


def _false(statuses: Iterable[TerminalStatus], right: set[TerminalStatus]) -> set[Mistake]:
    return {FALSE[status] for status in statuses if status not in right}


def _first(told: Sequence[Told], span: Span, wanted: TerminalStatus) -> float | None:
    """Return how long after a span's start a status was first told; None if it held by then."""
    if _at(told, span.start) is wanted:
        return None
    for entry in told:
        if span.start < entry.at < span.end and entry.status is wanted:
            return entry.at - span.start
    return None
