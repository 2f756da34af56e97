"""What people do beside us: they type, open dialogs, stop what is under way."""

import asyncio
import itertools
import shlex
import time
from functools import partial

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import OutputMode, TerminalStatus
from cli_agent_orchestrator.errors import InputRefused
from cli_agent_orchestrator.providers import claude_code, get_provider
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.agents.accuracy.wild import LIMITS
from tests.agents.driving import DIFFERENT, PATIENCE, Driven, Ground, step

pytestmark = [pytest.mark.agents, pytest.mark.tmux]

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR

CODEXES = [kind for kind in DIFFERENT if kind.agent == "codex"]
CLAUDES = [kind for kind in DIFFERENT if kind.agent == "claude_code"]
of_each_codex = pytest.mark.parametrize("kind", CODEXES, ids=str)
of_each_claude = pytest.mark.parametrize("kind", CLAUDES, ids=str)
STEADY_SECONDS = 4.0
"""How long a status must not change: longer than any screen is waited for."""
DIALOGS = (
    ("/model", "/config", "/permissions", "/hooks", "/tasks", "/memory"),
    ("/help", "/export", "/status", "/theme", "C-o"),
)


async def stays(driven: Driven, status: TerminalStatus) -> None:
    """Check that a status is the present one and goes on to be."""
    since = time.monotonic()
    await asyncio.sleep(STEADY_SECONDS)
    assert driven.told_between(since, time.monotonic()) <= {status}, driven.seen[-8:]
    assert driven.seen[-1].status is status, driven.seen[-1]


@step("background work", CLAUDES)
async def test_a_shell_in_the_background_is_work_whatever_a_person_types_meanwhile(
    ground: Ground,
) -> None:
    if ground.kind.agent != "claude_code":
        pytest.skip("it has no work in the background")
    gate = ground.folder / "gate"
    wait = f"while [ ! -e {shlex.quote(str(gate))} ]; do sleep 0.1; done"
    async with ground.agent(permissions="ask") as driven:
        await driven.send(f"[[background:{wait}]][[answer:I wait for it.]]")
        await driven.finished(1)
        await driven.shows("1 shell")
        for typed in ("a draft", "!ls", "?", "/mo"):
            await driven.keys(*typed)
            await stays(driven, PROCESSING)
            await driven.keys("C-u", "BSpace")
        opened = time.monotonic()
        gate.touch()
        await driven.reached(COMPLETED, after=opened)
        assert COMPLETED not in driven.told_between(0, opened)


@of_each_claude
async def test_a_shortening_that_a_person_stops_leaves_an_idle_agent(driven: Driven) -> None:
    typed = time.monotonic()
    await driven.prompts("/compact please [[hold:never]]")
    await driven.started(2)
    await driven.reached(PROCESSING, after=typed)
    pressed = await driven.stop()
    await driven.reached(IDLE, after=pressed)
    await stays(driven, IDLE)
    assert COMPLETED not in driven.told_since(pressed)


@of_each_claude
async def test_a_shortening_that_fails_leaves_an_agent_that_can_be_sent_the_next_message(
    driven: Driven,
) -> None:
    typed = time.monotonic()
    await driven.prompts("/compact please [[http:400]]")
    await driven.reached(PROCESSING, after=typed)
    await driven.reached(IDLE, ERROR, after=typed)
    await driven.settles()
    await driven.says("after [[answer:after]]")
    await driven.reached(COMPLETED, after=typed)


@pytest.mark.parametrize(
    ("kind", "dialogs"),
    [
        *itertools.product(CLAUDES, DIALOGS),
        # In the other version they open nothing.
        (CLAUDES[0], ("/resume",)),
        (CLAUDES[1], ("/agents",)),
    ],
    ids=str,
)
async def test_what_a_person_has_opened_waits_for_that_person(
    driven: Driven, dialogs: tuple[str, ...]
) -> None:
    for turn, opened in enumerate(dialogs, start=2):
        begun = time.monotonic()
        await (driven.prompts if opened.startswith("/") else driven.keys)(opened)
        await driven.reached(WAITING, after=begun)
        await stays(driven, WAITING)
        with pytest.raises(InputRefused):
            await driven.send("hello")
        async with asyncio.timeout(PATIENCE):
            while claude_code.draft(shown := await screen(driven)) is None:
                await driven.keys("Escape")
                await asyncio.sleep(1.0)
        assert "hello" not in shown, opened
        await driven.reached(COMPLETED, IDLE, after=begun)
        await driven.take(turn, f"next [[answer:after {opened}]]")


async def screen(driven: Driven) -> str:
    """Return what is to be seen now."""
    return await driven.service.output(driven.terminal.id, OutputMode.SCREEN)


def is_stopped(times: int, screen: str) -> bool:
    return screen.count("Conversation interrupted") == times


@of_each_codex
async def test_a_turn_that_is_stopped_while_the_server_is_down_is_over(ground: Ground) -> None:
    async with ground.agent() as driven:
        for times, turn in enumerate((1, 3), start=1):
            await driven.send(f"[[hold:never {turn}]]")
            await driven.started(turn)
            await driven.shows("esc to interrupt")
            await driven.service.close()
            await driven.keys("Escape")
            await driven.sees_in_tmux(partial(is_stopped, times))
            await driven.serve(TerminalService(ground.config("full"), SystemClock()))
            await driven.reached(IDLE, after=driven.served_at)
            assert driven.told_since(driven.served_at) == [IDLE]
            await driven.take(turn + 1, "[[answer:between]]")


@of_each_codex
async def test_what_a_person_left_in_the_box_is_refused_and_can_be_cleared(driven: Driven) -> None:
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
    await driven.take(2, "after [[answer:fine]]")
    assert driven.stub.prompts[-1] == "after [[answer:fine]]"


@of_each_codex
async def test_a_question_about_a_limit_that_comes_near_stops_nothing(ground: Ground) -> None:
    ground.more_args = ("-c", "notice.hide_rate_limit_model_nudge=false")
    async with ground.agent() as driven:
        driven.stub.headers.update(LIMITS)
        await driven.send("[[answer:near the limit]]")
        end = await driven.finished(1)
        waiting = await driven.reached(WAITING, after=end)
        await driven.reached(COMPLETED, after=waiting.at)
        await driven.settles()
        assert driven.told_since(0)[-1] is COMPLETED
        await driven.take(2, "next [[answer:goes on]]")
