"""The HTTP application: operations, access and problems put together."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route

from ..core.clock import SystemClock
from . import routes
from . import run_routes as runs
from .access import Access, AccessRules, PageAccess, allowed_names
from .backend import Backend, Runs, Terminals
from .openapi import describe
from .operations import route_of
from .problems import PROBLEM_HANDLERS
from .schemas import Json
from .stream import HEARTBEAT_SECONDS, LastWords

OPERATIONS = (*routes.OPERATIONS, *runs.OPERATIONS)


def create_app(
    service: Terminals,
    *,
    token: str | None,
    allowed_hosts: Iterable[str] = (),
    heartbeat: float = HEARTBEAT_SECONDS,
) -> Starlette:
    """Return the application for one terminal service.

    With a token of None everybody on the machine may use it. `allowed_hosts` are names under which
    the server may be addressed besides the loopback ones.
    """
    rules = AccessRules(token, allowed_names(allowed_hosts), from_agent=service.has_client)
    app = Starlette(
        routes=[*map(route_of, OPERATIONS), Route("/openapi.json", document)],
        middleware=[Middleware(Access, rules=rules), Middleware(LastWords)],
        exception_handlers=PROBLEM_HANDLERS,
    )
    app.router.redirect_slashes = False
    app.state.rules = rules
    app.state.backend = Backend(
        service,
        SystemClock(),
        heartbeat,
        closing=asyncio.Event(),
    )
    return app


def serve_runs(app: Starlette, runs: Runs) -> Starlette:
    """Let an application serve runs, too."""
    app.state.backend = replace(app.state.backend, runs=runs)
    return app


def serve_page(app: Starlette, access: PageAccess, routes: Iterable[Route]) -> Starlette:
    """Let an application that answers nobody yet show a page in the browser, too."""
    rules = replace(app.state.rules, page=access)
    app.user_middleware = [Middleware(Access, rules=rules), Middleware(LastWords)]
    app.router.routes.extend(routes)
    return app


async def document(_: Request) -> Json:
    # Made when it is asked for, which is seldom, and not at every start.
    return Json(describe(OPERATIONS))
