"""The routes of runs: they serve the run folders, and start runs as processes of their own."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator

from ..core.models import Question, RunAgents, Terminal, TerminalStatus, check_size
from ..errors import NotFound, NotSteerable
from ..events import RunEvent, to_json
from .backend import Backend, Following, Runs, Terminals
from .parameters import RunEventsHeaders, RunPath, SteerPath, TurnPath
from .reading import Success, operation
from .schemas import (
    AnswerBody,
    AskedBody,
    ChangeBody,
    HintBody,
    Json,
    NewRunBody,
    RunBody,
    RunDetailBody,
    RunEventBody,
    RunTurnTextBody,
    SkipBody,
)
from .stream import EVENT_STREAM, EventStream, sse_bytes

LONGEST_CHOICE = 200


async def answer_question(
    backend: Backend, terminal_id: str, key: str, fingerprint: str | None
) -> bool:
    """Press a key that answers what an agent asks; say whether it ceases to ask.

    The run of the agent keeps it with all else that people do.
    """
    terminals = backend.terminals
    session, asked = terminals.terminal(terminal_id).session_name, terminals.question(terminal_id)
    is_answered = await terminals.answer(terminal_id, key, fingerprint=fingerprint)
    if backend.runs is not None:
        text = _words_of(asked, key)
        await asyncio.to_thread(backend.runs.note_answer, session, terminal_id, text)
    return is_answered


def _words_of(asked: Question | None, key: str) -> str:
    """Return the words of the choice that a key stands for, else the key."""
    labels = [one.label.strip() for one in asked.choices if one.key == key] if asked else []
    return next(filter(None, labels), key)[:LONGEST_CHOICE]


def find_asking(terminals: Terminals, agents: RunAgents) -> tuple[str, str]:
    """Return the role and the terminal of the one agent that asks; raise who does what instead."""
    found = {role: _terminal(terminals, agents, role) for role in agents.terminals}
    if not found:
        raise NotSteerable(f"the run {agents.run} has no agents yet")
    if not any(found.values()):
        whose = f"the server at {agents.api} has them" if agents.api else "another server has them"
        raise NotSteerable(f"the agents of the run {agents.run} are not on this server; {whose}")
    asking = [role for role, terminal in found.items() if terminal and _asks(terminal)]
    if not asking:
        states = ", ".join(f"{role} is {_state(terminal)}" for role, terminal in found.items())
        raise NotSteerable(f"nobody asks anything in the run {agents.run}: {states}")
    if len(asking) > 1:
        raise NotSteerable(
            f"several agents of the run {agents.run} ask something, say which role is meant: "
            f"{', '.join(asking)}"
        )
    return asking[0], agents.terminals[asking[0]]


def _terminal(terminals: Terminals, agents: RunAgents, role: str) -> Terminal | None:
    """Return the terminal of a role if it is here, and of this run."""
    try:
        terminal = terminals.terminal(agents.terminals[role])
    except NotFound:
        return None
    # Until all agents are there, the run has not said which session they are in.
    is_of_run = agents.session_name in ("", terminal.session_name)
    return terminal if is_of_run else None


def _asks(terminal: Terminal) -> bool:
    return terminal.status is TerminalStatus.WAITING_USER_ANSWER


def _state(terminal: Terminal | None) -> str:
    return "not there" if terminal is None else terminal.status


logger = logging.getLogger(__name__)

STEERED = (
    Success(AskedBody),
    Success(AskedBody, 202, "Written down; the run has not heard of it yet."),
)

ANSWERED = "The question of {} is answered."
STILL_ASKS = "The key was pressed; {} asks still, or again."


@operation("GET", "/runs", "List the runs, the newest first", Success(list[RunBody]))
async def list_runs(runs: Runs) -> Json:
    return Json(await asyncio.to_thread(runs.list))


@operation(
    "POST",
    "/runs",
    "Start a run as a process of its own, and answer when it has begun",
    Success(RunBody, 201),
    errors=(409, 413, 415, 422),
)
async def start_run(runs: Runs, body: NewRunBody) -> Json:
    options = dict(body.settings)
    if body.task is not None:
        options["PROMPT"] = check_size(body.task)
    if body.task_file is not None:
        options["PROMPT_FILE"] = body.task_file
    if body.resume is not None:
        options["RESUME"] = str(int(body.resume))
    started = await asyncio.to_thread(
        runs.start, body.wd, options, replace_terminals=body.replace_terminals
    )
    return Json(started, 201)


@operation(
    "GET",
    "/runs/{run}",
    "Show a run with its settings and its turns",
    Success(RunDetailBody),
    errors=(404, 422),
)
async def get_run(runs: Runs, path: RunPath) -> Json:
    return Json(await asyncio.to_thread(runs.get, path.run))


@operation(
    "POST",
    "/runs/{run}/hint",
    "Tell an agent something with its next prompt",
    *STEERED,
    errors=(404, 409, 413, 415, 422),
)
async def hint(runs: Runs, path: RunPath, body: HintBody) -> Json:
    return await steered(runs, path.run, "hint", role=body.role, text=body.text)


@operation(
    "POST",
    "/runs/{run}/answer",
    "Answer what an agent of a run asks",
    Success(AskedBody),
    Success(AskedBody, 202, "The key was pressed, and the agent asks still, or again."),
    errors=(404, 409, 413, 415, 422, 503),
    description="Presses a key in the terminal of the agent that asks. No text is typed: into a "
    "dialog, a letter of it might answer what nobody wanted to be answered like that.",
)
async def answer(backend: Backend, runs: Runs, path: RunPath, body: AnswerBody) -> Json:
    agents = await asyncio.to_thread(runs.agents, path.run, body.role)
    role, terminal_id = find_asking(backend.terminals, agents)
    is_answered = await answer_question(backend, terminal_id, body.text, body.question)
    text = ANSWERED if is_answered else STILL_ASKS
    return Json({"heard": is_answered, "text": text.format(role)}, 200 if is_answered else 202)


@operation(
    "POST",
    "/runs/{run}/set",
    "Let a run go on by another value of a setting",
    *STEERED,
    errors=(404, 409, 413, 415, 422),
)
async def change_setting(runs: Runs, path: RunPath, body: ChangeBody) -> Json:
    return await steered(runs, path.run, "set", name=body.name, value=body.value)


@operation(
    "POST",
    "/runs/{run}/skip",
    "Count the review that is under way or due as approved",
    *STEERED,
    errors=(404, 409, 413, 415, 422),
    description="With a body, only if it is the review that the body names: else nothing is "
    "skipped, and the answer is 409.",
)
async def skip(runs: Runs, path: RunPath, body: SkipBody | None) -> Json:
    meant = body or SkipBody()
    return await steered(
        runs, path.run, "skip", role=meant.role, round=meant.round, cycle=meant.cycle
    )


@operation(
    "POST",
    "/runs/{run}/{do}",
    "Pause a run after the present turn, resume it, stop it",
    *STEERED,
    errors=(404, 409, 422),
    description="`resume` lifts a pause, or resumes a run that was interrupted, as a process of "
    "its own. `stop` ends its agents too.",
)
async def steer(runs: Runs, path: SteerPath) -> Json:
    return await steered(runs, path.run, path.do)


async def steered(runs: Runs, run: str, do: str, **more: str | int | None) -> Json:
    """Answer 200 if the run does it, 202 if it has not heard of it yet."""
    asked = await asyncio.to_thread(runs.steer, run, {"do": do, **more})
    return Json(asked, 200 if asked["heard"] else 202)


@operation(
    "GET",
    "/runs/{run}/turns/{sequence}",
    "Show a turn: its prompt, its reply, the agent's last screen, its changes, its tokens",
    Success(RunTurnTextBody),
    errors=(404, 422),
)
async def get_turn(runs: Runs, path: TurnPath) -> Json:
    return Json(await asyncio.to_thread(runs.turn, path.run, path.sequence))


@operation(
    "GET",
    "/runs/{run}/events",
    "Follow what happens in a run",
    Success(
        RunEventBody,
        description="The name of an event is its `type`, its id its `seq`.",
        media_type=EVENT_STREAM,
    ),
    errors=(404, 422, 503),
    description="Server-sent events: all that has happened, or what came after the event named by "
    "`Last-Event-ID`, then each thing as it happens. Ends with the run.",
)
async def follow_run(
    backend: Backend, runs: Runs, path: RunPath, headers: RunEventsHeaders
) -> EventStream[RunEvent]:
    text = headers.last_event_id or ""
    after = int(text) if text.isdecimal() and text.isascii() else 0
    following = await asyncio.to_thread(runs.follow, path.run, after)
    return EventStream(stream(following), backend, event_bytes)


def event_bytes(event: RunEvent) -> bytes:
    data = to_json(event)
    return sse_bytes(data["type"], str(event.seq), data)


async def stream(following: Following) -> AsyncGenerator[RunEvent, None]:
    """Yield what a thread reads, until there is no more or nobody listens."""
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[RunEvent | None] = asyncio.Queue()

    def tell(event: RunEvent | None) -> None:
        # The server may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(events.put_nowait, event)

    def read() -> None:
        try:
            for event in following:
                tell(event)
        except OSError as error:
            logger.warning("the events of a run cannot be read: %s", error)
        finally:
            tell(None)

    threading.Thread(target=read, name="run-events", daemon=True).start()
    try:
        while (event := await events.get()) is not None:
            yield event
    finally:
        following.stop()


OPERATIONS = (
    list_runs,
    start_run,
    get_run,
    hint,
    answer,
    change_setting,
    skip,
    steer,
    get_turn,
    follow_run,
)
