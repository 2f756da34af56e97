"""Tells who looks at runs that something has happened there.

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
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ..core.models import TerminalEvent
from ..core.watch import FolderWatch
from ..errors import StateError
from ..runs.record import is_run_id
from ..runs.usage import usage_of_turns
from ..runs.view import RunView, view_run
from ..server.backend import Terminals
from ..settings.layout import EVENTS_FILE, RECORD_FILE, run_folder, runs_folder
from ..usage.tokens import NONE_USED
from .words import RunTokens

LOOK_SECONDS = 1.0
"""A killed run tells nobody: so often it is asked whether its process is still there."""
TELLING = frozenset({RECORD_FILE, EVENTS_FILE})
"""The files of a run in which its news stand."""


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
        self._lookout: _Lookout | None = None
        self._looking: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()
        self.over = asyncio.Event()
        """Set when there will be no more news."""

    @property
    def is_at_rest(self) -> bool:
        """Does nothing run, because nobody listens?"""
        return self._lookout is None and self._looking is None

    @asynccontextmanager
    async def of(self, run: str | None = None) -> AsyncGenerator[Listening, None]:
        """Listen to the run with this id, or to all; nothing is missed that happens from now on."""
        listening = Listening(run, self.over)
        try:
            await self._begin(listening)
            yield listening
        finally:
            self._listening.discard(listening)
            await self._rest()

    def end(self) -> None:
        """Let all who listen look for the last time."""
        self.over.set()
        for one in self._listening:
            one.wake()

    async def _begin(self, listening: Listening) -> None:
        async with self._lock:
            if self._lookout is None:
                loop = asyncio.get_running_loop()

                def on_change(path: Path) -> None:
                    # The server may have ended meanwhile.
                    with suppress(RuntimeError):
                        loop.call_soon_threadsafe(self._note, path)

                self._lookout = _Lookout(self._state_folder, on_change)
            await self._look(self._lookout, [*self._listening, listening])
            self._listening.add(listening)
            if self._looking is None:
                self._looking = asyncio.create_task(self._keep_looking())

    async def _rest(self) -> None:
        async with self._lock:
            lookout, looking = self._lookout, self._looking
            if self._listening or lookout is None:
                return
            self._lookout = self._looking = None
            if looking is not None:
                looking.cancel()
            await asyncio.to_thread(lookout.close)

    async def _keep_looking(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_seconds):
                    await self._stirred.wait()
            self._stirred.clear()
            async with self._lock:
                if self._lookout is not None:
                    await self._look(self._lookout, self._listening)

    async def _look(self, lookout: "_Lookout", listening: Iterable[Listening]) -> None:
        wanted = {one.run for one in listening}
        for run in await asyncio.to_thread(lookout.look, wanted):
            self._tell(run)

    def _note(self, path: Path) -> None:
        if path.name in TELLING:
            self._tell(path.parent.name)
        elif is_run_id(path.name):
            # A new one: it is to be watched, too.
            self._stirred.set()

    def _tell(self, run: str) -> None:
        for one in self._listening:
            if one.run in (None, run):
                one.wake()


@dataclass(frozen=True, slots=True)
class _Glimpse:
    """What a run looks like from outside: if that has changed, there are news."""

    changed: int
    """When a file in its folder was last made or replaced, in nanoseconds."""
    lives: bool
    told: int = 0
    """How long its event log is, if it is being watched."""


class _Lookout:
    """Looks at the run folders, and has those watched that matter; for one thread at a time."""

    def __init__(self, state_folder: Path, on_change: Callable[[Path], None]) -> None:
        self._state_folder = state_folder
        self._watch = FolderWatch(on_change)
        self._seen: dict[str, _Glimpse] = {}

    def look(self, wanted: Iterable[str | None]) -> list[str]:
        """Return the runs that have changed since the last look, at the first look all of them.

        None among the wanted stands for all runs. Those that live are watched then, and the others
        only looked at: they change when somebody does something to them.
        """
        runs = runs_folder(self._state_folder)
        runs.make()
        wanted = set(wanted)
        seen = {
            run: _Glimpse(changed, self._lives(run, changed))
            for run, changed in runs.changed().items()
            if is_run_id(run)
        }
        live = {run for run, glimpse in seen.items() if glimpse.lives} if None in wanted else set()
        watched = (seen.keys() & wanted) | live
        # Before they are looked at: what happens in between would be missed.
        self._watch.watch([runs.path, *(runs.path / run for run in watched)])
        seen |= {run: replace(seen[run], told=self._told(run)) for run in watched}
        before, self._seen = self._seen, seen
        return [run for run in before.keys() | seen if before.get(run) != seen.get(run)]

    def close(self) -> None:
        self._watch.close()

    def _lives(self, run: str, changed: int) -> bool:
        """Is its process there? One that had ended, and has changed nothing since, is not asked."""
        before = self._seen.get(run)
        if before is not None and before.changed == changed and not before.lives:
            return False
        with suppress(OSError):
            return run_folder(self._state_folder, run).is_locked()
        return False

    def _told(self, run: str) -> int:
        with suppress(OSError):
            status = run_folder(self._state_folder, run).status(EVENTS_FILE)
            return status.st_size if status else 0
        return 0


@asynccontextmanager
async def woken_by_agents(
    listening: Listening, terminals: Terminals, is_ours: Callable[[TerminalEvent], bool]
) -> AsyncGenerator[None, None]:
    """Wake who listens whenever something happens to an agent that is his."""

    async def hear() -> None:
        async with aclosing(terminals.subscribe()) as events:
            async for event in events:
                if is_ours(event):
                    listening.wake()

    async with beside(hear()):
        yield


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


MOST_KEPT = 500
"""Runs whose tokens are kept in mind."""
Moment = tuple[float | None, int, str]
"""When a run ended, its round, and who works: when its tokens were counted."""


@lru_cache(maxsize=MOST_KEPT)
def count_tokens(state_folder: Path, run: str, moment: Moment) -> RunTokens | None:
    """Return what the agents of a run took, counted once for each moment of it."""
    folder = run_folder(state_folder, run)
    try:
        turns = [turn for turn in view_run(folder).turns if not turn.is_gate]
    except (OSError, StateError):
        return None
    ended, _, _ = moment
    found = usage_of_turns(folder, turns, ended)
    is_whole = all(turn.sequence in found for turn in turns if turn.outcome)
    return RunTokens(sum(found.values(), NONE_USED), is_whole) if found else None


class Counted:
    """The tokens of the runs that a page shows, counted one after the other; nobody waits."""

    def __init__(self) -> None:
        self._wanted: asyncio.Queue[RunView] = asyncio.Queue()
        self._asked: dict[str, Moment] = {}
        self._found: dict[str, RunTokens | None] = {}

    def of(self, run: RunView) -> RunTokens | None:
        """Return what is known of a run; what is not, or has changed since, is counted soon."""
        if self._asked.get(run.id) != _moment_of(run):
            self._asked[run.id] = _moment_of(run)
            self._wanted.put_nowait(run)
        return self._found.get(run.id)

    async def count(self, state_folder: Path, listening: Listening) -> None:
        """Count what is asked for, and wake who listens when that changes something."""
        while True:
            run = await self._wanted.get()
            tokens = await asyncio.to_thread(count_tokens, state_folder, run.id, _moment_of(run))
            if self._found.get(run.id) != tokens:
                self._found[run.id] = tokens
                listening.wake()


@asynccontextmanager
async def counting_tokens(
    state_folder: Path, listening: Listening
) -> AsyncGenerator[Counted, None]:
    """Count tokens for as long as a page is looked at."""
    counted = Counted()
    async with beside(counted.count(state_folder, listening)):
        yield counted


def _moment_of(run: RunView) -> Moment:
    """Return what is other when the tokens of a run are to be counted anew."""
    return (run.ended, run.round, run.role)
