"""What the server must know about an agent CLI: a provider.

Everything here is pure: a provider knows nothing of tmux, time or terminals. It says what is on a
screen, what to start and what to press.
"""

import re
from collections.abc import Callable, Mapping, Set
from enum import Enum, StrEnum

from msgspec import Struct, field

from ..core.models import TerminalStatus


class Permissions(StrEnum):
    """What an agent may do without asking (setting AGENT_PERMISSIONS)."""

    WORKSPACE = "workspace"
    """Work in its folder, and not beyond, as far as the agent's own sandbox can do that."""
    FULL = "full"
    ASK = "ask"
    """Nothing that the agent itself would ask about."""


class LaunchRequest(Struct, frozen=True):
    program: str
    version: tuple[int, ...]
    """What `program --version` said; empty if it could not be read."""
    args: tuple[str, ...]
    """The user's own arguments, appended last."""
    working_directory: str
    profile: str
    """Its name; `prompt` is the text."""
    prompt: str
    permissions: Permissions
    event_file: str
    """Where the agent's hooks append their events, one JSON object a line."""

    def has_any(self, options: Set[str]) -> bool:
        """Does the user give one of these options, alone or as `--option=value`?"""
        return any(argument.split("=")[0] in options for argument in self.args)


class Launch(Struct, frozen=True):
    """How an agent is started: never through a shell."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Set on top of the terminal's own environment."""
    raw_output: bool = False
    """Does the agent report its state in its output (see `read_states`)?"""
    pieces: Callable[[str], list[str]] | None = None
    """Cut a message into what is pasted one after the other; None if that is done as a whole."""


SIGN_IN = "sign in"
"""The name of a dialog in which a person has to sign in: a run cannot wait for that."""


class Dialog(Struct, frozen=True):
    """A question an agent asks before it can be given work."""

    name: str
    advice: str
    """What a person can do so that it is not asked again."""
    keys: tuple[str, ...] = ()
    """tmux key names that pass it safely; empty if only a person may answer."""
    sign: str = ""
    """Pattern of a line that no other dialog has."""
    choice: str | None = None
    """Pattern of the option that passes it; None if only a person may choose."""
    anytime: bool = False
    """Is it passed whenever it comes up, not only before the first message?"""

    @property
    def reason(self) -> str:
        return f"it asks: {self.name}. {self.advice}"


class SignalKind(Enum):
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


class AgentSignal(Struct, frozen=True):
    kind: SignalKind
    detail: str
    """Its name in the agent's words, with more if there is more: `StopFailure: rate limit`."""
    answer: str | None = None
    """The agent's last message, if the signal has all of it."""
    transcript: str | None = None
    at: float | None = None
    agent: str | None = None
    """Which agent of the program it is about: empty for the first, None if not known."""
    background: bool | None = None
    """Does something work in the background since then? None if not known."""
    consulted: int = 0
    """How many programs were asked whether the turn may end, ours included."""
    revocable: bool = False
    """May the agent go on all the same: if another program objects, or when a limit is reset?"""
    ends_aloud: bool = False
    """Does a signal report the end of this turn, unless a person stops it?"""
    action: str = ""


def _nothing(text: str) -> None:
    """Stand in where a title, a screen or a line of an agent says nothing."""


class Provider(Struct, frozen=True):
    """One agent CLI; docs/writing-a-provider.md has the contract."""

    name: str
    program: str
    install_hint: str
    exit_keys: tuple[str, ...]
    """tmux key names that make an agent at rest quit, pressed one after the other."""
    clear_keys: tuple[str, ...]
    tested_versions: tuple[tuple[int, ...], ...]
    launch: Callable[[LaunchRequest], Launch]
    detect_status: Callable[..., TerminalStatus]
    """Return what the visible screen, and the pane's title if known, show."""
    draft: Callable[[str], str | None]
    """Return the unsent text in the input box, None when no input box can be seen.

    Takes a capture with escape sequences: only its dim color tells a placeholder from a draft.
    """
    last_answer: Callable[[str], str]
    """Return the agent's last answer as far as the scrollback shows it, else an empty text."""
    title_status: Callable[[str], TerminalStatus | None] = _nothing
    """Return what the title alone shows, None if nothing. IDLE means "at rest": a title does not
    tell idle from completed or failed.
    """
    wakes: Callable[[str], str | None] = _nothing
    """Return when it goes on by itself after a usage limit, None if the screen does not say so."""
    startup_dialog: Callable[[str], Dialog | None] = _nothing
    read_signal: Callable[[str], AgentSignal | None] = _nothing
    """Return what one line of the event file or session record reports."""
    idle_mark: str = r"(?!)"
    """Pattern by which a screen at rest shows that the newest turn was stopped, or none began."""
    completes: str = ""
    """First characters of words that it would complete at the end of a message."""
    continues: str = ""
    """Last characters of a message that would make a line end of the Enter."""
    guards: Mapping[str, str] = field(default_factory=dict)
    """First characters that would make a message something else, and what is typed before them."""
    marks_pastes: bool = False
    """Is a paste marked as one even before the agent asks for that?"""
    record_pattern: str = ""
    """Pattern of its session record's path, empty if it keeps none that is of use."""
    submit_keys: tuple[str, ...] = ("Enter",)
    file: str = ""
    """The user's own file that describes it; empty for an agent of ours."""
    by_rest: bool = False
    """Is nothing known of its marks? Then change and rest of its screen tell the status."""


# codex-cli 0.166.2
VERSION_PATTERN = r"[0-9]{1,9}(?:\.[0-9]{1,9})+"


def find_version(text: str) -> tuple[int, ...]:
    """Return the first version number in what a program says, empty if there is none."""
    found = re.search(VERSION_PATTERN, text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


STATE_PATTERN = rb"\x1b\]7501;([^\x07\x1b]*)(?:\x07|\x1b\\)"
START = b"\x1b]7501;"
MAX_REPORT = 256
"""A report that has no end after so many bytes is none."""

KIND_OF_STATE = {
    "working": SignalKind.WORKING,
    "blocked": SignalKind.WAITING,
    "done": SignalKind.FINISHED,
    "error": SignalKind.FAILED,
    "idle": SignalKind.READY,
}


def read_states(data: bytes) -> tuple[list[AgentSignal], bytes]:
    """Return the reports in a piece of output, and what to put before the next piece."""
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


def status_of(
    *,
    asks: bool,
    ready: bool,
    working: bool,
    failed: bool,
    replied: bool,
    interrupted: bool = False,
    drafted: bool = False,
    told: TerminalStatus | None = None,
) -> TerminalStatus:
    """Return the status of an agent whose screen shows these marks and whose title says `told`.

    `asks`: a dialog stands in the place of the input box. `ready`: the input box is in sight, and
    nothing hides what is shown beside it. `drafted`: there is text in it. `failed`, `replied` and
    `interrupted` say how the newest turn ended, if it did.
    """
    if asks or told is TerminalStatus.WAITING_USER_ANSWER:
        return TerminalStatus.WAITING_USER_ANSWER
    if working or told is TerminalStatus.PROCESSING:
        return TerminalStatus.PROCESSING
    if not ready:
        return TerminalStatus.UNKNOWN
    # Stopped before any answer, a turn may leave the screen: its text is back in the box, and a
    # failure is that of an older one.
    if interrupted or (failed and drafted):
        return TerminalStatus.IDLE
    if failed:
        return TerminalStatus.ERROR
    return TerminalStatus.COMPLETED if replied else TerminalStatus.IDLE


def not_found(provider: Provider, wanted: str, place: str) -> str:
    where = f"{provider.file}, program: " if wanted == provider.program and provider.file else ""
    return (
        f"{where}there is no program {wanted!r} {place}. If it is elsewhere, name it in "
        f"CAO_{provider.name.upper()}_COMMAND. If it is not installed: {provider.install_hint}"
    )
