"""Watches the panes of one connection and tells the listener what happens in them.

An observer lives as long as its connection. `PaneWatch` decides when each pane is looked at.
`DeathWatch` notices within milliseconds that a program has ended: tmux does not report the end of a
program in a kept window.
"""

import asyncio
import logging
import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import ParamSpec, Protocol

from msgspec import Struct

from ...errors import TmuxGone
from .connection import Answers, ControlConnection, remind_of_children
from .protocol import (
    Message,
    Notice,
    PaneInfo,
    PaneOutput,
    PaneScreen,
    flow_line,
    look_lines,
    parse_looks,
    unescape,
)

LEADING_EDGE = 0.010
FIRST_PAUSE = 0.030
SHORTEST_INTERVAL = 0.25
LONGEST_INTERVAL = 1.0
BUSY_PANES_PER_SECOND = 200
BUSY_OUTPUTS = 3
COMPANY = 0.25
"""The part of an interval by which a busy pane may be looked at early, together with others."""


class _Pane(Struct):
    pausable: bool
    looked: float = -inf
    pause: float = 0.0
    """The least time from the last look to the next."""
    due: float | None = None
    asked: bool = False
    outputs: int = 0
    busy: bool = False
    paused: bool = False
    still: bool = False
    """Did the last look, while it was paused, show nothing new?"""


class PaneWatch:
    def __init__(self) -> None:
        self._panes: dict[str, _Pane] = {}
        self._pauses: list[str] = []
        self.interval = SHORTEST_INTERVAL
        """The least time between two looks at a pane that does not rest."""

    def add(self, pane: str, *, pausable: bool = True) -> None:
        self._panes[pane] = _Pane(pausable)

    def remove(self, pane: str) -> None:
        self._panes.pop(pane, None)

    def output(self, pane: str, now: float) -> float | None:
        """Note that a program wrote; return when to look if that was not scheduled before."""
        state = self._panes.get(pane)
        if state is None:
            return None
        if now - state.looked > 2 * self.interval and state.due is None:
            state.busy = False
        state.outputs += 1
        state.busy = state.busy or state.outputs >= BUSY_OUTPUTS
        if state.busy and state.pausable and not state.paused:
            state.paused, state.still = True, False
            self._pauses.append(pane)
        return self._schedule(state, now)

    def touch(self, pane: str, now: float) -> float | None:
        """Note another change; return when to look if that was not scheduled before."""
        state = self._panes.get(pane)
        return self._schedule(state, now) if state else None

    def _schedule(self, state: _Pane, now: float) -> float | None:
        if state.due is not None:
            return None
        if now - state.looked > self.interval:
            state.pause = 0.0
        state.due = max(now + LEADING_EDGE, state.looked + state.pause)
        return state.due

    def take_pauses(self) -> tuple[str, ...]:
        pauses, self._pauses = tuple(self._pauses), []
        return pauses

    def take(self, now: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the panes to look at and those to resume before that.

        Panes that are looked at count as asked until `answered`.
        """
        soon = now + COMPANY * self.interval
        look, resume = [], []
        for pane, state in self._panes.items():
            if state.due is None or state.asked or state.due > (soon if state.busy else now):
                continue
            look.append(pane)
            if state.paused and state.still:
                resume.append(pane)
                state.paused = state.busy = False
            state.pause = min(max(2 * state.pause, FIRST_PAUSE), self.interval)
            state.looked, state.due = now, None
            state.asked, state.outputs = True, 0
        recent = now - 2 * self.interval
        busy = sum(state.busy and state.looked >= recent for state in self._panes.values())
        self.interval = min(max(busy / BUSY_PANES_PER_SECOND, SHORTEST_INTERVAL), LONGEST_INTERVAL)
        return tuple(look), tuple(resume)

    def answered(self, pane: str, *, changed: bool) -> None:
        state = self._panes.get(pane)
        if state is None:
            return
        state.asked = False
        if state.paused:
            state.still = not changed
            state.due = state.looked + (self.interval if changed else 0)

    def next_at(self) -> float | None:
        """Return when there is work again, None if nothing is to be done before the next output."""
        waiting = [state.due for state in self._panes.values() if not state.asked]
        return min((due for due in waiting if due is not None), default=None)


Ended = Callable[[str], None]
POLL_INTERVAL = 0.25


class DeathWatch:
    """Reports once, from the event loop, that a process which is not our child has ended.

    A file descriptor for each process becomes readable: a pidfd on Linux, a kqueue on macOS and the
    BSDs. Without one (an old kernel, a strict sandbox, too many open files, a process that is gone
    already) it looks four times a second.
    """

    def __init__(self, ended: Ended, open_watch: Callable[[int], int] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = ended
        self._open = open_watch or open_process_watch
        self._fds: dict[str, int] = {}
        self._polled: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, key: str, pid: int) -> None:
        try:
            fd = self._open(pid)
        except (AttributeError, OSError):
            self._polled[key] = pid
            if self._timer is None:
                self._timer = self._loop.call_later(0, self._poll)
            return
        self._fds[key] = fd
        self._loop.add_reader(fd, self._report, key)

    def forget(self, key: str) -> None:
        self._polled.pop(key, None)
        fd = self._fds.pop(key, None)
        if fd is not None:
            self._loop.remove_reader(fd)
            os.close(fd)

    def close(self) -> None:
        for key in (*self._fds, *self._polled):
            self.forget(key)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _poll(self) -> None:
        gone = [key for key, pid in self._polled.items() if not _is_alive(pid)]
        self._timer = self._loop.call_later(POLL_INTERVAL, self._poll) if self._polled else None
        for key in gone:
            if key in self._polled:
                self._report(key)

    def _report(self, key: str) -> None:
        self.forget(key)
        self._ended(key)


def open_process_watch(pid: int) -> int:
    if sys.platform == "linux":
        return os.pidfd_open(pid)
    else:  # type checkers follow the platform through branches only
        queue = select.kqueue()
        flags = select.KQ_EV_ADD | select.KQ_EV_ONESHOT
        event = select.kevent(pid, select.KQ_FILTER_PROC, flags, select.KQ_NOTE_EXIT)
        queue.control([event], 0)
        return os.dup(queue.fileno())


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


EXIT_LOOKS = (0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.5, 1.0)
"""Pauses between looks for the exit code: tmux may not know it in the first moments."""
PATIENT_LOOKS = 2
"""Looks after which tmux is reminded of its children."""
LINGER_LOOKS = 8
"""Looks after which an exit code is enough, though a child still holds the terminal open."""

logger = logging.getLogger(__name__)
Arguments = ParamSpec("Arguments")


class TmuxListener(Protocol):
    def screen_changed(self, screen: PaneScreen) -> None:
        """A screen, a title or copy mode has changed."""

    def output(self, pane: str, data: bytes) -> None:
        """A program with `raw_output` wrote this. tmux may drop its last words, before its end."""

    def exited(self, pane: str, exit_code: int | None) -> None:
        """A program has ended, after its last screen; no code: a person closed its window."""

    def connected(self, panes: list[PaneInfo], screens: dict[str, PaneScreen]) -> None:
        """The connection is there (again) with these panes. The dead are not `exited`."""

    def disconnected(self, reason: str) -> None:
        """The connection has ended; the engine keeps trying to get a new one."""


def tell(
    event: Callable[Arguments, None], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> None:
    """Call a listener; its faults are logged and do not end the connection."""
    try:
        event(*args, **kwargs)
    except Exception:  # whatever a listener does wrong, the other panes must go on
        logger.exception("a listener failed")


async def look_at(
    connection: ControlConnection, panes: Sequence[str], among: int
) -> dict[str, PaneScreen]:
    if not panes:
        return {}
    return parse_looks(panes, await connection.send(look_lines(panes, among)))


class _ObservedPane(Struct):
    info: PaneInfo
    shown: PaneScreen | None = None
    ending: bool = False


class Observer:
    def __init__(self, connection: ControlConnection, server: int, listener: TmuxListener) -> None:
        self._connection = connection
        self._server = server
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._watch = PaneWatch()
        self._deaths = DeathWatch(self._ended)
        self._panes: dict[str, _ObservedPane] = {}
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        """When the timer fires; the handle of one that is late already does not know."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._openings = 0
        self._early: dict[str, list[bytes]] = {}
        """Output of panes that are being opened and are not known yet."""

    def adopt(self, info: PaneInfo, shown: PaneScreen | None = None) -> None:
        """Follow a pane to its program's end; the listener hears of it when the caller is done."""
        self._panes[info.pane] = _ObservedPane(info, shown)
        self._watch.add(info.pane, pausable=not info.raw_output)
        if info.pid is None:
            self._loop.call_soon(self._ended, info.pane)
        else:
            self._deaths.watch(info.pane, info.pid)
        if info.raw_output:
            for escaped in self._early.pop(info.pane, ()):
                self._loop.call_soon(self._tell_output, info.pane, escaped)
        # What was written before this moment went unseen.
        self._wake(self._watch.touch(info.pane, self._loop.time()))

    @property
    def followed(self) -> int:
        return len(self._panes)

    def forget(self, pane: str) -> None:
        self._panes.pop(pane, None)
        self._watch.remove(pane)
        self._deaths.forget(pane)

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Keep the first output of a pane that is being opened until it is adopted."""
        self._openings += 1
        try:
            yield
        finally:
            self._openings -= 1
            if not self._openings:
                self._early.clear()

    def close(self) -> None:
        self._closed = True
        self._deaths.close()
        self._panes.clear()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def received(self, messages: Sequence[Message]) -> None:
        now = self._loop.time()
        for message in messages:
            match message:
                case PaneOutput(pane, escaped) if pane in self._panes:
                    if self._panes[pane].info.raw_output:
                        self._tell_output(pane, escaped)
                    self._wake(self._watch.output(pane, now))
                case PaneOutput(pane, escaped) if self._openings:
                    self._early.setdefault(pane, []).append(escaped)
                case Notice("pane-mode-changed", rest):
                    self._wake(self._watch.touch(rest.partition(" ")[0], now))
                case Notice("layout-change", rest):
                    for pane in self._in_window(rest):
                        self._wake(self._watch.touch(pane, now))
                case Notice("window-close" | "unlinked-window-close", rest):
                    for pane in self._in_window(rest):
                        self._ended(pane)
        pauses = self._watch.take_pauses()
        if pauses:
            self._connection.tell([flow_line(pauses, "pause")])

    def _tell_output(self, pane: str, escaped: bytes) -> None:
        if pane in self._panes:
            tell(self._listener.output, pane, unescape(escaped))

    def _in_window(self, rest: str) -> list[str]:
        window = rest.partition(" ")[0]
        return [pane for pane, known in self._panes.items() if known.info.window == window]

    def _wake(self, due: float | None) -> None:
        if due is None or self._closed:
            return
        if self._timer is not None:
            if self._timer_at <= due:
                return
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(due, self._work), due

    def _work(self) -> None:
        self._timer = None
        panes, resume = self._watch.take(self._loop.time())
        if panes:
            if resume:
                # Output goes on before the look, so that nothing falls between the two.
                self._connection.tell([flow_line(resume, "continue")])
            done = self._connection.send(look_lines(panes, len(self._panes)))
            done.add_done_callback(lambda done: self._looked(panes, done))
        self._wake(self._watch.next_at())

    def _looked(self, panes: Sequence[str], done: "asyncio.Future[Answers]") -> None:
        if done.cancelled() or done.exception() is not None or self._closed:
            return
        looks = parse_looks(panes, done.result())
        for pane in panes:
            look = looks.get(pane)
            if look is None or look.dead or look.exit_code is not None:
                self._ended(pane)
            else:
                self._watch.answered(pane, changed=self._show(pane, look))
        self._wake(self._watch.next_at())

    def _show(self, pane: str, look: PaneScreen) -> bool:
        known = self._panes.get(pane)
        if known is None:
            return False
        before, known.shown = known.shown, look
        shows = (look.text, look.title, look.in_mode)
        if before and (before.text, before.title, before.in_mode) == shows:
            return False
        tell(self._listener.screen_changed, look)
        return True

    def _ended(self, pane: str) -> None:
        known = self._panes.get(pane)
        if known is None or known.ending or self._closed:
            return
        known.ending = True
        self._watch.remove(pane)
        task = self._loop.create_task(self._report_end(pane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report_end(self, pane: str) -> None:
        with suppress(TmuxGone):
            look = await self._last_look(pane)
            known = self._panes.get(pane)
            if known is None:
                return
            if look is not None and not look.dead and look.exit_code is None:
                # The sign was wrong: tmux still has a living program there.
                self.adopt(known.info, known.shown)
                return
            if look is not None:
                self._show(pane, look)
            self.forget(pane)
            tell(self._listener.exited, pane, look.exit_code if look else None)

    async def _last_look(self, pane: str) -> PaneScreen | None:
        look = None
        ended = False
        for number, pause in enumerate(EXIT_LOOKS):
            look = (await look_at(self._connection, [pane], among=1)).get(pane)
            if look is None:
                return None
            if look.exit_code is not None and (ended or number >= LINGER_LOOKS):
                return look
            if look.dead and not ended:
                # Its screen is read before its state: the last words may have come in between.
                ended = True
                continue
            if number >= PATIENT_LOOKS:
                remind_of_children(self._server)
            await asyncio.sleep(pause)
        return look
