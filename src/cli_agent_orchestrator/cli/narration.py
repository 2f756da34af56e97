"""A run in words: each event as a line for people, or as fields for programs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from cli_agent_orchestrator.cli.timeline import duration
from cli_agent_orchestrator.handoff.progress import EventKind, HandoffEvent
from cli_agent_orchestrator.models import TerminalStatus
from cli_agent_orchestrator.pipeline.machine import (
    Approved,
    Check,
    Cleared,
    CyclesUsedUp,
    Delivered,
    Failed,
    Outcome,
    Passed,
    RoundsUsedUp,
    SentBack,
)
from cli_agent_orchestrator.pipeline.state import FinalStatus, Turn
from cli_agent_orchestrator.runs.events import (
    AgentsStarting,
    AgentStarted,
    CheckBegan,
    CheckEnded,
    Paused,
    RunBegan,
    RunEnded,
    RunEvent,
    ServerChosen,
    TurnBegan,
    TurnEnded,
    Unpaused,
    Warned,
)


class Tone(Enum):
    """How a line is meant."""

    PLAIN = "plain"
    QUIET = "quiet"
    GOOD = "good"
    BAD = "bad"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class Line:
    """One line for people."""

    text: str
    tone: Tone = Tone.PLAIN


TONES: Mapping[type[Outcome], Tone] = {
    Delivered: Tone.PLAIN,
    Approved: Tone.GOOD,
    SentBack: Tone.PLAIN,
    CyclesUsedUp: Tone.ALERT,
    Passed: Tone.GOOD,
    Cleared: Tone.GOOD,
    Failed: Tone.BAD,
    RoundsUsedUp: Tone.BAD,
}


WORDS: Mapping[EventKind, tuple[str, Tone]] = {
    EventKind.RESUMED: ("{who} has the prompt already and is waited for", Tone.QUIET),
    EventKind.ASKED_AGAIN: ("{who} is asked again: {text}", Tone.ALERT),
    EventKind.REMINDED: ("{who} was reminded to write its file ({text})", Tone.ALERT),
    EventKind.STREAM_LOST: ("{who}: {text}", Tone.ALERT),
    EventKind.STREAM_BACK: ("{who}: {text}", Tone.QUIET),
    EventKind.WARNING: ("{who}: {text}", Tone.ALERT),
}
"""What is told of events that need nothing but their own text."""


def unfinished_words(resume: bool | None) -> str:
    """Say how a run goes on that ended without a verdict: `--no-resume` would begin a new one."""
    changed = " with --resume instead of --no-resume" if resume is False else ""
    return f"The run is saved. The same command{changed} goes on with it"


UNFINISHED = unfinished_words(None)


NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Narration:
    """Puts the events of one run into words; it remembers whose turn it is."""

    def __init__(self, base: Path, report: str = "", unfinished: str = UNFINISHED) -> None:
        """Paths below `base` are told from there; `report` is the command that tells the rest.

        `unfinished` is what is said of a run that has begun and ends without a verdict.
        """
        self.attach_prefix = ""
        """What goes before `cao`."""
        self._report = report
        self._unfinished = unfinished
        self._base = base
        self._turn: Turn | None = None
        self._waiting = False
        self._delayed = False
        self._starting: Mapping[str, str] = {}
        self._started: list[str] = []

    def tell(self, event: RunEvent) -> Line | None:
        """Return what people want to know of an event."""
        match event:
            case ServerChosen():
                return Line(f"Server: {event.url} ({event.how})", Tone.QUIET)
            case AgentsStarting() | AgentStarted():
                return self._start(event)
            case RunBegan():
                return self._began(event)
            case TurnBegan():
                self._turn, self._waiting, self._delayed = event.turn, False, False
                return Line(f"{place(event.turn)} begins ({event.provider})", Tone.QUIET)
            case HandoffEvent():
                return self._handoff(event)
            case Warned():
                return Line(f"Warning: {event.text}", Tone.ALERT)
            case RunEnded():
                return self._ended(event)
        return _step_line(event)

    def _start(self, event: AgentsStarting | AgentStarted) -> Line:
        if isinstance(event, AgentsStarting):
            self._starting, self._started = event.providers, []
            named = ", ".join(agents_in_words(event.providers))
            return Line(f"Starting {named} ...", Tone.QUIET)
        self._started.append(event.name)
        count = f"{len(self._started)} of {len(self._starting)}"
        return Line(f"{event.name} has started, {count}", Tone.QUIET)

    def _began(self, event: RunBegan) -> Line:
        agents = ", ".join(sorted(set(event.providers.values())))
        agents += f"; permissions: {event.permissions}" if event.permissions else ""
        verb = "goes on" if event.resumed else "begins"
        new = f"; new agents: {', '.join(event.replaced)}" if event.replaced else ""
        count = _count(event.terminals)
        return Line(
            f"The run {verb} with {count} ({agents}) in session {event.session_name}{new}. "
            f"Everything is kept in {self._short(event.archive)}"
        )

    def _handoff(self, event: HandoffEvent) -> Line | None:
        who = place(self._turn) if self._turn else event.role
        match event.kind:
            case EventKind.WAITING_FOR_PERSON:
                self._waiting = True
                command = f"{self.attach_prefix}{event.text}"
                return Line(f"{who} waits for a person. Answer with: {command}", Tone.ALERT)
            case EventKind.STATUS if self._waiting:
                if event.status is TerminalStatus.WAITING_USER_ANSWER:
                    return None
                self._waiting = False
                return Line(f"{who} goes on", Tone.QUIET)
            case EventKind.DELAYED:
                self._delayed = True
                waited = duration(event.at - (event.since or event.at))
                return Line(
                    f"{who} waits to be given its message, {waited}: {event.text}", Tone.ALERT
                )
            case EventKind.DISPATCHED if self._delayed:
                self._delayed = False
                return Line(f"{who} has its message now", Tone.QUIET)
        if event.kind not in WORDS:
            return None
        words, tone = WORDS[event.kind]
        return Line(words.format(who=who, text=event.text), tone)

    def _ended(self, event: RunEnded) -> Line:
        rounds = f"{event.round} round{'s' if event.round != 1 else ''}"
        if event.final_status is FinalStatus.RUNNING:
            return Line(self._unfinished if event.round else "The run did not begin", Tone.ALERT)
        more = f" ({self._report} says more)" if self._report else ""
        stop = f"{self.attach_prefix}cao stop --session {event.session_left}"
        left = f"; its agents are still there: {stop}" if event.session_left else ""
        tone = Tone.GOOD if event.final_status is FinalStatus.PASS else Tone.BAD
        return Line(f"{event.final_status} after {rounds}{more}{left}", tone)

    def _short(self, path: str) -> str:
        full = Path(path)
        return str(full.relative_to(self._base) if full.is_relative_to(self._base) else full)


def agents_in_words(providers: Mapping[str, str]) -> list[str]:
    """Name each role with its agent: `analyst_review (codex)`."""
    return [f"{role} ({agent})" for role, agent in providers.items()]


def place(step: Turn | Check) -> str:
    """Name a turn or a check: `Round 1, cycle 2, analyst_review`."""
    if isinstance(step, Check):
        return f"Round {step.round}, {step.stage}"
    cycle = f", cycle {step.cycle}" if step.reviewed else ""
    return f"Round {step.round}{cycle}, {step.role}"


def _step_line(event: TurnEnded | CheckBegan | CheckEnded | Paused | Unpaused) -> Line:
    match event:
        case Paused():
            return Line("The run is paused", Tone.ALERT)
        case Unpaused():
            return Line("The run goes on", Tone.QUIET)
        case CheckBegan():
            return Line(f"{place(event.check)} begins: {event.command}", Tone.QUIET)
        case TurnEnded():
            return _ended_line(event, place(event.turn))
        case CheckEnded():
            return _ended_line(event, place(event.check))


def _ended_line(event: TurnEnded | CheckEnded, where: str) -> Line:
    kept = f"{duration(event.seconds)}, {Path(event.archive).name}"
    return Line(f"{where}: {event.outcome}  [{kept}]", TONES[type(event.outcome)])


def _count(agents: Collection[str]) -> str:
    """Return how many agents there are, in words."""
    words = NUMBERS[len(agents)] if len(agents) < len(NUMBERS) else str(len(agents))
    return f"{words} agent{'' if len(agents) == 1 else 's'}"


OUTCOME_WORDS: Mapping[type[Outcome], str] = {
    Delivered: "delivered",
    Approved: "approved",
    SentBack: "sent_back",
    CyclesUsedUp: "cycles_used_up",
    Passed: "passed",
    Cleared: "cleared",
    Failed: "failed",
    RoundsUsedUp: "rounds_used_up",
}


EVENT_NAMES: Mapping[type[RunEvent], str] = {
    ServerChosen: "server",
    AgentsStarting: "agents_starting",
    AgentStarted: "agent_started",
    RunBegan: "run_began",
    TurnBegan: "turn_began",
    TurnEnded: "turn_ended",
    CheckBegan: "check_began",
    CheckEnded: "check_ended",
    Paused: "paused",
    Unpaused: "unpaused",
    Warned: "warning",
    RunEnded: "run_ended",
}


def fields_of(event: RunEvent) -> dict[str, Any]:
    """Return an event for programs."""
    if isinstance(event, HandoffEvent):
        return _fields(event, str(event.kind), "kind")
    fields = _fields(event, EVENT_NAMES[type(event)], "turn", "check", "outcome")
    if isinstance(event, TurnBegan | TurnEnded):
        turn = event.turn
        fields |= {"role": turn.role, "round": turn.round, "cycle": turn.cycle}
    if isinstance(event, CheckBegan | CheckEnded):
        fields |= {"stage": event.check.stage, "round": event.check.round}
    if isinstance(event, TurnEnded | CheckEnded):
        outcome = OUTCOME_WORDS[type(event.outcome)]
        fields |= {"outcome": outcome, "detail": str(event.outcome)}
    return fields


def _fields(event: RunEvent, name: str, *without: str) -> dict[str, Any]:
    told = {field: getattr(event, field) for field in event.__slots__ if field not in without}
    return {"event": name, **{field: _plain(value) for field, value in told.items()}}


def _plain(value: object) -> object:
    match value:
        case Mapping():
            return dict(value)
        case tuple():
            return list(value)
    return value
