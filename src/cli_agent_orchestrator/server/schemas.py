"""Request and response bodies. Most answers are values of `core/models` as they are.

The text below a field is also its description in the OpenAPI document.
"""

import json
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict
from starlette.responses import JSONResponse

from ..core import codec
from ..core.models import (
    MESSAGE_LIMIT,
    Delivery,
    Evidence,
    Explanation,
    OutputMode,
    Question,
    Session,
    Terminal,
    TerminalStatus,
    TurnFacts,
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
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        # Half a character, which a screen may show, has no UTF-8.
        text = json.dumps(codec.plain(content), ensure_ascii=False)
        return text.encode("utf-8", "replace")


class Json(JSONResponse):
    """A JSON answer that no cache keeps and no browser takes for anything else."""

    def render(self, content: object) -> bytes:
        return to_json(content)

    def init_headers(self, headers: Any = None) -> None:  # Any: as in JSONResponse
        super().init_headers(headers)
        self.raw_headers += [
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]


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


class TerminalBody(Terminal, frozen=True, kw_only=True):
    last_active: str  # type: ignore[assignment]  # existing clients read a date here
    """Time of the last change of status or input, in UTC."""

    @classmethod
    def of(cls, terminal: Terminal) -> "TerminalBody":
        last_active = datetime.fromtimestamp(terminal.last_active, UTC).isoformat()
        return cls(**{**asdict(terminal), "last_active": last_active})


class SessionBody(Struct):
    name: str
    terminals: list[TerminalBody]

    @classmethod
    def of(cls, session: Session) -> "SessionBody":
        return cls(session.name, [TerminalBody.of(one) for one in session.terminals])


class NewTerminalQuery(Struct):
    provider: Name
    agent_profile: Name
    working_directory: PathName | None = None
    """Where the agent works; else in the server's own folder."""
    permissions: Permissions | None = None
    """What the agent may do without asking; else what the server says."""
    role: Role | None = None
    """What the agent is for; its terminal is named after it."""
    run_index: Annotated[int, Meta(ge=0, lt=1000)] | None = None
    """The number of its run; the agent finds it in `CAO_RUN_INDEX`."""
    record: bool = False
    """Are its screens recorded, if it has a role and is of a run?"""


class NewSessionQuery(NewTerminalQuery):
    session_name: Name | None = None
    """Is given the prefix `cao-`."""


class RequestBody(Struct):
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
    """Joined if it exists, else made."""
    timeout: Annotated[float, Meta(gt=0, le=86_400)] = 600.0
    """Seconds that the agent may work."""
    teardown: bool = True
    """End the agent when it has answered."""
    permissions: Permissions | None = None


class DeliveryBody(Delivery, frozen=True):
    success: bool = False
    """The same as `confirmed`."""

    @classmethod
    def of(cls, delivery: Delivery) -> "DeliveryBody":
        return cls(**asdict(delivery), success=delivery.confirmed)


class OutputBody(Struct):
    output: str
    mode: OutputMode
    records: list[str]
    """The files in which the agent itself keeps this conversation, if known."""


class AskingBody(Struct):
    question: Question | None
    """null while the agent waits for no answer."""


class AnsweredBody(Struct):
    answered: bool
    text: str


class FolderBody(Struct):
    working_directory: str


class EvidenceBody(Evidence, frozen=True):
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
            EvidenceBody(**asdict(one), age=round(max(0.0, now - one.at), 3))
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
    """Seconds from each end to the next resume, all together."""
    providers: dict[str, str]
    terminals: dict[str, str]
    """Ids by role, as long as the agents exist."""
    project: str
    """The user's own folder, if the agents work in a work tree."""
    waiting: str
    """The branch of that work tree, if its work waits to be applied."""
    discarded: bool
    """Was that work tree removed, and its work with it?"""
    applied: bool
    """Was its work brought into the user's branch? The work tree may be gone since."""
    asking: str
    """The role whose agent asks a person something; else empty."""
    stalled: str
    """Why it does not converge, until an author has changed files; else empty."""
    unsaved: bool
    """Was it ended before its first turn, with nothing to resume?"""
    lost: bool
    """Is its saved state missing?"""
    reason: str
    proof: str
    """Of a PASS `proven: …` or `not proven: …`; empty if there was no proof."""
    machine: str
    """The name of the machine that it began on; empty if that is not known."""


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
    cached_input: int
    """The part of it that was read from a cache."""
    output: int
    reasoning: int | None
    """The part of it that was reasoning; null if that is not known."""


class RunTurnTextBody(TurnFacts, frozen=True, kw_only=True):
    prompt: str | None
    reply: str | None
    screen: str | None
    """What the agent showed at the end of the turn, up to 64 KB; null if that is not known."""
    diff: str | None
    files: list[ChangedFileBody] | None
    """The same by file, up to 1,000 of them."""
    usage: UsageBody | None
    """Up to the agent's next prompt, by its own records, sub-agents included; null if unknown."""


class RunDetailBody(RunBody):
    base: str
    """The commit that was checked out when it began; empty if none was."""
    branch: str
    exit_code: int | None
    session_name: str
    settings: dict[str, dict[str, str]]
    """By name: the `value` and its `source`."""
    turns: list[TurnFacts]


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
    """The agent whose next prompt has it; else the next one."""


class SkipBody(AskBody):
    """The review that is meant, by all of these; without them the one under way or due."""

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
    """False if the run has not processed it yet."""
    text: str
