"""What the server must know about an agent CLI: a provider.

Everything here is pure. Screens come in as text, files and processes never do. A provider knows
nothing of tmux, time or terminals: it says what is on a screen, what to start and what to press.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from ..core.models import TerminalStatus


class Permissions(StrEnum):
    """What an agent may do without asking (setting AGENT_PERMISSIONS)."""

    WORKSPACE = "workspace"
    """Work in its folder, and not beyond, as far as the agent's own sandbox can do that."""
    FULL = "full"
    """Anything."""
    ASK = "ask"
    """Nothing that the agent itself would ask about."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The persona an agent is started with."""

    name: str
    description: str
    prompt: str


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What is known when an agent is about to be started."""

    program: str
    """The executable, already found."""
    version: tuple[int, ...]
    """What `program --version` said; empty if it could not be read."""
    args: tuple[str, ...]
    """The user's own arguments, appended last."""
    working_directory: str
    profile: Profile
    permissions: Permissions
    event_file: str
    """Where the agent's hooks append their events, one JSON object a line."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How an agent is started: never through a shell."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Set on top of the terminal's own environment."""
    raw_output: bool = False
    """Does the agent report its state in its output (see stream_state.py)?"""


@dataclass(frozen=True, slots=True)
class StartupQuestion:
    """A dialog that may come before the input box does."""

    name: str
    sign: str
    """Pattern of a line that no other dialog has."""
    advice: str
    choice: str | None = None
    """Pattern of the option that passes it; None if only a person may choose."""
    anytime: bool = False
    """May it come up in the middle of the work as well?"""


SIGN_IN = "sign in"
"""The name of a dialog in which somebody has to sign in: a run cannot wait for that."""


@dataclass(frozen=True, slots=True)
class Dialog:
    """A question an agent asks before it can be given work."""

    name: str
    """For people: `trust this folder`."""
    keys: tuple[str, ...]
    """tmux key names that pass it safely; empty if only a person may answer."""
    advice: str
    """What a person can do so that it is not asked again."""
    anytime: bool = False
    """Is it to be passed whenever it comes up, not only before the first message?"""

    @property
    def reason(self) -> str:
        """Why the agent cannot be given work, and what to do about it."""
        return f"it asks: {self.name}. {self.advice}"


class SignalKind(Enum):
    """What an agent's own signal says happened."""

    READY = "ready"
    CLEARED = "cleared"
    """A new conversation has begun in the middle of things."""
    SHORTENING = "shortening"
    """A person has the conversation shortened; no turn runs meanwhile."""
    SHORTENED = "shortened"
    """The conversation was shortened; a turn that runs goes on."""
    SUBMITTED = "submitted"
    WORKING = "working"
    ACTING = "acting"
    """A tool is about to be used; that says nothing about the status."""
    WAITING = "waiting"
    FINISHED = "finished"
    BACKGROUND = "background"
    """The turn is over, but what it started in the background works on."""
    CONSULTED = "consulted"
    """The session record tells how many programs were asked whether the turn may end."""
    STOPPED = "stopped"
    """The turn is over; whether it finished or failed, the session record or the screen tells."""
    ANSWERED = "answered"
    """The session record has an answer; the turn may go on."""
    ERRED = "erred"
    """The session record has an error in the place of an answer."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    ENDED = "ended"
    FOREIGN = "foreign"
    """The session record is not that of the person's own session: nothing in it counts."""


@dataclass(frozen=True, slots=True)
class AgentSignal:
    """One event of an agent's own making: a hook, a line of its session record."""

    kind: SignalKind
    detail: str
    """Its name in the agent's words, and what more there is to say: `StopFailure: rate limit`."""
    answer: str | None = None
    """The agent's last message, where the signal carries it whole."""
    transcript: str | None = None
    """Path of the agent's session record, where the signal names it."""
    at: float | None = None
    """The unix time at which it happened, where the signal says so."""
    agent: str | None = None
    """Which agent of the program it tells of: empty for the first, None if that is not known."""
    background: bool | None = None
    """Does something work in the background since then? None if that is not known."""
    consulted: int = 0
    """How many programs were asked whether the turn may end, ours among them."""
    revocable: bool = False
    """Does the agent go on all the same if another program objects?"""
    ends_aloud: bool = False
    """Is the end of this turn told by a signal, unless a person stops it?"""
    action: str = ""
    """What is about to be done, on one line, of a signal that tells of it."""


def _nothing(text: str) -> None:
    """Stand in where a title, a screen or a line of an agent says nothing."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One agent CLI. Each module of this package makes one."""

    name: str
    """As in the API: `codex`."""
    program: str
    """The executable's usual name."""
    install_hint: str
    """How to get the program, for the error when it is not there."""
    exit_keys: tuple[str, ...]
    """tmux key names that make an agent at rest quit, pressed one after the other."""
    clear_keys: tuple[str, ...]
    """tmux key names that empty the input box."""
    tested_versions: tuple[tuple[int, ...], ...]
    """Versions whose screens and signals were tested."""
    launch: Callable[[LaunchRequest], Launch]
    """Return the command and environment that start the agent with its profile."""
    detect_status: Callable[..., TerminalStatus]
    """Return what the visible screen, and as a second text the pane's title if known, say."""
    draft: Callable[[str], str | None]
    """Return the unsent text in the input box, None when no input box can be seen.

    Takes a capture with escape sequences, because a placeholder is told from a draft by its dim
    color alone. A folded paste counts as a draft by its placeholder text.
    """
    last_answer: Callable[[str], str]
    """Return the agent's last answer as far as the scrollback shows it, else an empty text."""
    title_status: Callable[[str], TerminalStatus | None] = _nothing
    """Return what the title alone says, None if it says nothing.

    IDLE stands for "at rest": a title does not tell idle from completed or failed.
    """
    startup_dialog: Callable[[str], Dialog | None] = _nothing
    """Return the start-up question on the screen, if there is one."""
    read_signal: Callable[[str], AgentSignal | None] = _nothing
    """Return what one line of the event file or session record says, None if nothing."""
    completes: str = ""
    """What words begin with that it would complete at the end of a message, for an Enter."""
    guards: Mapping[str, str] = field(default_factory=dict)
    """What a message must not begin with, for it would be no text, and what is typed before it."""
    marks_pastes: bool = False
    """Is a paste marked as one also before the agent asks for that?"""
    record_pattern: str = ""
    """What the path of its session record looks like, empty if it keeps none that is of use."""


# codex-cli 0.166.2
VERSION_PATTERN = r"[0-9]{1,9}(?:\.[0-9]{1,9})+"


def find_version(text: str) -> tuple[int, ...]:
    """Return the first version number in what a program says, empty if there is none.

    >>> find_version("2.1.105 (Claude Code)")
    (2, 1, 105)
    """
    found = re.search(VERSION_PATTERN, text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


STATE_PATTERN = rb"\x1b\]7501;([^\x07\x1b]*)(?:\x07|\x1b\\)"
START = b"\x1b]7501;"
MAX_REPORT = 256
"""A report that is not over after so many bytes is none."""

KIND_OF_STATE = {
    "working": SignalKind.WORKING,
    "blocked": SignalKind.WAITING,
    "done": SignalKind.FINISHED,
    "error": SignalKind.FAILED,
    "idle": SignalKind.READY,
}


def read_states(data: bytes) -> tuple[list[AgentSignal], bytes]:
    """Return the reports in a piece of output, and what must stand before the next piece."""
    signals = []
    end = 0
    for found in re.finditer(STATE_PATTERN, data):
        end = found.end()
        fields = found[1].decode("utf-8", "replace").split(":")
        state = next((f[6:] for f in fields if f.startswith("state=")), "")
        if state in KIND_OF_STATE:
            signals.append(AgentSignal(KIND_OF_STATE[state], state))
    data = data[end:]
    begun = data.rfind(START)
    if begun < 0:
        cuts = (length for length in range(len(START) - 1, 0, -1) if data.endswith(START[:length]))
        begun = len(data) - next(cuts, 0)
    rest = data[begun:]
    return signals, rest if len(rest) <= MAX_REPORT else b""


@dataclass(frozen=True, slots=True)
class Marks:
    """What can be seen of an agent. Of the newest turn: how it ended, if it did."""

    asks: bool
    """A dialog stands in the place of the input box."""
    ready: bool
    """The input box is there, and nothing hides what is told beside it."""
    working: bool
    failed: bool
    replied: bool
    interrupted: bool = False
    drafted: bool = False
    """There is text in the input box."""

    def status(self, told: TerminalStatus | None = None) -> TerminalStatus:
        """Return the status, given what the title says besides."""
        if self.asks or told is TerminalStatus.WAITING_USER_ANSWER:
            return TerminalStatus.WAITING_USER_ANSWER
        if self.working or told is TerminalStatus.PROCESSING:
            return TerminalStatus.PROCESSING
        if not self.ready:
            return TerminalStatus.UNKNOWN
        if self.interrupted:
            return TerminalStatus.IDLE
        if self.failed:
            # Stopped before any answer, a turn may leave the screen: its text is back in the box,
            # and the failure is that of an older one.
            return TerminalStatus.IDLE if self.drafted else TerminalStatus.ERROR
        return TerminalStatus.COMPLETED if self.replied else TerminalStatus.IDLE
