"""What is typed reaches the program byte by byte, on a real tmux server."""

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import TmuxCommandError
from tests.programs import attached
from tests.terminals.tmux.rig import PATIENCE, Rig

pytestmark = pytest.mark.tmux

HOSTILE_BYTES = [
    b"plain",
    b'it\'s "quoted" $HOME `id` #{pid} %1 ~ {}',
    b"ends with ;",
    b";",
    b"-p",
    b"\n",
    b"line one\nline two\r\nline three\n\n",
    b"\ttabs\tand trailing spaces   ",
    b"%end 1700000000 1 1\n%exit\n",
    b"\\033 \\n \\",
    bytes(range(256)) * 2,
    "é漢😀\u009b".encode(),
    b"\xff\xfe not UTF-8",
    b"x" * 1_000,
    b"0123456789abcdef\n" * 3_000,
    b"0123456789abcdefghijklmno" * 20_000,
]


async def test_a_paste_is_byte_exact(rig: Rig, tmp_path: Path) -> None:
    record = tmp_path / "record"
    pane = await rig.reader(record)
    pasted = b""
    for data in HOSTILE_BYTES:
        await rig.tmux.paste(pane, data)
        pasted += data
        await rig.recorder.until_shown(pane, f"got {len(pasted)}.")
        assert record.read_bytes() == pasted
    assert await rig.by_hand("list-buffers") == "", "nothing of it stays behind"


@pytest.mark.parametrize(("asks", "marked"), [(True, False), (False, True), (True, True)])
async def test_a_paste_has_brackets_once_if_they_are_asked_for_or_it_is_marked(
    rig: Rig, tmp_path: Path, asks: bool, marked: bool
) -> None:
    record = tmp_path / "record"
    pane = await rig.reader(record, r"\x1b[?2004h" if asks else "")
    await rig.tmux.paste(pane, b"two\nlines", marked=marked)
    await rig.recorder.until_shown(pane, "got 21.")
    assert record.read_bytes() == b"\x1b[200~two\nlines\x1b[201~"


async def test_keys_are_pressed_by_name(rig: Rig, tmp_path: Path) -> None:
    record = tmp_path / "record"
    pane = await rig.reader(record)
    await rig.tmux.press(pane, ["Enter", "Escape", "C-c", "Down", "-", ";"])
    await rig.recorder.until_shown(pane, "got 8.")
    assert record.read_bytes() == b"\r\x1b\x03\x1b[B-;"


async def test_a_key_is_not_pressed_after_a_person_has_pressed_one(
    rig: Rig, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    pane = await rig.reader(record)
    session = next(info.session for info in await rig.tmux.panes() if info.pane == pane)
    assert await rig.tmux.touched_at(session) == 0
    assert await rig.tmux.press(pane, ["a"], session)
    with attached(rig.socket, session, rig.environ) as type_keys:
        async with asyncio.timeout(PATIENCE):
            while not (before := await rig.tmux.touched_at(session)):
                await asyncio.sleep(0.01)
            while await rig.tmux.touched_at(session) == before:
                type_keys("b")
                await asyncio.sleep(0.05)
        assert not await rig.tmux.press(pane, ["c"], session, before)
        assert await rig.tmux.press(pane, ["d"], session, await rig.tmux.touched_at(session))
        await rig.recorder.until(lambda: record.read_bytes().endswith(b"d"))
    typed = record.read_bytes()
    assert (typed[:2], typed[-2:], typed.strip(b"abd")) == (b"ab", b"bd", b"")


async def test_copy_mode_is_told_and_left_before_input(rig: Rig, tmp_path: Path) -> None:
    record = tmp_path / "record"
    pane = await rig.reader(record)
    await rig.by_hand("copy-mode", "-t", pane)
    await rig.recorder.until(lambda: rig.recorder.of(pane)[-1].in_mode)
    await rig.tmux.paste(pane, b"hello")
    screen = await rig.recorder.until_shown(pane, "got 5.")
    assert not screen.in_mode
    await rig.by_hand("copy-mode", "-t", pane)
    await rig.tmux.press(pane, ["Enter"])
    await rig.recorder.until_shown(pane, "got 6.")
    assert record.read_bytes() == b"hello\r"


async def test_a_program_that_has_ended_or_never_was_takes_no_input(rig: Rig) -> None:
    dead = await rig.run("sh", "-c", "exit 0")
    await rig.recorder.until_exited(dead)
    for pane, reason in ((dead, "has ended"), ("%999", "%999")):
        with pytest.raises(TmuxCommandError, match=reason):
            await rig.tmux.paste(pane, b"x")
        with pytest.raises(TmuxCommandError, match=reason):
            await rig.tmux.press(pane, ["Enter"])
        with pytest.raises(TmuxCommandError, match=reason):
            async with asyncio.timeout(PATIENCE / 2):
                await rig.tmux.press(pane, ["Enter"], "work")
    assert await rig.by_hand("list-buffers") == ""
    assert rig.recorder.reasons == []


async def test_the_file_of_a_paste_is_private_and_short_lived(rig: Rig, tmp_path: Path) -> None:
    pane = await rig.reader(tmp_path / "record")
    server = int(await rig.by_hand("display-message", "-p", "#{pid}"))
    os.kill(server, signal.SIGSTOP)
    paste = asyncio.create_task(rig.tmux.paste(pane, b"secret"))
    await asyncio.sleep(0)
    [folder] = rig.scratch.iterdir()
    [file] = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    os.kill(server, signal.SIGCONT)
    await paste
    assert list(rig.scratch.iterdir()) == []


async def test_a_scratch_folder_that_cannot_be_written_is_named(rig: Rig, tmp_path: Path) -> None:
    pane = await rig.reader(tmp_path / "record")
    rig.scratch.rmdir()
    with pytest.raises(TmuxCommandError, match=f"cannot be written to {rig.scratch}"):
        await rig.tmux.paste(pane, b"x")
