"""What becomes of a message, and of its key, when tmux fails at each step of the typing."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import Delivery, TerminalStatus
from cli_agent_orchestrator.errors import NotFound, TmuxCommandError, TmuxError, TmuxGone
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import AgentSignal, SignalKind
from cli_agent_orchestrator.terminals.board import Board, LiveTerminal
from cli_agent_orchestrator.terminals.courier import Courier, as_text
from cli_agent_orchestrator.terminals.store import TerminalRow, TerminalStore
from cli_agent_orchestrator.terminals.tmux import Address, PaneInfo, PaneScreen, Tmux
from cli_agent_orchestrator.terminals.tracker import SignalSource

ROW = TerminalRow("a1", "tester-1", "scripted", "cao-x", "tester", "/", 5.0, ready=True)


class FailingTmux(Tmux):
    """An agent at rest; tmux fails once, at one of the steps."""

    def __init__(self, board: Board) -> None:
        super().__init__(Address("none", {}), board)
        self.draft = ""
        self.pastes = 0
        self.marked = False
        self.look = "\u25a2 ready\nscripted \u276f {}\n"
        self.failures: dict[str, TmuxError] = {}
        self.swallows: Callable[[], None] | None = None
        """What happens when the next Enter gets lost."""

    def _fail(self, step: str) -> None:
        error = self.failures.pop(step, None)
        if error is not None:
            raise error

    async def read_ansi(self, pane: str, above: int = 0) -> str:
        self._fail("look")
        return self.look.format(self.draft)

    async def paste(self, pane: str, data: bytes, *, marked: bool = False) -> None:
        self._fail("paste")
        self.pastes += 1
        self.marked = marked
        self.draft = data.decode()

    async def press(self, pane: str, keys: Sequence[str]) -> None:
        self._fail("press")
        if self.swallows is None:
            self.draft = ""
        else:
            self.swallows()
            self.swallows = None


class Desk:
    """A courier with one terminal."""

    def __init__(self, store: TerminalStore) -> None:
        self.board = Board(SystemClock(), "start")
        self.tmux = FailingTmux(self.board)
        self.courier = Courier(self.tmux, store, self.board, lambda live: None)

    def add_terminal(self) -> LiveTerminal:
        live = self.board.add(ROW, get_provider("scripted"))
        self.board.opened(live, PaneInfo("%1", "@1", "cao-x", "n", "a1", 1, False, None))
        self.board.screen_changed(PaneScreen("%1", "\u25a2 ready\nscripted \u276f", "", False))
        return live


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TerminalStore]:
    store = TerminalStore(tmp_path)
    store.save(replace(ROW))
    yield store
    store.close()


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("look", TmuxGone("tmux went away")),
        ("look", TmuxCommandError("capture-pane", "no such pane")),
        ("paste", TmuxCommandError("load-buffer", "no space left")),
    ],
)
async def test_a_message_of_which_nothing_was_typed_can_be_sent_again_under_its_key(
    store: TerminalStore, step: str, error: TmuxError
) -> None:
    desk = Desk(store)
    live = desk.add_terminal()
    desk.tmux.failures[step] = error
    with pytest.raises(type(error)):
        await desk.courier.deliver(live, "hello", "key")
    assert not live.leftover
    assert (await desk.courier.deliver(live, "hello", "key")).confirmed
    assert desk.tmux.pastes == 1


@pytest.mark.parametrize(
    ("provider", "look", "marked"),
    [
        ("gemini_cli", "\u2500" * 10 + "\n > {}\n", True),
        ("scripted", "\u25a2 ready\nscripted \u276f {}\n", False),
    ],
)
async def test_a_paste_is_marked_for_an_agent_that_asks_for_marks_too_late(
    store: TerminalStore, provider: str, look: str, marked: bool
) -> None:
    desk = Desk(store)
    live = desk.add_terminal()
    live.provider = get_provider(provider)
    desk.tmux.look = look
    assert (await desk.courier.deliver(live, "hello", "key")).confirmed
    assert desk.tmux.marked is marked


async def test_an_earlier_message_is_no_sign_that_this_one_was_taken(store: TerminalStore) -> None:
    desk = Desk(store)
    live = desk.add_terminal()

    def swallow() -> None:
        desk.board.submitted(live, "an earlier message", desk.board.now())
        assert live.status is TerminalStatus.PROCESSING

    desk.tmux.swallows = swallow
    delivery = await desk.courier.deliver(live, "hello", None)
    assert (delivery.confirmed, delivery.enter_presses) == (True, 2)


async def lose(desk: Desk, live: LiveTerminal, step: str) -> Delivery:
    """Send a message of which nobody knows what became."""
    desk.tmux.failures[step] = TmuxGone("tmux went away")
    first = await desk.courier.deliver(live, "hello", "key")
    assert not first.confirmed
    assert "tmux went away" in first.detail
    return first


async def test_a_message_that_may_have_been_typed_is_unconfirmed_and_not_typed_again(
    store: TerminalStore,
) -> None:
    desk = Desk(store)
    live = desk.add_terminal()
    first = await lose(desk, live, "paste")
    assert await desk.courier.deliver(live, "hello", "key") == first
    assert desk.tmux.pastes == 0


async def test_a_message_that_is_still_in_the_box_is_typed_again_when_it_is_asked_about(
    store: TerminalStore,
) -> None:
    desk = Desk(store)
    live = desk.add_terminal()
    await lose(desk, live, "press")
    again = await desk.courier.deliver(live, "hello", "key")
    assert again.confirmed
    assert desk.tmux.pastes == 2
    assert await desk.courier.deliver(live, "hello", "key") == again
    assert desk.tmux.pastes == 2


@pytest.mark.parametrize("step", ["paste", "press"])
async def test_an_agent_that_tells_later_that_it_took_a_message_settles_it(
    store: TerminalStore, step: str
) -> None:
    desk = Desk(store)
    live = desk.add_terminal()
    await lose(desk, live, step)
    typed = desk.tmux.pastes
    taken = AgentSignal(SignalKind.SUBMITTED, "UserPromptSubmit")
    desk.board.signal(live, SignalSource.HOOK, taken, desk.board.now())
    assert await desk.courier.deliver(live, "hello", "key") == Delivery(True, "UserPromptSubmit")
    assert desk.tmux.pastes == typed


async def test_what_an_agent_told_before_does_not_settle_a_message(store: TerminalStore) -> None:
    desk = Desk(store)
    live = desk.add_terminal()
    taken = AgentSignal(SignalKind.SUBMITTED, "UserPromptSubmit")
    desk.board.signal(live, SignalSource.HOOK, taken, desk.board.now())
    desk.board.signal(
        live, SignalSource.HOOK, AgentSignal(SignalKind.FINISHED, "Stop"), desk.board.now()
    )
    first = await lose(desk, live, "paste")
    assert await desk.courier.deliver(live, "hello", "key") == first
    # Read again after a restart, all that it told looks new.
    live.heard = replace(live.heard, taken_at=desk.board.now())
    assert await desk.courier.deliver(live, "hello", "key") == first


@pytest.mark.parametrize("key", ["another key", None])
async def test_what_an_agent_tells_after_another_message_is_about_that_one(
    store: TerminalStore, key: str | None
) -> None:
    desk = Desk(store)
    live = desk.add_terminal()
    first = await lose(desk, live, "paste")
    assert (await desk.courier.deliver(live, "something else", key)).confirmed
    taken = AgentSignal(SignalKind.SUBMITTED, "UserPromptSubmit")
    desk.board.signal(live, SignalSource.HOOK, taken, desk.board.now())
    assert await desk.courier.deliver(live, "hello", "key") == first
    assert desk.tmux.pastes == 1


async def test_an_agent_at_work_has_taken_the_last_message(store: TerminalStore) -> None:
    desk = Desk(store)
    live = desk.add_terminal()
    await lose(desk, live, "paste")
    desk.board.screen_changed(PaneScreen("%1", "\u2596 working \u00b7 3s", "", False))
    again = await desk.courier.deliver(live, "hello", "key")
    assert again == Delivery(True, "the agent is working")


async def test_closing_waits_until_what_is_typed_is_noted_down(store: TerminalStore) -> None:
    desk = Desk(store)
    live = desk.add_terminal()
    request = asyncio.create_task(desk.courier.deliver(live, "hello", "key"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    request.cancel()
    await desk.courier.close()
    begun = store.delivery(ROW.id, "key")
    assert begun is not None
    assert begun.answer is not None
    await asyncio.wait([request])


async def test_a_message_that_waited_while_its_terminal_was_deleted_is_for_nobody(
    store: TerminalStore,
) -> None:
    desk = Desk(store)
    live = desk.add_terminal()
    async with live.typing:
        waiting = asyncio.create_task(desk.courier.deliver(live, "hello", "key"))
        await asyncio.sleep(0)
        desk.board.remove(live)
        store.remove(ROW.id)
    with pytest.raises(NotFound):
        await waiting
    assert desk.tmux.pastes == 0


@pytest.mark.parametrize(
    ("message", "provider", "pasted"),
    [
        ("see @notes", "claude_code", "see @notes "),
        ("use $skill", "codex", "use $skill "),
        ("@notes", "claude_code", "@notes "),
        ("see @notes\n", "claude_code", "see @notes\n"),
        ("mail a@b", "claude_code", "mail a@b"),
        ("use $skill", "claude_code", "use $skill"),
        ("see @notes", "scripted", "see @notes"),
        ("é", "claude_code", "é"),
    ],
)
def test_only_a_last_word_that_would_be_completed_gets_a_blank(
    message: str, provider: str, pasted: str
) -> None:
    assert as_text(message, get_provider(provider)) == pasted


@pytest.mark.parametrize(
    ("message", "provider", "pasted"),
    [
        ("!ls is what I want", "claude_code", " !ls is what I want"),
        ("# A heading", "claude_code", " # A heading"),
        ("/help me", "claude_code", "\u2800/help me"),
        ("\n /help me", "claude_code", "\u2800\n /help me"),
        ("/ @", "claude_code", "\u2800/ @ "),
        ("ls!", "claude_code", "ls!"),
        ("!ls", "copilot_cli", "\u2800!ls"),
        (" /help", "copilot_cli", "\u2800 /help"),
        ("/help me", "gemini_cli", "\u2800/help me"),
        ("!ls", "scripted", "!ls"),
    ],
)
def test_a_first_character_that_opens_a_mode_is_guarded(
    message: str, provider: str, pasted: str
) -> None:
    assert as_text(message, get_provider(provider)) == pasted
