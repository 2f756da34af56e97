"""What a run looks like now: its events folded into a picture, and drawn as rows.

    picture.add(event)
    rows = draw(picture, canvas)

Pure, and the same for a run in this process and for one that is watched from its folder. Events
may come in any order and more than once, as in the log of a run that was killed and resumed.

It is drawn as rows of a terminal, as docs/run.md shows: never wider, never more than there is room
for. Where rows are few, those that matter least are left out: first the past, then commands, then
what happens now. Of the past, no row is drawn below the middle of the terminal: when it becomes
narrower, a row becomes two, and the terminal must not push any of them out of reach above. A long
reason in a wide terminal therefore counts as the rows it would become.
"""

import re
from codecs import utf_8_decode
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, IntEnum
from math import ceil

from msgspec import Struct, field
from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text

from .. import events
from ..core.models import TerminalStatus
from ..core.text import BREAKS, CONTROLS, HALVES, one_line
from ..events import EventKind
from ..pipeline.requests import LARGEST_HINT, Hint, Pause, Request, Skip, Unpause
from ..runs.record import short_name
from ..runs.view import Fold, Turn
from .narration import EARLY, point_words


class Doing(Enum):
    STARTING = "starting", "cyan"
    READY = "ready", "dim"
    SENDING = "sending", "cyan"
    WORKING = "working", "bold cyan"
    ASKING = "asks you", "bold yellow"
    RESTING = "at rest", "cyan"
    """Its turn is not over, and it does nothing."""
    FAILING = "error", "bold red"
    UNKNOWN = "unknown", "yellow"
    DONE = "done", "dim"

    def __init__(self, words: str, style: str) -> None:
        self.words = words
        self.style = style


DOING_OF_STATUS: Mapping[TerminalStatus, Doing] = {
    TerminalStatus.IDLE: Doing.RESTING,
    TerminalStatus.COMPLETED: Doing.RESTING,
    TerminalStatus.PROCESSING: Doing.WORKING,
    TerminalStatus.WAITING_USER_ANSWER: Doing.ASKING,
    TerminalStatus.ERROR: Doing.FAILING,
    TerminalStatus.UNKNOWN: Doing.UNKNOWN,
}


class OpenQuestion(Struct):
    since: float
    command: str
    text: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    """What it offers, by the key that picks it; empty if that is not known."""
    fingerprint: str | None = None


class Moment(Struct):
    """What the agent or the gate does whose turn it is."""

    turn: Turn
    since: float
    doing: Doing
    action: str = ""
    """What the agent says that it does; of a gate its command, or what it wrote last."""
    delay: tuple[float, str] | None = None
    """Since when a message cannot be delivered, and why."""
    question: OpenQuestion | None = None
    countdown: tuple[float, str] | None = None
    """Until when an agent at rest may write its file, and what is done then."""

    def follow(self, event: events.HandoffEvent | events.CheckOutput) -> None:
        if isinstance(event, events.CheckOutput):
            self.action = event.text if event.gate == self.turn.role else self.action
            return
        if event.role != self.turn.role:
            return
        if event.status is not None:
            self.doing = DOING_OF_STATUS[event.status]
        if event.kind not in (EventKind.DELAYED, EventKind.STATUS, EventKind.ACTION):
            self.delay = None
        match event.kind:
            case EventKind.DELAYED:
                self.delay = (event.at if event.since is None else event.since, event.text)
            case EventKind.WAITING_FOR_PERSON if self.question is None:
                self.question = OpenQuestion(event.at, event.text, event.question)
            case EventKind.STATUS if event.status is not TerminalStatus.WAITING_USER_ANSWER:
                self.question = None
                if self.doing is not Doing.RESTING:
                    self.countdown = None
            case EventKind.ACTION:
                self.action = event.text
            case EventKind.FILE_AWAITED if event.until is not None:
                self.countdown = (event.until, event.text)
            case EventKind.FILE_SEEN | EventKind.REMINDED | EventKind.ASKED_AGAIN:
                self.countdown = None


class AgentRow(Struct, frozen=True):
    role: str
    provider: str
    doing: Doing = Doing.READY
    seconds: float | None = None
    outcome: str = ""


class Picture(Fold):
    """A run as its events tell it, and what its present agent does."""

    def __init__(self) -> None:
        super().__init__()
        self.id = self.name = ""
        """Empty as long as it has none; the name is what people can call it by."""
        self.is_open = True
        self.providers: Mapping[str, str] = {}
        self.round = self.max_rounds = 0
        self.stalled = ""
        """Why it does not converge, until an author has changed files."""
        self.now: Moment | None = None
        self.cycle = 0
        """0 if cycles do not count at present."""
        self.attach_prefix = ""
        self.starting: dict[str, float | None] = {}
        """The agents that are started together: since when; None for those that have started."""
        self.paused: float | None = None
        self.pausing = False
        self._points: dict[str, str] = {}
        self._since = 0.0
        """When it would have begun, had it never rested before it was resumed."""

    def total(self, now: float) -> float:
        """Return how long it has been at work, without the time before it was resumed."""
        return max(now - self._since, 0.0) if self.last else 0.0

    def add(self, event: events.RunEvent) -> None:
        if not self.last:
            self._since = event.at
        elif isinstance(event, events.RunOpened):
            self._since += max(event.at - self.last, 0.0)
        super().add(event)
        if self.under_way is None:
            self.now = None
        if isinstance(event, events.TurnBegan | events.CheckBegan):
            turn, self.starting, self.paused = self.turns[event.sequence], {}, None
            self.round = event.round
            if isinstance(event, events.CheckBegan):
                self._points[event.gate] = point_words(event)
                self.cycle = 0
                self.now = Moment(turn, event.at, Doing.WORKING, event.command)
            else:
                self.cycle = event.cycle if event.reviewed else 0
                self.now = Moment(turn, event.at, Doing.SENDING)
        elif isinstance(event, events.HandoffEvent | events.CheckOutput):
            if self.now is not None:
                self.now.follow(event)
        else:
            self._note(event)

    def _note(self, event: events.RunEvent) -> None:
        match event:
            case events.RunOpened():
                self.id, self.name, self.is_open = event.run, short_name(event.run), True
                self.cycle, self.starting, self.paused, self.pausing = 0, {}, None, False
            case events.ServerChosen():
                self.attach_prefix = event.attach_prefix
            case events.AgentsStarting():
                self.providers = {**self.providers, **event.providers}
                self.starting = dict.fromkeys(event.providers, event.at)
            case events.AgentStarted() if event.role in self.starting:
                self.starting[event.role] = None
            case events.RunBegan():
                self.providers, self.max_rounds = event.providers, event.max_rounds
                self.starting = {}
            case events.SettingChanged(name="MAX_ROUNDS") if event.value.isdecimal():
                self.max_rounds = int(event.value)
            case events.NotConverging():
                self.stalled = event.why
            case events.FilesChanged(allowed=True) if event.count > 0:
                self.stalled = ""
            case events.RunEnded():
                self.is_open = False
            case events.PauseAsked() | events.Paused() | events.Unpaused():
                self.pausing = isinstance(event, events.PauseAsked)
                self.paused = event.at if isinstance(event, events.Paused) else None

    def agents(self, now: float) -> list[AgentRow]:
        last = {turn.role: turn for turn in self.turns.values()}
        return [self._row(role, last.get(role), now) for role in {**self.providers, **last}]

    def _row(self, role: str, turn: Turn | None, now: float) -> AgentRow:
        provider = self.providers.get(role) or (turn.provider if turn else "")
        named = role + self._points.get(role, "")
        since = self.starting.get(role)
        if self.now is not None and turn == self.now.turn:
            return AgentRow(named, provider, self.now.doing, now - self.now.since)
        if since is not None:
            return AgentRow(role, provider, Doing.STARTING, now - since)
        # What came of an earlier round is no news any more.
        if turn is None or not turn.outcome or turn.round != self.round:
            return AgentRow(role, provider)
        outcome = EARLY if turn.early else turn.outcome
        return AgentRow(named, provider, Doing.DONE, turn.seconds, outcome)

    def reasons(self) -> list[str]:
        found = [
            (one.sequence, f"round {one.round}, {one.role} {one.words}")
            for one in self.changes
            if not one.allowed
        ]
        for turn in self.turns.values():
            if turn.is_setback:
                place = f"{turn.round}.{turn.cycle}" if turn.reviewed else f"round {turn.round},"
                verdict = "REVISE" if turn.outcome in ("sent_back", "cycles_used_up") else "FAIL"
                why = f"{verdict}: {turn.reason}" if turn.reason else turn.detail
                found.append((turn.sequence, f"{place} {turn.role} {why}"))
        return [words for _, words in sorted(found, key=lambda pair: pair[0])]


ESCAPE = "\x1b"
ENTER = ("\r", "\n")
ERASE = ("\x7f", "\b")
ERASE_LINE = "\x15"
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
BEGUN_PATTERN = r"\x1b(?:O|\[[0-?]{0,30}[ -/]{0,4})?"
"""Arrow keys and their like: what may become one, and what is one. The bounds keep it short."""
KEY_PATTERN = r"\x1b\[[0-?]{0,30}[ -/]{0,4}[@-~]|\x1bO[^\x1b]|\x1b[^\x1b]|[^\x1b]|\x1b"


class Keys(Struct, frozen=True):
    """What has been pressed and has not been done yet."""

    unread: bytes = b""
    """The beginning of a key."""
    line: str | None = None
    pasting: bool = False
    attach_to: str = ""

    @property
    def is_escaping(self) -> bool:
        """Would an Escape have been pressed if nothing followed?"""
        return self.unread.startswith(ESCAPE.encode())


def offers(picture: Picture) -> Mapping[str, str]:
    now = picture.now
    offered = {}
    if now and now.turn.terminal_id:
        offered["a"] = "attach"
    if picture.is_open and picture.id and picture.round:
        held = picture.pausing or picture.paused is not None
        offered |= {"h": "hint", "p": "resume" if held else "pause"}
        if now and now.turn.role in picture.reviewers:
            offered["s"] = "skip"
    return offered


def choices(picture: Picture) -> Mapping[str, str]:
    if not (picture.now and picture.now.question):
        return {}
    return {key: label for key, label in picture.now.question.choices.items() if len(key) == 1}


def press(keys: Keys, data: bytes, picture: Picture) -> tuple[Keys, tuple[Request | str, ...]]:
    """Return the keys after more was read, and what the user requests; a text answers a question.

    No data means that nothing follows the beginning of a key.
    """
    read = keys.unread + data
    text, used = utf_8_decode(read, "ignore")
    begun = re.search(rf"{BEGUN_PATTERN}\Z", text) if data else None
    whole, rest = (text[: begun.start()], begun[0]) if begun else (text, "")
    keys = replace(keys, unread=rest.encode() + read[used:])
    requests: list[Request | str] = []
    for key in re.findall(KEY_PATTERN, whole, re.DOTALL):
        keys, request = _press(keys, key, picture)
        if request is not None:
            requests.append(request)
    return keys, tuple(requests)


def _press(keys: Keys, key: str, picture: Picture) -> tuple[Keys, Request | str | None]:
    if key in (PASTE_BEGINS, PASTE_ENDS):
        return replace(keys, pasting=key == PASTE_BEGINS), None
    if keys.line is not None:
        return _type(keys, keys.line, key, picture)
    if key in choices(picture) and not keys.pasting:
        return replace(keys, attach_to=""), key
    word = "" if keys.pasting else offers(picture).get(key, "")
    wants_attach = word == "attach" and not keys.attach_to
    attach_to = picture.now.turn.role if picture.now and wants_attach else ""
    keys = replace(keys, attach_to=attach_to, line="" if word == "hint" else None)
    requests: Mapping[str, Request] = {"pause": Pause(), "resume": Unpause(), "skip": Skip()}
    return keys, requests.get(word)


def _type(keys: Keys, line: str, key: str, picture: Picture) -> tuple[Keys, Request | None]:
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
    typed = re.sub(f"[{CONTROLS}{HALVES}]", "", re.sub(f"[\r{BREAKS}]", " ", key))
    return replace(keys, line=(line + typed)[:LARGEST_HINT]), None


WIDEST = 79
"""A terminal that becomes narrower makes two rows of a long one; reasons alone are longer."""
URGENT = "bold yellow"
LINE_BEGINS, LINE_ENDS = "  hint> ", "_"
BETWEEN = "  "


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


class Canvas(Struct, frozen=True):
    width: int
    height: int
    now: float
    is_alone: bool = False
    """Would a command of another terminal not find the run?"""

    @property
    def room(self) -> int:
        """How wide a row may be that is no reason; the last column is left free."""
        return max(min(self.width - 1, WIDEST), 1)


def draw(picture: Picture, canvas: Canvas, keys: Keys | None = None) -> list[Text]:
    """Return the rows of a picture, if there is anything to see.

    Without `keys` none can be pressed, and commands for another terminal are drawn instead.
    """
    agents = picture.agents(canvas.now)
    if not (picture.is_open and (agents or picture.paused)):
        return []
    rows = [
        (Need.HEAD, _head(picture, canvas.now)),
        *_strip(agents, canvas.room),
        *_alerts(picture, canvas, can_press=keys is not None),
        *_pressed(picture, keys or Keys(), canvas),
    ]
    typed = _in_rows(_commands(picture, canvas, keys), canvas.room)
    commands = [(Need.COMMANDS, Text(row, "dim")) for row in typed]
    longest = max(canvas.width - 1, 1)
    free = max(canvas.height // 2 - len(rows) - len(commands), 0)
    reasons: list[Row] = []
    for reason in reversed(picture.reasons()):
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
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _head(picture: Picture, now: float) -> Text:
    if picture.starting:
        count = [*picture.starting.values()].count(None) + 1
        where = f"Starting {min(count, len(picture.starting))} of {len(picture.starting)}"
    elif picture.round:
        most = f" of {picture.max_rounds}" if picture.max_rounds >= picture.round else ""
        cycle = f", cycle {picture.cycle}" if picture.cycle else ""
        where = f"Round {picture.round}{most}{cycle}"
    else:
        where = "Starting"
    total = f"   total {clock_face(picture.total(now))}"
    return Text.assemble(("▶ ", "bold cyan"), (where, "bold"), (total, "dim"))


def _strip(agents: Sequence[AgentRow], room: int) -> Iterator[Row]:
    """Yield a row for each agent, in columns; a narrow terminal has none for the provider."""
    cells = [
        (
            one_line(agent.role),
            one_line(agent.provider),
            one_line(agent.outcome.replace("_", " ")) or agent.doing.words,
            "" if agent.seconds is None else clock_face(agent.seconds),
        )
        for agent in agents
    ]
    widths = [max((cell_len(row[column]) for row in cells), default=0) for column in range(4)]
    narrow = len("  ▶ ") + sum(widths) + 3 * len(BETWEEN) > room
    for agent, row in zip(agents, cells, strict=True):
        role, provider, state, passed = (
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        )
        is_present = agent.doing not in (Doing.READY, Doing.STARTING, Doing.DONE)
        who = role if narrow else f"{role}{BETWEEN}{provider}"
        text = Text.assemble(
            ("  ▶ ", agent.doing.style) if is_present else _mark(agent),
            (f"{who}{BETWEEN}", "" if is_present else "dim"),
            (f"{state}{BETWEEN}{passed}".rstrip(), agent.doing.style),
        )
        yield Need.PRESENT if is_present else Need.OTHERS, text


def _mark(agent: AgentRow) -> tuple[str, str]:
    if agent.doing is not Doing.DONE:
        return "    ", ""
    if agent.outcome in events.AGAINST:
        return "  ✗ ", "red"
    if agent.outcome == events.Meaning.BASE_FAILED:
        return "  ✗ ", "dim"
    is_good = agent.outcome in ("approved", "skipped", "passed", "cleared")
    return "  ✓ ", "green" if is_good else "dim"


def _alerts(picture: Picture, canvas: Canvas, *, can_press: bool) -> Iterator[Row]:
    now = picture.now
    if now and now.action:
        who = (f"  {one_line(now.turn.role)}: ", "dim")
        yield Need.ACTION, Text.assemble(who, _joined(now.action))
    allowed = [one for one in picture.changes if one.allowed and one.round == picture.round]
    if allowed:
        yield Need.OTHERS, Text(f"  {_joined(f'{allowed[-1].role} {allowed[-1].words}')}", "dim")
    if picture.stalled:
        yield _alert(_joined(events.NOT_CONVERGING + picture.stalled))
    if now and now.delay:
        since, why = now.delay
        yield _alert(f"not delivered for {clock_face(canvas.now - since)}: {_joined(why)}")
    if now and now.question:
        yield from _question(picture, now.question, canvas, can_press=can_press)
    if now and now.countdown:
        until, then = now.countdown
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
    asked = f": {_joined(question.text)}" if question.text else ""
    yield _alert(f"asks you, {clock_face(canvas.now - question.since)}{asked}", URGENT)
    if can_press and (keys := choices(picture)):
        answers = [_joined(f"{key} {label}") for key, label in keys.items()]
        for row in _in_rows(answers, canvas.room):
            yield Need.ALERT, Text(row, URGENT)
        return
    prefix, run = picture.attach_prefix, picture.name
    ways = [f"{prefix}{question.command}", f"{prefix}cao answer {run} KEY"]
    for row in _in_rows([_joined(way) for way in ways[: 2 if run else 1]], canvas.room):
        yield Need.ACTION, Text(row, URGENT)


def _commands(picture: Picture, canvas: Canvas, keys: Keys | None) -> Sequence[str]:
    offered = offers(picture)
    if keys is None:
        # A question brings its own command that attaches.
        skipped = "attach" if picture.now and picture.now.question else ""
        words = () if canvas.is_alone else offered.values()
        return [_command(picture, word) for word in words if word != skipped]
    if keys.line is not None:
        return ("Enter sends it with the next prompt", "Esc cancels")
    taken = choices(picture)
    return [f"{key} {word}" for key, word in offered.items() if key not in taken]


def _command(picture: Picture, word: str) -> str:
    run, now = one_line(picture.name), picture.now
    if word == "attach" and now:
        terminal = one_line(f"{run}/{now.turn.role}" if run else now.turn.terminal_id)
        return f"{one_line(picture.attach_prefix)}cao attach {terminal}"
    return f"cao send {run} TEXT" if word == "hint" else f"cao {word} {run}"


def _pressed(picture: Picture, keys: Keys, canvas: Canvas) -> Iterator[Row]:
    now = picture.now
    if now and keys.attach_to == now.turn.role and "a" in offers(picture):
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
    rows: list[str] = []
    for word in words:
        longer = f"{rows[-1]} · {word}" if rows else ""
        if rows and cell_len(longer) <= width:
            rows[-1] = longer
        else:
            rows.append(f"  {word}")
    return rows


def _joined(text: str) -> str:
    return one_line(" ".join(text.split()))
