"""Screens for people: the question on one, its recording, and watching it live."""

import asyncio
import errno
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from hashlib import sha256
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from ..core.ansi import (
    MOST_COLUMNS,
    Cast,
    Frame,
    changed_lines,
    clean_lines,
    frame_line,
    full_line,
    header_line,
    parse_cast,
    plain_text,
    size_line,
)
from ..core.clock import Clock
from ..core.files import Folder
from ..core.models import Question, TerminalFacts, TerminalStatus
from ..core.text import columns_of
from ..errors import TmuxError
from ..providers.base import SIGN_IN
from ..providers.questions import read_question
from ..settings.layout import cast_name
from .board import LiveTerminal, wait_for_change
from .tmux import COLUMNS, ROWS, Tmux


def question_of(live: LiveTerminal, start_id: str, screen: str | None = None) -> Question | None:
    """Return what an agent asks now, None if it does not wait for an answer.

    Its fingerprint identifies this terminal, this asking, and what is shown of it: a key that was
    meant for one question must not answer another. `start_id` is that of the service, which counts
    anew after a start. `screen` is a newer screen than the reported one.
    """
    if live.status is not TerminalStatus.WAITING_USER_ANSWER:
        return None
    screen = live.text if screen is None else screen
    asked, dialog = read_question(screen), live.provider.startup_dialog(screen)
    facts = "\0".join((start_id, live.row.id, str(live.asked), asked.shown))
    fingerprint = sha256(facts.encode("utf-8", "replace")).hexdigest()[:32]
    advice = dialog.reason if dialog is not None and dialog.name == SIGN_IN else ""
    return Question(asked.text, asked.choices, fingerprint, advice)


def keys_for(live: LiveTerminal, key: str) -> list[str]:
    asked = read_question(live.text)
    picks = any(choice.key == key for choice in asked.choices)
    return [key, *(asked.then if picks else ())]


LARGEST_CAST = 4 * 1024 * 1024
FRAME_SECONDS = 0.45
"""Between two frames, as long as a recording is small: a little less than two looks at a screen."""
LITTLE = 2
"""Rows. Where no more change, as where a clock ticks, the next frame takes twice as long."""
PARTS = 4
"""For each of these parts of its largest size that are written, frames come half as often."""
ROOM_FOR_END = 100


class Tape(Struct, frozen=True):
    began: float
    width: int
    height: int
    size: int
    at: float = 0.0
    lines: tuple[str, ...] | None = None
    """The last screen; None if it is not known, so that the next frame is a whole one."""
    changed: int = 0
    is_full: bool = False


def begin(now: float, width: int, height: int, title: str) -> tuple[Tape, bytes]:
    began = int(now)
    header = header_line(began, width, height, title)
    return Tape(began, width, height, len(header)), header


def go_on(cast: Cast, size: int) -> Tape:
    """Return a recording that was begun earlier, maybe of another terminal."""
    at = cast.frames[-1].at if cast.frames else 0.0
    return Tape(cast.began, cast.width, cast.height, size, at, is_full=cast.is_full)


def pause_after(tape: Tape) -> float:
    times = 1 if tape.changed > LITTLE else 2
    return float(FRAME_SECONDS * times * 2 ** (tape.size * PARTS // LARGEST_CAST))


def add_screen(tape: Tape, ansi: str, now: float) -> tuple[Tape, bytes]:
    """Return the recording with a new screen, and the bytes to append to its file.

    None if the screen is the same, or the recording full.
    """
    lines = clean_lines(ansi)
    if tape.is_full or lines == tape.lines:
        return tape, b""
    # The time of a machine can be put back.
    at = max(tape.at, round(now - tape.began, 3))
    changed = changed_lines(tape.lines or (), lines)
    widest = max((columns_of(plain_text(line)) for line in changed.values()), default=0)
    width = max(tape.width, min(widest, MOST_COLUMNS))
    height = max(tape.height, len(lines))
    added = size_line(at, width, height) if (width, height) != (tape.width, tape.height) else b""
    added += frame_line(Frame(at, changed, is_whole=tape.lines is None))
    size = tape.size + len(added)
    if size > LARGEST_CAST - ROOM_FOR_END:
        return replace(tape, is_full=True), full_line(at)
    after = replace(tape, width=width, height=height, size=size, at=at)
    return replace(after, lines=lines, changed=len(changed)), added


logger = logging.getLogger(__name__)

LAST_FRAME_SECONDS = 1.0
"""How long the end of a terminal waits for its last frame."""

FolderOf = Callable[[TerminalFacts], Folder | None]
"""Finds the folder for the recording of a terminal; None if it has none. May block."""

Recording = tuple[LiveTerminal, asyncio.Task[None], asyncio.Event]


class ScreenRecorder:
    def __init__(self, tmux: Tmux, clock: Clock, folder_of: FolderOf) -> None:
        self._tmux = tmux
        self._clock = clock
        self._folder_of = folder_of
        self._recordings: dict[tuple[str, str | None], Recording] = {}
        """By session and role: two never write to one file."""

    def follow(self, live: LiveTerminal) -> None:
        key = (live.row.session_name, live.row.role)
        if not live.row.record or live.row.role is None or key in self._recordings:
            return
        ending = asyncio.Event()
        task = asyncio.create_task(self._record(live, live.row.role, ending))
        self._recordings[key] = live, task, ending
        task.add_done_callback(lambda _: self._recordings.pop(key, None))

    async def finish(self, live: LiveTerminal) -> None:
        """Keep what a terminal shows now as its last screen; it is about to end."""
        recording = self._recordings.get((live.row.session_name, live.row.role))
        if recording is not None and recording[0] is live:
            _, task, ending = recording
            ending.set()
            live.notify()
            await asyncio.wait({task}, timeout=LAST_FRAME_SECONDS)
            task.cancel()

    async def close(self) -> None:
        """Let go of all files; the next server goes on recording."""
        tasks = [task for _, task, _ in self._recordings.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _record(self, live: LiveTerminal, role: str, ending: asyncio.Event) -> None:
        try:
            folder = await asyncio.to_thread(self._folder_of, live.row)
            if folder is None:
                return
            file, tape = await asyncio.to_thread(_open, folder, role, self._clock.now())
            loop = asyncio.get_running_loop()
            seen, due, late = None, 0.0, loop.call_soon(live.notify)
            with file:
                while not tape.is_full:
                    # At a report, when the server is awake anyway, or late if no more come.
                    while (live.screen is seen or loop.time() < due) and not ending.is_set():
                        await live.changed.wait()
                    late.cancel()
                    # Asked for before it is read: it may come to its end meanwhile.
                    is_last = ending.is_set()
                    seen = live.screen
                    # What it shows is told again when tmux is back.
                    with suppress(TmuxError):
                        if live.pane is not None:
                            ansi = await self._tmux.read_ansi(live.pane)
                            tape, added = add_screen(tape, ansi, self._clock.now())
                            if added:
                                _write(file, added)
                    if is_last:
                        return
                    due = loop.time() + pause_after(tape)
                    late = loop.call_at(due + LOOK_SECONDS, live.notify)
        except OSError as error:
            logger.warning("%s: its screens are not recorded: %s", live.row.id, error.strerror)


def _open(folder: Folder, role: str, now: float) -> tuple[BinaryIO, Tape]:
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
        tape, added = begin(now, COLUMNS, ROWS, role)
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


LOOK_SECONDS = 0.25
UNTOLD_SECONDS = 1.0
"""The longest time between two looks: a change of color alone is not reported."""


async def watch_screen(
    live: LiveTerminal, tmux: Tmux, clock: Clock, is_there: Callable[[], bool]
) -> AsyncGenerator[str, None]:
    shown = None
    while is_there():
        changed, began = live.changed, clock.monotonic()
        screen = None
        with suppress(TmuxError):
            screen = live.text if live.pane is None else await tmux.read_ansi(live.pane)
        if screen is not None and screen != shown:
            shown = screen
            yield screen
        await wait_for_change(changed, UNTOLD_SECONDS)
        await asyncio.sleep(max(0.0, began + LOOK_SECONDS - clock.monotonic()))
