"""What a run tells while it lasts, and the one form these events have as JSON.

Every event has a `seq`, which counts the events of a run from 1 on, the time `at` which it
happened, and a `type`; role, round, cycle and terminal where it has them:

    {"seq": 9, "at": 1763200000.1, "type": "turn_began", "role": "analyst", "round": 1, …}

The events of a turn have the name of their kind as type. Reading is lenient: what a later version
adds, a type or a field, is skipped, and what is missing or of another kind is no event.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .core import codec
from .core.models import LATEST_TIME, TerminalStatus
from .core.text import on_a_line, plural, short_line

HINT_CHARACTERS = 200
"""Of a hint where it is only told of; the prompt has all of it."""
AGAINST = ("sent_back", "cycles_used_up", "failed", "rounds_used_up")
"""The words for outcomes that lead to more work or to a FAIL."""
NOT_CONVERGING = "Not converging: "
"""Begins what is said of a run that goes in circles."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a run."""

    at: float
    """Unix time."""
    seq: int = field(default=0, kw_only=True)
    """Its number in the run; 0 as long as it has none."""


@dataclass(frozen=True, slots=True)
class RunOpened(Event):
    """A run has an id and a folder; its agents are not there yet."""

    run: str
    """The id."""
    wd: str
    """Where its agents work."""
    resumed: bool = False
    project: str = ""
    """The folder of the project if its agents work elsewhere, in a work tree; else empty."""


@dataclass(frozen=True, slots=True)
class ServerChosen(Event):
    """The server is there whose agents the run will use."""

    url: str
    how: str
    """Why it is the one, in words."""
    named: bool = False
    """Was it named? Then other commands find it only if it is named to them too."""

    @property
    def attach_prefix(self) -> str:
        """What goes before `cao attach`, so that it finds the agents."""
        return f"CAO_API={shlex.quote(self.url)} " if self.named else ""


@dataclass(frozen=True, slots=True)
class AgentsStarting(Event):
    """Agents are about to be started."""

    providers: Mapping[str, str]
    """Which agent each role is to have."""


@dataclass(frozen=True, slots=True)
class AgentStarted(Event):
    """One of them is there."""

    role: str
    terminal_id: str


@dataclass(frozen=True, slots=True)
class RunBegan(Event):
    """The agents are there and the first turn can be taken."""

    session_name: str
    terminals: Mapping[str, str]
    """Ids by role."""
    providers: Mapping[str, str]
    """The agent of each role."""
    archive: str
    """The folder in which all prompts and replies are kept."""
    resumed: bool = False
    replaced: tuple[str, ...] = ()
    """The roles whose agents were started for lost ones."""
    permissions: str = ""
    """What the agents may do without asking; empty if the server does not say it."""
    max_rounds: int = 0
    """After so many it has failed; 0 if that is not known."""
    reviewers: tuple[str, ...] = ()
    """The roles that review the work of others."""


@dataclass(frozen=True, slots=True)
class TurnBegan(Event):
    """The state is saved, and the prompt is about to be sent."""

    role: str
    round: int
    cycle: int
    sequence: int
    """The number under which prompt and reply are kept."""
    terminal_id: str
    provider: str
    reviewed: bool = True
    """Does a review follow, or is it one? Only then a cycle is worth telling."""


class EventKind(StrEnum):
    """What there is to tell of a turn under way."""

    DISPATCHED = "dispatched"
    """The prompt has been sent, and the agent has it."""
    UNCONFIRMED = "unconfirmed"
    """The prompt has been sent, and nobody knows if the agent has it."""
    ASKED_AGAIN = "asked_again"
    """The whole prompt is about to be sent once more; `text` says why."""
    DELAYED = "delayed"
    """A message could not be delivered yet; `text` says why, `since` from when on."""
    RESUMED = "resumed"
    """The prompt had been sent before; it is not sent again."""
    STATUS = "status"
    """The status of the terminal changed."""
    WAITING_FOR_PERSON = "waiting_for_person"
    """The agent asks something; `text` is the command that leads to its terminal."""
    ACTION = "action"
    """The agent does something else than before; `text` says what, in its own words."""
    FILE_AWAITED = "file_awaited"
    """It is at rest without its file; `text` says what is done about it, `until` when."""
    FILE_SEEN = "file_seen"
    """The response file is complete."""
    WARNING = "warning"
    """Something is not as it should be, but the wait goes on."""
    STREAM_LOST = "stream_lost"
    """The server does not tell what happens any more: it is asked now and then instead."""
    STREAM_BACK = "stream_back"
    """It tells again."""
    REMINDED = "reminded"
    """The agent was told again to write its file."""
    ACCEPTED = "accepted"
    """The reply is there; `text` says where it is kept."""


@dataclass(frozen=True, slots=True)
class HandoffEvent(Event):
    """One thing that happened in a turn under way."""

    kind: EventKind
    terminal_id: str
    role: str
    text: str = ""
    status: TerminalStatus | None = None
    since: float | None = None
    """Unix time; since when it is so."""
    round: int = 0
    cycle: int = 0
    until: float | None = None
    """Unix time; until when it can be so."""
    question: str = ""
    """What the agent asks a person, as far as it is known."""


@dataclass(frozen=True, slots=True)
class TurnEnded(Event):
    """The reply has been judged, and the state after it is saved."""

    role: str
    round: int
    cycle: int
    sequence: int
    outcome: str
    """What the reply led to, as a word: delivered, approved, sent_back, passed, failed …"""
    detail: str
    """The same for people, with its reason."""
    seconds: float
    """How long the agent worked; without the time it waited for a person."""
    archive: str
    """Where the reply is kept."""
    reviewed: bool = True
    reason: str = ""
    """The first point against it in the agent's own words; empty if there is none."""
    terminal_id: str = ""
    verdict: str = ""
    """What was said of the work, for people: `detail` without what follows from it."""
    why: str = ""
    """What stands behind the verdict, without its own word; empty if it says no more."""
    early: bool = False
    """Is it an approval that came too early to count, and nothing else speaks against it?"""


@dataclass(frozen=True, slots=True)
class CheckBegan(Event):
    """The command of a gate is about to be run."""

    gate: str
    """Its name."""
    round: int
    sequence: int
    """The number under which its output is kept."""
    command: str
    when: str = "after_tester"
    """At which point of the run: `base`, `after_programmer`, `after_tester`."""
    author: str = "programmer"
    """Whose work it looks at, and whom `after_programmer` means."""


@dataclass(frozen=True, slots=True)
class CheckOutput(Event):
    """The command of a gate has written something; told once a second at most."""

    gate: str
    round: int
    sequence: int
    text: str
    """The last line of it."""


@dataclass(frozen=True, slots=True)
class CheckEnded(Event):
    """The command of a gate has ended, and the state after it is saved."""

    gate: str
    round: int
    sequence: int
    outcome: str
    """As of a turn."""
    detail: str
    seconds: float
    archive: str
    """Where its output is kept."""
    when: str = "after_tester"
    log: str = ""
    """Where more of it is kept, but for the middle of a long one; empty if nowhere."""
    verdict: str = ""
    """As of a turn."""
    why: str = ""
    """As of a turn; of the proof `proven: …` or `not proven: …`."""
    author: str = "programmer"
    """As when it began."""
    proven: bool = False
    """Did the proof prove the work?"""


@dataclass(frozen=True, slots=True)
class FilesChanged(Event):
    """A turn or a gate has changed files of the work folder."""

    role: str
    """Of a gate its name."""
    round: int
    sequence: int
    """Of the turn, and of the snapshot after it."""
    files: tuple[str, ...]
    """The first of them."""
    count: int
    added: int
    """Lines."""
    removed: int
    allowed: bool = True
    """Is it this role's task to change files?"""
    restored: bool = False
    """Were they put back?"""
    cycle: int = 0
    """0 for a gate."""
    terminal_id: str = ""
    """Empty for a gate."""
    not_kept: int = 0
    """How many of them no snapshot has; these stay as they are."""

    @property
    def words(self) -> str:
        files = f"changed {plural(self.count, 'file')}"
        if self.allowed:
            return f"{files} (+{self.added} −{self.removed})"
        back = f"; put back, but kept in snapshot {self.sequence}" if self.restored else ""
        if self.restored and self.not_kept:
            back += f", except {self.not_kept} that no snapshot has"
        return f"{files}, which is not its task: {self.named}{back}"

    @property
    def named(self) -> str:
        more = self.count - len(self.files)
        shown = map(on_a_line, self.files)
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class NotConverging(Event):
    """The run goes in circles; somebody should look."""

    text: str

    @property
    def why(self) -> str:
        return self.text.removeprefix(NOT_CONVERGING)


@dataclass(frozen=True, slots=True)
class Paused(Event):
    """The run waits, as a person wants it, and nothing is begun until it is lifted."""


@dataclass(frozen=True, slots=True)
class Unpaused(Event):
    """The run goes on after a pause."""

    ask: str = ""
    """The id of what a person asked for; empty if nobody did."""

    @property
    def words(self) -> str:
        return "resumed"


@dataclass(frozen=True, slots=True)
class PauseAsked(Event):
    """A person wants the run to wait; what is under way is finished first."""

    ask: str = ""

    @property
    def words(self) -> str:
        return "pause after the present turn"


@dataclass(frozen=True, slots=True)
class StopAsked(Event):
    """A person ends the run and its agents."""

    ask: str = ""

    @property
    def words(self) -> str:
        return "stopped, with its agents"


@dataclass(frozen=True, slots=True)
class HintTaken(Event):
    """A person has a hint for an agent; it gets it with its next prompt."""

    role: str
    """Empty for whoever is next."""
    text: str
    ask: str = ""

    @property
    def words(self) -> str:
        text = short_line(self.text, HINT_CHARACTERS)
        return f"hint for {self.role or 'the next prompt'}: {text}"


@dataclass(frozen=True, slots=True)
class SettingChanged(Event):
    """A person has changed a setting of the run; it counts from the next turn on."""

    name: str
    """Of the variable."""
    value: str
    before: str
    ask: str = ""

    @property
    def words(self) -> str:
        return f"{self.name.lower()} is {self.value} now; it was {self.before}"


@dataclass(frozen=True, slots=True)
class ReviewSkipped(Event):
    """A person wants a review to count as approved."""

    role: str
    """The reviewer."""
    round: int
    cycle: int
    ask: str = ""
    terminal_id: str = ""

    @property
    def words(self) -> str:
        return (
            f"{self.role} skipped in round {self.round}, cycle {self.cycle}: it counts as approved"
        )


@dataclass(frozen=True, slots=True)
class QuestionAnswered(Event):
    """A person has answered what an agent asked, through its server."""

    role: str
    """Who asked."""
    text: str
    """The words of the choice, else the key that was pressed."""
    ask: str = ""

    @property
    def words(self) -> str:
        return f"answered what the {self.role} asked: {self.text}"


@dataclass(frozen=True, slots=True)
class AskDeclined(Event):
    """What a person asked for changes nothing."""

    do: str
    """What was asked for, as a word."""
    text: str
    """Why it changes nothing."""
    ask: str = ""


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something is not as it should be, but the run goes on."""

    text: str
    about: str = ""
    """`repository` if its settings, hooks or branches were changed; `snapshots` if there are none;
    else empty."""


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """The run is over, with a verdict or without one."""

    final_status: str
    """PASS or FAIL; RUNNING if it ended without a verdict."""
    round: int
    exit_code: int
    reason: str = ""
    """Why there is no verdict."""
    session_left: str = ""
    """The session whose agents are still there; empty if there is none."""
    branch: str = ""
    """The branch with the work of a run in a work tree; empty if nothing was committed."""
    proof: str = ""
    """Of a PASS: `proven: …` or `not proven: …`; empty if that was not looked into."""
    tree: str = ""
    """The work tree with what is not committed; empty if there is none."""
    repository: tuple[str, ...] = ()
    """What was said of changes to the repository itself: its settings, hooks and branches."""
    proven: bool = False
    """Is `proof` one?"""
    gaps: str = ""
    """What is missing for a proof; empty if it is one."""
    look_at: str = ""
    """How much of what was done to tests is to be looked at; empty if nothing is."""
    before: str = ""
    """The same of what had been done before the run, and is in no commit."""
    to_resume: str = ""
    """The command that resumes it, if why it ended asks for a special one."""
    error: str = ""
    """The kind of error that ended it: RunLocked, UsageError, else RunError; empty if none did."""


Steered = (
    PauseAsked
    | Unpaused
    | StopAsked
    | HintTaken
    | SettingChanged
    | ReviewSkipped
    | QuestionAnswered
)
"""What a person did to a run; its report tells it."""
Answer = Steered | AskDeclined
"""What a run says to an ask."""
RunEvent = (
    RunOpened
    | ServerChosen
    | AgentsStarting
    | AgentStarted
    | RunBegan
    | TurnBegan
    | HandoffEvent
    | TurnEnded
    | CheckBegan
    | CheckOutput
    | CheckEnded
    | FilesChanged
    | NotConverging
    | Paused
    | Answer
    | Warned
    | RunEnded
)
OnRunEvent = Callable[[RunEvent], None]

TYPES: Mapping[str, type[RunEvent]] = {
    "run_opened": RunOpened,
    "server": ServerChosen,
    "agents_starting": AgentsStarting,
    "agent_started": AgentStarted,
    "run_began": RunBegan,
    "turn_began": TurnBegan,
    "turn_ended": TurnEnded,
    "check_began": CheckBegan,
    "check_output": CheckOutput,
    "check_ended": CheckEnded,
    "files_changed": FilesChanged,
    "not_converging": NotConverging,
    "paused": Paused,
    "unpaused": Unpaused,
    "pause_asked": PauseAsked,
    "stop_asked": StopAsked,
    "hint_taken": HintTaken,
    "setting_changed": SettingChanged,
    "review_skipped": ReviewSkipped,
    "question_answered": QuestionAnswered,
    "ask_declined": AskDeclined,
    "run_warning": Warned,
    "run_ended": RunEnded,
    **{str(kind): HandoffEvent for kind in EventKind},
}
NAMES = {kind: name for name, kind in TYPES.items() if kind is not HandoffEvent}


def tell_nobody(event: RunEvent) -> None:
    """Take an event and do nothing about it."""


# Any: JSON of any form
def to_json(event: RunEvent) -> dict[str, Any]:
    told = codec.plain(event)
    name = told.pop("kind") if isinstance(event, HandoffEvent) else NAMES[type(event)]
    return {"seq": told.pop("seq"), "at": told.pop("at"), "type": name, **told}


def to_line(event: RunEvent) -> str:
    """Return an event as a line of JSON, without its end."""
    return json.dumps(to_json(event))


def from_json(data: object) -> RunEvent | None:
    """Return the event that JSON data describes; None if it describes none that is known."""
    name = data.get("type") if isinstance(data, dict) else None
    kind = TYPES.get(name) if isinstance(name, str) else None
    if kind is None or not isinstance(data, dict):
        return None
    try:
        event = codec.convert(kind, {**data, "kind": name} if kind is HandoffEvent else data)
    except ValueError:
        return None
    return event if 0 <= event.at <= LATEST_TIME else None


def from_line(line: str | bytes) -> RunEvent | None:
    """Return the event on a line; None if there is none that is known."""
    try:
        return from_json(codec.parse(line))
    except ValueError:
        return None
