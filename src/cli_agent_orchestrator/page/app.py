"""The page in the browser over HTTP: its shell for everybody, all else for who has signed in."""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..server.access import PageAccess, PageRequest
from ..server.app import serve_page
from ..server.backend import Backend
from ..server.operations import Handler, operation, route_of
from ..server.problems import Problem
from ..server.run_routes import steered
from ..server.schemas import AskBody, AskedBody, Json, Path, RunId
from ..server.stream import EventStream
from ..show.markup import Markup
from .context import PageContext, Watched
from .files import PageFile, page_file, shell
from .news import beside
from .sign_in import SIGNED_IN_SECONDS, Links, PageSecret, request_words
from .stream import Comment, SharedPages, Update, hint_of, update_bytes, updates

HOME = "/dashboard"
SIGN_IN = f"{HOME}/sign-in"
CHALLENGE = f"{HOME}/challenge"
LINKS = f"{HOME}/links"
# What is the same for everybody and holds nothing of anybody.
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


class CodeBody(AskBody):
    """What a link is known by."""

    code: Annotated[str, Meta(max_length=200)]


class CommentBody(AskBody):
    """What a person writes at a line of a diff."""

    turn: Annotated[int, Meta(ge=0)]
    path: Path
    line: Annotated[int, Meta(ge=0)]
    text: Annotated[str, Meta(pattern=r"\S")]
    side: Literal["old", "new"] = "new"
    code: Annotated[str, Meta(max_length=10_000)] = ""


@dataclass(frozen=True, slots=True)
class Views:
    """What there is to see, by the address of the page; both raise NotFound."""

    watched: Callable[[str, PageContext], Watched]
    fragment: Callable[[str, PageContext], Awaitable[Markup]]
    """HTML that is fetched when it is opened."""


def mount(app: Starlette, context: PageContext, token: str, load: Callable[[], Views]) -> Starlette:
    """Let an application show the page; `token` is the one that its server has, wanted or not.

    `load` is called, in a thread, whenever somebody begins to look at something.
    """
    page = _Handlers(context, PageSecret(token), load)
    routes = [
        route_of(operation(method, path, "")(handler)) for method, path, handler in page.table()
    ]
    access = PageAccess(is_open, page.is_signed_in)
    return serve_page(app, access, routes)


def is_open(method: str, path: str) -> bool:
    """Is a request answered for everybody?"""
    if method == "POST":
        return path == SIGN_IN
    return method == "GET" and re.fullmatch(OPEN_PATTERN, path, re.DOTALL) is not None


class _Handlers:
    """Answers what the page asks for."""

    def __init__(self, context: PageContext, secret: PageSecret, load: Callable[[], Views]) -> None:
        self._context = context
        self._secret = secret
        self._load = load
        self._challenge = secrets.token_hex(16)
        self._links = Links()
        self._shared = SharedPages()

    def is_signed_in(self, shown: PageRequest) -> bool:
        """Was a request signed by somebody who has come by a link?"""
        if shown.sent.path.startswith(LINKS):
            # Whoever may use the page for some time must not make that longer.
            return False
        words = request_words(self._challenge, shown.host, shown.sent.method, shown.sent.target)
        now = self._context.clock.now()
        return self._secret.is_signed_in(shown.cookies, words, shown.proof, now)

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return which handler answers what."""
        return [
            ("GET", "/", self.root),
            ("GET", HOME, self.shell),
            ("GET", f"{HOME}/static/{{name:path}}", self.file),
            ("GET", CHALLENGE, self.challenge),
            ("POST", LINKS, self.link),
            ("POST", SIGN_IN, self.sign_in),
            ("GET", f"{HOME}/stream", self.stream),
            ("GET", f"{HOME}/fragment", self.fragment),
            ("POST", f"{HOME}/runs/{{run}}/comments", self.comment),
            # What is no page says so itself, to who has signed in.
            ("GET", f"{HOME}/{{rest:path}}", self.shell),
        ]

    async def root(self, request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404)
        return RedirectResponse(HOME, 303)

    async def shell(self, request: Request) -> Response:
        return _sent(shell(), request)

    async def file(self, request: Request, name: Path) -> Response:
        return _sent(page_file(name), request)

    async def challenge(self) -> Json:
        return Json({"challenge": self._challenge})

    async def link(self) -> Json:
        code = secrets.token_urlsafe(32)
        self._links.add(code, self._context.clock.monotonic())
        return Json({"path": f"{SIGN_IN}#{code}"}, 201)

    async def sign_in(self, body: CodeBody) -> Json:
        if not self._links.use(body.code, self._context.clock.monotonic()):
            return Problem(403, NO_LINK)
        signed_in = self._secret.sign_in(self._context.clock.now(), secrets.token_hex(16))
        cookie = (
            f"{self._secret.cookie_name}={signed_in.cookie}; HttpOnly; SameSite=Strict; Path=/; "
            f"Max-Age={SIGNED_IN_SECONDS}"
        )
        return Json({"key": signed_in.key}, headers={"Set-Cookie": cookie})

    async def stream(self, backend: Backend, path: Path) -> EventStream[Update]:
        views = await asyncio.to_thread(self._load)
        watched = self._shared.of(path, lambda: views.watched(path, self._context))
        # It ends by itself, when the tab has been sent how all stood at last.
        lasting = replace(backend, closing=asyncio.Event())
        return EventStream(self._updates(watched, backend.closing), lasting, update_bytes)

    async def _updates(
        self, watched: Watched, closing: asyncio.Event
    ) -> AsyncGenerator[Update, None]:
        async def end() -> None:
            await closing.wait()
            self._context.news.end()

        async with beside(end()), aclosing(updates(watched)) as sent:
            async for update in sent:
                yield update

    async def fragment(self, path: Path) -> Response:
        views = await asyncio.to_thread(self._load)
        html = await views.fragment(path, self._context)
        headers = {**HEADERS, "Cache-Control": "no-store"}
        return Response(html.encode("utf-8", "replace"), media_type="text/html", headers=headers)

    async def comment(self, run: RunId, body: CommentBody) -> AskedBody:
        role = await asyncio.to_thread(self._context.runs.author, run, body.turn)
        said = Comment(body.turn, body.path, body.line, body.side, body.text, body.code)
        return await steered(self._context.runs, run, "hint", role=role, text=hint_of(said))


def _sent(file: PageFile, request: Request) -> Response:
    """Send a file, or say that it is still the one that the browser has."""
    headers = {**HEADERS, "ETag": file.etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.body, media_type=file.media_type, headers=headers)
