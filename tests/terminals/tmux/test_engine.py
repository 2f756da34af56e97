"""The engine on a real tmux server: its windows, sessions and screens."""

import asyncio
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import TmuxCommandError, TmuxMissing
from cli_agent_orchestrator.terminals.tmux import Command, Tmux
from tests.terminals.tmux.rig import LONG_SLEEP, PATIENCE, Recorder, Rig

pytestmark = pytest.mark.tmux


async def test_windows_and_sessions_are_listed_once_with_their_tags(rig: Rig) -> None:
    names = [("one", "a"), ("one", "b"), ("two", "c")]
    for session, tag in names:
        await rig.tmux.open_window(
            session, f"#{{name}} of {tag}:", Command(LONG_SLEEP, "/", {}), tag
        )
    listed = await rig.tmux.panes()
    assert sorted((info.session, info.tag) for info in listed) == names
    assert sorted(info.name for info in listed) == [f"#{{name}} of {tag}:" for _, tag in names]
    assert not any(info.dead for info in listed)


async def test_a_window_that_nobody_waits_for_is_closed_again(rig: Rig) -> None:
    opening = asyncio.create_task(rig.run(*LONG_SLEEP))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    async with asyncio.timeout(PATIENCE):
        while await rig.tmux.panes():
            pass


async def test_a_window_that_nobody_waits_for_is_closed_even_if_the_engine_closes(rig: Rig) -> None:
    opening = asyncio.create_task(rig.run(*LONG_SLEEP))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    await rig.tmux.close()
    assert "tag-0" not in await rig.by_hand("list-panes", "-a", "-F", "#{@cao_id}")


async def test_closing_a_window_ends_its_program_then_its_session_and_tells_nothing_more(
    rig: Rig,
) -> None:
    first, second = [await rig.run(*LONG_SLEEP, session="one") for _ in range(2)]
    other = await rig.run("sh", "-c", "read x; exit 4", session="two")
    await rig.tmux.close_window(first)
    assert "one" in await rig.by_hand("list-sessions")
    await rig.tmux.close_window(second)
    assert [info.pane for info in await rig.tmux.panes()] == [other]
    assert "one" not in await rig.by_hand("list-sessions")
    await rig.tmux.press(other, ["Enter"])
    await rig.recorder.until_exited(other)
    assert rig.recorder.exits == [(other, 4)]


async def test_a_change_is_told_with_screen_and_title(rig: Rig) -> None:
    pane = await rig.run(
        "sh", "-c", r"printf 'hello\nworld'; read x; printf '\033]2;a:b #{pid} %%H\007'; sleep 1000"
    )
    screen = await rig.recorder.until_shown(pane, "world")
    assert screen.text.splitlines()[:2] == ["hello", "world"]
    assert screen.text.count("\n") == 39
    assert (screen.title, screen.in_mode) == ("", False)
    await rig.tmux.press(pane, ["Enter"])
    # A title alone is a change.
    await rig.recorder.until(lambda: rig.recorder.of(pane)[-1].title == "a:b #{pid} %H")


async def test_a_spinner_is_reported_as_long_as_it_turns_and_what_comes_after_it(rig: Rig) -> None:
    spin = 'for i in $(seq 20); do printf "\rframe $i "; sleep 0.05; done; echo "turn $turn over"'
    pane = await rig.run("sh", "-c", f"turn=1; while :; do {spin}; read x; turn=$((turn+1)); done")
    for turn in (1, 2):
        await rig.recorder.until_shown(pane, f"turn {turn} over")
        await rig.tmux.press(pane, ["Enter"])
    frames = [screen.text for screen in rig.recorder.of(pane)]
    assert 4 < len(frames) < 37
    assert all(one != other for one, other in pairwise(frames)), "no screen is told twice"


async def test_lines_that_look_like_the_protocol_are_just_text(rig: Rig) -> None:
    fakes = ["%end 1 1 1", "%error 1 1 1", "%begin 1 1 1", "%output %1 x", "%exit", "%pause %1"]
    pane = await rig.python(f"print(*{fakes!r}, sep='\\n'); input()")
    screen = await rig.recorder.until_shown(pane, "%pause")
    assert screen.text.splitlines()[: len(fakes)] == fakes


async def test_several_panes_are_read_in_one_go_and_one_in_color(rig: Rig) -> None:
    shows = r"printf '\033[2mnumber\033[0m %d' "
    panes = [await rig.run("sh", "-c", f"{shows} {n}; sleep 1000") for n in range(3)]
    for number, pane in enumerate(panes):
        await rig.recorder.until_shown(pane, f"number {number}")
    screens = await rig.tmux.read([*panes, "%999", panes[0]])
    assert list(screens) == panes
    firsts = [screen.text.split("\n")[0] for screen in screens.values()]
    assert firsts == ["number 0", "number 1", "number 2"]
    assert await rig.tmux.read([]) == {}
    assert (await rig.tmux.read_ansi(panes[0])).startswith("\x1b[2mnumber\x1b[0m")
    assert rig.recorder.outputs == {}, "raw output is told where it was asked for"


async def test_the_whole_scrollback_is_kept_and_wrapped_lines_are_joined(rig: Rig) -> None:
    lines = ["x" * 1000, *(f"line {n}" for n in range(100_000))]
    script = "print('x' * 1000)\nfor n in range(100_000): print('line', n)\nprint('all'); input()"
    pane = await rig.python(script)
    await rig.recorder.until_shown(pane, "all")
    kept = (await rig.tmux.scrollback(pane)).splitlines()
    assert [line.strip() for line in kept[: len(lines)]] == lines


@pytest.mark.parametrize("verb", ["read_ansi", "scrollback"])
async def test_a_pane_that_is_not_there_cannot_be_read(rig: Rig, verb: str) -> None:
    with pytest.raises(TmuxCommandError, match="%999"):
        await getattr(rig.tmux, verb)("%999")


async def test_raw_output_is_complete(rig: Rig) -> None:
    said = bytes(range(32, 256)) * 500 + b"\x1b]9;done\x07"
    script = (
        "import sys; sys.stdout.buffer.write(bytes(range(32, 256)) * 500 + b'\\x1b]9;done\\x07')\n"
        "sys.stdout.flush(); input()"
    )
    pane = await rig.run(sys.executable, "-c", script, raw_output=True)
    await rig.recorder.until(lambda: rig.recorder.outputs.get(pane, b"").endswith(b"done\x07"))
    assert rig.recorder.outputs[pane] == said


@pytest.mark.parametrize(
    ("version", "advice"), [("", "apt install tmux"), ("tmux 3.1c", r"too old.*brew install tmux")]
)
async def test_tmux_that_is_missing_or_too_old_is_said_with_advice(
    tmp_path: Path, version: str, advice: str
) -> None:
    program = tmp_path / "tmux"
    if version:
        program.write_text(f"#!/bin/sh\necho {version}\n")
        program.chmod(0o755)
    with pytest.raises(TmuxMissing, match=advice):
        await Tmux("nowhere", {}, Recorder(), program=str(program)).start()
