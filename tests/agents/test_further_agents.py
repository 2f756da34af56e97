"""What every further agent must do in a real terminal: turns, questions, failures, and the end."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import InputRefused, NotFound
from cli_agent_orchestrator.terminals.launch import find_profile
from tests.agents.driving import FURTHER_KINDS, Driven, Ground, Kind, ground_of
from tests.stubs.script import numbered_lines

pytestmark = [pytest.mark.agents, pytest.mark.tmux]

COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR
IDLE = TerminalStatus.IDLE


@pytest.fixture(params=FURTHER_KINDS, ids=str)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    kind: Kind = request.param
    with ground_of(kind, tmp_path) as ground:
        yield ground


async def send(agent: Driven, message: str) -> float:
    """Send a message, see it confirmed, and return from when on its turn is told."""
    begun = time.monotonic()
    delivery = await agent.send(message)
    assert delivery.confirmed, delivery.detail
    return begun


async def complete(agent: Driven, turn: int) -> None:
    """Wait until a turn is over and told to be."""
    end = await agent.finished(turn)
    await agent.reached(COMPLETED, after=end)


async def test_turns_are_told_and_answers_read_back(ground: Ground) -> None:
    async with ground.agent() as agent:
        for turn, prompt in enumerate(["one", "two\n\nlines of it", "a long\n" * 200], start=1):
            message = f"{prompt} [[slow:1]][[answer:number {turn}]]"
            begun = await send(agent, message)
            await complete(agent, turn)
            assert agent.told_since(begun) == [PROCESSING, COMPLETED], agent.seen
            assert await agent.last_answer() == f"number {turn}"
            # One of them leaves a space behind a paste.
            assert [said.rstrip() for said in agent.stub.prompts[turn - 1 :]] == [message]


LEADING = [
    # Right after the start, when it may not listen for pastes yet.
    "Look! touch ran.txt",
    "!touch ran.txt",
    " !touch ran.txt",
    "/help me",
    "/compact",
    "#heading",
    "@ home",
    "? what",
    "$ x",
]


async def test_a_message_is_a_text_whatever_it_begins_with(ground: Ground) -> None:
    async with ground.agent() as agent:
        for turn, message in enumerate(LEADING, start=1):
            await send(agent, message)
            await complete(agent, turn)
        taken = [prompt.strip(" \u2800") for prompt in agent.stub.prompts]
        assert taken == [message.strip() for message in LEADING]
        assert not (agent.work / "ran.txt").exists()


async def test_a_shell_that_a_person_has_opened_is_not_typed_into(ground: Ground) -> None:
    async with ground.agent() as agent:
        await agent.settles()
        await agent.keys("!")
        await agent.settles()
        with pytest.raises(InputRefused):
            await agent.send("touch ran.txt")
        await agent.keys("Escape")
        await agent.settles()
        await send(agent, "[[answer:fine]]")
        await complete(agent, 1)
        assert not (agent.work / "ran.txt").exists()


async def test_a_command_runs_and_its_turn_is_one_turn(ground: Ground) -> None:
    async with ground.agent() as agent:
        target = agent.work / "the answer.md"
        begun = await send(
            agent,
            "Do it. [[respond:It's `done`, $HOME stays.]]\n\nRESPONSE FILE INSTRUCTION\n"
            f"Run this:\ncat > '{target}' <<'CAO_RESPONSE_END'\n"
            "<your complete final response>\nCAO_RESPONSE_END",
        )
        await complete(agent, 1)
        assert agent.told_since(begun) == [PROCESSING, COMPLETED], agent.seen
    assert target.read_text(encoding="utf-8") == "It's `done`, $HOME stays.\n"


async def test_a_permission_is_waited_for(ground: Ground) -> None:
    async with ground.agent(permissions="ask") as agent:
        begun = await send(agent, "[[run:touch asked.txt]][[answer:made]]")
        await agent.reached(WAITING)
        assert COMPLETED not in agent.told_since(begun)
        await agent.answer(agent.kind.manners.allow)
        await complete(agent, 1)
        assert (agent.work / "asked.txt").exists()


async def test_a_question_is_waited_for(ground: Ground) -> None:
    async with ground.agent() as agent:
        begun = await send(agent, "[[ask]][[answer:asked]]")
        await agent.reached(WAITING)
        assert COMPLETED not in agent.told_since(begun)
        await agent.answer("Enter")
        await complete(agent, 1)
        assert await agent.last_answer() == "asked"


async def test_a_long_answer_is_read_back_whole(ground: Ground) -> None:
    async with ground.agent() as agent:
        await send(agent, "[[lines:300]]")
        await complete(agent, 1)
        lines = [line.strip() for line in (await agent.last_answer()).splitlines()]
    assert lines == numbered_lines(300).splitlines()


async def test_an_answer_that_quotes_every_sign_changes_nothing(ground: Ground) -> None:
    async with ground.agent() as agent:
        begun = await send(agent, "[[words]]")
        await complete(agent, 1)
        assert agent.told_since(begun)[-1] is COMPLETED


async def test_a_refused_turn_is_an_error_and_the_next_one_works(ground: Ground) -> None:
    async with ground.agent() as agent:
        await send(agent, f"please [[http:{agent.kind.manners.refusal}]]")
        await agent.reached(ERROR)
        await send(agent, "again [[answer:better]]")
        await complete(agent, 2)
        assert await agent.last_answer() == "better"


async def test_a_turn_that_a_person_stops_is_at_rest(ground: Ground) -> None:
    async with ground.agent() as agent:
        await send(agent, "[[hold:never]]")
        await agent.started(1)
        await agent.reached(PROCESSING)
        stopped = await agent.stop()
        await agent.reached(IDLE, COMPLETED, after=stopped)
        agent.stub.release("never")


async def test_the_profile_reaches_the_model(ground: Ground) -> None:
    if not ground.kind.manners.has_profile:
        pytest.skip(f"nothing carries a profile to {ground.kind}")
    async with ground.agent() as agent:
        await send(agent, "hello")
        await agent.finished(1)
        assert find_profile("tester", []).prompt.strip() in agent.stub.turns[0].system


async def test_an_agent_quits_when_it_is_asked_to(ground: Ground) -> None:
    async with ground.agent() as agent:
        await send(agent, "hello")
        await agent.reached(COMPLETED)
        await agent.service.exit(agent.terminal.id)
        with pytest.raises(NotFound):
            agent.service.terminal(agent.terminal.id)
        assert agent.seen[-1].kind == "removed"
