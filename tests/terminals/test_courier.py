"""What becomes of a message, and of its key, when tmux fails at each step of the typing."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import MESSAGE_LIMIT, Delivery, TerminalStatus
from cli_agent_orchestrator.errors import (
    InputRefused,
    MessageTooLarge,
    NotFound,
    StartError,
    TmuxCommandError,
    TmuxError,
    TmuxGone,
    UsageError,
)
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import AgentSignal, SignalKind
from cli_agent_orchestrator.terminals.board import Board
from cli_agent_orchestrator.terminals.courier import Courier, as_text
from cli_agent_orchestrator.terminals.store import Begun, TerminalStore
from cli_agent_orchestrator.terminals.tmux import Tmux
from cli_agent_orchestrator.terminals.tracker import SignalSource
from tests.providers.samples import capture
from tests.terminals.samples import PANE, row, screen

ROW = row()
AT_REST = screen("\u25a2 ready\nscripted \u276f")
WORKING = screen("\u2596 working \u00b7 3s")


class FailingTmux(Tmux):
    """An agent at rest; tmux fails once, at one of the steps."""

    def __init__(self, board: Board) -> None:
        super().__init__("none", {}, board)
        self.board = board
        self.draft = self.pasted = ""
        self.pastes = 0
        self.marked = False
        self.look = "\u25a2 ready\nscripted \u276f {}\n"
        self.failures: dict[str, TmuxError] = {}
        self.swallows: Callable[[], None] | None = None
        """What happens when the next Enter gets lost."""
        self.types_first = ""
        """What a person types right before the next key."""

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
        self.draft = self.pasted = data.decode()

    async def touched_at(self, session: str) -> int:
        return 0

    async def press(
        self, pane: str, keys: Sequence[str], session: str = "", touched_at: int = 0
    ) -> bool:
        self._fail("press")
        if self.types_first:
            self.draft += self.types_first
            self.types_first = ""
            return False
        if self.swallows is None:
            self.draft = ""
        else:
            self.swallows()
            self.swallows = None
        for live in self.board:
            live.notify()
        return True


class Desk:
    """A courier with one terminal."""

    def __init__(self, store: TerminalStore) -> None:
        self.board = Board(SystemClock(), "start")
        self.tmux = FailingTmux(self.board)
        self.courier = Courier(self.tmux, store, self.board, lambda live: None)
        self.live = self.board.add(ROW, get_provider("scripted"))
        self.board.opened(self.live, PANE)
        self.board.screen_changed(AT_REST)

    async def send(self, message: str = "hello", key: str | None = "key") -> Delivery:
        return await self.courier.deliver(self.live, message, key)

    def hears(self, kind: SignalKind, detail: str) -> None:
        signal = AgentSignal(kind, detail)
        self.board.signal(self.live, SignalSource.HOOK, signal, self.board.now())

    async def loses(self, step: str) -> Delivery:
        """Send a message of which nobody knows what became."""
        self.tmux.failures[step] = TmuxGone("tmux went away")
        first = await self.send()
        assert not first.confirmed
        assert "tmux went away" in first.detail
        return first


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TerminalStore]:
    store = TerminalStore(tmp_path)
    store.save(replace(ROW))
    yield store
    store.close()


@pytest.fixture
async def desk(store: TerminalStore) -> Desk:
    return Desk(store)


async def test_a_person_may_be_faster_than_an_enter(desk: Desk) -> None:
    desk.tmux.types_first = " her own"
    delivery = await desk.send()
    assert (delivery.confirmed, delivery.enter_presses) == (False, 0)
    assert desk.tmux.draft == "hello her own"
    assert not desk.live.box.leftover


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("look", TmuxGone("tmux went away")),
        ("look", TmuxCommandError("capture-pane", "no such pane")),
        ("paste", TmuxCommandError("load-buffer", "no space left")),
    ],
)
async def test_a_message_of_which_nothing_was_typed_can_be_sent_again_under_its_key(
    desk: Desk, step: str, error: TmuxError
) -> None:
    desk.tmux.failures[step] = error
    with pytest.raises(type(error)):
        await desk.send()
    assert not desk.live.box.leftover
    desk.board.screen_changed(WORKING)
    with pytest.raises(InputRefused):
        await desk.send()
    desk.board.screen_changed(AT_REST)
    assert (await desk.send()).confirmed
    assert desk.tmux.pastes == 1


@pytest.mark.parametrize(
    ("provider", "look", "marked"),
    [
        ("gemini_cli", "\u2500" * 10 + "\n > {}\n", True),
        ("scripted", "\u25a2 ready\nscripted \u276f {}\n", False),
    ],
)
async def test_a_paste_is_marked_for_an_agent_that_asks_for_marks_too_late(
    desk: Desk, provider: str, look: str, marked: bool
) -> None:
    desk.live.provider = get_provider(provider)
    desk.tmux.look = look
    assert (await desk.send()).confirmed
    assert desk.tmux.marked is marked


async def test_a_message_is_pasted_in_the_pieces_that_an_agent_takes(desk: Desk) -> None:
    desk.live.pieces = str.split
    assert (await desk.send("two words")).confirmed
    assert desk.tmux.pasted == "two\x1b[201~\x1b[200~words"
    assert desk.tmux.marked


async def test_an_agent_that_wants_a_sign_in_takes_no_message(desk: Desk) -> None:
    desk.live.provider = get_provider("codex")
    desk.tmux.look = capture("codex/waiting_user_answer/0.166.0-login_dialog.txt")
    desk.board.screen_changed(screen(desk.tmux.look))
    with pytest.raises(StartError, match="codex login"):
        await desk.send()
    assert desk.tmux.pastes == 0


async def test_an_earlier_message_is_no_sign_that_this_one_was_taken(desk: Desk) -> None:
    desk.hears(SignalKind.SUBMITTED, "UserPromptSubmit")
    desk.hears(SignalKind.FINISHED, "Stop")

    def swallow() -> None:
        desk.board.submitted(desk.live, "an earlier message", desk.board.now())
        assert desk.live.status is TerminalStatus.PROCESSING

    desk.tmux.swallows = swallow
    delivery = await desk.send(key=None)
    assert (delivery.confirmed, delivery.enter_presses) == (True, 2)


async def test_a_message_that_is_still_in_the_box_is_typed_again_when_it_is_asked_about(
    desk: Desk,
) -> None:
    await desk.loses("press")
    again = await desk.send()
    assert again.confirmed
    assert desk.tmux.pastes == 2
    assert await desk.send() == again
    assert desk.tmux.pastes == 2


async def test_a_message_that_an_agent_has_put_back_is_cleared_for_the_next(desk: Desk) -> None:
    assert (await desk.send("hello")).confirmed
    desk.hears(SignalKind.FINISHED, "Stop")
    desk.tmux.draft = "hello"
    assert (await desk.send("more", "another key")).confirmed
    assert (desk.tmux.pasted, desk.tmux.pastes) == ("more", 2)


@pytest.mark.parametrize("step", ["paste", "press"])
async def test_an_agent_that_tells_later_that_it_took_a_message_settles_it(
    desk: Desk, step: str
) -> None:
    await desk.loses(step)
    typed = desk.tmux.pastes
    desk.hears(SignalKind.SUBMITTED, "UserPromptSubmit")
    assert await desk.send() == Delivery(True, "UserPromptSubmit")
    assert desk.tmux.pastes == typed


async def test_what_an_agent_told_before_does_not_settle_a_message(desk: Desk) -> None:
    desk.hears(SignalKind.SUBMITTED, "UserPromptSubmit")
    desk.hears(SignalKind.FINISHED, "Stop")
    first = await desk.loses("paste")
    assert await desk.send() == first
    # Read again after a restart, all that it told looks new.
    desk.live.taken_at = desk.board.now()
    assert await desk.send() == first
    # It is heard late.
    signal = AgentSignal(SignalKind.SUBMITTED, "UserPromptSubmit")
    desk.board.signal(desk.live, SignalSource.HOOK, signal, desk.board.now() - 60)
    desk.hears(SignalKind.FINISHED, "Stop")
    assert await desk.send() == first


@pytest.mark.parametrize("key", ["another key", None])
async def test_what_an_agent_tells_after_another_message_is_about_that_one(
    desk: Desk, key: str | None
) -> None:
    first = await desk.loses("paste")
    assert (await desk.send("something else", key)).confirmed
    desk.hears(SignalKind.SUBMITTED, "UserPromptSubmit")
    assert await desk.send() == first
    assert desk.tmux.pastes == 1


async def test_what_a_person_has_written_is_not_taken_for_a_message_of_before(
    desk: Desk, store: TerminalStore
) -> None:
    """The server ended while it typed."""
    begun = Begun(sha256(b"hello").hexdigest(), None, desk.board.now(), desk.live.prompts)
    store.begin_delivery(ROW.id, "key", begun)
    desk.tmux.draft = "my own"
    assert not (await desk.send()).confirmed
    assert (desk.tmux.draft, desk.tmux.pastes) == ("my own", 0)


async def test_an_agent_at_work_has_taken_the_last_message(desk: Desk) -> None:
    await desk.loses("paste")
    desk.board.screen_changed(WORKING)
    again = await desk.send()
    assert again == Delivery(True, "the agent is working")


@pytest.mark.parametrize("closes", [True, False])
async def test_what_is_being_typed_is_noted_down_though_its_request_is_cancelled(
    desk: Desk, store: TerminalStore, closes: bool
) -> None:
    request = asyncio.create_task(desk.send())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    request.cancel()
    await (desk.courier.close() if closes else asyncio.wait([request]))
    begun = store.delivery(ROW.id, "key")
    assert begun is not None
    assert begun.answer is not None
    await asyncio.wait([request])


async def test_a_message_that_waited_while_its_terminal_was_deleted_is_for_nobody(
    desk: Desk, store: TerminalStore
) -> None:
    async with desk.live.typing:
        waiting = asyncio.create_task(desk.send())
        await asyncio.sleep(0)
        desk.board.remove(desk.live)
        store.remove(ROW.id)
    with pytest.raises(NotFound):
        await waiting
    assert desk.tmux.pastes == 0


@pytest.mark.parametrize(
    ("message", "provider", "pasted"),
    [
        # Only a last word that would be completed gets a blank.
        ("see @notes", "claude_code", "see @notes "),
        ("use $skill", "codex", "use $skill "),
        ("@notes", "claude_code", "@notes "),
        ("see @notes\n", "claude_code", "see @notes\n"),
        ("mail a@b", "claude_code", "mail a@b"),
        # So does a last character that makes a line end of the Enter.
        ("in C:\\", "claude_code", "in C:\\ "),
        # A first character that opens a mode is guarded.
        ("!ls is what I want", "claude_code", " !ls is what I want"),
        ("# A heading", "claude_code", " # A heading"),
        ("/help me", "claude_code", "\u2800/help me"),
        ("\n /help me", "claude_code", "\u2800\n /help me"),
        ("/ @", "claude_code", "\u2800/ @ "),
        ("!ls", "copilot_cli", "\u2800!ls"),
        ("/help me", "gemini_cli", "\u2800/help me"),
        ("!ls", "scripted", "!ls"),
    ],
)
def test_an_agent_takes_a_message_for_a_text_and_nothing_else(
    message: str, provider: str, pasted: str
) -> None:
    assert as_text(message, get_provider(provider)) == pasted


async def test_control_characters_are_removed_and_the_answer_says_so(desk: Desk) -> None:
    delivery = await desk.send("safe\x1b[201~\x03 text\x00\x9b\r")
    assert (delivery.confirmed, delivery.removed_characters) == (True, 5)
    assert desk.tmux.pasted == "safe[201~ text"


async def test_messages_that_cannot_be_typed_are_refused(desk: Desk) -> None:
    with pytest.raises(UsageError):
        await desk.send(" \n\x1b")
    with pytest.raises(MessageTooLarge):
        await desk.send("x" * (MESSAGE_LIMIT + 1))
    assert desk.tmux.pastes == 0


async def test_the_same_request_at_the_same_time_is_typed_once(desk: Desk) -> None:
    first, second = await asyncio.gather(desk.send(), desk.send())
    assert first == second == await desk.send()
    assert (first.confirmed, desk.tmux.pastes) == (True, 1)
    with pytest.raises(UsageError, match="another message"):
        await desk.send("something else")
