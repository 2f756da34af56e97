"""Tells what a run does: recorded in its folder first, then shown."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self

from ..core.clock import Clock
from ..core.files import Folder
from ..events import AgentsStarting, AgentStarted, RunEvent, RunOpened, Warned
from ..work.folder import said_of_repository
from .event_log import read_events
from .record import RunRecord
from .recorder import Recorder


class View(Protocol):
    """Whoever shows a run; the events of the run are all it needs."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def tell(self, event: RunEvent) -> None: ...


class Teller:
    """What is said before the run has an id waits until it has one."""

    def __init__(
        self,
        recorder: Recorder,
        view: View,
        clock: Clock,
        pop_warnings: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`pop_warnings` returns what else is to be warned of, each thing once."""
        self._recorder = recorder
        self._view = view
        self._clock = clock
        self._pop_warnings = pop_warnings
        self._is_open = False
        self._early: list[str] = []

    @property
    def folder(self) -> Folder | None:
        """The folder of the run; None as long as it has none."""
        return self._recorder.folder

    @property
    def now(self) -> float:
        """The time, in unix time."""
        return self._clock.now()

    def begin(self, record: RunRecord, *, resumed: bool) -> Folder:
        """Give the run its folder, which is returned, and tell its id before anything else."""
        folder = self._recorder.start(record, resumed=resumed)
        self.tell(RunOpened(self.now, record.id, record.wd, resumed, record.project))
        self.speak_up()
        return folder

    def speak_up(self) -> None:
        """Say what has waited, whether the run has come to an id or not."""
        self._is_open = True
        early, self._early = self._early, []
        for text in early:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Say what is not as it should be."""
        if self._is_open:
            self.tell(Warned(self.now, text))
        else:
            self._early.append(text)

    def tell(self, event: RunEvent) -> None:
        """Record an event, show it, and say if it could not be recorded or sent."""
        self._recorder.tell(event, self._view.tell)
        for trouble in (*self._recorder.pop_troubles(), *self._pop_warnings()):
            self.warn(trouble)

    def tell_starting(self, providers: Mapping[str, str]) -> None:
        """Tell which agents are about to be started, if any are, by role."""
        if providers:
            self.tell(AgentsStarting(self.now, providers))

    def tell_started(self, role: str, terminal_id: str) -> None:
        """Tell that the agent of a role is there."""
        self.tell(AgentStarted(self.now, role, terminal_id))

    def said_of_repository(self) -> tuple[str, ...]:
        """Return what was said of changes to the repository itself, in all the time of the run."""
        return () if self.folder is None else said_of_repository(read_events(self.folder))
