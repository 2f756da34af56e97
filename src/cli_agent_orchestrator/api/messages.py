"""Reads the message of an input request: a JSON body of any size up to the limit, or the query."""

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from cli_agent_orchestrator.api.schemas import BODY_LIMIT, MESSAGE_LIMIT, InputBody, inline_schema
from cli_agent_orchestrator.errors import MessageTooLarge, UsageError

INPUT_DOCUMENTATION = {
    "requestBody": {
        "description": "The message, of up to 8 MiB.",
        "required": False,
        "content": {"application/json": {"schema": inline_schema(InputBody)}},
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
    message = query if query is not None else parse_message(request, body)
    size = len(message.encode("utf-8"))
    if size > MESSAGE_LIMIT:
        raise MessageTooLarge(size, MESSAGE_LIMIT)
    return message


async def read_body(request: Request) -> bytes:
    """Return the whole body, or give up as soon as it is known to be too large."""
    announced = request.headers.get("content-length", "0")
    if int(announced) > BODY_LIMIT:
        raise MessageTooLarge(int(announced), MESSAGE_LIMIT)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_LIMIT:
            raise MessageTooLarge(len(body), MESSAGE_LIMIT)
    return bytes(body)


def parse_message(request: Request, body: bytes) -> str:
    """Return the message in a JSON body. What is wrong with it is said without quoting it."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise HTTPException(415, "the body must be JSON: send 'Content-Type: application/json'")
    try:
        return InputBody.model_validate_json(body).message
    except ValidationError as error:
        raise RequestValidationError(
            error.errors(include_url=False, include_context=False, include_input=False)
        ) from None
