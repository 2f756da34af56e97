"""The kinds of turns that are measured: what the model does, and how the turn ends."""

from dataclasses import dataclass, replace
from enum import Enum, auto

from cli_agent_orchestrator.core.models import TerminalStatus
from tests.agents.driving import ASK_NOTHING, Kind
from tests.agents.installs import AGENTS


class Course(Enum):
    """What a person does in a turn."""

    WATCH = auto()
    ALLOW = auto()
    """Allows what the agent asks for."""
    CHOOSE = auto()
    """Takes the first answer to a question."""
    STOP = auto()
    """Presses the key that stops the turn."""


@dataclass(frozen=True, slots=True)
class TurnKind:
    """A kind of turn."""

    state: str
    """What is to be recognized; the turns of a state are shared out among its kinds."""
    name: str
    script: str
    """Markers for the stub, see tests/stubs/script.py; `{n}` is the number of the turn."""
    rest: TerminalStatus = TerminalStatus.COMPLETED
    """How it ends."""
    course: Course = Course.WATCH
    filler: int = 0
    """So many letters stand before the script, so that the message is folded."""
    shows: str = ""
    """What is on the screen before a person stops the turn."""
    makes: str = ""
    """The file in the working directory that is there before a person stops the turn."""
    permissions: str = "full"

    def message(self, number: int) -> str:
        """Return the message of a turn: no two are the same."""
        filler = ("word " * (self.filler // 5)).strip()
        return f"turn {number} {filler} {self.script.replace('{n}', str(number))}"


_FIRST = "[[answer:The first part.\n\n]]"

FINISHED = (
    TurnKind("finished", "short answer", "[[answer:number {n}]]"),
    TurnKind("finished", "answer of 400 lines", "[[lines:400]]"),
)
WORKING = (
    TurnKind("working", "thinking", "[[think:0.6]][[answer:thought {n}]]"),
    TurnKind("working", "silence", "[[pause:0.6]][[answer:at last {n}]]"),
)
STREAMING = (
    TurnKind("streaming", "list", f"{_FIRST}[[slow:0.6]][[lines:30]]"),
    TurnKind("streaming", "answer that quotes every sign", f"{_FIRST}[[slow:0.6]][[words]]"),
    TurnKind("streaming", "folded message", f"{_FIRST}[[slow:0.6]][[lines:9]]", filler=3000),
)
OTHERS = (
    TurnKind("tool running", "command", "[[run:sleep 0.4; echo ran]][[answer:ran {n}]]"),
    TurnKind("retrying", "HTTP 500, then an answer", "[[http:500x1]][[answer:at last {n}]]"),
    TurnKind(
        "waiting: permission",
        "command outside of the folder",
        "[[escalate:touch ../asked-{n}.txt]][[answer:made {n}]]",
        course=Course.ALLOW,
        permissions="ask",
    ),
    TurnKind("waiting: question", "two choices", "[[ask]][[answer:{n}]]", course=Course.CHOOSE),
)


def _stopped(name: str, script: str, *, shows: str = "", makes: str = "") -> TurnKind:
    idle = TerminalStatus.IDLE
    return TurnKind("interrupted", name, script, idle, Course.STOP, shows=shows, makes=makes)


INTERRUPTED = (
    _stopped("before the answer", "[[hold:never]]"),
    _stopped(
        "in the answer", "[[answer:Part {n} begins.\n\n]][[hold:never]]", shows="Part {n} begins."
    ),
    _stopped("in a command", "[[run:touch running-{n}; sleep 600]]", makes="running-{n}"),
)
FAILED = tuple(
    TurnKind(state, name, script, TerminalStatus.ERROR)
    for state, name, script in (
        ("failed", "HTTP 401", "[[http:401]]"),
        ("failed", "HTTP 500", "[[http:500]]"),
        ("failed", "HTTP 529", "[[http:529]]"),
        ("failed", "error in the stream", "[[fail]]"),
        ("failed", "connection cut", "[[cut]]"),
        ("rate or usage limit", "HTTP 429", "[[http:429]]"),
        ("rate or usage limit", "used up", "[[limit]]"),
    )
)
TURN_KINDS = (*FINISHED, *WORKING, *STREAMING, *OTHERS, *INTERRUPTED, *FAILED)


def turn_kinds(kind: Kind) -> list[TurnKind]:
    """Return the kinds of turns that an agent knows in a version."""
    manners = kind.manners
    asks_nothing = kind in ASK_NOTHING or not manners.has_questions
    known = []
    for turn in TURN_KINDS:
        if turn.course is Course.CHOOSE and asks_nothing:
            continue
        if turn.rest is TerminalStatus.ERROR and turn.script.strip("[]") not in manners.troubles:
            continue
        if "run:" in turn.script and not manners.runs_commands:
            continue
        if turn.course is Course.ALLOW and kind.agent not in AGENTS:
            turn = replace(turn, script=f"[[{manners.asks}]][[answer:made {{n}}]]")
        known.append(turn)
    return known
