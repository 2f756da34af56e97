"""What a run looks like now: its events folded into one picture, and drawn as rows.

    picture = fold(picture, event)

Pure, and the same for a run in this process and for one that is watched from its folder. Events
may come in any order and more than once, as in the log of a run that was killed and resumed: what
fits nothing that is known changes nothing.

It is drawn as rows of a terminal: never wider, never more than there is room for.

    ▶ Round 1 of 8, cycle 2   total 14:05
      ✓ analyst            codex        summary received  2:10
      ✓ analyst_review     claude_code  approved          1:02
      ▶ programmer         codex        working           0:42
        programmer_review  claude_code  ready
        tester             codex        ready
      programmer: Bash: make test
      ✗ 1.1 analyst_review REVISE: the summary does not say where the rounding is done
      a attach · h hint · p pause

Where rows are few, those that matter least are left out. What happens now comes before what a
person can do about it, and that before what has been. What has been takes no row beyond the middle
of the terminal: when it becomes narrower, a row becomes two, and none of them may be pushed out of
reach above. A long reason in a wide terminal therefore counts as the rows it would become.
"""

import re
from codecs import utf_8_decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from math import ceil

from rich.cells import cell_len
from rich.text import Text

from ..core.models import TerminalStatus
from ..core.text import BREAKS, CONTROLS, HALVES, one_line
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
from ..pipeline.machine import BASE_FAILED
from ..pipeline.state import FinalStatus
from ..pipeline.steering import LARGEST_HINT, Hint, Pause, Skip, Unpause, Wish
from ..runs.record import short_name
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


ESCAPE = "\x1b"
ENTER = ("\r", "\n")
ERASE = ("\x7f", "\b")
ERASE_LINE = "\x15"
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
BEGUN_PATTERN = r"\x1b(?:O|\[[0-?]{0,30}[ -/]{0,4})?"
"""Arrow keys and their like: what may become one, and what is one. The bounds keep it short."""
KEY_PATTERN = r"\x1b\[[0-?]{0,30}[ -/]{0,4}[@-~]|\x1bO[^\x1b]|\x1b[^\x1b]|[^\x1b]|\x1b"
BREAK_PATTERN = f"[\r{BREAKS}]"
DROPPED_PATTERN = f"[{CONTROLS}{HALVES}]"


@dataclass(frozen=True, slots=True)
class Answer:
    """A key that is pressed in the terminal of the agent that asks."""

    key: str


@dataclass(frozen=True, slots=True)
class Keys:
    """What has been pressed and has not been done yet."""

    unread: bytes = b""
    """The beginning of a key."""
    line: str | None = None
    """The hint that is being typed; None if none is."""
    pasting: bool = False
    attach_to: str = ""
    """The role whose `cao attach` is shown."""

    @property
    def is_escaping(self) -> bool:
        """Would an Escape have been pressed if nothing followed?"""
        return self.unread.startswith(ESCAPE.encode())


def offers(picture: Picture) -> Mapping[str, str]:
    """Return which keys do something now, and what: a word each."""
    if picture.final_status:
        return {}
    offered = {}
    agent = picture.agent(picture.present)
    if agent is not None and agent.terminal_id:
        offered["a"] = "attach"
    if picture.run and picture.round:
        held = picture.pausing or picture.paused is not None
        offered |= {"h": "hint", "p": "resume" if held else "pause"}
        if picture.is_review:
            offered["s"] = "skip"
    return offered


def choices(picture: Picture) -> Mapping[str, str]:
    """Return the keys that answer the open question, each with what it picks."""
    asked = picture.question.choices if picture.question else {}
    return {key: label for key, label in asked.items() if len(key) == 1}


def press(keys: Keys, data: bytes, picture: Picture) -> tuple[Keys, tuple[Wish | Answer, ...]]:
    """Return what is left to be done after more was read, and what the person wishes."""
    pressed, unread = _split(keys.unread + data, is_all=not data)
    keys = replace(keys, unread=unread)
    wishes: list[Wish | Answer] = []
    for key in pressed:
        keys, wish = _press(keys, key, picture)
        if wish is not None:
            wishes.append(wish)
    return keys, tuple(wishes)


def _split(data: bytes, is_all: bool) -> tuple[list[str], bytes]:
    """Return the keys in what was read, and what is not a whole key yet."""
    text, used = utf_8_decode(data, "ignore")
    begun = re.search(rf"{BEGUN_PATTERN}\Z", text)
    if begun is None or is_all:
        return re.findall(KEY_PATTERN, text, re.DOTALL), data[used:]
    whole = re.findall(KEY_PATTERN, text[: begun.start()], re.DOTALL)
    return whole, begun[0].encode() + data[used:]


def _press(keys: Keys, key: str, picture: Picture) -> tuple[Keys, Wish | Answer | None]:
    if key in (PASTE_BEGINS, PASTE_ENDS):
        return replace(keys, pasting=key == PASTE_BEGINS), None
    if keys.line is not None:
        return _type(keys, keys.line, key, picture)
    if key in choices(picture) and not keys.pasting:
        return replace(keys, attach_to=""), Answer(key)
    word = "" if keys.pasting else offers(picture).get(key, "")
    attach_to = picture.present if word == "attach" and not keys.attach_to else ""
    keys = replace(keys, attach_to=attach_to, line="" if word == "hint" else None)
    wishes: Mapping[str, Wish] = {"pause": Pause(), "resume": Unpause(), "skip": Skip()}
    return keys, wishes.get(word)


def _type(keys: Keys, line: str, key: str, picture: Picture) -> tuple[Keys, Wish | None]:
    """Return what a key does to the line that is being typed."""
    if key in ENTER and not keys.pasting:
        wanted = line.strip() and "h" in offers(picture)
        return replace(keys, line=None), Hint(None, line.strip()) if wanted else None
    if key == ESCAPE:
        return replace(keys, line=None), None
    if key in ERASE:
        return replace(keys, line=line[:-1]), None
    if key == ERASE_LINE:
        return replace(keys, line=""), None
    if key.startswith(ESCAPE):
        return keys, None
    typed = re.sub(DROPPED_PATTERN, "", re.sub(BREAK_PATTERN, " ", key))
    return replace(keys, line=(line + typed)[:LARGEST_HINT]), None


WIDEST = 79
"""A terminal that becomes narrower makes two rows of a long one; reasons alone are longer."""
DOING_STYLES: Mapping[Doing, str] = {
    Doing.STARTING: "cyan",
    Doing.SENDING: "cyan",
    Doing.WORKING: "bold cyan",
    Doing.ASKING: "bold yellow",
    Doing.RESTING: "cyan",
    Doing.FAILING: "bold red",
    Doing.UNKNOWN: "yellow",
}
"""Of agents that do something; others are drawn quietly."""
OUTCOMES_OF_REVIEWS = ("sent_back", "cycles_used_up")
COMMANDS_BETWEEN = " · "
LINE_BEGINS, LINE_ENDS = "  hint> ", "_"
LINE_KEYS = ("Enter sends it with the next prompt", "Esc cancels")
MARK_WIDTH = 4
BETWEEN = "  "
"""What is between two columns of the strip."""


class Need(IntEnum):
    """How much a row is needed; the least come first."""

    HEAD = 0
    ALERT = 1
    PRESENT = 2
    ACTION = 3
    OTHERS = 4
    COMMANDS = 5
    REASON = 6


@dataclass(frozen=True, slots=True)
class Row:
    """A row, and how much it is needed."""

    need: Need
    text: Text


@dataclass(frozen=True, slots=True)
class Canvas:
    """Where a picture is drawn, and when."""

    width: int
    height: int
    now: float
    """Unix time."""
    is_alone: bool = False
    """Would a command of another terminal not find the run?"""


def draw(picture: Picture, canvas: Canvas, keys: Keys | None = None) -> list[Text]:
    """Return the rows of a picture; none if there is nothing to be seen.

    Without `keys` none can be pressed, and there are commands for another terminal instead.
    """
    if picture.final_status or not (picture.agents or picture.paused):
        return []
    rows = [
        Row(Need.HEAD, _head(picture, canvas.now)),
        *_strip(picture, canvas),
        *_present(picture, canvas, can_press=keys is not None),
        *_pressed(picture, keys or Keys(), _room(canvas.width)),
    ]
    words: Sequence[str] = () if canvas.is_alone else _commands(picture)
    words = words if keys is None else _keys(picture, keys)
    typed = _in_rows(words, _room(canvas.width))
    commands = [Row(Need.COMMANDS, Text(row, "dim")) for row in typed]
    reasons = [Row(Need.REASON, _reason(reason)) for reason in picture.reasons]
    room = max(canvas.height // 2 - len(rows) - len(commands), 0)
    rows += _last_ones(reasons, room, canvas.width) + commands
    most_needed = sorted(range(len(rows)), key=lambda number: rows[number].need)
    kept = set(most_needed[: max(canvas.height - 1, 1)])
    return [_fit(row, canvas.width) for number, row in enumerate(rows) if number in kept]


def clock_face(seconds: float) -> str:
    """Return a span of time as `0:42`, `12:05` or `1:02:05`."""
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _head(picture: Picture, now: float) -> Text:
    total = f"   total {clock_face(picture.total(now))}"
    if picture.starting:
        count = min(picture.started + 1, len(picture.starting))
        where = f"Starting {count} of {len(picture.starting)}"
    elif picture.round:
        most = f" of {picture.max_rounds}" if picture.max_rounds >= picture.round else ""
        cycle = f", cycle {picture.cycle}" if picture.cycle else ""
        where = f"Round {picture.round}{most}{cycle}"
    else:
        where = "Starting"
    return Text.assemble(("▶ ", "bold cyan"), (where, "bold"), (total, "dim"))


def _strip(picture: Picture, canvas: Canvas) -> Iterator[Row]:
    """Yield a row for each agent, in columns; a narrow terminal has none for what agent it is."""
    cells = [_cells(agent, picture, canvas.now) for agent in picture.agents]
    widths = [max((cell_len(row[column]) for row in cells), default=0) for column in range(4)]
    narrow = MARK_WIDTH + sum(widths) + 3 * len(BETWEEN) > _room(canvas.width)
    for agent, row in zip(picture.agents, cells, strict=True):
        role, provider, state, passed = (
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        )
        present = agent.role == picture.present
        who = role if narrow else f"{role}{BETWEEN}{provider}"
        text = Text.assemble(
            _mark(agent, present),
            (f"{who}{BETWEEN}", "" if present else "dim"),
            (f"{state}{BETWEEN}{passed}".rstrip(), DOING_STYLES.get(agent.doing, "dim")),
        )
        yield Row(Need.PRESENT if present else Need.OTHERS, text)


def _cells(agent: AgentRow, picture: Picture, now: float) -> tuple[str, str, str, str]:
    """Return role, agent, state and time of an agent."""
    role, provider = one_line(agent.role), one_line(agent.provider)
    if agent.doing in (Doing.WORKING, Doing.DONE):
        role += one_line(agent.point)
    if agent.doing is Doing.DONE:
        outcome = one_line(agent.outcome.replace("_", " "))
        return role, provider, outcome, clock_face(agent.worked)
    timed = agent.role == picture.present or agent.doing is Doing.STARTING
    return role, provider, agent.doing.value, clock_face(now - agent.since) if timed else ""


def _mark(agent: AgentRow, present: bool) -> tuple[str, str]:
    if present:
        return "  ▶ ", DOING_STYLES.get(agent.doing, "cyan")
    if agent.doing is Doing.DONE and agent.outcome in AGAINST:
        return "  ✗ ", "red"
    if agent.doing is Doing.DONE and agent.outcome == BASE_FAILED:
        return "  ✗ ", "dim"
    if agent.doing is Doing.DONE:
        return "  ✓ ", "green" if agent.outcome in OUTCOMES_FOR else "dim"
    return "    ", ""


def _present(picture: Picture, canvas: Canvas, *, can_press: bool) -> Iterator[Row]:
    """Yield what happens now, besides that an agent works."""
    now = canvas.now
    if picture.action:
        what = Text.assemble((f"  {one_line(picture.present)}: ", "dim"), _joined(picture.action))
        yield Row(Need.ACTION, what)
    if picture.changed:
        yield Row(Need.OTHERS, Text(f"  {_joined(picture.changed)}", "dim"))
    if picture.circling:
        yield Row(Need.ALERT, Text(f"  ! {_joined(picture.circling)}", "yellow"))
    if picture.delay is not None:
        yield Row(Need.ALERT, Text(_delay(picture.delay, now), "yellow"))
    if picture.question is not None:
        yield from _question(picture, picture.question, canvas, can_press=can_press)
    if picture.countdown is not None:
        left = clock_face(picture.countdown.until - now)
        then = _joined(picture.countdown.then)
        yield Row(Need.ALERT, Text(f"  ! at rest without its file; {then} in {left}", "yellow"))
    if picture.pausing:
        yield Row(Need.ALERT, Text("  ! pauses after this turn", "yellow"))
    if picture.paused is not None:
        waited = clock_face(now - picture.paused)
        yield Row(Need.ALERT, Text(f"  ! paused for {waited}", "bold yellow"))


def _delay(delay: Delay, now: float) -> str:
    return f"  ! not delivered for {clock_face(now - delay.since)}: {_joined(delay.why)}"


def _question(
    picture: Picture, question: OpenQuestion, canvas: Canvas, *, can_press: bool
) -> Iterator[Row]:
    """Yield what is asked, and below it the keys or the commands that answer it."""
    asked = f": {_joined(question.text)}" if question.text else ""
    since = clock_face(canvas.now - question.since)
    yield Row(Need.ALERT, Text(f"  ! asks you, {since}{asked}", "bold yellow"))
    if can_press and (keys := choices(picture)):
        answers = [_joined(f"{key} {label}") for key, label in keys.items()]
        for row in _in_rows(answers, _room(canvas.width)):
            yield Row(Need.ALERT, Text(row, "bold yellow"))
        return
    prefix, run = picture.attach_prefix, short_name(picture.run)
    ways = [_joined(f"{prefix}{question.command}")]
    ways += [_joined(f"{prefix}cao answer {run} KEY")] if run else []
    for row in _in_rows(ways, _room(canvas.width)):
        yield Row(Need.ACTION, Text(f"  {row.strip()}", "bold yellow"))


def _reason(reason: Reason) -> Text:
    place = f"{reason.round}.{reason.cycle}" if reason.cycle else f"round {reason.round},"
    verdict = "REVISE" if reason.outcome in OUTCOMES_OF_REVIEWS else "FAIL"
    why = f"{verdict}: {_joined(reason.why)}" if reason.why else _joined(reason.detail)
    return Text.assemble(("  ✗ ", "red"), (f"{place} {one_line(reason.role)} {why}", "dim"))


def _commands(picture: Picture) -> list[str]:
    """Return what a person can type in another terminal."""
    # A question brings its own command that attaches.
    skipped = "attach" if picture.question else ""
    return [_command(picture, word) for word in offers(picture).values() if word != skipped]


def _command(picture: Picture, word: str) -> str:
    run = one_line(picture.run.rpartition("-")[2])
    agent = picture.agent(picture.present)
    if word == "attach" and agent is not None:
        terminal = one_line(f"{run}/{agent.role}" if run else agent.terminal_id)
        return f"{one_line(picture.attach_prefix)}cao attach {terminal}"
    return f"cao send {run} TEXT" if word == "hint" else f"cao {word} {run}"


def _keys(picture: Picture, keys: Keys) -> Sequence[str]:
    """Return what a person can press."""
    if keys.line is not None:
        return LINE_KEYS
    taken = choices(picture)
    return [f"{key} {word}" for key, word in offers(picture).items() if key not in taken]


def _pressed(picture: Picture, keys: Keys, width: int) -> Iterator[Row]:
    """Yield what a person has asked to see, and what is being typed: its end, if it is long."""
    if keys.attach_to and keys.attach_to == picture.present and "a" in offers(picture):
        words, command = "  ! in another terminal:", _command(picture, "attach")
        whole = f"{words} {command}"
        for row in [whole] if cell_len(whole) <= _room(width) else [words, f"  {command}"]:
            yield Row(Need.ALERT, Text(row, "bold yellow"))
    if keys.line is not None:
        room = max(width - cell_len(LINE_BEGINS + LINE_ENDS), 0)
        line = one_line(keys.line)[-room:] if room else ""
        while cell_len(line) > room:
            line = line[1:]
        yield Row(Need.ALERT, Text(f"{LINE_BEGINS}{line}{LINE_ENDS}", "bold"))


def _in_rows(words: Sequence[str], width: int) -> list[str]:
    """Return words side by side in as few rows as hold them, but each of them whole."""
    rows: list[str] = []
    for word in words:
        longer = f"{rows[-1]}{COMMANDS_BETWEEN}{word}" if rows else ""
        if rows and cell_len(longer) <= width:
            rows[-1] = longer
        else:
            rows.append(f"  {word}")
    return rows


def _joined(text: str) -> str:
    """Return a text on one line."""
    return one_line(" ".join(text.split()))


def _last_ones(reasons: Sequence[Row], room: int, width: int) -> list[Row]:
    """Return the last reasons that there is room for, as rows of the usual width."""
    kept: list[Row] = []
    for row in reversed(reasons):
        room -= ceil(min(cell_len(row.text.plain), max(width - 1, 1)) / WIDEST)
        if room < 0:
            break
        kept.insert(0, row)
    return kept


def _fit(row: Row, width: int) -> Text:
    """Cut a row to the width of a terminal, whose last column is left free."""
    row.text.no_wrap = True
    most = max(width - 1, 1) if row.need is Need.REASON else _room(width)
    row.text.truncate(most, overflow="ellipsis")
    return row.text


def _room(width: int) -> int:
    return max(min(width - 1, WIDEST), 1)
