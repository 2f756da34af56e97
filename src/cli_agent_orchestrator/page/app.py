"""The page over HTTP: its shell is open, all else is for signed-in browsers."""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..core.models import Asked
from ..core.text import on_a_line
from ..errors import NotFound
from ..server.answers import EventStream, Problem, sse_bytes
from ..server.app import serve_page
from ..server.operations import Backend, Handler, Json, RequestBody, operation, route_of
from ..server.routes import HintBody, Key, PathName, RunId, steered
from ..show import markup
from ..show.markup import Markup, color_rules
from .sign_in import Links, is_key, new_key, server_proof
from .stream import PageContext, Update, beside, updates
from .words import HOME, Page

SIGN_IN = f"{HOME}/sign-in"
LINKS = f"{HOME}/links"
# The same for everybody, without any data of the user.
OPEN_PATTERN = rf"/|{HOME}(?:/(?!(?:stream|fragment)$).*)?"
NO_LINK = "This link does not work any more, or never did: `cao dashboard` makes a new one."
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
SHELL = "shell.html"
SCREEN_COLORS = "screen.css"
"""The colors of terminals: so many rules that they are computed."""
# app.js   page.css
NAME_PATTERN = r"[a-z]{1,30}\.(?:js|css|svg|html)"
TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html"}
FOLDERS = (Path(__file__).with_name("static"), Path(markup.__file__).parent)
"""Of the page, and of reports, which share some files."""
LONGEST_CODE = 300

Watch = Callable[[str, PageContext], AsyncGenerator[Page, None]]
"""Returns the page at an address over time; raises NotFound if there is none."""
Fetch = Callable[[str, PageContext], Awaitable[Markup]]
"""Returns HTML that is fetched when it is opened; raises NotFound too."""


class CodeBody(RequestBody):
    code: Annotated[str, Meta(max_length=200)]


class CommentBody(RequestBody):
    turn: Annotated[int, Meta(ge=0)]
    path: PathName
    line: Annotated[int, Meta(ge=0)]
    text: Annotated[str, Meta(pattern=r"\S")]
    side: Literal["old", "new"] = "new"
    """`old` if the turn has removed or replaced the line."""
    code: Annotated[str, Meta(max_length=10_000)] = ""


def mount(
    app: Starlette, context: PageContext, token: str, load: Callable[[], tuple[Watch, Fetch]]
) -> Starlette:
    """Let an application show the page; `load` is called, in a thread, when a view is opened."""
    page = _Handlers(context, token, load)
    routes = [
        route_of(operation(method, path, "")(handler)) for method, path, handler in page.table()
    ]
    return serve_page(app, is_open, page.is_signed_in, routes)


def is_open(method: str, path: str) -> bool:
    if method == "POST":
        return path == SIGN_IN
    return method == "GET" and re.fullmatch(OPEN_PATTERN, path, re.DOTALL) is not None


class _Handlers:
    def __init__(
        self, context: PageContext, token: str, load: Callable[[], tuple[Watch, Fetch]]
    ) -> None:
        self._context = context
        self._token = token
        self._load = load
        self._links = Links()

    def is_signed_in(self, path: str, key: str) -> bool:
        # Not for links: who may use the page for some time must not make that longer.
        is_link = path.startswith(LINKS)
        return not is_link and is_key(self._token, key, self._context.clock.now())

    def table(self) -> list[tuple[str, str, Handler]]:
        return [
            ("GET", "/", self.root),
            ("GET", HOME, self.shell),
            ("GET", f"{HOME}/static/{{name:path}}", self.file),
            ("POST", LINKS, self.link),
            ("POST", SIGN_IN, self.sign_in),
            ("GET", f"{HOME}/proof", self.proof),
            ("GET", f"{HOME}/stream", self.stream),
            ("GET", f"{HOME}/fragment", self.fragment),
            ("POST", f"{HOME}/runs/{{run}}/comments", self.comment),
            # The script reports an address that is no page.
            ("GET", f"{HOME}/{{rest:path}}", self.shell),
        ]

    async def root(self, request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404)
        return RedirectResponse(HOME, 303)

    async def shell(self, request: Request) -> Response:
        return _unless_known(page_file(SHELL), request)

    async def file(self, request: Request, name: PathName) -> Response:
        return _unless_known(page_file(name), request)

    async def link(self) -> Json:
        code = secrets.token_urlsafe(32)
        self._links.add(code, self._context.clock.monotonic())
        return Json({"path": f"{SIGN_IN}#{code}"}, 201)

    async def sign_in(self, request: Request, body: CodeBody) -> Json:
        if not self._links.use(body.code, self._context.clock.monotonic()):
            return Problem(403, NO_LINK)
        key = new_key(self._token, self._context.clock.now())
        return Json({"key": key, "port": _port_of(request)})

    async def proof(self, request: Request, expiry: Annotated[int, Meta(ge=0)], nonce: Key) -> Json:
        return Json({"proof": server_proof(self._token, expiry, _port_of(request), nonce)})

    async def stream(self, backend: Backend, path: PathName) -> EventStream[Update]:
        watch, _ = await asyncio.to_thread(self._load)
        pages = watch(path, self._context)
        # It ends by itself, when the tab has the last state.
        lasting = replace(backend, closing=asyncio.Event())
        return EventStream(
            self._updates(pages, backend.closing), lasting, lambda one: sse_bytes("page", "", one)
        )

    async def _updates(
        self, pages: AsyncGenerator[Page, None], closing: asyncio.Event
    ) -> AsyncGenerator[Update, None]:
        async def end() -> None:
            await closing.wait()
            self._context.news.end()

        async with beside(end()), aclosing(updates(pages)) as sent:
            async for update in sent:
                yield update

    async def fragment(self, path: PathName) -> Response:
        _, fetch = await asyncio.to_thread(self._load)
        html = await fetch(path, self._context)
        headers = {**HEADERS, "Cache-Control": "no-store"}
        return Response(html.encode("utf-8", "replace"), media_type="text/html", headers=headers)

    async def comment(self, run: RunId, body: CommentBody) -> Asked:
        role = await asyncio.to_thread(self._context.runs.author, run, body.turn)
        return await steered(self._context.runs, run, "hint", HintBody(hint_of(body), role))


def hint_of(comment: CommentBody) -> str:
    """Return a comment as a hint.

    >>> print(hint_of(CommentBody(3, "src/a.py", 12, "Why not a set?", "new", "seen = []")))
    About src/a.py:12, as turn 3 left it:
        seen = []
    Why not a set?
    """
    turn = f"turn {comment.turn}"
    when = f"as it was before {turn}" if comment.side == "old" else f"as {turn} left it"
    lines = [f"About {on_a_line(comment.path)}:{comment.line}, {when}:"]
    if comment.code.strip():
        lines.append(f"    {on_a_line(comment.code.expandtabs(4)[:LONGEST_CODE])}")
    return "\n".join([*lines, comment.text])


@cache
def page_file(name: str) -> Response:
    if name == SCREEN_COLORS:
        body = color_rules().encode()
    else:
        is_name = re.fullmatch(NAME_PATTERN, name, re.ASCII) is not None
        files = [folder / name for folder in FOLDERS if is_name and (folder / name).is_file()]
        if not files:
            raise NotFound("file", name[:100], [])
        body = files[0].read_bytes()
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": tag, "Cache-Control": "no-cache"}
    return Response(body, media_type=TYPES[name.rpartition(".")[2]], headers=headers)


def _port_of(request: Request) -> int:
    """Return the port at which this server listens, whatever the request says of it."""
    _, port = request.scope["server"]
    return port or 0


def _unless_known(file: Response, request: Request) -> Response:
    known = request.headers.get("if-none-match") == file.headers["etag"]
    headers = {**HEADERS, "ETag": file.headers["etag"], "Cache-Control": "no-cache"}
    return Response(status_code=304, headers=headers) if known else file
