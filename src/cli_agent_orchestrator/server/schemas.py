"""Request and response bodies: what they hold, and how they look in the documentation.

Answers are built from our own frozen values by the `…_fields` functions, without validating them
a second time. The Structs document them; a test holds both together.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field
from starlette.responses import JSONResponse

from ..core.models import (
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
from ..providers.base import Permissions

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


ASK_LIMIT = 64 * 1024
"""Bytes of what is asked of a run."""


class RunBody(Body):
    id: Annotated[str, Meta(examples=["20261115-084037-k3f9"])]
    wd: Annotated[str, Meta(description="Where its agents work.", examples=["/home/ada/shop"])]
    task: Annotated[str, Meta(description="What is to be done, on one line.")]
    flow: Annotated[str, Meta(examples=["loop"])]
    status: Literal["running", "paused", "interrupted", "PASS", "FAIL", "stopped", "failed"]
    round: int
    role: Annotated[str, Meta(description="Who works now.", examples=["programmer"])]
    started: Time
    ended: float | None
    rested: Annotated[
        float,
        Meta(description="Seconds from each end to when it was resumed, all together."),
    ]
    providers: Annotated[dict[str, str], Meta(description="The agent of each role.")]
    terminals: Annotated[
        dict[str, str], Meta(description="Ids by role, as long as the agents are there.")
    ]
    project: Annotated[
        str, Meta(description="The user's own folder, if the agents work in a work tree.")
    ]
    waiting: Annotated[
        str, Meta(description="The branch of that work tree, if its work waits to be applied.")
    ]
    discarded: Annotated[
        bool, Meta(description="Was that work tree removed, and its work with it?")
    ]
    applied: Annotated[
        bool,
        Meta(
            description="Was its work brought into the user's branch? The work tree may be gone "
            "since."
        ),
    ]
    asking: Annotated[
        str, Meta(description="The role whose agent asks a person something; empty if none does.")
    ]
    circling: Annotated[
        str,
        Meta(
            description="Why it does not converge, until an author has changed files; empty if it "
            "may, or passed."
        ),
    ]
    unsaved: Annotated[
        bool, Meta(description="Was it ended before its first turn, with nothing to resume?")
    ]
    lost: Annotated[bool, Meta(description="Is what was saved of it not there any more?")]
    reason: Annotated[str, Meta(description="Why it ended without a verdict.")]
    proof: Annotated[
        str,
        Meta(
            description="Of a PASS `proven: …` or `not proven: …`; empty if that was not looked "
            "into."
        ),
    ]


class RunTurnBody(Body):
    sequence: Annotated[int, Meta(description="Its number in the run.")]
    role: Annotated[
        str, Meta(description="Of the command of a gate its name.", examples=["analyst"])
    ]
    round: int
    cycle: int
    provider: Annotated[
        str, Meta(description="Of the command of a gate `command`.", examples=["codex"])
    ]
    terminal_id: str
    began: Time
    ended: Annotated[
        float | None,
        Meta(
            description="Null as long as it is under way. One that has ended without an outcome "
            "was broken off."
        ),
    ]
    seconds: Annotated[float, Meta(description="How long the agent worked.")]
    outcome: Annotated[
        str, Meta(description="Empty as long as there is no reply.", examples=["approved"])
    ]
    detail: Annotated[str, Meta(description="The same for people, with its reason.")]
    verdict: Annotated[str, Meta(description="`detail` without what follows from it.")]
    why: Annotated[str, Meta(description="What stands behind the verdict, without its own word.")]
    reason: Annotated[
        str, Meta(description="The first point against the work, in the agent's own words.")
    ]
    reviewed: Annotated[bool, Meta(description="Does a review follow, or is it one?")]


class ChangedFileBody(Body):
    path: str
    status: Annotated[
        str,
        Meta(
            description="`A` added, `M` modified, `D` deleted, `R` moved, `T` of another kind now.",
            examples=["M"],
        ),
    ]
    added: Annotated[int, Meta(description="Lines; -1 if it is binary.")]
    removed: int


class UsageBody(Body):
    """Tokens, in one meaning for all agents."""

    input: Annotated[int, Meta(description="All that the model was given.", examples=[48200])]
    cached_input: Annotated[
        int, Meta(description="The part of it that was read from a cache.", examples=[39000])
    ]
    output: Annotated[int, Meta(description="All that the model made.", examples=[2100])]
    reasoning: Annotated[
        int | None,
        Meta(
            description="The part of it that was reasoning; null if the agent does not tell it.",
            examples=[640],
        ),
    ]


class RunTurnTextBody(RunTurnBody):
    prompt: str | None
    reply: str | None
    screen: Annotated[
        str | None,
        Meta(
            description="What the agent showed when the turn had ended, up to 64 KB; null if that "
            "is not known. A gate has none."
        ),
    ]
    diff: Annotated[
        str | None, Meta(description="What it changed, up to 1 MB; null if that is not known.")
    ]
    files: Annotated[
        list[ChangedFileBody] | None, Meta(description="The same by file, up to 1,000 of them.")
    ]
    usage: Annotated[
        UsageBody | None,
        Meta(
            description="What it took up to the agent's next prompt, by the agent's own records, "
            "sub-agents included; null if that is not known."
        ),
    ]


class SavedSettingBody(Body):
    value: str
    source: Annotated[str, Meta(examples=["option"])]


class RunDetailBody(RunBody):
    base: Annotated[
        str, Meta(description="The commit that was checked out when it began; empty if none was.")
    ]
    branch: str
    exit_code: int | None
    session_name: str
    settings: dict[str, SavedSettingBody]
    turns: list[RunTurnBody]


class RunEventBody(Struct):
    """The `data` of one event of a run; more fields depend on its type."""

    seq: int
    at: Time
    type: Annotated[str, Meta(examples=["turn_began"])]


class NewRunBody(RequestBody):
    """A run to be started; fields that are not known are ignored."""

    wd: Annotated[Path, Meta(examples=["/home/ada/shop"])]
    task: Annotated[
        str | None,
        Meta(description="The text of the task; the heading `# Task` may be left out."),
    ] = None
    task_file: Path | None = None
    settings: Annotated[
        dict[str, str], Meta(description="By variable name.", examples=[{"MAX_ROUNDS": "3"}])
    ] = field(default_factory=dict)
    resume: Annotated[bool | None, Meta(description="As `--resume` and `--no-resume`.")] = None
    replace_terminals: bool = False


class AskBody(RequestBody):
    """What is asked of a run: little."""

    most_bytes: ClassVar[int] = ASK_LIMIT
    most_text: ClassVar[int] = ASK_LIMIT


class HintBody(AskBody):
    """What an agent is to be told with its next prompt."""

    text: Annotated[str, Meta(examples=["The parser is in src/reader.py."])]
    role: Annotated[
        str | None,
        Meta(description="Whose next prompt; else the next one.", examples=["programmer"]),
    ] = None


class SkipBody(AskBody):
    """The review that is meant, by all of these; without them whichever is under way or due."""

    role: Annotated[str | None, Meta(description="The reviewer.", examples=["analyst_review"])] = (
        None
    )
    round: int | None = None
    cycle: int | None = None


class AnswerBody(AskBody):
    """What answers the question of an agent of a run."""

    text: Key
    question: QuestionMeant = None
    role: Annotated[
        str | None, Meta(description="Who asks, if several do.", examples=["programmer"])
    ] = None


class ChangeBody(AskBody):
    """A setting of a run that is to change."""

    name: Annotated[str, Meta(examples=["max_rounds"])]
    value: Annotated[str, Meta(examples=["12"])]


class AskedBody(Body):
    heard: Annotated[bool, Meta(description="False if the run has not heard of it yet.")]
    text: Annotated[str, Meta(examples=["The run pauses when the present turn has ended."])]
