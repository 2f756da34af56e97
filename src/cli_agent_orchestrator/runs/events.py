"""What a run tells while it lasts; what happens inside a turn, the handoff tells."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cli_agent_orchestrator.handoff.progress import HandoffEvent
from cli_agent_orchestrator.pipeline.machine import Check, Outcome
from cli_agent_orchestrator.pipeline.state import FinalStatus, Turn


@dataclass(frozen=True, slots=True)
class ServerChosen:
    """The server is there whose agents the run will use."""

    at: float
    url: str
    how: str
    """Why it is the one, in words."""


@dataclass(frozen=True, slots=True)
class AgentsStarting:
    """Agents are about to be started."""

    at: float
    """Unix time."""
    providers: Mapping[str, str]
    """Which agent each role is to have."""


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """One of them is there."""

    at: float
    name: str
    """The role."""
    terminal_id: str


@dataclass(frozen=True, slots=True)
class RunBegan:
    """The agents are there and the first turn can be taken."""

    at: float
    """Unix time."""
    session_name: str
    terminals: Mapping[str, str]
    """The id of each role's terminal."""
    providers: Mapping[str, str]
    """Which agent each role has."""
    archive: str
    """The folder in which all prompts and replies are kept."""
    resumed: bool = False
    replaced: tuple[str, ...] = field(default=())
    """The roles for which new agents were started."""
    permissions: str = ""
    """What the agents may do without asking; empty if the server does not say it."""


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """The state is saved, and the prompt is about to be sent."""

    at: float
    turn: Turn
    sequence: int
    terminal_id: str
    provider: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The reply has been judged, and the state after it is saved."""

    at: float
    turn: Turn
    sequence: int
    outcome: Outcome
    seconds: float
    """How long the agent worked; without the time it waited for a person."""
    archive: str
    """Where the reply is kept."""


@dataclass(frozen=True, slots=True)
class CheckBegan:
    """The command of a gate is about to be run."""

    at: float
    check: Check
    sequence: int
    command: str


@dataclass(frozen=True, slots=True)
class CheckEnded:
    """The command of a gate has ended, and the state after it is saved."""

    at: float
    check: Check
    sequence: int
    outcome: Outcome
    seconds: float
    archive: str
    """Where its output is kept."""


@dataclass(frozen=True, slots=True)
class Paused:
    """The run waits, as a person wants it, and nothing is begun until it is lifted."""

    at: float


@dataclass(frozen=True, slots=True)
class Unpaused:
    """The run goes on after a pause."""

    at: float


@dataclass(frozen=True, slots=True)
class Warned:
    """Something is not as it should be, but the run goes on."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over, with a verdict or without one."""

    at: float
    final_status: FinalStatus
    round: int
    exit_code: int
    reason: str = ""
    """Why there is no verdict."""
    session_left: str = ""
    """The session whose agents are still there; empty if there is none."""


RunEvent = (
    ServerChosen
    | AgentsStarting
    | AgentStarted
    | RunBegan
    | TurnBegan
    | HandoffEvent
    | TurnEnded
    | CheckBegan
    | CheckEnded
    | Paused
    | Unpaused
    | Warned
    | RunEnded
)
OnRunEvent = Callable[[RunEvent], None]


def tell_nobody(event: RunEvent) -> None:
    """Take an event and do nothing about it."""
