"""What requests say besides a body: the names in a path, the query, and headers."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from ..core.models import MOST_RUNS, RUN_INDEX, OutputMode
from ..providers.base import Permissions
from .schemas import Name, Path

RunId = Annotated[
    Name,
    Meta(description="The id, the beginning of it or its end.", examples=["20261115-084037-k3f9"]),
]

AT_THE_END = r"(?!\n)"
"""After `$`, which in Python lets a line break follow."""
ROLE_PATTERN = f"^[A-Za-z0-9_-]{{1,64}}${AT_THE_END}"
KEY_PATTERN = f"^[ -~]{{1,200}}${AT_THE_END}"


class TerminalPath(Struct):
    terminal_id: Annotated[Name, Meta(examples=["9f3c2a7b"])]


class SessionPath(Struct):
    name: Annotated[Name, Meta(examples=["cao-shop"])]


class RunPath(Struct):
    run: RunId


class TurnPath(Struct):
    run: RunId
    sequence: Annotated[int, Meta(ge=0)]


class Verb(StrEnum):
    """What can be asked of a run in one word."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


class SteerPath(Struct):
    run: RunId
    do: Verb


class NewTerminalQuery(Struct):
    provider: Annotated[Name, Meta(examples=["codex"])]
    agent_profile: Annotated[Name, Meta(examples=["system_analyst"])]
    working_directory: Annotated[
        Path | None,
        Meta(
            description="Where the agent works; the server's own folder if it is not given.",
            examples=["/home/ada/shop"],
        ),
    ] = None
    permissions: Annotated[
        Permissions | None,
        Meta(description="What the agent may do without asking; the server's own setting if not."),
    ] = None
    role: Annotated[
        Annotated[str, Meta(pattern=ROLE_PATTERN)] | None,
        Meta(
            description="What the agent is for; its terminal is named after it.",
            examples=["analyst_review"],
        ),
    ] = None
    run_index: Annotated[
        Annotated[int, Meta(ge=0, lt=MOST_RUNS)] | None,
        Meta(description=f"The number of its run; the agent finds it in `{RUN_INDEX}`."),
    ] = None
    record: Annotated[
        bool,
        Meta(
            description="Whether its screens are recorded: if it has a `role`, and its session is "
            "that of a run in the server's state folder."
        ),
    ] = False


class NewSessionQuery(NewTerminalQuery):
    session_name: Annotated[Name | None, Meta(description="Is given the prefix `cao-`.")] = None


class InputQuery(Struct):
    message: Annotated[str | None, Meta(description="The message, if there is no body.")] = None


class KeyQuery(Struct):
    key: Annotated[str, Meta(max_length=50, examples=["Escape"])]


class OutputQuery(Struct):
    mode: OutputMode = OutputMode.FULL


class InputHeaders(Struct, rename="kebab"):
    idempotency_key: Annotated[
        Annotated[str, Meta(pattern=KEY_PATTERN)] | None,
        Meta(
            description="A repeated request with the same key is not typed twice.",
            examples=["run-7/programmer/2"],
        ),
    ] = None


class EventsHeaders(Struct, rename="kebab"):
    last_event_id: Annotated[Name | None, Meta(examples=["67c2d1f0-17"])] = None


class RunEventsHeaders(Struct, rename="kebab"):
    last_event_id: Annotated[Annotated[str, Meta(max_length=20)] | None, Meta(examples=["17"])] = (
        None
    )
