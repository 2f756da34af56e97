"""The routes of sessions, terminals and runs, and the bodies of their requests and answers.

Most answers are values of `core/models` as they are. The text below a field is also its description
in the OpenAPI document.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import asdict
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..core.models import (
    Asked,
    Delivery,
    Evidence,
    Feature,
    NewTerminal,
    OutputMode,
    Question,
    RunAgents,
    Session,
    Step,
    StepAnswer,
    Terminal,
    TerminalEvent,
    TerminalStatus,
    Tokens,
    TurnFacts,
    check_size,
)
from ..errors import NotFound, NotSteerable, UsageError
from ..events import RunEvent, to_json
from ..providers.base import Permissions
from ..terminals.service import TerminalService
from ..version import __version__
from .answers import EventStream, sse_bytes, while_connected
from .operations import Backend, Following, Header, Operation, RequestBody, Runs, operation

logger = logging.getLogger(__name__)

SERVICE_NAME = "cli-agent-orchestrator"
AT_THE_END = r"(?!\n)"
"""After `$`, which in Python lets a line break follow."""

Name = Annotated[str, Meta(max_length=200)]
PathName = Annotated[str, Meta(max_length=4096)]
RunId = Annotated[Name, Meta(description="The id, the beginning of it or its end.")]
Key = Annotated[str, Meta(max_length=50)]
Role = Annotated[str, Meta(pattern=f"^[A-Za-z0-9_-]{{1,64}}${AT_THE_END}")]
IdempotencyKey = Annotated[str, Meta(pattern=f"^[ -~]{{1,200}}${AT_THE_END}")]
Fingerprint = Annotated[str, Meta(max_length=100)]


class DoneBody(Struct):
    success: bool = True


class HealthBody(Struct):
    status: Literal["ok"]
    service: str
    version: str
    features: list[str]
    """What this server can do beyond the common routes."""


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


class KeyBody(RequestBody):
    key: Key
    """One of those that `POST /terminals/{id}/key` takes."""
    question: Fingerprint | None = None
    """The fingerprint of the question that is meant: no other one is answered."""


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


ANSWERED = "The question is answered."
STILL_ASKS = "The key was pressed; the agent asks still, or again."
UNHEARD = ("heard", "Written down; the run has not heard of it yet.")

# Any: JSON
Run = Mapping[str, Any]
Verb = Literal["pause", "resume", "stop"]


async def answer_question(
    backend: Backend, terminal_id: str, key: str, fingerprint: str | None
) -> bool:
    """Press a key that answers an agent's question; is the question gone then?

    The run of the agent records it in the words of the choice, unless the key changed nothing.
    """
    terminals = backend.terminals
    session, asked = terminals.terminal(terminal_id).session_name, terminals.question(terminal_id)
    is_answered = await terminals.answer(terminal_id, key, fingerprint=fingerprint)
    left = terminals.question(terminal_id)
    is_same = left and asked and (left.text, left.choices) == (asked.text, asked.choices)
    is_taken = is_answered or not is_same
    if backend.runs is not None and is_taken:
        labels = [one.label.strip() for one in asked.choices if one.key == key] if asked else []
        text = next(filter(None, labels), key)[:200]
        await asyncio.to_thread(backend.runs.note_answer, session, terminal_id, text)
    return is_answered


def find_asking(terminals: TerminalService, agents: RunAgents) -> tuple[str, str]:
    """Return the role and the terminal of the one agent that asks; else raise what each does."""
    found: dict[str, Terminal | None] = {}
    for role, terminal_id in agents.terminals.items():
        found[role] = None
        with contextlib.suppress(NotFound):
            terminal = terminals.terminal(terminal_id)
            # Until all agents are there, the run has not said which session they are in.
            if agents.session_name in ("", terminal.session_name):
                found[role] = terminal
    if not found:
        raise NotSteerable(f"the run {agents.run} has no agents yet")
    if not any(found.values()):
        whose = f"the server at {agents.api} has them" if agents.api else "another server has them"
        raise NotSteerable(f"the agents of the run {agents.run} are not on this server; {whose}")
    states = {role: one.status if one else "not there" for role, one in found.items()}
    asking = [role for role, state in states.items() if state == TerminalStatus.WAITING_USER_ANSWER]
    if not asking:
        others = ", ".join(f"{role} is {state}" for role, state in states.items())
        raise NotSteerable(f"nobody asks anything in the run {agents.run}: {others}")
    if len(asking) > 1:
        raise NotSteerable(
            f"several agents of the run {agents.run} ask something, say which role is meant: "
            f"{', '.join(asking)}"
        )
    return asking[0], agents.terminals[asking[0]]


# First, because routes are tried in order and this one is used all the time.
@operation("GET", "/terminals/{terminal_id}", "Show a terminal and its status")
async def get_terminal(terminals: TerminalService, terminal_id: Name) -> Terminal:
    return terminals.terminal(terminal_id)


@operation("GET", "/health", "Tell that the server is there")
async def health() -> HealthBody:
    return HealthBody("ok", SERVICE_NAME, __version__, [*Feature])


@operation("POST", "/sessions", "Start an agent in a new session", 503, status=201)
async def create_session(
    request: Request, terminals: TerminalService, query: NewSessionQuery
) -> Terminal:
    new = asdict(query)
    name = new.pop("session_name")
    creation = terminals.create_session(NewTerminal(**new), name)
    return await while_connected(request, creation, lambda made: terminals.delete(made.id))


@operation("GET", "/sessions", "List the sessions")
async def list_sessions(terminals: TerminalService) -> Sequence[Session]:
    return terminals.sessions()


@operation("GET", "/sessions/{name}", "Show a session with its terminals")
async def get_session(terminals: TerminalService, name: Name) -> Session:
    return terminals.session(name)


@operation("DELETE", "/sessions/{name}", "End a session and all agents in it", 503)
async def delete_session(terminals: TerminalService, name: Name) -> DoneBody:
    await terminals.delete_session(name)
    return DoneBody()


@operation(
    "POST", "/sessions/{name}/terminals", "Start an agent in an existing session", 503, status=201
)
async def create_terminal(
    request: Request, terminals: TerminalService, name: Name, query: NewTerminalQuery
) -> Terminal:
    creation = terminals.create_terminal(name, NewTerminal(**asdict(query)))
    return await while_connected(request, creation, lambda made: terminals.delete(made.id))


@operation("GET", "/sessions/{name}/terminals", "List the terminals of a session")
async def list_terminals(terminals: TerminalService, name: Name) -> Sequence[Terminal]:
    return terminals.session(name).terminals


@operation("DELETE", "/terminals/{terminal_id}", "End an agent and remove its terminal", 503)
async def delete_terminal(terminals: TerminalService, terminal_id: Name) -> DoneBody:
    await terminals.delete(terminal_id)
    return DoneBody()


@operation(
    "POST",
    "/terminals/run-step",
    "Start an agent, ask it one thing, return its answer, end it",
    *(409, 502, 503, 504),
)
async def run_step(request: Request, terminals: TerminalService, body: StepBody) -> StepAnswer:
    new = NewTerminal(body.provider, body.agent, body.working_directory, body.permissions)
    prompt, keep = check_size(body.prompt), not body.teardown
    step = Step(new, prompt, body.session_name, body.timeout, keep=keep)

    async def take_back(answer: StepAnswer) -> None:
        if keep:
            await terminals.delete(answer.terminal_id)

    return await while_connected(request, terminals.run_step(step), take_back)


@operation(
    "POST",
    "/terminals/{terminal_id}/input",
    "Type a message and submit it",
    *(409, 503),
    later=("success", "Typed, but there is no sign that the agent took it."),
)
async def send_input(
    terminals: TerminalService,
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
    return DeliveryBody(**asdict(delivery), success=delivery.confirmed)


@operation("POST", "/terminals/{terminal_id}/key", "Press a special key", 409, 503)
async def press_key(terminals: TerminalService, terminal_id: Name, key: Key) -> DoneBody:
    await terminals.press(terminal_id, key)
    return DoneBody()


@operation("GET", "/terminals/{terminal_id}/question", "Read what the agent asks")
async def get_question(terminals: TerminalService, terminal_id: Name) -> AskingBody:
    return AskingBody(terminals.question(terminal_id))


@operation(
    "POST",
    "/terminals/{terminal_id}/answer",
    "Answer what the agent asks",
    *(409, 503),
    later=("answered", STILL_ASKS),
    description="Presses a key. With the fingerprint of a question it is pressed only while this "
    "question is asked, and only once, whoever else answers it.",
)
async def answer_agent(backend: Backend, terminal_id: Name, body: KeyBody) -> AnsweredBody:
    answered = await answer_question(backend, terminal_id, body.key, body.question)
    return AnsweredBody(answered, ANSWERED if answered else STILL_ASKS)


@operation("GET", "/terminals/{terminal_id}/output", "Read what the agent wrote", 503)
async def get_output(
    terminals: TerminalService, terminal_id: Name, mode: OutputMode = OutputMode.FULL
) -> OutputBody:
    records = terminals.records(terminal_id)
    return OutputBody(await terminals.output(terminal_id, mode), mode, records)


@operation("GET", "/terminals/{terminal_id}/explain", "Say why a terminal has its status")
async def explain(backend: Backend, terminal_id: Name) -> ExplanationBody:
    explained, now = backend.terminals.explain(terminal_id), backend.clock.now()
    evidence = [
        EvidenceBody(**asdict(one), age=round(max(0.0, now - one.at), 3))
        for one in explained.evidence
    ]
    return ExplanationBody(terminal_id, explained.status, explained.reason, evidence)


@operation("GET", "/terminals/{terminal_id}/working-directory", "Say where the agent works")
async def get_working_directory(terminals: TerminalService, terminal_id: Name) -> FolderBody:
    return FolderBody(terminals.terminal(terminal_id).working_directory)


@operation("POST", "/terminals/{terminal_id}/exit", "Ask the agent to quit", 409, 503)
async def exit_terminal(terminals: TerminalService, terminal_id: Name) -> DoneBody:
    await terminals.exit(terminal_id)
    return DoneBody()


@operation(
    "GET",
    "/events",
    "Follow what happens to the terminals",
    503,
    description="Server-sent events, named by their `kind`, without end. Begins with a `snapshot` "
    "of every terminal, or with what was missed since the event named by `Last-Event-ID`.",
)
async def follow_events(
    backend: Backend, last_event_id: Header[Name | None] = None
) -> EventStream[TerminalEvent]:
    events = backend.terminals.subscribe(last_event_id)
    return EventStream(events, backend, lambda event: sse_bytes(event.kind, event.id, event))


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


class RunTurnTextBody(TurnFacts, frozen=True, kw_only=True):
    prompt: str | None
    reply: str | None
    screen: str | None
    """What the agent showed at the end of the turn, up to 64 KB; null if that is not known."""
    diff: str | None
    files: list[ChangedFileBody] | None
    """The same by file, up to 1,000 of them."""
    usage: Tokens | None
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
    settings: dict[str, str] = field(default_factory=dict)
    resume: bool | None = None
    """As `--resume` and `--no-resume`."""
    replace_terminals: bool = False


class HintBody(RequestBody):
    text: str
    role: str | None = None
    """The agent whose next prompt has it; else the next one."""


class SkipBody(RequestBody):
    """The review that is meant, by all of these; without them the one under way or due."""

    role: str | None = None
    round: int | None = None
    cycle: int | None = None


class AnswerBody(RequestBody):
    text: Key
    """A key, of those that `POST /terminals/{id}/key` takes."""
    question: Fingerprint | None = None
    """The fingerprint of the question that is meant: no other one is answered."""
    role: str | None = None


class ChangeBody(RequestBody):
    name: str
    value: str


@operation("GET", "/runs", "List the runs, the newest first", answer=list[RunBody])
async def list_runs(runs: Runs) -> Sequence[Run]:
    return await asyncio.to_thread(runs.list)


@operation(
    "POST",
    "/runs",
    "Start a run as a process of its own, and answer when it has begun",
    409,
    answer=RunBody,
    status=201,
)
async def start_run(runs: Runs, body: NewRunBody) -> Run:
    options = dict(body.settings)
    if body.task is not None:
        options["PROMPT"] = check_size(body.task)
    if body.task_file is not None:
        options["PROMPT_FILE"] = body.task_file
    if body.resume is not None:
        options["RESUME"] = str(int(body.resume))
    return await asyncio.to_thread(
        runs.start, body.wd, options, replace_terminals=body.replace_terminals
    )


@operation("GET", "/runs/{run}", "Show a run with its settings and turns", answer=RunDetailBody)
async def get_run(runs: Runs, run: RunId) -> Run:
    return await asyncio.to_thread(runs.get, run)


@operation(
    "POST", "/runs/{run}/hint", "Tell an agent something with its next prompt", 409, later=UNHEARD
)
async def hint(runs: Runs, run: RunId, body: HintBody) -> Asked:
    return await steered(runs, run, "hint", body)


@operation(
    "POST",
    "/runs/{run}/answer",
    "Answer what an agent of a run asks",
    *(409, 503),
    later=("heard", STILL_ASKS),
    description="Presses a key in the terminal of the agent that asks. No text is typed: into a "
    "dialog, a letter of it might answer what nobody wanted to be answered like that.",
)
async def answer(backend: Backend, runs: Runs, run: RunId, body: AnswerBody) -> Asked:
    agents = await asyncio.to_thread(runs.agents, run, body.role)
    role, terminal_id = find_asking(backend.terminals, agents)
    is_answered = await answer_question(backend, terminal_id, body.text, body.question)
    still = f"The key was pressed; {role} asks still, or again."
    return Asked(is_answered, f"The question of {role} is answered." if is_answered else still)


@operation(
    "POST", "/runs/{run}/set", "Let a run go on by another value of a setting", 409, later=UNHEARD
)
async def change_setting(runs: Runs, run: RunId, body: ChangeBody) -> Asked:
    return await steered(runs, run, "set", body)


@operation(
    "POST",
    "/runs/{run}/skip",
    "Count the review that is under way or due as approved",
    409,
    later=UNHEARD,
    description="With a body, only if it is the review that the body names: else nothing is "
    "skipped, and the answer is 409.",
)
async def skip(runs: Runs, run: RunId, body: SkipBody | None) -> Asked:
    return await steered(runs, run, "skip", body)


@operation(
    "POST",
    "/runs/{run}/{do}",
    "Pause a run after the present turn, resume it, stop it",
    409,
    later=UNHEARD,
    description="`resume` lifts a pause, or resumes a run that was interrupted, as a process of "
    "its own. `stop` ends its agents too.",
)
async def steer(runs: Runs, run: RunId, do: Verb) -> Asked:
    return await steered(runs, run, do)


async def steered(runs: Runs, run: str, do: str, body: RequestBody | None = None) -> Asked:
    more = asdict(body) if body is not None else {}
    return await asyncio.to_thread(runs.steer, run, {"do": do, **more})


@operation(
    "GET",
    "/runs/{run}/turns/{sequence}",
    "Show a turn: its prompt, its reply, the agent's last screen, its changes, its tokens",
    answer=RunTurnTextBody,
)
async def get_turn(runs: Runs, run: RunId, sequence: Annotated[int, Meta(ge=0)]) -> Run:
    return await asyncio.to_thread(runs.turn, run, sequence)


@operation(
    "GET",
    "/runs/{run}/events",
    "Follow what happens in a run",
    503,
    answer=EventStream[RunEventBody],
    description="Server-sent events, named by their `type`: all that has happened, or what came "
    "after the event whose `seq` is the `Last-Event-ID`, then each as it happens. Ends with the "
    "run.",
)
async def follow_run(
    backend: Backend,
    runs: Runs,
    run: RunId,
    last_event_id: Header[Annotated[str, Meta(max_length=20)]] = "",
) -> EventStream[RunEvent]:
    is_number = last_event_id.isdecimal() and last_event_id.isascii()
    following = await asyncio.to_thread(runs.follow, run, int(last_event_id) if is_number else 0)

    def encode(event: RunEvent) -> bytes:
        data = to_json(event)
        return sse_bytes(data["type"], str(event.seq), data)

    return EventStream(stream(following), backend, encode)


async def stream(following: Following) -> AsyncGenerator[RunEvent, None]:
    """Yield the events that a thread reads, until the last one or until the client hangs up."""
    loop, thread, events = asyncio.get_running_loop(), ThreadPoolExecutor(1), iter(following)
    try:
        while (event := await loop.run_in_executor(thread, next, events, None)) is not None:
            yield event
    except OSError as error:
        logger.warning("the events of a run cannot be read: %s", error)
    finally:
        following.stop()
        thread.shutdown(wait=False)


OPERATIONS = [one for one in list(vars().values()) if isinstance(one, Operation)]
