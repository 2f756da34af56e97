"""Every error that a user or a client of the product gets to see.

    OrchestratorError
    ├── UsageError (ValueError)         what was asked for cannot be right
    │   ├── ConfigError                 a setting has a bad value
    │   ├── ResumeChoice                the saved run may not be the one that is meant
    │   ├── PromptError                 the task file isn't in the expected format
    │   ├── FlowError                   a flow file has a fault
    │   │   └── AgentFault              a file that describes an agent has one
    │   ├── UnknownName                 no such provider, profile, key
    │   ├── NotFound (LookupError)      no terminal, session or run of that name
    │   ├── BadFolder                   a working directory that cannot be used
    │   ├── NotSteerable                what was asked of a run cannot be done as it stands
    │   └── MessageTooLarge             a message over the limit
    ├── InputRefused                    the terminal cannot take input now
    ├── QuestionGone                    what was to be answered is not asked any more
    ├── StartError                      an agent could not be started
    │   └── ProgramEnded                its program ended before it could be given work
    ├── StepFailed                      the agent of a step gave no answer
    │   └── StepTimeout                 it did not end its work in time
    ├── ServerEnding                    the server was told to stop before it could answer
    ├── ServerConflict                  another server owns the state folder or the port
    │   └── FolderTaken                 it owns the state folder
    ├── StoreError                      the server's store cannot be read or written
    ├── GitError                        git cannot do what a run needs
    │   ├── GitMissing (UsageError)     git is not installed
    │   └── GitFailed                   git refused a command
    ├── TmuxError
    │   ├── TmuxMissing (UsageError)    tmux is not installed or too old
    │   ├── TmuxCommandError            tmux refused a command
    │   └── TmuxGone                    the connection to tmux ended
    ├── ApiError                        seen by a client of the server
    │   ├── ApiUnreachable              no answer: the request was perhaps not received
    │   └── ApiRefused                  the server answered with an error
    ├── HandoffError (RuntimeError)     a turn ended without a reply
    │   ├── NoResponseFile              the agent came to rest and wrote no response file
    │   ├── FolderGone                  the folder in which the agent works was removed
    │   └── TurnFailed                  the agent is in error
    ├── HandoffTimeout (TimeoutError)   a turn did not end in time
    └── RunError                        a run cannot start or go on
        ├── RunLocked                   another is at work in the same folder, or on the same run
        └── StateError                  the state file cannot be read or written

Their text says what to do next. `server/answers.py` decides what they become in HTTP.

Outside of the tree is `Stopped`: nothing went wrong, the user asked to stop.
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
    """Return what an error of the system says, without its number."""
    return re.sub(NUMBER_PATTERN, "", str(error))


class OrchestratorError(Exception):
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
    def __init__(self, variable: str, value: object, expected: str) -> None:
        super().__init__(f"{variable} is {value!r}, expected {expected}")
        self.variable = variable
        self.value = value
        self.expected = expected


class PromptError(UsageError):
    """The task file isn't in the expected format."""


class FlowError(UsageError):
    def __init__(self, where: str, place: str, fault: str, expected: str) -> None:
        super().__init__(f"{where}, {place}: {fault}; expected {expected}")
        self.where = where
        self.place = place
        self.fault = fault
        self.expected = expected


class AgentFault(FlowError):
    """A file that describes an agent has a fault."""


class ResumeChoice(UsageError):
    """Something speaks against resuming the saved run; the user has to say what is meant."""


class UnknownName(UsageError):
    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(known)
        super().__init__(
            f"unknown {kind} {name!r}{suggestion(name, self.known)}; "
            f"there are: {', '.join(self.known) or 'none'}"
        )


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return what was probably meant, ready to be put behind a name; nothing if nobody knows."""
    known = list(known)
    word = name.strip().lower().replace("-", "_")
    meant = [one for one in known if word and one.startswith(word)]
    meant = meant or get_close_matches(word, known, 1)
    if not meant:
        close = get_close_matches(word, [one.partition("_")[0] for one in known], 1)
        meant = [one for one in known if one.partition("_")[0] in close]
    return f" (did you mean {' or '.join(meant)}?)" if meant else ""


class BadFolder(UsageError):
    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(f"working directory {folder!r} {reason}")


class NotSteerable(UsageError):
    """What was asked of a run cannot be done as it stands: it has ended, no review is due."""


class MessageTooLarge(UsageError):
    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"the message has {size} bytes; at most {limit} can be sent")


def listed(known: Sequence[str]) -> str:
    """Return what there is: side by side if it is little, else a line for each of the first."""
    if len(known) <= MOST_LISTED and sum(map(len, known)) <= LONGEST_LIST:
        return ", ".join(known)
    more = len(known) - MOST_LISTED
    return "\n  ".join(["", *known[:MOST_LISTED], *([f"and {more} more"] if more > 0 else [])])


class NotFound(UsageError, LookupError):
    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(known)
        there = f"; there are: {listed(self.known)}" if self.known else ""
        super().__init__(f"no {kind} {name!r}{there}")


class InputRefused(OrchestratorError):
    def __init__(self, terminal_id: str, reason: str) -> None:
        super().__init__(f"terminal {terminal_id} cannot take input: {reason}")


class QuestionGone(OrchestratorError):
    def __init__(self, terminal_id: str, what_became: str, role: str | None = None) -> None:
        who = f"the {role}" if role else f"terminal {terminal_id}"
        super().__init__(f"This question of {who} {what_became}; nothing was pressed")


MOST_ROWS = 8


def end_of_screen(screen: str) -> str:
    """Return the last rows of a screen, below a heading: the cause is there, art is above it."""
    rows = [row.rstrip() for row in screen.splitlines() if row.strip()][-MOST_ROWS:]
    return "\nThe end of its screen:\n" + "\n".join(rows) if rows else ""


class StartError(OrchestratorError):
    def __init__(self, provider: str, reason: str, last_screen: str = "") -> None:
        super().__init__(f"{provider} could not be started: {reason}{end_of_screen(last_screen)}")


class ProgramEnded(StartError):
    """The agent's program ended before it could be given work."""


class StepFailed(OrchestratorError):
    def __init__(self, provider: str, reason: str, last_screen: str = "") -> None:
        self.summary = text = f"{provider} gave no answer: {reason}"
        """Without the screen, which may show the prompt."""
        super().__init__(f"{text}{end_of_screen(last_screen)}")


class StepTimeout(StepFailed):
    """The agent of a step did not end its work in time."""


class ServerEnding(OrchestratorError):
    def __init__(self) -> None:
        super().__init__("the server is stopping: try again when it is back")


class ServerConflict(OrchestratorError):
    """Another server owns the state folder or the port."""


class FolderTaken(ServerConflict):
    def __init__(self, folder: str, pid: int | None, run: str = "") -> None:
        whose = f"is the own server of run {run}" if run else "may be the own server of a run"
        process = "" if pid is None else f" (process {pid})"
        super().__init__(
            f"another server{process} uses the state folder {folder}; it {whose}, which ends "
            "with that run. Your commands and `cao dashboard` use it meanwhile. For a second "
            "one, set CAO_STATE_DIR to another folder"
        )
        self.folder = folder
        self.pid = pid


class StoreError(OrchestratorError):
    """The store cannot be read or written: a full disk, a damaged file."""


class GitError(OrchestratorError):
    """Git cannot do what a run needs."""


class GitMissing(GitError, UsageError):
    """Git is not installed."""


class GitFailed(GitError):
    def __init__(self, command: str, code: int, complaint: str) -> None:
        super().__init__(f"git {command} failed ({code}): {complaint or 'it did not say why'}")
        self.code = code
        self.complaint = complaint


class TmuxError(OrchestratorError):
    """Something about tmux."""


class TmuxMissing(TmuxError, UsageError):
    """tmux is not installed, or too old."""


class TmuxCommandError(TmuxError):
    def __init__(self, subcommand: str, stderr: str) -> None:
        super().__init__(f"tmux {subcommand} failed: {stderr}")
        self.subcommand = subcommand
        self.stderr = stderr


class TmuxGone(TmuxError):
    """The connection to tmux ended; it is unknown whether a pending command was carried out."""


class ApiError(OrchestratorError):
    @property
    def summary(self) -> str:
        """Why, for people: without the route and the number of the answer."""
        return str(self)


class ApiUnreachable(ApiError):
    def __init__(self, url: str, reason: str, *, maybe_received: bool, request: str = "") -> None:
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
    """Say what a server did not do, and what can be done about it, without route and number."""
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


class RunError(OrchestratorError):
    """A run cannot start or go on."""


class RunLocked(RunError):
    """Another run works in the same folder, or another command on the same run."""


class StateError(RunError):
    """The state file cannot be read or written."""


EXIT_PASS = 0
EXIT_FAIL = 1
"""All rounds are used up."""
EXIT_USAGE = 2
EXIT_ERROR = 3
"""A run that was stopped by an error can be resumed."""
EXIT_INTERRUPTED = 130
EXIT_CLOSED = 141
"""The reader of the output is gone; what a shell shows for a program that SIGPIPE ended."""


def exit_code_of(error: Exception) -> int:
    # Where another run works, nothing was begun that could be resumed.
    return EXIT_USAGE if isinstance(error, UsageError | RunLocked) else EXIT_ERROR


KINDS: Mapping[str, type[OrchestratorError]] = {
    kind.__name__: kind for kind in (RunLocked, UsageError, RunError)
}
"""The kinds of errors that another process learns; every other kind is the last."""


def kind_of(error: OrchestratorError) -> str:
    return next(
        (name for name, kind in KINDS.items() if isinstance(error, kind)), RunError.__name__
    )


def error_of(kind: str, text: str) -> OrchestratorError:
    return KINDS.get(kind, RunError)(text)
