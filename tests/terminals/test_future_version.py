"""An agent of a version that nobody has tried: what is not recognized is never called idle."""

import asyncio
from dataclasses import replace

import pytest

from cli_agent_orchestrator.core.models import NewTerminal, OutputMode, Terminal, TerminalStatus
from cli_agent_orchestrator.errors import InputRefused, StartError
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.future_codex import IDLE_LOOK, NEW_LOOK, SIGN_IN_LOOK, write_future_codex
from tests.terminals.conftest import Ground

pytestmark = pytest.mark.tmux

IDLE = TerminalStatus.IDLE
UNKNOWN = TerminalStatus.UNKNOWN


def install(ground: Ground, *screens: str) -> NewTerminal:
    """Put a future Codex there, and return what starts it."""
    program = ground.work.parent / "codex"
    write_future_codex(program, *screens)
    environ = {**ground.config.environ, "CAO_CODEX_COMMAND": str(program)}
    ground.config = replace(ground.config, environ=environ)
    return NewTerminal("codex", "tester", str(ground.work))


async def reached(service: TerminalService, terminal: Terminal, status: TerminalStatus) -> None:
    """Wait on the event stream until the terminal has this status."""
    async with asyncio.timeout(60):
        async for event in service.subscribe():
            if event.terminal_id == terminal.id and event.status is status:
                return


async def test_one_whose_first_screen_is_unknown_is_not_started_and_nothing_is_left(
    ground: Ground,
) -> None:
    new = install(ground, NEW_LOOK)
    ground.config = replace(ground.config, start_seconds=4)
    async with ground.service() as service:
        with pytest.raises(StartError, match="after 4 seconds") as failed:
            await service.create_session(new)
        assert "matches nothing that is known" in failed.value.reason
        assert "cao doctor" in failed.value.reason
        assert "CAO_CODEX_COMMAND" in failed.value.reason
        assert "What shall we build today?" in failed.value.last_screen
        assert service.sessions() == []
        assert ground.tmux("list-panes", "-a", "-F", "#{@cao_id}").strip() == ""
        assert list((ground.config.state_dir / "events").iterdir()) == []


async def test_one_that_shows_nothing_at_all_is_said_to_show_nothing(ground: Ground) -> None:
    new = install(ground, "")
    ground.config = replace(ground.config, start_seconds=1)
    async with ground.service() as service:
        with pytest.raises(StartError, match=r"screen is empty.*CAO_START_SECONDS"):
            await service.create_session(new)


async def test_one_that_changes_its_look_is_unknown_and_nothing_is_typed_into_it(
    ground: Ground,
) -> None:
    new = install(ground, IDLE_LOOK, NEW_LOOK)
    async with ground.service() as service:
        terminal = await service.create_session(new)
        assert terminal.status is IDLE
        await service.press(terminal.id, "Enter")
        await reached(service, terminal, UNKNOWN)
        with pytest.raises(InputRefused, match="not recognized"):
            await service.send(terminal.id, "Fix the basket")
        assert "basket" not in await service.output(terminal.id, OutputMode.FULL)
        why = service.explain(terminal.id)
        assert why.status is UNKNOWN
        assert "matches nothing that is known" in why.reason


async def test_one_that_wants_a_sign_in_after_its_start_takes_no_message(ground: Ground) -> None:
    new = install(ground, IDLE_LOOK, SIGN_IN_LOOK)
    async with ground.service() as service:
        terminal = await service.create_session(new)
        await service.press(terminal.id, "Enter")
        await reached(service, terminal, TerminalStatus.WAITING_USER_ANSWER)
        with pytest.raises(StartError, match="codex login"):
            await service.send(terminal.id, "Fix the basket")
