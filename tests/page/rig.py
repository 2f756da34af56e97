"""A real server with the page, and a view that a test changes; a browser that is a client."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from starlette.applications import Starlette

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import BUILT_IN
from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.page.app import mount
from cli_agent_orchestrator.page.stream import Listening, News, PageContext
from cli_agent_orchestrator.page.words import Page, Part
from cli_agent_orchestrator.runs.service import RunService
from cli_agent_orchestrator.runs.view import list_runs
from cli_agent_orchestrator.server.app import create_app
from cli_agent_orchestrator.show.markup import Markup, tag
from tests.server.run_rig import Rig
from tests.server.running import TOKEN, WAIT_SECONDS, wait_in

HOME = "/dashboard"
CALM_SECONDS = 600.0


async def run_words(context: PageContext, made: list[int]) -> AsyncGenerator[Page, None]:
    """Yield a small page: how each run stands, made again when there are news."""
    async with context.news.of() as listening:
        while await listening.is_due(CALM_SECONDS):
            runs = await asyncio.to_thread(list_runs, context.state_folder)
            made.append(len(runs))
            parts = [Part("runs", tag("ul", id="runs"))]
            parts += [
                Part(run.id, tag("li", f"{run.id} {run.words}", id=run.id), "runs") for run in runs
            ]
            yield Page("Runs", tuple(parts))


class LaterClock(SystemClock):
    """The machine's own clock, which a test sets forward."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


class PageRig(Rig):
    """A state folder with a run in it, and a server that shows it in the browser."""

    token: str | None = TOKEN
    """What requests must show."""
    secret = TOKEN
    """What keys are made with."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.made: list[int] = []
        """How many runs there were each time that the page was made."""
        self.clock = LaterClock()
        self.context: PageContext | None = None
        self.mounted: Starlette | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    async def fragment(self, path: str, context: PageContext) -> Markup:
        if path != f"{HOME}/more":
            raise NotFound("page", path, [])
        return tag("p", "<more>")

    def watched(self, path: str, context: PageContext) -> AsyncGenerator[Page, None]:
        if path != HOME:
            raise NotFound("page", path, [HOME])
        return run_words(context, self.made)

    def app(self, runs: RunService) -> Starlette:
        news = News(self.state)
        self.context = PageContext(
            self.terminals, runs, self.state, news, self.clock, {}, lambda: [BUILT_IN]
        )
        self.loop = asyncio.get_running_loop()
        token = self.token and self.secret
        app = create_app(self.terminals, runs, token=token, heartbeat=0.05)
        self.mounted = mount(app, self.context, self.secret, lambda: (self.watched, self.fragment))
        return self.mounted

    def wait_until(self, condition: Callable[[], bool]) -> None:
        assert self.loop is not None
        wait_in(self.loop, condition)


class ChangingRig(PageRig):
    """A server with one page, which changes when a test wants it to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.number = 0
        """Of the changes so far."""
        self.tabs: set[Listening] = set()

    def page(self) -> Page:
        raise NotImplementedError

    def change(self) -> None:
        self.number += 1
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for tab in self.tabs:
            tab.wake()

    def watched(self, path: str, context: PageContext) -> AsyncGenerator[Page, None]:
        return self.pages(context)

    async def pages(self, context: PageContext) -> AsyncGenerator[Page, None]:
        async with context.news.of() as listening:
            self.tabs.add(listening)
            try:
                while await listening.is_due(CALM_SECONDS):
                    yield self.page()
            finally:
                self.tabs.discard(listening)


class Browser:
    """What a browser does for the page: keeps the key for this origin."""

    def __init__(self, url: str, *, key: str = "") -> None:
        self.http = httpx.Client(base_url=url, timeout=WAIT_SECONDS, trust_env=False)
        self.key = key

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def sign_in(self, code: str) -> int:
        answer = self.http.post("/dashboard/sign-in", json={"code": code})
        self.key, self.port = answer.json().get("key", ""), answer.json().get("port", 0)
        return answer.status_code

    def get(self, path: str, **more: Any) -> httpx.Response:  # Any: what httpx takes
        return self.http.get(path, headers={**self.headers, **more.pop("headers", {})}, **more)

    def post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:  # Any: JSON
        return self.http.post(path, headers=self.headers, json=body)

    @contextlib.contextmanager
    def updates(self, path: str = HOME) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield what the stream of a page sends."""
        stream = f"/dashboard/stream?path={quote(path)}"
        with self.http.stream("GET", stream, headers=self.headers) as answer:
            assert answer.status_code == 200, answer.read()
            yield (
                json.loads(line.removeprefix("data: "))
                for line in answer.iter_lines()
                if line.startswith("data: ")
            )


def link(url: str, token: str = TOKEN) -> str:
    """Return the code of a new link, as `cao dashboard` gets it."""
    bearer = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{url}/dashboard/links", headers=bearer, trust_env=False)
    assert answer.status_code == 201, answer.text
    path, _, code = answer.json()["path"].partition("#")
    assert path == "/dashboard/sign-in"
    return str(code)


@contextlib.contextmanager
def signed_in(url: str, token: str = TOKEN) -> Iterator[Browser]:
    with Browser(url) as browser:
        assert browser.sign_in(link(url, token)) == 200
        yield browser
