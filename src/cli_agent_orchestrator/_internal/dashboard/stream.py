"""Keeps tabs up to date: each is sent what has changed in its page, however many there are."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from cli_agent_orchestrator._internal.api.events import sse_bytes
from cli_agent_orchestrator._internal.dashboard.page import Page, Watched
from cli_agent_orchestrator._internal.dashboard.update import Displayed, Update, update_of
from cli_agent_orchestrator.errors import OrchestratorError, in_words

PAUSE_SECONDS = 0.05
"""Between two updates of a tab; the first after a calm comes at once."""


def update_bytes(update: Update) -> bytes:
    return sse_bytes("page", "", update)


async def updates(watched: Watched) -> AsyncGenerator[Update, None]:
    """Yield what a tab is to be sent, first the whole page; why there is no more, if that is so."""
    shown = Displayed()
    try:
        async with aclosing(watched.pages()) as pages:
            async for page in pages:
                shown, update = update_of(shown, page)
                if update is not None:
                    yield update
                # The page is not even made again before that.
                await asyncio.sleep(PAUSE_SECONDS)
    except (OrchestratorError, OSError) as error:
        yield {"problem": in_words(error)}


class SharedPages:
    """Pages that several tabs look at: each is made once, and only while somebody looks."""

    def __init__(self) -> None:
        self._shared: dict[str, _Shared] = {}

    def of(self, path: str, watch: Callable[[], Watched]) -> Watched:
        """Return the page at a path for one more tab; `watch` finds it if no other looks at it."""
        shared = self._shared.get(path)
        if shared is None:
            shared = self._shared[path] = _Shared(watch(), lambda one: self._forget(path, one))
        return shared

    def _forget(self, path: str, shared: "_Shared") -> None:
        if self._shared.get(path) is shared:
            del self._shared[path]


class _Shared:
    """The present page of a view, for all tabs that look at it."""

    def __init__(self, watched: Watched, on_end: Callable[["_Shared"], None]) -> None:
        """`on_end` is called when no new tab is to come here, because this view ends."""
        self._watched = watched
        self._on_end = on_end
        self._tabs = 0
        self._making: asyncio.Task[None] | None = None
        self._page: Page | None = None
        self._newer = asyncio.Event()
        """Set when there is another page, or will be none."""

    async def pages(self) -> AsyncGenerator[Page, None]:
        self._tabs += 1
        if self._making is None:
            self._making = asyncio.create_task(self._make())
        making, seen = self._making, None
        try:
            while not making.done() or self._page is not seen:
                newer = self._newer
                if self._page is not None and self._page is not seen:
                    seen = self._page
                    yield seen
                else:
                    await newer.wait()
            making.result()
        finally:
            self._tabs -= 1
            if not self._tabs:
                await self._end(making)

    async def _make(self) -> None:
        try:
            async with aclosing(self._watched.pages()) as pages:
                async for page in pages:
                    self._show(page)
                    await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._on_end(self)
            self._show(self._page)

    def _show(self, page: Page | None) -> None:
        newer, self._newer = self._newer, asyncio.Event()
        self._page = page
        newer.set()

    async def _end(self, making: asyncio.Task[None]) -> None:
        self._on_end(self)
        self._making = self._page = None
        making.cancel()
        await asyncio.wait({making})
        if not making.cancelled():
            # Looked at, so that asyncio does not complain.
            making.exception()
