"""Codex as people use it: with their own prompts, sessions, windows and keys beside ours."""

import asyncio
import time

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import InputRefused
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.agents.codex_modes import LIMITS, NARROW, begin_anew, resume_second
from tests.agents.driving import KINDS, PATIENCE, Ground, Kind
from tests.agents.test_turns import complete
from tests.stubs.script import numbered_lines

pytestmark = [pytest.mark.agents, pytest.mark.tmux]

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER

CODEXES = [kind for kind in KINDS if kind.agent == "codex"]
NEWEST = CODEXES[0]
OLDEST = CODEXES[-1]
STREAM = "[[slow:2]][[lines:20]]"
"""A turn whose screen looks finished as long as it streams."""
STREAMED = numbered_lines(20)


@pytest.fixture(params=CODEXES, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


only_newest = pytest.mark.parametrize("kind", [NEWEST], ids=str)
only_oldest = pytest.mark.parametrize("kind", [OLDEST], ids=str)


async def test_a_turn_that_a_person_began_is_followed_from_its_start(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.prompts(f"mine {STREAM}")
        await driven.shows("line 3 of 20")
        with pytest.raises(InputRefused):
            await driven.send("in the middle of it")
        await complete(driven, 1)
        assert await driven.last_answer() == STREAMED
        await driven.send(f"ours {STREAM}")
        await complete(driven, 2)
        assert len(driven.stub.prompts) == 2


@pytest.mark.parametrize("ours", [True, False], ids=["our prompt", "a person's prompt"])
async def test_a_new_session_is_followed(ground: Ground, ours: bool) -> None:
    async with ground.agent() as driven:
        await driven.send("[[answer:before]]")
        await complete(driven, 1)
        await begin_anew(driven)
        await (driven.send if ours else driven.prompts)(f"after {STREAM}")
        await complete(driven, 2)
        assert await driven.last_answer() == STREAMED
        explanation = driven.service.explain(driven.terminal.id)
        assert explanation.reason.startswith("session record"), explanation


@pytest.mark.parametrize("ours", [True, False], ids=["our prompt", "a person's prompt"])
async def test_a_session_that_is_resumed_is_followed(ground: Ground, ours: bool) -> None:
    async with ground.agent() as driven:
        await driven.send("the older one [[answer:before]]")
        await complete(driven, 1)
        await begin_anew(driven)
        await driven.send("the newer one [[answer:between]]")
        await complete(driven, 2)
        await resume_second(driven, "the older one")
        await driven.shows("• before")
        await (driven.send if ours else driven.prompts)(f"after {STREAM}")
        await complete(driven, 3)
        assert await driven.last_answer() == STREAMED
        assert "the older one [[answer:before]]" in driven.stub.prompts


async def test_a_compaction_is_work_and_the_next_turn_is_followed(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.send("[[answer:before]]")
        await complete(driven, 1)
        asked = time.monotonic()
        await driven.prompts("/compact")
        begun = await driven.reached(PROCESSING, after=asked)
        await driven.reached(COMPLETED, after=begun.at)
        await driven.send(f"after {STREAM}")
        end = await driven.answered(f"after {STREAM}")
        await driven.reached(COMPLETED, after=end)
        assert await driven.last_answer() == STREAMED


async def test_a_turn_that_is_stopped_before_any_output_leaves_the_agent_idle(
    ground: Ground,
) -> None:
    async with ground.agent() as driven:
        await driven.send("[[answer:before]]")
        await complete(driven, 1)
        await driven.send("[[hold:never]]")
        await driven.started(2)
        await driven.shows("esc to interrupt")
        pressed = time.monotonic()
        await driven.keys("Escape")
        await driven.reached(IDLE, after=pressed)
        assert driven.told_since(pressed) == [IDLE]
        delivery = await driven.send(f"next {STREAM}")
        assert delivery.confirmed, delivery.detail
        await complete(driven, 3)


@pytest.mark.parametrize("turn", [1, 2])
async def test_a_turn_that_is_stopped_while_the_server_is_down_is_over(
    ground: Ground, turn: int
) -> None:
    async with ground.agent() as driven:
        for number in range(1, turn):
            await driven.send("[[answer:before]]")
            await complete(driven, number)
        await driven.send("[[hold:never]]")
        await driven.started(turn)
        await driven.shows("esc to interrupt")
        await driven.service.close()
        await driven.keys("Escape")
        await driven.sees_in_tmux(lambda screen: "Conversation interrupted" in screen)
        await driven.serve(TerminalService(ground.config("full"), SystemClock()))
        await driven.reached(IDLE, after=driven.served_at)
        assert driven.told_since(driven.served_at) == [IDLE]


@only_newest
async def test_a_sub_agents_question_is_told_although_the_turn_that_started_it_is_over(
    ground: Ground,
) -> None:
    async with ground.agent(permissions="ask") as driven:
        sub = "{{hold:sub}}{{escalate:touch ../sub.txt}}{{answer:The sub-agent is done.}}"
        await driven.send(
            f"[[background_helpers:{sub}]][[hold:main]][[answer:The main one is done.]]"
        )
        await driven.started(2)
        driven.stub.release("sub")
        await driven.asks()
        await driven.reached(WAITING)
        driven.stub.release("main")
        await driven.sees(lambda screen: "• The main one is done." in screen)
        await driven.sees(lambda screen: "Worked for" in screen)
        assert driven.told_since(0)[-1] is WAITING
        pressed = await driven.answer("y")
        await driven.reached(COMPLETED, after=pressed)
        assert COMPLETED not in driven.told_between(0, pressed)
    assert (ground.folder / "sub.txt").exists()


@only_newest
async def test_a_sub_agents_turns_are_not_those_of_the_agent(ground: Ground) -> None:
    async with ground.agent() as driven:
        prompt = (
            f"[[background_helpers:{{{{hold:sub}}}}{{{{answer:The sub-agent is done.}}}}]]{STREAM}"
        )
        await driven.send(prompt)
        end = await driven.answered(prompt)
        told = await driven.reached(COMPLETED, after=end)
        assert COMPLETED not in driven.told_between(0, end)
        driven.stub.release("sub")
        await driven.answered("[[agent:helper1]] [[hold:sub]][[answer:The sub-agent is done.]]")
        await driven.settles()
        assert driven.told_since(told.at) == [COMPLETED]
        await driven.send(f"next {STREAM}")
        await driven.reached(COMPLETED, after=await driven.answered(f"next {STREAM}"))
        assert await driven.last_answer() == STREAMED


async def test_a_permission_is_told_in_a_narrow_window(ground: Ground) -> None:
    async with ground.agent(permissions="ask") as driven:
        await driven.resize(*NARROW)
        await driven.send("[[escalate:touch ../asked.txt]][[answer:made]]")
        await driven.reached(WAITING)
        await driven.answer("y")
        end = await driven.finished(1)
        await driven.reached(COMPLETED, after=end)


async def test_a_question_is_told_in_a_narrow_window(ground: Ground) -> None:
    if ground.kind == OLDEST:
        pytest.skip("this version asks questions only while it plans")
    async with ground.agent() as driven:
        await driven.resize(*NARROW)
        await driven.send("[[ask]][[answer:asked]]")
        await driven.reached(WAITING)
        await driven.answer("Enter")
        end = await driven.finished(1)
        await driven.reached(COMPLETED, after=end)


async def test_a_background_terminal_does_not_keep_a_turn_from_its_end(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.send("[[background:sleep 600]][[answer:It runs.]]")
        await complete(driven, 1)
        await driven.shows("1 background terminal running")
        await driven.send(f"next {STREAM}")
        await complete(driven, 2)
        assert await driven.last_answer() == STREAMED


@only_oldest
async def test_a_silence_of_more_than_a_minute_does_not_end_a_turn(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.send("[[slow:66]][[answer:All.\n]]")
        await driven.shows("• All.")
        await asyncio.to_thread(driven.stub.wait_for_finish, 1, 2 * PATIENCE)
        await complete(driven, 1)
        assert await driven.last_answer() == "All."


LEADING = [
    "!ls is what I want",
    "/help me",
    "/compact",
    "#heading",
    "@ home",
    "$ x",
    "? what",
    " !x",
]


async def test_a_message_is_a_text_whatever_it_begins_with(ground: Ground) -> None:
    async with ground.agent() as driven:
        for number, message in enumerate(LEADING, start=1):
            delivery = await driven.send(message)
            assert delivery.confirmed, (message, delivery.detail)
            await complete(driven, number)
        taken = [prompt.strip(" \u2800") for prompt in driven.stub.prompts]
        assert taken == [message.strip() for message in LEADING]


async def test_what_a_person_left_in_the_box_is_refused_and_can_be_cleared(ground: Ground) -> None:
    async with ground.agent() as driven:
        await driven.send("[[answer:before]]")
        await complete(driven, 1)
        for left in ("!echo left", "/nosuch command"):
            await driven.keys(*(letter if letter != " " else "Space" for letter in left))
            await driven.shows(left[1:])
            await driven.settles()
            if left.startswith("/"):
                await driven.keys("Enter")
                await driven.shows("Unrecognized command")
            with pytest.raises(InputRefused, match="unsent text"):
                await driven.send("ours")
            await driven.keys(*get_provider("codex").clear_keys)
            await driven.hides(left[1:])
        await driven.send("after [[answer:fine]]")
        await complete(driven, 2)
        assert driven.stub.prompts[-1] == "after [[answer:fine]]"


@pytest.mark.parametrize("asked", [False, True], ids=["switched off", "asked all the same"])
async def test_a_limit_that_comes_near_stops_nothing(ground: Ground, asked: bool) -> None:
    if asked:
        ground.more_args = ("-c", "notice.hide_rate_limit_model_nudge=false")
    async with ground.agent() as driven:
        driven.stub.headers.update(LIMITS)
        await driven.send("[[answer:near the limit]]")
        end = await driven.finished(1)
        await driven.reached(COMPLETED, after=end)
        if asked:
            waiting = await driven.reached(WAITING, after=end)
            await driven.reached(COMPLETED, after=waiting.at)
        await driven.settles()
        assert driven.told_since(0)[-1] is COMPLETED
        assert asked or WAITING not in driven.told_since(0)
        delivery = await driven.send("next [[answer:goes on]]")
        assert delivery.confirmed, delivery.detail
        await complete(driven, 2)
