"""What a run looks like now: its events folded into one picture.

    picture = fold(picture, event)

Pure, and the same for a run in this process and for one that is watched from its folder. Events
may come in any order and more than once, as in the log of a run that was killed and resumed: what
fits nothing that is known changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from ..core.models import TerminalStatus
from ..events import (
    AGAINST,
    AgentsStarting,
    AgentStarted,
    CheckBegan,
    CheckEnded,
    CheckOutput,
    EventKind,
    FilesChanged,
    HandoffEvent,
    NotConverging,
    PauseAsked,
    Paused,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    ServerChosen,
    SettingChanged,
    TurnBegan,
    TurnEnded,
    Unpaused,
)
from ..pipeline.state import FinalStatus
from .narration import point_words

COMMAND = "command"
"""Stands in the place of an agent where a command of the user's is run."""
MOST_REASONS = 100


class Doing(Enum):
    """What an agent is doing, in the words for it."""

    STARTING = "starting"
    READY = "ready"
    """It has had no turn yet."""
    SENDING = "sending"
    """It is being given its message."""
    WORKING = "working"
    ASKING = "asks you"
    RESTING = "at rest"
    """Its turn is not over, and it does nothing."""
    FAILING = "error"
    UNKNOWN = "unknown"
    DONE = "done"
    """Its last turn is over."""


DOING_OF_STATUS: Mapping[TerminalStatus, Doing] = {
    TerminalStatus.IDLE: Doing.RESTING,
    TerminalStatus.COMPLETED: Doing.RESTING,
    TerminalStatus.PROCESSING: Doing.WORKING,
    TerminalStatus.WAITING_USER_ANSWER: Doing.ASKING,
    TerminalStatus.ERROR: Doing.FAILING,
    TerminalStatus.UNKNOWN: Doing.UNKNOWN,
}
CHANGED_FILES = "changed_files"
"""Stands in the place of an outcome where somebody changed files whose task it is not."""
OUTCOMES_FOR = ("approved", "skipped", "passed", "cleared")
EARLY = "approved, second look follows"
"""Stands in the place of an outcome where an approval came too early to count."""
MAX_ROUNDS = "MAX_ROUNDS"
DIGITS = 9
"""Of a number that somebody may have written; no limit has more."""
DELAY_GOES_ON = (EventKind.DELAYED, EventKind.STATUS, EventKind.ACTION)
"""Kinds of events that do not end a delay."""


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One row of the strip: an agent, or the command of a gate."""

    role: str
    provider: str
    doing: Doing
    since: float
    """When its start or its present turn began; Unix time."""
    terminal_id: str = ""
    outcome: str = ""
    """What its last turn led to, as a word."""
    worked: float = 0.0
    """Seconds of its last turn."""
    point: str = ""
    """Of a gate: at which point of the run it is run, or was, in words."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a review sent something back, or a test or a gate failed."""

    role: str
    round: int
    cycle: int
    """0 if cycles do not count there."""
    outcome: str
    """What it led to, as a word."""
    detail: str
    """The same for people."""
    why: str
    """In the agent's own words; may be empty."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A message cannot be delivered yet."""

    since: float
    why: str


@dataclass(frozen=True, slots=True)
class Countdown:
    """An agent is at rest without its file."""

    until: float
    then: str
    """What is done when it has not come."""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """An agent asks a person something."""

    since: float
    command: str
    """Leads to its terminal."""
    text: str = ""
    """What it asks, if that is known."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """What it offers, by the key that picks it; empty if that is not known."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A run as it is now."""

    run: str = ""
    """The id; empty as long as there is none."""
    began: float | None = None
    """When this stretch of it began; Unix time."""
    last: float = 0.0
    """The time of the last event."""
    earlier: float = 0.0
    """Seconds of the stretches before it was resumed."""
    attach_prefix: str = ""
    """What goes before `cao attach`."""
    agents: tuple[AgentRow, ...] = ()
    starting: tuple[str, ...] = ()
    """The roles whose agents are started together."""
    reviewers: tuple[str, ...] = ()
    round: int = 0
    max_rounds: int = 0
    """0 if it is not known."""
    cycle: int = 0
    """0 if cycles do not count at present."""
    present: str = ""
    """The role, or the stage of a gate, whose turn it is."""
    action: str = ""
    """What the present agent says that it does; of a gate its command, or what it wrote last."""
    delay: Delay | None = None
    question: OpenQuestion | None = None
    countdown: Countdown | None = None
    paused: float | None = None
    """Since when it is paused."""
    pausing: bool = False
    """Is it to pause after the present turn?"""
    reasons: tuple[Reason, ...] = ()
    changed: str = ""
    """Who changed files last, and how many."""
    circling: str = ""
    """Why the run does not converge, until an author has changed files; empty if it may."""
    final_status: str = ""
    """How it ended; empty as long as it goes on."""

    def agent(self, role: str) -> AgentRow | None:
        """Return the agent of a role."""
        return next((agent for agent in self.agents if agent.role == role), None)

    @property
    def started(self) -> int:
        """How many of those that are started together are there."""
        agents = (self.agent(role) for role in self.starting)
        return sum(agent is not None and agent.doing is not Doing.STARTING for agent in agents)

    @property
    def is_review(self) -> bool:
        """Is a review under way?"""
        return self.present in self.reviewers

    def total(self, now: float) -> float:
        """Return for how many seconds the run has been under way."""
        return self.earlier + (0.0 if self.began is None else max(now - self.began, 0.0))


def fold(picture: Picture, event: RunEvent) -> Picture:
    """Return the picture after an event."""
    if isinstance(event, RunOpened):
        return _opened(picture, event)
    began = event.at if picture.began is None else picture.began
    picture = replace(picture, began=began, last=max(event.at, picture.last))
    match event:
        case AgentsStarting() | AgentStarted() | RunBegan():
            return _start(picture, event)
        case TurnBegan() | CheckBegan():
            return _begin(picture, event)
        case TurnEnded() | CheckEnded():
            return _end(picture, event)
        case HandoffEvent() | CheckOutput():
            return _hear(picture, event)
        case ServerChosen() | FilesChanged() | NotConverging():
            return _note(picture, event)
        case PauseAsked() | Paused() | Unpaused():
            return _pause(picture, event)
        case SettingChanged(name=name, value=value) if name == MAX_ROUNDS and value.isdecimal():
            return replace(picture, max_rounds=int(value[:DIGITS]))
        case RunEnded():
            return _over(picture, event)
    return picture


def _opened(before: Picture, event: RunOpened) -> Picture:
    """Begin anew; what is known of the stretches before a resume is kept."""
    if not event.resumed:
        return Picture(event.run, began=event.at, last=event.at)
    agents = (
        agent if agent.doing is Doing.DONE else replace(agent, doing=Doing.READY)
        for agent in before.agents
    )
    return Picture(
        event.run,
        began=event.at,
        last=event.at,
        earlier=before.total(before.last),
        agents=tuple(agents),
        round=before.round,
        max_rounds=before.max_rounds,
        reasons=before.reasons,
        circling=before.circling,
    )


def _over(picture: Picture, event: RunEnded) -> Picture:
    """Return the picture of a run that has ended; one that passed has converged."""
    circling = "" if event.final_status == FinalStatus.PASS else picture.circling
    ended = replace(_rest(picture), starting=(), final_status=event.final_status)
    return replace(ended, circling=circling)


def _pause(picture: Picture, event: PauseAsked | Paused | Unpaused) -> Picture:
    paused = event.at if isinstance(event, Paused) else picture.paused
    if isinstance(event, Unpaused):
        paused = None
    return replace(picture, paused=paused, pausing=isinstance(event, PauseAsked))


def _start(picture: Picture, event: AgentsStarting | AgentStarted | RunBegan) -> Picture:
    match event:
        case AgentsStarting():
            for role, provider in event.providers.items():
                picture = _put(picture, AgentRow(role, provider, Doing.STARTING, event.at))
            return replace(picture, starting=tuple(event.providers))
        case AgentStarted():
            known = picture.agent(event.role) or AgentRow(event.role, "", Doing.READY, event.at)
            ready = replace(known, doing=Doing.READY, terminal_id=event.terminal_id)
            return _put(picture, ready)
        case RunBegan():
            agents = tuple(_ready(picture, event, role) for role in event.providers)
            return replace(
                _rest(picture),
                agents=agents,
                starting=(),
                reviewers=event.reviewers,
                max_rounds=event.max_rounds,
            )


def _ready(picture: Picture, event: RunBegan, role: str) -> AgentRow:
    known = picture.agent(role) or AgentRow(role, "", Doing.READY, event.at)
    return replace(
        known,
        provider=event.providers[role],
        # What was done before a resume is still done.
        doing=Doing.DONE if event.resumed and known.doing is Doing.DONE else Doing.READY,
        terminal_id=event.terminals.get(role, known.terminal_id),
    )


def _begin(picture: Picture, event: TurnBegan | CheckBegan) -> Picture:
    picture = _rest(picture)
    if event.round != picture.round:
        picture = _new_round(picture)
    if isinstance(event, CheckBegan):
        known = picture.agent(event.gate) or AgentRow(event.gate, COMMAND, Doing.READY, event.at)
        begun = replace(known, doing=Doing.WORKING, since=event.at, point=point_words(event))
        action, cycle = event.command, 0
    else:
        known = picture.agent(event.role) or AgentRow(event.role, "", Doing.READY, event.at)
        begun = replace(
            known,
            provider=event.provider,
            terminal_id=event.terminal_id,
            doing=Doing.SENDING,
            since=event.at,
        )
        action, cycle = "", event.cycle if event.reviewed else 0
    return replace(
        _put(picture, begun),
        starting=(),
        present=begun.role,
        round=event.round,
        cycle=cycle,
        action=action,
        paused=None,
        final_status="",
    )


def _new_round(picture: Picture) -> Picture:
    """Return the picture in which what came of the round before is no news any more."""
    agents = (
        replace(agent, doing=Doing.READY) if agent.doing is Doing.DONE else agent
        for agent in picture.agents
    )
    return replace(picture, agents=tuple(agents), changed="")


def _note(picture: Picture, event: ServerChosen | FilesChanged | NotConverging) -> Picture:
    """Fold in where the agents are, or what was noticed of their work."""
    if isinstance(event, ServerChosen):
        return replace(picture, attach_prefix=event.attach_prefix)
    if isinstance(event, NotConverging):
        return replace(picture, circling=event.text)
    if event.allowed:
        circling = "" if event.count > 0 else picture.circling
        return replace(picture, changed=f"{event.role} {event.words}", circling=circling)
    reason = Reason(event.role, event.round, 0, CHANGED_FILES, event.words, "")
    return replace(picture, reasons=(*picture.reasons, reason)[-MOST_REASONS:])


def _hear(picture: Picture, event: HandoffEvent | CheckOutput) -> Picture:
    """Fold in what is told of a turn or a gate under way; only the present one is shown."""
    if isinstance(event, CheckOutput):
        return replace(picture, action=event.text) if event.gate == picture.present else picture
    return _follow(picture, event) if event.role == picture.present else picture


def _follow(picture: Picture, event: HandoffEvent) -> Picture:
    """Fold in something that happened in the present turn."""
    agent = picture.agent(picture.present)
    if event.status is not None and agent is not None:
        picture = _put(picture, replace(agent, doing=DOING_OF_STATUS[event.status]))
    if event.kind is EventKind.DELAYED:
        since = event.at if event.since is None else event.since
        return replace(picture, delay=Delay(since, event.text))
    if event.kind not in DELAY_GOES_ON:
        picture = replace(picture, delay=None)
    match event.kind:
        case EventKind.WAITING_FOR_PERSON if picture.question is None:
            return replace(picture, question=OpenQuestion(event.at, event.text, event.question))
        case EventKind.STATUS if event.status is not TerminalStatus.WAITING_USER_ANSWER:
            resting = event.status is not None and event.status.at_rest
            countdown = picture.countdown if resting else None
            return replace(picture, question=None, countdown=countdown)
        case EventKind.ACTION:
            return replace(picture, action=event.text)
        case EventKind.FILE_AWAITED if event.until is not None:
            return replace(picture, countdown=Countdown(event.until, event.text))
        case EventKind.FILE_SEEN | EventKind.REMINDED | EventKind.ASKED_AGAIN:
            return replace(picture, countdown=None)
    return picture


def _end(picture: Picture, event: TurnEnded | CheckEnded) -> Picture:
    """Fold in the end of a turn or a check."""
    role = event.role if isinstance(event, TurnEnded) else event.gate
    known = picture.agent(role)
    if known is not None:
        is_early = isinstance(event, TurnEnded) and event.early
        outcome = EARLY if is_early else event.outcome
        done = replace(known, doing=Doing.DONE, outcome=outcome, worked=event.seconds)
        picture = _put(picture, done)
    if role == picture.present:
        picture = _rest(picture)
    if event.outcome not in AGAINST or (isinstance(event, TurnEnded) and event.early):
        return picture
    cycle, why = 0, ""
    if isinstance(event, TurnEnded):
        cycle, why = event.cycle if event.reviewed else 0, event.reason
    reason = Reason(role, event.round, cycle, event.outcome, event.detail, why)
    return replace(picture, reasons=(*picture.reasons, reason)[-MOST_REASONS:])


def _rest(picture: Picture) -> Picture:
    """Return the picture without a turn; an agent whose turn was left is ready for another."""
    agent = picture.agent(picture.present)
    if agent is not None and agent.doing is not Doing.DONE:
        picture = _put(picture, replace(agent, doing=Doing.READY))
    return replace(picture, present="", action="", delay=None, question=None, countdown=None)


def _put(picture: Picture, agent: AgentRow) -> Picture:
    """Put an agent in its place: that of its role, else the last."""
    if picture.agent(agent.role) is None:
        return replace(picture, agents=(*picture.agents, agent))
    agents = (agent if known.role == agent.role else known for known in picture.agents)
    return replace(picture, agents=tuple(agents))
