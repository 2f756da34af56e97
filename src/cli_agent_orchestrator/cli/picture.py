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
from typing import Any

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
from .narration import EARLY, point_words

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
OUTCOMES_FOR = ("approved", "skipped", "passed", "cleared")
OUTCOMES_OF_REVIEWS = ("sent_back", "cycles_used_up")
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
class OpenQuestion:
    since: float
    command: str
    """Leads to its terminal."""
    text: str = ""
    """What it asks, if that is known."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """What it offers, by the key that picks it; empty if that is not known."""


@dataclass(frozen=True, slots=True)
class Picture:
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
    delay: tuple[float, str] | None = None
    """Since when a message cannot be delivered, and why."""
    question: OpenQuestion | None = None
    countdown: tuple[float, str] | None = None
    """Until when an agent at rest may write its file, and what is done then."""
    paused: float | None = None
    """Since when it is paused."""
    pausing: bool = False
    """Is it to pause after the present turn?"""
    reasons: tuple[str, ...] = ()
    """Why reviews sent something back, or tests and gates failed, each with its place."""
    changed: str = ""
    """Who changed files last, and how many."""
    circling: str = ""
    """Why the run does not converge, until an author has changed files; empty if it may."""
    final_status: str = ""
    """How it ended; empty as long as it goes on."""

    def agent(self, role: str) -> AgentRow | None:
        return next((agent for agent in self.agents if agent.role == role), None)

    @property
    def started(self) -> int:
        """How many of those that are started together are there."""
        agents = (self.agent(role) for role in self.starting)
        return sum(agent is not None and agent.doing is not Doing.STARTING for agent in agents)

    def total(self, now: float) -> float:
        return self.earlier + (0.0 if self.began is None else max(now - self.began, 0.0))


def fold(picture: Picture, event: RunEvent) -> Picture:
    if isinstance(event, RunOpened):
        return _open(picture, event)
    began = event.at if picture.began is None else picture.began
    picture = replace(picture, began=began, last=max(event.at, picture.last))
    match event:
        case AgentsStarting() | AgentStarted() | RunBegan():
            return _start(picture, event)
        case TurnBegan() | CheckBegan():
            return _begin(picture, event)
        case HandoffEvent() if event.role == picture.present:
            return _follow(picture, event)
        case TurnEnded() | CheckEnded():
            return _end(picture, event)
        case RunEnded():
            # A run that passed has converged.
            circling = "" if event.final_status == FinalStatus.PASS else picture.circling
            status = event.final_status
            return replace(_rest(picture), starting=(), final_status=status, circling=circling)
    return _note(picture, event)


def _open(before: Picture, event: RunOpened) -> Picture:
    """Begin anew; what is known of the stretches before a resume is kept."""
    opened = Picture(event.run, began=event.at, last=event.at)
    if not event.resumed:
        return opened
    agents = (
        agent if agent.doing is Doing.DONE else replace(agent, doing=Doing.READY)
        for agent in before.agents
    )
    return replace(
        opened,
        earlier=before.total(before.last),
        agents=tuple(agents),
        round=before.round,
        max_rounds=before.max_rounds,
        reasons=before.reasons,
        circling=before.circling,
    )


def _start(picture: Picture, event: AgentsStarting | AgentStarted | RunBegan) -> Picture:
    if isinstance(event, AgentStarted):
        ready = {"doing": Doing.READY, "terminal_id": event.terminal_id}
        return _put(picture, event.role, event.at, **ready)
    if isinstance(event, AgentsStarting):
        for role, provider in event.providers.items():
            anew = {"provider": provider, "doing": Doing.STARTING, "since": event.at}
            picture = _put(picture, role, event.at, **anew)
        return replace(picture, starting=tuple(event.providers))
    agents = []
    for role, provider in event.providers.items():
        known = picture.agent(role) or AgentRow(role, "", Doing.READY, event.at)
        # What was done before a resume is still done.
        doing = Doing.DONE if event.resumed and known.doing is Doing.DONE else Doing.READY
        terminal = event.terminals.get(role, known.terminal_id)
        agents.append(replace(known, provider=provider, doing=doing, terminal_id=terminal))
    return replace(
        _rest(picture),
        agents=tuple(agents),
        starting=(),
        reviewers=event.reviewers,
        max_rounds=event.max_rounds,
    )


def _begin(picture: Picture, event: TurnBegan | CheckBegan) -> Picture:
    picture = _rest(picture)
    if event.round != picture.round:
        # What came of the round before is no news any more.
        agents = (
            replace(agent, doing=Doing.READY) if agent.doing is Doing.DONE else agent
            for agent in picture.agents
        )
        picture = replace(picture, agents=tuple(agents), changed="")
    changes: dict[str, Any] = {"since": event.at}  # Any: fields of a row
    if isinstance(event, CheckBegan):
        role, action, cycle = event.gate, event.command, 0
        changes |= {"doing": Doing.WORKING, "provider": COMMAND, "point": point_words(event)}
    else:
        role, action, cycle = event.role, "", event.cycle if event.reviewed else 0
        changes |= {"doing": Doing.SENDING, "provider": event.provider}
        changes["terminal_id"] = event.terminal_id
    return replace(
        _put(picture, role, event.at, **changes),
        starting=(),
        present=role,
        round=event.round,
        cycle=cycle,
        action=action,
        paused=None,
        final_status="",
    )


def _note(picture: Picture, event: RunEvent) -> Picture:
    match event:
        case ServerChosen():
            return replace(picture, attach_prefix=event.attach_prefix)
        case CheckOutput() if event.gate == picture.present:
            return replace(picture, action=event.text)
        case NotConverging():
            return replace(picture, circling=event.text)
        case FilesChanged(allowed=True):
            circling = "" if event.count > 0 else picture.circling
            return replace(picture, changed=f"{event.role} {event.words}", circling=circling)
        case FilesChanged():
            return _blame(picture, f"round {event.round}, {event.role} {event.words}")
        case PauseAsked():
            return replace(picture, pausing=True)
        case Paused():
            return replace(picture, paused=event.at, pausing=False)
        case Unpaused():
            return replace(picture, paused=None, pausing=False)
        case SettingChanged(name=name, value=value) if name == MAX_ROUNDS and value.isdecimal():
            return replace(picture, max_rounds=int(value[:DIGITS]))
    return picture


def _follow(picture: Picture, event: HandoffEvent) -> Picture:
    if event.status is not None:
        picture = _put(picture, event.role, event.at, doing=DOING_OF_STATUS[event.status])
    if event.kind not in DELAY_GOES_ON:
        picture = replace(picture, delay=None)
    match event.kind:
        case EventKind.DELAYED:
            since = event.at if event.since is None else event.since
            return replace(picture, delay=(since, event.text))
        case EventKind.WAITING_FOR_PERSON if picture.question is None:
            return replace(picture, question=OpenQuestion(event.at, event.text, event.question))
        case EventKind.STATUS if event.status is not TerminalStatus.WAITING_USER_ANSWER:
            resting = event.status is not None and event.status.at_rest
            countdown = picture.countdown if resting else None
            return replace(picture, question=None, countdown=countdown)
        case EventKind.ACTION:
            return replace(picture, action=event.text)
        case EventKind.FILE_AWAITED if event.until is not None:
            return replace(picture, countdown=(event.until, event.text))
        case EventKind.FILE_SEEN | EventKind.REMINDED | EventKind.ASKED_AGAIN:
            return replace(picture, countdown=None)
    return picture


def _end(picture: Picture, event: TurnEnded | CheckEnded) -> Picture:
    is_early, cycle, words = False, 0, ""
    if isinstance(event, TurnEnded):
        role, is_early, words = event.role, event.early, event.reason
        cycle = event.cycle if event.reviewed else 0
    else:
        role = event.gate
    if picture.agent(role) is not None:
        outcome = EARLY if is_early else event.outcome
        done = {"doing": Doing.DONE, "outcome": outcome, "worked": event.seconds}
        picture = _put(picture, role, event.at, **done)
    if role == picture.present:
        picture = _rest(picture)
    if event.outcome not in AGAINST or is_early:
        return picture
    place = f"{event.round}.{cycle}" if cycle else f"round {event.round},"
    verdict = "REVISE" if event.outcome in OUTCOMES_OF_REVIEWS else "FAIL"
    why = f"{verdict}: {words}" if words else event.detail
    return _blame(picture, f"{place} {role} {why}")


def _blame(picture: Picture, reason: str) -> Picture:
    return replace(picture, reasons=(*picture.reasons, reason)[-MOST_REASONS:])


def _rest(picture: Picture) -> Picture:
    """Return the picture without a turn; an agent whose turn was left is ready for another."""
    agent = picture.agent(picture.present)
    if agent is not None and agent.doing is not Doing.DONE:
        picture = _put(picture, agent.role, agent.since, doing=Doing.READY)
    return replace(picture, present="", action="", delay=None, question=None, countdown=None)


# Any: fields of a row
def _put(picture: Picture, role: str, at: float, **changes: Any) -> Picture:
    known = picture.agent(role)
    if known is None:
        row = replace(AgentRow(role, "", Doing.READY, at), **changes)
        return replace(picture, agents=(*picture.agents, row))
    row = replace(known, **changes)
    return replace(picture, agents=tuple(row if one is known else one for one in picture.agents))


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
        if picture.present in picture.reviewers:
            offered["s"] = "skip"
    return offered


def choices(picture: Picture) -> Mapping[str, str]:
    asked = picture.question.choices if picture.question else {}
    return {key: label for key, label in asked.items() if len(key) == 1}


def press(keys: Keys, data: bytes, picture: Picture) -> tuple[Keys, tuple[Wish | Answer, ...]]:
    """Return what is left to be done after more was read, and what the person wishes.

    No data means that nothing follows the beginning of a key.
    """
    read = keys.unread + data
    text, used = utf_8_decode(read, "ignore")
    begun = re.search(rf"{BEGUN_PATTERN}\Z", text) if data else None
    whole, rest = (text[: begun.start()], begun[0]) if begun else (text, "")
    keys = replace(keys, unread=rest.encode() + read[used:])
    wishes: list[Wish | Answer] = []
    for key in re.findall(KEY_PATTERN, whole, re.DOTALL):
        keys, wish = _press(keys, key, picture)
        if wish is not None:
            wishes.append(wish)
    return keys, tuple(wishes)


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
URGENT = "bold yellow"
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


Row = tuple[Need, Text]


@dataclass(frozen=True, slots=True)
class Canvas:
    width: int
    height: int
    now: float
    """Unix time."""
    is_alone: bool = False
    """Would a command of another terminal not find the run?"""

    @property
    def room(self) -> int:
        """How wide a row may be that is no reason; the last column is left free."""
        return max(min(self.width - 1, WIDEST), 1)


def draw(picture: Picture, canvas: Canvas, keys: Keys | None = None) -> list[Text]:
    """Return the rows of a picture; none if there is nothing to be seen.

    Without `keys` none can be pressed, and there are commands for another terminal instead.
    """
    if picture.final_status or not (picture.agents or picture.paused):
        return []
    rows = [
        (Need.HEAD, _head(picture, canvas.now)),
        *_strip(picture, canvas),
        *_alerts(picture, canvas, can_press=keys is not None),
        *_pressed(picture, keys or Keys(), canvas),
    ]
    typed = _in_rows(_commands(picture, canvas, keys), canvas.room)
    commands = [(Need.COMMANDS, Text(row, "dim")) for row in typed]
    longest = max(canvas.width - 1, 1)
    free = max(canvas.height // 2 - len(rows) - len(commands), 0)
    reasons: list[Row] = []
    for reason in reversed(picture.reasons):
        text = Text.assemble(("  ✗ ", "red"), (_joined(reason), "dim"))
        free -= ceil(min(cell_len(text.plain), longest) / WIDEST)
        if free < 0:
            break
        reasons.insert(0, (Need.REASON, text))
    rows += reasons + commands
    most_needed = sorted(range(len(rows)), key=lambda number: rows[number][0])
    kept = [rows[number] for number in sorted(most_needed[: max(canvas.height - 1, 1)])]
    for need, text in kept:
        text.no_wrap = True
        text.truncate(longest if need is Need.REASON else canvas.room, overflow="ellipsis")
    return [text for _, text in kept]


def clock_face(seconds: float) -> str:
    """Return a span of time as `0:42`, `12:05` or `1:02:05`."""
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _head(picture: Picture, now: float) -> Text:
    if picture.starting:
        count = min(picture.started + 1, len(picture.starting))
        where = f"Starting {count} of {len(picture.starting)}"
    elif picture.round:
        most = f" of {picture.max_rounds}" if picture.max_rounds >= picture.round else ""
        cycle = f", cycle {picture.cycle}" if picture.cycle else ""
        where = f"Round {picture.round}{most}{cycle}"
    else:
        where = "Starting"
    total = f"   total {clock_face(picture.total(now))}"
    return Text.assemble(("▶ ", "bold cyan"), (where, "bold"), (total, "dim"))


def _strip(picture: Picture, canvas: Canvas) -> Iterator[Row]:
    """Yield a row for each agent, in columns; a narrow terminal has none for what agent it is."""
    cells = [_cells(agent, picture, canvas.now) for agent in picture.agents]
    widths = [max((cell_len(row[column]) for row in cells), default=0) for column in range(4)]
    narrow = MARK_WIDTH + sum(widths) + 3 * len(BETWEEN) > canvas.room
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
        yield Need.PRESENT if present else Need.OTHERS, text


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
    if agent.doing is not Doing.DONE:
        return "    ", ""
    if agent.outcome in AGAINST:
        return "  ✗ ", "red"
    if agent.outcome == BASE_FAILED:
        return "  ✗ ", "dim"
    return "  ✓ ", "green" if agent.outcome in OUTCOMES_FOR else "dim"


def _alerts(picture: Picture, canvas: Canvas, *, can_press: bool) -> Iterator[Row]:
    """Yield what happens now, besides that an agent works."""
    if picture.action:
        who = (f"  {one_line(picture.present)}: ", "dim")
        yield Need.ACTION, Text.assemble(who, _joined(picture.action))
    if picture.changed:
        yield Need.OTHERS, Text(f"  {_joined(picture.changed)}", "dim")
    if picture.circling:
        yield _alert(_joined(picture.circling))
    if picture.delay is not None:
        since, why = picture.delay
        yield _alert(f"not delivered for {clock_face(canvas.now - since)}: {_joined(why)}")
    if picture.question is not None:
        yield from _question(picture, picture.question, canvas, can_press=can_press)
    if picture.countdown is not None:
        until, then = picture.countdown
        left = clock_face(until - canvas.now)
        yield _alert(f"at rest without its file; {_joined(then)} in {left}")
    if picture.pausing:
        yield _alert("pauses after this turn")
    if picture.paused is not None:
        yield _alert(f"paused for {clock_face(canvas.now - picture.paused)}", URGENT)


def _alert(text: str, style: str = "yellow") -> Row:
    return Need.ALERT, Text(f"  ! {text}", style)


def _question(
    picture: Picture, question: OpenQuestion, canvas: Canvas, *, can_press: bool
) -> Iterator[Row]:
    """Yield what is asked, and below it the keys or the commands that answer it."""
    asked = f": {_joined(question.text)}" if question.text else ""
    yield _alert(f"asks you, {clock_face(canvas.now - question.since)}{asked}", URGENT)
    if can_press and (keys := choices(picture)):
        answers = [_joined(f"{key} {label}") for key, label in keys.items()]
        for row in _in_rows(answers, canvas.room):
            yield Need.ALERT, Text(row, URGENT)
        return
    prefix, run = picture.attach_prefix, short_name(picture.run)
    ways = [f"{prefix}{question.command}", f"{prefix}cao answer {run} KEY"]
    for row in _in_rows([_joined(way) for way in ways[: 2 if run else 1]], canvas.room):
        yield Need.ACTION, Text(row, URGENT)


def _commands(picture: Picture, canvas: Canvas, keys: Keys | None) -> Sequence[str]:
    offered = offers(picture)
    if keys is None:
        # A question brings its own command that attaches.
        skipped = "attach" if picture.question else ""
        words = () if canvas.is_alone else offered.values()
        return [_command(picture, word) for word in words if word != skipped]
    if keys.line is not None:
        return LINE_KEYS
    taken = choices(picture)
    return [f"{key} {word}" for key, word in offered.items() if key not in taken]


def _command(picture: Picture, word: str) -> str:
    run = one_line(short_name(picture.run))
    agent = picture.agent(picture.present)
    if word == "attach" and agent is not None:
        terminal = one_line(f"{run}/{agent.role}" if run else agent.terminal_id)
        return f"{one_line(picture.attach_prefix)}cao attach {terminal}"
    return f"cao send {run} TEXT" if word == "hint" else f"cao {word} {run}"


def _pressed(picture: Picture, keys: Keys, canvas: Canvas) -> Iterator[Row]:
    """Yield what a person has asked to see, and what is being typed: its end, if it is long."""
    if keys.attach_to and keys.attach_to == picture.present and "a" in offers(picture):
        words, command = "  ! in another terminal:", _command(picture, "attach")
        whole = f"{words} {command}"
        for row in [whole] if cell_len(whole) <= canvas.room else [words, f"  {command}"]:
            yield Need.ALERT, Text(row, URGENT)
    if keys.line is not None:
        room = max(canvas.room - cell_len(LINE_BEGINS + LINE_ENDS), 0)
        line = one_line(keys.line)[-room:] if room else ""
        while cell_len(line) > room:
            line = line[1:]
        yield Need.ALERT, Text(f"{LINE_BEGINS}{line}{LINE_ENDS}", "bold")


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
    return one_line(" ".join(text.split()))
