"""Keeps tabs up to date: each is sent what has changed in its page.

    async with news.of(run) as listening:
        while await listening.is_due(seconds):
            ...                           # look at the run

While somebody listens, the folders of the runs in question are watched, and polled for what no file
shows: that a run was killed. While nobody does, nothing runs. When the server is about to end, all
look for the last time.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..core.clock import Clock
from ..core.watch import FolderWatch
from ..errors import OrchestratorError, in_words
from ..runs.record import is_run_id
from ..runs.service import RunService
from ..settings.layout import EVENTS_FILE, RECORD_FILE, run_folder, runs_folder
from ..terminals.service import TerminalService
from .words import Page, Part

LOOK_SECONDS = 1.0
"""Between two looks whether the process of a run is still there."""
TIMES_SECONDS = 5.0
TELLING = frozenset({RECORD_FILE, EVENTS_FILE})
PAUSE_SECONDS = 0.05
"""Between two updates of a tab; the first after a calm comes at once."""
# <ol id="turns">: the only form in which we write it, and no text can look like it
ID_PATTERN = r' id="([^"]*)"'

# Any: JSON
Update = dict[str, Any]
Glimpse = tuple[int, bool, int]
"""When the folder of a run was changed, whether its process is alive, and, if it is being watched,
the size of its event log."""


class Listening:
    """Waits for news of one run, or of all; news before the wait counts as one."""

    def __init__(self, run: str | None, end: asyncio.Event) -> None:
        self.run = run
        self._end = end
        self._woken = asyncio.Event()
        self._has_looked = self._is_over = False

    def wake(self) -> None:
        self._woken.set()

    async def wait(self, seconds: float) -> bool:
        """Return when there are news, or after so many seconds; are there any?"""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        is_woken = self._woken.is_set()
        self._woken.clear()
        return is_woken

    async def is_due(self, seconds: float) -> bool:
        """Return True when it is time to look: at once, at news, and after so many seconds.

        What happened before the end is seen by one more look; after that it is False.
        """
        if self._is_over:
            return False
        if self._has_looked:
            await self.wait(seconds)
        self._has_looked, self._is_over = True, self._end.is_set()
        return True


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

    @asynccontextmanager
    async def of(self, run: str | None = None) -> AsyncGenerator[Listening, None]:
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
        self.over.set()
        for one in self._listening:
            one.wake()

    def _new_watch(self) -> FolderWatch:
        loop = asyncio.get_running_loop()

        def note(path: Path) -> None:
            if path.name in TELLING:
                self._tell(path.parent.name)
            elif is_run_id(path.name):
                # A new run: it is to be watched, too.
                self._stirred.set()

        def on_event(_: object, path: Path) -> None:
            # The server may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(note, path)

        return FolderWatch(on_event)

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

        None among the wanted stands for all runs: then the live ones are watched, and the others
        only polled.
        """
        runs = runs_folder(self._state_folder)
        runs.make()
        changed = {run: at for run, at in runs.changed().items() if is_run_id(run)}
        live = {run for run, at in changed.items() if self._lives(run, at)}
        watched = (changed.keys() & wanted) | (live if None in wanted else set())
        # Before the look: changes in between would be missed.
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
        """Is its process alive? Not asked if it had ended and nothing has changed since."""
        if self._seen.get(run, ())[:2] == (changed, False):
            return False
        with suppress(OSError):
            return run_folder(self._state_folder, run).is_locked()
        return False


class PageContext(Struct, frozen=True):
    terminals: TerminalService
    runs: RunService
    state_folder: Path
    news: News
    clock: Clock
    environ: Mapping[str, str]
    agents: Callable[[], Sequence[str]]
    look_seconds: float = TIMES_SECONDS
    """After which the times on a page are written anew."""


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncGenerator[None, None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def update_of(shown: Page | None, page: Page) -> Update | None:
    """Return what turns one page in a tab into another; None if they are the same.

    A part that is new in its place names the one before it (`after`), None if it is the first. The
    parts inside one that is replaced are sent again.
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
            sent.append({"id": part.id, "into": part.into, "html": str(part.html), **place})
        last[part.into] = part.id
    present = {part.id for part in page.parts}
    gone = [one for one in before if one not in present]
    if shown is not None and not sent and not gone and page.title == shown.title:
        return None
    return {"title": page.title, "parts": sent, "gone": gone}


def _staying(before: Iterable[Part], after: Iterable[Part]) -> set[str]:
    old, new = ([(part.into, part.id) for part in parts] for parts in (before, after))
    alike = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return {number for start, _, size in alike for _, number in old[start : start + size]}


async def updates(pages: AsyncGenerator[Page, None]) -> AsyncGenerator[Update, None]:
    """Yield what a tab is sent: first the whole page, at last the error that ends it, if any."""
    shown: Page | None = None
    try:
        async with aclosing(pages):
            async for page in pages:
                update = update_of(shown, page)
                shown = page
                if update is not None:
                    yield update
                # Nor is the page made again before that.
                await asyncio.sleep(PAUSE_SECONDS)
    except (OrchestratorError, OSError) as error:
        yield {"problem": in_words(error)}
