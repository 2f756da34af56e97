"""What goes wrong at the worst moment, and what agents and clients do that nobody should."""

import asyncio
import os

import pytest

from cli_agent_orchestrator.errors import BadFolder, InputRefused, NotFound, StartError
from cli_agent_orchestrator.terminals.launch import check_folder
from cli_agent_orchestrator.terminals.programs import members
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.terminals.conftest import Ground

pytestmark = pytest.mark.tmux

NEVER_READY = "start_delay = 600"


async def window_opened(ground: Ground) -> None:
    """Wait until an agent's window is there."""
    async with asyncio.timeout(60):
        while not ground.traces()[0]:
            await asyncio.sleep(0.02)


async def test_clients_that_do_the_same_at_once_do_not_disturb_each_other(
    service: TerminalService, ground: Ground
) -> None:
    both = await asyncio.gather(
        *(service.create_session(ground.new(), "twin") for _ in range(2)), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in both) == ["Terminal", "UsageError"]
    await service.create_terminal("cao-twin", ground.new())
    other = await service.create_session(ground.new(), "other")
    first, second = service.session("cao-twin").terminals
    # Nothing is typed into the middle of a message.
    message = asyncio.create_task(service.send(first.id, "x" * 400_000))
    await asyncio.sleep(0)
    await service.exit(first.id)
    assert (await message).confirmed
    await asyncio.gather(
        service.delete(second.id),
        service.exit(second.id),
        service.delete_session("cao-twin"),
        service.delete(second.id),
    )
    assert [session.name for session in service.sessions()] == ["cao-other"]
    assert ground.traces()[1] == [f"{other.id}.jsonl"]
    ground.tmux("kill-window", "-t", f"=cao-other:={other.name}")
    with pytest.raises(InputRefused):
        await service.press(other.id, "Escape")


async def test_deleting_a_session_ends_what_is_just_being_started_in_it(ground: Ground) -> None:
    async with ground.service(NEVER_READY) as service:
        creation = asyncio.create_task(service.create_session(ground.new(), "short"))
        await window_opened(ground)
        await service.delete_session("cao-short")
        with pytest.raises(StartError, match="deleted"):
            await creation
        assert ground.traces() == ("", [])
        with pytest.raises(NotFound):
            await service.delete_session("cao-short")


async def test_a_server_that_ends_while_an_agent_starts_leaves_nothing_behind(
    ground: Ground,
) -> None:
    async with ground.service(NEVER_READY) as service:
        creation = asyncio.create_task(service.create_session(ground.new()))
        await window_opened(ground)
    await asyncio.wait([creation])
    assert creation.exception() is not None or creation.cancelled()
    assert ground.traces() == ("", [])


async def test_an_agent_that_makes_a_folder_of_its_event_file_can_be_deleted(
    ground: Ground,
) -> None:
    async with ground.service() as service:
        first = await service.create_session(ground.new())
        second = await service.create_session(ground.new())
        for terminal in (first, second):
            file = ground.config.state_dir / "events" / f"{terminal.id}.jsonl"
            file.unlink()
            (file / "deep").mkdir(parents=True)
        assert (await service.send(first.id, "hello")).confirmed
        await service.delete(first.id)
        assert [session.name for session in service.sessions()] == [second.session_name]
    (ground.config.state_dir / "events" / "ffff.jsonl").mkdir()
    async with ground.service() as service:
        assert service.terminal(second.id).alive
        assert ground.traces()[1] == [f"{second.id}.jsonl"]


def test_a_folder_that_no_system_has_is_a_bad_folder() -> None:
    for folder in ("/" + "a" * 300, "/tmp/\0", "/" + "/a" * 2000):
        with pytest.raises(BadFolder):
            check_folder(folder)


STUBBORN = """[ "$1" = --version ] && exit
set -m
(trap "" HUP TERM; exec sleep 600) &
echo $! > own_group
set +m
(trap "" HUP TERM; exec sleep 600) &
echo $! > same_group
printf '\u25a2 ready\\nscripted \u276f '
exec cat
"""
"""Shows an input box, and runs two programs that ignore the end of their terminal."""


async def test_what_an_agent_runs_in_its_terminal_ends_with_it(ground: Ground) -> None:
    ground.program("scripted", STUBBORN)
    async with ground.service() as service:
        terminal = await service.create_session(ground.new())
        pids = [int((ground.work / name).read_text()) for name in ("own_group", "same_group")]
        [leader] = {os.getsid(pid) for pid in pids}
        assert {*pids, leader} <= {*members(leader)}
        await service.delete(terminal.id)
        async with asyncio.timeout(60):
            while members(leader):
                await asyncio.sleep(0.01)
