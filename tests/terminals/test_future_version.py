"""An agent of a version that nobody has tried: what is not recognized is never called idle."""

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import NewTerminal, OutputMode, TerminalStatus
from cli_agent_orchestrator.errors import InputRefused, StartError
from tests.future_codex import IDLE_LOOK, NEW_LOOK, SIGN_IN_LOOK, write_future_codex
from tests.terminals.conftest import Ground
from tests.terminals.test_service import reached

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


async def test_one_that_draws_nothing_is_not_started_and_nothing_is_left(ground: Ground) -> None:
    new = install(ground, "")
    ground.config = replace(ground.config, start_seconds=1)
    async with ground.service() as service:
        with pytest.raises(StartError, match=r"screen is empty.*`cao doctor`.* CAO_START_SECONDS"):
            await service.create_session(new)
        assert ground.traces() == ("", [])


async def test_one_that_changes_its_look_is_unknown_and_no_message_is_typed_into_it(
    ground: Ground,
) -> None:
    new = install(ground, IDLE_LOOK, NEW_LOOK)
    async with ground.service() as service:
        terminal = await service.create_session(new)
        assert terminal.status is IDLE
        await service.press(terminal.id, "Enter")
        await reached(service, terminal, UNKNOWN)
        with pytest.raises(InputRefused, match="may be a draft"):
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
