"""Turns of every kind with real agents: what is told about them is what the model did."""

import asyncio

import pytest

from cli_agent_orchestrator.core.models import NewTerminal, TerminalStatus
from cli_agent_orchestrator.terminals.launch import find_profile
from tests.agents.driving import Driven, Ground
from tests.stubs.script import numbered_lines

pytestmark = [pytest.mark.agents, pytest.mark.tmux]

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR

TROUBLES = ["http:401", "http:429", "http:500", "http:529", "limit", "fail", "cut"]


async def complete(driven: Driven, turn: int) -> None:
    """Wait for the end of a turn, and check that it was not told too early."""
    end = await driven.finished(turn)
    await driven.reached(COMPLETED, after=end)
    start = driven.stub.turns[turn - 1].started
    assert driven.told_between(start, end) <= {PROCESSING}


async def test_the_profile_reaches_the_model(ground: Ground) -> None:
    async with ground.agent(profile="tester") as driven:
        await driven.send("hello")
        await driven.finished(1)
        told = driven.stub.turns[0].system
    assert find_profile("tester", []).prompt.strip() in told


@pytest.mark.parametrize("term", [None, "dumb"])
async def test_it_starts_and_works_wherever_the_server_was_started(
    ground: Ground, term: str | None
) -> None:
    ground.term = term
    async with ground.agent() as driven:
        await driven.send("[[answer:here]]")
        await complete(driven, 1)


async def test_the_question_about_trusting_the_folder_is_passed(ground: Ground) -> None:
    ground.trusted = False
    async with ground.agent() as driven:
        assert driven.told_since(0) == [IDLE]
        await driven.send("[[answer:trusted]]")
        await complete(driven, 1)


@pytest.mark.parametrize("size", [1, 300, 999, 5_000, 200_000])
async def test_a_message_arrives_once_and_exactly(ground: Ground, size: int) -> None:
    message = ground.kind.hard_text(size)
    async with ground.agent() as driven:
        delivery = await driven.send(message)
        assert delivery.confirmed, delivery.detail
        await complete(driven, 1)
        assert driven.stub.prompts == [driven.as_taken(message)]


async def test_many_short_turns_are_all_told(ground: Ground) -> None:
    async with ground.agent() as driven:
        for turn in range(1, 9):
            delivery = await driven.send(f"turn {turn} [[answer:number {turn}]]")
            assert delivery.confirmed, delivery.detail
            await complete(driven, turn)
            assert await driven.last_answer() == f"number {turn}"
        assert len(driven.stub.prompts) == 8


async def test_a_long_answer_is_read_back_whole(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.send("[[lines:2000]]")
        await complete(driven, 1)
        assert await driven.last_answer() == numbered_lines(2000)


async def test_an_agent_that_streams_is_at_work(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.send("[[answer:The first part.\n\n]][[hold:gate]][[slow:1]][[words]]")
        await driven.shows("The first part.")
        driven.stub.release("gate")
        await complete(driven, 1)


async def test_an_agent_that_thinks_is_at_work(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.send("[[think:2]][[answer:thought about]]")
        await complete(driven, 1)


async def test_a_response_file_is_written_by_a_real_command(ground: Ground) -> None:
    async with ground.agent() as driven:
        target = driven.work / "the answer.md"
        await driven.send(
            "Do it. [[respond:It's `done`, $HOME stays.]]\n\nRESPONSE FILE INSTRUCTION\n"
            f"Run this:\ncat > '{target}' <<'CAO_RESPONSE_END'\n"
            "<your complete final response>\nCAO_RESPONSE_END"
        )
        await complete(driven, 1)
    assert target.read_text(encoding="utf-8") == "It's `done`, $HOME stays.\n"


async def test_a_permission_is_waited_for(ground: Ground) -> None:
    async with ground.agent(permissions="ask") as driven:
        await driven.send("[[escalate:touch ../asked.txt]][[answer:made]]")
        await driven.reached(WAITING)
        assert COMPLETED not in {seen.status for seen in driven.seen}
        await driven.answer(driven.kind.manners.allow)
        end = await driven.finished(1)
        await driven.reached(COMPLETED, after=end)
    assert (ground.folder / "asked.txt").exists()


async def test_a_question_is_waited_for(ground: Ground) -> None:
    if ground.kind.version == "0.101.0":
        pytest.skip("this version asks questions only while it plans")
    async with ground.agent() as driven:
        await driven.send("[[ask]][[answer:asked]]")
        await driven.reached(WAITING)
        assert COMPLETED not in {seen.status for seen in driven.seen}
        await driven.answer("Enter")
        end = await driven.finished(1)
        await driven.reached(COMPLETED, after=end)


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_failed_turn_is_an_error_and_the_next_one_works(
    ground: Ground, trouble: str
) -> None:
    async with ground.agent() as driven:
        await driven.send(f"please [[{trouble}]]")
        failed = await driven.reached(ERROR)
        assert COMPLETED not in {seen.status for seen in driven.seen}, failed
        delivery = await driven.send("again [[answer:better]]")
        assert delivery.confirmed, delivery.detail
        await complete(driven, 2)
        assert driven.stub.prompts[-1] == "again [[answer:better]]"


async def test_a_retry_is_work(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.send("[[http:500x1]][[answer:at last]]")
        await complete(driven, 1)
        assert driven.stub.turns[0].refusals == 1


@pytest.mark.parametrize("moment", ["before any answer", "in the answer", "in a command"])
async def test_an_interrupted_agent_is_at_rest_and_takes_the_next_turn(
    ground: Ground, moment: str
) -> None:
    script = {
        "before any answer": "[[hold:never]]",
        "in the answer": "[[answer:The first part.\n\n]][[hold:never]]",
        "in a command": "[[run:echo started; sleep 600]]",
    }[moment]
    async with ground.agent() as driven:
        await driven.send(f"{moment} {script}")
        await driven.started(1)
        if moment == "in the answer":
            await driven.shows("The first part.")
        await driven.reached(PROCESSING)
        pressed = await driven.stop()
        await driven.reached(IDLE, after=pressed)
        assert {seen.status for seen in driven.seen} <= {IDLE, PROCESSING}
        delivery = await driven.send("next [[answer:goes on]]")
        assert delivery.confirmed, delivery.detail
        await complete(driven, 2)
        assert driven.stub.prompts[-1] == "next [[answer:goes on]]"


async def test_an_explanation_names_the_evidence(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.send("[[answer:fine]]")
        await complete(driven, 1)
        explanation = driven.service.explain(driven.terminal.id)
        assert explanation.status is COMPLETED
        assert explanation.evidence, explanation.reason


async def test_two_agents_do_not_mix_their_messages(ground: Ground) -> None:
    async with ground.agent() as driven:
        first = driven.terminal
        new = NewTerminal(driven.kind.agent, "programmer", str(driven.work))
        second = await driven.service.create_terminal(first.session_name, new)
        sent = {
            first.id: "one " + ground.kind.hard_text(3_000),
            second.id: "two " + ground.kind.hard_text(4_000),
        }
        deliveries = await asyncio.gather(
            *(driven.service.send(terminal, message) for terminal, message in sent.items())
        )
        assert all(delivery.confirmed for delivery in deliveries)
        await driven.finished(2)
        expected = [driven.as_taken(message) for message in sent.values()]
        assert sorted(driven.stub.prompts) == sorted(expected)
