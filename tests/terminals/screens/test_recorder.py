"""Real terminals are recorded into the folder of their run."""

import logging
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import NewTerminal, Terminal, TerminalStatus
from cli_agent_orchestrator.runs.screens import (
    Cast,
    read_cast,
    recording_folder,
    roles_with_cast,
    screen_at,
)
from cli_agent_orchestrator.settings.layout import RECORD_FILE, run_folder
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.terminals.conftest import Ground
from tests.terminals.test_service import reached

pytestmark = pytest.mark.tmux

RUN = "20261115-084037-k3f9"


@pytest.fixture
def run(ground: Ground) -> Folder:
    folder = run_folder(ground.config.state_dir, RUN)
    folder.create(RECORD_FILE, b"{}")
    return folder


@asynccontextmanager
async def recording(ground: Ground) -> AsyncIterator[TerminalService]:
    """Run a service that records; its agents outlive it."""
    state = ground.config.state_dir
    service = TerminalService(ground.config, SystemClock(), partial(recording_folder, state))
    await service.start()
    try:
        yield service
    finally:
        await service.close()


def wanted(ground: Ground, role: str | None = "tester", record: bool = True) -> NewTerminal:
    return NewTerminal("scripted", "tester", str(ground.work), role=role, record=record)


async def answered(service: TerminalService, terminal: Terminal, message: str) -> str:
    """Let an agent answer a message; return what it shows at the end of that."""
    await service.send(terminal.id, message)
    await reached(service, terminal, TerminalStatus.COMPLETED)
    return sha256(message.encode()).hexdigest()


def cast_of(run: Folder, role: str = "tester") -> Cast:
    cast = read_cast(run, role)
    assert cast is not None
    return cast


def last_screen(run: Folder, role: str = "tester") -> str:
    cast = cast_of(run, role)
    return screen_at(cast, len(cast.frames))


@pytest.mark.parametrize("verb", ["delete", "exit"])
async def test_the_screens_of_a_terminal_are_kept_to_the_last(
    ground: Ground, run: Folder, verb: str
) -> None:
    async with recording(ground) as service:
        terminal = await service.create_session(wanted(ground), RUN)
        answer = await answered(service, terminal, "hello")
        await getattr(service, verb)(terminal.id)
    assert answer in last_screen(run)
    assert len(cast_of(run).frames) >= 2
    file = run.path / "replay/tester.cast"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


TIDY = r"""#!/bin/sh
stty raw -echo
printf '\342\226\242 ready\r\nscripted \342\235\257 '
head -c 2 > /dev/null
printf '\033[2J\033[H'
printf 'goodbye'
: > quit
"""
"""Shows an input box, and clears its screen when it is asked to quit."""


async def test_what_an_agent_clears_when_it_quits_is_kept(ground: Ground, run: Folder) -> None:
    program = ground.work / "tidy"
    program.write_text(TIDY, encoding="utf-8")
    program.chmod(0o755)
    environ = {**ground.config.environ, "CAO_SCRIPTED_COMMAND": str(program)}
    ground.config = replace(ground.config, environ=environ)
    async with recording(ground) as service:
        terminal = await service.create_session(wanted(ground), RUN)
        await service.exit(terminal.id)
    assert (ground.work / "quit").exists()
    assert "ready" in last_screen(run)
    assert "goodbye" not in last_screen(run)


async def test_another_server_goes_on_with_a_recording(ground: Ground, run: Folder) -> None:
    async with recording(ground) as service:
        terminal = await service.create_session(wanted(ground), RUN)
        await answered(service, terminal, "hello")
    file = run.path / "replay/tester.cast"
    with file.open("ab") as torn:
        torn.write(b'[7, "o", "\\u001b[1;')
    before = len(cast_of(run).frames)
    async with recording(ground) as service:
        answer = await answered(service, terminal, "and again")
        await service.delete(terminal.id)
    cast = cast_of(run)
    assert cast.frames[before].is_whole
    assert answer in last_screen(run)
    times = [frame.at for frame in cast.frames]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("role", "record", "session"),
    [
        ("tester", False, RUN),
        (None, True, RUN),
        ("Not-A-Role", True, RUN),
        ("tester", True, "mine"),
        ("tester", True, "20261115-084037-zzzz"),
    ],
)
async def test_only_agents_of_a_run_that_asked_for_it_are_recorded(
    ground: Ground, run: Folder, role: str | None, record: bool, session: str
) -> None:
    async with recording(ground) as service:
        terminal = await service.create_session(wanted(ground, role, record), session)
        await service.delete(terminal.id)
    assert roles_with_cast(run) == []
    assert [path.name for path in run.path.parent.iterdir()] == [RUN]


def link_file(run: Path, outside: Path) -> None:
    (run / "replay").mkdir()
    (run / "replay/tester.cast").symlink_to(outside / "file")


def link_folder(run: Path, outside: Path) -> None:
    (run / "replay").symlink_to(outside)


def second_name(run: Path, outside: Path) -> None:
    (run / "replay").mkdir()
    (run / "replay/tester.cast").hardlink_to(outside / "file")


def another_file(run: Path, outside: Path) -> None:
    (run / "replay").mkdir()
    (run / "replay/tester.cast").write_text("mine")


@pytest.mark.parametrize("trap", [link_file, link_folder, second_name, another_file])
async def test_nothing_else_is_written_to(
    ground: Ground,
    run: Folder,
    trap: Callable[[Path, Path], None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    trap(run.path, outside)
    async with recording(ground) as service:
        terminal = await service.create_session(wanted(ground), RUN)
        await answered(service, terminal, "hello")
        await service.delete(terminal.id)
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "mine"
    assert "its screens are not recorded" in caplog.text


async def test_a_run_that_is_removed_stays_so_and_its_agent_goes_on(
    ground: Ground, run: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with recording(ground) as service:
        terminal = await service.create_session(wanted(ground), RUN)
        await answered(service, terminal, "recorded")
        shutil.rmtree(run.path)
        await answered(service, terminal, "hello")
        await service.delete(terminal.id)
    assert not run.path.exists()
    assert caplog.messages == [f"{terminal.id}: its screens are not recorded: its file was removed"]
