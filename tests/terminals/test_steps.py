"""A step: one agent, one message, one answer, and nothing left behind."""

import asyncio
import os
import signal

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import NewTerminal, Session, Step, TerminalStatus
from cli_agent_orchestrator.errors import InputRefused, StepFailed, StepTimeout, UsageError
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.terminals.conftest import Ground

pytestmark = pytest.mark.tmux

ANSWER = '[[rule]]\nanswer = "the answer is 42"\n'
PID = "#{?@cao_id,#{pane_pid},}"
NOTHING: tuple[list[Session], tuple[str, list[str]]] = ([], ("", []))
HANG = "[[rule]]\nmisbehave = { hang = true }\n"


def step(ground: Ground) -> Step:
    return Step(ground.new(), "what is it?")


async def working(service: TerminalService) -> str:
    """Wait until an agent works, and return the id of its terminal."""
    async with asyncio.timeout(60):
        async for event in service.subscribe():
            if event.status is TerminalStatus.PROCESSING:
                return event.terminal_id
    raise AssertionError


async def test_a_step_returns_the_answer_and_ends_the_agent_or_keeps_it(ground: Ground) -> None:
    async with ground.service(ANSWER) as service:
        done = await service.run_step(step(ground))
        assert (done.last_message.strip(), done.status) == (
            "the answer is 42",
            TerminalStatus.COMPLETED,
        )
        assert (service.sessions(), ground.traces()) == NOTHING
        kept = replace(step(ground), keep=True, session_name="shop")
        both = await asyncio.gather(*(service.run_step(kept) for _ in range(2)))
        third = await service.run_step(kept)
        [session] = service.sessions()
        assert session.name == "cao-shop"
        assert {t.id for t in session.terminals} == {one.terminal_id for one in (*both, third)}


async def test_a_step_that_ends_without_an_answer_says_why_and_leaves_nothing(
    ground: Ground,
) -> None:
    async with ground.service(HANG) as service:
        with pytest.raises(StepTimeout, match=r"processing after 0\.5 seconds"):
            await service.run_step(replace(step(ground), seconds=0.5, keep=True))
        assert (service.sessions(), ground.traces()) == NOTHING

        dies = asyncio.create_task(service.run_step(step(ground)))
        await working(service)
        os.kill(int(ground.tmux("list-panes", "-t", "=cao-hub:", "-s", "-F", PID).strip()), 9)
        with pytest.raises(StepFailed, match="scripted gave no answer"):
            await dies
        assert (service.sessions(), ground.traces()) == NOTHING

        deleted = asyncio.create_task(service.run_step(step(ground)))
        await service.delete(await working(service))
        with pytest.raises(StepFailed):
            await deleted
        assert (service.sessions(), ground.traces()) == NOTHING

        given_up = asyncio.create_task(service.run_step(step(ground)))
        await working(service)
        # Also while its agent is being ended.
        while not given_up.done():
            given_up.cancel()
            await asyncio.sleep(0)
    assert ground.tmux("list-panes", "-a") == ""
    async with ground.service() as service:
        assert service.sessions() == []


async def test_a_step_is_over_in_time_though_tmux_stands_still(ground: Ground) -> None:
    async with ground.service(HANG) as service:
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


async def test_a_step_without_a_prompt_is_refused_before_anything_else(ground: Ground) -> None:
    async with ground.service() as service:
        for prompt in ("", " \n", "\x1b"):
            with pytest.raises(UsageError, match="empty"):
                await service.run_step(Step(NewTerminal("nonesuch", "tester"), prompt))
