"""Reads what a request says into typed values, and says what is wrong with it.

Nothing is ever quoted: it may be a prompt.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, get_args, get_type_hints

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from cli_agent_orchestrator._internal.api.schemas import RequestBody
from cli_agent_orchestrator.errors import MessageTooLarge

# Object missing required field `message`
MISSING_PATTERN = r"Object missing required field `(?P<field>[^`]+)`"
# Expected `str`, got `int` - at `$.message`      Invalid enum value 'root' - at `$.permissions`
WRONG_PATTERN = r"(?P<what>.*) - at `\$\.(?P<field>[^`]+)`"
NOT_QUOTED = "Invalid enum value"

# Any: a Struct, in the annotation of a handler
Kind = Any


async def read_path(request: Request, kind: Kind) -> object:
    return _convert("path", request.path_params, kind)


async def read_query(request: Request, kind: Kind) -> object:
    return _convert("query", dict(request.query_params), kind)


async def read_headers(request: Request, kind: Kind) -> object:
    names = kind.__struct_encode_fields__
    given = {name: request.headers[name] for name in names if name in request.headers}
    return _convert("header", given, kind)


def _convert(place: str, given: Mapping[str, object], kind: Kind) -> object:
    try:
        # Not strict: numbers are text here.
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise HTTPException(422, describe(place, kind, str(error))) from None


async def read_body(request: Request, kind: Kind) -> object:
    """Return what a JSON body holds; None if there is none and the handler can do without."""
    struct, required = body_of(kind)
    body = await _whole_body(request, struct)
    if not body and not required:
        return None
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise HTTPException(415, "the body must be JSON: send 'Content-Type: application/json'")
    return _parse(body, struct)


def body_of(kind: Kind) -> tuple[type[RequestBody], bool]:
    """Return the Struct of a body, and whether there must be one: `Struct | None` need not be."""
    struct, *others = get_args(kind) or [kind]
    return struct, not others


def _parse(body: bytes, kind: Kind) -> object:
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except msgspec.DecodeError as error:
        problem = describe("body", kind, str(error))
    except UnicodeDecodeError:
        problem = "body: JSON is malformed: it is not UTF-8"
    except RecursionError:
        problem = "body: JSON is malformed: it is nested too deeply"
    raise HTTPException(422, problem)


async def _whole_body(request: Request, struct: type[RequestBody]) -> bytes:
    """Return the whole body, or give up as soon as it is known to be too large."""
    announced = int(request.headers.get("content-length", "0"))
    if announced > struct.most_bytes:
        raise MessageTooLarge(announced, struct.most_text)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > struct.most_bytes:
            raise MessageTooLarge(len(body), struct.most_text)
    return bytes(body)


def describe(place: str, kind: Kind, problem: str) -> str:
    """Return one line for people, from what msgspec says: where and what, never the value.

    `query.mode: Expected 'full', 'last' or 'screen'`
    """
    if missing := re.match(MISSING_PATTERN, problem):
        return f"{place}.{missing['field']}: Field required"
    if wrong := re.fullmatch(WRONG_PATTERN, problem, re.DOTALL):
        quotes = wrong["what"].startswith(NOT_QUOTED)
        what = _expected(kind, wrong["field"]) if quotes else wrong["what"]
        return f"{place}.{wrong['field']}: {what}"
    return f"{place}: {problem}"


def _expected(kind: Kind, field: str) -> str:
    *others, last = _choices(get_type_hints(kind).get(field)) or ["another value"]
    return f"Expected {', '.join(others)} or {last}" if others else f"Expected {last}"


def _choices(kind: object) -> list[str]:
    """Return the values of the enum in a type, which may be one of several in a union."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [repr(str(member.value)) for member in kind]
    return [choice for part in get_args(kind) for choice in _choices(part)]
