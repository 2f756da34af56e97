"""How agents are started: which dialogs are passed, and which version is asked for."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.errors import StartError
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.settings.config import ServerConfig
from cli_agent_orchestrator.terminals.board import Board, LiveTerminal
from cli_agent_orchestrator.terminals.launch import Launcher
from cli_agent_orchestrator.terminals.tmux import Tmux
from tests.providers.samples import capture
from tests.providers.test_codex import CONFIRM, KEEP, NUDGE, dialog
from tests.terminals.samples import PANE, row, screen
from tests.virtual_time import VirtualClock, run_at_once

NOTICE = f"{NUDGE}\n{KEEP}\n{CONFIRM}"
GONE = screen("it is gone")


class Keyboard(Tmux):
    """A tmux that only notes which keys it is to press; one that arrives ends the dialog."""

    def __init__(self, board: Board) -> None:
        super().__init__("none", {}, board)
        self.board = board
        self.lost = 0
        """How many of the next keys do not arrive."""
        self.pressed: list[str] = []

    async def press(
        self, pane: str, keys: Sequence[str], session: str = "", touched_at: int = 0
    ) -> bool:
        for key in keys:
            self.pressed.append(key)
            if self.lost == 0:
                self.board.screen_changed(GONE)
            self.lost -= 1
        return True


class Desk:
    """A launcher with one Codex that is at work already."""

    def __init__(self, folder: Path) -> None:
        self.board = Board(SystemClock(), start_id="1")
        self.keyboard = Keyboard(self.board)
        config = ServerConfig.from_env({"CAO_STATE_DIR": str(folder), "PATH": os.environ["PATH"]})
        self.launcher = Launcher(config, self.keyboard, SystemClock(), dialog_seconds=0.05)

    def shows(self, text: str) -> LiveTerminal:
        live = self.board.add(row("codex"), get_provider("codex"))
        self.board.opened(live, PANE)
        self.board.screen_changed(screen(text))
        return live


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("text", "lost", "pressed"),
    [
        (NOTICE, 0, ["2"]),
        # A key that got lost is pressed once more.
        (NOTICE, 1, ["2", "2"]),
        (NOTICE, 5, ["2", "2"]),
        # Later that is left to a person.
        (dialog("0.166.0", "trust_dialog"), 0, []),
    ],
)
async def test_only_a_notice_is_passed_at_any_time(
    desk: Desk, text: str, lost: int, pressed: list[str]
) -> None:
    desk.keyboard.lost = lost
    await desk.launcher.pass_dialog(desk.shows(text))
    assert desk.keyboard.pressed == pressed


async def test_a_notice_that_is_still_being_drawn_is_waited_for(desk: Desk) -> None:
    desk.launcher = replace(desk.launcher, dialog_seconds=30.0)
    live = desk.shows(f"{NUDGE}\n› 1. Switch\n\n{CONFIRM}")
    passing = asyncio.create_task(desk.launcher.pass_dialog(live))
    for _ in range(10):
        await asyncio.sleep(0)
    assert desk.keyboard.pressed == []
    desk.board.screen_changed(screen(NOTICE))
    await passing
    assert desk.keyboard.pressed == ["2"]


async def test_a_notice_is_not_answered_in_the_middle_of_a_message(desk: Desk) -> None:
    live = desk.shows(NOTICE)
    async with live.typing:
        passing = asyncio.create_task(desk.launcher.pass_dialog(live))
        for _ in range(10):
            await asyncio.sleep(0)
        assert desk.keyboard.pressed == []
        desk.board.screen_changed(GONE)
    await passing
    assert desk.keyboard.pressed == []


@pytest.mark.parametrize("version", ["0.149.1", "0.169.0"])
@pytest.mark.parametrize(("case", "asked"), [("login", "sign in"), ("hooks", "review of hooks")])
async def test_codex_that_asks_after_its_first_frame_is_not_ready(
    desk: Desk, version: str, case: str, asked: str
) -> None:
    live = desk.shows(capture(f"codex/unknown/{version}-loading.txt"))
    starting = asyncio.create_task(desk.launcher.wait_until_ready(live))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not starting.done()
    desk.board.screen_changed(screen(dialog("0.149.1", f"{case}_dialog")))
    with pytest.raises(StartError, match=asked):
        await starting


@pytest.mark.parametrize(
    ("file", "text", "waits"),
    [("/mine.toml", "", False), ("/mine.toml", "loading", True), ("", "", True)],
)
def test_an_agent_of_the_users_own_that_shows_nothing_is_given_half_of_the_time(
    tmp_path: Path, file: str, text: str, waits: bool
) -> None:
    async def start() -> float:
        desk, clock = Desk(tmp_path), VirtualClock()
        live = desk.shows(text)
        live.provider = replace(live.provider, file=file)
        with pytest.raises(StartError, match="not ready"):
            await replace(desk.launcher, clock=clock).wait_until_ready(live)
        return clock.monotonic()

    config = Desk(tmp_path).launcher.config
    assert (run_at_once(start) >= config.start_seconds) is waits


async def test_a_program_that_was_updated_is_asked_for_its_version_again(
    desk: Desk, tmp_path: Path
) -> None:
    program = tmp_path / "agent"
    found = []
    for number in (1, 2):
        program.write_text(f"#!/bin/sh\necho agent 1.{number}.0\n", encoding="utf-8")
        program.chmod(0o755)
        os.utime(program, (number, number))
        found.append(await desk.launcher._version(str(program), os.environ))
    assert found == [(1, 1, 0), (1, 2, 0)]
