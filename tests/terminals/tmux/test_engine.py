"""The engine on a real tmux server: its windows, sessions and screens."""

import asyncio
import sys
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import TmuxCommandError, TmuxMissing
from cli_agent_orchestrator.terminals.tmux import Address, Command, Tmux
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


async def test_closing_a_window_ends_its_program_and_tells_nothing_more(rig: Rig) -> None:
    closed, other = await rig.run(*LONG_SLEEP), await rig.run("sh", "-c", "read x; exit 4")
    await rig.tmux.close_window(closed)
    assert [info.pane for info in await rig.tmux.panes()] == [other]
    await rig.tmux.press(other, ["Enter"])
    await rig.recorder.until_exited(other)
    assert rig.recorder.exits == [(other, 4)]


async def test_a_session_ends_with_its_windows(rig: Rig) -> None:
    first, second = [await rig.run(*LONG_SLEEP, session="one") for _ in range(2)]
    other = await rig.run(*LONG_SLEEP, session="two")
    await rig.tmux.close_window(first)
    assert "one" in await rig.by_hand("list-sessions")
    await rig.tmux.close_window(second)
    assert [info.pane for info in await rig.tmux.panes()] == [other]
    assert "one" not in await rig.by_hand("list-sessions")


async def test_a_change_is_told_with_screen_and_title(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", r"printf '\033]2;a:b #{pid} %%H\007hello\nworld'; sleep 1000")
    screen = await rig.recorder.until_shown(pane, "world")
    assert screen.text.splitlines()[:2] == ["hello", "world"]
    assert screen.text.count("\n") == 39
    assert screen.title == "a:b #{pid} %H"
    assert not screen.in_mode


async def test_a_program_that_sets_no_title_has_none(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", "echo hello; sleep 1000")
    assert (await rig.recorder.until_shown(pane, "hello")).title == ""


async def test_a_title_alone_is_a_change(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", r"echo here; read x; printf '\033]2;done\007'; sleep 1000")
    await rig.recorder.until_shown(pane, "here")
    await rig.tmux.press(pane, ["Enter"])
    await rig.recorder.until(lambda: rig.recorder.of(pane)[-1].title == "done")


async def test_a_spinner_is_reported_as_long_as_it_turns_and_its_end_too(rig: Rig) -> None:
    spinner = 'for i in $(seq 40); do printf "\\rframe $i "; sleep 0.05; done; echo; echo "the end"'
    pane = await rig.run("sh", "-c", f"{spinner}; sleep 1000")
    await rig.recorder.until_shown(pane, "the end")
    frames = [screen.text for screen in rig.recorder.of(pane)]
    assert 3 < len(frames) < 35


async def test_what_comes_after_a_spinner_is_told_whenever_it_comes(rig: Rig) -> None:
    spin = 'for i in $(seq 20); do printf "\\rframe $i "; sleep 0.02; done; echo "turn $turn over"'
    pane = await rig.run("sh", "-c", f"turn=1; while :; do {spin}; read x; turn=$((turn+1)); done")
    for turn in (1, 2, 3):
        await rig.recorder.until_shown(pane, f"turn {turn} over")
        await rig.tmux.press(pane, ["Enter"])


async def test_a_screen_is_not_told_twice(rig: Rig) -> None:
    again = r"for i in $(seq 20); do printf '\033[Hsame'; sleep 0.05; done"
    pane = await rig.run("sh", "-c", rf"{again}; printf '\033[Hover'; sleep 1000")
    await rig.recorder.until_shown(pane, "over")
    texts = [screen.text for screen in rig.recorder.of(pane)]
    assert len(texts) == len(set(texts))


async def test_lines_that_look_like_the_protocol_are_just_text(rig: Rig) -> None:
    fakes = ["%end 1 1 1", "%error 1 1 1", "%begin 1 1 1", "%output %1 x", "%exit", "%pause %1"]
    pane = await rig.python(f"print(*{fakes!r}, sep='\\n'); input()")
    screen = await rig.recorder.until_shown(pane, "%pause")
    assert screen.text.splitlines()[: len(fakes)] == fakes


async def test_several_panes_are_read_in_one_go(rig: Rig) -> None:
    panes = [await rig.run("sh", "-c", f"echo number {n}; sleep 1000") for n in range(3)]
    for number, pane in enumerate(panes):
        await rig.recorder.until_shown(pane, f"number {number}")
    screens = await rig.tmux.read([*panes, "%999", panes[0]])
    assert list(screens) == panes
    assert [screen.text.split("\n")[0] for screen in screens.values()] == [
        "number 0",
        "number 1",
        "number 2",
    ]
    assert await rig.tmux.read([]) == {}


async def test_a_screen_can_be_read_with_its_colors(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", r"printf '\033[2mdim\033[0m plain'; sleep 1000")
    await rig.recorder.until_shown(pane, "plain")
    assert "\x1b[2mdim\x1b[0m" in await rig.tmux.read_ansi(pane)


async def test_the_whole_scrollback_is_kept(rig: Rig) -> None:
    pane = await rig.python("for n in range(100_000): print('line', n)\nprint('all'); input()")
    await rig.recorder.until_shown(pane, "all")
    lines = (await rig.tmux.scrollback(pane)).splitlines()
    assert [line.strip() for line in lines[:100_000]] == [f"line {n}" for n in range(100_000)]


async def test_the_scrollback_joins_lines_that_were_wrapped(rig: Rig) -> None:
    pane = await rig.python("print('x' * 1000); print('all'); input()")
    await rig.recorder.until_shown(pane, "all")
    assert (await rig.tmux.scrollback(pane)).splitlines()[0] == "x" * 1000


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


async def test_raw_output_is_only_told_where_it_was_asked_for(rig: Rig) -> None:
    pane = await rig.run("sh", "-c", "echo hello; sleep 1000")
    await rig.recorder.until_shown(pane, "hello")
    assert rig.recorder.outputs == {}


async def test_tmux_that_is_not_installed_is_said_with_advice(tmp_path: Path) -> None:
    tmux = Tmux(Address("nowhere", {}, str(tmp_path / "tmux")), Recorder())
    with pytest.raises(TmuxMissing, match="apt install tmux"):
        await tmux.start()


@pytest.mark.parametrize("version", ["tmux 3.1c", "tmux 2.9"])
async def test_tmux_that_is_too_old_is_said_with_advice(tmp_path: Path, version: str) -> None:
    program = tmp_path / "tmux"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    with pytest.raises(TmuxMissing, match=r"too old.*brew install tmux"):
        await Tmux(Address("nowhere", {}, str(program)), Recorder()).start()
