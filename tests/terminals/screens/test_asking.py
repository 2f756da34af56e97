"""What an agent asks is answered once, and by nothing that was meant for another question."""

import asyncio

import pytest

from cli_agent_orchestrator.core.models import (
    Choice,
    NewTerminal,
    OutputMode,
    Question,
    Terminal,
    TerminalStatus,
)
from cli_agent_orchestrator.errors import NotFound, QuestionGone, UnknownName
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.terminals.board import LiveTerminal
from cli_agent_orchestrator.terminals.screens import keys_for
from cli_agent_orchestrator.terminals.service import TerminalService
from cli_agent_orchestrator.terminals.store import TerminalRow
from cli_agent_orchestrator.terminals.tmux import PaneScreen
from tests.terminals.conftest import Ground
from tests.terminals.test_service import reached

ASKS = '[[rule]]\nmisbehave = { ask = "delete everything" }'
WAITING = TerminalStatus.WAITING_USER_ANSWER
COMPLETED = TerminalStatus.COMPLETED
YES, NO = Choice("1", "Yes"), Choice("2", "No")


async def asking(service: TerminalService, ground: Ground) -> Terminal:
    """Return the terminal of an agent that asks something."""
    terminal = await service.create_session(NewTerminal("scripted", "tester", str(ground.work)))
    assert service.question(terminal.id) is None
    await ask(service, terminal)
    return terminal


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


async def box(service: TerminalService, terminal: Terminal) -> str:
    """Return the row of the input box, where a key goes that answers nothing."""
    screen = await service.output(terminal.id, OutputMode.SCREEN)
    return screen.rstrip().split("\n")[-1]


pytestmark = pytest.mark.tmux


async def test_a_question_is_read_and_answered(ground: Ground) -> None:
    ground.script(ASKS)
    async with ground.service() as service:
        terminal = await asking(service, ground)
        question = asked(service, terminal)
        assert question.text == "permission needed\ndelete everything"
        assert question.choices == (YES, NO)
        assert asked(service, terminal) == question
        assert await service.answer(terminal.id, "1", fingerprint=question.fingerprint, within=60)
        assert service.question(terminal.id) is None
        with pytest.raises(QuestionGone, match="was answered already; nothing was pressed"):
            await service.answer(terminal.id, "2", fingerprint=question.fingerprint)
        await reached(service, terminal, COMPLETED)
        assert "Say what to do" in await box(service, terminal)


async def test_of_two_who_answer_at_once_one_does(ground: Ground) -> None:
    ground.script(ASKS)
    async with ground.service() as service:
        terminal = await asking(service, ground)
        meant = asked(service, terminal).fingerprint
        told = await asyncio.gather(
            *(service.answer(terminal.id, "1", fingerprint=meant, within=60) for _ in range(5)),
            return_exceptions=True,
        )
        assert told.count(True) == 1
        refused = [error for error in told if isinstance(error, QuestionGone)]
        assert len(refused) == 4
        assert all("answered already" in str(error) for error in refused)
        await reached(service, terminal, COMPLETED)
        assert "Say what to do" in await box(service, terminal)


async def test_the_same_words_asked_again_are_another_question(ground: Ground) -> None:
    ground.script(ASKS)
    async with ground.service() as service:
        terminal = await asking(service, ground)
        first = asked(service, terminal)
        # Whoever answers without a fingerprint answers it, too.
        assert await service.answer(terminal.id, "1", within=60)
        await reached(service, terminal, COMPLETED)
        again = await ask(service, terminal)
        assert (again.text, again.choices) == (first.text, first.choices)
        with pytest.raises(QuestionGone, match="was answered already"):
            await service.answer(terminal.id, "1", fingerprint=first.fingerprint)
        assert asked(service, terminal) == again
        assert await service.answer(terminal.id, "2", fingerprint=again.fingerprint, within=60)
        await reached(service, terminal, COMPLETED)
        last = await ask(service, terminal)
        with pytest.raises(
            QuestionGone,
            match="it was answered elsewhere, or has gone; nothing was pressed",
        ):
            await service.answer(terminal.id, "1", fingerprint=first.fingerprint)
        assert asked(service, terminal) == last


async def test_a_mark_that_was_moved_makes_another_question(ground: Ground) -> None:
    ground.script(ASKS)
    async with ground.service() as service:
        terminal = await asking(service, ground)
        stale = asked(service, terminal).fingerprint
        # A person does that; the service is not told before this test waits for something.
        window = f"={terminal.session_name}:"
        ground.tmux("send-keys", "-t", window, "Down")
        while "▸ 2. No" not in ground.tmux("capture-pane", "-p", "-t", window):
            pass
        assert asked(service, terminal).fingerprint == stale
        with pytest.raises(QuestionGone, match="is not asked any more"):
            await service.answer(terminal.id, "Enter", fingerprint=stale)
        assert service.terminal(terminal.id).status is WAITING


async def test_a_key_makes_another_question_even_if_nothing_is_seen_of_it(ground: Ground) -> None:
    ground.script(ASKS)
    async with ground.service() as service:
        terminal = await asking(service, ground)
        stale = asked(service, terminal).fingerprint
        await service.press(terminal.id, "C-l")
        with pytest.raises(QuestionGone, match="is not asked any more"):
            await service.answer(terminal.id, "1", fingerprint=stale)
        fresh = asked(service, terminal).fingerprint
        assert await service.answer(terminal.id, "1", fingerprint=fresh, within=60)


async def test_a_question_of_an_earlier_server_is_another_one(ground: Ground) -> None:
    ground.script(ASKS)
    async with ground.service() as service:
        terminal = await asking(service, ground)
        stale = asked(service, terminal)
    async with ground.service() as service:
        await reached(service, terminal, WAITING)
        with pytest.raises(QuestionGone):
            await service.answer(terminal.id, "1", fingerprint=stale.fingerprint)
        assert service.terminal(terminal.id).status is WAITING


async def test_what_cannot_be_an_answer_presses_nothing(ground: Ground) -> None:
    ground.script(ASKS)
    async with ground.service() as service:
        terminal = await asking(service, ground)
        question = asked(service, terminal)
        with pytest.raises(UnknownName):
            await service.answer(terminal.id, "x", fingerprint=question.fingerprint)
        with pytest.raises(QuestionGone):
            await service.answer(terminal.id, "1", fingerprint="")
        with pytest.raises(NotFound):
            service.question("nobody")
        assert asked(service, terminal) == question


@pytest.mark.parametrize(("key", "keys"), [("y", ["y", "Enter"]), ("Escape", ["Escape"])])
def test_what_is_answered_by_a_line_is_sent_off(key: str, keys: list[str]) -> None:
    row = TerminalRow("t1", "tester-1", "kiro_cli", "cao-s", "tester", "/", 1.0, ready=True)
    live = LiveTerminal(row, get_provider("kiro_cli"), last_active=1.0)
    live.screen = PaneScreen("%1", "Allow this action? [y/n/t]:\n\n> \n", "", in_mode=False)
    assert keys_for(live, key) == keys
