"""What is an agent doing? Signals and screens are folded into one status, with its reason.

The rules, in this order:

1. A program that has ended is in `error`; nothing else can be said about it.
2. The newest of the agent's own signals (hook, session record, stream state, our own confirmed
   submission) is believed at once, for a screen takes up to `SCREEN_LAG` seconds to follow. One
   that leaves open how a turn ended waits for what tells, at most `RECORD_LAG` seconds. An end that
   may be taken back (a hook objects, something works in the background) is none while the screen
   shows work, nor for `DRAW_SECONDS` if none of the turn was drawn yet, nor for `REPORT_SECONDS` if
   what the turn put in the background may still be reported to the agent. While an agent asks, what
   is told of its sub-agents is no news, and the other way round. A record's end does not say whose
   question a stream told of: it stands until the stream takes it back, at most `QUESTION_LAG`
   seconds, in which one of another agent is drawn.
3. After that a screen that says something else may win: `CONTRADICTIONS` says which, and whether it
   must have stood still first. What is drawn only when it is true (`NEWS`) need not wait if it came
   up after the signal; a question need not even be new if all that was told is work, unless it may
   be the one that was answered last. A busy agent repaints, so stillness is what tells a signal
   that got lost (Claude Code fires nothing on Esc) from a screen that shows too little (Codex shows
   no busy mark while it streams). A title that tells of work tells of rest by its silence: then the
   screen need not stand still, nor if it shows for sure that a turn was stopped. An agent that
   always tells the end of a turn, and did not, was stopped by a person: it is idle. A turn of which
   a session record tells is ended by that record alone, however long the screen stands still; only
   a question or a failure on the screen counts besides.
4. Without any signal the screen decides. A turn that it shows as over may still run if the agent
   keeps a session record, and the screen may have missed its start: such an end is work until that
   record is found and tells, at most `SEARCH_SECONDS`.
5. What neither knows is `unknown`, never idle. A screen that matches nothing counts from
   `FRAME_SECONDS` on: before that it may be half of the next one. It never takes back that
   something was seen to work in the background: a person may have opened what hides it. Of an
   agent whose box was only found by trying (`by_rest`), such a screen is work while it changes, and
   rest when it has stood still for `REST_SECONDS`.

Judging changes nothing: the same track at the same time gives the same verdict.
"""

from enum import Enum, StrEnum, auto

from msgspec import Struct
from msgspec.structs import replace

from ..core.models import Evidence, Explanation, TerminalStatus
from ..providers.base import AgentSignal, SignalKind

SCREEN_LAG = 2.5
"""Seconds a screen may be behind a signal: a capture a second, and agents that draw late."""
TITLE_LAG = 1.0
RECORD_LAG = 0.5
SEARCH_SECONDS = 3.0
QUESTION_LAG = 1.0
FRAME_SECONDS = 0.5
REST_SECONDS = 3.0
DRAW_SECONDS = 0.5
REPORT_SECONDS = 2.0
START_SECONDS = 1.0
"""How long after a message a stream state "idle" may be that of the start before it."""
FLICKER_SECONDS = 1.0
"""How long after its first state a stream may report work although there is none."""


class SignalSource(StrEnum):
    PROCESS = "process"
    HOOK = "hook"
    RECORD = "session record"
    STREAM = "stream state"
    SUBMISSION = "submission"
    TITLE = "title"
    SCREEN = "screen"


_IDLE = TerminalStatus.IDLE
_COMPLETED = TerminalStatus.COMPLETED
_PROCESSING = TerminalStatus.PROCESSING
_WAITING = TerminalStatus.WAITING_USER_ANSWER
_ERROR = TerminalStatus.ERROR

STATUS_OF_SIGNAL = {
    SignalKind.READY: _IDLE,
    SignalKind.CLEARED: _IDLE,
    SignalKind.SHORTENING: _PROCESSING,
    SignalKind.SHORTENED: _IDLE,
    SignalKind.SUBMITTED: _PROCESSING,
    SignalKind.WORKING: _PROCESSING,
    SignalKind.WAITING: _WAITING,
    SignalKind.FINISHED: _COMPLETED,
    SignalKind.BACKGROUND: _PROCESSING,
    SignalKind.STOPPED: _COMPLETED,
    SignalKind.ANSWERED: _COMPLETED,
    SignalKind.ERRED: _ERROR,
    SignalKind.INTERRUPTED: _IDLE,
    SignalKind.FAILED: _ERROR,
    SignalKind.ENDED: _ERROR,
}

HOLD_SECONDS = {
    # How long "processing" of each source holds against a screen that is at rest and still.
    # That of an agent whose session record is followed holds until the record says otherwise.
    SignalSource.HOOK: 15.0,
    SignalSource.STREAM: 60.0,
    SignalSource.SUBMISSION: 5.0,
}


class Winner(Enum):
    SIGNAL = auto()
    SCREEN = auto()
    STILL_SCREEN = auto()
    SCREEN_AT_ONCE = auto()


CONTRADICTIONS = {
    # (the signal says, the screen says): who wins. What is not listed goes to the signal.
    (_PROCESSING, _WAITING): Winner.SCREEN,  # session records tell nothing of approvals
    (_PROCESSING, _IDLE): Winner.STILL_SCREEN,  # interrupted without a signal, or streaming
    (_PROCESSING, _COMPLETED): Winner.STILL_SCREEN,
    (_PROCESSING, _ERROR): Winner.SCREEN,  # some versions record no failure
    (_WAITING, _PROCESSING): Winner.SCREEN,  # a person has answered
    (_WAITING, _IDLE): Winner.SCREEN,
    (_WAITING, _COMPLETED): Winner.SCREEN,
    (_WAITING, _ERROR): Winner.SCREEN,
    # A question is gone from the screen before its turn is over: this is one of something else,
    # such as a sub-agent that goes on when the turn that started it has ended.
    (_IDLE, _WAITING): Winner.SCREEN_AT_ONCE,
    (_COMPLETED, _WAITING): Winner.SCREEN_AT_ONCE,
    (_ERROR, _WAITING): Winner.SCREEN_AT_ONCE,
    (_IDLE, _PROCESSING): Winner.SCREEN,  # a person has typed a prompt
    (_IDLE, _ERROR): Winner.SCREEN,
    (_COMPLETED, _PROCESSING): Winner.SCREEN,
    (_COMPLETED, _ERROR): Winner.SCREEN,  # some versions report a failed turn as finished
    (_ERROR, _PROCESSING): Winner.SCREEN,
}

NEWS = {
    # (who said that the agent works, what the screen says since then): believed at once.
    *((source, _WAITING) for source in SignalSource),  # a question is never drawn late
    (SignalSource.RECORD, _ERROR),  # Codex draws in time; old versions record no failure
}

OF_ONE_AGENT = (
    # What tells of one agent of a program, and says nothing of what another one asks.
    SignalKind.WORKING,
    SignalKind.BACKGROUND,
    SignalKind.FINISHED,
    SignalKind.STOPPED,
)

RECORDED_END = (SignalSource.RECORD, SignalKind.FINISHED)
"""Reports the end of one turn, and nothing of a question that another one asks."""


class Track(Struct, frozen=True):
    signal: Evidence | None = None
    """The newest signal of the agent, or our confirmed submission."""
    told: AgentSignal | None = None
    asked: Evidence | None = None
    """The stream's question right before that signal, if that is a record's end."""
    alone: bool = False
    """Was no program but ours asked whether the last turn may end?"""
    background: bool = False
    """May something work in the background that no signal would report?"""
    to_report: bool = False
    """Has the turn put something in the background whose end the agent may still learn of?"""
    submitted_at: float | None = None
    began_at: float | None = None
    asked_twice: bool = False
    """Has an agent asked again before it was told that its first question is over?"""
    answered_at: float | None = None
    """When a signal last took back a question."""
    stream_began_at: float | None = None
    keeps_record: bool = False
    by_rest: bool = False
    recorded: bool = False
    open_end: bool = False
    """Does the signal leave open how the turn ended?"""
    said: Evidence | None = None
    """The answer or error in the session record, since the agent was last seen at work."""
    screen: Evidence | None = None
    rests_surely: bool = False
    """Does the screen show for sure that no turn is under way or over (`Provider.idle_mark`)?"""
    shown: Evidence | None = None
    """The last screen that showed something known."""
    shown_since: float = 0.0
    screen_changed_at: float = 0.0
    screen_worked_at: float | None = None
    title: Evidence | None = None
    title_worked_at: float | None = None
    title_rests_since: float = 0.0
    end: Evidence | None = None

    @property
    def signal_source(self) -> str | None:
        return self.signal.source if self.signal else None

    @property
    def signal_status(self) -> TerminalStatus | None:
        return self.signal.status if self.signal else None


class Verdict(Struct, frozen=True):
    status: TerminalStatus
    reason: str
    until: float | None = None


def observe_signal(
    track: Track, source: SignalSource, signal: AgentSignal, at: float, *, found: bool = False
) -> Track:
    """Fold in a signal of the agent; old news changes nothing.

    `found` means that it was there when the server began, with no time of its own.
    """
    if signal.kind is SignalKind.ACTING:
        return track
    if signal.kind is SignalKind.CONSULTED:
        return replace(track, alone=signal.consulted == 1)
    if signal.background is not None:
        to_report = track.to_report or signal.background
        track = replace(track, background=signal.background, to_report=to_report)
    evidence = Evidence(source, _status_told(track, signal), signal.detail, at, found)
    if signal.kind in (SignalKind.ANSWERED, SignalKind.ERRED):
        return replace(track, said=evidence)
    track = replace(track, recorded=track.recorded or source is SignalSource.RECORD)
    if track.signal is not None and track.signal.at > at:
        # The signal of the agent's start may come after the first Enter.
        by_agent = track.signal.source in (SignalSource.HOOK, SignalSource.STREAM)
        if source is SignalSource.SUBMISSION and by_agent and track.signal.status is _IDLE:
            return replace(track, signal=replace(evidence, at=track.signal.at), told=signal)
        return track
    if source is SignalSource.STREAM and _is_old_news(track, evidence):
        return track if evidence.status is _WAITING else replace(track, asked=None)
    if _is_beside_the_point(track, source, signal):
        return track
    began = at if source is SignalSource.STREAM and track.stream_began_at is None else None
    asks = signal.kind is SignalKind.WAITING
    reminds = asks and signal.agent is None
    streamed = (track.signal_source, track.signal_status) == (SignalSource.STREAM, _WAITING)
    return replace(
        track,
        stream_began_at=began or track.stream_began_at,
        began_at=at if signal.kind is SignalKind.SUBMITTED else track.began_at,
        to_report=track.to_report and signal.kind is not SignalKind.SUBMITTED,
        asked_twice=asks and (track.asked_twice or _asker(track) == signal.agent is not None),
        answered_at=at if _takes_back(track, signal) else track.answered_at,
        signal=evidence,
        # A reminder of a question does not say whose it is, but that is known.
        told=replace(signal, agent=_asker(track)) if reminds else signal,
        asked=track.signal if streamed and (source, signal.kind) == RECORDED_END else None,
        open_end=signal.kind is SignalKind.STOPPED,
        said=None if evidence.status is _PROCESSING else track.said,
    )


def _status_told(track: Track, signal: AgentSignal) -> TerminalStatus:
    asked_for = track.told is not None and track.told.kind is SignalKind.SHORTENING
    runs = track.signal_status in (_PROCESSING, _WAITING) and not asked_for
    if signal.kind is SignalKind.SHORTENED and runs:
        return _PROCESSING
    return STATUS_OF_SIGNAL[signal.kind]


def _is_beside_the_point(track: Track, source: SignalSource, signal: AgentSignal) -> bool:
    if signal.kind is SignalKind.STOPPED and track.signal_status is _ERROR:
        return True  # it is the turn that failed
    if signal.kind is SignalKind.READY:
        # The hook of its start may come after its first prompt.
        busy = track.screen is not None and track.screen.status in (_PROCESSING, _WAITING)
        return source is SignalSource.HOOK and (track.signal is not None or busy)
    asker = _asker(track)
    others = None not in (asker, signal.agent) and asker != signal.agent
    return others and signal.kind in OF_ONE_AGENT


def _asker(track: Track) -> str | None:
    return track.told.agent if track.told and track.signal_status is _WAITING else None


def _takes_back(track: Track, signal: AgentSignal) -> bool:
    asks = signal.kind is SignalKind.WAITING
    if track.signal_status is not _WAITING or asks or track.asked_twice:
        return False
    return signal.kind not in OF_ONE_AGENT or _asker(track) == signal.agent is not None


def _is_old_news(track: Track, state: Evidence) -> bool:
    """Is a stream state to be ignored, because something else reports sooner or better?

    A record and a stream are read apart, and either may be behind by a whole turn. So of an agent
    with a record the stream counts for questions alone, which the record does not have. Before
    that, Codex reports "working" and "idle" once while it starts.
    """
    if track.recorded:
        news = (_PROCESSING, _WAITING), (_WAITING, _PROCESSING)
        return (track.signal_status, state.status) not in news
    if state.status is _IDLE and track.submitted_at is not None:
        return state.at - track.submitted_at < START_SECONDS
    if state.status is _PROCESSING and track.submitted_at is None:
        began = track.stream_began_at
        return began is not None and state.at - began < FLICKER_SECONDS
    return False


def observe_submission(track: Track, detail: str, at: float) -> Track:
    signal = AgentSignal(SignalKind.SUBMITTED, detail)
    return observe_signal(replace(track, submitted_at=at), SignalSource.SUBMISSION, signal, at)


def observe_screen(
    track: Track, seen: Evidence, title: Evidence | None, changed: bool, rests_surely: bool = False
) -> Track:
    """Fold in a reading of the screen; one that shows the work makes our submission old news."""
    sent = track.signal_source == SignalSource.SUBMISSION
    # A failure that stood there already may be that of the turn before.
    stood = track.screen is not None and track.screen.status is _ERROR
    failed = seen.status is _ERROR and not stood
    fulfilled = sent and (failed or seen.status in (_PROCESSING, _WAITING))
    known = seen.status is not TerminalStatus.UNKNOWN
    known_news = known and (track.shown is None or track.shown.status is not seen.status)
    return replace(
        track,
        signal=None if fulfilled else track.signal,
        screen=_since(track.screen, seen),
        rests_surely=rests_surely,
        shown=seen if known else track.shown,
        shown_since=seen.at if known_news else track.shown_since,
        title=_since(track.title, title) if title else None,
        title_worked_at=seen.at if _tells_of_work(title) else track.title_worked_at,
        title_rests_since=seen.at if _tells_of_work(track.title) else track.title_rests_since,
        screen_changed_at=seen.at if changed or track.screen is None else track.screen_changed_at,
        screen_worked_at=seen.at if seen.status is _PROCESSING else track.screen_worked_at,
    )


def _since(before: Evidence | None, seen: Evidence) -> Evidence:
    if before is None or before.status is not seen.status:
        return seen
    return replace(seen, at=before.at, found=before.found)


def _tells_of_work(title: Evidence | None) -> bool:
    return title is not None and title.status is _PROCESSING


def observe_end(track: Track, detail: str, at: float) -> Track:
    return replace(track, end=Evidence(SignalSource.PROCESS, _ERROR, detail, at))


def judge(track: Track, now: float) -> Verdict:
    if track.end is not None:
        return Verdict(_ERROR, track.end.detail)
    signal = track.signal
    unknown = track.screen is not None and track.screen.status is TerminalStatus.UNKNOWN
    if track.by_rest and unknown and track.signal_source in (None, SignalSource.SUBMISSION):
        return _by_rest(track, now)
    if signal is None or signal.status is None:
        return _by_screen(track, now)
    if track.asked is not None and now < signal.at + QUESTION_LAG:
        reason = f"{_says(track.asked)}; another turn ended meanwhile"
        return Verdict(_WAITING, reason, signal.at + QUESTION_LAG)
    if track.open_end:
        failed = track.screen is not None and track.screen.status is _ERROR
        stopped = track.rests_surely and track.screen_changed_at > (track.began_at or 0.0)
        how = track.said or (track.screen if failed or stopped else None)
        if how is not None:
            signal = replace(how, at=signal.at)
        elif now < signal.at + RECORD_LAG:
            reason = f"{_says(signal)}; how it ended is not known yet"
            return Verdict(_PROCESSING, reason, signal.at + RECORD_LAG)
    revocable = track.told is not None and track.told.revocable
    if signal.status is _ERROR and revocable and now < signal.at + SCREEN_LAG:
        reason = f"{_says(signal)}; the screen may show that it goes on by itself"
        return Verdict(_PROCESSING, reason, signal.at + SCREEN_LAG)
    # A screen that is hidden does not take back that something was seen to work in the background,
    # which no signal would report.
    worked = track.shown is not None and track.shown.status is _PROCESSING
    screen = track.shown if unknown and worked and track.background else track.screen
    if screen is None or screen.status is None:
        return Verdict(signal.status or TerminalStatus.UNKNOWN, _says(signal))
    return _weigh(track, signal, screen, now)


def _by_rest(track: Track, now: float) -> Verdict:
    rests_at = max(track.screen_changed_at, track.submitted_at or 0.0) + REST_SECONDS
    rested = "has not" if now >= rests_at else "has"
    reason = f"the screen {rested} changed within {REST_SECONDS:g} s; nothing else is known of it"
    if now < rests_at:
        return Verdict(_PROCESSING, reason, rests_at)
    return Verdict(_IDLE if track.submitted_at is None else _COMPLETED, reason)


def _by_screen(track: Track, now: float) -> Verdict:
    screen = track.screen
    if screen is None or screen.status is None:
        return Verdict(TerminalStatus.UNKNOWN, "nothing has been seen yet")
    verdict = Verdict(screen.status, _says(screen))
    if screen.status is TerminalStatus.UNKNOWN:
        verdict = Verdict(screen.status, "the screen matches nothing that is known")
        drawn_by = screen.at + FRAME_SECONDS
        if track.shown is not None and track.shown.status is not None and now < drawn_by:
            reason = f"{_says(track.shown)} before this frame"
            verdict = Verdict(track.shown.status, reason, drawn_by)
    found_by = track.shown_since + SEARCH_SECONDS
    if verdict.status is _COMPLETED and track.keeps_record and now < found_by:
        reason = f"{verdict.reason}; its session record is looked for"
        return Verdict(_PROCESSING, reason, min(found_by, verdict.until or found_by))
    return verdict


def _weigh(track: Track, signal: Evidence, screen: Evidence, now: float) -> Verdict:
    assert signal.status is not None
    assert screen.status is not None
    winner = CONTRADICTIONS.get((signal.status, screen.status), Winner.SIGNAL)
    may_run = signal.status is _PROCESSING and track.keeps_record
    if track.rests_surely and signal.status is not _IDLE and not may_run:
        winner = Winner.SCREEN
    if winner is Winner.SIGNAL:
        return _unless_taken_back(track, signal, now)
    recorded = track.recorded and track.signal_source in (SignalSource.RECORD, SignalSource.STREAM)
    if winner is Winner.STILL_SCREEN and recorded:
        # Its session record will tell the end of the turn.
        return Verdict(signal.status, f"{_says(signal)}; the screen does not show it")
    if winner is Winner.STILL_SCREEN:
        holds_until = _still_enough_at(track, signal)
    elif track.answered_at is not None and _is_question_beside(track, signal, screen):
        holds_until = track.answered_at + SCREEN_LAG
    else:
        holds_until = signal.at + SCREEN_LAG
    in_background = track.told is not None and track.told.kind is SignalKind.BACKGROUND
    if in_background or screen.status is _ERROR:
        # Claude Code 2.1.327 hides the one, and OpenCode shows the other, for a frame.
        holds_until = max(holds_until, screen.at + FRAME_SECONDS)
    at_once = winner is Winner.SCREEN_AT_ONCE or _is_news(track, signal, screen)
    if now < holds_until and not at_once:
        return Verdict(signal.status, f"{_says(signal)}; the screen does not show it", holds_until)
    # Stopped before any answer, a turn leaves the screen, and what stands there is older.
    if screen.status is _COMPLETED and track.told is not None and track.told.ends_aloud:
        return Verdict(_IDLE, f"{_says(screen)}, but no end was told after the {_says(signal)}")
    return Verdict(screen.status, f"{_says(screen)}, against the older {_says(signal)}")


def _unless_taken_back(track: Track, signal: Evidence, now: float) -> Verdict:
    assert signal.status is not None
    if signal.status is _COMPLETED:
        if track.to_report and now < signal.at + REPORT_SECONDS:
            reason = f"{_says(signal)}; what it put in the background may still be reported"
            return Verdict(_PROCESSING, reason, signal.at + REPORT_SECONDS)
        began_at, worked_at = track.began_at, track.screen_worked_at
        undrawn = began_at is not None and (worked_at is None or worked_at < began_at)
        if undrawn and _may_be_taken_back(track) and now < signal.at + DRAW_SECONDS:
            reason = f"{_says(signal)}; it may be taken back, and no work was drawn yet"
            return Verdict(_PROCESSING, reason, signal.at + DRAW_SECONDS)
    return Verdict(signal.status, _says(signal))


def _is_news(track: Track, signal: Evidence, screen: Evidence) -> bool:
    if signal.status is not _PROCESSING:
        return screen.status is _PROCESSING and _may_be_taken_back(track)
    if _is_question_beside(track, signal, screen):
        return track.answered_at is None or screen.at > track.answered_at
    return (signal.source, screen.status) in NEWS and screen.at > signal.at


def _is_question_beside(track: Track, signal: Evidence, screen: Evidence) -> bool:
    """Is there a question on the screen that the signal, about one agent, does not know?"""
    of_one_agent = track.told is not None and track.told.kind in OF_ONE_AGENT
    return screen.status is _WAITING and signal.source == SignalSource.HOOK and of_one_agent


def _may_be_taken_back(track: Track) -> bool:
    revocable = track.told is not None and track.told.revocable
    return revocable and (track.background or track.to_report or not track.alone)


def _still_enough_at(track: Track, signal: Evidence) -> float:
    """Return from when on a screen at rest wins over a signal of work."""
    # By the agent itself, whose title is in time then.
    confirmed = signal.source != SignalSource.SUBMISSION
    if confirmed and track.title_worked_at is not None and not _tells_of_work(track.title):
        if track.title_worked_at > signal.at:
            return track.title_rests_since + TITLE_LAG
        return signal.at + SCREEN_LAG
    still_since = max(signal.at, track.screen_changed_at)
    return still_since + HOLD_SECONDS[SignalSource(signal.source)]


def asks_aloud(track: Track) -> bool:
    aloud = track.signal_source in (SignalSource.HOOK, SignalSource.RECORD)
    return aloud and track.signal_status is _WAITING


def _says(evidence: Evidence) -> str:
    return f"{evidence.source}: {evidence.detail}"


def explain(track: Track, now: float) -> Explanation:
    verdict = judge(track, now)
    said = track.said if track.open_end else None
    pieces = (track.end, track.signal, track.asked, said, track.title, track.screen)
    known = sorted((piece for piece in pieces if piece), key=lambda piece: -piece.at)
    return Explanation(verdict.status, verdict.reason, tuple(known))
