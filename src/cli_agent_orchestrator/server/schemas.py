"""Request and response bodies. Most answers are values of `core/models` as they are.

What stands below a field is also its description in the OpenAPI document.
"""

import json
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.responses import JSONResponse

from ..core.models import (
    MESSAGE_LIMIT,
    Delivery,
    Evidence,
    Explanation,
    OutputMode,
    Question,
    Session,
    StepAnswer,
    Terminal,
    TerminalStatus,
)
from ..providers.base import Permissions

SERVICE_NAME = "cli-agent-orchestrator"
BODY_LIMIT = 3 * MESSAGE_LIMIT + 4096
"""Bytes of a request body: JSON that escapes all but ASCII takes up to three times the text."""
ASK_LIMIT = 64 * 1024
"""Bytes of what is asked of a run or an agent."""
AT_THE_END = r"(?!\n)"
"""After `$`, which in Python lets a line break follow."""

Name = Annotated[str, Meta(max_length=200)]
PathName = Annotated[str, Meta(max_length=4096)]
RunId = Annotated[Name, Meta(description="The id, the beginning of it or its end.")]
Key = Annotated[str, Meta(max_length=50)]
Role = Annotated[str, Meta(pattern=f"^[A-Za-z0-9_-]{{1,64}}${AT_THE_END}")]
IdempotencyKey = Annotated[str, Meta(pattern=f"^[ -~]{{1,200}}${AT_THE_END}")]
Fingerprint = Annotated[str, Meta(max_length=100)]


def to_json(content: object) -> bytes:
    try:
        return msgspec.json.encode(content, enc_hook=_plain)
    except UnicodeEncodeError:
        # Half a character, which a screen may show, has no UTF-8.
        text = json.dumps(msgspec.to_builtins(content, enc_hook=_plain), ensure_ascii=False)
        return text.encode("utf-8", "replace")


def _plain(value: object) -> str:
    if not isinstance(value, str):
        raise NotImplementedError(f"{type(value).__name__} is not JSON")
    return str(value)


class Json(JSONResponse):
    """A JSON answer that nobody keeps and no browser takes for anything else."""

    def render(self, content: object) -> bytes:
        return to_json(content)

    def init_headers(self, headers: Any = None) -> None:  # Any: as in JSONResponse
        super().init_headers(headers)
        self.raw_headers += [
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]


# Any: whatever is in them
def _values(value: Terminal | Delivery | Evidence) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


class ProblemBody(Struct):
    detail: str
    """What went wrong and what to do."""


class DoneBody(Struct):
    success: bool = True


class HealthBody(Struct):
    status: Literal["ok"]
    service: str
    version: str
    features: list[str]
    """What this server can do beyond the common routes."""


@dataclass(frozen=True, slots=True)
class TerminalBody(Terminal):
    """One tmux window with one agent in it."""

    last_active: str  # type: ignore[assignment]  # existing clients read a date here
    """Time of the last change of status or input, in UTC."""

    @classmethod
    def of(cls, terminal: Terminal) -> "TerminalBody":
        last_active = datetime.fromtimestamp(terminal.last_active, UTC).isoformat()
        return cls(**{**_values(terminal), "last_active": last_active})


class SessionBody(Struct):
    name: str
    terminals: list[TerminalBody]

    @classmethod
    def of(cls, session: Session) -> "SessionBody":
        return cls(session.name, [TerminalBody.of(one) for one in session.terminals])


class NewTerminalQuery(Struct):
    provider: Name
    agent_profile: Name
    working_directory: Annotated[
        PathName | None, Meta(description="Where the agent works; else in the server's own folder.")
    ] = None
    permissions: Annotated[
        Permissions | None,
        Meta(description="What the agent may do without asking; else what the server says."),
    ] = None
    role: Annotated[
        Role | None, Meta(description="What the agent is for; its terminal is named after it.")
    ] = None
    run_index: Annotated[
        Annotated[int, Meta(ge=0, lt=1000)] | None,
        Meta(description="The number of its run; the agent finds it in `CAO_RUN_INDEX`."),
    ] = None
    record: Annotated[
        bool, Meta(description="Are its screens recorded, if it has a role and is of a run?")
    ] = False


class NewSessionQuery(NewTerminalQuery):
    session_name: Annotated[Name | None, Meta(description="Is given the prefix `cao-`.")] = None


class RequestBody(Struct):
    """What a request brings; fields that are not known are ignored."""

    most_bytes: ClassVar[int] = BODY_LIMIT
    most_text: ClassVar[int] = MESSAGE_LIMIT
    """How much text that is: JSON may take more bytes than the text in it."""


class InputBody(RequestBody):
    message: str
    """Up to 8 MiB."""


class StepBody(RequestBody):
    provider: Name
    agent: Name
    prompt: str
    working_directory: PathName | None = None
    session_name: Name | None = None
    """Is joined if it is there, else made."""
    timeout: Annotated[float, Meta(gt=0, le=86_400)] = 600.0
    """Seconds that the agent may work."""
    teardown: bool = True
    """End the agent when it has answered."""
    permissions: Permissions | None = None


class StepAnswerBody(Struct):
    terminal_id: str
    last_message: str
    status: TerminalStatus
    replayed: bool = False
    """False: answers are never taken from an earlier step."""

    @classmethod
    def of(cls, answer: StepAnswer) -> "StepAnswerBody":
        return cls(answer.terminal_id, answer.answer, answer.status)


@dataclass(frozen=True, slots=True)
class DeliveryBody(Delivery):
    success: bool = False
    """The same as `confirmed`."""

    @classmethod
    def of(cls, delivery: Delivery) -> "DeliveryBody":
        return cls(**_values(delivery), success=delivery.confirmed)


class OutputBody(Struct):
    output: str
    mode: OutputMode
    records: list[str]
    """The files in which the agent itself keeps this conversation, as far as they were found."""


class AskingBody(Struct):
    question: Question | None
    """null while the agent waits for no answer."""


class AnsweredBody(Struct):
    answered: bool
    """Does the agent not ask any more?"""
    text: str


class FolderBody(Struct):
    working_directory: str


@dataclass(frozen=True, slots=True)
class EvidenceBody(Evidence):
    age: float = 0.0
    """Seconds since then."""


class ExplanationBody(Struct):
    terminal_id: str
    status: TerminalStatus
    reason: str
    evidence: list[EvidenceBody]

    @classmethod
    def of(cls, terminal_id: str, explained: Explanation, now: float) -> "ExplanationBody":
        evidence = [
            EvidenceBody(**_values(one), age=round(max(0.0, now - one.at), 3))
            for one in explained.evidence
        ]
        return cls(terminal_id, explained.status, explained.reason, evidence)


class RunBody(Struct, forbid_unknown_fields=True):
    id: str
    wd: str
    task: str
    flow: str
    status: Literal["running", "paused", "interrupted", "PASS", "FAIL", "stopped", "failed"]
    round: int
    role: str
    started: float
    """Unix time, as all times here."""
    ended: float | None
    paused_seconds: float
    """Seconds from each end to when it was resumed, all together."""
    providers: dict[str, str]
    terminals: dict[str, str]
    """Ids by role, as long as the agents are there."""
    project: str
    """The user's own folder, if the agents work in a work tree."""
    waiting: str
    """The branch of that work tree, if its work waits to be applied."""
    discarded: bool
    """Was that work tree removed, and its work with it?"""
    applied: bool
    """Was its work brought into the user's branch? The work tree may be gone since."""
    asking: str
    """The role whose agent asks a person something; empty if none does."""
    stalled: str
    """Why it does not converge, until an author has changed files; empty if it may, or passed."""
    unsaved: bool
    """Was it ended before its first turn, with nothing to resume?"""
    lost: bool
    """Is what was saved of it not there any more?"""
    reason: str
    proof: str
    """Of a PASS `proven: …` or `not proven: …`; empty if that was not looked into."""
    machine: str
    """The name of the machine that it began on; empty if that is not known."""


class RunTurnBody(Struct, forbid_unknown_fields=True):
    sequence: int
    role: str
    """Of the command of a gate its name."""
    round: int
    cycle: int
    provider: str
    """Of the command of a gate `command`."""
    terminal_id: str
    began: float
    ended: float | None
    """null as long as it is under way. One that has ended without an outcome was broken off."""
    seconds: float
    outcome: str
    """Empty as long as there is no reply."""
    detail: str
    """The same for people, with its reason."""
    verdict: str
    """`detail` without what follows from it."""
    why: str
    """What stands behind the verdict, without its own word."""
    reason: str
    """The first point against the work, in the agent's own words."""
    reviewed: bool
    """Does a review follow, or is it one?"""
    early: bool
    """Is it an approval that came too early to count, and nothing else speaks against it?"""


class ChangedFileBody(Struct):
    path: str
    status: str
    """`A` added, `M` modified, `D` deleted, `R` moved, `T` of another kind now."""
    added: int
    """Lines; -1 if it is binary."""
    removed: int


class UsageBody(Struct):
    """Tokens, in one meaning for all agents."""

    input: int
    """All that the model was given."""
    cached_input: int
    """The part of it that was read from a cache."""
    output: int
    reasoning: int | None
    """The part of it that was reasoning; null if the agent does not tell it."""


class RunTurnTextBody(RunTurnBody):
    prompt: str | None
    reply: str | None
    screen: str | None
    """What the agent showed when the turn had ended, up to 64 KB; null if that is not known. A gate
    has none."""
    diff: str | None
    files: list[ChangedFileBody] | None
    """The same by file, up to 1,000 of them."""
    usage: UsageBody | None
    """What it took up to the agent's next prompt, by the agent's own records, sub-agents included;
    null if that is not known."""


class SavedSettingBody(Struct):
    value: str
    source: str


class RunDetailBody(RunBody):
    base: str
    """The commit that was checked out when it began; empty if none was."""
    branch: str
    exit_code: int | None
    session_name: str
    settings: dict[str, SavedSettingBody]
    turns: list[RunTurnBody]


class RunEventBody(Struct):
    """The `data` of one event of a run; more fields depend on its type."""

    seq: int
    at: float
    type: str


class NewRunBody(RequestBody):
    wd: PathName
    task: str | None = None
    """The text of the task; the heading `# Task` may be left out."""
    task_file: PathName | None = None
    settings: dict[str, str] = {}
    resume: bool | None = None
    """As `--resume` and `--no-resume`."""
    replace_terminals: bool = False


class AskBody(RequestBody):
    """What is asked of a run or an agent: little."""

    most_bytes: ClassVar[int] = ASK_LIMIT
    most_text: ClassVar[int] = ASK_LIMIT


class KeyBody(AskBody):
    key: Key
    """One of those that `POST /terminals/{id}/key` takes."""
    question: Fingerprint | None = None
    """The fingerprint of the question that is meant: no other one is answered."""


class HintBody(AskBody):
    text: str
    role: str | None = None
    """Whose next prompt; else the next one."""


class SkipBody(AskBody):
    """The review that is meant, by all of these; without them whichever is under way or due."""

    role: str | None = None
    round: int | None = None
    cycle: int | None = None


class AnswerBody(AskBody):
    text: Key
    """A key, of those that `POST /terminals/{id}/key` takes."""
    question: Fingerprint | None = None
    """The fingerprint of the question that is meant: no other one is answered."""
    role: str | None = None


class ChangeBody(AskBody):
    name: str
    value: str


class AskedBody(Struct):
    heard: bool
    """False if the run has not heard of it yet."""
    text: str
