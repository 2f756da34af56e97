"""A step: one agent, one message, one answer, and nothing left behind."""

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from cli_agent_orchestrator.core.models import NewTerminal, Step, TerminalStatus
from cli_agent_orchestrator.errors import (
    BadMessage,
    InputRefused,
    StepFailed,
    StepTimeout,
    UnknownName,
)
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.terminals.conftest import Ground

pytestmark = pytest.mark.tmux

ANSWER = '[[rule]]\nanswer = "the answer is 42"\n'
PID = "#{?@cao_id,#{pane_pid},}"
HANG = "[[rule]]\nmisbehave = { hang = true }\n"


def step(ground: Ground) -> Step:
    return Step(NewTerminal("scripted", "tester", str(ground.work)), "what is it?")


def left_behind(service: TerminalService, ground: Ground) -> tuple[int, str]:
    """Return the terminals that are known and the windows that are there."""
    windows = ground.tmux("list-panes", "-a", "-F", "#{@cao_id}").strip()
    return len(service.sessions()), windows


async def working(service: TerminalService) -> str:
    """Wait until an agent works, and return the id of its terminal."""
    async with asyncio.timeout(60):
        async for event in service.subscribe():
            if event.status is TerminalStatus.PROCESSING:
                return event.terminal_id
    raise AssertionError


async def test_a_step_returns_the_answer_and_ends_the_agent(ground: Ground) -> None:
    ground.script(ANSWER)
    async with ground.service() as service:
        done = await service.run_step(step(ground))
        assert (done.answer.strip(), done.status) == ("the answer is 42", TerminalStatus.COMPLETED)
        assert left_behind(service, ground) == (0, "")


@pytest.mark.parametrize("keep", [False, True])
async def test_what_a_killed_server_leaves_of_a_step_is_known_to_be_one_unless_it_stays(
    ground: Ground, keep: bool
) -> None:
    ground.script(HANG)
    async with ground.service() as service:
        running = asyncio.create_task(service.run_step(replace(step(ground), keep=keep)))
        terminal = await working(service)
        assert service._board.get(terminal).row.step is not keep
        running.cancel()


async def test_a_step_may_keep_its_agent_and_join_a_session(ground: Ground) -> None:
    ground.script(ANSWER)
    async with ground.service() as service:
        kept = replace(step(ground), keep=True, session_name="shop")
        first = await service.run_step(kept)
        second = await service.run_step(kept)
        [session] = service.sessions()
        assert session.name == "cao-shop"
        assert {t.id for t in session.terminals} == {first.terminal_id, second.terminal_id}


async def test_steps_that_begin_together_share_the_session_that_they_name(ground: Ground) -> None:
    ground.script(ANSWER)
    async with ground.service() as service:
        kept = replace(step(ground), keep=True, session_name="shop")
        done = await asyncio.gather(*(service.run_step(kept) for _ in range(3)))
        [session] = service.sessions()
        assert session.name == "cao-shop"
        assert {t.id for t in session.terminals} == {one.terminal_id for one in done}


async def test_a_step_that_takes_too_long_is_ended(ground: Ground) -> None:
    ground.script(HANG)
    async with ground.service() as service:
        with pytest.raises(StepTimeout, match=r"processing after 0\.5 seconds"):
            await service.run_step(replace(step(ground), seconds=0.5, keep=True))
        assert left_behind(service, ground) == (0, "")


async def test_a_step_is_over_in_time_though_tmux_stands_still(ground: Ground) -> None:
    ground.script(HANG)
    async with ground.service() as service:
        server = int(ground.tmux("display-message", "-p", "#{pid}"))
        running = asyncio.create_task(service.run_step(replace(step(ground), seconds=2)))
        terminal = await working(service)
        with pytest.raises(InputRefused):
            await service.send(terminal, "after the prompt was sent")
        os.kill(server, signal.SIGSTOP)
        try:
            with pytest.raises(StepTimeout):
                await running
            assert service.terminal(terminal).id == terminal  # is still being ended
        finally:
            os.kill(server, signal.SIGCONT)
    assert ground.tmux("list-panes", "-a") == ""


async def test_a_step_that_nobody_waits_for_any_more_is_ended(ground: Ground) -> None:
    ground.script(HANG)
    async with ground.service() as service:
        running = asyncio.create_task(service.run_step(step(ground)))
        await working(service)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert left_behind(service, ground) == (0, "")


async def test_a_step_given_up_while_its_agent_is_being_ended_leaves_nothing(
    ground: Ground,
) -> None:
    ground.script(HANG)
    async with ground.service() as service:
        running = asyncio.create_task(service.run_step(step(ground)))
        await working(service)
        while not running.done():
            running.cancel()
            await asyncio.sleep(0)
    assert ground.tmux("list-panes", "-a") == ""
    async with ground.service() as service:
        assert service.sessions() == []


async def test_a_service_that_closes_ends_the_agents_of_steps(ground: Ground) -> None:
    ground.script(HANG)
    async with ground.service() as service:
        stays = await service.create_session(step(ground).new)
        running = asyncio.create_task(service.run_step(step(ground)))
        await working(service)
    assert running.cancelled()
    async with ground.service() as service:
        assert [t.id for s in service.sessions() for t in s.terminals] == [stays.id]


async def test_a_step_whose_agent_dies_says_so(ground: Ground) -> None:
    ground.script(HANG)
    async with ground.service() as service:
        running = asyncio.create_task(service.run_step(step(ground)))
        await working(service)
        os.kill(int(ground.tmux("list-panes", "-t", "=cao-hub:", "-s", "-F", PID).strip()), 9)
        with pytest.raises(StepFailed, match="scripted gave no answer"):
            await running
        assert left_behind(service, ground) == (0, "")


async def test_a_step_whose_terminal_is_deleted_ends(ground: Ground) -> None:
    ground.script(HANG)
    async with ground.service() as service:
        running = asyncio.create_task(service.run_step(step(ground)))
        await service.delete(await working(service))
        with pytest.raises(StepFailed):
            await running
        assert left_behind(service, ground) == (0, "")


async def test_a_step_of_an_unknown_agent_starts_nothing(ground: Ground) -> None:
    async with ground.service() as service:
        with pytest.raises(UnknownName):
            await service.run_step(Step(NewTerminal("nonesuch", "tester"), "x"))
        assert left_behind(service, ground) == (0, "")


async def test_a_step_without_a_prompt_is_refused_before_anything_else(ground: Ground) -> None:
    async with ground.service() as service:
        for prompt in ("", " \n", "\x1b"):
            with pytest.raises(BadMessage, match="empty"):
                await service.run_step(Step(NewTerminal("nonesuch", "tester"), prompt))
