"""What goes wrong at the worst moment, and what agents and clients do that nobody should."""

import asyncio
import os
from dataclasses import replace

import pytest

from cli_agent_orchestrator.core.models import NewTerminal
from cli_agent_orchestrator.errors import BadFolder, InputRefused, NotFound, StartError
from cli_agent_orchestrator.terminals.programs import members
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.terminals.conftest import Ground

pytestmark = pytest.mark.tmux

NEVER_READY = "start_delay = 600"


def new(ground: Ground) -> NewTerminal:
    return NewTerminal("scripted", "tester", str(ground.work))


def traces(ground: Ground) -> tuple[str, list[str]]:
    """Return what is left of terminals in tmux and among the event files."""
    windows = ground.tmux("list-panes", "-a", "-F", "#{@cao_id}")
    return windows.strip(), [file.name for file in (ground.config.state_dir / "events").iterdir()]


async def window_opened(ground: Ground) -> None:
    """Wait until an agent's window is there."""
    async with asyncio.timeout(60):
        while not traces(ground)[0]:
            await asyncio.sleep(0.02)


async def test_one_of_two_sessions_with_the_same_name_at_once_is_refused(
    service: TerminalService, ground: Ground
) -> None:
    both = await asyncio.gather(
        *(service.create_session(new(ground), "twin") for _ in range(2)), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in both) == ["Terminal", "UsageError"]
    [session] = service.sessions()
    assert len(session.terminals) == 1


async def test_deleting_a_session_ends_what_is_just_being_started_in_it(ground: Ground) -> None:
    ground.script(NEVER_READY)
    async with ground.service() as service:
        creation = asyncio.create_task(service.create_session(new(ground), "short"))
        await window_opened(ground)
        await service.delete_session("cao-short")
        with pytest.raises(StartError, match="deleted"):
            await creation
        assert traces(ground) == ("", [])
        with pytest.raises(NotFound):
            await service.delete_session("cao-short")


async def test_a_server_that_ends_while_an_agent_starts_leaves_nothing_behind(
    ground: Ground,
) -> None:
    ground.script(NEVER_READY)
    async with ground.service() as service:
        creation = asyncio.create_task(service.create_session(new(ground)))
        await window_opened(ground)
    await asyncio.wait([creation])
    assert creation.exception() is not None or creation.cancelled()
    assert traces(ground) == ("", [])


async def test_an_agent_that_makes_a_folder_of_its_event_file_can_be_deleted(
    ground: Ground,
) -> None:
    async with ground.service() as service:
        first = await service.create_session(new(ground))
        second = await service.create_session(new(ground))
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
        assert traces(ground)[1] == [f"{second.id}.jsonl"]


async def test_a_pipe_in_place_of_the_event_file_holds_nobody_up(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(new(ground))
    file = ground.config.state_dir / "events" / f"{terminal.id}.jsonl"
    file.unlink()
    os.mkfifo(file)
    assert (await service.create_session(new(ground))).alive


async def test_a_folder_that_no_system_has_is_a_bad_folder(
    service: TerminalService, ground: Ground
) -> None:
    for folder in ("/" + "a" * 300, "/tmp/\0", "/" + "/a" * 2000):
        with pytest.raises(BadFolder):
            await service.create_session(replace(new(ground), working_directory=folder))


async def test_exit_does_not_type_into_the_middle_of_a_message(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(new(ground))
    message = asyncio.create_task(service.send(terminal.id, "x" * 400_000))
    await asyncio.sleep(0)
    await service.exit(terminal.id)
    assert (await message).confirmed
    assert service.sessions() == []


async def test_a_terminal_that_many_delete_at_once_is_gone_for_all_of_them(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(new(ground), "all")
    await asyncio.gather(
        service.delete(terminal.id),
        service.exit(terminal.id),
        service.delete_session("cao-all"),
        service.delete(terminal.id),
    )
    assert service.sessions() == []
    assert traces(ground) == ("", [])


async def test_a_key_for_a_window_that_has_just_been_closed_is_refused(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(new(ground), "closed")
    ground.tmux("kill-window", "-t", f"=cao-closed:={terminal.name}")
    with pytest.raises(InputRefused):
        await service.press(terminal.id, "Escape")


STUBBORN = """#!/bin/sh
[ "$1" = --version ] && exit
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
    program = ground.work / "stubborn"
    program.write_text(STUBBORN, encoding="utf-8")
    program.chmod(0o755)
    environ = {**ground.config.environ, "CAO_SCRIPTED_COMMAND": str(program)}
    ground.config = replace(ground.config, environ=environ)
    async with ground.service() as service:
        terminal = await service.create_session(new(ground))
        pids = [int((ground.work / name).read_text()) for name in ("own_group", "same_group")]
        [leader] = {os.getsid(pid) for pid in pids}
        assert {*pids, leader} <= {*members(leader)}
        await service.delete(terminal.id)
        async with asyncio.timeout(60):
            while members(leader):
                await asyncio.sleep(0.01)
