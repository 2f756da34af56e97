"""What nobody knew when this was written is tried: boxes of agents that do not exist yet."""

import asyncio

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import NewTerminal, OutputMode, Terminal, TerminalStatus
from cli_agent_orchestrator.errors import InputRefused, StartError
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.terminals.boxes import KNOWN_LAYOUT, NEW_LAYOUT, box_program
from tests.terminals.conftest import Ground

pytestmark = pytest.mark.tmux


def install(ground: Ground, program: str) -> NewTerminal:
    path = ground.program("scripted", "")
    path.write_text(program, encoding="utf-8")
    return ground.new()


def taken(ground: Ground) -> list[str]:
    file = ground.work / "taken.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


async def reached(service: TerminalService, terminal: Terminal, status: TerminalStatus) -> None:
    async with asyncio.timeout(30):
        while service.terminal(terminal.id).status is not status:
            await asyncio.sleep(0.02)


async def shows(service: TerminalService, terminal_id: str, text: str) -> None:
    async with asyncio.timeout(30):
        while text not in await service.output(terminal_id, OutputMode.SCREEN):
            await asyncio.sleep(0.02)


async def test_a_new_placeholder_is_no_draft_and_a_persons_text_is(ground: Ground) -> None:
    new = install(ground, box_program(KNOWN_LAYOUT, "Try number @n of my hints"))
    async with ground.service() as service:
        terminal = await service.create_session(new)
        assert (await service.send(terminal.id, "one")).confirmed
        await reached(service, terminal, TerminalStatus.IDLE)
        # Another hint, which was not there at the start.
        assert (await service.send(terminal.id, "two")).confirmed
        await reached(service, terminal, TerminalStatus.IDLE)
        pane = f"={terminal.session_name}:={terminal.name}"
        ground.tmux("send-keys", "-t", pane, "-l", "half a thought")
        await shows(service, terminal.id, "half a thought")
        await reached(service, terminal, TerminalStatus.IDLE)
        with pytest.raises(InputRefused, match=r"unsent text .* half a thought"):
            await service.send(terminal.id, "three")
        assert "❯ half a thought\n" in await service.output(terminal.id, OutputMode.SCREEN) + "\n"
        ground.tmux("send-keys", "-t", pane, "C-u")
        await shows(service, terminal.id, "Try number")
        await reached(service, terminal, TerminalStatus.IDLE)
        assert (await service.send(terminal.id, "four")).confirmed
    assert taken(ground) == ["one", "two", "four"]


@pytest.mark.parametrize("placeholder", ["", "Describe it, @n of 9"])
async def test_an_unknown_box_is_tried_and_its_agent_known_by_rest(
    ground: Ground, placeholder: str
) -> None:
    new = install(ground, box_program(NEW_LAYOUT, placeholder))
    async with ground.service() as service:
        terminal = await service.create_session(new)
        assert terminal.status is TerminalStatus.IDLE
        for message in ("Fix the basket", "And the till " * 20):
            delivery = await service.send(terminal.id, message)
            assert (delivery.confirmed, delivery.enter_presses) == (True, 1), delivery
            assert "nothing else is known" in delivery.detail
            await reached(service, terminal, TerminalStatus.PROCESSING)
            await reached(service, terminal, TerminalStatus.COMPLETED)
        assert "has not changed" in service.explain(terminal.id).reason
    assert taken(ground) == ["Fix the basket", "And the till " * 20]


@pytest.mark.parametrize(
    ("look", "seconds", "reason"),
    [
        (NEW_LAYOUT, 9, r"(?s)takes no input.*F10 leave"),
        ("", 1, r"screen is empty.*`cao doctor`.* CAO_START_SECONDS"),
    ],
)
async def test_a_box_that_takes_no_input_fails_the_start_and_nothing_is_left(
    ground: Ground, look: str, seconds: int, reason: str
) -> None:
    new = install(ground, box_program(look, takes=False))
    ground.config = replace(ground.config, start_seconds=seconds)
    async with ground.service() as service:
        with pytest.raises(StartError, match=reason):
            await service.create_session(new)
        assert ground.traces() == ("", [])


# One that is recognized only while its box is tried is not known by rest.
@pytest.mark.parametrize("look", [KNOWN_LAYOUT, f"@said\nscripted ❯ @box@then{KNOWN_LAYOUT}"])
async def test_a_box_that_takes_no_input_any_more_is_refused(ground: Ground, look: str) -> None:
    new = install(ground, box_program(look))
    async with ground.service() as service:
        terminal = await service.create_session(new)
        await service.press(terminal.id, "Tab")
        await reached(service, terminal, TerminalStatus.UNKNOWN)
        with pytest.raises(InputRefused, match=r"takes no input.* Hello"):
            await service.send(terminal.id, "one")
