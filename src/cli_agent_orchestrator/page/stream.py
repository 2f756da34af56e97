"""Keeps tabs up to date: they are told of what happens, and sent what has changed in their page.

    async with news.of(run) as listening:
        is_last = False
        while not is_last:
            is_last = listening.is_last
            ...                           # look at it
            await listening.wait(seconds)

While somebody listens, the folders of the runs in question are watched, and it is looked now and
then for what no file tells: that a run was killed. While nobody does, nothing runs. When the server
is about to end, all look for the last time.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from ..core.clock import Clock
from ..core.watch import FolderWatch
from ..errors import OrchestratorError, in_words
from ..runs.record import is_run_id
from ..runs.service import RunService
from ..settings.layout import EVENTS_FILE, RECORD_FILE, run_folder, runs_folder
from ..terminals.service import TerminalService
from .words import Page, Part

LOOK_SECONDS = 1.0
"""A killed run tells nobody: so often it is asked whether its process is still there."""
TIMES_SECONDS = 5.0
TELLING = frozenset({RECORD_FILE, EVENTS_FILE})
"""The files of a run in which its news stand."""
PAUSE_SECONDS = 0.05
"""Between two updates of a tab; the first after a calm comes at once."""
# <ol id="turns">: the only form in which we write it, and no text can look like it
ID_PATTERN = r' id="([^"]*)"'

# Any: JSON
Update = dict[str, Any]
Glimpse = tuple[int, bool, int]
"""What a run looks like from outside: when its folder was changed, whether its process is there,
and, if it is being watched, how long its event log is."""


class Listening:
    """Waits for news of one run, or of all; what comes while nobody waits is kept as one."""

    def __init__(self, run: str | None, over: asyncio.Event) -> None:
        self.run = run
        self._over = over
        self._woken = asyncio.Event()

    @property
    def is_last(self) -> bool:
        """Is there nothing to wait for any more? What happened before is seen by one more look."""
        return self._over.is_set()

    def wake(self) -> None:
        self._woken.set()

    async def wait(self, seconds: float) -> bool:
        """Return when there are news, or after so many seconds; are there any?"""
        if self.is_last:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        is_woken = self._woken.is_set()
        self._woken.clear()
        return is_woken


class News:
    """The news of all runs of a state folder, for the event loop of one server."""

    def __init__(self, state_folder: Path, look_seconds: float = LOOK_SECONDS) -> None:
        self._state_folder = state_folder
        self._look_seconds = look_seconds
        self._listening: set[Listening] = set()
        self._lock = asyncio.Lock()
        self._watch: FolderWatch | None = None
        self._looking: asyncio.Task[None] | None = None
        self._seen: dict[str, Glimpse] = {}
        self._stirred = asyncio.Event()
        self.over = asyncio.Event()
        """Set when there will be no more news."""

    @property
    def is_at_rest(self) -> bool:
        """Does nothing run, because nobody listens?"""
        return self._watch is None and self._looking is None

    @asynccontextmanager
    async def of(self, run: str | None = None) -> AsyncGenerator[Listening, None]:
        """Listen to the run with this id, or to all; nothing is missed that happens from now on."""
        listening = Listening(run, self.over)
        try:
            async with self._lock:
                self._watch = self._watch or self._new_watch()
                await self._look(self._watch, [*self._listening, listening])
                self._listening.add(listening)
                self._looking = self._looking or asyncio.create_task(self._keep_looking())
            yield listening
        finally:
            self._listening.discard(listening)
            async with self._lock:
                if not self._listening:
                    watch, looking = self._watch, self._looking
                    self._watch = self._looking = None
                    self._seen = {}
                    if looking is not None:
                        looking.cancel()
                    if watch is not None:
                        await asyncio.to_thread(watch.close)

    def end(self) -> None:
        """Let all who listen look for the last time."""
        self.over.set()
        for one in self._listening:
            one.wake()

    def _new_watch(self) -> FolderWatch:
        loop = asyncio.get_running_loop()

        def note(path: Path) -> None:
            if path.name in TELLING:
                self._tell(path.parent.name)
            elif is_run_id(path.name):
                # A new one: it is to be watched, too.
                self._stirred.set()

        def on_change(path: Path) -> None:
            # The server may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(note, path)

        return FolderWatch(on_change)

    async def _keep_looking(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_seconds):
                    await self._stirred.wait()
            self._stirred.clear()
            async with self._lock:
                if self._watch is not None:
                    await self._look(self._watch, self._listening)

    async def _look(self, watch: FolderWatch, listening: Iterable[Listening]) -> None:
        wanted = {one.run for one in listening}
        for run in await asyncio.to_thread(self._changed, watch, wanted):
            self._tell(run)

    def _tell(self, run: str) -> None:
        for one in self._listening:
            if one.run in (None, run):
                one.wake()

    def _changed(self, watch: FolderWatch, wanted: set[str | None]) -> list[str]:
        """Return the runs that have changed since the last look, at the first look all of them.

        None among the wanted stands for all runs. Those that live are watched then, and the others
        only looked at: they change when somebody does something to them.
        """
        runs = runs_folder(self._state_folder)
        runs.make()
        changed = {run: at for run, at in runs.changed().items() if is_run_id(run)}
        live = {run for run, at in changed.items() if self._lives(run, at)}
        watched = (changed.keys() & wanted) | (live if None in wanted else set())
        # Before they are looked at: what happens in between would be missed.
        watch.watch([runs.path, *(runs.path / run for run in watched)])
        seen: dict[str, Glimpse] = {}
        for run, at in changed.items():
            told = 0
            with suppress(OSError):
                status = run in watched and run_folder(self._state_folder, run).status(EVENTS_FILE)
                told = status.st_size if status else 0
            seen[run] = (at, run in live, told)
        before, self._seen = self._seen, seen
        return [run for run in before.keys() | seen if before.get(run) != seen.get(run)]

    def _lives(self, run: str, changed: int) -> bool:
        """Is its process there? One that had ended, and has changed nothing since, is not asked."""
        if self._seen.get(run, ())[:2] == (changed, False):
            return False
        with suppress(OSError):
            return run_folder(self._state_folder, run).is_locked()
        return False


@dataclass(frozen=True, slots=True)
class PageContext:
    """What pages are made from."""

    terminals: TerminalService
    runs: RunService
    state_folder: Path
    news: News
    clock: Clock
    environ: Mapping[str, str]
    agents: Callable[[], Sequence[str]]
    """Returns the names of the agents that can be started here."""
    look_seconds: float = TIMES_SECONDS
    """So often times are written anew."""


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncGenerator[None, None]:
    """Let something be done for as long as the page is looked at."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def update_of(shown: Page | None, page: Page) -> Update | None:
    """Return what a tab is sent that shows one page and is to show another; None if nothing.

    A part that is new in its place says after which other one it stands there; after None it is the
    first. One that holds others takes them along when it is replaced, so they are sent again.
    """
    before = {part.id: part for part in shown.parts} if shown is not None else {}
    staying = _staying(before.values(), page.parts)
    last: dict[str, str] = {}
    renewed: set[str] = set()
    sent: list[Update] = []
    for part in page.parts:
        stays = part.id in staying and part.into not in renewed
        if not stays or part.html != before[part.id].html:
            renewed.update(re.findall(ID_PATTERN, part.html))
            place = {} if stays else {"after": last.get(part.into)}
            sent.append({"id": part.id, "into": part.into, "html": part.html, **place})
        last[part.into] = part.id
    present = {part.id for part in page.parts}
    gone = [one for one in before if one not in present]
    if shown is not None and not sent and not gone and page.title == shown.title:
        return None
    return {"title": page.title, "parts": sent, "gone": gone}


def _staying(before: Iterable[Part], after: Iterable[Part]) -> set[str]:
    """Return the parts that stay where they are, as far as the order has not changed."""
    places: dict[str, tuple[list[str], list[str]]] = {}
    for side, parts in enumerate((before, after)):
        for part in parts:
            places.setdefault(part.into, ([], []))[side].append(part.id)
    found: set[str] = set()
    for old, new in places.values():
        both = {*old} & {*new}
        kept = [one for one in old if one in both]
        wanted = [one for one in new if one in both]
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(kept, wanted, strict=True))
        found.update(one for one, _ in alike)
    return found


async def updates(pages: AsyncGenerator[Page, None]) -> AsyncGenerator[Update, None]:
    """Yield what a tab is to be sent, first the whole page; why there is no more, if that is so."""
    shown: Page | None = None
    try:
        async with aclosing(pages):
            async for page in pages:
                update = update_of(shown, page)
                shown = page
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

    def of(
        self, path: str, watch: Callable[[], AsyncGenerator[Page, None]]
    ) -> AsyncGenerator[Page, None]:
        """Yield the page at a path for one more tab; `watch` finds it if no other looks at it."""
        shared = self._shared.get(path)
        if shared is None:
            # It raises at once, and not while somebody waits, if there is no such page.
            watch()
            shared = self._shared[path] = _Shared(watch, lambda one: self._forget(path, one))
        return shared.pages()

    def _forget(self, path: str, shared: "_Shared") -> None:
        if self._shared.get(path) is shared:
            del self._shared[path]


class _Shared:
    """The present page of a view, for all tabs that look at it."""

    def __init__(
        self,
        watch: Callable[[], AsyncGenerator[Page, None]],
        on_end: Callable[["_Shared"], None],
    ) -> None:
        """`on_end` is called when no new tab is to come here, because this view ends."""
        self._watch = watch
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
            async with aclosing(self._watch()) as pages:
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
