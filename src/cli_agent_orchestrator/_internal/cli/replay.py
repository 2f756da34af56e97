"""The command that plays what the agents of a run showed: replay."""

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue

import click

from cli_agent_orchestrator._internal.cli.completing import (
    complete_roles_of_run,
    complete_runs,
)
from cli_agent_orchestrator._internal.cli.interrupts import SHOW_CURSOR, Interrupts
from cli_agent_orchestrator._internal.cli.keyboard import Keyboard
from cli_agent_orchestrator._internal.cli.playback import (
    PlayedScreen,
    Scene,
    draw_screen,
    play,
    scenes_of,
    text_of,
    title_of,
)
from cli_agent_orchestrator._internal.cli.runs import say_if_elsewhere
from cli_agent_orchestrator._internal.config import state_folder
from cli_agent_orchestrator._internal.layout import cast_name, replay_folder, run_folder
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.records.event_log import read_events
from cli_agent_orchestrator._internal.runs.records.registry import find_run
from cli_agent_orchestrator._internal.runs.records.replay import (
    fault_of_cast,
    read_cast,
    roles_with_cast,
)
from cli_agent_orchestrator._internal.runs.records.run_id import short_name
from cli_agent_orchestrator._internal.runs.records.turns import turns_of
from cli_agent_orchestrator.errors import NotFound, UsageError

# The other screen of the terminal, no cursor, and rows that are never wrapped.
BEGIN_PLAYING = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
END_PLAYING = f"\x1b[0m\x1b[?7h{SHOW_CURSOR}\x1b[?1049l"
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

    RUN is the ID that `cao runs` lists, the beginning of it, or its last letters. Leave it out for
    the run of this folder, or the only one there is. `n` goes to the next turn, `q` and Ctrl-C
    leave. Into a file or a pipe goes the last screen of each turn, as text.

    Screens are recorded unless the run was started with --no-recording. Each role has a file, which
    other players of asciicasts read too: runs/ID/replay/ROLE.cast in the state folder, which
    `cao doctor` names.

    \b
    cao replay
    cao replay k3f9
    cao replay k3f9 programmer --speed 4
    cao replay k3f9 | less
    """
    state = state_folder(os.environ)
    here = Path.cwd().resolve()
    found = find_run(state, run, here, to_look=True)
    if not run:
        say_if_elsewhere(found, here)
    folder = run_folder(state, found.id)
    scenes = find_scenes(folder, role, short_name(found.id))
    if not (sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"):
        click.echo("\n\n".join(map(text_of, scenes)))
        return
    with Interrupts(notice="") as interrupts:
        show(scenes, speed, idle, interrupts)
    if interrupts.noted is not None:
        sys.exit(interrupts.exit_code)


def find_scenes(folder: Folder, role: str | None, name: str) -> Sequence[Scene]:
    """Return what is played of a run."""
    roles = roles_with_cast(folder)
    if role is not None and roles and role not in roles:
        raise NotFound("recording of", role, roles)
    wanted = [one for one in roles if role in (None, one)]
    casts = {one: cast for one in wanted if (cast := read_cast(folder, one)) is not None}
    turns = turns_of(read_events(folder)) if role is None else []
    scenes = scenes_of(turns, casts)
    if wanted and not scenes:
        faults = (
            f"{replay_folder(folder).path / cast_name(one)} {fault_of_cast(folder, one)}"
            for one in wanted
        )
        raise UsageError(f"nothing can be played of run {name}: {', '.join(faults)}")
    if not scenes:
        raise UsageError(
            f"no screens of run {name} were recorded in {replay_folder(folder).path}: runs with "
            "--no-recording, on a server elsewhere or of earlier versions have none"
        )
    return scenes


def show(scenes: Sequence[Scene], speed: float, idle: float, interrupts: Interrupts) -> None:
    """Play scenes in the terminal until they are over or nobody wants to see more."""
    pressed: SimpleQueue[bytes] = SimpleQueue()

    def hear(data: bytes) -> bool:
        for key in (LEAVE, NEXT):
            if key in data:
                pressed.put(key)
        return False

    interrupts.when_noted(lambda: pressed.put(LEAVE))
    with other_screen(), Keyboard(hear):
        for number, scene in enumerate(scenes, 1):
            if (
                _show(scene, f"[{number}/{len(scenes)}]", play(scene, speed, idle), pressed)
                == LEAVE
            ):
                return


def _show(
    scene: Scene, number: str, screens: Iterable[PlayedScreen], pressed: "SimpleQueue[bytes]"
) -> bytes:
    """Show screens, each for its time; return the key that has ended that, if one has."""
    for screen in screens:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
        _write(draw_screen(screen.lines, title_of(scene, number, columns, rows), columns, rows))
        with suppress(Empty):
            return pressed.get(timeout=screen.seconds)
    return b""


@contextmanager
def other_screen() -> Iterator[None]:
    """Have the other screen of the terminal, and give it back on every way out."""
    # Who is stopped with Ctrl-Z would leave that screen behind.
    before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    _write(BEGIN_PLAYING)
    try:
        yield
    finally:
        _write(END_PLAYING)
        signal.signal(signal.SIGTSTP, before)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
