"""Records what terminals show, each into a file of its run, for as long as they are there.

A recording is woken by what the board is told and costs nothing while nothing happens. Whatever
keeps it from its file ends it and nothing else: an agent never notices.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

from cli_agent_orchestrator._internal.asciicast import parse_cast
from cli_agent_orchestrator._internal.clock import Clock
from cli_agent_orchestrator._internal.layout import cast_name
from cli_agent_orchestrator._internal.models import TerminalFacts
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.terminals.live_terminal import LiveTerminal, wait_for_change
from cli_agent_orchestrator._internal.terminals.screens.cast import (
    LARGEST_CAST,
    Tape,
    add_screen,
    begin,
    go_on,
    pause_after,
)
from cli_agent_orchestrator._internal.terminals.tmux import DEFAULT_SIZE, PaneScreen, Tmux
from cli_agent_orchestrator.errors import TmuxError

logger = logging.getLogger(__name__)

LAST_FRAME_SECONDS = 1.0
"""How long the end of a terminal waits for its last frame."""

FolderOf = Callable[[TerminalFacts], Folder | None]
"""Finds the folder for the recording of a terminal; None if it has none. It may block."""


def nowhere(facts: TerminalFacts) -> Folder | None:
    """Record no terminal."""
    return None


@dataclass(slots=True)
class Recording:
    """A terminal that is being recorded."""

    live: LiveTerminal
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when its last screen is to be kept."""
    seen: PaneScreen | None = None
    """What it showed when it was last looked at."""
    task: asyncio.Task[None] | None = None


class ScreenRecorder:
    """The recordings of a server."""

    def __init__(self, tmux: Tmux, clock: Clock, folder_of: FolderOf) -> None:
        self._tmux = tmux
        self._clock = clock
        self._folder_of = folder_of
        self._recordings: dict[tuple[str, str | None], Recording] = {}
        """By session and role: two never write to one file."""

    def follow(self, live: LiveTerminal) -> None:
        """Record a terminal from now on, if that was asked for."""
        key = (live.row.session_name, live.row.role)
        if not live.row.record or live.row.role is None or key in self._recordings:
            return
        recording = Recording(live)
        self._recordings[key] = recording
        recording.task = asyncio.create_task(self._record(recording))
        recording.task.add_done_callback(lambda _: self._recordings.pop(key, None))

    async def finish(self, live: LiveTerminal) -> None:
        """Keep what a terminal shows now as its last screen; it is about to end."""
        recording = self._recordings.get((live.row.session_name, live.row.role))
        if recording is not None and recording.live is live and recording.task is not None:
            recording.ending.set()
            await asyncio.wait({recording.task}, timeout=LAST_FRAME_SECONDS)
            recording.task.cancel()

    async def close(self) -> None:
        """Let go of all files; the terminals go on, and the next server goes on recording."""
        tasks = [one.task for one in self._recordings.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _record(self, recording: Recording) -> None:
        row = recording.live.row
        try:
            folder = await asyncio.to_thread(self._folder_of, row)
            if folder is None:
                return
            now = self._clock.now()
            file, tape = await asyncio.to_thread(_open, folder, str(row.role), now)
            with file:
                while not tape.is_full:
                    await _wait_for_another_screen(recording)
                    # Asked for before it is read: it may come to its end meanwhile.
                    is_last = recording.ending.is_set()
                    tape = await self._add_frame(recording, tape, file)
                    if is_last:
                        return
                    await wait_for_change(recording.ending, pause_after(tape))
        except OSError as error:
            logger.warning("%s: its screens are not recorded: %s", row.id, error.strerror)

    async def _add_frame(self, recording: Recording, tape: Tape, file: BinaryIO) -> Tape:
        """Add what a terminal shows now to its recording."""
        live = recording.live
        recording.seen = live.screen
        if live.pane is None:
            return tape
        try:
            ansi = await self._tmux.read_ansi(live.pane)
        except TmuxError:
            # What it shows is told again when tmux is back.
            return tape
        tape, added = add_screen(tape, ansi, self._clock.now())
        if added:
            await asyncio.to_thread(_write, file, added)
        return tape


async def _wait_for_another_screen(recording: Recording) -> None:
    """Wait until a terminal shows something else, or its last screen is to be kept."""
    live = recording.live
    while live.screen is recording.seen and not recording.ending.is_set():
        await _first_of(live.changed, recording.ending)


async def _first_of(*events: asyncio.Event) -> None:
    """Wait until one of some events is set."""
    waiting = {asyncio.create_task(event.wait()) for event in events}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


def _open(folder: Folder, role: str, now: float) -> tuple[BinaryIO, Tape]:
    """Open the file of a recording: a new one, or one that goes on."""
    name = cast_name(role)
    try:
        before = folder.read(name, limit=2 * LARGEST_CAST)
    except FileNotFoundError:
        before = b""
    if before:
        cast = parse_cast(before)
        if cast is None:
            raise OSError(errno.EINVAL, "its file is none of ours")
        # A server that was killed may have left half a line.
        added = b"" if before.endswith(b"\n") else b"\n"
        tape = go_on(cast, len(before) + len(added))
    else:
        tape, added = begin(now, DEFAULT_SIZE.columns, DEFAULT_SIZE.rows, role)
    file = folder.append(name)
    try:
        _write(file, added)
    except OSError:
        file.close()
        raise
    return file, tape


def _write(file: BinaryIO, data: bytes) -> None:
    if not os.fstat(file.fileno()).st_nlink:
        raise OSError(errno.ENOENT, "its file was removed")
    file.write(data)
    file.flush()
