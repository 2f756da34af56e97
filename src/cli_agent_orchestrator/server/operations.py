"""What clients can ask for: functions whose arguments are read from the request.

    @operation("GET", "/terminals/{terminal_id}", "Show a terminal and its status")
    async def get_terminal(terminals: TerminalService, terminal_id: Name) -> Terminal: ...

An argument is what the server has (`SERVED`), a part of the path, or the JSON body (a RequestBody);
all others are parameters of the query, one by one or as a Struct, or headers (`Header`). What is
returned is sent as JSON. Nothing of a request is ever quoted: it may be a prompt.
"""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_args, get_type_hints

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.clock import Clock
from ..core.models import RunAgents
from ..errors import MessageTooLarge, UsageError
from ..events import RunEvent
from ..terminals.service import TerminalService
from .schemas import Json, RequestBody


class Following(Protocol):
    """Yields the events of a run until it ends or is told to stop."""

    def __iter__(self) -> Iterator[RunEvent]: ...
    def stop(self) -> None: ...


# Any: JSON
class Runs(Protocol):
    """What HTTP offers of runs; all of it may take its time."""

    def list(self) -> Sequence[Mapping[str, Any]]: ...
    def get(self, name: str) -> Mapping[str, Any]: ...
    def turn(self, name: str, sequence: int) -> Mapping[str, Any]: ...
    def follow(self, name: str, after: int) -> Following: ...
    def start(
        self, wd: str, options: Mapping[str, str], *, replace_terminals: bool = False
    ) -> Mapping[str, Any]: ...
    def agents(self, name: str, role: str | None = None) -> RunAgents: ...
    def steer(self, name: str, wanted: Mapping[str, Any]) -> Mapping[str, Any]: ...
    def note_answer(self, session: str, terminal_id: str, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Backend:
    """Everything a handler may use."""

    terminals: TerminalService
    clock: Clock
    heartbeat: float
    """Seconds between two signs of life on an event stream where nothing happens."""
    closing: asyncio.Event
    """Set when the server is about to end: event streams end at once."""
    runs: Runs | None = None


def backend_of(request: Request) -> Backend:
    backend: Backend = request.app.state.backend
    return backend


def runs_of(request: Request) -> Runs:
    runs = backend_of(request).runs
    if runs is None:
        raise UsageError("this server serves no runs")
    return runs


# Object missing required field `message`
MISSING_PATTERN = r"Object missing required field `(?P<field>[^`]+)`"
# Expected `str`, got `int` - at `$.message`      Invalid enum value 'root' - at `$.permissions`
WRONG_PATTERN = r"(?P<what>.*) - at `\$\.(?P<field>[^`]+)`"
NOT_QUOTED = "Invalid enum value"
ACCEPTED = 202
KEBAB: Literal["kebab"] = "kebab"

# Any: a type as annotations have it, which may be a union, or whatever a handler returns
Handler = Callable[..., Awaitable[Any]]
Value = TypeVar("Value")
Header = Annotated[Value, "header"]
"""Marks an argument that is a header: `idempotency_key` is `Idempotency-Key`."""

SERVED: Mapping[str, Callable[[Request], object]] = {
    "request": lambda request: request,
    "backend": backend_of,
    "terminals": lambda request: backend_of(request).terminals,
    "runs": runs_of,
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that clients can ask for."""

    method: str
    path: str
    summary: str
    handler: Handler
    description: str
    answer: Any
    """The type that documents the answer."""
    status: int
    meaning: str
    """What it means to be answered."""
    later: tuple[str, str]
    """The field of an answer that is false if it is not done yet, which is a 202, and what that
    means; empty if there is none."""
    errors: frozenset[int]
    """Besides those that every request may get."""
    served: tuple[str, ...]
    parameters: Mapping[str, Any]
    """By place (path, query, header) a Struct of those that are read there."""
    whole: str
    """The argument that gets all of the query as a Struct; empty: each has its own."""
    body: tuple[str, type[RequestBody], bool] | None
    """The argument that gets the JSON body, as what, and whether there must be one."""


def operation(
    method: str,
    path: str,
    summary: str,
    *errors: int,
    description: str = "",
    answer: Any = None,
    status: int = 200,
    meaning: str = "Done.",
    later: tuple[str, str] = ("", ""),
) -> Callable[[Handler], Operation]:
    """Return what makes an operation of a handler; `answer` is what it returns, if not given."""

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
            rename = KEBAB if place == "header" else None
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
            meaning,
            later,
            frozenset({*errors, *more}),
            tuple(served),
            parameters,
            whole,
            body,
        )

    return make


def route_of(operation: Operation) -> Route:
    """Return what finds an operation by its path and has it done."""

    async def endpoint(request: Request) -> Response:
        given = {name: SERVED[name](request) for name in operation.served}
        for place, kind in operation.parameters.items():
            read = _read_parameters(request, place, kind)
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
    # Without HEAD, which comes with GET: nobody reads what a stream of events would send to it.
    route.methods = {operation.method}
    return route


def _read_parameters(request: Request, place: str, kind: Any) -> msgspec.Struct:
    given: Mapping[str, object] = request.path_params
    if place == "query":
        given = dict(request.query_params)
    elif place == "header":
        names = kind.__struct_encode_fields__
        given = {name: request.headers[name] for name in names if name in request.headers}
    try:
        # Not strict: numbers are text here.
        read: msgspec.Struct = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise HTTPException(422, describe(place, kind, str(error))) from None
    return read


async def _read_body(
    request: Request, kind: type[RequestBody], *, required: bool
) -> RequestBody | None:
    """Return what a JSON body holds; None if there is none and the handler can do without.

    It is given up as soon as it is known to be too large.
    """
    announced, body = int(request.headers.get("content-length", "0")), bytearray()
    if announced <= kind.most_bytes:
        async for chunk in request.stream():
            body += chunk
            if len(body) > kind.most_bytes:
                break
    if (size := max(announced, len(body))) > kind.most_bytes:
        raise MessageTooLarge(size, kind.most_text)
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
    """Return one line for people, from what msgspec says: where and what, never the value.

    `query.mode: Expected 'full', 'last' or 'screen'`
    """
    if missing := re.match(MISSING_PATTERN, problem):
        return f"{place}.{missing['field']}: Field required"
    wrong = re.fullmatch(WRONG_PATTERN, problem, re.DOTALL)
    if wrong is None:
        return f"{place}: {problem}"
    what, field = wrong["what"], wrong["field"]
    if what.startswith(NOT_QUOTED):
        *others, last = _choices(get_type_hints(kind).get(field)) or ["another value"]
        what = f"Expected {', '.join(others)} or {last}" if others else f"Expected {last}"
    return f"{place}.{field}: {what}"


def _choices(kind: object) -> list[str]:
    """Return the values of the enum or Literal in a type, which may be one of a union."""
    if isinstance(kind, str):
        return [repr(kind)]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [repr(str(member.value)) for member in kind]
    return [choice for part in get_args(kind) for choice in _choices(part)]
