"""What every further agent must do in a real terminal: turns, questions, failures, and the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.models import TerminalStatus
from cli_agent_orchestrator.terminals.profiles import find_profile
from tests.agents.further import KINDS, Ground, Kind, ground_of
from tests.stubs.script import numbered_lines

pytestmark = [pytest.mark.agents, pytest.mark.tmux]

COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR
IDLE = TerminalStatus.IDLE


@pytest.fixture(params=KINDS, ids=str)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    kind: Kind = request.param
    with ground_of(kind, tmp_path) as ground:
        yield ground


async def test_turns_are_told_and_answers_read_back(ground: Ground) -> None:
    async with ground.agent() as agent:
        for turn, prompt in enumerate(["one", "two\n\nlines of it", "a long\n" * 200], start=1):
            message = f"{prompt} [[slow:1]][[answer:number {turn}]]"
            await agent.send(message)
            await agent.finished(turn)
            await agent.reached(COMPLETED)
            assert agent.statuses == [PROCESSING, COMPLETED], agent.told
            assert await agent.answer() == f"number {turn}"
            # One of them leaves a space behind a paste.
            assert [said.rstrip() for said in agent.stub.prompts[turn - 1 :]] == [message]


async def test_a_command_runs_and_its_turn_is_one_turn(ground: Ground) -> None:
    async with ground.agent() as agent:
        target = agent.work / "the answer.md"
        await agent.send(
            "Do it. [[respond:It's `done`, $HOME stays.]]\n\nRESPONSE FILE INSTRUCTION\n"
            f"Run this:\ncat > '{target}' <<'CAO_RESPONSE_END'\n"
            "<your complete final response>\nCAO_RESPONSE_END"
        )
        await agent.finished(1)
        await agent.reached(COMPLETED)
        assert agent.statuses == [PROCESSING, COMPLETED], agent.told
    assert target.read_text(encoding="utf-8") == "It's `done`, $HOME stays.\n"


async def test_a_permission_is_waited_for(ground: Ground) -> None:
    async with ground.agent(permissions="ask") as agent:
        await agent.send("[[run:touch asked.txt]][[answer:made]]")
        await agent.reached(WAITING)
        assert COMPLETED not in agent.statuses
        await agent.asks()
        await agent.press("Enter")
        await agent.finished(1)
        await agent.reached(COMPLETED)
        assert (agent.work / "asked.txt").exists()


async def test_a_question_is_waited_for(ground: Ground) -> None:
    async with ground.agent() as agent:
        await agent.send("[[ask]][[answer:asked]]")
        await agent.reached(WAITING)
        assert COMPLETED not in agent.statuses
        await agent.asks()
        await agent.press("Enter")
        await agent.finished(1)
        await agent.reached(COMPLETED)
        assert await agent.answer() == "asked"


async def test_a_long_answer_is_read_back_whole(ground: Ground) -> None:
    async with ground.agent() as agent:
        await agent.send("[[lines:300]]")
        await agent.finished(1)
        await agent.reached(COMPLETED)
        lines = [line.strip() for line in (await agent.answer()).splitlines()]
    assert lines == numbered_lines(300).splitlines()


async def test_an_answer_that_quotes_every_sign_changes_nothing(ground: Ground) -> None:
    async with ground.agent() as agent:
        await agent.send("[[words]]")
        await agent.finished(1)
        await agent.reached(COMPLETED)
        assert agent.statuses[-1] is COMPLETED


async def test_a_refused_turn_is_an_error_and_the_next_one_works(ground: Ground) -> None:
    async with ground.agent() as agent:
        await agent.send(f"please [[http:{agent.kind.refusal}]]")
        await agent.reached(ERROR)
        await agent.send("again [[answer:better]]")
        await agent.finished(2)
        await agent.reached(COMPLETED)
        assert await agent.answer() == "better"


async def test_a_turn_that_a_person_stops_is_at_rest(ground: Ground) -> None:
    async with ground.agent() as agent:
        await agent.send("[[hold:never]]")
        await agent.started(1)
        await agent.reached(PROCESSING)
        await agent.stop()
        await agent.reached(IDLE, COMPLETED)
        agent.stub.release("never")


async def test_the_profile_reaches_the_model(ground: Ground) -> None:
    if not ground.kind.has_profile:
        pytest.skip(f"nothing carries a profile to {ground.kind}")
    async with ground.agent() as agent:
        await agent.send("hello")
        await agent.finished(1)
        assert find_profile("tester", []).prompt.strip() in agent.stub.turns[0].system


async def test_an_agent_quits_when_it_is_asked_to(ground: Ground) -> None:
    async with ground.agent() as agent:
        await agent.send("hello")
        await agent.reached(COMPLETED)
        await agent.service.exit(agent.id)
        with pytest.raises(NotFound):
            agent.service.terminal(agent.id)
        assert agent.told[-1].kind == "removed"
