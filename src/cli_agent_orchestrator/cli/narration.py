"""A run in words: each event as a line for people, beside its time."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from ..core.ansi import columns_of
from ..core.models import BUILT_IN, DRY_RUN, TerminalStatus, is_dry
from ..core.text import duration, one_line, printable, twice_as_many
from ..events import (
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
from ..proof.verdict import NOT_PROVEN, PROVEN
from ..runs.record import short_name

TIME = "00:00:00  "
"""How a time is written before a line."""
PASS, RUNNING = "PASS", "RUNNING"
LONGEST_REASON = 300

SAVED = "The run is saved"
DELIVERY = (
    # what can be done with work on a branch, and the command for it
    ("See it on one page:        ", "report"),
    ("Bring it into your branch: ", "apply"),
    ("Open a pull request:       ", "pr"),
    ("Remove it:                 ", "discard"),
)
UNDELIVERED = (("Show it:   ", "diff"), ("Remove it: ", "discard"))
UNCOMMITTED = (("Remove both: ", "discard"),)
AGENTS_STAY = "End its agents, who stay:  "
NO_CHANGE = (
    "The scripted agent changed no code, so a gate that fails cannot pass: let a real one do the "
    "work (--provider), or give it a script that does"
)
NOT_RESUMED = "The run did not go on; it is saved as it was"
MORE_ROUNDS = "Go on with more rounds: "


def unfinished_words(resume: bool | None) -> str:
    """Say how a run goes on that ended without a verdict: `--no-resume` would begin a new one."""
    changed = ", with --resume instead of --no-resume," if resume is False else ""
    return f"{SAVED}. Run the same command again{changed} to resume"


UNFINISHED = unfinished_words(None)
RESUME_BY_ID = f"{SAVED}. `cao resume {{id}}` resumes it"
RESUME_ANEW = f"{SAVED}, and its agents are ended. `cao resume {{id}}` resumes it with new ones"
"""The command that began a run looks for the agents that it had."""


class Tone(Enum):
    """How a line is meant."""

    PLAIN = "plain"
    QUIET = "quiet"
    GOOD = "good"
    BAD = "bad"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class Line:
    """One line for people, or the few with which a run ends."""

    text: str
    tone: Tone = Tone.PLAIN


def beside_time(text: str, width: int = 0) -> str:
    """Return a text to be shown behind the time: lines after its first cannot look like another.

    In a terminal of a width, lines go on at a word, below their own beginning; a word that is too
    long for a row is not broken. Without a width no line is.
    """
    room = max(width - len(TIME), 1) if width else 0
    rows = [row for line in printable(text).split("\n") for row in rows_of(line, room)]
    return ("\n" + " " * len(TIME)).join(rows)


def rows_of(line: str, room: int) -> list[str]:
    """Return a line as rows of so many cells at most, broken between words; 0 if it never ends."""
    indent = line[: len(line) - len(line.lstrip(" "))]
    rows = [""]
    for space, word in re.findall(r"( *)([^ ]+)", line):
        longer = f"{rows[-1]}{space}{word}"
        if room and rows[-1] and columns_of(longer) > room:
            rows.append(f"{indent}{word}")
        else:
            rows[-1] = longer
    return rows if room else [line]


@dataclass(frozen=True, slots=True)
class Ending:
    """What is remembered of a run for its last lines, and these lines."""

    report: str
    """The command that tells the rest; `{id}` stands for the id of the run."""
    unfinished: str
    """What is said of a run that has begun and ends without a verdict; with `{id}`, too."""
    run: str = ""
    """The id of the run; empty if it has none."""
    attach_prefix: str = ""
    """What a command needs before it to reach the server of the run."""
    not_begun: str = "Nothing was started"
    """What is said of a run that ends before it begins."""
    is_dry: bool = False
    is_idle: bool = False
    """Is every agent the built-in one, and has none changed a file?"""
    against: str = ""
    """What the last turn or check has to say against the work."""
    by_gate: bool = False
    """Was that a check?"""
    circling: str = ""
    """Why the run does not converge, until an author has changed files."""

    def after(self, event: RunEvent) -> "Ending":
        """Return what is remembered after an event."""
        match event:
            case RunOpened():
                not_begun = NOT_RESUMED if event.resumed else "The run did not begin"
                return replace(self, run=event.run, not_begun=not_begun)
            case ServerChosen():
                return replace(self, attach_prefix=event.attach_prefix)
            case RunBegan():
                agents = set(event.providers.values())
                is_idle = agents == {BUILT_IN} and (self.is_idle or not event.resumed)
                return replace(self, is_dry=is_dry(agents), is_idle=is_idle)
            case FilesChanged(allowed=True):
                circling = "" if event.count > 0 else self.circling
                return replace(self, is_idle=False, circling=circling)
            case NotConverging():
                return replace(self, circling=event.text)
            case TurnEnded() | CheckEnded():
                by_gate = isinstance(event, CheckEnded)
                return replace(self, against=reason_of_fail(event), by_gate=by_gate)
        return self

    def tell(self, event: RunEnded) -> Line:
        """Return the last lines of a run, as one."""
        rounds = f"{event.round} round{'s' if event.round != 1 else ''}"
        if event.final_status == RUNNING:
            saved = f"{self._goes_on(event)}{self._agents_left(event.session_left)}"
            return Line(saved if event.round else self.not_begun, Tone.ALERT)
        tone = Tone.GOOD if event.final_status == PASS else Tone.BAD
        is_unproven = bool(event.proof) and not event.proven
        if is_unproven or (event.repository and event.final_status == PASS):
            tone = Tone.ALERT
        return Line("\n".join(self._verdict(event, rounds)), tone)

    def _verdict(self, event: RunEnded, rounds: str) -> Iterator[str]:
        """Yield the last lines of a run: short ones, which are read where they end."""
        run = short_name(self.run)
        verdict = f"{DRY_RUN}: " if self.is_dry else ""
        proof, *doubts = _proof_words(event, run)
        verdict += f"{event.final_status}{proof} after {rounds}"
        stop = self._stop(event.session_left)
        if event.branch:
            yield f"{verdict}, on branch {event.branch}"
            yield from filter(None, [*doubts, *_look_first(event)])
            yield from next_lines(DELIVERY, run)
            if event.session_left:
                yield f"  {AGENTS_STAY}{stop}"
            return
        yield verdict + (f" ({self._named(self.report)} says more)" if self.report else "")
        yield from filter(None, [*doubts, *_look_first(event)])
        if event.final_status != PASS:
            yield from self._after_fail(event, run)
        elif event.tree:
            yield "Its work tree and its branch are left, with nothing committed:"
            yield from next_lines(UNCOMMITTED, run)
        if event.session_left:
            yield f"Its agents stay. To end them: {stop}"

    def _after_fail(self, event: RunEnded, run: str) -> Iterator[str]:
        """Yield why a run failed, and where its work is if that is not in the user's folder."""
        yield from filter(None, [self.against, self.circling])
        if self.is_idle and self.by_gate:
            yield NO_CHANGE
        if event.tree:
            yield f"Its work is not committed. It is in {event.tree}"
            yield from next_lines(UNDELIVERED, run)
        if run:
            yield f"{MORE_ROUNDS}cao resume {run} --max-rounds {twice_as_many(event.round)}"

    def _goes_on(self, event: RunEnded) -> str:
        """Say how a run is resumed, if it can be."""
        if event.to_resume:
            return f"{SAVED}. `{event.to_resume}` resumes it"
        is_anew = self.run and not event.session_left and self.unfinished.startswith(SAVED)
        return self._named(RESUME_ANEW if is_anew else self.unfinished)

    def _agents_left(self, session: str) -> str:
        """Say that the agents of a run that was stopped stay, and how they are found or ended."""
        if not session:
            return ""
        cao = f"{self.attach_prefix}cao"
        return f". Its agents stay: `{cao} ls` lists them, `{self._stop(session)}` ends them"

    def _stop(self, session: str) -> str:
        """Return the command that ends the agents of the run."""
        what = short_name(self.run) or f"--session {session}"
        return f"{self.attach_prefix}cao stop {what}"

    def _named(self, text: str) -> str:
        return text.replace("{id}", short_name(self.run))


def reason_of_fail(step: TurnEnded | CheckEnded) -> str:
    """Say in one line why a round failed: `tests: `make test` ended with exit code 1`."""
    who = step.gate if isinstance(step, CheckEnded) else step.role
    quoted = f"“{step.reason}”" if isinstance(step, TurnEnded) and step.reason else ""
    words = " ".join(filter(None, [step.why, quoted]))
    shown = one_line(words if len(words) <= LONGEST_REASON else f"{words[:LONGEST_REASON]}…")
    return f"{who}: {shown or 'FAIL'}"


def _proof_words(event: RunEnded, run: str) -> tuple[str, str, str]:
    """Return what the last lines say of a proof, what to look at and where, and what was before.

    What was proven was told by the proof itself; why something was not is said again.
    """
    # An earlier version told it in one sentence.
    missing = f"{NOT_PROVEN}: {event.gaps}" if event.gaps else event.proof
    words = f"{PROVEN}," if event.proven else missing and f"{missing};"
    where = f": cao report {run}" if run else ""
    return (
        words and f", {words}",
        event.look_at and f"Look at {event.look_at}{where}",
        event.before and f"Before the run and not committed: {event.before}",
    )


def delivery_words(branch: str, run: str) -> Iterator[str]:
    """Yield where the work of a run is, and how it comes to the user: a command on each line."""
    yield f"The work of {run} is on branch {branch}:"
    yield from next_lines(DELIVERY[1:], short_name(run))


def next_lines(ways: Sequence[tuple[str, str]], run: str) -> Iterator[str]:
    """Yield what can be done next, and the whole command for each."""
    yield from (f"  {words}cao {word} {run}" for words, word in ways)


def _look_first(event: RunEnded) -> Iterator[str]:
    """Yield what was changed that the user's next git command would go by."""
    yield from (f"Look first: {text}" for text in event.repository)


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
                return Line(f"{who}: message not delivered for {waited}: {event.text}", Tone.ALERT)
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
            ways.append(f"  See the choices: {prefix}cao answer {run}")
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
            is_early = isinstance(event, TurnEnded) and event.early
            detail = "approved, second look follows" if is_early else event.detail
            text = f"{place(event)}: {detail}{why}  [{duration(event.seconds)}{kept}]"
            return Line(text, TONES.get(event.outcome, Tone.PLAIN))


def _count(agents: Collection[str]) -> str:
    """Return how many agents there are, in words."""
    words = NUMBERS[len(agents)] if len(agents) < len(NUMBERS) else str(len(agents))
    return f"{words} agent{'' if len(agents) == 1 else 's'}"
