"""What every view of a run can do, and what it may ask of the server."""

from typing import Protocol, Self

from cli_agent_orchestrator.events import RunEvent


class Screens(Protocol):
    """The part of the server that can be looked at."""

    def features(self) -> frozenset[str]: ...

    def get_output(self, terminal_id: str, mode: str) -> str: ...


class View(Protocol):
    """Whoever shows a run."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def connect(self, server: Screens, attach_prefix: str) -> None:
        """Take the server with the agents, and what `cao attach` needs before it to find them.

        The server may be asked until `disconnect`.
        """
        ...

    def disconnect(self) -> None: ...

    def tell(self, event: RunEvent) -> None: ...
