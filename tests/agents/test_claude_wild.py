"""Claude Code as people use it: sub-agents, background work, hooks, dialogs, commands."""

import asyncio
import time

import pytest

from cli_agent_orchestrator.core.models import OutputMode, TerminalStatus
from cli_agent_orchestrator.errors import InputRefused
from cli_agent_orchestrator.providers import claude_code
from tests.agents.claude_modes import (
    BACKGROUND_HELPER,
    DIALOGS,
    HELD,
    PARALLEL_HELPERS,
    add_objection,
    background_shell,
    helper_turns,
    helpers_finished,
)
from tests.agents.driving import KINDS, PATIENCE, Driven, Ground, Kind

pytestmark = [
    pytest.mark.agents,
    pytest.mark.tmux,
    pytest.mark.parametrize(
        "kind", [kind for kind in KINDS if kind.agent == "claude_code"], ids=str
    ),
]

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR

STEADY_SECONDS = 4.0
"""How long a status must not change: longer than any screen is waited for."""
LONG_WORK = 3 * PATIENCE
"""Upper limit for a turn of many steps on a machine that does other things besides."""
MARKED = ["!ls is what I want", "# A heading", "/help me", "/clear", "@nobody knows it", "!", "#"]


async def complete(driven: Driven, turn: int) -> float:
    """Wait for the end of a turn and for its being told; return when it was."""
    end = await driven.finished(turn)
    await driven.reached(COMPLETED, after=end)
    return end


async def screen(driven: Driven) -> str:
    """Return what is to be seen now."""
    return await driven.service.output(driven.terminal.id, OutputMode.SCREEN)


async def stays(driven: Driven, status: TerminalStatus) -> None:
    """Check that a status is the present one and goes on to be."""
    since = time.monotonic()
    await asyncio.sleep(STEADY_SECONDS)
    assert driven.told_between(since, time.monotonic()) <= {status}, driven.seen[-8:]
    assert driven.seen[-1].status is status, driven.seen[-1]


async def test_a_question_is_told_while_another_sub_agent_works(ground: Ground) -> None:
    async with ground.agent(permissions="ask") as driven:
        await driven.send(PARALLEL_HELPERS)
        asked = await driven.reached(WAITING)
        await asyncio.to_thread(
            driven.stub.ledger.wait_for,
            lambda ledger: max((turn.requests for turn in helper_turns(driven)), default=0) > 8,
            LONG_WORK,
        )
        assert set(driven.told_since(asked.at)) == {WAITING}, driven.seen
        pressed = await driven.answer(driven.kind.manners.allow)
        await driven.reached(PROCESSING, after=pressed)
        await helpers_finished(driven, 1, PATIENCE)
        await stays(driven, PROCESSING)
        driven.stub.release(HELD)
        end = await helpers_finished(driven, 2, PATIENCE)
        await driven.reached(COMPLETED, after=end)
        assert driven.told_between(pressed, end) <= {PROCESSING, WAITING}
    assert (ground.folder / "outside.txt").exists()


async def test_a_shell_in_the_background_is_work(ground: Ground) -> None:
    gate = ground.folder / "gate"
    async with ground.agent() as driven:
        await driven.send(background_shell(gate))
        await driven.finished(1)
        await driven.shows("1 shell")
        await stays(driven, PROCESSING)
        opened = time.monotonic()
        gate.touch()
        await driven.reached(COMPLETED, after=opened)
        assert COMPLETED not in driven.told_between(0, opened)


@pytest.mark.parametrize("typed", ["a draft", "!ls", "?", "/mo"])
async def test_a_shell_in_the_background_is_work_whatever_a_person_types_meanwhile(
    ground: Ground, typed: str
) -> None:
    gate = ground.folder / "gate"
    async with ground.agent(permissions="ask") as driven:
        await driven.send(background_shell(gate))
        await driven.finished(1)
        await driven.shows("1 shell")
        await driven.keys(*typed)
        await stays(driven, PROCESSING)
        await driven.keys("C-u", "BSpace")
        opened = time.monotonic()
        gate.touch()
        await driven.reached(COMPLETED, after=opened)
        assert COMPLETED not in driven.told_between(0, opened)


async def test_a_sub_agent_in_the_background_is_work(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.send(BACKGROUND_HELPER)
        await driven.finished(1)
        await stays(driven, PROCESSING)
        driven.stub.release(HELD)
        end = await helpers_finished(driven, 1, PATIENCE)
        await driven.reached(COMPLETED, after=end)
        assert COMPLETED not in driven.told_between(0, end)


async def test_a_turn_goes_on_that_a_hook_of_the_users_own_objects_to(ground: Ground) -> None:
    add_objection(ground)
    async with ground.agent() as driven:
        for turn, message in ((1, "[[answer:first]]"), (3, "[[answer:third]]")):
            await driven.send(message)
            await driven.started(turn)
            if turn == 1:
                await driven.started(2)
                await stays(driven, PROCESSING)
                driven.stub.release(HELD)
                assert COMPLETED not in {seen.status for seen in driven.seen}
                turn = 2
            await complete(driven, turn)
        assert await driven.last_answer() == "third"


async def test_a_turn_that_is_stopped_before_any_answer_leaves_an_idle_agent(
    ground: Ground,
) -> None:
    async with ground.agent() as driven:
        await driven.send("[[answer:older]]")
        await complete(driven, 1)
        sent = time.monotonic()
        await driven.send("[[hold:never]]")
        await driven.started(2)
        await driven.reached(PROCESSING, after=sent)
        pressed = await driven.stop()
        await driven.reached(IDLE, after=pressed)
        await stays(driven, IDLE)
        assert COMPLETED not in driven.told_since(pressed)
        delivery = await driven.send("next [[answer:newer]]")
        assert delivery.confirmed, delivery.detail
        await complete(driven, 3)


async def test_a_conversation_that_a_person_shortens_is_worked_on_until_it_is_short(
    ground: Ground,
) -> None:
    async with ground.agent() as driven:
        await driven.send("[[answer:before]]")
        await complete(driven, 1)
        typed = time.monotonic()
        await driven.prompts("/compact please [[hold:held]][[answer:A summary.]]")
        await driven.started(2)
        begun = (await driven.reached(PROCESSING, after=typed)).at
        await stays(driven, PROCESSING)
        driven.stub.release(HELD)
        end = await driven.finished(2)
        await driven.reached(IDLE, after=end)
        await stays(driven, IDLE)
        assert driven.told_between(begun, end) <= {PROCESSING}
        delivery = await driven.send("after [[answer:after]]")
        assert delivery.confirmed, delivery.detail
        await complete(driven, 3)


async def test_a_shortening_that_a_person_stops_leaves_an_idle_agent(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.send("[[answer:before]]")
        await complete(driven, 1)
        typed = time.monotonic()
        await driven.prompts("/compact please [[hold:never]]")
        await driven.started(2)
        await driven.reached(PROCESSING, after=typed)
        pressed = await driven.stop()
        await driven.reached(IDLE, after=pressed)
        await stays(driven, IDLE)
        assert COMPLETED not in driven.told_since(pressed)


async def test_a_shortening_that_fails_leaves_an_agent_that_can_be_sent_the_next_message(
    ground: Ground,
) -> None:
    async with ground.agent() as driven:
        await driven.send("[[answer:before]]")
        await complete(driven, 1)
        typed = time.monotonic()
        await driven.prompts("/compact please [[http:400]]")
        await driven.reached(PROCESSING, after=typed)
        await driven.reached(IDLE, ERROR, after=typed)
        await driven.settles()
        delivery = await driven.send("after [[answer:after]]")
        assert delivery.confirmed, delivery.detail
        await driven.reached(COMPLETED, after=typed)


async def test_a_conversation_that_a_person_clears_is_a_new_one(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.send("[[answer:before]]")
        await complete(driven, 1)
        typed = time.monotonic()
        await driven.prompts("/clear")
        await driven.reached(IDLE, after=typed)
        assert await driven.last_answer() == ""
        sent = time.monotonic()
        await driven.send("[[hold:never]]")
        await driven.started(2)
        await driven.reached(PROCESSING, after=sent)
        pressed = await driven.stop()
        await driven.reached(IDLE, after=pressed)
        await stays(driven, IDLE)


async def test_a_turn_of_a_person_who_prompts_first_is_told(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.prompts("mine [[hold:held]][[answer:yours]]")
        await driven.started(1)
        await driven.reached(PROCESSING)
        await stays(driven, PROCESSING)
        driven.stub.release(HELD)
        await complete(driven, 1)
        assert await driven.last_answer() == "yours"


async def test_a_message_is_text_whatever_it_begins_with(ground: Ground) -> None:
    async with ground.agent() as driven:
        for turn, message in enumerate(MARKED, 1):
            delivery = await driven.send(message)
            assert delivery.confirmed, (message, delivery.detail)
            await complete(driven, turn)
            assert driven.stub.prompts[-1].strip(" \u2800") == message
        assert len(driven.stub.prompts) == len(MARKED)


async def test_what_a_person_left_in_the_shell_of_the_agent_is_not_typed_over(
    ground: Ground,
) -> None:
    async with ground.agent() as driven:
        await driven.send("[[answer:before]]")
        await complete(driven, 1)
        await driven.keys("!")
        await driven.shows("! for ")
        with pytest.raises(InputRefused, match="unsent text"):
            await driven.send("hello")
        await driven.keys("BSpace")
        await driven.sees(lambda screen: "! for " not in screen)
        await driven.send("hello")
        await complete(driven, 2)


async def test_a_narrow_window_shows_enough(ground: Ground) -> None:
    gate = ground.folder / "gate"
    async with ground.agent(permissions="ask") as driven:
        await driven.resize(60, 20)
        await driven.send("[[escalate:touch ../asked.txt]][[answer:made]]")
        await driven.asks()
        await driven.reached(WAITING)
        await stays(driven, WAITING)
        await driven.answer(driven.kind.manners.allow)
        await complete(driven, 1)
        sent = time.monotonic()
        await driven.send("[[ask]][[answer:asked]]")
        await driven.asks()
        await driven.reached(WAITING, after=sent)
        await stays(driven, WAITING)
        await driven.answer("Enter")
        await complete(driven, 2)
        await driven.send(background_shell(gate))
        await driven.finished(3)
        await stays(driven, PROCESSING)
        opened = time.monotonic()
        gate.touch()
        await driven.reached(COMPLETED, after=opened)


@pytest.mark.parametrize("opened", [*DIALOGS["2.1.325"], "/agents", "C-o"])
async def test_what_a_person_has_opened_waits_for_that_person(
    ground: Ground, kind: Kind, opened: str
) -> None:
    if opened not in (*DIALOGS[kind.version], "C-o"):
        pytest.skip("it opens nothing in this version")
    async with ground.agent() as driven:
        await driven.send("[[answer:before]]")
        await complete(driven, 1)
        begun = time.monotonic()
        if opened == "C-o":
            await driven.keys(opened)
        else:
            await driven.prompts(opened)
        await driven.reached(WAITING, after=begun)
        await stays(driven, WAITING)
        with pytest.raises(InputRefused):
            await driven.send("hello")
        async with asyncio.timeout(PATIENCE):
            while claude_code.draft(shown := await screen(driven)) is None:
                await driven.keys("Escape")
                await asyncio.sleep(1.0)
        assert "hello" not in shown
        await driven.reached(COMPLETED, IDLE, after=begun)
        delivery = await driven.send("next [[answer:after]]")
        assert delivery.confirmed, delivery.detail
        await complete(driven, 2)
