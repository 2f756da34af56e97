"""What the browser is shown: pages made of parts, each replaced when its HTML has changed."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..core.clock import Clock
from ..runs.service import RunService
from ..server.backend import Terminals
from ..show.markup import Markup
from .news import News


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a page that changes as a whole."""

    id: str
    html: Markup
    """One element that has this id."""
    into: str = "main"
    """The id of the element that holds it."""


@dataclass(frozen=True, slots=True)
class Page:
    """All that a tab shows at one moment."""

    title: str
    parts: tuple[Part, ...]
    """In the order in which they stand in the page; one that holds others comes before them."""


class Watched(Protocol):
    """A page over time."""

    def pages(self) -> AsyncGenerator[Page, None]:
        """Yield the page at once, then whenever something in it may have changed."""
        ...


@dataclass(frozen=True, slots=True)
class PageContext:
    """What pages are made from."""

    terminals: Terminals
    runs: RunService
    state_folder: Path
    news: News
    clock: Clock
    environ: Mapping[str, str]
    agents: Callable[[], Sequence[str]]
    """Returns the names of the agents that can be started here."""
