"""The words both halves share: statuses, terminals, sessions, deliveries, explanations."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from ..errors import MessageTooLarge

MESSAGE_LIMIT = 8 * 1024 * 1024
"""Bytes of UTF-8 in one message."""
RUN_INDEX = "CAO_RUN_INDEX"
"""The variable in which what belongs to a run finds the run's number."""
LATEST_TIME = 253_402_128_000.0
"""Unix time that every calendar has, in any zone: the end of the year 9999, less two days."""
MOST_RUNS = 1000


class TerminalStatus(StrEnum):
    UNKNOWN = "unknown"
    IDLE = "idle"
    PROCESSING = "processing"
    COMPLETED = "completed"
    WAITING_USER_ANSWER = "waiting_user_answer"
    ERROR = "error"

    @property
    def at_rest(self) -> bool:
        """Is the agent's turn over, so that it can take a new one?"""
        return self in (TerminalStatus.IDLE, TerminalStatus.COMPLETED)


class Feature(StrEnum):
    """What a server of ours can do beyond the common routes."""

    INPUT_BODY = "input-body"
    """Messages of any size, and a key with each that keeps it from being typed twice."""
    EVENTS = "events"
    EXPLAIN = "explain"
    PERMISSIONS = "permissions"
    RUN_STEP = "run-step"
    RUNS = "runs"
    ROLES = "roles"
    """A terminal can be told the role of its agent, and is named after it."""


class FileChange(StrEnum):
    WRITING = "writing"
    CLOSED = "closed"
    """It was closed after writing, or moved to its place."""
    TOUCHED = "touched"
    """It was made, but not as a file; or something happened that this system cannot tell apart."""


class OutputMode(StrEnum):
    FULL = "full"
    LAST = "last"
    SCREEN = "screen"


class AgentView(Struct, frozen=True):
    screen: str
    records: tuple[str, ...] = ()


class NewTerminal(Struct, frozen=True):
    provider: str
    agent_profile: str
    working_directory: str | None = None
    permissions: str | None = None
    for_step: bool = False
    role: str | None = None
    run_index: int | None = None
    record: bool = False


class TerminalFacts(Struct, frozen=True):
    id: str
    name: str
    provider: str
    session_name: str
    agent_profile: str
    working_directory: str
    permissions: str | None = None
    """What it may do without asking; None if an earlier version started it, which kept no note."""
    role: str | None = None
    created_at: float | None = None


class Terminal(TerminalFacts, frozen=True, kw_only=True):
    status: TerminalStatus
    last_active: str
    """Time of the last change of status or input, in UTC."""
    alive: bool = True
    exit_code: int | None = None
    """How the agent's program ended; a signal counts as 128 + its number."""
    action: str = ""
    """What the agent said last that it does, on one line; empty if it did not say."""
    wakes: str = ""
    """When it goes on by itself after a usage limit, in its own words; else empty."""


class Session(Struct, frozen=True):
    name: str
    terminals: tuple[Terminal, ...]


class RunAgents(Struct, frozen=True):
    run: str
    api: str
    """The server that it said to use, if it is known."""
    session_name: str
    terminals: Mapping[str, str]


class Asked(Struct, frozen=True):
    """The answer to a request to a run or its agent."""

    heard: bool
    """False if the run has not processed it yet."""
    text: str
    """What the run does now, as a sentence."""


class TreeFacts(Struct, frozen=True, kw_only=True):
    """What is kept of a work tree in the record of its run, too."""

    branch: str = ""
    base: str = ""
    """The commit that it began at."""
    tip: str = ""
    """The last commit of ours in the branch, or the one it began at."""
    onto: str = ""
    """The branch that the user had checked out; empty if there was none."""
    name: str = ""
    """What git calls it, if not by the name of its folder."""
    included: tuple[str, ...] = ()
    """Files of the user's that were copied into it; no commit gets them."""
    held_back: tuple[str, ...] = ()
    """Paths that are left out of it; commits have there what `tip` has."""


class TurnFacts(Struct, frozen=True):
    """A turn of a run: of an agent, or the command of a gate."""

    sequence: int
    """Its number in the run, under which prompt and reply are kept."""
    role: str
    """Of a gate its name."""
    round: int
    cycle: int
    provider: str
    """Of a gate `command`."""
    terminal_id: str
    began: float
    ended: float | None = None
    """Unknown while it is under way. One that has ended without an outcome was broken off."""
    seconds: float = 0.0
    """How long the agent worked."""
    outcome: str = ""
    """As a word; empty while there is no reply."""
    detail: str = ""
    """The outcome for people, with its reason."""
    reviewed: bool = True
    """Does a review follow, or is it one?"""
    verdict: str = ""
    """`detail` without what follows from it."""
    why: str = ""
    """What the verdict rests on."""
    reason: str = ""
    """The first point against the work in the agent's own words; empty if there is none."""
    early: bool = False
    """Is it an approval that came too early to count, and nothing else speaks against it?"""


class Tokens(Struct, frozen=True):
    """In one meaning for all agents."""

    input: int
    cached_input: int
    """The part of it that was read from a cache."""
    output: int
    reasoning: int | None
    """The part of it that was reasoning; null if the agent does not tell it."""

    def __add__(self, other: "Tokens") -> "Tokens":
        known = self.reasoning is not None and other.reasoning is not None
        return Tokens(
            self.input + other.input,
            self.cached_input + other.cached_input,
            self.output + other.output,
            (self.reasoning or 0) + (other.reasoning or 0) if known else None,
        )


class Delivery(Struct, frozen=True):
    confirmed: bool
    """True only after a positive sign that the agent took the message."""
    detail: str
    """The sign that confirmed it, or what is known about a message that could not be confirmed."""
    enter_presses: int = 0
    removed_characters: int = 0


class Step(Struct, frozen=True):
    new: NewTerminal
    prompt: str
    session_name: str | None = None
    """A session to join, or to make; None makes one of a name of its own."""
    seconds: float = 600.0
    keep: bool = False


class StepAnswer(Struct, frozen=True):
    terminal_id: str
    last_message: str
    status: TerminalStatus
    replayed: bool = False
    """False: answers are never taken from an earlier step."""


class Evidence(Struct, frozen=True):
    """One signal about a terminal: who said it, what it says, and when."""

    source: str
    status: TerminalStatus | None
    detail: str
    at: float
    """Unix time; of a screen or a title since when it says so."""
    found: bool = False
    """Was it so already when the server began? Then it is unknown since when."""


class Explanation(Struct, frozen=True):
    status: TerminalStatus
    reason: str
    evidence: tuple[Evidence, ...]


class Choice(Struct, frozen=True):
    key: str
    label: str


class Question(Struct, frozen=True):
    text: str
    choices: tuple[Choice, ...]
    """Empty if its screen does not tell; its text is then the end of the screen."""
    fingerprint: str
    """Identifies this very question: an answer with it answers no other."""
    advice: str = ""
    """What to do where its terminal is no place to answer it, as to sign in; else empty."""


class TerminalEvent(Struct, frozen=True):
    id: str
    """Resume point: `<server start>-<number>`; empty where resuming would lose something."""
    kind: str
    """`status`, `action`, `removed`, or `snapshot` (the state at the moment of subscribing)."""
    terminal_id: str
    session_name: str
    status: TerminalStatus
    reason: str
    at: float
    alive: bool = True
    exit_code: int | None = None
    action: str = ""
    wakes: str = ""


def check_size(message: str) -> str:
    size = len(message.encode())
    if size > MESSAGE_LIMIT:
        raise MessageTooLarge(size, MESSAGE_LIMIT)
    return message


BUILT_IN = "scripted"
DRY_RUN = "DRY RUN"


def is_dry(agents: Iterable[str]) -> bool:
    """Was one of these agents the built-in one, which obeys a script?"""
    return BUILT_IN in agents
