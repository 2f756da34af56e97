"""Lines that agents append to their files are read once each, as soon as they are complete."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.terminals.signals import MAX_LINE, SignalFiles


@pytest.fixture
async def files() -> AsyncIterator[SignalFiles]:
    signals = SignalFiles(SystemClock())
    yield signals
    signals.close()


class Lines:
    """Collects lines and lets a test wait for them."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[str] = asyncio.Queue()
        self.old: list[str] = []
        """Those that were there before."""

    def __call__(self, line: str, at: float, old: bool) -> None:
        self.queue.put_nowait(line)
        if old:
            self.old.append(line)

    async def next(self) -> str:
        async with asyncio.timeout(60):
            return await self.queue.get()


@pytest.mark.parametrize("only_new", [False, True])
async def test_lines_that_are_there_come_first_then_new_ones(
    files: SignalFiles, tmp_path: Path, only_new: bool
) -> None:
    path, lines = tmp_path / "events.jsonl", Lines()
    path.write_text("one\n")
    caught_up: list[bool] = []
    files.follow(path, lines, lambda: caught_up.append(True), only_new=only_new)
    assert caught_up == [True]
    with path.open("a") as file:
        file.write("two\nthree\n")
    there = [] if only_new else ["one"]
    for line in (*there, "two", "three"):
        assert await lines.next() == line
    assert lines.old == there
    assert caught_up == [True]
    # A file that was replaced is read from its beginning.
    (tmp_path / "new").write_text("short\n")
    (tmp_path / "new").rename(path)
    assert await lines.next() == "short"


async def test_a_line_in_pieces_is_read_when_it_is_complete(
    files: SignalFiles, tmp_path: Path
) -> None:
    path, lines = tmp_path / "events.jsonl", Lines()
    files.follow(path, lines)
    for piece in (b'{"a": "\xc3', b'\xa9"', b"}\n"):
        with path.open("ab") as file:
            file.write(piece)
        await asyncio.sleep(0)
    assert await lines.next() == '{"a": "é"}'
    assert lines.old == []


async def test_a_forgotten_file_is_left_alone(files: SignalFiles, tmp_path: Path) -> None:
    kept, forgotten = tmp_path / "kept", tmp_path / "forgotten"
    lines, other = Lines(), Lines()
    files.follow(kept, lines)
    files.follow(forgotten, other)
    files.forget(forgotten)
    forgotten.write_text("no\n")
    kept.write_text("yes\n")
    assert await lines.next() == "yes"
    assert other.queue.empty()
    files.forget(kept)


@pytest.mark.parametrize("kind", ["pipe", "endless device", "folder", "link to another file"])
async def test_what_is_no_plain_file_is_not_read_and_holds_nobody_up(
    files: SignalFiles, tmp_path: Path, kind: str
) -> None:
    path, other = tmp_path / "events.jsonl", tmp_path / "other.jsonl"
    (tmp_path / "secret").write_text("secret\n")
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "endless device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to(tmp_path / "secret")
    lines, others = Lines(), Lines()
    files.follow(path, lines)
    files.follow(other, others)
    other.write_text("hello\n")
    assert await others.next() == "hello"
    assert lines.queue.empty()


async def test_after_a_line_without_end_nothing_that_comes_later_is_skipped(
    files: SignalFiles, tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"x" * (MAX_LINE + 2_000_000) + b"\nnext\n")
    lines = Lines()
    files.follow(path, lines)
    assert await lines.next() == "next"
    with path.open("a") as file:
        file.write("later\nlast\n")
    assert await lines.next() == "later"
