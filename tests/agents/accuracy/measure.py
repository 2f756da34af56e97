"""Drives one agent through turns of every kind and notes what was told of them."""

import asyncio
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest

from cli_agent_orchestrator.errors import OrchestratorError
from cli_agent_orchestrator.models import OutputMode, TerminalStatus
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.terminals import processes
from tests.agents.accuracy.kinds import Course, TurnKind
from tests.agents.accuracy.score import Score, Span, Told, Truth, score
from tests.agents.driving import PATIENCE, Driven, Ground

LOOK_SECONDS = 0.01
"""Between looks at what the server knows of a screen; it captures one at every change."""
SCREEN_GRACE = 0.5
"""Seconds that a screen alone may be behind a key press. Our own status has none."""
SETTLE_SECONDS = 0.3
LONG_SETTLE_SECONDS = 4.0
"""How long the end of a turn is watched; every tenth for longer, for what comes late."""
READING_SECONDS = 0.5
"""How long a person reads a question before answering it."""
TOLD_SECONDS = 20.0
"""After how long something that was not told counts as missed."""
TURNS_OF_AN_AGENT = 10
"""Then a new one is started, so that conversations do not grow without end."""
SMALLEST, LARGEST = 1, 200_000
"""Bytes of a prompt."""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """One turn: how well it was told, and what went wrong otherwise."""

    state: str
    kind: str
    signals: Score = field(default_factory=Score)
    screen: Score = field(default_factory=Score)
    sending: str = ""
    """Why its message did not arrive once and exactly."""
    trouble: str = ""
    """Why it could not be measured."""
    story: tuple[str, ...] = ()
    """What was told, for a turn that was told wrongly."""


@dataclass(frozen=True, slots=True)
class PromptResult:
    """One prompt of a certain size."""

    size: int
    seconds: float
    presses: int
    """How often Enter was pressed."""
    failure: str = ""


@dataclass
class Watch:
    """What the screen alone says, without title and signals."""

    driven: Driven
    told: list[Told] = field(default_factory=list)
    screens: int = 0

    async def look(self) -> None:
        """Read every screen until cancelled."""
        detect = get_provider(self.driven.kind.agent).detect_status
        last = None
        while True:
            text = await self.driven.service.output(self.driven.terminal.id, OutputMode.SCREEN)
            if text != last:
                last = text
                self.screens += 1
                status = detect(text)
                if not self.told or self.told[-1].status is not status:
                    self.told.append(Told(time.monotonic(), status))
            await asyncio.sleep(LOOK_SECONDS)


@dataclass
class Measurement:
    """All that is found out about one agent in one version."""

    ground: Ground
    report: Callable[[str], None]
    turns: list[TurnResult] = field(default_factory=list)
    prompts: list[PromptResult] = field(default_factory=list)
    screens: int = 0

    async def measure_turns(self, kind: TurnKind, count: int) -> None:
        """Drive turns of one kind, with a new agent now and then."""
        done = 0
        while done < count:
            try:
                async with self._agent(kind.permissions) as (driven, watch):
                    fresh = min(count - done, TURNS_OF_AN_AGENT)
                    for number in range(done + 1, done + fresh + 1):
                        done = number
                        result = await self._measure_turn(driven, watch, kind, number)
                        self._note(result)
                        if result.trouble:
                            break
                    else:
                        self._note(await _measure_kill(driven, self.ground.socket))
            except (OrchestratorError, TimeoutError) as error:
                done += 1
                self._note(
                    TurnResult("starting", "start", trouble=f"{type(error).__name__}: {error}")
                )

    async def measure_prompts(self, count: int) -> None:
        """Send prompts of all sizes."""
        sizes = prompt_sizes(count)
        for start in range(0, count, TURNS_OF_AN_AGENT):
            async with self._agent("full") as (driven, _):
                for size in sizes[start : start + TURNS_OF_AN_AGENT]:
                    result = await _measure_prompt(driven, size)
                    self.prompts.append(result)
                    if result.failure:
                        self.report(f"prompt of {size} bytes: {result.failure}")
                        break

    def _note(self, result: TurnResult) -> None:
        self.turns.append(result)
        said = [result.trouble, result.sending, ", ".join(sorted(result.signals.mistakes))]
        if any(said):
            self.report(f"{result.state}, {result.kind}: {'; '.join(filter(None, said))}")
            for line in result.story:
                self.report(f"    {line}")

    @asynccontextmanager
    async def _agent(self, permissions: str) -> AsyncIterator[tuple[Driven, Watch]]:
        begun = time.monotonic()
        async with self.ground.agent(permissions) as driven:
            watch = Watch(driven)
            looking = asyncio.create_task(watch.look())
            try:
                ready = time.monotonic()
                await driven.reached(TerminalStatus.IDLE)
                truth = Truth(begun, begun, TerminalStatus.IDLE, ready + SETTLE_SECONDS)
                self._note(TurnResult("starting", "start", score(truth, _told(driven))))
                yield driven, watch
            finally:
                looking.cancel()
                await asyncio.wait([looking])
                self.screens += watch.screens

    async def _measure_turn(
        self, driven: Driven, watch: Watch, kind: TurnKind, number: int
    ) -> TurnResult:
        turns, prompts = len(driven.stub.turns), len(driven.stub.prompts)
        message = kind.message(number)
        begun = time.monotonic()
        delivery = None
        try:
            delivery = await driven.send(message)
            sent = time.monotonic()
            await driven.started(turns + 1)
            truth = await _take(driven, kind, number, Sent(sent, turns))
        except (OrchestratorError, TimeoutError) as error:
            story = tuple(_story(driven, begun))
            trouble = f"{type(error).__name__}: {error}; {delivery}"
            return TurnResult(kind.state, kind.name, trouble=trouble, story=story)
        by_signals = score(truth, _told(driven))
        arrived = driven.stub.prompts[prompts:]
        sending = "" if delivery.confirmed else delivery.detail
        sending = difference(driven.as_taken(message), arrived) or sending
        return TurnResult(
            kind.state,
            kind.name,
            by_signals,
            score(truth, watch.told, SCREEN_GRACE),
            sending,
            story=tuple(_story(driven, truth.end)) if by_signals.mistakes else (),
        )


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the model has got."""

    at: float
    """When its sending was confirmed."""
    place: int
    """Of its turn in the ledger."""


async def _take(driven: Driven, kind: TurnKind, number: int, sent: Sent) -> Truth:
    """Take a turn to its end as a person does, and return what is true of it."""
    turn = driven.stub.turns[sent.place]
    asks = None
    match kind.course:
        case Course.WATCH if kind.rest is TerminalStatus.COMPLETED:
            end = await driven.finished(sent.place + 1)
        case Course.WATCH:
            # Only the agent knows whether it is going to try again.
            with suppress(TimeoutError):
                await driven.reached(kind.rest, after=sent.at)
            end = turn.last_byte or sent.at
        case Course.STOP:
            await _wait_to_stop(driven, kind, number)
            end = await driven.stop()
        case Course.ALLOW | Course.CHOOSE:
            waiting = TerminalStatus.WAITING_USER_ANSWER
            with suppress(TimeoutError):
                await driven.reached(waiting, after=sent.at, within=TOLD_SECONDS)
            await driven.asks()
            await asyncio.sleep(READING_SECONDS)
            asked = turn.last_byte or sent.at
            allow = kind.course is Course.ALLOW
            answered = await driven.answer(driven.kind.manners.allow if allow else "Enter")
            asks = Span(asked, answered)
            end = await driven.finished(sent.place + 1)
    with suppress(TimeoutError):
        await driven.reached(kind.rest, after=end, within=TOLD_SECONDS)
    await asyncio.sleep(SETTLE_SECONDS if number % 10 else LONG_SETTLE_SECONDS)
    if kind.rest is TerminalStatus.ERROR:
        end = turn.last_byte or end
    return Truth(sent.at, end, kind.rest, time.monotonic(), asks=asks)


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


async def _measure_kill(driven: Driven, socket: str) -> TurnResult:
    """End the agent's program as a crash would."""
    words = ["tmux", "-L", socket, "list-panes", "-a", "-F", "#{pane_pid} #{@cao_id}"]
    panes = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    own = next(line for line in panes.splitlines() if line.endswith(driven.terminal.id))
    running = processes.members(int(own.split()[0]))
    killed = time.monotonic()
    processes.send_signal(running, signal.SIGKILL)
    with suppress(TimeoutError):
        await driven.reached(TerminalStatus.ERROR, after=killed, within=TOLD_SECONDS)
    until = time.monotonic() + SETTLE_SECONDS
    anything = frozenset(TerminalStatus)
    truth = Truth(killed, killed, TerminalStatus.ERROR, until, before=anything)
    return TurnResult("exited", "program killed", score(truth, _told(driven)))


async def _measure_prompt(driven: Driven, size: int) -> PromptResult:
    turns, prompts = len(driven.stub.turns), len(driven.stub.prompts)
    message = driven.kind.hard_text(size)
    begun = time.monotonic()
    try:
        delivery = await driven.send(message)
        seconds = time.monotonic() - begun
        end = await driven.finished(turns + 1)
        await driven.reached(TerminalStatus.COMPLETED, after=end)
    except (OrchestratorError, TimeoutError) as error:
        failure = f"{type(error).__name__}: {error}; told: {_story(driven, begun)}"
        return PromptResult(size, time.monotonic() - begun, 0, failure)
    failure = "" if delivery.confirmed else delivery.detail
    failure = difference(driven.as_taken(message), driven.stub.prompts[prompts:]) or failure
    return PromptResult(size, seconds, delivery.enter_presses, failure)


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


def prompt_sizes(count: int) -> list[int]:
    """Return sizes from the smallest to the largest, each a bit larger, in a mixed order."""
    growth = (LARGEST / SMALLEST) ** (1 / max(1, count - 1))
    sizes = [round(SMALLEST * growth**step) for step in range(count)]
    stride = 7
    return [size for first in range(stride) for size in sizes[first::stride]]


def _told(driven: Driven) -> Sequence[Told]:
    return [Told(seen.at, seen.status) for seen in driven.seen]


def _story(driven: Driven, zero: float) -> list[str]:
    return [f"{seen.at - zero:+.3f} {seen.status}: {seen.reason}" for seen in driven.seen[-8:]]
