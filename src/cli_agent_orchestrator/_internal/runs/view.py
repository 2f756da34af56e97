"""What every view of a run can do."""

from typing import Protocol, Self

from cli_agent_orchestrator.events import RunEvent


class View(Protocol):
    """Whoever shows a run; the events of the run are all it needs."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def tell(self, event: RunEvent) -> None: ...
