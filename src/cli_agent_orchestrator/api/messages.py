"""Reads what is typed into a terminal: a JSON body of any size up to the limit, or the query."""

from typing import TypeVar

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from cli_agent_orchestrator.api.schemas import (
    BODY_LIMIT,
    InputBody,
    StepBody,
    inline_schema,
)
from cli_agent_orchestrator.errors import MessageTooLarge, UsageError
from cli_agent_orchestrator.models import MESSAGE_LIMIT, NewTerminal, Step

Model = TypeVar("Model", bound=BaseModel)

INPUT_DOCUMENTATION = {
    "requestBody": {
        "description": "The message, of up to 8 MiB.",
        "required": False,
        "content": {"application/json": {"schema": inline_schema(InputBody)}},
    }
}

STEP_DOCUMENTATION = {
    "requestBody": {
        "description": "What the agent is and what it is asked.",
        "required": True,
        "content": {"application/json": {"schema": inline_schema(StepBody)}},
    }
}


async def read_message(request: Request, query: str | None) -> str:
    """Return the message of a request, which gives it in one of the two ways."""
    body = await read_body(request)
    if not body and query is None:
        missing = {"loc": ("message",), "msg": "give it as a JSON body or as a query parameter"}
        raise RequestValidationError([missing])
    if body and query is not None:
        raise UsageError("the message is given twice: as a body and as a query parameter")
    return check_size(query if query is not None else parse(request, body, InputBody).message)


async def read_step(request: Request) -> Step:
    """Return the step that a request asks for."""
    body = parse(request, await read_body(request), StepBody)
    new = NewTerminal(body.provider, body.agent, body.working_directory, body.permissions)
    prompt = check_size(body.prompt)
    return Step(new, prompt, body.session_name, body.timeout, keep=not body.teardown)


def check_size(message: str) -> str:
    """Return a message that is not too large."""
    size = len(message.encode("utf-8"))
    if size > MESSAGE_LIMIT:
        raise MessageTooLarge(size, MESSAGE_LIMIT)
    return message


async def read_body(
    request: Request, limit: int = BODY_LIMIT, message_limit: int = MESSAGE_LIMIT
) -> bytes:
    """Return the whole body, or give up as soon as it is known to be too large."""
    announced = request.headers.get("content-length", "0")
    if int(announced) > limit:
        raise MessageTooLarge(int(announced), message_limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise MessageTooLarge(len(body), message_limit)
    return bytes(body)


def parse(request: Request, body: bytes, model: type[Model]) -> Model:
    """Return what a JSON body holds. What is wrong with it is said without quoting it."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise HTTPException(415, "the body must be JSON: send 'Content-Type: application/json'")
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise RequestValidationError(
            error.errors(include_url=False, include_context=False, include_input=False)
        ) from None
