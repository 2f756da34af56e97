"""One terminal as it is now. Everyone may read it; each part has one writer.

The board writes what is known of it and what the agent has told (`heard`), the courier what may be
in its input box (`box`), the recorder which session records were found (`records`).
"""

import asyncio
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from cli_agent_orchestrator._internal.models import Terminal, TerminalFacts, TerminalStatus
from cli_agent_orchestrator._internal.providers.base import AgentSignal, Provider, SignalKind
from cli_agent_orchestrator._internal.terminals.store import TerminalRow
from cli_agent_orchestrator._internal.terminals.tmux import PaneScreen
from cli_agent_orchestrator._internal.terminals.tracker import Track, Verdict


@dataclass(frozen=True, slots=True)
class ToldByAgent:
    """What an agent itself has told of its messages and its session."""

    taken: AgentSignal | None = None
    """The last signal that it took a message."""
    taken_at: float = 0.0
    count: int = 0
    """How many messages it has told to have taken."""
    answer: str | None = None
    """The last answer as the agent's own record has it."""
    transcript: Path | None = None
    """Where the agent says that its session record is."""
    action: str = ""
    """What it said last that it does in this turn, on one line."""


LEAVE_ACTION = (SignalKind.WORKING, SignalKind.WAITING, SignalKind.CONSULTED, SignalKind.SHORTENED)
"""Signals after which an agent may still be doing what it said last."""


def hear(heard: ToldByAgent, signal: AgentSignal, at: float) -> ToldByAgent:
    """Fold in a signal of the agent's own."""
    if signal.kind in (SignalKind.SUBMITTED, SignalKind.WORKING):
        heard = replace(heard, taken=signal, taken_at=at, answer=None)
    if signal.kind is SignalKind.CLEARED:
        heard = replace(heard, answer=None)
    return replace(
        heard,
        count=heard.count + (signal.kind is SignalKind.SUBMITTED),
        answer=heard.answer if signal.answer is None else signal.answer,
        transcript=heard.transcript if signal.transcript is None else Path(signal.transcript),
        action=heard.action if signal.kind in LEAVE_ACTION else signal.action,
    )


@dataclass(slots=True)
class InputBox:
    """What the courier knows of messages that may still be in an input box."""

    leftover: bool = False
    """May a message of ours that was not confirmed still be in it?"""
    unsettled: bool = False
    """Has the store a last message of which nobody knows what became?"""
    last_draft: str = ""
    """What was submitted last, as the box showed it: agents may put it back there."""


@dataclass(slots=True)
class Upkeep:
    """What the board needs to keep a terminal up to date; nobody else looks at it."""

    unread: bytes = b""
    """The beginning of a report that goes on in the next piece of output."""
    decay: asyncio.TimerHandle | None = None
    """Judges it anew when its verdict runs out."""
    action: asyncio.TimerHandle | None = None
    """Runs while nothing more is to be told of what the agent does."""
    told_action: str = ""
    """What was last told of it."""
    published: tuple[TerminalStatus, bool, bool] = (TerminalStatus.UNKNOWN, True, False)
    """What was last published: its status, whether it lives, and says itself what it asks."""


@dataclass(slots=True)
class LiveTerminal:
    """One terminal as it is now."""

    row: TerminalRow
    provider: Provider
    last_active: float
    pane: str | None = None
    """tmux's name for it; None before the window is open and after it is gone."""
    pid: int | None = None
    exit_code: int | None = None
    screen: PaneScreen | None = None
    track: Track = field(default_factory=Track)
    verdict: Verdict = field(
        default_factory=lambda: Verdict(TerminalStatus.UNKNOWN, "nothing has been seen yet")
    )
    heard: ToldByAgent = field(default_factory=ToldByAgent)
    asked: int = 0
    """How often it has begun to ask, or was pressed a key: what it asks since is another question.
    """
    answered: str = ""
    """The fingerprint of the question that was answered last."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the next report. Take it before you look, so that nothing is missed in between."""
    typing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by whoever types into it."""
    upkeep: Upkeep = field(default_factory=Upkeep)
    box: InputBox = field(default_factory=InputBox)
    records: set[Path] = field(default_factory=set)
    """The session records of the agent that were found; a person may go back to an older one."""

    @property
    def status(self) -> TerminalStatus:
        return self.verdict.status

    @property
    def alive(self) -> bool:
        """Does its program run, as far as is known?"""
        return self.track.end is None

    @property
    def text(self) -> str:
        """What is on its screen."""
        return self.screen.text if self.screen else ""

    @property
    def known_records(self) -> list[str]:
        """The session records of the agent: those that were found, and the one that it names."""
        named = {self.heard.transcript} if self.heard.transcript is not None else set()
        return sorted(map(str, self.records | named))

    def notify(self) -> None:
        """Wake everyone who waits for a change."""
        self.changed.set()
        self.changed = asyncio.Event()

    def public(self) -> Terminal:
        """Return what others may see."""
        return Terminal(
            **{fact.name: getattr(self.row, fact.name) for fact in fields(TerminalFacts)},
            status=self.status,
            last_active=self.last_active,
            alive=self.alive,
            exit_code=self.exit_code,
            action=self.heard.action,
        )


async def wait_for_change(changed: asyncio.Event, seconds: float) -> bool:
    """Wait for the next report about a terminal; False if none came in time."""
    # Before Python 3.12 `asyncio.wait_for` lets who is cancelled in the moment of a report go on as
    # if nothing had been; with `asyncio.timeout` who has waited long enough looks cancelled.
    report = asyncio.create_task(changed.wait())
    try:
        await asyncio.wait({report}, timeout=seconds)
    finally:
        report.cancel()
    return changed.is_set()
