"""The live view in a real terminal: tmux, which is resized, and in which Ctrl-C is pressed."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.panes import Pane

pytestmark = pytest.mark.tmux

PROGRAM = """
import sys
from pathlib import Path
from queue import SimpleQueue

from cli_agent_orchestrator.cli.interrupts import Interrupts
from cli_agent_orchestrator.cli.live import LiveView
from cli_agent_orchestrator.cli.narration import Narration
from cli_agent_orchestrator.events import RunBegan, RunEnded, TurnBegan, TurnEnded, Warned

NOON = 1_700_000_000.0
ROLES = ("analyst", "analyst_review", "programmer", "programmer_review", "tester")
AGENTS = {role: "an agent with a quite long name" for role in ROLES}
WHY = "x" * 40 + " end"

stopped = SimpleQueue()
with Interrupts() as interrupts, LiveView(Narration(Path("/p")), None, 0.05, recall=tuple) as view:
    print("\\n" * int(sys.argv[1]))
    view.tell(RunBegan(NOON, "s", {}, AGENTS, "/p", max_rounds=8))
    for number, role in enumerate(ROLES):
        view.tell(TurnBegan(NOON, role, 1, 2, number, "0badcafe", AGENTS[role]))
        led_to = "sent_back" if role != "programmer" else "delivered"
        view.tell(TurnEnded(NOON, role, 1, 2, number, led_to, "there", 1e7, "/p/004.md", True, WHY))
    for number in range(4):
        view.tell(Warned(NOON, f"note {number} " + "word " * 12 + "done"))
    view.tell(TurnBegan(NOON, "programmer", 1, 2, 9, "0badcafe", AGENTS["programmer"]))
    interrupts.when_noted(lambda: stopped.put(True))
    stopped.get()
    view.tell(RunEnded(NOON, "RUNNING", 1, 130, "stopped by a signal"))
print("the prompt of the shell")
sys.stdin.read()
"""

NOTE_WHEN_NARROW = """
import os
import time
from pathlib import Path

from cli_agent_orchestrator.cli.live import LiveView
from cli_agent_orchestrator.cli.narration import Narration
from cli_agent_orchestrator.events import RunBegan, TurnBegan, Warned

AGENTS = {role: "an agent" for role in ("analyst", "analyst_review", "programmer", "tester")}

with LiveView(Narration(Path("/p")), None, 0.05, recall=tuple) as view:
    view.tell(RunBegan(0, "s", {}, AGENTS, "/p", max_rounds=8))
    view.tell(TurnBegan(0, "analyst", 1, 1, 4, "0badcafe", "an agent"))
    while os.get_terminal_size().columns != 40:
        time.sleep(0.05)
    view.tell(Warned(0, "note " + "word " * 12 + "done"))
    time.sleep(600)
"""


@contextmanager
def running(width: int, blank_lines: int = 0, text: str = PROGRAM) -> Iterator[Pane]:
    words = (sys.executable, "-c", text, str(blank_lines))
    # These would count more than the terminal.
    env = {**os.environ, "LINES": "24", "COLUMNS": "200"}
    with (
        tempfile.TemporaryDirectory(prefix="cao-") as folder,
        closing(Pane(Path(folder), *words, width=width, env=env)) as pane,
    ):
        yield pane


@pytest.fixture
def pane() -> Iterator[Pane]:
    """Return a terminal in which much was written before, as most are."""
    with running(100, blank_lines=30) as pane:
        pane.until(is_whole)
        yield pane


def block(lines: list[str]) -> list[str]:
    """Return the rows of the block, which must be the last of the screen."""
    heads = [number for number, line in enumerate(lines) if line.startswith("▶")]
    return lines[heads[-1] :] if heads else []


def is_whole(lines: list[str]) -> bool:
    rows = block(lines)
    return len(rows) == 11 and all(row.endswith(" end") for row in rows[6:-1])


def is_cut(lines: list[str]) -> bool:
    rows = block(lines)
    return len(rows) == 11 and all(row.endswith("…") for row in rows[6:-1])


def is_cut_and_low(lines: list[str]) -> bool:
    """Is there no room for what has been?"""
    rows = block(lines)
    return len(rows) == 7 and all(row.endswith("…") for row in rows[1:-1])


def is_clean(lines: list[str]) -> bool:
    """Is there one block, and does each line stand above it once? Lines are joined."""
    text = " ".join(lines)
    notes = [text.count(f"note {number} word") for number in range(4)]
    heads = text.count("▶ Round 1 of 8, cycle 2"), text.count("  ▶ programmer")
    reasons = text.count("✗ 1.2 "), " ".join(block(lines)).count("✗ 1.2 ")
    strip = text.count("tester  ")
    clean = heads == (1, 1) and reasons[0] == reasons[1] and strip == 1
    return clean and notes == [1] * 4 and text.count("done") == 4


def test_a_resized_terminal_shows_the_block_once_and_whole(pane: Pane) -> None:
    for width, height, looks_right in (
        (50, 30, is_cut),
        (120, 30, is_whole),
        (40, 12, is_cut_and_low),
        (100, 30, is_whole),
    ):
        pane.resize(width, height)
        pane.until(looks_right)
        pane.until(is_clean, joined=True)
    # Where it is lower than the block, the beginning is shown. The clock shows that it is drawn
    # again; nothing is to pile up above it.
    pane.resize(100, 5)
    pane.until(lambda lines: len(block(lines)) == 4)
    kept = len(pane.lines())
    face = pane.lines()[-4]
    pane.until(lambda lines: lines[-4] > face)
    assert len(pane.lines()) == kept
    pane.resize(100, 30)
    pane.until(is_whole)


def test_a_terminal_with_room_below_the_block_may_be_resized_too() -> None:
    with running(200) as pane:
        pane.until(is_whole)
        for width in (90, 160, 80):
            pane.resize(width, 30)
            pane.until(is_whole)
            pane.until(is_clean, joined=True)


def test_a_line_from_a_narrow_terminal_is_whole_when_it_becomes_wide() -> None:
    with running(80, text=NOTE_WHEN_NARROW) as pane:
        pane.until(lambda lines: len(block(lines)) == 6)
        pane.resize(40, 12)
        pane.until(lambda lines: "done" in lines[-7])
        pane.resize(120, 30)
        pane.until(lambda lines: len(block(lines)) == 6 and "an agent" in lines[-2])
        assert pane.lines()[-7].endswith("word done")
        assert pane.lines()[-9].endswith("note word word word")


def test_ctrl_c_takes_the_block_away_and_leaves_whole_lines(pane: Pane) -> None:
    pane.press("C-c")
    pane.until(lambda lines: lines[-1:] == ["the prompt of the shell"])
    lines = pane.lines(joined=True)
    assert not any("▶" in line or "│" in line or "^C" in line for line in lines)
    assert lines[-3].startswith("cao: stopping. Ctrl-C again ends at once.")
    assert "The run is saved." in lines[-2]
    assert [line.split()[2:4] for line in lines[-7:-3]] == [["note", str(n)] for n in range(4)]


def test_a_second_ctrl_c_takes_the_block_away_too(pane: Pane) -> None:
    pane.tmux("set-option", "-w", "remain-on-exit", "on")
    pid = int(pane.show("#{pane_pid}"))
    # Both at once: the second comes before the first is obeyed, or the program has ended.
    os.kill(pid, signal.SIGINT)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGINT)
    pane.until(lambda lines: not block(lines))
