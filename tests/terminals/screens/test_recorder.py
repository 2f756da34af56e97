"""A real terminal is recorded into the folder of its run."""

from functools import partial

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.runs.screens import read_cast, recording_folder, screen_at
from cli_agent_orchestrator.settings.layout import RECORD_FILE, run_folder
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.terminals.conftest import Ground

pytestmark = pytest.mark.tmux

RUN = "20261115-084037-k3f9"
TIDY = r"""stty raw -echo
printf '\342\226\242 ready\r\nscripted \342\235\257 '
head -c 2 > /dev/null
printf '\033[2J\033[H'
printf 'goodbye'
: > quit
"""
"""Shows an input box, and clears its screen when it is asked to quit."""


async def test_what_an_agent_clears_when_it_quits_is_kept(ground: Ground) -> None:
    state = ground.config.state_dir
    run = run_folder(state, RUN)
    run.create(RECORD_FILE, b"{}")
    ground.program("scripted", TIDY)
    service = TerminalService(ground.config, SystemClock(), partial(recording_folder, state))
    await service.start()
    try:
        new = replace(ground.new(), role="tester", record=True)
        terminal = await service.create_session(new, RUN)
        await service.exit(terminal.id)
    finally:
        await service.close()
    assert (ground.work / "quit").exists()
    file = run.path / "replay/tester.cast"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    cast = read_cast(run, "tester")
    assert cast is not None
    last = screen_at(cast, len(cast.frames))
    assert "ready" in last
    assert "goodbye" not in last
