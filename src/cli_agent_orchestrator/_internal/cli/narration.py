"""A run in words: each event as a line for people."""

from collections.abc import Collection, Mapping
from pathlib import Path

from cli_agent_orchestrator._internal.cli.ending import UNFINISHED, Ending
from cli_agent_orchestrator._internal.cli.line import Line, Tone
from cli_agent_orchestrator._internal.models import TerminalStatus
from cli_agent_orchestrator._internal.runs.records.run_id import short_name
from cli_agent_orchestrator._internal.runs.reports.durations import duration
from cli_agent_orchestrator.events import (
    AgentsStarting,
    AgentStarted,
    Answer,
    AskDeclined,
    CheckBegan,
    CheckEnded,
    CheckOutput,
    EventKind,
    FilesChanged,
    HandoffEvent,
    HintTaken,
    NotConverging,
    PauseAsked,
    Paused,
    QuestionAnswered,
    ReviewSkipped,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    ServerChosen,
    SettingChanged,
    StopAsked,
    TurnBegan,
    TurnEnded,
    Unpaused,
    Warned,
)

POINTS: Mapping[str, str] = {
    # at which point of a run a gate is run
    "base": " on the base",
    "after_programmer": " after the {author}",
    "after_tester": "",
}

Step = (
    TurnEnded | CheckBegan | CheckEnded | FilesChanged | NotConverging | Paused | Unpaused | Warned
)


TONES: Mapping[str, Tone] = {
    "approved": Tone.GOOD,
    "cycles_used_up": Tone.ALERT,
    "passed": Tone.GOOD,
    "cleared": Tone.GOOD,
    "failed": Tone.BAD,
    "rounds_used_up": Tone.BAD,
}
"""How outcomes are meant; others are plain."""

WORDS: Mapping[EventKind, tuple[str, Tone]] = {
    EventKind.RESUMED: ("{who} already has the prompt; waiting for its reply", Tone.QUIET),
    EventKind.ASKED_AGAIN: ("{who} is asked again: {text}", Tone.ALERT),
    EventKind.FILE_AWAITED: (
        "{who} is at rest without its file; {text} in {left} if it does not come",
        Tone.QUIET,
    ),
    EventKind.REMINDED: ("{who} was reminded to write its file ({text})", Tone.ALERT),
    EventKind.STREAM_LOST: ("{who}: {text}", Tone.ALERT),
    EventKind.STREAM_BACK: ("{who}: {text}", Tone.QUIET),
    EventKind.WARNING: ("{who}: {text}", Tone.ALERT),
}
"""What is told of events that need nothing but their own text."""


NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Narration:
    """Puts the events of one run into words; it remembers whose turn it is."""

    def __init__(self, base: Path, report: str = "", unfinished: str = UNFINISHED) -> None:
        """Paths below `base` are told from there; `report` is the command that tells the rest.

        In both texts `{id}` stands for the id of the run.
        `unfinished` is what is said of a run that has begun and ends without a verdict.
        """
        self._ending = Ending(report, unfinished)
        self._base = base
        self._turn: TurnBegan | None = None
        self._waiting = False
        self._delayed = False
        self._starting: Mapping[str, str] = {}
        self._started: list[str] = []

    def tell(self, event: RunEvent) -> Line | None:
        """Return what people want to know of an event."""
        self._ending = self._ending.after(event)
        match event:
            case RunOpened():
                resumed = " is resumed" if event.resumed else ""
                return Line(f"Run {event.run}{resumed}", Tone.QUIET)
            case ServerChosen():
                return Line(
                    f"Server: {event.url} ({event.how}); in the browser: cao dashboard", Tone.QUIET
                )
            case AgentsStarting() | AgentStarted():
                return self._start(event)
            case RunBegan():
                return self._began(event)
            case TurnBegan():
                self._turn, self._waiting, self._delayed = event, False, False
                return Line(f"{place(event)} begins ({event.provider})", Tone.QUIET)
            case HandoffEvent():
                return self._handoff(event)
            case CheckOutput():
                return None
            case RunEnded():
                return self._ending.tell(event)
        return _step_line(event)

    def _start(self, event: AgentsStarting | AgentStarted) -> Line:
        if isinstance(event, AgentsStarting):
            self._starting, self._started = event.providers, []
            named = ", ".join(agents_in_words(event.providers))
            return Line(f"Starting {named} ...", Tone.QUIET)
        self._started.append(event.role)
        count = f"{len(self._started)} of {len(self._starting)}"
        return Line(f"{event.role} has started, {count}", Tone.QUIET)

    def _began(self, event: RunBegan) -> Line:
        agents = ", ".join(sorted(set(event.providers.values())))
        agents += f"; permissions: {event.permissions}" if event.permissions else ""
        verb = "goes on" if event.resumed else "begins"
        rounds = f"{event.max_rounds} round{'s' if event.max_rounds != 1 else ''}"
        most = f"Up to {rounds}. " if event.max_rounds else ""
        new = f"; new agents: {', '.join(event.replaced)}" if event.replaced else ""
        count = _count(event.terminals)
        return Line(
            f"The run {verb} with {count} ({agents}) in session {event.session_name}{new}. "
            f"{most}Everything is kept in {self._short(event.archive)}"
        )

    def _handoff(self, event: HandoffEvent) -> Line | None:
        who = place(self._turn) if self._turn else event.role
        match event.kind:
            case EventKind.WAITING_FOR_PERSON:
                self._waiting = True
                asks = f"{who} asks you{f': {event.question}' if event.question else ''}"
                return Line(f"{asks}\n{self._ways_to_answer(event)}", Tone.ALERT)
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
        left = duration((event.until or event.at) - event.at)
        return Line(words.format(who=who, text=event.text, left=left), tone)

    def _ways_to_answer(self, event: HandoffEvent) -> str:
        """Return the commands that answer an agent: to look and type there, and to press a key."""
        prefix = self._ending.attach_prefix
        ways = [f"  Look and answer: {prefix}{event.text}"]
        if run := short_name(self._ending.run):
            ways.append(f"  See the choices: {prefix}cao output {run}/{event.role} --screen")
            # Which key means what is for a person to see: none is proposed.
            ways.append(f"  Press a key:     {prefix}cao answer {run} KEY")
        return "\n".join(ways)

    def _short(self, path: str) -> str:
        full = Path(path)
        return str(full.relative_to(self._base) if full.is_relative_to(self._base) else full)


def agents_in_words(providers: Mapping[str, str]) -> list[str]:
    """Name each role with its agent: `analyst_review (codex)`."""
    return [f"{role} ({agent})" for role, agent in providers.items()]


def place(step: TurnBegan | TurnEnded | CheckBegan | CheckEnded) -> str:
    """Name a turn or a check: `Round 1, cycle 2, analyst_review`."""
    if isinstance(step, CheckBegan | CheckEnded):
        return f"Round {step.round}, {step.gate}{point_words(step)}"
    cycle = f", cycle {step.cycle}" if step.reviewed else ""
    return f"Round {step.round}{cycle}, {step.role}"


def point_words(step: CheckBegan | CheckEnded) -> str:
    """Say at which point of the run a gate is run: ` after the programmer`."""
    return POINTS.get(step.when, "").replace("{author}", step.author)


def _step_line(event: Step | Answer) -> Line:
    match event:
        case (
            PauseAsked()
            | StopAsked()
            | HintTaken()
            | SettingChanged()
            | ReviewSkipped()
            | QuestionAnswered()
        ):
            return Line(f"By a person: {event.words}", Tone.ALERT)
        case AskDeclined():
            return Line(f"`{event.do}` changes nothing: {event.text}", Tone.ALERT)
        case Paused():
            return Line("The run is paused", Tone.ALERT)
        case Unpaused():
            return Line("The run goes on", Tone.QUIET)
        case Warned():
            return Line(f"Warning: {event.text}", Tone.ALERT)
        case CheckBegan():
            return Line(f"{place(event)} begins: {event.command}", Tone.QUIET)
        case FilesChanged():
            tone = Tone.QUIET if event.allowed else Tone.ALERT
            return Line(f"{event.role} {event.words}", tone)
        case NotConverging():
            return Line(event.text, Tone.ALERT)
        case TurnEnded() | CheckEnded():
            kept = f", {Path(event.archive).name}" if event.archive else ""
            why = f" “{event.reason}”" if isinstance(event, TurnEnded) and event.reason else ""
            text = f"{place(event)}: {event.detail}{why}  [{duration(event.seconds)}{kept}]"
            return Line(text, TONES.get(event.outcome, Tone.PLAIN))


def _count(agents: Collection[str]) -> str:
    """Return how many agents there are, in words."""
    words = NUMBERS[len(agents)] if len(agents) < len(NUMBERS) else str(len(agents))
    return f"{words} agent{'' if len(agents) == 1 else 's'}"
