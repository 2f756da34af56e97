"""Request and response bodies: what they hold, and how they look in the documentation.

Answers are built from our own frozen values by the `…_fields` functions, without validating them
a second time. The models document them; a test holds both together.
"""

import json
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from starlette.responses import JSONResponse

from cli_agent_orchestrator.models import (
    MESSAGE_LIMIT,
    Delivery,
    Evidence,
    Explanation,
    Feature,
    OutputMode,
    Session,
    StepAnswer,
    Terminal,
    TerminalEvent,
    TerminalStatus,
)
from cli_agent_orchestrator.providers.base import Permissions

SERVICE_NAME = "cli-agent-orchestrator"
FEATURES = tuple(feature.value for feature in Feature)
BODY_LIMIT = 3 * MESSAGE_LIMIT + 4096
"""Bytes of a request body: JSON that escapes all but ASCII takes up to three times the text."""

Shown = Terminal | Delivery | Evidence | TerminalEvent
"""Values whose fields are shown under their own names."""

EXAMPLE_TERMINAL: JsonDict = {
    "id": "9f3c2a7b",
    "name": "analyst-f4f9",
    "provider": "codex",
    "session_name": "cao-shop",
    "agent_profile": "system_analyst",
    "working_directory": "/home/ada/shop",
    "status": "idle",
    "last_active": "2025-03-01T09:30:00.250000+00:00",
    "alive": True,
    "exit_code": None,
    "action": "Bash: make test",
    "permissions": "workspace",
    "role": "analyst",
    "created_at": 1740821100.5,
}


class Json(JSONResponse):
    """A JSON answer that nobody keeps and no browser takes for anything else."""

    def render(self, content: Any) -> bytes:  # Any: as in JSONResponse
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # Half a character, which a screen may show, has no UTF-8.
        return text.encode("utf-8", "replace")

    def init_headers(self, headers: Any = None) -> None:  # Any: as in JSONResponse
        super().init_headers(headers)
        self.raw_headers += [
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]


class Body(BaseModel):
    """A documented body: what it does not name is not in it."""

    model_config = ConfigDict(extra="forbid")


class HealthBody(Body):
    status: Literal["ok"]
    service: Literal["cli-agent-orchestrator"]
    version: str = Field(examples=["0.1.0"])
    features: list[str] = Field(
        description="What this server can do beyond the common routes.", examples=[list(FEATURES)]
    )


class IdentityBody(Body):
    identity: str = Field(
        description="HMAC-SHA256 of `cao-identity CHALLENGE PORT ADDRESS` under the token; port "
        "and IP address are those at which the server took the connection.",
        examples=["c0" * 32],
    )


class TerminalBody(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_TERMINAL]})

    id: str
    name: str
    provider: str
    session_name: str
    agent_profile: str
    working_directory: str
    status: TerminalStatus
    last_active: str = Field(description="Time of the last change of status or input, in UTC.")
    alive: bool = Field(description="False once the agent's program has ended.")
    exit_code: int | None = Field(
        description="How the program ended; a signal counts as 128 + its number."
    )
    action: str = Field(
        description="What the agent said last that it does; empty if it did not say."
    )
    permissions: str | None = Field(
        description="What it may do without asking; null if an earlier version started it."
    )
    role: str | None = Field(description="What it is for; null if that was not said.")
    created_at: float | None = Field(description="When it was started, as Unix time.")


class SessionBody(Body):
    name: str = Field(examples=["cao-shop"])
    terminals: list[TerminalBody]


class InputBody(BaseModel):
    """What is typed into a terminal; fields that are not known are ignored."""

    message: str = Field(examples=["Add a test for the empty cart."])


class StepBody(BaseModel):
    """An agent and what it is asked; fields that are not known are ignored."""

    provider: str = Field(max_length=200, examples=["codex"])
    agent: str = Field(max_length=200, description="The profile.", examples=["tester"])
    prompt: str = Field(examples=["Run the tests and say what fails."])
    working_directory: str | None = Field(default=None, max_length=4096)
    session_name: str | None = Field(
        default=None, max_length=200, description="Is joined if it is there, else made."
    )
    timeout: float = Field(
        default=600.0, gt=0, le=86_400, description="Seconds that the agent may work."
    )
    teardown: bool = Field(default=True, description="End the agent when it has answered.")
    permissions: Permissions | None = None


class StepAnswerBody(Body):
    terminal_id: str
    last_message: str = Field(examples=["All tests pass."])
    status: TerminalStatus
    replayed: Literal[False] = Field(description="Answers are never taken from an earlier step.")


class DeliveryBody(Body):
    success: bool = Field(description="The same as `confirmed`.")
    confirmed: bool = Field(description="True after a positive sign that the agent took it.")
    detail: str = Field(examples=["the agent started to work"])
    enter_presses: int = Field(examples=[1])
    removed_characters: int = Field(
        description="How many control characters were taken out of the message.", examples=[0]
    )


class OutputBody(Body):
    output: str = Field(examples=["All tests pass."])
    mode: OutputMode


class FolderBody(Body):
    working_directory: str = Field(examples=["/home/ada/shop"])


class DoneBody(Body):
    success: Literal[True]


class EvidenceBody(Body):
    source: str = Field(examples=["title"])
    status: TerminalStatus | None
    detail: str = Field(examples=["⠋ shop"])
    at: float = Field(description="Unix time.", examples=[1740821400.25])
    age: float = Field(description="Seconds since then.", examples=[0.8])


class ExplanationBody(Body):
    terminal_id: str
    status: TerminalStatus
    reason: str = Field(examples=["the title shows a spinner"])
    evidence: list[EvidenceBody]


class EventBody(Body):
    """The `data` of one event; the event's name is `kind`."""

    id: str = Field(examples=["67c2d1f0-17"])
    kind: str = Field(
        description="`status`, `action`, `removed` or `snapshot`.", examples=["status"]
    )
    terminal_id: str
    session_name: str
    status: TerminalStatus
    reason: str
    at: float = Field(description="Unix time.", examples=[1740821400.25])
    alive: bool
    exit_code: int | None
    action: str = Field(examples=["Bash: make test"])


class RunBody(Body):
    id: str = Field(examples=["20261115-084037-k3f9"])
    wd: str = Field(description="Where its agents work.", examples=["/home/ada/shop"])
    task: str = Field(description="What is to be done, on one line.")
    flow: str = Field(examples=["loop"])
    status: Literal["running", "paused", "interrupted", "PASS", "FAIL", "stopped", "failed"]
    round: int
    role: str = Field(description="Who works now.", examples=["programmer"])
    started: float = Field(description="Unix time.", examples=[1740821400.25])
    ended: float | None
    providers: dict[str, str] = Field(description="The agent of each role.")
    terminals: dict[str, str] = Field(description="Ids by role, as long as the agents are there.")


class RunTurnBody(Body):
    sequence: int = Field(description="Its number in the run.")
    role: str = Field(description="Of the command of a gate its stage.", examples=["analyst"])
    round: int
    cycle: int
    provider: str = Field(description="Of the command of a gate `command`.", examples=["codex"])
    terminal_id: str
    began: float = Field(description="Unix time.", examples=[1740821400.25])
    ended: float | None
    seconds: float = Field(description="How long the agent worked.")
    outcome: str = Field(description="Empty as long as there is no reply.", examples=["approved"])
    detail: str = Field(description="The same for people, with its reason.")
    reviewed: bool = Field(description="Does a review follow, or is it one?")


class RunTurnTextBody(RunTurnBody):
    prompt: str | None
    reply: str | None


class SavedSettingBody(Body):
    value: str
    source: str = Field(examples=["option"])


class RunDetailBody(RunBody):
    reason: str = Field(description="Why it ended without a verdict.")
    exit_code: int | None
    session_name: str
    settings: dict[str, SavedSettingBody]
    turns: list[RunTurnBody]


class RunEventBody(BaseModel):
    """The `data` of one event of a run; more fields depend on its type."""

    seq: int
    at: float = Field(description="Unix time.", examples=[1740821400.25])
    type: str = Field(examples=["turn_began"])


class NewRunBody(BaseModel):
    """A run to be started; fields that are not known are ignored."""

    wd: str = Field(max_length=4096, examples=["/home/ada/shop"])
    task: str | None = Field(default=None, description="The text of the task.")
    task_file: str | None = Field(default=None, max_length=4096)
    settings: dict[str, str] = Field(
        default={}, description="By variable name.", examples=[{"MAX_ROUNDS": "3"}]
    )
    resume: bool | None = Field(default=None, description="As `--resume` and `--no-resume`.")
    replace_terminals: bool = False


class HintBody(BaseModel):
    """What an agent is to be told with its next prompt."""

    text: str = Field(examples=["The parser is in src/reader.py."])
    role: str | None = Field(
        default=None, description="Whose next prompt; else the next one.", examples=["programmer"]
    )


class ChangeBody(BaseModel):
    """A setting of a run that is to change."""

    name: str = Field(examples=["max_rounds"])
    value: str = Field(examples=["12"])


class AskedBody(Body):
    heard: bool = Field(description="False if the run has not heard of it yet.")
    text: str = Field(examples=["The run pauses when the present turn has ended."])


class ProblemBody(Body):
    detail: str = Field(description="What went wrong and what to do.")


def inline_schema(body: type[BaseModel]) -> dict[str, Any]:  # Any: JSON schema
    """Return the schema of a body that is documented by hand; what it refers to is elsewhere."""
    schema = body.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return schema


def reference(body: type[BaseModel]) -> dict[str, str]:
    """Return what stands for the schema of a body that the document has elsewhere."""
    return {"$ref": f"#/components/schemas/{body.__name__}"}


def _fields(value: Shown) -> dict[str, object]:
    """Return the fields of a value by their names, as they are."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def terminal_fields(terminal: Terminal) -> dict[str, object]:
    # Existing clients read a date here; our own additions use unix time.
    last_active = datetime.fromtimestamp(terminal.last_active, UTC).isoformat()
    return {**_fields(terminal), "last_active": last_active}


def terminal_list(terminals: Sequence[Terminal]) -> list[dict[str, object]]:
    return [terminal_fields(terminal) for terminal in terminals]


def session_fields(session: Session) -> dict[str, object]:
    return {"name": session.name, "terminals": terminal_list(session.terminals)}


def delivery_fields(delivery: Delivery) -> dict[str, object]:
    return {"success": delivery.confirmed, **_fields(delivery)}


def step_fields(answer: StepAnswer) -> dict[str, object]:
    return {
        "terminal_id": answer.terminal_id,
        "last_message": answer.answer,
        "status": answer.status,
        "replayed": False,
    }


def explanation_fields(terminal_id: str, explanation: Explanation, now: float) -> dict[str, object]:
    return {
        "terminal_id": terminal_id,
        "status": explanation.status,
        "reason": explanation.reason,
        "evidence": [
            {**_fields(evidence), "age": round(max(0.0, now - evidence.at), 3)}
            for evidence in explanation.evidence
        ],
    }


def event_fields(event: TerminalEvent) -> dict[str, object]:
    return _fields(event)
