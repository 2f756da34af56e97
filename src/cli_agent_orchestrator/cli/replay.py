"""The command that plays what the agents of a run showed: replay."""

import os
import signal
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import inf
from queue import Empty, SimpleQueue

import click
from msgspec import Struct

from ..core.ansi import USUAL, Cast, clean_line, cut_line, plain_text
from ..core.files import Folder
from ..core.text import one_line
from ..errors import NotFound, UsageError
from ..runs.record import short_name
from ..runs.screens import read_cast, roles_with_cast, screen_at
from ..runs.view import Turn, view_run
from ..settings.layout import replay_folder, run_folder, state_folder
from .complete import complete_roles_of_run, complete_runs
from .interrupts import SHOW_CURSOR, Interrupts, Keyboard
from .runs import run_to_look_at

AFTER_SECONDS = 5.0
"""So long after a turn, screens still belong to it: the recording may be behind."""
ERASE_LINE = "\x1b[2K"
REVERSED = "\x1b[0;7m"


class Scene(Struct, frozen=True):
    title: str
    cast: Cast
    first: int
    end: int
    """The number of the frame after its last."""


def scenes_of(turns: Sequence[Turn], casts: Mapping[str, Cast]) -> list[Scene]:
    """Return the turns of a run whose screens were recorded; if there is none, each recording."""
    scenes = []
    for number, turn in enumerate(turns):
        if turn.role not in casts:
            continue
        cast = casts[turn.role]
        times = [cast.began + frame.at for frame in cast.frames]
        # It begins with the screen that the turn began with.
        first = max(bisect_right(times, turn.began) - 1, 0)
        ends = [other.began for other in turns[number + 1 :] if other.role == turn.role][:1]
        ends += [turn.ended + AFTER_SECONDS] if turn.ended is not None else []
        end = bisect_left(times, min(ends)) if ends else len(times)
        agent = f" ({turn.provider})" if turn.provider else ""
        outcome = f": {turn.outcome}" if turn.outcome else ""
        if first < end:
            title = f"round {turn.round}, {turn.role}{agent}{outcome}"
            scenes.append(Scene(title, cast, first, end))
    whole = (Scene(role, cast, 0, len(cast.frames)) for role, cast in casts.items())
    return scenes or [scene for scene in whole if scene.end]


def play(scene: Scene, speed: float, longest: float) -> Iterator[tuple[Sequence[str], float]]:
    """Yield the screens of a scene, and for how many seconds each stays: `longest` at the most."""
    frames = scene.cast.frames[scene.first : scene.end]
    ends = [*(frame.at for frame in frames[1:]), inf]
    lines = screen_at(scene.cast, scene.first - 1).split("\n")
    for frame, end in zip(frames, ends, strict=True):
        lines = [] if frame.is_whole else lines
        lines += [""] * (max(frame.lines, default=-1) + 1 - len(lines))
        for row, line in frame.lines.items():
            lines[row] = line
        yield tuple(lines), min(end - frame.at, longest) / speed


def draw_screen(lines: Sequence[str], title: str, columns: int, rows: int) -> str:
    """Return what draws a screen: as much of its end as there is room for, above its title."""
    room = max(rows, 2) - 1
    end = max((number for number, line in enumerate(lines, 1) if line), default=0)
    shown = lines[max(end - room, 0) : end]
    drawn = [
        f"\x1b[{row + 1};1H{USUAL.escape}{ERASE_LINE}"
        f"{cut_line(shown[row], columns) if row < len(shown) else ''}"
        for row in range(room)
    ]
    last = cut_line(clean_line(one_line(title)), columns)
    return f"{''.join(drawn)}\x1b[{room + 1};1H{REVERSED}{ERASE_LINE}{last}{USUAL.escape}"


def title_of(scene: Scene, number: str, columns: int, rows: int) -> str:
    is_cut = scene.cast.width > columns or scene.cast.height > rows - 1
    size = f", cut from {scene.cast.width}x{scene.cast.height}" if is_cut else ""
    return f"{number} {scene.title}{size}  n: next  q: leave"


def text_of(scene: Scene) -> str:
    screen = screen_at(scene.cast, scene.end - 1)
    lines = [plain_text(line).rstrip() for line in screen.split("\n")]
    return "\n".join([f"== {one_line(scene.title)} ==", *lines])


LEAVE, NEXT = b"q", b"n"


@click.command()
@click.argument("run", required=False, shell_complete=complete_runs)
@click.argument("role", required=False, shell_complete=complete_roles_of_run)
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 100),
    default=1.0,
    show_default=True,
    help="How many times as fast as it was.",
)
@click.option(
    "--idle",
    type=click.FloatRange(0, 3600),
    default=2.0,
    show_default=True,
    help="Seconds that a screen without a change is shown at most.",
)
def replay(run: str | None, role: str | None, speed: float, idle: float) -> None:
    """Play what the agents of RUN showed: its turns one after another, or all of one ROLE.

    RUN is as in `cao report`. `n` goes to the next turn, `q` and Ctrl-C leave. Into a file or a
    pipe goes the last screen of each turn, as text. Other players of asciicasts read the file of a
    role, too: runs/ID/replay/ROLE.cast in the state folder, which `cao doctor` names.

    \b
    cao replay k3f9 programmer --speed 4
    cao replay k3f9 | less
    """
    found = run_to_look_at(run)
    folder = run_folder(state_folder(os.environ), found.id)
    scenes = find_scenes(folder, role, short_name(found.id))
    if not (sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"):
        click.echo("\n\n".join(map(text_of, scenes)))
        return
    with Interrupts(notice="") as interrupts:
        show(scenes, speed, idle, interrupts)
    if interrupts.noted is not None:
        sys.exit(interrupts.exit_code)


def find_scenes(folder: Folder, role: str | None, name: str) -> Sequence[Scene]:
    roles = roles_with_cast(folder)
    if role is not None and roles and role not in roles:
        raise NotFound("recording of", role, roles)
    wanted = [one for one in roles if role in (None, one)]
    casts = {one: cast for one in wanted if (cast := read_cast(folder, one)) is not None}
    turns = view_run(folder).turns if role is None else ()
    scenes = scenes_of(turns, casts)
    if not scenes:
        raise UsageError(
            f"no screens of run {name} can be read in {replay_folder(folder).path}: runs with "
            "--no-recording, on a server elsewhere or of earlier versions have none"
        )
    return scenes


def show(scenes: Sequence[Scene], speed: float, idle: float, interrupts: Interrupts) -> None:
    pressed: SimpleQueue[bytes] = SimpleQueue()

    def hear(data: bytes) -> bool:
        for key in (LEAVE, NEXT):
            if key in data:
                pressed.put(key)
        return False

    interrupts.when_noted(lambda: pressed.put(LEAVE))
    with other_screen(), Keyboard(hear):
        for number, scene in enumerate(scenes, 1):
            for lines, seconds in play(scene, speed, idle):
                columns, rows = os.get_terminal_size(sys.stdout.fileno())
                title = title_of(scene, f"[{number}/{len(scenes)}]", columns, rows)
                _write(draw_screen(lines, title, columns, rows))
                with suppress(Empty):
                    if pressed.get(timeout=seconds) == LEAVE:
                        return
                    break


@contextmanager
def other_screen() -> Iterator[None]:
    # Ctrl-Z would leave that screen behind.
    before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    # The other screen, no cursor, and rows that are never wrapped.
    _write("\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J")
    try:
        yield
    finally:
        _write(f"\x1b[0m\x1b[?7h{SHOW_CURSOR}\x1b[?1049l")
        signal.signal(signal.SIGTSTP, before)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
