"""A real terminal that plays a recording shows what was recorded."""

from pathlib import Path

from cli_agent_orchestrator.core.ansi import clean_lines
from tests.terminals.screens.test_cast import recorded
from tests.terminals.tmux.rig import Rig

DRAWER = r"""
import sys
lines = ["\033[1;31mred\nstill red\033[0m", "\033[38;5;208;48;2;1;2;3morange on dark   \033[0m.",
         "\033[4:3mcurly\033[0m \033[7mreversed ", "\033[0mplain \033[3mitalic",
         "\033[0m漢字 e\u0301 x", "\033(0lqqk\033(B done"]
print("\r\n".join(lines).replace("\n", "\r\n"), end="", flush=True)
input()
"""
PLAYER = """
import json, sys
for line in open(sys.argv[1], encoding="utf-8").read().splitlines()[1:]:
    sys.stdout.write(json.loads(line)[2])
sys.stdout.flush()
input()
"""


async def test_a_terminal_that_plays_it_shows_what_was_recorded(rig: Rig, tmp_path: Path) -> None:
    drawn = await rig.python(DRAWER)
    await rig.recorder.until_shown(drawn, "done")
    screen = await rig.tmux.read_ansi(drawn)
    file = tmp_path / "tester.cast"
    # Lines as long as the terminal, longer ones before, and an end.
    full = "\n".join(["x" * 120] * 40)
    file.write_bytes(recorded(["漢" * 60 + "\nmore", full, "\n" * 20 + "below", screen]))
    played = await rig.python(PLAYER, str(file))
    await rig.recorder.until_shown(played, "done")
    assert clean_lines(await rig.tmux.read_ansi(played)) == clean_lines(screen)
    assert "┌──┐ done" in clean_lines(screen)[-1]

    file.write_bytes(recorded([screen, full]))
    played = await rig.python(PLAYER, str(file))
    await rig.recorder.until_shown(played, full)
    assert clean_lines(await rig.tmux.read_ansi(played)) == tuple(["x" * 120] * 40)
