"""How one turn is taken from the message to its end, and what is true of it.

What is true comes from the stub's ledger and from the keys that are pressed, never from what the
server tells.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest

from cli_agent_orchestrator.core.models import Delivery, TerminalStatus
from tests.agents.accuracy.kinds import Course, TurnKind
from tests.agents.accuracy.score import Span, Truth
from tests.agents.driving import KINDS, PATIENCE, Driven, Ground, Kind
from tests.stubs.ledger import Turn

LOOK_SECONDS = 0.01
"""Between looks at what the server knows of a screen; it captures one at every change."""
SETTLE_SECONDS = 0.3
LONG_SETTLE_SECONDS = 4.0
"""How long the end of a turn is watched; every tenth for longer, for what comes late."""
READING_SECONDS = 0.5
"""How long a person reads a question before answering it."""
TOLD_SECONDS = 20.0
"""After how long something that was not told counts as missed."""
TURNS_OF_AN_AGENT = 10
"""Then a new one is started, so that conversations do not grow without end."""
MARGIN = " \u2800"
"""What may stand before a message so that it stays a text."""

WAITING = TerminalStatus.WAITING_USER_ANSWER


@dataclass(frozen=True, slots=True)
class Taken:
    """What is true of a turn, and of what a person did before it."""

    truths: tuple[Truth, ...]
    sending: str = ""
    """Why a message did not arrive once and exactly."""
    grace: float = 0.0
    """Seconds after the begin: nobody tells the server what a person types."""


Take = Callable[[Driven, int], Awaitable[Taken]]


def prepare_nothing(ground: Ground) -> None:
    """Leave everything as it is."""


async def begin_nothing(driven: Driven) -> None:
    """Leave the agent as it has started."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to use an agent, in turns that are taken one after the other."""

    state: str
    """What is to be recognized; the turns of a state are shared out among its modes."""
    name: str
    take: Take
    permissions: str = "full"
    prepare: Callable[[Ground], None] = prepare_nothing
    """Done before any agent is started."""
    begin: Callable[[Driven], Awaitable[None]] = begin_nothing
    """Done when an agent has started."""
    turns_of_an_agent: int = TURNS_OF_AN_AGENT
    most: int | None = None
    """So many turns are enough, as they take long."""
    kinds: Collection[Kind] = tuple(KINDS)
    """Which agents have it."""


def share(mode: Mode, modes: Sequence[Mode], turns: int) -> int:
    """Return how many of the turns of a state are of one mode."""
    alike = sum(other.state == mode.state for other in modes)
    fair = -(-turns // alike)
    return fair if mode.most is None else min(fair, mode.most)


def plain(kind: TurnKind) -> Mode:
    """Return the mode of turns that need nothing but a message."""

    async def take(driven: Driven, number: int) -> Taken:
        sent = await send(driven, kind.message(number))
        truth = await _take(driven, kind, number, sent)
        return Taken((truth,), sent.failure())

    return Mode(kind.state, kind.name, take, kind.permissions)


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the model has got."""

    driven: Driven
    message: str
    at: float
    """When its sending was confirmed."""
    turn: Turn
    delivery: Delivery
    before: int
    """How many prompts the model had got before."""

    def failure(self) -> str:
        """Say why it did not arrive once and exactly, nothing if it did."""
        prompts = [prompt.strip(MARGIN) for prompt in self.driven.stub.prompts[self.before :]]
        own = [prompt for prompt in prompts if prompt == self.message]
        failure = "" if self.delivery.confirmed else self.delivery.detail
        return difference(self.message, own or prompts) or failure


async def send(driven: Driven, message: str) -> Sent:
    """Send a message and wait until the model has it."""
    before = len(driven.stub.prompts)
    turns = len(driven.stub.turns)
    delivery = await driven.send(message)
    at = time.monotonic()
    await driven.started(turns + 1)
    return Sent(driven, driven.as_taken(message), at, driven.stub.turns[turns], delivery, before)


async def _take(driven: Driven, kind: TurnKind, number: int, sent: Sent) -> Truth:
    """Take a turn to its end as a person does, and return what is true of it."""
    asks = None
    match kind.course:
        case Course.WATCH if kind.rest is TerminalStatus.COMPLETED:
            end = await finished(driven, sent.turn)
        case Course.WATCH:
            # Only the agent knows whether it is going to try again.
            with suppress(TimeoutError):
                await driven.reached(kind.rest, after=sent.at)
            end = sent.turn.last_byte or sent.at
        case Course.STOP:
            await _wait_to_stop(driven, kind, number)
            end = await driven.stop()
        case Course.ALLOW | Course.CHOOSE:
            allow = kind.course is Course.ALLOW
            key = driven.kind.manners.allow if allow else "Enter"
            asks = await answered(driven, sent.turn, sent.at, key)
            end = await finished(driven, sent.turn)
    truth = await watched(driven, number, Truth(sent.at, end, kind.rest, end, asks=asks))
    if kind.rest is TerminalStatus.ERROR:
        end = sent.turn.last_byte or end
    return Truth(sent.at, end, kind.rest, truth.until, asks=asks)


async def finished(driven: Driven, turn: Turn, within: float = PATIENCE) -> float:
    """Wait until the model's last byte of a turn is sent; return when that was."""
    return await driven.until(lambda: [turn.finished] if turn.finished else [], within)


async def answered(driven: Driven, turn: Turn, since: float, key: str) -> Span:
    """Answer what the agent asks in a turn; return from when until when it asked."""
    with suppress(TimeoutError):
        await driven.reached(WAITING, after=since, within=TOLD_SECONDS)
    await driven.asks()
    await asyncio.sleep(READING_SECONDS)
    asked = turn.last_byte or since
    return Span(asked, await driven.answer(key))


async def watched(driven: Driven, number: int, truth: Truth) -> Truth:
    """Watch how the end of a turn is told, and whether that stays so."""
    with suppress(TimeoutError):
        await driven.reached(truth.rest, after=truth.end, within=TOLD_SECONDS)
    await asyncio.sleep(SETTLE_SECONDS if number % 10 else LONG_SETTLE_SECONDS)
    until = time.monotonic()
    return Truth(truth.sent, truth.end, truth.rest, until, truth.before, truth.asks)


async def _wait_to_stop(driven: Driven, kind: TurnKind, number: int) -> None:
    if kind.shows:
        await driven.shows(kind.shows.replace("{n}", str(number)))
    elif kind.makes:
        file = driven.work / kind.makes.replace("{n}", str(number))
        async with asyncio.timeout(PATIENCE):
            while not file.exists():
                await asyncio.sleep(LOOK_SECONDS)
    else:
        await driven.reached(TerminalStatus.PROCESSING)


def difference(sent: str, arrived: Sequence[str]) -> str:
    """Say how what arrived differs from what was sent, nothing if it does not."""
    if len(arrived) != 1:
        return f"{len(arrived)} messages arrived"
    [got] = arrived
    if got == sent:
        return ""
    pairs = enumerate(zip_longest(sent, got))
    same = next(place for place, (wanted, found) in pairs if wanted != found)
    around = slice(max(0, same - 20), same + 20)
    return (
        f"{len(got)} characters arrived instead of {len(sent)}; they differ from {same} on: "
        f"{got[around]!r} instead of {sent[around]!r}"
    )
