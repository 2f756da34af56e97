"""The routes of runs: they serve the run folders, and start runs as processes of their own."""

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Request, Response
from fastapi.sse import format_sse_event
from pydantic import BaseModel

from cli_agent_orchestrator.api.backend import Following, Runs, Served
from cli_agent_orchestrator.api.events import EventStream
from cli_agent_orchestrator.api.messages import check_size, parse, read_body
from cli_agent_orchestrator.api.problems import problems
from cli_agent_orchestrator.api.schemas import (
    AskedBody,
    ChangeBody,
    HintBody,
    Json,
    NewRunBody,
    RunBody,
    RunDetailBody,
    RunEventBody,
    RunTurnTextBody,
    inline_schema,
)
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.events import RunEvent, to_json

logger = logging.getLogger(__name__)

router = APIRouter(responses=problems(400, 401, 403, 421))
RunId = Annotated[
    str,
    Path(
        max_length=200,
        description="The id, the beginning of it or its end.",
        examples=["20261115-084037-k3f9"],
    ),
]
Verb = Literal["pause", "resume", "stop", "skip"]
ASK_LIMIT = 64 * 1024
"""Bytes of what is asked of a run."""
# Any: what OpenAPI says of an answer
QUEUED: dict[str, Any] = {"description": "Written down; the run has not heard of it yet."}


def documented(what: str, body: type[BaseModel]) -> dict[str, Any]:
    """Return what OpenAPI says of a body that is read by hand."""
    return {
        "requestBody": {
            "description": what,
            "required": True,
            "content": {"application/json": {"schema": inline_schema(body)}},
        }
    }


async def runs_of(backend: Served) -> Runs:
    if backend.runs is None:
        raise UsageError("this server serves no runs")
    return backend.runs


Service = Annotated[Runs, Depends(runs_of)]


@router.get("/runs", summary="List the runs, the newest first", response_model=list[RunBody])
async def list_runs(runs: Service) -> Json:
    return Json(await asyncio.to_thread(runs.list))


@router.post(
    "/runs",
    summary="Start a run as a process of its own, and answer when it has begun",
    status_code=201,
    response_model=RunBody,
    responses=problems(409, 413, 415, 422),
    openapi_extra=documented("Where, what, and by which settings.", NewRunBody),
)
async def start_run(request: Request, runs: Service) -> Json:
    body = parse(request, await read_body(request), NewRunBody)
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


@router.get(
    "/runs/{run}",
    summary="Show a run with its settings and its turns",
    response_model=RunDetailBody,
    responses=problems(404, 422),
)
async def get_run(runs: Service, run: RunId) -> Json:
    return Json(await asyncio.to_thread(runs.get, run))


@router.post(
    "/runs/{run}/hint",
    summary="Tell an agent something with its next prompt",
    response_model=AskedBody,
    responses={202: QUEUED, **problems(404, 409, 413, 415, 422)},
    openapi_extra=documented("What, and to whom.", HintBody),
)
async def hint(request: Request, runs: Service, run: RunId) -> Json:
    body = parse(request, await read_body(request, ASK_LIMIT, ASK_LIMIT), HintBody)
    return await steered(runs, run, "hint", role=body.role, text=body.text)


@router.post(
    "/runs/{run}/set",
    summary="Let a run go on by another value of a setting",
    response_model=AskedBody,
    responses={202: QUEUED, **problems(404, 409, 413, 415, 422)},
    openapi_extra=documented("Which setting, and its value.", ChangeBody),
)
async def change_setting(request: Request, runs: Service, run: RunId) -> Json:
    body = parse(request, await read_body(request, ASK_LIMIT, ASK_LIMIT), ChangeBody)
    return await steered(runs, run, "set", name=body.name, value=body.value)


@router.post(
    "/runs/{run}/{do}",
    summary="Pause a run after the present turn, resume it, stop it, skip its review",
    description="`resume` lifts a pause, or resumes a run that was interrupted, as a process of "
    "its own. `stop` ends its agents too.",
    response_model=AskedBody,
    responses={202: QUEUED, **problems(404, 409, 422)},
)
async def steer(runs: Service, run: RunId, do: Verb) -> Json:
    return await steered(runs, run, do)


async def steered(runs: Runs, run: str, do: str, **more: str | None) -> Json:
    """Answer 200 if the run does it, 202 if it has not heard of it yet."""
    asked = await asyncio.to_thread(runs.steer, run, {"do": do, **more})
    return Json(asked, 200 if asked["heard"] else 202)


@router.get(
    "/runs/{run}/turns/{sequence}",
    summary="Show a turn with its prompt and its reply",
    response_model=RunTurnTextBody,
    responses=problems(404, 422),
)
async def get_turn(runs: Service, run: RunId, sequence: Annotated[int, Path(ge=0)]) -> Json:
    return Json(await asyncio.to_thread(runs.turn, run, sequence))


@router.get(
    "/runs/{run}/events",
    summary="Follow what happens in a run",
    description="Server-sent events: all that has happened, or what came after the event named by "
    "`Last-Event-ID`, then each thing as it happens. Ends with the run.",
    response_class=Response,
    responses={
        200: {
            "description": "The name of an event is its `type`, its id its `seq`.",
            "content": {"text/event-stream": {"schema": inline_schema(RunEventBody)}},
        },
        **problems(404, 422),
    },
)
async def follow_run(
    backend: Served,
    runs: Service,
    run: RunId,
    last_event_id: Annotated[str | None, Header(max_length=20, examples=["17"])] = None,
) -> Response:
    text = last_event_id or ""
    after = int(text) if text.isdecimal() and text.isascii() else 0
    following = await asyncio.to_thread(runs.follow, run, after)
    return EventStream(stream(following), backend.closing, backend.heartbeat, event_bytes)


def event_bytes(event: RunEvent) -> bytes:
    """Return an event as it goes over the wire."""
    data = to_json(event)
    return format_sse_event(data_str=json.dumps(data), event=data["type"], id=str(event.seq))


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
