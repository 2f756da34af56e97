"""What clients can do with sessions and terminals: handlers that hand it all to the service."""

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..core.models import (
    Feature,
    NewTerminal,
    OutputMode,
    Step,
    StepAnswer,
    TerminalEvent,
    check_size,
)
from ..errors import UsageError
from ..version import __version__
from .backend import Backend, Terminals
from .operations import Header, Operation, operation
from .run_routes import answer_question
from .schemas import (
    SERVICE_NAME,
    AnsweredBody,
    AskingBody,
    DeliveryBody,
    DoneBody,
    ExplanationBody,
    FolderBody,
    HealthBody,
    IdempotencyKey,
    InputBody,
    Key,
    KeyBody,
    Name,
    NewSessionQuery,
    NewTerminalQuery,
    OutputBody,
    SessionBody,
    StepAnswerBody,
    StepBody,
    TerminalBody,
)
from .stream import EventStream, sse_bytes, while_connected

ANSWERED = "The question is answered."
STILL_ASKS = "The key was pressed; the agent asks still, or again."


# First, because they are tried in order and this one is asked for all the time.
@operation("GET", "/terminals/{terminal_id}", "Show a terminal and its status")
async def get_terminal(terminals: Terminals, terminal_id: Name) -> TerminalBody:
    return TerminalBody.of(terminals.terminal(terminal_id))


@operation("GET", "/health", "Tell that the server is there")
async def health() -> HealthBody:
    return HealthBody("ok", SERVICE_NAME, __version__, [*Feature])


@operation("POST", "/sessions", "Start an agent in a new session", 503, status=201)
async def create_session(
    request: Request, terminals: Terminals, query: NewSessionQuery
) -> TerminalBody:
    new = msgspec.structs.asdict(query)
    name = new.pop("session_name")
    creation = terminals.create_session(NewTerminal(**new), name)
    terminal = await while_connected(request, creation, lambda made: terminals.delete(made.id))
    return TerminalBody.of(terminal)


@operation("GET", "/sessions", "List the sessions")
async def list_sessions(terminals: Terminals) -> list[SessionBody]:
    return [SessionBody.of(session) for session in terminals.sessions()]


@operation("GET", "/sessions/{name}", "Show a session with its terminals")
async def get_session(terminals: Terminals, name: Name) -> SessionBody:
    return SessionBody.of(terminals.session(name))


@operation("DELETE", "/sessions/{name}", "End a session and all agents in it", 503)
async def delete_session(terminals: Terminals, name: Name) -> DoneBody:
    await terminals.delete_session(name)
    return DoneBody()


@operation(
    "POST", "/sessions/{name}/terminals", "Start an agent in an existing session", 503, status=201
)
async def create_terminal(
    request: Request, terminals: Terminals, name: Name, query: NewTerminalQuery
) -> TerminalBody:
    creation = terminals.create_terminal(name, NewTerminal(**msgspec.structs.asdict(query)))
    terminal = await while_connected(request, creation, lambda made: terminals.delete(made.id))
    return TerminalBody.of(terminal)


@operation("GET", "/sessions/{name}/terminals", "List the terminals of a session")
async def list_terminals(terminals: Terminals, name: Name) -> list[TerminalBody]:
    return SessionBody.of(terminals.session(name)).terminals


@operation("DELETE", "/terminals/{terminal_id}", "End an agent and remove its terminal", 503)
async def delete_terminal(terminals: Terminals, terminal_id: Name) -> DoneBody:
    await terminals.delete(terminal_id)
    return DoneBody()


@operation(
    "POST",
    "/terminals/run-step",
    "Start an agent, ask it one thing, return its answer, end it",
    *(409, 502, 503, 504),
)
async def run_step(request: Request, terminals: Terminals, body: StepBody) -> StepAnswerBody:
    new = NewTerminal(body.provider, body.agent, body.working_directory, body.permissions)
    prompt, keep = check_size(body.prompt), not body.teardown
    step = Step(new, prompt, body.session_name, body.timeout, keep=keep)

    async def take_back(answer: StepAnswer) -> None:
        if keep:
            await terminals.delete(answer.terminal_id)

    answer = await while_connected(request, terminals.run_step(step), take_back)
    return StepAnswerBody.of(answer)


@operation(
    "POST",
    "/terminals/{terminal_id}/input",
    "Type a message and submit it",
    *(409, 503),
    later=("success", "Typed, but there is no sign that the agent took it."),
)
async def send_input(
    terminals: Terminals,
    terminal_id: Name,
    body: InputBody | None,
    message: Annotated[str | None, Meta(description="The message, if there is no body.")] = None,
    idempotency_key: Header[
        Annotated[
            IdempotencyKey | None,
            Meta(description="A repeated request with the same key is not typed twice."),
        ]
    ] = None,
) -> DeliveryBody:
    if body is not None and message is not None:
        raise UsageError("the message is given twice: as a body and as a query parameter")
    text = message if body is None else body.message
    if text is None:
        raise HTTPException(422, "message: give it as a JSON body or as a query parameter")
    delivery = await terminals.send(terminal_id, check_size(text), idempotency_key)
    return DeliveryBody.of(delivery)


@operation("POST", "/terminals/{terminal_id}/key", "Press a special key", 409, 503)
async def press_key(terminals: Terminals, terminal_id: Name, key: Key) -> DoneBody:
    await terminals.press(terminal_id, key)
    return DoneBody()


@operation("GET", "/terminals/{terminal_id}/question", "Read what the agent asks")
async def get_question(terminals: Terminals, terminal_id: Name) -> AskingBody:
    return AskingBody(terminals.question(terminal_id))


@operation(
    "POST",
    "/terminals/{terminal_id}/answer",
    "Answer what the agent asks",
    *(409, 503),
    later=("answered", "The key was pressed, and the agent asks still, or again."),
    description="Presses a key. With the fingerprint of a question it is pressed only while this "
    "question is asked, and only once, whoever else answers it.",
)
async def answer_agent(backend: Backend, terminal_id: Name, body: KeyBody) -> AnsweredBody:
    answered = await answer_question(backend, terminal_id, body.key, body.question)
    return AnsweredBody(answered, ANSWERED if answered else STILL_ASKS)


@operation("GET", "/terminals/{terminal_id}/output", "Read what the agent wrote", 503)
async def get_output(
    terminals: Terminals, terminal_id: Name, mode: OutputMode = OutputMode.FULL
) -> OutputBody:
    records = terminals.records(terminal_id)
    return OutputBody(await terminals.output(terminal_id, mode), mode, records)


@operation("GET", "/terminals/{terminal_id}/explain", "Say why a terminal has its status")
async def explain(backend: Backend, terminal_id: Name) -> ExplanationBody:
    explained = backend.terminals.explain(terminal_id)
    return ExplanationBody.of(terminal_id, explained, backend.clock.now())


@operation("GET", "/terminals/{terminal_id}/working-directory", "Say where the agent works")
async def get_working_directory(terminals: Terminals, terminal_id: Name) -> FolderBody:
    return FolderBody(terminals.terminal(terminal_id).working_directory)


@operation("POST", "/terminals/{terminal_id}/exit", "Ask the agent to quit", 409, 503)
async def exit_terminal(terminals: Terminals, terminal_id: Name) -> DoneBody:
    await terminals.exit(terminal_id)
    return DoneBody()


@operation(
    "GET",
    "/events",
    "Follow what happens to the terminals",
    503,
    meaning="Endless; the name of an event is its `kind`, `data` holds this.",
    description="Server-sent events. Begins with a `snapshot` of every terminal, or with what was "
    "missed since the event named by `Last-Event-ID`.",
)
async def follow_events(
    backend: Backend, last_event_id: Header[Name | None] = None
) -> EventStream[TerminalEvent]:
    events = backend.terminals.subscribe(last_event_id)
    return EventStream(events, backend, lambda event: sse_bytes(event.kind, event.id, event))


OPERATIONS = [one for one in list(vars().values()) if isinstance(one, Operation)]
