"""Reads what a request says into typed values, and says what is wrong with it.

Nothing is ever quoted: it may be a prompt.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, get_args, get_type_hints

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import MessageTooLarge
from .backend import backend_of, runs_of, terminals_of
from .schemas import RequestBody

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


Handler = Callable[..., Awaitable[Response]]

SERVED: Mapping[str, Callable[[Request], object]] = {
    "request": lambda request: request,
    "backend": backend_of,
    "terminals": terminals_of,
    "runs": runs_of,
}
# Any: a type as annotations have it, which may be a union.
READERS: Mapping[str, Callable[[Request, Any], Awaitable[object]]] = {
    "path": read_path,
    "query": read_query,
    "headers": read_headers,
    "body": read_body,
}


@dataclass(frozen=True, slots=True)
class Success:
    """How an operation answers when all went well."""

    body: Any
    """The type that documents it."""
    status_code: int = 200
    description: str = "Done."
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that clients can ask for."""

    method: str
    path: str
    summary: str
    answers: tuple[Success, ...]
    errors: tuple[int, ...]
    """Statuses of its own errors, besides those that every request may get."""
    description: str
    handler: Handler

    @property
    def reads(self) -> dict[str, Any]:
        """What is read from a request, and as what."""
        annotations = self.handler.__annotations__
        return {name: annotations[name] for name in READERS if name in annotations}

    @property
    def uses(self) -> list[str]:
        """What the handler is given beside that."""
        return [name for name in self.handler.__annotations__ if name in SERVED]


def operation(
    method: str,
    path: str,
    summary: str,
    *answers: Success,
    errors: tuple[int, ...] = (),
    description: str = "",
) -> Callable[[Handler], Operation]:
    """Return what makes an operation of a handler."""
    return lambda handler: Operation(method, path, summary, answers, errors, description, handler)


def route_of(operation: Operation) -> Route:
    """Return what finds an operation by its path and has it done."""
    served = {name: SERVED[name] for name in operation.uses}
    read = {name: (READERS[name], kind) for name, kind in operation.reads.items()}

    async def endpoint(request: Request) -> Response:
        given = {name: serve(request) for name, serve in served.items()}
        for name, (reader, kind) in read.items():
            given[name] = await reader(request, kind)
        return await operation.handler(**given)

    route = Route(operation.path, endpoint, methods=[operation.method])
    # Without HEAD, which comes with GET: nobody reads what a stream of events would send to it.
    route.methods = {operation.method}
    return route
