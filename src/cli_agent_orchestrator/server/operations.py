"""Routes are functions whose arguments are read from the request.

    @operation("GET", "/terminals/{terminal_id}", "Show a terminal and its status")
    async def get_terminal(terminals: TerminalService, terminal_id: Name) -> Terminal: ...

An argument is a part of the server (`SERVED`) or of the path, or the JSON body (a RequestBody); all
others are parameters of the query, one by one or as a Struct, or headers (`Header`). The result is
sent as JSON. No error quotes the request: it may be a prompt.
"""

import asyncio
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..core import codec
from ..core.clock import Clock
from ..core.models import MESSAGE_LIMIT, Asked, RunAgents
from ..errors import MessageTooLarge, UsageError
from ..events import RunEvent
from ..terminals.service import TerminalService

BODY_LIMIT = 3 * MESSAGE_LIMIT + 4096
"""Bytes of a request body: JSON that escapes all but ASCII takes up to three times the text."""


def to_json(content: object) -> bytes:
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        # Half a character, which a screen may show, has no UTF-8.
        text = json.dumps(codec.plain(content), ensure_ascii=False)
        return text.encode("utf-8", "replace")


class Json(JSONResponse):
    """A JSON answer that no cache keeps and no browser takes for anything else."""

    def render(self, content: object) -> bytes:
        return to_json(content)

    def init_headers(self, headers: Any = None) -> None:  # Any: as in JSONResponse
        super().init_headers(headers)
        self.raw_headers += [
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]


class RequestBody(Struct):
    """Marks the argument that is the JSON body."""


class Following(Protocol):
    def __iter__(self) -> Iterator[RunEvent]: ...
    def stop(self) -> None: ...


# Any: JSON
class Runs(Protocol):
    """The runs, of which this half knows nothing else; all of it may block."""

    def list(self) -> Sequence[Mapping[str, Any]]: ...
    def get(self, name: str) -> Mapping[str, Any]: ...
    def turn(self, name: str, sequence: int) -> Mapping[str, Any]: ...
    def follow(self, name: str, after: int) -> Following: ...
    def start(
        self, wd: str, options: Mapping[str, str], *, replace_terminals: bool = False
    ) -> Mapping[str, Any]: ...
    def agents(self, name: str, role: str | None = None) -> RunAgents: ...
    def steer(self, name: str, wanted: Mapping[str, Any]) -> Asked: ...
    def note_answer(self, session: str, terminal_id: str, text: str) -> None: ...


class Backend(Struct, frozen=True):
    terminals: TerminalService
    clock: Clock
    heartbeat: float
    """Seconds between two signs of life on a quiet event stream."""
    closing: asyncio.Event
    """Set when the server is about to end: event streams end at once."""
    runs: Runs | None = None


def runs_of(request: Request) -> Runs:
    runs: Runs | None = request.app.state.backend.runs
    if runs is None:
        raise UsageError("this server serves no runs")
    return runs


# Object missing required field `message`
MISSING_PATTERN = r"Object missing required field `(?P<field>[^`]+)`"
# Expected `str`, got `int` - at `$.message`      Invalid enum value 'root' - at `$.permissions`
WRONG_PATTERN = r"(?P<what>.*) - at `\$\.(?P<field>[^`]+)`"
ACCEPTED = 202

# Any: a type as annotations have it, which may be a union, or whatever a handler returns
Handler = Callable[..., Awaitable[Any]]
Value = TypeVar("Value")
Header = Annotated[Value, "header"]
"""Marks an argument that is a header: `idempotency_key` is `Idempotency-Key`."""

SERVED: Mapping[str, Callable[[Request], object]] = {
    "request": lambda request: request,
    "backend": lambda request: request.app.state.backend,
    "terminals": lambda request: request.app.state.backend.terminals,
    "runs": runs_of,
}


class Operation(Struct, frozen=True):
    method: str
    path: str
    summary: str
    handler: Handler
    description: str
    answer: Any
    """The type that documents the answer."""
    status: int
    later: tuple[str, str]
    """The field of an answer that is false if it is not done yet, which is a 202, and what that
    means; empty if there is none."""
    errors: frozenset[int]
    """Besides those of every request."""
    served: tuple[str, ...]
    parameters: Mapping[str, Any]
    """By place (path, query, header) a Struct of those that are read there."""
    whole: str
    """The argument that gets all of the query as a Struct; empty: each has its own."""
    body: tuple[str, type[RequestBody], bool] | None
    """The argument that gets the JSON body, its type, and whether it is required."""


def operation(
    method: str,
    path: str,
    summary: str,
    *errors: int,
    description: str = "",
    answer: Any = None,
    status: int = 200,
    later: tuple[str, str] = ("", ""),
) -> Callable[[Handler], Operation]:
    """Make a handler an operation; without `answer` its return type documents the answer."""

    def make(handler: Handler) -> Operation:
        hints = get_type_hints(handler, include_extras=True)
        served: list[str] = []
        fields: dict[str, list[tuple[str, Any] | tuple[str, Any, Any]]] = {}
        parameters: dict[str, Any] = {}
        whole, body = "", None
        for name, argument in inspect.signature(handler).parameters.items():
            kind = hints[name]
            struct, *others = get_args(kind) or [kind]
            is_struct = isinstance(struct, type) and issubclass(struct, msgspec.Struct)
            if name in SERVED:
                served.append(name)
            elif is_struct and issubclass(struct, RequestBody):
                body = (name, struct, not others)
            elif is_struct:
                whole, parameters["query"] = name, struct
            else:
                is_header = "header" in getattr(kind, "__metadata__", ())
                place = "header" if is_header else "path" if f"{{{name}" in path else "query"
                default = () if argument.default is argument.empty else (argument.default,)
                fields.setdefault(place, []).append((name, kind, *default))
        for place, found in fields.items():
            name = f"{handler.__name__}_{place}"
            rename: Literal["kebab"] | None = "kebab" if place == "header" else None
            parameters[place] = msgspec.defstruct(name, found, rename=rename)
        more = {422} if parameters or body else set()
        more |= ({404} if "path" in parameters else set()) | ({413, 415} if body else set())
        return Operation(
            method,
            path,
            summary,
            handler,
            description,
            hints["return"] if answer is None else answer,
            status,
            later,
            frozenset({*errors, *more}),
            tuple(served),
            parameters,
            whole,
            body,
        )

    return make


def route_of(operation: Operation) -> Route:
    async def endpoint(request: Request) -> Response:
        given = {name: SERVED[name](request) for name in operation.served}
        for place, kind in operation.parameters.items():
            raw: Mapping[str, object] = request.path_params
            if place == "query":
                raw = dict(request.query_params)
            elif place == "header":
                names = kind.__struct_encode_fields__
                raw = {name: request.headers[name] for name in names if name in request.headers}
            try:
                # Not strict: numbers are text here.
                read: Struct = msgspec.convert(raw, kind, strict=False)
            except msgspec.ValidationError as error:
                raise HTTPException(422, describe(place, kind, str(error))) from None
            if place == "query" and operation.whole:
                given[operation.whole] = read
            else:
                given |= msgspec.structs.asdict(read)
        if operation.body is not None:
            name, struct, required = operation.body
            given[name] = await _read_body(request, struct, required=required)
        answer = await operation.handler(**given)
        if isinstance(answer, Response):
            return answer
        done, _ = operation.later
        is_done = not done or getattr(answer, done)
        return Json(answer, operation.status if is_done else ACCEPTED)

    route = Route(operation.path, endpoint, methods=[operation.method])
    # Without HEAD, which comes with GET: it would run a stream of events for nothing.
    route.methods = {operation.method}
    return route


async def _read_body(
    request: Request, kind: type[RequestBody], *, required: bool
) -> RequestBody | None:
    """Return the JSON body, None if there is none; stop reading one that is too large."""
    announced, body = int(request.headers.get("content-length", "0")), bytearray()
    if announced <= BODY_LIMIT:
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_LIMIT:
                break
    if (size := max(announced, len(body))) > BODY_LIMIT:
        raise MessageTooLarge(size, MESSAGE_LIMIT)
    if not body and not required:
        return None
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise HTTPException(415, "the body must be JSON: send 'Content-Type: application/json'")
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except msgspec.DecodeError as error:
        raise HTTPException(422, describe("body", kind, str(error))) from None
    except (UnicodeDecodeError, RecursionError):
        raise HTTPException(422, "body: JSON is malformed") from None


def describe(place: str, kind: Any, problem: str) -> str:
    """Return an error of msgspec for people: where and what, never the value.

    `query.mode: Expected 'full', 'last' or 'screen'`
    """
    if missing := re.match(MISSING_PATTERN, problem):
        return f"{place}.{missing['field']}: Field required"
    wrong = re.fullmatch(WRONG_PATTERN, problem, re.DOTALL)
    if wrong is None:
        return f"{place}: {problem}"
    what, field = wrong["what"], wrong["field"]
    if what.startswith("Invalid enum value"):
        *others, last = _choices(get_type_hints(kind).get(field)) or ["another value"]
        what = f"Expected {', '.join(others)} or {last}" if others else f"Expected {last}"
    return f"{place}.{field}: {what}"


def _choices(kind: object) -> list[str]:
    if isinstance(kind, str):
        return [repr(kind)]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [repr(str(member.value)) for member in kind]
    return [choice for part in get_args(kind) for choice in _choices(part)]
