"""Gets rid of service workers: the page has none, so one that asks for its script is a stranger's.

Whoever has had this port before may have left one in the browser, which answers in our place. The
browser asks for its script again whenever the page is loaded.
"""

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cli_agent_orchestrator._internal.dashboard.files import page_file

ASKS_FOR_SCRIPT = (b"service-worker", b"script")
HEADERS = {"Cache-Control": "no-store", "Service-Worker-Allowed": "/"}


class NoWorkers:
    """ASGI middleware that answers a worker's browser with a script that removes it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and ASKS_FOR_SCRIPT in scope["headers"]:
            file = page_file("leave.js")
            answer = Response(file.body, media_type=file.media_type, headers=HEADERS)
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)
