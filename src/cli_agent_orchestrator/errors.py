"""Every error that a user or a client of the product gets to see.

    OrchestratorError
    ├── UsageError (ValueError)         what was asked for cannot be right
    │   ├── ConfigError                 a setting has a bad value
    │   ├── ResumeChoice                the saved run may not be the one that is meant
    │   ├── PromptError                 the task file isn't in the expected format
    │   ├── FlowError                   a flow file has a fault
    │   ├── UnknownName                 no such provider, profile, key
    │   ├── NotAllowed                  a project's file wants commands that nobody allowed
    │   ├── NotFound (LookupError)      no terminal, session or run of that name
    │   ├── BadFolder                   a working directory that cannot be used
    │   ├── NotSteerable                what was asked of a run cannot be done as it stands
    │   ├── BadMessage                  a message that cannot be typed
    │   └── MessageTooLarge             a message over the limit
    ├── InputRefused                    the terminal cannot take input now
    ├── QuestionGone                    what was to be answered is not asked any more
    ├── StartError                      an agent could not be started
    │   └── ProgramEnded                its program ended before it could be given work
    ├── StepFailed                      the agent of a step gave no answer
    │   └── StepTimeout                 it did not end its work in time
    ├── ServerEnding                    the server was told to stop before it could answer
    ├── ServerConflict                  another server owns the state folder or the port
    │   ├── FolderTaken                 it owns the state folder
    │   └── ServerSilent                it owns the state folder and does not answer
    ├── StoreError                      the server's store cannot be read or written
    ├── GitError                        git cannot do what a run needs
    │   ├── GitMissing (UsageError)     git is not installed
    │   └── GitFailed                   git refused a command
    ├── TmuxError
    │   ├── TmuxMissing (UsageError)    tmux is not installed or too old
    │   ├── TmuxCommandError            tmux refused a command
    │   └── TmuxGone                    the connection to tmux ended
    ├── ApiError                        seen by a client of the server
    │   ├── ApiUnreachable              no answer: the request was not received, or nobody knows
    │   └── ApiRefused                  the server answered with an error
    ├── HandoffError (RuntimeError)     a turn ended without a reply
    │   ├── NoResponseFile              the agent came to rest and wrote no response file
    │   ├── FolderGone                  the folder in which the agent works was removed
    │   └── TurnFailed                  the agent is in error
    ├── HandoffTimeout (TimeoutError)   a turn did not end in time
    ├── OutputClosed                    nobody reads any more what a command prints
    └── RunError                        a run cannot start or go on
        ├── RunLocked                   another is at work in the same folder, or on the same run
        ├── StateError                  the state file cannot be read or written
        └── ResumeError                 the saved run cannot be resumed

What becomes of them is decided in two places: `api/problems.py` makes HTTP of them, `exit_codes.py`
the exit code of a command or a run. Their text says what to do next.

Outside of the tree is `Stopped`: nothing went wrong, somebody asked to stop.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from urllib.parse import unquote

NAMED = {
    # first part of a route: what it is about, and the command that lists these
    "terminals": ("terminal", "cao ls"),
    "sessions": ("session", "cao ls"),
    "runs": ("run", "cao runs"),
}
NAMELESS = ("", "run-step")
"""Second parts of routes that are no names."""


MOST_LISTED, LONGEST_LIST = 5, 100
# [Errno 111] Connection refused
NUMBER_PATTERN = r"\[Errno -?\d+\] "


def in_words(error: Exception) -> str:
    """Return what an error of the system says, without its number.

    >>> in_words(ConnectionRefusedError(111, "Connection refused"))
    'Connection refused'
    """
    return re.sub(NUMBER_PATTERN, "", str(error))


class OrchestratorError(Exception):
    """The root of the tree."""

    def __init__(self, *told: object, to_resume: str = "") -> None:
        super().__init__(*told)
        self.to_resume = to_resume
        """The command that resumes the run which it stopped, if it has to be a special one."""

    def drop_advice(self) -> None:
        """Leave its first line: what the others advise is of no use any more."""
        self.args = (str(self).partition("\n")[0],)
        self.to_resume = ""


class Stopped(Exception):
    """Something was left because a stop was asked for; it can be taken up again."""


class UsageError(OrchestratorError, ValueError):
    """What was asked for cannot be right, whatever the state of the world."""


class ConfigError(UsageError):
    """A setting has a bad value."""

    def __init__(self, variable: str, value: object, expected: str) -> None:
        super().__init__(f"{variable} is {value!r}, expected {expected}")
        self.variable = variable
        self.value = value
        self.expected = expected


class PromptError(UsageError):
    """The task file isn't in the expected format."""


class FlowError(UsageError):
    """A flow file, or a prompt template of it, has a fault."""

    def __init__(self, where: str, place: str, fault: str, expected: str) -> None:
        """Name the file and the place in it: a key such as `roles.tester.sees`, or a line."""
        super().__init__(f"{where}, {place}: {fault}; expected {expected}")
        self.where = where
        self.place = place
        self.fault = fault
        self.expected = expected


class ResumeChoice(UsageError):
    """Something speaks against resuming the saved run; the user has to say what is meant."""


class UnknownName(UsageError):
    """There is no provider, profile or key of that name."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(known)
        super().__init__(
            f"unknown {kind} {name!r}{suggestion(name, self.known)}; "
            f"there are: {', '.join(self.known) or 'none'}"
        )


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return what was probably meant, ready to be put behind a name; nothing if nobody knows.

    >>> suggestion("claude", ["codex", "claude_code"])
    ' (did you mean claude_code?)'
    >>> suggestion("cluade", ["codex", "claude_code"])
    ' (did you mean claude_code?)'
    """
    known = list(known)
    word = name.strip().lower().replace("-", "_")
    meant = [one for one in known if word and one.startswith(word)]
    meant = meant or get_close_matches(word, known, 1)
    if not meant:
        close = get_close_matches(word, [one.partition("_")[0] for one in known], 1)
        meant = [one for one in known if one.partition("_")[0] in close]
    return f" (did you mean {' or '.join(meant)}?)" if meant else ""


class BadFolder(UsageError):
    """A working directory that does not exist or may not be used."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(f"working directory {folder!r} {reason}")
        self.folder = folder


class NotSteerable(UsageError):
    """What was asked of a run cannot be done as it stands: it has ended, no review is due."""


class BadMessage(UsageError):
    """A message that cannot be typed into a terminal, an empty one for example."""


class MessageTooLarge(UsageError):
    """A message over the limit."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"the message has {size} bytes; at most {limit} can be sent")
        self.size = size
        self.limit = limit


class NotAllowed(UsageError):
    """A project's own file wants commands to be run that the user has not allowed."""

    def __init__(self, folder: object, commands: str, file: str = "") -> None:
        """Take the folder of the project, and the file if it is not the `cao.toml` there."""
        listed = "\n".join(f"  {line}" for line in commands.split("\n"))
        how = "--trust" if file else "`cao trust` in that folder or with --trust"
        super().__init__(
            f"{file or f'cao.toml in {folder}'} wants these commands to be run:\n{listed}\n"
            f"Look at them, and allow them with {how}; nothing was run"
        )
        self.commands = commands


def listed(known: Sequence[str]) -> str:
    """Return what there is: side by side if it is little, else a line for each of the first."""
    if len(known) <= MOST_LISTED and sum(map(len, known)) <= LONGEST_LIST:
        return ", ".join(known) or "none"
    more = len(known) - MOST_LISTED
    return "\n  ".join(["", *known[:MOST_LISTED], *([f"and {more} more"] if more > 0 else [])])


class NotFound(UsageError, LookupError):
    """There is no terminal, session or run of that name."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(known)
        super().__init__(f"no {kind} {name!r}; there are: {listed(self.known)}")


class InputRefused(OrchestratorError):
    """The terminal cannot take input now; nothing was typed."""

    def __init__(self, terminal_id: str, reason: str) -> None:
        super().__init__(f"terminal {terminal_id} cannot take input: {reason}")
        self.terminal_id = terminal_id
        self.reason = reason


class QuestionGone(OrchestratorError):
    """What was to be answered is not asked any more; nothing was pressed."""

    def __init__(self, terminal_id: str, what_became: str, role: str | None = None) -> None:
        who = f"the {role}" if role else f"terminal {terminal_id}"
        super().__init__(f"This question of {who} {what_became}; nothing was pressed")
        self.terminal_id = terminal_id


MOST_ROWS = 8


def _end_of_screen(screen: str) -> str:
    """Return the last rows of a screen, below a heading: the cause is there, art is above it."""
    rows = [row.rstrip() for row in screen.splitlines() if row.strip()][-MOST_ROWS:]
    return "\nThe end of its screen:\n" + "\n".join(rows) if rows else ""


class StartError(OrchestratorError):
    """An agent could not be started; nothing of it is left behind."""

    def __init__(self, provider: str, reason: str, last_screen: str = "") -> None:
        super().__init__(f"{provider} could not be started: {reason}{_end_of_screen(last_screen)}")
        self.provider = provider
        self.reason = reason
        self.last_screen = last_screen


class ProgramEnded(StartError):
    """The agent's program ended before it could be given work."""


class StepFailed(OrchestratorError):
    """The agent of a step gave no answer; its terminal is removed."""

    def __init__(self, provider: str, reason: str, last_screen: str = "") -> None:
        self.summary = text = f"{provider} gave no answer: {reason}"
        """Without the screen, which may show the prompt."""
        super().__init__(f"{text}{_end_of_screen(last_screen)}")


class StepTimeout(StepFailed):
    """The agent of a step did not end its work in time."""


class ServerEnding(OrchestratorError):
    """The server was told to stop before it could answer."""

    def __init__(self) -> None:
        super().__init__("the server is stopping: try again when it is back")


class ServerConflict(OrchestratorError):
    """Another server owns the state folder or the port."""


class FolderTaken(ServerConflict):
    """Another server owns the state folder."""

    def __init__(self, folder: str, pid: int | None, run: str = "") -> None:
        whose = f"is the own server of run {run}" if run else "may be the own server of a run"
        super().__init__(
            f"another server{_process(pid)} uses the state folder {folder}; it {whose}, which ends "
            "with that run. Your commands and `cao dashboard` use it meanwhile. For a second "
            "one, set CAO_STATE_DIR to another folder"
        )
        self.folder = folder
        self.pid = pid


class ServerSilent(ServerConflict):
    """The server of the state folder does not answer."""

    def __init__(self, taken: FolderTaken, *, is_stopped: bool) -> None:
        pid = taken.pid or "PID"
        how = "is stopped" if is_stopped else "gives no answer that can be used"
        go_on = f"let it go on with `kill -CONT {pid}`, or " if is_stopped else ""
        super().__init__(
            f"the server{_process(taken.pid)} that has the state folder {taken.folder} {how}; "
            f"{go_on}end it with `kill -9 {pid}` (the agents go on without it)"
        )


def _process(pid: int | None) -> str:
    return "" if pid is None else f" (process {pid})"


class StoreError(OrchestratorError):
    """The store cannot be read or written: a full disk, a damaged file."""


class GitError(OrchestratorError):
    """Git cannot do what a run needs."""


class GitMissing(GitError, UsageError):
    """Git is not installed."""


class GitFailed(GitError):
    """Git refused a command."""

    def __init__(self, command: str, code: int, complaint: str) -> None:
        super().__init__(f"git {command} failed ({code}): {complaint or 'it did not say why'}")
        self.code = code
        self.complaint = complaint


class TmuxError(OrchestratorError):
    """Something about tmux."""


class TmuxMissing(TmuxError, UsageError):
    """tmux is not installed, or too old."""


class TmuxCommandError(TmuxError):
    """tmux refused a command."""

    def __init__(self, subcommand: str, stderr: str) -> None:
        super().__init__(f"tmux {subcommand} failed: {stderr}")
        self.subcommand = subcommand
        self.stderr = stderr


class TmuxGone(TmuxError):
    """The connection to tmux ended; it is unknown whether a pending command was carried out."""


class ApiError(OrchestratorError):
    """A request to the server failed."""

    @property
    def summary(self) -> str:
        """Why, for people: without the route and the number of the answer."""
        return str(self)


class ApiUnreachable(ApiError):
    """The server did not answer."""

    def __init__(self, url: str, reason: str, *, maybe_received: bool, request: str = "") -> None:
        """Name the server's address and, for the log alone, what it was asked."""
        super().__init__(f"no answer from the server at {url}: {reason}")
        self.url = url
        self.reason = reason
        self.request = request
        self.maybe_received = maybe_received
        """False only if it is certain that the request never reached the server."""

    @property
    def summary(self) -> str:
        return "the server does not answer"


class ApiRefused(ApiError):
    """The server answered with an error status, or with what is no answer."""

    def __init__(self, method: str, path: str, status_code: int, detail: str) -> None:
        super().__init__(refusal_words(path, status_code, detail))
        self.status_code = status_code
        self.detail = detail
        self.request = f"{method} {path}: {status_code}: {detail}"
        """For the log alone: what was asked, and the bare answer."""

    @property
    def summary(self) -> str:
        return self.detail or f"the server answered {self.status_code}"


def refusal_words(path: str, status_code: int, detail: str) -> str:
    """Say what a server did not do, and what can be done about it, without route and number.

    >>> refusal_words("/terminals/9f3c/output", 404, "Not Found")
    "the server has no terminal '9f3c'; `cao ls` lists what there is"
    """
    kind, name, listing = named_in_path(path)
    about = f" for {kind} {name!r}" if kind and name not in detail else ""
    said = detail.strip() or f"it says no more than error {status_code}"
    match status_code:
        case 404 if kind and "/turns/" not in path:
            return f"the server has no {kind} {name!r}; `{listing}` lists what there is"
        case 401:
            return (
                "the server wants a token, and not the one that it was given: set CAO_TOKEN to "
                "what is in the file `token` of its state folder"
            )
        case code if code < 300:
            return f"the server's answer{about} cannot be used: {said}; is it a cao server?"
        case code if code >= 500:
            return f"the server could not do it{about}: {said}"
    return f"the server refused it{about}: {said}"


def named_in_path(path: str) -> tuple[str, str, str]:
    """Return what a route is about: its kind, its name, and the command that lists its like."""
    _, part, *rest = f"{path}//".split("/")
    if part not in NAMED or rest[0] in NAMELESS:
        return "", "", ""
    kind, listing = NAMED[part]
    return kind, unquote(rest[0]), listing


class HandoffError(OrchestratorError, RuntimeError):
    """A turn ended without a reply."""


class NoResponseFile(HandoffError):
    """The agent came to rest and did not write its response file."""


class FolderGone(HandoffError):
    """The folder in which the agents work was removed in a turn."""

    def __init__(self, folder: object, role: str) -> None:
        super().__init__(
            f"{folder} was removed while {role} was at work; bring it back and resume the run: the "
            "files as they were are in its snapshots"
        )
        self.folder = folder
        self.role = role


class TurnFailed(HandoffError):
    """The agent is in the error state; the turn has to be asked again."""


class HandoffTimeout(OrchestratorError, TimeoutError):
    """A turn did not end in time."""


class OutputClosed(OrchestratorError):
    """Nobody reads any more what a command prints."""


class RunError(OrchestratorError):
    """A run cannot start or go on."""


class RunLocked(RunError):
    """Another run works in the same folder, or another command on the same run."""


class StateError(RunError):
    """The state file cannot be read or written."""


class ResumeError(RunError):
    """The saved run cannot be resumed."""


KINDS: Mapping[str, type[OrchestratorError]] = {
    kind.__name__: kind for kind in (RunLocked, UsageError, RunError)
}
"""What is told of the kind of an error where it leaves its process; every other is the last."""


def kind_of(error: OrchestratorError) -> str:
    return next(
        (name for name, kind in KINDS.items() if isinstance(error, kind)), RunError.__name__
    )


def error_of(kind: str, text: str) -> OrchestratorError:
    return KINDS.get(kind, RunError)(text)
