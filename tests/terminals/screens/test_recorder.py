"""Real terminals are recorded into the folder of their run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256

import pytest

from cli_agent_orchestrator.core.ansi import Cast
from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import NewTerminal, Terminal, TerminalStatus
from cli_agent_orchestrator.runs.screens import read_cast, recording_folder, screen_at
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


def wanted(ground: Ground) -> NewTerminal:
    return NewTerminal("scripted", "tester", str(ground.work), role="tester", record=True)


async def answered(service: TerminalService, terminal: Terminal, message: str) -> str:
    """Let an agent answer a message; return what it shows at the end of that."""
    await service.send(terminal.id, message)
    await reached(service, terminal, TerminalStatus.COMPLETED)
    return sha256(message.encode()).hexdigest()


def cast_of(run: Folder) -> Cast:
    cast = read_cast(run, "tester")
    assert cast is not None
    return cast


def last_screen(run: Folder) -> str:
    cast = cast_of(run)
    return screen_at(cast, len(cast.frames))


TIDY = r"""stty raw -echo
printf '\342\226\242 ready\r\nscripted \342\235\257 '
head -c 2 > /dev/null
printf '\033[2J\033[H'
printf 'goodbye'
: > quit
"""
"""Shows an input box, and clears its screen when it is asked to quit."""


async def test_what_an_agent_clears_when_it_quits_is_kept(ground: Ground, run: Folder) -> None:
    ground.program("scripted", TIDY)
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
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    cast = cast_of(run)
    assert cast.frames[before].is_whole
    assert answer in last_screen(run)
    times = [frame.at for frame in cast.frames]
    assert times == sorted(times)
