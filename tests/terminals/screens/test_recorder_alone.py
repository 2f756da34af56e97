"""When a recording looks at its terminal, when it ends, and what does not end it, without tmux."""

import asyncio
import shutil
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from cli_agent_orchestrator.core.ansi import Frame, frame_line, full_line, header_line
from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.errors import TmuxError
from cli_agent_orchestrator.runs.screens import (
    read_cast,
    recording_folder,
    roles_with_cast,
    screen_at,
)
from cli_agent_orchestrator.settings.layout import RECORD_FILE, cast_name, replay_folder, run_folder
from cli_agent_orchestrator.terminals.board import LiveTerminal
from cli_agent_orchestrator.terminals.screens import LARGEST_CAST, ScreenRecorder
from tests.terminals.samples import live_terminal, row, screen

PATIENCE = 60.0
RUN = "20261115-084037-k3f9"
HEADER = header_line(int(SystemClock().now()), 120, 40, "tester")
NUMBERS = count()


class Panes:
    """Stands for tmux: what each pane shows, and how often that was read."""

    def __init__(self) -> None:
        self.shown: dict[str, str] = {}
        self.problem: Exception | None = None
        self.reads = 0
        self.answering = asyncio.Event()
        self.answering.set()

    async def read_ansi(self, pane: str) -> str:
        self.reads += 1
        if self.problem is not None:
            raise self.problem
        shown = self.shown[pane]
        await self.answering.wait()
        return shown


class Rig:
    """A recorder of terminals that are none."""

    def __init__(self, state: Path) -> None:
        self.run = run_folder(state, RUN)
        self.run.create(RECORD_FILE, b"{}")
        self.panes = Panes()
        tmux = cast("Any", self.panes)  # what is asked of it, it has
        self.recorder = ScreenRecorder(tmux, SystemClock(), partial(recording_folder, state))

    def terminal(self, pane: str, **more: Any) -> LiveTerminal:  # other fields of a row
        live = live_terminal(pane=pane)
        of_run = {"session_name": f"cao-{RUN}", "role": "tester", "record": True}
        live.row = row(id=pane, **{**of_run, **more})
        return live

    def show(self, live: LiveTerminal, text: str) -> None:
        """Let a terminal show something, and tell of it."""
        assert live.pane is not None
        self.panes.shown[live.pane] = text
        live.screen = screen(text, str(next(NUMBERS)), live.pane)
        live.notify()

    async def record_once(self, live: LiveTerminal, text: str) -> None:
        """Let a terminal that shows something be followed and end."""
        self.show(live, text)
        self.recorder.follow(live)
        await self.recorder.finish(live)

    def followed(self, text: str, pane: str = "%1") -> LiveTerminal:
        """Return a terminal that shows something and is recorded."""
        live = self.terminal(pane)
        self.show(live, text)
        self.recorder.follow(live)
        return live

    def begin_file(self, data: bytes) -> None:
        replay_folder(self.run).create(cast_name("tester"), data)

    def screens(self) -> list[str]:
        found = read_cast(self.run, "tester")
        return [screen_at(found, one) for one in range(len(found.frames))] if found else []


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await asyncio.sleep(0.001)


async def test_another_server_goes_on_with_a_recording_that_was_torn(rig: Rig) -> None:
    rig.begin_file(HEADER + frame_line(Frame(9e6, {0: "hello"})) + b'[7, "o", "\\u001b[1;')
    await rig.record_once(rig.terminal("%1"), "again")
    assert rig.screens() == ["hello", "again"]
    cast = read_cast(rig.run, "tester")
    assert cast is not None
    assert cast.frames[1].is_whole
    *_, last = (rig.run.path / "replay/tester.cast").read_bytes().splitlines()
    assert last.startswith(b"[9000000.0,"), "time does not go back"


async def test_a_screen_soon_after_another_is_recorded_though_no_report_follows(
    rig: Rig,
) -> None:
    live = rig.followed("first")
    await until(lambda: rig.screens() == ["first"])
    rig.show(live, "second")
    await until(lambda: rig.screens() == ["first", "second"])
    await rig.recorder.close()


async def test_a_recording_that_is_full_does_not_go_on(rig: Rig) -> None:
    rig.begin_file(HEADER + full_line(1.0))
    await rig.record_once(rig.terminal("%1"), "too late")
    assert rig.panes.reads == 0
    assert rig.screens() == []


async def test_a_large_recording_has_time_for_the_next_frame(rig: Rig) -> None:
    # In the last quarter of its size a frame waits for eight seconds.
    frame = frame_line(Frame(1.0, dict.fromkeys(range(40), "x" * 100)))
    rig.begin_file(HEADER + frame * (LARGEST_CAST * 7 // 8 // len(frame)))
    live = rig.followed("first")
    await until(lambda: rig.panes.reads == 1)
    for number in range(50):
        rig.show(live, f"frame {number}")
        await asyncio.sleep(0.002)
    assert rig.panes.reads < 10
    await rig.recorder.finish(live)
    found = read_cast(rig.run, "tester")
    assert found is not None
    assert screen_at(found, len(found.frames)) == "frame 49"


async def test_a_tmux_that_is_away_for_a_while_does_not_end_a_recording(rig: Rig) -> None:
    rig.panes.problem = TmuxError("it is away")
    live = rig.followed("not seen")
    await until(lambda: rig.panes.reads == 1)
    rig.panes.problem = None
    rig.show(live, "seen again")
    await rig.recorder.finish(live)
    assert rig.screens() == ["seen again"]


async def test_the_last_screen_is_kept_though_an_earlier_one_is_still_being_read(
    rig: Rig,
) -> None:
    rig.panes.answering.clear()
    live = rig.followed("earlier")
    await until(lambda: rig.panes.reads == 1)
    rig.show(live, "the last")
    ending = asyncio.create_task(rig.recorder.finish(live))
    await asyncio.sleep(0)  # it is being ended, and has not been answered yet
    rig.panes.answering.set()
    await ending
    assert rig.screens() == ["earlier", "the last"]


async def test_a_second_agent_of_a_role_neither_is_recorded_nor_ends_a_recording(
    rig: Rig,
) -> None:
    first, second = rig.followed("of the first"), rig.followed("of the second", "%2")
    await until(lambda: rig.screens() == ["of the first"])
    await rig.recorder.finish(second)
    rig.show(first, "the end of the first")
    await rig.recorder.finish(first)
    assert rig.screens() == ["of the first", "the end of the first"]


async def test_nothing_is_left_of_a_recorder_that_is_closed(rig: Rig) -> None:
    rig.followed("here")
    await until(lambda: rig.screens() == ["here"])
    before = asyncio.all_tasks()
    await rig.recorder.close()
    assert {task for task in before if not task.done()} == {asyncio.current_task()}


@pytest.mark.parametrize(
    "facts",
    [
        {"record": False},
        {"role": None},
        {"role": "Not-A-Role"},
        {"session_name": "cao-mine"},
        {"session_name": "cao-20261115-084037-zzzz"},
    ],
)
async def test_only_agents_of_a_run_that_asked_for_it_are_recorded(
    facts: dict[str, object], rig: Rig
) -> None:
    await rig.record_once(rig.terminal("%1", **facts), "hello")
    assert roles_with_cast(rig.run) == []
    assert [path.name for path in rig.run.path.parent.iterdir()] == [RUN]


@pytest.mark.parametrize("trap", ["linked folder", "link", "second name", "file of others"])
async def test_nothing_else_is_written_to(
    trap: str, rig: Rig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    replay = rig.run.path / "replay"
    if trap == "linked folder":
        replay.symlink_to(outside)
    else:
        replay.mkdir()
    match trap:
        case "link":
            (replay / "tester.cast").symlink_to(outside / "file")
        case "second name":
            (replay / "tester.cast").hardlink_to(outside / "file")
        case "file of others":
            (replay / "tester.cast").write_text("mine")
    await rig.record_once(rig.terminal("%1"), "hello")
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "mine"
    assert "its screens are not recorded" in caplog.text


async def test_a_run_that_is_removed_stays_so(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    live = rig.followed("recorded")
    await until(lambda: rig.screens() == ["recorded"])
    shutil.rmtree(rig.run.path)
    rig.show(live, "hello")
    await rig.recorder.finish(live)
    assert not rig.run.path.exists()
    assert caplog.messages == ["%1: its screens are not recorded: its file was removed"]
