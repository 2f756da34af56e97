"""Request and response bodies: what they hold, and how they look in the documentation.

Answers are built from our own frozen values by the `…_fields` functions, without validating them
a second time. The Structs document them; a test holds both together.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct
from starlette.responses import JSONResponse

from cli_agent_orchestrator._internal.models import (
    MESSAGE_LIMIT,
    Delivery,
    Evidence,
    Explanation,
    Feature,
    OutputMode,
    Question,
    Session,
    StepAnswer,
    Terminal,
    TerminalEvent,
    TerminalStatus,
)
from cli_agent_orchestrator._internal.providers.base import Permissions

SERVICE_NAME = "cli-agent-orchestrator"
FEATURES = tuple(feature.value for feature in Feature)
BODY_LIMIT = 3 * MESSAGE_LIMIT + 4096
"""Bytes of a request body: JSON that escapes all but ASCII takes up to three times the text."""

Shown = Terminal | Delivery | Evidence | TerminalEvent
"""Values whose fields are shown under their own names."""


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


Time = Annotated[float, Meta(description="Unix time.", examples=[1740821400.25])]
Path = Annotated[str, Meta(max_length=4096)]
Name = Annotated[str, Meta(max_length=200)]
Key = Annotated[
    str,
    Meta(
        max_length=50,
        description="A key, of those that `POST /terminals/{id}/key` takes.",
        examples=["1"],
    ),
]
QuestionMeant = (
    Annotated[
        str,
        Meta(
            max_length=100,
            description="The fingerprint of the question that is meant: no other one is answered.",
        ),
    ]
    | None
)


class Body(Struct, forbid_unknown_fields=True):
    """A documented answer: what it does not name is not in it."""


class HealthBody(Body):
    status: Literal["ok"]
    service: Literal["cli-agent-orchestrator"]
    version: Annotated[str, Meta(examples=["0.1.0"])]
    features: Annotated[
        list[str],
        Meta(
            description="What this server can do beyond the common routes.",
            examples=[list(FEATURES)],
        ),
    ]


class IdentityBody(Body):
    identity: Annotated[
        str,
        Meta(
            description="HMAC-SHA256 of `cao-identity CHALLENGE PORT ADDRESS` under the token; "
            "port and IP address are those at which the server took the connection.",
            examples=["c0" * 32],
        ),
    ]


class TerminalBody(Body):
    id: Annotated[str, Meta(examples=["9f3c2a7b"])]
    name: Annotated[str, Meta(examples=["analyst-f4f9"])]
    provider: Annotated[str, Meta(examples=["codex"])]
    session_name: Annotated[str, Meta(examples=["cao-shop"])]
    agent_profile: Annotated[str, Meta(examples=["system_analyst"])]
    working_directory: Annotated[str, Meta(examples=["/home/ada/shop"])]
    status: TerminalStatus
    last_active: Annotated[
        str,
        Meta(
            description="Time of the last change of status or input, in UTC.",
            examples=["2025-03-01T09:30:00.250000+00:00"],
        ),
    ]
    alive: Annotated[bool, Meta(description="False once the agent's program has ended.")]
    exit_code: Annotated[
        int | None,
        Meta(description="How the program ended; a signal counts as 128 + its number."),
    ]
    action: Annotated[
        str,
        Meta(
            description="What the agent said last that it does; empty if it did not say.",
            examples=["Bash: make test"],
        ),
    ]
    permissions: Annotated[
        str | None,
        Meta(
            description="What it may do without asking; null if an earlier version started it.",
            examples=["workspace"],
        ),
    ]
    role: Annotated[
        str | None,
        Meta(description="What it is for; null if that was not said.", examples=["analyst"]),
    ]
    created_at: Annotated[
        float | None,
        Meta(description="When it was started, as Unix time.", examples=[1740821100.5]),
    ]


class SessionBody(Body):
    name: Annotated[str, Meta(examples=["cao-shop"])]
    terminals: list[TerminalBody]


class RequestBody(Struct):
    """What a request brings; fields that are not known are ignored."""

    most_bytes: ClassVar[int] = BODY_LIMIT
    most_text: ClassVar[int] = MESSAGE_LIMIT
    """How much text that is: JSON may take more bytes than the text in it."""


class InputBody(RequestBody):
    """What is typed into a terminal; fields that are not known are ignored."""

    message: Annotated[
        str, Meta(description="Up to 8 MiB.", examples=["Add a test for the empty cart."])
    ]


class StepBody(RequestBody):
    """An agent and what it is asked; fields that are not known are ignored."""

    provider: Annotated[Name, Meta(examples=["codex"])]
    agent: Annotated[Name, Meta(description="The profile.", examples=["tester"])]
    prompt: Annotated[str, Meta(examples=["Run the tests and say what fails."])]
    working_directory: Path | None = None
    session_name: Annotated[
        Name | None, Meta(description="Is joined if it is there, else made.")
    ] = None
    timeout: Annotated[
        float, Meta(gt=0, le=86_400, description="Seconds that the agent may work.")
    ] = 600.0
    teardown: Annotated[bool, Meta(description="End the agent when it has answered.")] = True
    permissions: Permissions | None = None


class StepAnswerBody(Body):
    terminal_id: str
    last_message: Annotated[str, Meta(examples=["All tests pass."])]
    status: TerminalStatus
    replayed: Annotated[
        bool,
        Meta(description="False: answers are never taken from an earlier step.", examples=[False]),
    ]


class DeliveryBody(Body):
    success: Annotated[bool, Meta(description="The same as `confirmed`.")]
    confirmed: Annotated[
        bool, Meta(description="True after a positive sign that the agent took it.")
    ]
    detail: Annotated[str, Meta(examples=["the agent started to work"])]
    enter_presses: Annotated[int, Meta(examples=[1])]
    removed_characters: Annotated[
        int,
        Meta(
            description="How many control characters were taken out of the message.", examples=[0]
        ),
    ]


class OutputBody(Body):
    output: Annotated[str, Meta(examples=["All tests pass."])]
    mode: OutputMode
    records: Annotated[
        list[str],
        Meta(
            description="The files in which the agent itself keeps this conversation, as far as "
            "they were found.",
            examples=[["/home/ada/.codex/sessions/2025/03/01/rollout-0190.jsonl"]],
        ),
    ]


class ChoiceBody(Body):
    key: Annotated[str, Meta(description="The key that picks it.", examples=["1"])]
    label: Annotated[str, Meta(examples=["Yes, proceed"])]


class QuestionBody(Body):
    text: Annotated[str, Meta(examples=["Do you want to run this command?"])]
    choices: Annotated[
        list[ChoiceBody],
        Meta(description="Empty if the screen does not tell; its end is then the text."),
    ]
    fingerprint: Annotated[
        str,
        Meta(
            description="Stands for this very asking; who answers with it answers nothing else.",
            examples=["3f0c9a7d52b14e6688d1c0a9e4f7b235"],
        ),
    ]


class AskingBody(Body):
    question: Annotated[
        QuestionBody | None, Meta(description="null while the agent waits for no answer.")
    ]


class KeyBody(RequestBody):
    """A key that answers what an agent asks; fields that are not known are ignored."""

    most_bytes: ClassVar[int] = 4096
    most_text: ClassVar[int] = 4096
    key: Key
    question: QuestionMeant = None


class AnsweredBody(Body):
    answered: Annotated[bool, Meta(description="Does the agent not ask any more?")]
    text: Annotated[str, Meta(examples=["The question is answered."])]


class FolderBody(Body):
    working_directory: Annotated[str, Meta(examples=["/home/ada/shop"])]


class DoneBody(Body):
    success: Annotated[bool, Meta(examples=[True])]


class EvidenceBody(Body):
    source: Annotated[str, Meta(examples=["title"])]
    status: TerminalStatus | None
    detail: Annotated[str, Meta(examples=["⠋ shop"])]
    at: Time
    age: Annotated[float, Meta(description="Seconds since then.", examples=[0.8])]
    found: Annotated[
        bool,
        Meta(description="Was it so already when the server began? Nobody knows since when then."),
    ]


class ExplanationBody(Body):
    terminal_id: str
    status: TerminalStatus
    reason: Annotated[str, Meta(examples=["title: ⠋ shop"])]
    evidence: list[EvidenceBody]


class EventBody(Body):
    """The `data` of one event; the event's name is `kind`."""

    id: Annotated[str, Meta(examples=["67c2d1f0-17"])]
    kind: Annotated[
        str,
        Meta(description="`status`, `action`, `removed` or `snapshot`.", examples=["status"]),
    ]
    terminal_id: str
    session_name: str
    status: TerminalStatus
    reason: str
    at: Time
    alive: bool
    exit_code: int | None
    action: Annotated[str, Meta(examples=["Bash: make test"])]


class ProblemBody(Body):
    detail: Annotated[str, Meta(description="What went wrong and what to do.")]


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


def question_fields(question: Question | None) -> dict[str, object]:
    return {"question": None if question is None else asdict(question)}


def event_fields(event: TerminalEvent) -> dict[str, object]:
    return _fields(event)
