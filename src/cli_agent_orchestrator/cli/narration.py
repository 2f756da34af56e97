"""A run in words: each event as a line for people, beside its time."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

from msgspec import Struct

from .. import events
from ..core.models import BUILT_IN, DRY_RUN, TerminalStatus, is_dry
from ..core.text import columns_of, duration, one_line, plural, printable, twice_as_many
from ..proof.verdict import NOT_PROVEN, PROVEN
from ..runs.record import short_name

TIME = "00:00:00  "
PASS, RUNNING = "PASS", "RUNNING"
LONGEST_REASON = 300

SAVED = "The run is saved"
DELIVERY = (
    ("See it on one page:        ", "report"),
    ("Bring it into your branch: ", "apply"),
    ("Open a pull request:       ", "pr"),
    ("Remove it:                 ", "discard"),
)
UNDELIVERED = (("Show it:   ", "diff"), ("Remove it: ", "discard"))
NO_CHANGE = (
    "The scripted agent changed no code, so a gate that fails cannot pass: let a real one do the "
    "work (--provider), or give it a script that does"
)


class Tone(Enum):
    """Its value is how a terminal styles it."""

    PLAIN = ""
    QUIET = "dim"
    GOOD = "bold green"
    BAD = "bold red"
    ALERT = "yellow"


class Line(Struct, frozen=True):
    text: str
    tone: Tone = Tone.PLAIN


def beside_time(text: str, width: int = 0) -> str:
    """Return a text to be shown behind the time: lines after its first cannot look like another.

    With a width, lines are broken between words and go on below their beginning.
    """
    room = max(width - len(TIME), 1) if width else 0
    rows = [row for line in printable(text).split("\n") for row in rows_of(line, room)]
    return ("\n" + " " * len(TIME)).join(rows)


def rows_of(line: str, room: int) -> list[str]:
    """Return a line as rows of so many cells at most, broken between words; not if that is 0."""
    indent = line[: len(line) - len(line.lstrip(" "))]
    rows = [""]
    for space, word in re.findall(r"( *)([^ ]+)", line):
        longer = f"{rows[-1]}{space}{word}"
        if room and rows[-1] and columns_of(longer) > room:
            rows.append(f"{indent}{word}")
        else:
            rows[-1] = longer
    return rows if room else [line]


POINTS: Mapping[str, str] = {
    "base": " on the base",
    "after_programmer": " after the {author}",
    "after_tester": "",
}
TONES: Mapping[str, Tone] = {
    "approved": Tone.GOOD,
    "cycles_used_up": Tone.ALERT,
    "passed": Tone.GOOD,
    "cleared": Tone.GOOD,
    "failed": Tone.BAD,
    "rounds_used_up": Tone.BAD,
}
EARLY = "approved, second look follows"
WORDS: Mapping[events.EventKind, tuple[str, Tone]] = {
    events.EventKind.RESUMED: ("{who} already has the prompt; waiting for its reply", Tone.QUIET),
    events.EventKind.ASKED_AGAIN: ("{who} is asked again: {text}", Tone.ALERT),
    events.EventKind.FILE_AWAITED: (
        "{who} is at rest without its file; {text} in {left} if it does not come",
        Tone.QUIET,
    ),
    events.EventKind.REMINDED: ("{who} was reminded to write its file ({text})", Tone.ALERT),
    events.EventKind.STREAM_LOST: ("{who}: {text}", Tone.ALERT),
    events.EventKind.STREAM_BACK: ("{who}: {text}", Tone.QUIET),
    events.EventKind.WARNING: ("{who}: {text}", Tone.ALERT),
}


class Narration:
    """Puts the events of one run into words; it remembers what its last lines need."""

    def __init__(self, base: Path, stopped: str = "") -> None:
        """Paths below `base` are relative to it.

        `stopped` is said if a run that is not kept, such as that of the demo, has no verdict; the
        commands for a run that is kept are left out then.
        """
        self._base = base
        self._stopped = stopped
        self._not_begun = "Nothing was started"
        self._run = ""
        self._attach_prefix = ""
        self._turn: events.TurnBegan | None = None
        self._waiting = False
        self._delayed = False
        self._starting: Mapping[str, str] = {}
        self._started = 0
        self._is_dry = False
        # Is each agent the built-in one, and has none changed a file?
        self._is_idle = False
        # The reason of the last turn or check, if it is against the work.
        self._against = ""
        self._by_gate = False
        self._circling = ""

    def tell(self, event: events.RunEvent) -> Line | None:
        match event:
            case events.AgentsStarting():
                self._starting, self._started = event.providers, 0
                named = ", ".join(f"{role} ({name})" for role, name in event.providers.items())
                return Line(f"Starting {named} ...", Tone.QUIET)
            case events.AgentStarted():
                self._started += 1
                count = f"{self._started} of {len(self._starting)}"
                return Line(f"{event.role} has started, {count}", Tone.QUIET)
            case events.RunBegan():
                return self._began(event)
            case events.TurnBegan():
                self._turn, self._waiting, self._delayed = event, False, False
                return Line(f"{place(event)} begins ({event.provider})", Tone.QUIET)
            case events.HandoffEvent():
                return self._handoff(event)
            case events.RunEnded():
                return self._ended(event)
        return self._note(event)

    def _note(self, event: events.RunEvent) -> Line | None:
        match event:
            case events.RunOpened():
                self._run = event.run
                self._not_begun, resumed = "The run did not begin", ""
                if event.resumed:
                    self._not_begun = "The run did not go on; it is saved as it was"
                    resumed = " is resumed"
                return Line(f"Run {event.run}{resumed}", Tone.QUIET)
            case events.ServerChosen():
                self._attach_prefix = event.attach_prefix
                where = f"{event.url} ({event.how}); in the browser: cao dashboard"
                return Line(f"Server: {where}", Tone.QUIET)
            case events.TurnEnded() | events.CheckEnded():
                self._against = reason_of_fail(event)
                self._by_gate = isinstance(event, events.CheckEnded)
            case events.FilesChanged(allowed=True):
                self._is_idle = False
                self._circling = "" if event.count > 0 else self._circling
            case events.NotConverging():
                self._circling = event.text
        return _step_line(event)

    def _began(self, event: events.RunBegan) -> Line:
        names = set(event.providers.values())
        self._is_dry = is_dry(names)
        self._is_idle = names == {BUILT_IN} and (self._is_idle or not event.resumed)
        agents = ", ".join(sorted(names))
        agents += f"; permissions: {event.permissions}" if event.permissions else ""
        verb = "goes on" if event.resumed else "begins"
        most = f"Up to {plural(event.max_rounds, 'round')}. " if event.max_rounds else ""
        new = f"; new agents: {', '.join(event.replaced)}" if event.replaced else ""
        archive = Path(event.archive)
        if archive.is_relative_to(self._base):
            archive = archive.relative_to(self._base)
        return Line(
            f"The run {verb} with {plural(len(event.terminals), 'agent')} ({agents}) "
            f"in session {event.session_name}{new}. {most}Everything is kept in {archive}"
        )

    def _handoff(self, event: events.HandoffEvent) -> Line | None:
        who = place(self._turn) if self._turn else event.role
        match event.kind:
            case events.EventKind.WAITING_FOR_PERSON:
                self._waiting = True
                asked = f": {event.question}" if event.question else ""
                ways = [f"{who} asks you{asked}"]
                ways.append(f"  Look and answer: {self._attach_prefix}{event.text}")
                if run := short_name(self._run):
                    # The user has to look what a key means: none is proposed.
                    command = f"{self._attach_prefix}cao answer {run}"
                    ways += [f"  See the choices: {command}", f"  Press a key:     {command} KEY"]
                return Line("\n".join(ways), Tone.ALERT)
            case events.EventKind.STATUS if self._waiting:
                self._waiting = event.status is TerminalStatus.WAITING_USER_ANSWER
                return None if self._waiting else Line(f"{who} goes on", Tone.QUIET)
            case events.EventKind.DELAYED:
                self._delayed = True
                waited = duration(event.at - (event.since or event.at))
                return Line(f"{who}: message not delivered for {waited}: {event.text}", Tone.ALERT)
            case events.EventKind.DISPATCHED if self._delayed:
                self._delayed = False
                return Line(f"{who} has its message now", Tone.QUIET)
        if event.kind not in WORDS:
            return None
        words, tone = WORDS[event.kind]
        left = duration((event.until or event.at) - event.at)
        return Line(words.format(who=who, text=event.text, left=left), tone)

    def _ended(self, event: events.RunEnded) -> Line:
        if event.final_status == RUNNING:
            return Line(self._how_to_resume(event) if event.round else self._not_begun, Tone.ALERT)
        tone = Tone.GOOD if event.final_status == PASS else Tone.BAD
        is_unproven = bool(event.proof) and not event.proven
        if is_unproven or (event.repository and event.final_status == PASS):
            tone = Tone.ALERT
        return Line("\n".join(self._verdict(event)), tone)

    def _how_to_resume(self, event: events.RunEnded) -> str:
        command = event.to_resume or f"cao resume {short_name(self._run)}"
        resume = self._stopped or f"{SAVED}. `{command}` resumes it"
        if not event.session_left:
            return resume if self._stopped or event.to_resume else f"{resume} with new agents"
        stop = self._stop(event.session_left)
        cao = f"{self._attach_prefix}cao"
        return f"{resume}. Its agents stay: `{cao} ls` lists them, `{stop}` ends them"

    def _verdict(self, event: events.RunEnded) -> Iterator[str]:
        run = short_name(self._run)
        # The proof itself said what was proven; why something was not is said again.
        missing = event.gaps and f"{NOT_PROVEN}: {event.gaps};"
        proof = f"{PROVEN}," if event.proven else missing
        dry = f"{DRY_RUN}: " if self._is_dry else ""
        verdict = f"{dry}{event.final_status}{proof and f', {proof}'} after "
        verdict += plural(event.round, "round")
        if event.branch:
            yield f"{verdict}, on branch {event.branch}"
        else:
            yield verdict + (f" (cao report {run} says more)" if run and not self._stopped else "")
        if event.look_at:
            yield f"Look at {event.look_at}" + (f": cao report {run}" if run else "")
        if event.before:
            yield f"Before the run and not committed: {event.before}"
        # Changes that the user's next git command would obey.
        yield from (f"Look first: {text}" for text in event.repository)
        if event.branch:
            yield from next_lines(DELIVERY, run)
        elif event.final_status != PASS:
            yield from self._after_fail(event, run)
        elif event.tree:
            yield "Its work tree and its branch are left, with nothing committed:"
            yield f"  Remove both: cao discard {run}"
        if event.session_left:
            tells = (
                "  End its agents, who stay:  "
                if event.branch
                else "Its agents stay. To end them: "
            )
            yield f"{tells}{self._stop(event.session_left)}"

    def _after_fail(self, event: events.RunEnded, run: str) -> Iterator[str]:
        yield from filter(None, [self._against, self._circling])
        if self._is_idle and self._by_gate:
            yield NO_CHANGE
        if event.tree:
            yield f"Its work is not committed. It is in {event.tree}"
            yield from next_lines(UNDELIVERED, run)
        if run:
            more = f"cao resume {run} --max-rounds {twice_as_many(event.round)}"
            yield f"Go on with more rounds: {more}"

    def _stop(self, session: str) -> str:
        what = short_name(self._run) or f"--session {session}"
        return f"{self._attach_prefix}cao stop {what}"


def reason_of_fail(step: events.TurnEnded | events.CheckEnded) -> str:
    """Say in one line why a round failed: `tests: `make test` ended with exit code 1`."""
    who = step.gate if isinstance(step, events.CheckEnded) else step.role
    quoted = f"“{step.reason}”" if isinstance(step, events.TurnEnded) and step.reason else ""
    words = " ".join(filter(None, [step.why, quoted]))
    shown = one_line(words if len(words) <= LONGEST_REASON else f"{words[:LONGEST_REASON]}…")
    return f"{who}: {shown or 'FAIL'}"


def delivery_words(branch: str, run: str) -> Iterator[str]:
    yield f"The work of {run} is on branch {branch}:"
    yield from next_lines(DELIVERY[1:], short_name(run))


def next_lines(ways: Sequence[tuple[str, str]], run: str) -> Iterator[str]:
    yield from (f"  {words}cao {word} {run}" for words, word in ways)


def place(step: events.TurnBegan | events.TurnEnded | events.CheckBegan | events.CheckEnded) -> str:
    if isinstance(step, events.CheckBegan | events.CheckEnded):
        return f"Round {step.round}, {step.gate}{point_words(step)}"
    cycle = f", cycle {step.cycle}" if step.reviewed else ""
    return f"Round {step.round}{cycle}, {step.role}"


def point_words(step: events.CheckBegan | events.CheckEnded) -> str:
    return POINTS.get(step.when, "").replace("{author}", step.author)


def _step_line(event: events.RunEvent) -> Line | None:
    match event:
        case events.Paused():
            return Line("The run is paused", Tone.ALERT)
        case events.Unpaused():
            return Line("The run goes on", Tone.QUIET)
        case events.AskDeclined():
            return Line(f"`{event.do}` changes nothing: {event.text}", Tone.ALERT)
        case events.Warned():
            return Line(f"Warning: {event.text}", Tone.ALERT)
        case events.NotConverging():
            return Line(event.text, Tone.ALERT)
        case events.CheckBegan():
            return Line(f"{place(event)} begins: {event.command}", Tone.QUIET)
        case _ if isinstance(event, events.Steered):
            return Line(f"By a person: {event.words}", Tone.ALERT)
        case events.FilesChanged():
            tone = Tone.QUIET if event.allowed else Tone.ALERT
            return Line(f"{event.role} {event.words}", tone)
        case events.TurnEnded() | events.CheckEnded():
            kept = f", {Path(event.archive).name}" if event.archive else ""
            why = (
                f" “{event.reason}”" if isinstance(event, events.TurnEnded) and event.reason else ""
            )
            is_early = isinstance(event, events.TurnEnded) and event.early
            detail = EARLY if is_early else event.detail
            text = f"{place(event)}: {detail}{why}  [{duration(event.seconds)}{kept}]"
            return Line(text, TONES.get(event.outcome, Tone.PLAIN))
    return None
