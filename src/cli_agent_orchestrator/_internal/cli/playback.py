"""How a run is played: which screens of whom, in which order, how long each, and how it is drawn.

Nothing gets to the terminal but what is put together here: lines that `ansi.py` has written, at
places and with a last row of our own.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from cli_agent_orchestrator._internal.ansi import USUAL, clean_line, cut_line, plain_text
from cli_agent_orchestrator._internal.cli.printable import one_line
from cli_agent_orchestrator._internal.runs.records.replay import Cast, screen_at
from cli_agent_orchestrator._internal.runs.records.turns import RunTurn

AFTER_SECONDS = 5.0
"""How long after a turn its agent's screens still belong to it: the recording may be behind."""
ERASE_LINE = "\x1b[2K"
REVERSED = "\x1b[0;7m"
LEAST_ROWS = 2


@dataclass(frozen=True, slots=True)
class Scene:
    """A part of a recording."""

    title: str
    cast: Cast
    first: int
    """The number of the frame that it begins with."""
    end: int
    """That of the first frame that is no part of it."""


@dataclass(frozen=True, slots=True)
class PlayedScreen:
    """A screen that is shown."""

    lines: tuple[str, ...]
    seconds: float
    """How long it stays."""


def scenes_of(turns: Sequence[RunTurn], casts: Mapping[str, Cast]) -> list[Scene]:
    """Return the turns of a run whose screens were recorded; if there is none, each recording."""
    scenes = []
    for number, turn in enumerate(turns):
        if turn.role in casts:
            later = (other.began for other in turns[number + 1 :] if other.role == turn.role)
            scenes.append(_scene(turn, casts[turn.role], next(later, None)))
    scenes = [scene for scene in scenes if scene.first < scene.end]
    whole = (Scene(role, cast, 0, len(cast.frames)) for role, cast in casts.items())
    return scenes or [scene for scene in whole if scene.end]


def _scene(turn: RunTurn, cast: Cast, next_began: float | None) -> Scene:
    """Return the screens of a turn: from the one that it began with."""
    times = [cast.began + frame.at for frame in cast.frames]
    first = max(bisect_right(times, turn.began) - 1, 0)
    ends = [turn.ended + AFTER_SECONDS] if turn.ended is not None else []
    if next_began is not None:
        ends.append(next_began)
    end = bisect_left(times, min(ends)) if ends else len(times)
    agent = f" ({turn.provider})" if turn.provider else ""
    outcome = f": {turn.outcome}" if turn.outcome else ""
    return Scene(f"round {turn.round}, {turn.role}{agent}{outcome}", cast, first, end)


def play(scene: Scene, speed: float, longest: float) -> Iterator[PlayedScreen]:
    """Yield the screens of a scene, none of which stays too long; the last stays that long."""
    frames = scene.cast.frames[scene.first : scene.end]
    ends = [*(frame.at for frame in frames[1:]), inf]
    lines = screen_at(scene.cast, scene.first - 1).split("\n")
    for frame, end in zip(frames, ends, strict=True):
        lines = [] if frame.is_whole else lines
        lines += [""] * (max(frame.lines, default=-1) + 1 - len(lines))
        for row, line in frame.lines.items():
            lines[row] = line
        yield PlayedScreen(tuple(lines), min(end - frame.at, longest) / speed)


def draw_screen(lines: Sequence[str], title: str, columns: int, rows: int) -> str:
    """Return what draws a screen: as much of its end as there is room for, and a row about it."""
    room = max(rows, LEAST_ROWS) - 1
    shown = _without_blank_end(lines)[-room:]
    drawn = [
        f"{_place(row)}{USUAL.escape}{ERASE_LINE}"
        f"{cut_line(shown[row], columns) if row < len(shown) else ''}"
        for row in range(room)
    ]
    last = cut_line(clean_line(one_line(title)), columns)
    return f"{''.join(drawn)}{_place(room)}{REVERSED}{ERASE_LINE}{last}{USUAL.escape}"


def title_of(scene: Scene, number: str, columns: int, rows: int) -> str:
    """Return the last row: whose screen it is, and whether all of it is shown."""
    is_cut = scene.cast.width > columns or scene.cast.height > rows - 1
    size = f", cut from {scene.cast.width}x{scene.cast.height}" if is_cut else ""
    return f"{number} {scene.title}{size}  n: next  q: leave"


def text_of(scene: Scene) -> str:
    """Return the last screen of a scene as plain text, below a line that says whose it is."""
    screen = screen_at(scene.cast, scene.end - 1)
    lines = [plain_text(line).rstrip() for line in screen.split("\n")]
    return "\n".join([f"== {one_line(scene.title)} ==", *lines])


def _place(row: int) -> str:
    return f"\x1b[{row + 1};1H"


def _without_blank_end(lines: Sequence[str]) -> list[str]:
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    return kept
