"""What a run has come to: its state, which is saved before anything goes on, and what it tells."""

from dataclasses import dataclass, replace

from cli_agent_orchestrator._internal.clock import Clock
from cli_agent_orchestrator._internal.handoff.responses import ResponseFiles
from cli_agent_orchestrator._internal.pipeline.state import RunState
from cli_agent_orchestrator._internal.runs.records.journal import Journal, TurnRecord
from cli_agent_orchestrator._internal.runs.records.screens import Screens
from cli_agent_orchestrator._internal.runs.records.state_file import StateFile
from cli_agent_orchestrator.events import OnRunEvent, RunEvent, Warned


@dataclass(frozen=True, slots=True)
class Records:
    """Where a run keeps what must outlive it."""

    state_file: StateFile
    files: ResponseFiles
    journal: Journal
    screens: Screens | None = None
    """What its agents show at the end of their turns; None if the run has no folder for that."""


class Ledger:
    """The one place in which the state of a run changes while it is taken to its end."""

    def __init__(self, records: Records, on_event: OnRunEvent, clock: Clock) -> None:
        self.records = records
        self._tell = on_event
        self._clock = clock
        self._state: RunState | None = None

    @property
    def state(self) -> RunState:
        """The run as it was given or last changed."""
        assert self._state is not None, "a run has a state once it has begun"
        return self._state

    @property
    def now(self) -> float:
        """The time, in unix time."""
        return self._clock.now()

    def take(self, state: RunState) -> None:
        """Go on from a state that is saved only with the next change."""
        self._state = state

    def save(self, state: RunState) -> None:
        """Go on from a state, and see to it that it is found after a crash."""
        self.records.state_file.save_state(state)
        self._state = state

    def count_to(self, sequence: int) -> None:
        """Note that a number is used; that is saved with the next change."""
        progress = self.state.progress
        last = max(progress.sequence, sequence)
        self._state = replace(self.state, progress=replace(progress, sequence=last))

    def next_sequence(self) -> int:
        """Return the number under which the next thing is archived."""
        return max(self.state.progress.sequence + 1, self.records.files.next_sequence())

    def enter(self, record: TurnRecord, state: RunState) -> None:
        """Write down a turn that has ended, and save what follows from it."""
        self.records.journal.write(record)
        sequence = max(state.progress.sequence, record.sequence)
        self.save(replace(state, progress=replace(state.progress, sequence=sequence)))

    def tell(self, event: RunEvent) -> None:
        """Tell what has happened."""
        self._tell(event)

    def warn(self, text: str, about: str = "") -> None:
        """Tell what is not as it should be."""
        self._tell(Warned(self.now, text, about))
