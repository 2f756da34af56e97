"""What clients can do with sessions and terminals: handlers that hand it all to the service."""

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..core.models import NewTerminal, Step, StepAnswer, TerminalEvent, check_size
from ..errors import UsageError
from ..version import __version__
from .backend import Backend, Terminals
from .parameters import (
    EventsHeaders,
    InputHeaders,
    InputQuery,
    KeyQuery,
    NewSessionQuery,
    NewTerminalQuery,
    OutputQuery,
    SessionPath,
    TerminalPath,
)
from .reading import Success, operation
from .run_routes import answer_question
from .schemas import (
    FEATURES,
    SERVICE_NAME,
    AnsweredBody,
    AskingBody,
    DeliveryBody,
    DoneBody,
    EventBody,
    ExplanationBody,
    FolderBody,
    HealthBody,
    InputBody,
    Json,
    KeyBody,
    OutputBody,
    SessionBody,
    StepAnswerBody,
    StepBody,
    TerminalBody,
    delivery_fields,
    explanation_fields,
    question_fields,
    session_fields,
    step_fields,
    terminal_fields,
    terminal_list,
)
from .stream import EVENT_STREAM, EventStream, event_bytes, while_connected


def message_of(query: str | None, body: InputBody | None) -> str:
    """Return the message of a request, which gives it in one of the two ways."""
    if body is None:
        if query is None:
            raise HTTPException(422, "message: give it as a JSON body or as a query parameter")
        return check_size(query)
    if query is not None:
        raise UsageError("the message is given twice: as a body and as a query parameter")
    return check_size(body.message)


def step_of(body: StepBody) -> Step:
    """Return the step that a body asks for."""
    new = NewTerminal(body.provider, body.agent, body.working_directory, body.permissions)
    prompt = check_size(body.prompt)
    return Step(new, prompt, body.session_name, body.timeout, keep=not body.teardown)


DONE = {"success": True}
ANSWERED = "The question is answered."
STILL_ASKS = "The key was pressed; the agent asks still, or again."


@operation(
    "GET",
    "/health",
    "Tell that the server is there",
    Success(HealthBody),
)
async def health() -> Json:
    return Json(
        {"status": "ok", "service": SERVICE_NAME, "version": __version__, "features": FEATURES}
    )


@operation(
    "POST",
    "/sessions",
    "Start an agent in a new session",
    Success(TerminalBody, 201),
    errors=(422, 503),
)
async def create_session(request: Request, terminals: Terminals, query: NewSessionQuery) -> Json:
    creation = terminals.create_session(new_terminal(query), query.session_name)
    terminal = await while_connected(request, creation, lambda made: terminals.delete(made.id))
    return Json(terminal_fields(terminal), 201)


@operation(
    "GET",
    "/sessions",
    "List the sessions",
    Success(list[SessionBody]),
)
async def list_sessions(terminals: Terminals) -> Json:
    return Json([session_fields(session) for session in terminals.sessions()])


@operation(
    "GET",
    "/sessions/{name}",
    "Show a session with its terminals",
    Success(SessionBody),
    errors=(404, 422),
)
async def get_session(terminals: Terminals, path: SessionPath) -> Json:
    return Json(session_fields(terminals.session(path.name)))


@operation(
    "DELETE",
    "/sessions/{name}",
    "End a session and all agents in it",
    Success(DoneBody),
    errors=(404, 422, 503),
)
async def delete_session(terminals: Terminals, path: SessionPath) -> Json:
    await terminals.delete_session(path.name)
    return Json(DONE)


@operation(
    "POST",
    "/sessions/{name}/terminals",
    "Start an agent in an existing session",
    Success(TerminalBody, 201),
    errors=(404, 422, 503),
)
async def create_terminal(
    request: Request, terminals: Terminals, path: SessionPath, query: NewTerminalQuery
) -> Json:
    creation = terminals.create_terminal(path.name, new_terminal(query))
    terminal = await while_connected(request, creation, lambda made: terminals.delete(made.id))
    return Json(terminal_fields(terminal), 201)


@operation(
    "GET",
    "/sessions/{name}/terminals",
    "List the terminals of a session",
    Success(list[TerminalBody]),
    errors=(404, 422),
)
async def list_terminals(terminals: Terminals, path: SessionPath) -> Json:
    return Json(terminal_list(terminals.session(path.name).terminals))


@operation(
    "GET",
    "/terminals/{terminal_id}",
    "Show a terminal and its status",
    Success(TerminalBody),
    errors=(404, 422),
)
async def get_terminal(terminals: Terminals, path: TerminalPath) -> Json:
    return Json(terminal_fields(terminals.terminal(path.terminal_id)))


@operation(
    "DELETE",
    "/terminals/{terminal_id}",
    "End an agent and remove its terminal",
    Success(DoneBody),
    errors=(404, 422, 503),
)
async def delete_terminal(terminals: Terminals, path: TerminalPath) -> Json:
    await terminals.delete(path.terminal_id)
    return Json(DONE)


@operation(
    "POST",
    "/terminals/run-step",
    "Start an agent, ask it one thing, return its answer, end it",
    Success(StepAnswerBody),
    errors=(409, 413, 415, 422, 502, 503, 504),
)
async def run_step(request: Request, terminals: Terminals, body: StepBody) -> Json:
    step = step_of(body)

    async def take_back(answer: StepAnswer) -> None:
        if step.keep:
            await terminals.delete(answer.terminal_id)

    return Json(step_fields(await while_connected(request, terminals.run_step(step), take_back)))


@operation(
    "POST",
    "/terminals/{terminal_id}/input",
    "Type a message and submit it",
    Success(DeliveryBody),
    Success(DeliveryBody, 202, "Typed, but there is no sign that the agent took it."),
    errors=(404, 409, 413, 415, 422, 503),
)
async def send_input(
    terminals: Terminals,
    path: TerminalPath,
    query: InputQuery,
    headers: InputHeaders,
    body: InputBody | None,
) -> Json:
    message = message_of(query.message, body)
    delivery = await terminals.send(path.terminal_id, message, headers.idempotency_key)
    return Json(delivery_fields(delivery), 200 if delivery.confirmed else 202)


@operation(
    "POST",
    "/terminals/{terminal_id}/key",
    "Press a special key",
    Success(DoneBody),
    errors=(404, 409, 422, 503),
)
async def press_key(terminals: Terminals, path: TerminalPath, query: KeyQuery) -> Json:
    await terminals.press(path.terminal_id, query.key)
    return Json(DONE)


@operation(
    "GET",
    "/terminals/{terminal_id}/question",
    "Read what the agent asks",
    Success(AskingBody),
    errors=(404, 422),
)
async def get_question(terminals: Terminals, path: TerminalPath) -> Json:
    return Json(question_fields(terminals.question(path.terminal_id)))


@operation(
    "POST",
    "/terminals/{terminal_id}/answer",
    "Answer what the agent asks",
    Success(AnsweredBody),
    Success(AnsweredBody, 202, "The key was pressed, and the agent asks still, or again."),
    errors=(404, 409, 413, 415, 422, 503),
    description="Presses a key. With the fingerprint of a question it is pressed only while this "
    "question is asked, and only once, whoever else answers it.",
)
async def answer_agent(backend: Backend, path: TerminalPath, body: KeyBody) -> Json:
    answered = await answer_question(backend, path.terminal_id, body.key, body.question)
    text = ANSWERED if answered else STILL_ASKS
    return Json({"answered": answered, "text": text}, 200 if answered else 202)


@operation(
    "GET",
    "/terminals/{terminal_id}/output",
    "Read what the agent wrote",
    Success(OutputBody),
    errors=(404, 422, 503),
)
async def get_output(terminals: Terminals, path: TerminalPath, query: OutputQuery) -> Json:
    records = terminals.records(path.terminal_id)
    output = await terminals.output(path.terminal_id, query.mode)
    return Json({"output": output, "mode": query.mode, "records": records})


@operation(
    "GET",
    "/terminals/{terminal_id}/explain",
    "Say why a terminal has its status",
    Success(ExplanationBody),
    errors=(404, 422),
)
async def explain(backend: Backend, path: TerminalPath) -> Json:
    explanation = backend.terminals.explain(path.terminal_id)
    return Json(explanation_fields(path.terminal_id, explanation, backend.clock.now()))


@operation(
    "GET",
    "/terminals/{terminal_id}/working-directory",
    "Say where the agent works",
    Success(FolderBody),
    errors=(404, 422),
)
async def get_working_directory(terminals: Terminals, path: TerminalPath) -> Json:
    return Json({"working_directory": terminals.terminal(path.terminal_id).working_directory})


@operation(
    "POST",
    "/terminals/{terminal_id}/exit",
    "Ask the agent to quit",
    Success(DoneBody),
    errors=(404, 409, 422, 503),
)
async def exit_terminal(terminals: Terminals, path: TerminalPath) -> Json:
    await terminals.exit(path.terminal_id)
    return Json(DONE)


@operation(
    "GET",
    "/events",
    "Follow what happens to the terminals",
    Success(
        EventBody,
        description="Endless; the name of an event is its `kind`, `data` holds this.",
        media_type=EVENT_STREAM,
    ),
    errors=(422, 503),
    description="Server-sent events. Begins with a `snapshot` of every terminal, or with what was "
    "missed since the event named by `Last-Event-ID`.",
)
async def follow_events(backend: Backend, headers: EventsHeaders) -> EventStream[TerminalEvent]:
    events = backend.terminals.subscribe(headers.last_event_id)
    return EventStream(events, backend, event_bytes)


def new_terminal(query: NewTerminalQuery) -> NewTerminal:
    return NewTerminal(
        query.provider,
        query.agent_profile,
        query.working_directory,
        query.permissions,
        role=query.role,
        run_index=query.run_index,
        record=query.record,
    )


OPERATIONS = (
    # First, because they are tried in order and this one is asked for all the time.
    get_terminal,
    health,
    create_session,
    list_sessions,
    get_session,
    delete_session,
    create_terminal,
    list_terminals,
    delete_terminal,
    run_step,
    send_input,
    press_key,
    get_question,
    answer_agent,
    get_output,
    explain,
    get_working_directory,
    exit_terminal,
    follow_events,
)
