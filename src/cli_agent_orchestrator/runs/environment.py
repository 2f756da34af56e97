"""What a run is given by whoever starts it: a command, a Python program, a test."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..client.client import ApiClient
from ..pipeline.flow import Flow
from ..pipeline.flow_file import packaged_flow
from ..settings.run_config import RunConfig
from .teller import View


@dataclass(frozen=True, slots=True)
class ServerLink:
    """A client, and the server that it talks to at first."""

    client: ApiClient
    url: str
    how: str
    """Why it is this server, in words."""
    is_ours: bool = False
    """Has it proved that it is this user's own?"""


class Interrupts(Protocol):
    """Tells when a run is to stop."""

    @property
    def exit_code(self) -> int:
        """What a run ends with that was stopped."""
        ...

    @property
    def reason(self) -> str:
        """Why it is to stop, in words; empty if it is not."""
        ...

    def check(self) -> None:
        """Raise `Stopped` if it is to stop."""
        ...

    def when_noted(self, stop: Callable[[], None]) -> None:
        """Call this when it is to stop."""
        ...


def _find_packaged_flow(named: str, folder: Path) -> Flow:
    return packaged_flow(named)


def _know_nothing(providers: Iterable[str], folder: Path) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run is given by whoever starts it."""

    view: View
    interrupts: Interrupts
    connect: Callable[[RunConfig, Callable[[str], None]], AbstractContextManager[ServerLink]]
    """Takes the settings and who is warned; leads to the server."""
    check_provider: Callable[[str], object]
    """Raises if there is no such agent."""
    state_folder: Path
    """The user's own, not the project's."""
    environ: Mapping[str, str] = field(repr=False)
    """The user's own: of git, of the commands of gates."""
    find_flow: Callable[[str, Path], Flow] = _find_packaged_flow
    """Returns the flow that a setting names, for a run in a folder."""
    check_sign_in: Callable[[Iterable[str], Path], None] = _know_nothing
    """Raises if nobody is signed in to one of the agents that work in a folder."""
    pop_warnings: Callable[[], Sequence[str]] = tuple
    """Returns what whoever looks on has to warn of, each thing once."""
    state_stays: bool = True
    """Is the state folder there for more than this run, so that it matters who can write there?"""
