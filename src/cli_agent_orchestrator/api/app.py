"""The HTTP application: routes, access and problems put together."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fastapi import FastAPI

from cli_agent_orchestrator import __version__
from cli_agent_orchestrator.api.access import OPEN_REQUESTS, Access, AccessRules, allowed_names
from cli_agent_orchestrator.api.backend import Backend, Runs, Terminals
from cli_agent_orchestrator.api.events import HEARTBEAT_SECONDS
from cli_agent_orchestrator.api.hang_up import LastWords
from cli_agent_orchestrator.api.problems import add_problem_handlers
from cli_agent_orchestrator.api.routes import open_router, router
from cli_agent_orchestrator.api.runs import router as run_routes
from cli_agent_orchestrator.api.schemas import ProblemBody, inline_schema
from cli_agent_orchestrator.clock import SystemClock

DESCRIPTION = """Runs CLI coding agents in tmux terminals, and tasks through them.

Every request but `GET /health` and `GET /identity` carries `Authorization: Bearer TOKEN`.
Errors are `{"detail": "what went wrong and what to do"}`."""

# Any: earlier versions of FastAPI have neither the setting nor its type.
NO_TELEMETRY: Any = {
    # Spans and logs of the framework would carry prompts out of the process.
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


class Api(FastAPI):
    """FastAPI with the token and the error body in its documentation; `Access` asks for the one."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            schema = super().openapi()
            components = schema["components"]
            components["schemas"][ProblemBody.__name__] = inline_schema(ProblemBody)
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"token": []}]
            for _, path in OPEN_REQUESTS:
                schema["paths"][path]["get"]["security"] = []
        return super().openapi()


def create_app(
    service: Terminals,
    *,
    token: str | None,
    identity: str | None = None,
    allowed_hosts: Iterable[str] = (),
    heartbeat: float = HEARTBEAT_SECONDS,
) -> FastAPI:
    """Return the application for one terminal service.

    With a token of None everybody on the machine may use it. `identity` is the token by which the
    server proves whose it is, the same one if not given. `allowed_hosts` are names under which the
    server may be addressed besides the loopback ones.
    """
    app = Api(
        title="CLI agent orchestrator",
        version=__version__,
        description=DESCRIPTION,
        # The pages would load their scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
    )
    app.state.backend = Backend(
        service, SystemClock(), heartbeat, identity or token, asyncio.Event()
    )
    # Flat, not included as routers: those are searched twice for every request.
    app.router.routes.extend([*router.routes, *open_router.routes, *run_routes.routes])
    add_problem_handlers(app)
    app.add_middleware(LastWords)
    app.add_middleware(Access, rules=AccessRules(token, allowed_names(allowed_hosts)))
    return app


def serve_runs(app: FastAPI, runs: Runs) -> FastAPI:
    """Let an application serve runs, too."""
    app.state.backend = replace(app.state.backend, runs=runs)
    return app
