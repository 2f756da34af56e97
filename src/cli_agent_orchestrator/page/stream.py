"""Keeps tabs up to date: each is sent what has changed in its page, however many there are."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from ..core.text import on_a_line
from ..errors import OrchestratorError, in_words
from ..server.stream import sse_bytes
from .context import Page, Part, Watched

# <ol id="turns">: the only form in which we write it, and no text can look like it
ID_PATTERN = r' id="([^"]*)"'

# Any: JSON
Update = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Displayed:
    """What a tab has been sent."""

    title: str | None = None
    """None: nothing yet."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """By id, in the order of the page."""


def update_of(shown: Displayed, page: Page) -> tuple[Displayed, Update | None]:
    """Return what a tab shows once it has this page, and what it is sent for that, None if nothing.

    A part that is new in its place says after which other one it stands there; after None it is the
    first. One that holds others takes them along when it is replaced, so they are sent again.
    """
    now = Displayed(page.title, {part.id: part for part in page.parts})
    staying = _staying(shown.parts.values(), now.parts.values())
    last: dict[str, str] = {}
    renewed: set[str] = set()
    sent: list[Update] = []
    for part in now.parts.values():
        stays = part.id in staying and part.into not in renewed
        if not stays or part.html != shown.parts[part.id].html:
            renewed.update(re.findall(ID_PATTERN, part.html))
            place = {} if stays else {"after": last.get(part.into)}
            sent.append({"id": part.id, "into": part.into, "html": part.html, **place})
        last[part.into] = part.id
    gone = [one for one in shown.parts if one not in now.parts]
    if not sent and not gone and page.title == shown.title:
        return now, None
    return now, {"title": page.title, "parts": sent, "gone": gone}


def _staying(before: Iterable[Part], after: Iterable[Part]) -> set[str]:
    """Return the parts that stay where they are, as far as the order has not changed."""
    old, new = _by_place(before), _by_place(after)
    found: set[str] = set()
    for place in old.keys() & new.keys():
        both = {*old[place]} & {*new[place]}
        kept = [one for one in old[place] if one in both]
        wanted = [one for one in new[place] if one in both]
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(kept, wanted, strict=True))
        found.update(one for one, _ in alike)
    return found


def _by_place(parts: Iterable[Part]) -> dict[str, list[str]]:
    """Return the ids of parts by what holds them."""
    places: dict[str, list[str]] = {}
    for part in parts:
        places.setdefault(part.into, []).append(part.id)
    return places


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


LONGEST_CODE = 300
"""Characters of the line: it is there so that the agent finds it, and it may be of any length."""
OLD = "old"


@dataclass(frozen=True, slots=True)
class Comment:
    """A remark of a person about one line."""

    turn: int
    """In whose diff the line stands."""
    path: str
    line: int
    side: str
    """`old` if the turn has removed or replaced the line, else `new`."""
    text: str
    code: str = ""
    """The line itself, if it is known."""


def hint_of(comment: Comment) -> str:
    """Return a comment as a hint.

    >>> print(hint_of(Comment(3, "src/a.py", 12, "new", "Why not a set?", "seen = []")))
    About src/a.py:12, as turn 3 left it:
        seen = []
    Why not a set?
    """
    turn = f"turn {comment.turn}"
    when = f"as it was before {turn}" if comment.side == OLD else f"as {turn} left it"
    lines = [f"About {on_a_line(comment.path)}:{comment.line}, {when}:"]
    if comment.code.strip():
        lines.append(f"    {on_a_line(comment.code.expandtabs(4)[:LONGEST_CODE])}")
    return "\n".join([*lines, comment.text])
