"""The routes: handlers of a few lines that hand everything to the terminal service."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response

from cli_agent_orchestrator import __version__
from cli_agent_orchestrator.api.backend import Served, Service
from cli_agent_orchestrator.api.events import EventStream, event_bytes
from cli_agent_orchestrator.api.hang_up import while_connected
from cli_agent_orchestrator.api.messages import (
    INPUT_DOCUMENTATION,
    STEP_DOCUMENTATION,
    read_message,
    read_step,
)
from cli_agent_orchestrator.api.problems import PROBLEMS, problems
from cli_agent_orchestrator.api.schemas import (
    FEATURES,
    SERVICE_NAME,
    DeliveryBody,
    DoneBody,
    EventBody,
    ExplanationBody,
    FolderBody,
    HealthBody,
    IdentityBody,
    Json,
    OutputBody,
    SessionBody,
    StepAnswerBody,
    TerminalBody,
    delivery_fields,
    explanation_fields,
    inline_schema,
    session_fields,
    step_fields,
    terminal_fields,
    terminal_list,
)
from cli_agent_orchestrator.identity import CHALLENGE_PATTERN, answer_challenge
from cli_agent_orchestrator.models import NewTerminal, OutputMode, StepAnswer
from cli_agent_orchestrator.providers.base import Permissions

TerminalId = Annotated[str, Path(max_length=200, examples=["9f3c2a7b"])]
SessionName = Annotated[str, Path(max_length=200, examples=["cao-shop"])]
Provider = Annotated[str, Query(max_length=200, examples=["codex"])]
AgentProfile = Annotated[str, Query(max_length=200, examples=["system_analyst"])]
Folder = Annotated[
    str | None,
    Query(
        max_length=4096,
        description="Where the agent works; the server's own folder if it is not given.",
        examples=["/home/ada/shop"],
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        description="A repeated request with the same key is not typed twice.",
        pattern="^[ -~]{1,200}$",
        examples=["run-7/programmer/2"],
    ),
]
ROLE_PATTERN = "^[A-Za-z0-9_-]{1,64}$"
DONE = {"success": True}


async def new_terminal(
    provider: Provider,
    agent_profile: AgentProfile,
    working_directory: Folder = None,
    permissions: Annotated[
        Permissions | None,
        Query(description="What the agent may do without asking; the server's own setting if not."),
    ] = None,
    role: Annotated[
        str | None,
        Query(
            pattern=ROLE_PATTERN,
            description="What the agent is for; its terminal is named after it.",
            examples=["analyst_review"],
        ),
    ] = None,
) -> NewTerminal:
    return NewTerminal(provider, agent_profile, working_directory, permissions, role=role)


New = Annotated[NewTerminal, Depends(new_terminal)]

open_router = APIRouter(responses=problems(400, 403, 421))
"""What needs no token."""
router = APIRouter(responses=problems(400, 401, 403, 421))


# First, because routes are tried in order and this one is asked for all the time.
@router.get(
    "/terminals/{terminal_id}",
    summary="Show a terminal and its status",
    response_model=TerminalBody,
    responses=problems(404, 422),
)
async def get_terminal(service: Service, terminal_id: TerminalId) -> Json:
    return Json(terminal_fields(service.terminal(terminal_id)))


@open_router.get("/health", summary="Tell that the server is there", response_model=HealthBody)
async def health() -> Json:
    return Json(
        {"status": "ok", "service": SERVICE_NAME, "version": __version__, "features": FEATURES}
    )


@open_router.get(
    "/identity",
    summary="Prove that the server knows its user's token",
    response_model=IdentityBody,
    responses=problems(422, 501),
)
async def identity(
    request: Request,
    backend: Served,
    challenge: Annotated[
        str,
        Query(
            pattern=CHALLENGE_PATTERN,
            description="A random number that was never used before.",
            examples=["5f" * 32],
        ),
    ],
) -> Json:
    # Where the connection was taken, not what the request says about it.
    address = request.scope["server"]
    if backend.identity is None or address is None or address[1] is None:
        return Json({"detail": PROBLEMS[501][1]}, 501)
    return Json({"identity": answer_challenge(backend.identity, challenge, tuple(address))})


@router.post(
    "/sessions",
    summary="Start an agent in a new session",
    status_code=201,
    response_model=TerminalBody,
    responses=problems(422, 503),
)
async def create_session(
    request: Request,
    service: Service,
    new: New,
    session_name: Annotated[
        str | None, Query(max_length=200, description="Is given the prefix `cao-`.")
    ] = None,
) -> Json:
    creation = service.create_session(new, session_name)
    terminal = await while_connected(request, creation, lambda made: service.delete(made.id))
    return Json(terminal_fields(terminal), 201)


@router.get("/sessions", summary="List the sessions", response_model=list[SessionBody])
async def list_sessions(service: Service) -> Json:
    return Json([session_fields(session) for session in service.sessions()])


@router.get(
    "/sessions/{name}",
    summary="Show a session with its terminals",
    response_model=SessionBody,
    responses=problems(404, 422),
)
async def get_session(service: Service, name: SessionName) -> Json:
    return Json(session_fields(service.session(name)))


@router.delete(
    "/sessions/{name}",
    summary="End a session and all agents in it",
    response_model=DoneBody,
    responses=problems(404, 422, 503),
)
async def delete_session(service: Service, name: SessionName) -> Json:
    await service.delete_session(name)
    return Json(DONE)


@router.post(
    "/sessions/{name}/terminals",
    summary="Start an agent in an existing session",
    status_code=201,
    response_model=TerminalBody,
    responses=problems(404, 422, 503),
)
async def create_terminal(request: Request, service: Service, name: SessionName, new: New) -> Json:
    creation = service.create_terminal(name, new)
    terminal = await while_connected(request, creation, lambda made: service.delete(made.id))
    return Json(terminal_fields(terminal), 201)


@router.get(
    "/sessions/{name}/terminals",
    summary="List the terminals of a session",
    response_model=list[TerminalBody],
    responses=problems(404, 422),
)
async def list_terminals(service: Service, name: SessionName) -> Json:
    return Json(terminal_list(service.session(name).terminals))


@router.delete(
    "/terminals/{terminal_id}",
    summary="End an agent and remove its terminal",
    response_model=DoneBody,
    responses=problems(404, 422, 503),
)
async def delete_terminal(service: Service, terminal_id: TerminalId) -> Json:
    await service.delete(terminal_id)
    return Json(DONE)


@router.post(
    "/terminals/run-step",
    summary="Start an agent, ask it one thing, return its answer, end it",
    response_model=StepAnswerBody,
    responses=problems(409, 413, 415, 422, 502, 503, 504),
    openapi_extra=STEP_DOCUMENTATION,
)
async def run_step(request: Request, service: Service) -> Json:
    step = await read_step(request)

    async def take_back(answer: StepAnswer) -> None:
        if step.keep:
            await service.delete(answer.terminal_id)

    return Json(step_fields(await while_connected(request, service.run_step(step), take_back)))


@router.post(
    "/terminals/{terminal_id}/input",
    summary="Type a message and submit it",
    response_model=DeliveryBody,
    responses={
        202: {
            "model": DeliveryBody,
            "description": "Typed, but there is no sign that the agent took it.",
        },
        **problems(404, 409, 413, 415, 422, 503),
    },
    openapi_extra=INPUT_DOCUMENTATION,
)
async def send_input(
    request: Request,
    service: Service,
    terminal_id: TerminalId,
    message: Annotated[str | None, Query(description="The message, if there is no body.")] = None,
    idempotency_key: IdempotencyKey = None,
) -> Json:
    text = await read_message(request, message)
    delivery = await service.send(terminal_id, text, idempotency_key)
    return Json(delivery_fields(delivery), 200 if delivery.confirmed else 202)


@router.post(
    "/terminals/{terminal_id}/key",
    summary="Press a special key",
    response_model=DoneBody,
    responses=problems(404, 409, 422, 503),
)
async def press_key(
    service: Service,
    terminal_id: TerminalId,
    key: Annotated[str, Query(max_length=50, examples=["Escape"])],
) -> Json:
    await service.press(terminal_id, key)
    return Json(DONE)


@router.get(
    "/terminals/{terminal_id}/output",
    summary="Read what the agent wrote",
    response_model=OutputBody,
    responses=problems(404, 422, 503),
)
async def get_output(
    service: Service, terminal_id: TerminalId, mode: OutputMode = OutputMode.FULL
) -> Json:
    return Json({"output": await service.output(terminal_id, mode), "mode": mode})


@router.get(
    "/terminals/{terminal_id}/explain",
    summary="Say why a terminal has its status",
    response_model=ExplanationBody,
    responses=problems(404, 422),
)
async def explain(backend: Served, terminal_id: TerminalId) -> Json:
    explanation = backend.terminals.explain(terminal_id)
    return Json(explanation_fields(terminal_id, explanation, backend.clock.now()))


@router.get(
    "/terminals/{terminal_id}/working-directory",
    summary="Say where the agent works",
    response_model=FolderBody,
    responses=problems(404, 422),
)
async def get_working_directory(service: Service, terminal_id: TerminalId) -> Json:
    return Json({"working_directory": service.terminal(terminal_id).working_directory})


@router.post(
    "/terminals/{terminal_id}/exit",
    summary="Ask the agent to quit",
    response_model=DoneBody,
    responses=problems(404, 409, 422, 503),
)
async def exit_terminal(service: Service, terminal_id: TerminalId) -> Json:
    await service.exit(terminal_id)
    return Json(DONE)


@router.get(
    "/events",
    summary="Follow what happens to the terminals",
    description="Server-sent events. Begins with a `snapshot` of every terminal, or with what was "
    "missed since the event named by `Last-Event-ID`.",
    response_class=Response,
    responses={
        200: {
            "description": "Endless; the name of an event is its `kind`, `data` holds this.",
            "content": {"text/event-stream": {"schema": inline_schema(EventBody)}},
        },
        **problems(422),
    },
)
async def follow_events(
    backend: Served,
    last_event_id: Annotated[str | None, Header(max_length=200, examples=["67c2d1f0-17"])] = None,
) -> Response:
    events = backend.terminals.subscribe(last_event_id)
    return EventStream(events, backend.closing, backend.heartbeat, event_bytes)
