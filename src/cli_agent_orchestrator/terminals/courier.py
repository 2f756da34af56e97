"""Types messages into terminals, as the machine in `sending.py` decides."""

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256

from msgspec.structs import replace

from ..core.models import Delivery, TerminalStatus, check_size
from ..core.text import CONTROLS, HALVES
from ..errors import (
    InputRefused,
    OrchestratorError,
    StartError,
    StoreError,
    TmuxCommandError,
    TmuxError,
    UsageError,
)
from ..providers.base import SIGN_IN, Provider
from ..providers.screen import strip_escapes
from . import sending, tracker
from .board import Board, LiveTerminal, wait_for_change
from .sending import AgentLook, Do, Sending
from .store import Begun, TerminalStore
from .tmux import Tmux
from .tracker import SignalSource

NEXT_PASTE = "\x1b[201~\x1b[200~"
"""Ends a bracketed paste and begins another."""
UNTYPEABLE_PATTERN = f"[{CONTROLS}{HALVES}]"


def as_text(message: str, provider: Provider) -> str:
    """Return what to paste so that the agent takes it for a text and nothing else.

    A first character that opens a mode gets its guard before it; a last word that the agent would
    complete, or a last character that would take the Enter, gets a blank behind it.
    """
    guard = provider.guards.get(message.lstrip()[:1], "")
    last_word = message.rsplit(maxsplit=1)[-1]
    is_taken = last_word[0] in provider.completes or last_word[-1] in provider.continues
    return guard + message + (" " if is_taken and message.endswith(last_word) else "")


def typeable(message: str) -> tuple[str, int]:
    text, removed = re.subn(UNTYPEABLE_PATTERN, "", message)
    if not text.strip():
        raise UsageError("the message is empty")
    return check_size(text), removed


class Courier:
    def __init__(
        self,
        tmux: Tmux,
        store: TerminalStore,
        board: Board,
        entered: Callable[[LiveTerminal], None],
    ) -> None:
        """`entered` is called when a message was submitted, before it is confirmed."""
        self._tmux = tmux
        self._store = store
        self._board = board
        self._entered = entered
        self._deliveries: set[asyncio.Task[Delivery]] = set()

    async def close(self) -> None:
        """Wait until the outcome of what is being typed is saved; without tmux that is soon."""
        if self._deliveries:
            await asyncio.wait(self._deliveries)

    async def deliver(self, live: LiveTerminal, message: str, key: str | None) -> Delivery:
        """Type a message and see it taken.

        A known key gets the first answer, or a better one if that was uncertain.
        """
        text, removed = typeable(message)
        async with live.typing:
            self._board.get(live.row.id)  # or it was deleted meanwhile
            # Once typing has begun it is carried through, whatever becomes of the request.
            typing = asyncio.create_task(self._once(live, text, key))
            self._deliveries.add(typing)
            typing.add_done_callback(self._deliveries.discard)
            try:
                delivery = await asyncio.shield(typing)
            except asyncio.CancelledError:
                await asyncio.wait([typing])
                raise
        return replace(delivery, removed_characters=removed)

    async def _once(self, live: LiveTerminal, text: str, key: str | None) -> Delivery:
        digest = sha256(text.encode()).hexdigest()
        if key is not None:
            begun = await asyncio.to_thread(self._store.delivery, live.row.id, key)
            if begun is not None:
                if begun.digest != digest:
                    raise UsageError(f"the idempotency key {key!r} was used for another message")
                return await self._settle(live, text, key, begun)
        await asyncio.to_thread(self._store.outdate, live.row.id)
        if key is None:
            return await self._type(live, text)
        begun = Begun(digest, None, self._board.now(), live.prompts)
        await asyncio.to_thread(self._store.begin_delivery, live.row.id, key, begun)
        try:
            delivery = await self._type(live, text)
        except OrchestratorError:
            await asyncio.to_thread(self._store.forget_delivery, live.row.id, key)
            raise
        return await self._note(live, key, delivery)

    async def _note(self, live: LiveTerminal, key: str, delivery: Delivery) -> Delivery:
        await asyncio.to_thread(self._store.end_delivery, live.row.id, key, delivery)
        return delivery

    async def _settle(self, live: LiveTerminal, text: str, key: str, begun: Begun) -> Delivery:
        """Return what became of a message that was sent before.

        If that is not known, the agent's own signals and its input box may show it by now. Only a
        text that is still in the box is typed again: the agent certainly has not taken it.
        """
        known = begun.answer or Delivery(False, "the server ended while it typed this message")
        if known.confirmed or begun.heard is None:
            return known
        if live.taken and live.prompts > begun.heard and live.taken_at >= begun.at:
            return await self._note(live, key, Delivery(True, live.taken.detail))
        look = await look_at(self._tmux, live, Sending(), self._board.now())
        draft = look.draft or ""
        is_empty = sending.squeeze(draft) in live.box.known
        ours, _ = sending.compare(draft, as_text(text, live.provider))
        if live.box.leftover and not is_empty and ours is not False:
            return await self._note(live, key, await self._type(live, text))
        # Of one that is known by rest alone, any change of its screen looks like work.
        if look.status is TerminalStatus.PROCESSING and not live.track.by_rest:
            return await self._note(live, key, Delivery(True, "the agent is working"))
        return known

    async def _type(self, live: LiveTerminal, text: str) -> Delivery:
        """Type a message. A raised error means that nothing was typed."""
        message = as_text(text, live.provider)
        state = Sending(since=self._board.now(), message=message, box=live.box)
        leftover, typed = live.box.leftover, False
        try:
            while True:
                before, state, action = await proceed(self._tmux, live, state, self._board.now)
                pane = live.pane or ""
                match action:
                    case Do.PASTE:
                        try:
                            await asyncio.to_thread(self._store.save_box, live.row.id, live.box)
                            typed = True
                            pieces = live.pieces(message) if live.pieces else [message]
                            marked = live.provider.marks_pastes or len(pieces) > 1
                            data = NEXT_PASTE.join(pieces).encode()
                            await self._tmux.paste(pane, data, marked=marked)
                        except (StoreError, TmuxCommandError):
                            live.remember(replace(live.box, leftover=leftover))
                            typed = False
                            raise
                    case Do.PRESS_ENTER:
                        session, keys = live.row.session_name, live.provider.submit_keys
                        if await self._tmux.press(pane, keys, session, state.touched_at):
                            self._entered(live)
                        else:
                            # A person was faster.
                            state = before
                            live.remember(before.box)
                    case sending.Refuse(reason):
                        raise _refusal(live, reason)
                    case Delivery():
                        if action.confirmed:
                            self._board.submitted(live, action.detail, state.entered_at)
                        return action
        except TmuxError as error:
            if not typed:
                raise
            return Delivery(False, f"it is not known what became of the message: {error}")
        finally:
            # An error would say that nothing was typed.
            with suppress(StoreError):
                await asyncio.to_thread(self._store.save_box, live.row.id, live.box)


async def proceed(
    tmux: Tmux, live: LiveTerminal, state: Sending, now: Callable[[], float]
) -> tuple[Sending, Sending, Do | sending.Refuse | Delivery]:
    """Wait, try and clear the box until something else is to be done, or all is over.

    Returns the state before that and with it, too.
    """
    keys = {Do.PROBE: (sending.PROBE,), Do.ERASE: ("BSpace",), Do.CLEAR: live.provider.clear_keys}
    while True:
        changed, before = live.changed, state
        state, action = sending.advance(before, await look_at(tmux, live, state, now()))
        live.remember(state.box)
        within = sending.CLEAR_SECONDS if action is Do.CLEAR else sending.LOOK_SECONDS
        if isinstance(action, sending.LookAgain):
            within = action.within
        elif isinstance(action, Do) and action in keys:
            await tmux.press(live.pane or "", keys[action])
        else:
            return before, state, action
        await wait_for_change(changed, within)


async def look_at(tmux: Tmux, live: LiveTerminal, state: Sending, now: float) -> AgentLook:
    draft, text, shown, touched_at = None, "", TerminalStatus.UNKNOWN, 0
    if live.alive and live.pane is not None:
        # First: a key that comes later is noticed at the Enter.
        touched_at = await tmux.touched_at(live.row.session_name)
        screen = await tmux.read_ansi(live.pane)
        draft, text = live.provider.draft(screen), strip_escapes(screen)
        shown = live.provider.detect_status(text)
    track = live.track
    if state.has_typed:
        # That changes the screen, so that an earlier message of ours may count as work again.
        ours = track.signal_source == SignalSource.SUBMISSION
        track = replace(track, signal=None if ours else track.signal, by_rest=False)
    status = tracker.judge(track, now).status
    if status is TerminalStatus.UNKNOWN or shown is TerminalStatus.WAITING_USER_ANSWER:
        status = shown
    taken = live.taken.detail if live.taken and 0 < state.entered_at <= live.taken_at else None
    still = now - live.track.screen_changed_at
    return AgentLook(now, status, draft, taken, live.alive, text, still, touched_at)


def _refusal(live: LiveTerminal, reason: str) -> OrchestratorError:
    dialog = live.provider.startup_dialog(live.text)
    if dialog is not None and dialog.name == SIGN_IN:
        return StartError(live.row.provider, dialog.reason)
    return InputRefused(live.row.id, f"{reason}{last_rows(live.text)}")


def last_rows(screen: str) -> str:
    rows = [" ".join(row.split())[:80] for row in screen.splitlines() if row.strip()][-3:]
    return f" (its last rows: {' / '.join(rows)})" if rows else ""
