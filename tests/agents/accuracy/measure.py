"""Drives one agent through turns of every kind and notes what was told of them."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from cli_agent_orchestrator.core.models import Delivery, OutputMode, TerminalStatus
from cli_agent_orchestrator.errors import NotFound, OrchestratorError
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.terminals import programs
from tests.agents.accuracy.score import Score, Told, Truth, score, score_all
from tests.agents.accuracy.taking import (
    LOOK_SECONDS,
    SETTLE_SECONDS,
    TOLD_SECONDS,
    TURNS_OF_AN_AGENT,
    Mode,
    difference,
)
from tests.agents.driving import Driven, Ground

SCREEN_GRACE = 0.5
"""Seconds that a screen alone may be behind a key press. Our own status has none."""
MOST_TROUBLES = 3
"""Then a mode is given up: what does not work does not work thirty times either."""
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
        text = last = ""
        while True:
            with suppress(NotFound):  # while a server is started anew
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

    report: Callable[[str], None]
    turns: list[TurnResult] = field(default_factory=list)
    prompts: list[PromptResult] = field(default_factory=list)
    screens: int = 0

    async def measure_turns(self, ground: Ground, mode: Mode, count: int, *, kills: bool) -> None:
        """Drive turns of one mode, with a new agent now and then."""
        done = troubles = 0
        while done < count and troubles < MOST_TROUBLES:
            try:
                async with self._agent(ground, mode.permissions) as (driven, watch):
                    await mode.begin(driven)
                    last = min(count, done + mode.turns_of_an_agent)
                    while done < last:
                        done += 1
                        result = await self._measure_turn(driven, watch, mode, done)
                        self._note(result)
                        if result.trouble:
                            troubles += 1
                            break
                    else:
                        if kills:
                            self._note(await _measure_kill(driven))
            except (OrchestratorError, TimeoutError) as error:
                troubles += 1
                trouble = f"{type(error).__name__}: {error}"
                self._note(TurnResult("starting", "start", trouble=trouble))
        if done < count:
            trouble = f"given up after {done} of {count} turns"
            self._note(TurnResult(mode.state, mode.name, trouble=trouble))

    async def measure_prompts(self, ground: Ground, count: int) -> None:
        """Send prompts of all sizes."""
        sizes = prompt_sizes(count)
        for start in range(0, count, TURNS_OF_AN_AGENT):
            async with self._agent(ground, "full") as (driven, _):
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
    async def _agent(self, ground: Ground, permissions: str) -> AsyncIterator[tuple[Driven, Watch]]:
        begun = time.monotonic()
        async with ground.agent(permissions) as driven:
            watch = Watch(driven)
            looking = asyncio.create_task(watch.look())
            try:
                ready = time.monotonic()
                await driven.reached(TerminalStatus.IDLE)
                truth = Truth(begun, begun, TerminalStatus.IDLE, ready + SETTLE_SECONDS)
                self._note(TurnResult("starting", "start", score(truth, driven.seen)))
                yield driven, watch
            finally:
                looking.cancel()
                await asyncio.wait([looking])
                self.screens += watch.screens

    async def _measure_turn(
        self, driven: Driven, watch: Watch, mode: Mode, number: int
    ) -> TurnResult:
        begun = time.monotonic()
        try:
            taken = await mode.take(driven, number)
        except (OrchestratorError, TimeoutError) as error:
            trouble = f"{type(error).__name__}: {error}"
            story = story_of(driven, begun)
            return TurnResult(mode.state, mode.name, trouble=trouble, story=story)
        by_signals = score_all(taken.truths, driven.seen, taken.grace)
        by_screen = score_all(taken.truths, watch.told, max(SCREEN_GRACE, taken.grace))
        wrong = by_signals.mistakes or taken.sending
        story = story_of(driven, taken.truths[-1].end) if wrong else ()
        return TurnResult(mode.state, mode.name, by_signals, by_screen, taken.sending, story=story)


async def _measure_kill(driven: Driven) -> TurnResult:
    """End the agent's program as a crash would."""
    running = programs.members(await driven.pid())
    killed = time.monotonic()
    programs.send_signal(running, signal.SIGKILL)
    with suppress(TimeoutError):
        await driven.reached(TerminalStatus.ERROR, after=killed, within=TOLD_SECONDS)
    until = time.monotonic() + SETTLE_SECONDS
    anything = frozenset(TerminalStatus)
    truth = Truth(killed, killed, TerminalStatus.ERROR, until, before=anything)
    return TurnResult("exited", "program killed", score(truth, driven.seen))


async def _measure_prompt(driven: Driven, size: int) -> PromptResult:
    turns, prompts = len(driven.stub.turns), len(driven.stub.prompts)
    message = driven.kind.hard_text(size)
    begun, delivery = time.monotonic(), Delivery(False, "")
    try:
        delivery = await driven.send(message)
        seconds = time.monotonic() - begun
        end = await driven.finished(turns + 1)
        await driven.reached(TerminalStatus.COMPLETED, after=end)
    except (OrchestratorError, TimeoutError) as error:
        failure = f"{type(error).__name__}: {error}; {delivery}; told: {story_of(driven, begun)}"
        return PromptResult(size, time.monotonic() - begun, 0, failure)
    failure = "" if delivery.confirmed else delivery.detail
    failure = difference(driven.as_taken(message), driven.stub.prompts[prompts:]) or failure
    return PromptResult(size, seconds, delivery.enter_presses, failure)


def prompt_sizes(count: int) -> list[int]:
    """Return sizes from the smallest to the largest, each a bit larger, in a mixed order."""
    growth = (LARGEST / SMALLEST) ** (1 / max(1, count - 1))
    sizes = [round(SMALLEST * growth**step) for step in range(count)]
    stride = 7
    return [size for first in range(stride) for size in sizes[first::stride]]


def story_of(driven: Driven, zero: float) -> tuple[str, ...]:
    """Return what was told and what the server says to it now."""
    told = [f"{seen.at - zero:+.3f} {seen.status}: {seen.reason}" for seen in driven.seen[-12:]]
    with suppress(NotFound):
        explained = driven.service.explain(driven.terminal.id)
        told.append(f"explained: {explained.status}: {explained.reason}")
        told += [f"    {evidence}" for evidence in explained.evidence]
    return tuple(told)
