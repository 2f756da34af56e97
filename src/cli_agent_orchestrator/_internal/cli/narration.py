"""A run in words: each event as a line for people."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cli_agent_orchestrator._internal.cli.dry_run import BUILT_IN, DRY_RUN, is_dry
from cli_agent_orchestrator._internal.cli.printable import one_line
from cli_agent_orchestrator._internal.cli.timeline import duration
from cli_agent_orchestrator._internal.models import TerminalStatus
from cli_agent_orchestrator._internal.pipeline.rounds import twice_as_many
from cli_agent_orchestrator._internal.runs.resume_command import command_to_resume
from cli_agent_orchestrator._internal.runs.run_id import short_name
from cli_agent_orchestrator.events import (
    AgentsStarting,
    AgentStarted,
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

PASS, RUNNING = "PASS", "RUNNING"
NOT_PROVEN = "not proven"
DOUBTS = "; look at "
"""Between what was proven and what is to be looked at."""
BEFORE = "; before the run and not committed: "
"""Between that and what the user had."""
POINTS: Mapping[str, str] = {
    # at which point of a run a gate is run
    "base": " on the base",
    "after_programmer": " after the programmer",
    "after_tester": "",
}

LONGEST_REASON = 300
# FAIL: `make test` ended with exit code 1; all 2 rounds are used up
FAIL_PATTERN = (
    r"(?s)(?:FAIL(?:: )?)?(.*?)"
    r"(?:; (?:round \d+ follows|all \d+ rounds are used up|the only round is used up))?"
)

Step = (
    TurnEnded | CheckBegan | CheckEnded | FilesChanged | NotConverging | Paused | Unpaused | Warned
)
Personal = PauseAsked | StopAsked | HintTaken | SettingChanged | ReviewSkipped | AskDeclined
"""What people ask for."""


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
REPORT_BY_ID = "cao report {id}"


NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Narration:
    """Puts the events of one run into words; it remembers whose turn it is."""

    def __init__(self, base: Path, report: str = "", unfinished: str = UNFINISHED) -> None:
        """Paths below `base` are told from there; `report` is the command that tells the rest.

        In both texts `{id}` stands for the id of the run.
        `unfinished` is what is said of a run that has begun and ends without a verdict.
        """
        self._attach_prefix = ""
        self._report = report
        self._unfinished = unfinished
        self._base = base
        self._turn: TurnBegan | None = None
        self._waiting = False
        self._delayed = False
        self._starting: Mapping[str, str] = {}
        self._started: list[str] = []
        self._dry = False
        self._is_idle = False
        """Is every agent the built-in one, and has none changed a file?"""
        self._run = ""
        self._not_begun = "Nothing was started"
        self._against = ""
        self._by_gate = False

    def tell(self, event: RunEvent) -> Line | None:
        """Return what people want to know of an event."""
        match event:
            case RunOpened():
                return self._opened(event)
            case ServerChosen():
                self._attach_prefix = event.attach_prefix
                return Line(f"Server: {event.url} ({event.how})", Tone.QUIET)
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
            case TurnEnded() | CheckEnded() | FilesChanged():
                self._note(event)
            case RunEnded():
                return self._ended(event)
        return _step_line(event)

    def _note(self, event: TurnEnded | CheckEnded | FilesChanged) -> None:
        """Remember what the last lines of the run are about."""
        if isinstance(event, FilesChanged):
            self._is_idle = self._is_idle and not event.allowed
            return
        self._against = reason_of_fail(event)
        self._by_gate = isinstance(event, CheckEnded)

    def _opened(self, event: RunOpened) -> Line:
        self._run = event.run
        self._not_begun = NOT_RESUMED if event.resumed else "The run did not begin"
        return Line(f"Run {event.run}{' is resumed' if event.resumed else ''}", Tone.QUIET)

    def _start(self, event: AgentsStarting | AgentStarted) -> Line:
        if isinstance(event, AgentsStarting):
            self._starting, self._started = event.providers, []
            named = ", ".join(agents_in_words(event.providers))
            return Line(f"Starting {named} ...", Tone.QUIET)
        self._started.append(event.role)
        count = f"{len(self._started)} of {len(self._starting)}"
        return Line(f"{event.role} has started, {count}", Tone.QUIET)

    def _began(self, event: RunBegan) -> Line:
        self._dry = is_dry(event.providers.values())
        is_built_in = set(event.providers.values()) == {BUILT_IN}
        self._is_idle = is_built_in and (self._is_idle or not event.resumed)
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
        ways = [f"  Look and answer: {self._attach_prefix}{event.text}"]
        if self._run:
            run, prefix = short_name(self._run), self._attach_prefix
            ways.append(f"  See the choices: {prefix}cao output {run}/{event.role} --screen")
            # Which key means what is for a person to see: none is proposed.
            ways.append(f"  Press a key:     {prefix}cao answer {run} KEY")
        return "\n".join(ways)

    def _ended(self, event: RunEnded) -> Line:
        rounds = f"{event.round} round{'s' if event.round != 1 else ''}"
        if event.final_status == RUNNING:
            saved = f"{self._goes_on(event)}{self._agents_left(event.session_left)}"
            return Line(saved if event.round else self._not_begun, Tone.ALERT)
        tone = Tone.GOOD if event.final_status == PASS else Tone.BAD
        if event.proof.startswith(NOT_PROVEN) or (event.repository and event.final_status == PASS):
            tone = Tone.ALERT
        return Line("\n".join(self._verdict(event, rounds)), tone)

    def _verdict(self, event: RunEnded, rounds: str) -> Iterator[str]:
        """Yield the last lines of a run: short ones, which are read where they end."""
        run = short_name(self._run)
        verdict = f"{DRY_RUN}: " if self._dry else ""
        proof, *doubts = _proof_words(event.proof, run)
        verdict += f"{event.final_status}{proof} after {rounds}"
        stop = self._stop(event.session_left)
        if event.branch:
            yield f"{verdict}, on branch {event.branch}"
            yield from filter(None, [*doubts, *_look_first(event)])
            yield from next_lines(DELIVERY, run)
            if event.session_left:
                yield f"  {AGENTS_STAY}{stop}"
            return
        yield verdict + (f" ({self._named(self._report)} says more)" if self._report else "")
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
        yield from filter(None, [self._against])
        if self._is_idle and self._by_gate:
            yield NO_CHANGE
        if event.tree:
            yield f"Its work is not committed. It is in {event.tree}"
            yield from next_lines(UNDELIVERED, run)
        if run:
            yield f"{MORE_ROUNDS}cao resume {run} --max-rounds {twice_as_many(event.round)}"

    def _goes_on(self, event: RunEnded) -> str:
        """Say how a run is resumed, if it can be."""
        if command := command_to_resume(event.reason, self._run):
            return f"{SAVED}. `{command}` resumes it"
        is_anew = self._run and not event.session_left and self._unfinished.startswith(SAVED)
        return self._named(RESUME_ANEW if is_anew else self._unfinished)

    def _agents_left(self, session: str) -> str:
        """Say that the agents of a run that was stopped stay, and how they are found or ended."""
        if not session:
            return ""
        cao = f"{self._attach_prefix}cao"
        return f". Its agents stay: `{cao} ls` lists them, `{self._stop(session)}` ends them"

    def _stop(self, session: str) -> str:
        """Return the command that ends the agents of the run."""
        what = short_name(self._run) or f"--session {session}"
        return f"{self._attach_prefix}cao stop {what}"

    def _named(self, text: str) -> str:
        return text.replace("{id}", self._run)

    def _short(self, path: str) -> str:
        full = Path(path)
        return str(full.relative_to(self._base) if full.is_relative_to(self._base) else full)


def reason_of_fail(step: TurnEnded | CheckEnded) -> str:
    """Say in one line why a round failed: `tests: `make test` ended with exit code 1`."""
    who = step.gate if isinstance(step, CheckEnded) else step.role
    quoted = f"“{step.reason}”" if isinstance(step, TurnEnded) and step.reason else ""
    found = re.fullmatch(FAIL_PATTERN, step.detail)
    words = " ".join(filter(None, [found[1] if found else step.detail, quoted]))
    shown = one_line(words if len(words) <= LONGEST_REASON else f"{words[:LONGEST_REASON]}…")
    return f"{who}: {shown or 'FAIL'}"


def _proof_words(proof: str, run: str) -> tuple[str, str, str]:
    """Return what the last lines say of a proof, what to look at and where, and what was before.

    What was proven was told by the proof itself; why something was not is said again.
    """
    rest, _, before = proof.partition(BEFORE)
    words, _, doubts = rest.partition(DOUBTS)
    if proof and not proof.startswith(NOT_PROVEN):
        words = f"{words.partition(':')[0]},"
    elif proof:
        words += ";"
    where = f": cao report {run}" if run else ""
    return (
        words and f", {words}",
        doubts and f"{_begun(DOUBTS)}{doubts}{where}",
        before and f"{_begun(BEFORE)}{before}",
    )


def _begun(words: str) -> str:
    """Return the beginning of a part of a sentence as that of a line."""
    return words.removeprefix("; ").capitalize()


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


def agents_in_words(providers: Mapping[str, str]) -> list[str]:
    """Name each role with its agent: `analyst_review (codex)`."""
    return [f"{role} ({agent})" for role, agent in providers.items()]


def place(step: TurnBegan | TurnEnded | CheckBegan | CheckEnded) -> str:
    """Name a turn or a check: `Round 1, cycle 2, analyst_review`."""
    if isinstance(step, CheckBegan | CheckEnded):
        return f"Round {step.round}, {step.gate}{POINTS.get(step.when, '')}"
    cycle = f", cycle {step.cycle}" if step.reviewed else ""
    return f"Round {step.round}{cycle}, {step.role}"


def _step_line(event: Step | Personal) -> Line:
    match event:
        case PauseAsked() | StopAsked() | HintTaken() | SettingChanged() | ReviewSkipped():
            return Line(f"By a person: {event.words}", Tone.ALERT)
        case AskDeclined():
            return Line(f"A person asked for {event.do}: {event.text}", Tone.ALERT)
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
