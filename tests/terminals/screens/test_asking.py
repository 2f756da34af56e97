"""What an agent asks is answered once, and by nothing that was meant for another question."""

import asyncio
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.models import (
    Choice,
    OutputMode,
    Question,
    Terminal,
    TerminalStatus,
)
from cli_agent_orchestrator.errors import InputRefused, QuestionGone, UnknownName
from cli_agent_orchestrator.terminals.screens import keys_for, question_of
from cli_agent_orchestrator.terminals.service import TerminalService
from cli_agent_orchestrator.terminals.tracker import Verdict
from tests.terminals.conftest import Ground
from tests.terminals.samples import live_terminal, screen
from tests.terminals.test_service import reached

ASKS = '[[rule]]\nmisbehave = { ask = "delete everything" }'
WAITING = TerminalStatus.WAITING_USER_ANSWER
COMPLETED = TerminalStatus.COMPLETED
SCREENS = Path(__file__).parents[2] / "providers/screens/codex/waiting_user_answer"
YES, NO = Choice("1", "Yes"), Choice("2", "No")


pytestmark = pytest.mark.tmux


async def ask(service: TerminalService, terminal: Terminal) -> Question:
    """Let an agent ask, and return the question when its screen shows it."""
    assert (await service.send(terminal.id, "work")).confirmed
    await reached(service, terminal, WAITING)
    async with asyncio.timeout(60):
        while not (question := asked(service, terminal)).choices:
            await anext(service.watch_screen(terminal.id))
    return question


def asked(service: TerminalService, terminal: Terminal) -> Question:
    question = service.question(terminal.id)
    assert question is not None
    return question


async def test_only_what_was_meant_for_a_question_answers_it(ground: Ground) -> None:
    async with ground.service(ASKS) as service:
        terminal = await service.create_session(ground.new())

        async def refused(key: str, fingerprint: str | None, reason: str) -> None:
            with pytest.raises((QuestionGone, InputRefused, UnknownName), match=reason):
                await service.answer(terminal.id, key, fingerprint=fingerprint)

        assert service.question(terminal.id) is None
        await refused("1", None, "it asks nothing now")
        first = await ask(service, terminal)
        assert first.text == "permission needed\ndelete everything"
        assert first.choices == (YES, NO)
        await refused("x", first.fingerprint, "key")
        await refused("1", "", "nothing was pressed")
        assert asked(service, terminal) == first
        # Whoever answers without a fingerprint answers it, too.
        assert await service.answer(terminal.id, "1", within=60)
        assert service.question(terminal.id) is None
        await reached(service, terminal, COMPLETED)

        second = await ask(service, terminal)
        assert (second.text, second.choices) == (first.text, first.choices)
        await refused("1", first.fingerprint, "was answered already; nothing was pressed")
        assert asked(service, terminal) == second
        assert await service.answer(terminal.id, "2", fingerprint=second.fingerprint, within=60)
        await reached(service, terminal, COMPLETED)

        third = await ask(service, terminal)
        await refused("1", first.fingerprint, "it was answered elsewhere, or has gone")
        # A key makes another question even if nothing is seen of it.
        await service.press(terminal.id, "C-l")
        await refused("1", third.fingerprint, "is not asked any more")
        assert not await service.answer(terminal.id, "C-l", within=0)
        last = asked(service, terminal).fingerprint
        # Of two at the same moment one answers.
        answers = (service.answer(terminal.id, "1", fingerprint=last, within=60) for _ in range(2))
        told = await asyncio.gather(*answers, return_exceptions=True)
        assert {type(one) for one in told} == {bool, QuestionGone}
        await reached(service, terminal, COMPLETED)
        # No key went into the input box.
        shown = await service.output(terminal.id, OutputMode.SCREEN)
        assert "Say what to do" in shown.rstrip().split("\n")[-1]


async def test_a_mark_that_was_moved_makes_another_question(ground: Ground) -> None:
    async with ground.service(ASKS) as service:
        terminal = await service.create_session(ground.new())
        stale = (await ask(service, terminal)).fingerprint
        # A person does that; the service is not told before this test waits for something.
        window = f"={terminal.session_name}:"
        ground.tmux("send-keys", "-t", window, "Down")
        while "▸ 2. No" not in ground.tmux("capture-pane", "-p", "-t", window):
            pass
        assert asked(service, terminal).fingerprint == stale
        with pytest.raises(QuestionGone, match="is not asked any more"):
            await service.answer(terminal.id, "Enter", fingerprint=stale)
        assert service.terminal(terminal.id).status is WAITING


async def test_a_question_of_an_earlier_server_is_another_one(ground: Ground) -> None:
    async with ground.service(ASKS) as service:
        terminal = await service.create_session(ground.new())
        stale = await ask(service, terminal)
    async with ground.service() as service:
        await reached(service, terminal, WAITING)
        with pytest.raises(QuestionGone):
            await service.answer(terminal.id, "1", fingerprint=stale.fingerprint)
        assert service.terminal(terminal.id).status is WAITING


@pytest.mark.parametrize(("key", "keys"), [("y", ["y", "Enter"]), ("Escape", ["Escape"])])
def test_what_is_answered_by_a_line_is_sent_off(key: str, keys: list[str]) -> None:
    live = live_terminal("kiro_cli")
    live.screen = screen("Allow this action? [y/n/t]:\n\n> \n")
    assert keys_for(live, key) == keys


@pytest.mark.parametrize(("case", "elsewhere"), [("login_dialog", True), ("hooks_dialog", False)])
def test_a_sign_in_is_said_to_be_done_elsewhere(case: str, elsewhere: bool) -> None:
    live = live_terminal("codex")
    live.screen = screen((SCREENS / f"0.149.1-{case}.txt").read_text())
    live.verdict = Verdict(WAITING, "screen: looks waiting user answer")
    question = question_of(live, "start")
    assert question is not None
    assert ("codex login" in question.advice) is elsewhere
