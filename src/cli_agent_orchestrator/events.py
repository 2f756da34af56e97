"""The events of a run, and their form as JSON.

Every event has a `seq`, which counts the events of a run from 1 on, the time `at` and a `type`;
role, round, cycle and terminal where it has them:

    {"seq": 9, "at": 1763200000.1, "type": "turn_began", "role": "analyst", "round": 1, …}

The type of a HandoffEvent is its kind. Reading is lenient: the types and fields of later versions
are skipped, and an event without a needed field, or with a wrong value, is none.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, get_args

from msgspec import Struct

from .core import codec
from .core.models import LATEST_TIME, TerminalStatus
from .core.text import on_a_line, plural, short_line

HINT_CHARACTERS = 200
AGAINST = ("sent_back", "cycles_used_up", "failed", "rounds_used_up")
"""The outcomes that lead to more work or to a FAIL."""
NOT_CONVERGING = "Not converging: "


class Meaning(StrEnum):
    """What a reply or a check meant for the run: the outcome of a turn."""

    DELIVERED = "delivered"
    APPROVED = "approved"
    SKIPPED = "skipped"
    SENT_BACK = "sent_back"
    CYCLES_USED_UP = "cycles_used_up"
    PASSED = "passed"
    BASE_PASSED = "base_passed"
    BASE_FAILED = "base_failed"
    CLEARED = "cleared"
    """A test or a gate has passed that is not the last one."""
    FAILED = "failed"
    ROUNDS_USED_UP = "rounds_used_up"


class Numbered(Struct, frozen=True, kw_only=True, tag_field="type"):
    seq: int = 0
    """0 until the event is recorded."""


class Event(Numbered, frozen=True):
    at: float


class RunOpened(Event, frozen=True, tag="run_opened"):
    """A run has an id and a folder; its agents are not started yet."""

    run: str
    wd: str
    resumed: bool = False
    project: str = ""
    """The folder of the project if its agents work elsewhere, in a work tree; else empty."""


class ServerChosen(Event, frozen=True, tag="server"):
    url: str
    how: str
    named: bool = False
    """Did the user name it? Then other commands find it only if they are given the name too."""

    @property
    def attach_prefix(self) -> str:
        """What goes before `cao attach`, so that it finds the agents."""
        return f"CAO_API={shlex.quote(self.url)} " if self.named else ""


class AgentsStarting(Event, frozen=True, tag="agents_starting"):
    providers: Mapping[str, str]


class AgentStarted(Event, frozen=True, tag="agent_started"):
    role: str
    terminal_id: str


class RunBegan(Event, frozen=True, tag="run_began"):
    session_name: str
    terminals: Mapping[str, str]
    providers: Mapping[str, str]
    archive: str
    resumed: bool = False
    replaced: tuple[str, ...] = ()
    """The roles whose agents were started for lost ones."""
    permissions: str = ""
    """What the agents may do without asking; empty if the server does not say it."""
    max_rounds: int = 0
    reviewers: tuple[str, ...] = ()


class TurnBegan(Event, frozen=True, tag="turn_began"):
    """The state is saved, and the prompt is about to be sent."""

    role: str
    round: int
    cycle: int
    sequence: int
    """The number under which prompt and reply are kept."""
    terminal_id: str
    provider: str
    reviewed: bool = True
    """Does a review follow, or is it one? Only then the cycle is worth showing."""


class EventKind(StrEnum):
    DISPATCHED = "dispatched"
    UNCONFIRMED = "unconfirmed"
    """The prompt has been sent; it is unknown whether the agent has it."""
    ASKED_AGAIN = "asked_again"
    """The whole prompt is about to be sent once more; `text` says why."""
    DELAYED = "delayed"
    """A message could not be delivered yet; `text` says why, `since` from when on."""
    RESUMED = "resumed"
    """The prompt had been sent before; it is not sent again."""
    STATUS = "status"
    WAITING_FOR_PERSON = "waiting_for_person"
    """The agent asks something; `text` is the command that leads to its terminal."""
    ACTION = "action"
    """The agent does something else than before; `text` says what, in its own words."""
    FILE_AWAITED = "file_awaited"
    """It is at rest without its file; `text` says what is done about it, `until` when."""
    FILE_SEEN = "file_seen"
    WARNING = "warning"
    STREAM_LOST = "stream_lost"
    """The server's stream of events ended: it is asked now and then instead."""
    STREAM_BACK = "stream_back"
    REMINDED = "reminded"
    ACCEPTED = "accepted"
    """The reply is complete; `text` says where it is kept."""


class HandoffEvent(Event, frozen=True, tag=False, rename={"kind": "type"}):
    kind: EventKind
    terminal_id: str
    role: str
    text: str = ""
    status: TerminalStatus | None = None
    since: float | None = None
    round: int = 0
    cycle: int = 0
    until: float | None = None
    question: str = ""


class TurnEnded(Event, frozen=True, tag="turn_ended"):
    """The reply has been judged, and the state after it is saved. Fields are as of `TurnFacts`."""

    role: str
    round: int
    cycle: int
    sequence: int
    outcome: str
    """What the reply led to, as a word: delivered, approved, sent_back, passed, failed …"""
    detail: str
    seconds: float
    archive: str
    reviewed: bool = True
    reason: str = ""
    terminal_id: str = ""
    verdict: str = ""
    why: str = ""
    early: bool = False


PROOF = "proof"
"""What no gate may be called: the proof is shown among them."""


class CheckBegan(Event, frozen=True, tag="check_began"):
    gate: str
    round: int
    sequence: int
    command: str
    when: str = "after_tester"
    """At which point of the run: `base`, `after_programmer`, `after_tester`."""
    author: str = "programmer"
    """Whose work it looks at, and whom `after_programmer` means."""


class CheckOutput(Event, frozen=True, tag="check_output"):
    """The command of a gate has written something; reported once a second at most."""

    gate: str
    round: int
    sequence: int
    text: str


class CheckEnded(Event, frozen=True, tag="check_ended"):
    """The command of a gate has ended, and the state after it is saved.

    `outcome`, `detail` and `verdict` are as of a turn, `when` and `author` as when it began.
    """

    gate: str
    round: int
    sequence: int
    outcome: str
    detail: str
    seconds: float
    archive: str
    when: str = "after_tester"
    log: str = ""
    """Where more of it is kept, but for the middle of a long one; empty if nowhere."""
    verdict: str = ""
    why: str = ""
    """As of a turn; of the proof `proven: …` or `not proven: …`."""
    author: str = "programmer"
    proven: bool = False


class FilesChanged(Event, frozen=True, tag="files_changed"):
    role: str
    round: int
    sequence: int
    files: tuple[str, ...]
    """The first of them."""
    count: int
    added: int
    removed: int
    allowed: bool = True
    restored: bool = False
    cycle: int = 0
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


class NotConverging(Event, frozen=True, tag="not_converging"):
    text: str

    @property
    def why(self) -> str:
        return self.text.removeprefix(NOT_CONVERGING)


class Paused(Event, frozen=True, tag="paused"):
    """The run waits, as the user asked."""


class Unpaused(Event, frozen=True, tag="unpaused"):
    """The run goes on after a pause."""

    ask: str = ""
    """The id of what the user asked for; empty if it was not asked for."""

    words: ClassVar[str] = "resumed"


class PauseAsked(Event, frozen=True, tag="pause_asked"):
    """The user wants the run to wait; the present turn is finished first."""

    ask: str = ""

    words: ClassVar[str] = "pause after the present turn"


class StopAsked(Event, frozen=True, tag="stop_asked"):
    """The user ends the run and its agents."""

    ask: str = ""

    words: ClassVar[str] = "stopped, with its agents"


class HintTaken(Event, frozen=True, tag="hint_taken"):
    """The user has a hint for an agent, which gets it with its next prompt."""

    role: str
    """Empty for the next agent."""
    text: str
    ask: str = ""

    @property
    def words(self) -> str:
        text = short_line(self.text, HINT_CHARACTERS)
        return f"hint for {self.role or 'the next prompt'}: {text}"


class SettingChanged(Event, frozen=True, tag="setting_changed"):
    name: str
    value: str
    before: str
    ask: str = ""

    @property
    def words(self) -> str:
        return f"{self.name.lower()} is {self.value} now; it was {self.before}"


class ReviewSkipped(Event, frozen=True, tag="review_skipped"):
    role: str
    round: int
    cycle: int
    ask: str = ""
    terminal_id: str = ""

    @property
    def words(self) -> str:
        return (
            f"{self.role} skipped in round {self.round}, cycle {self.cycle}: it counts as approved"
        )


class QuestionAnswered(Event, frozen=True, tag="question_answered"):
    """The user has answered what an agent asked, through its server."""

    role: str
    text: str
    """The words of the choice, else the key that was pressed."""
    ask: str = ""

    @property
    def words(self) -> str:
        return f"answered what the {self.role} asked: {self.text}"


class AskDeclined(Event, frozen=True, tag="ask_declined"):
    """What the user asked for changes nothing."""

    do: str
    text: str
    ask: str = ""


class Warned(Event, frozen=True, tag="run_warning"):
    """Something is wrong, but the run goes on."""

    text: str
    about: str = ""
    """`repository` if its settings, hooks or branches were changed; `snapshots` if there are none;
    else empty."""


class RunEnded(Event, frozen=True, tag="run_ended"):
    final_status: str
    """PASS or FAIL; RUNNING if it ended without a verdict."""
    round: int
    exit_code: int
    reason: str = ""
    session_left: str = ""
    """The session of the agents that still run; empty if there is none."""
    branch: str = ""
    """The branch with the work of a run in a work tree; empty if nothing was committed."""
    proof: str = ""
    """Of a PASS: `proven: …` or `not proven: …`; empty if that was not looked into."""
    tree: str = ""
    """The work tree with what is not committed; empty if there is none."""
    repository: tuple[str, ...] = ()
    """What was said of changes to the repository itself: its settings, hooks and branches."""
    proven: bool = False
    gaps: str = ""
    """What is missing for a proof; empty if it is one."""
    look_at: str = ""
    before: str = ""
    to_resume: str = ""
    error: str = ""
    """The kind of error that ended it: RunLocked, UsageError, else RunError; empty if none did."""


StepEnded = TurnEnded | CheckEnded
Steered = (
    PauseAsked
    | Unpaused
    | StopAsked
    | HintTaken
    | SettingChanged
    | ReviewSkipped
    | QuestionAnswered
)
"""What the user did to a run; its report shows it."""
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
    **{kind.__struct_config__.tag: kind for kind in get_args(RunEvent) if kind is not HandoffEvent},
    **{str(kind): HandoffEvent for kind in EventKind},
}


def tell_nobody(event: RunEvent) -> None:
    """Take an event and do nothing about it."""


# Any: JSON of any form
def to_json(event: RunEvent) -> dict[str, Any]:
    data = codec.plain(event)
    return {"seq": data.pop("seq"), "at": data.pop("at"), "type": data.pop("type"), **data}


def to_line(event: RunEvent) -> str:
    return json.dumps(to_json(event))


def from_json(data: object) -> RunEvent | None:
    name = data.get("type") if isinstance(data, dict) else None
    kind = TYPES.get(name) if isinstance(name, str) else None
    try:
        event = None if kind is None else codec.convert(kind, data)
    except ValueError:
        return None
    return event if event is not None and 0 <= event.at <= LATEST_TIME else None


def from_line(line: str | bytes) -> RunEvent | None:
    try:
        return from_json(codec.parse(line))
    except ValueError:
        return None
