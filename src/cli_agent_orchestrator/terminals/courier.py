"""Types messages into terminals, as the machine in `sending.py` decides."""

import asyncio
import re
from collections.abc import Callable
from hashlib import sha256

from msgspec.structs import replace

from ..core.models import Delivery, TerminalStatus, check_size
from ..core.text import CONTROLS, HALVES
from ..errors import (
    InputRefused,
    OrchestratorError,
    StartError,
    TmuxCommandError,
    TmuxError,
    UsageError,
)
from ..providers.base import SIGN_IN, Provider
from ..providers.screen import strip_escapes
from . import sending, tracker
from .board import Board, LiveTerminal, wait_for_change
from .sending import AgentLook, Do, Phase, Sending
from .store import Begun, TerminalStore
from .tmux import Tmux

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
        if live.unsettled:
            await asyncio.to_thread(self._store.outdate, live.row.id)
            live.unsettled = False
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
        live.unsettled = not delivery.confirmed
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
        look = await look_at(self._tmux, live, self._board.now())
        if live.leftover and sending.squeeze(look.draft or "") not in live.known:
            return await self._note(live, key, await self._type(live, text))
        if look.status is TerminalStatus.PROCESSING:
            return await self._note(live, key, Delivery(True, "the agent is working"))
        return known

    async def _type(self, live: LiveTerminal, text: str) -> Delivery:
        """Type a message. A raised error means that nothing was typed."""
        state = Sending(
            since=self._board.now(),
            own_leftover=live.leftover,
            message=as_text(text, live.provider),
            last_draft=live.last_draft,
            known=live.known,
        )
        entered_at = 0.0
        typed = False
        try:
            while True:
                changed = live.changed
                now, tried = self._board.now(), typed or state.trials + state.clears > 0
                look = await look_at(self._tmux, live, now, entered_at, typed=tried)
                state, action = sending.advance(state, look)
                live.known = state.known
                pane = live.pane or ""
                match action:
                    case Do.PASTE:
                        before = live.leftover
                        live.leftover = typed = True
                        try:
                            pieces = live.pieces(state.message) if live.pieces else [state.message]
                            marked = live.provider.marks_pastes or len(pieces) > 1
                            data = NEXT_PASTE.join(pieces).encode()
                            await self._tmux.paste(pane, data, marked=marked)
                        except TmuxCommandError:
                            live.leftover, typed = before, False
                            raise
                    case Do.PRESS_ENTER:
                        entered_at = entered_at or self._board.now()
                        live.last_draft = look.draft or ""
                        await self._tmux.press(pane, live.provider.submit_keys)
                        self._entered(live)
                    case Do() | sending.LookAgain():
                        await carry_out(self._tmux, live, action, changed)
                    case sending.Refuse(reason):
                        live.leftover |= state.blind and state.phase is not Phase.CHECKING
                        raise _refusal(live, reason)
                    case Delivery():
                        if action.detail == sending.PERSON_TYPED:
                            # What is in the box is not ours alone, and not ours to clear.
                            live.leftover = False
                        if action.confirmed:
                            live.leftover = False
                            screen = live.track.screen
                            unknown = screen and screen.status is TerminalStatus.UNKNOWN
                            by_rest = live.track.by_rest or bool(state.blind and unknown)
                            live.track = replace(live.track, by_rest=by_rest)
                            self._board.submitted(live, action.detail, entered_at)
                        return action
        except TmuxError as error:
            if not typed:
                raise
            return Delivery(False, f"it is not known what became of the message: {error}")


async def look_at(
    tmux: Tmux, live: LiveTerminal, now: float, entered_at: float = 0.0, *, typed: bool = False
) -> AgentLook:
    draft, text = None, ""
    asks = False
    if live.alive and live.pane is not None:
        screen = await tmux.read_ansi(live.pane)
        draft, text = live.provider.draft(screen), strip_escapes(screen)
        now_seen = live.provider.detect_status(text)
        asks = now_seen is TerminalStatus.WAITING_USER_ANSWER
    track = live.track
    if typed:
        # That changes the screen, so that an earlier message of ours may count as work again.
        track = replace(tracker.without_submission(track), by_rest=False)
    status = TerminalStatus.WAITING_USER_ANSWER if asks else tracker.judge(track, now).status
    taken = live.taken.detail if live.taken and 0 < entered_at <= live.taken_at else None
    still = now - live.track.screen_changed_at
    return AgentLook(now, status, draft, taken, live.alive, text, still)


async def carry_out(
    tmux: Tmux, live: LiveTerminal, action: Do | sending.LookAgain, changed: asyncio.Event
) -> None:
    within = sending.LOOK_SECONDS
    if isinstance(action, sending.LookAgain):
        within = action.within
    else:
        clear, keys = live.provider.clear_keys, {Do.PROBE: sending.PROBE, Do.ERASE: "BSpace"}
        await tmux.press(live.pane or "", clear if action is Do.CLEAR else (keys[action],))
        within = sending.CLEAR_SECONDS if action is Do.CLEAR else within
    await wait_for_change(changed, within)


def _refusal(live: LiveTerminal, reason: str) -> OrchestratorError:
    dialog = live.provider.startup_dialog(live.text)
    if dialog is not None and dialog.name == SIGN_IN:
        return StartError(live.row.provider, dialog.reason)
    return InputRefused(live.row.id, f"{reason}{last_rows(live.text)}")


def last_rows(screen: str) -> str:
    rows = [" ".join(row.split())[:80] for row in screen.splitlines() if row.strip()][-3:]
    return f" (its last rows: {' / '.join(rows)})" if rows else ""
