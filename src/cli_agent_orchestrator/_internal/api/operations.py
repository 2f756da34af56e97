"""The operations that HTTP offers: where each is, what it takes, how it answers, and who does it.

A handler says by the names of its parameters what it is given:

    request                      the request itself
    backend, terminals, runs     what the server works with
    path, query, headers, body   what the request says, read into the Struct of the annotation

    async def press_key(terminals: Terminals, path: TerminalPath, query: KeyQuery) -> Json: ...
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cli_agent_orchestrator._internal.api.backend import backend_of, runs_of, terminals_of
from cli_agent_orchestrator._internal.api.reading import (
    read_body,
    read_headers,
    read_path,
    read_query,
)

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
