"""The words both halves share: statuses, terminals, sessions, deliveries, explanations."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ..errors import MessageTooLarge, RunLocked, UsageError

MESSAGE_LIMIT = 8 * 1024 * 1024
"""Bytes of UTF-8 in one message."""
RUN_INDEX = "CAO_RUN_INDEX"
"""The variable in which what belongs to a run finds the run's number."""
LATEST_TIME = 253_402_128_000.0
"""Unix time that every calendar has, in any zone: the end of the year 9999, less two days."""
MOST_RUNS = 1000
"""How many numbers there are."""


class TerminalStatus(StrEnum):
    """What an agent is doing, in the words of the API."""

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
    """What can happen to a file that is watched."""

    WRITING = "writing"
    """Somebody writes to it and has not closed it."""
    CLOSED = "closed"
    """It was closed after writing, or moved to its place."""
    TOUCHED = "touched"
    """It was made, but not as a file; or something happened that this system cannot tell apart."""


class OutputMode(StrEnum):
    """Which part of a terminal's output is wanted."""

    FULL = "full"
    """The whole scrollback."""
    LAST = "last"
    """The last answer alone."""
    SCREEN = "screen"
    """What is visible now."""


@dataclass(frozen=True, slots=True)
class AgentView:
    """What can be seen of an agent."""

    screen: str
    """What is visible now."""
    records: tuple[str, ...] = ()
    """Where it keeps its own records, as far as the server has found them."""


@dataclass(frozen=True, slots=True)
class NewTerminal:
    """What a terminal to be created shall be."""

    provider: str
    agent_profile: str
    working_directory: str | None = None
    permissions: str | None = None
    """What the agent may do without asking; None: what the server was started with."""
    for_step: bool = False
    """Is it to end with the one step that it is for?"""
    role: str | None = None
    """What the agent is for in a run; None: its profile says enough."""
    run_index: int | None = None
    """The number of that run; None: it belongs to none."""
    record: bool = False
    """Are its screens to be recorded, if it is of a run that the server knows?"""


@dataclass(frozen=True, slots=True)
class TerminalFacts:
    """What is true of a terminal from its start to its end."""

    id: str
    name: str
    provider: str
    session_name: str
    agent_profile: str
    working_directory: str
    permissions: str | None = field(default=None, kw_only=True)
    """What it may do without asking; None if an earlier version started it, which kept no note."""
    role: str | None = field(default=None, kw_only=True)
    """What it is for in a run; None if whoever started it did not say."""
    created_at: float | None = field(default=None, kw_only=True)
    """Unix time."""


@dataclass(frozen=True, slots=True)
class Terminal(TerminalFacts):
    """One tmux window with one agent in it."""

    status: TerminalStatus
    last_active: float
    """Unix time of the last change of status or input."""
    alive: bool = True
    exit_code: int | None = None
    """How the agent's program ended; a signal counts as 128 + its number."""
    action: str = ""
    """What the agent said last that it does, on one line; empty if it did not say."""


@dataclass(frozen=True, slots=True)
class Session:
    """The tmux session that groups the terminals of a run."""

    name: str
    terminals: tuple[Terminal, ...]


@dataclass(frozen=True, slots=True)
class RunAgents:
    """Where the agents of a run are."""

    run: str
    """Its id."""
    api: str
    """The server that it said to use, if it is known."""
    session_name: str
    terminals: Mapping[str, str]
    """Ids by role."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a message that was typed into a terminal."""

    confirmed: bool
    """True only after a positive sign that the agent took the message."""
    detail: str
    """The sign that confirmed it, or what is known about a message that could not be confirmed."""
    enter_presses: int = 0
    removed_characters: int = 0
    """How many control characters were taken out of the message."""


@dataclass(frozen=True, slots=True)
class Step:
    """One message to an agent of its own, asked for as a whole."""

    new: NewTerminal
    prompt: str
    session_name: str | None = None
    """A session to join, or to make; None makes one of a name of its own."""
    seconds: float = 600.0
    """How long the agent may work."""
    keep: bool = False
    """Does the terminal stay when the answer is there?"""


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """What came of a step."""

    terminal_id: str
    answer: str
    status: TerminalStatus


@dataclass(frozen=True, slots=True)
class Evidence:
    """One signal about a terminal: who said it, what it says, and when."""

    source: str
    status: TerminalStatus | None
    detail: str
    at: float
    """Unix time; of a screen or a title since when it says so."""
    found: bool = False
    """Was it so already when the server began? Then nobody knows since when."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a terminal has the status it has."""

    status: TerminalStatus
    reason: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answers that an agent offers."""

    key: str
    """The key that picks it."""
    label: str


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent asks and waits for."""

    text: str
    choices: tuple[Choice, ...]
    """Empty if its screen does not tell; its text is then the end of the screen."""
    fingerprint: str
    """Stands for this very asking: who answers with it answers nothing else."""


@dataclass(frozen=True, slots=True)
class TerminalEvent:
    """Something that happened to a terminal, as the event stream tells it."""

    id: str
    """Resume point: `<server start>-<number>`; empty where resuming would lose something."""
    kind: str
    """`status`, `action`, `removed`, or `snapshot` (the state at the moment of subscribing)."""
    terminal_id: str
    session_name: str
    status: TerminalStatus
    reason: str
    at: float
    """Unix time."""
    alive: bool = True
    exit_code: int | None = None
    action: str = ""
    """What the agent said last that it does, on one line."""


def check_size(message: str) -> str:
    size = len(message.encode())
    if size > MESSAGE_LIMIT:
        raise MessageTooLarge(size, MESSAGE_LIMIT)
    return message


EXIT_PASS = 0
EXIT_FAIL = 1
"""All rounds are used up."""
EXIT_USAGE = 2
EXIT_ERROR = 3
"""A run that was stopped by an error can be resumed."""
EXIT_INTERRUPTED = 130
EXIT_CLOSED = 141
"""Nobody reads the output any more; what a shell shows for a program that SIGPIPE ended."""


def exit_code_of(error: Exception) -> int:
    """Return how a command ends that an error keeps from going on."""
    # Where another run works, nothing was begun that could be resumed.
    return EXIT_USAGE if isinstance(error, UsageError | RunLocked) else EXIT_ERROR


BUILT_IN = "scripted"
DRY_RUN = "DRY RUN"


def is_dry(agents: Iterable[str]) -> bool:
    """Was one of these agents the built-in one, which obeys a script?"""
    return BUILT_IN in agents
