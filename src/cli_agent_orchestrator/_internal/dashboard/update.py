"""What a tab is sent: those parts of a page that differ from what it has."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from cli_agent_orchestrator._internal.dashboard.page import Page, Part

# <ol id="turns">: the only form in which we write it, and no text can look like it
ID_PATTERN = r' id="([^"]*)"'

# Any: JSON
Update = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Displayed:
    """What a tab has been sent."""

    title: str | None = None
    """None: nothing yet."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """By id, in the order of the page."""


def update_of(shown: Displayed, page: Page) -> tuple[Displayed, Update | None]:
    """Return what a tab shows once it has this page, and what it is sent for that, None if nothing.

    A part that is new in its place says after which other one it stands there; after None it is the
    first. One that holds others takes them along when it is replaced, so they are sent again.
    """
    now = Displayed(page.title, {part.id: part for part in page.parts})
    staying = _staying(shown.parts.values(), now.parts.values())
    last: dict[str, str] = {}
    renewed: set[str] = set()
    sent: list[Update] = []
    for part in now.parts.values():
        stays = part.id in staying and part.into not in renewed
        if not stays or part.html != shown.parts[part.id].html:
            renewed.update(re.findall(ID_PATTERN, part.html))
            place = {} if stays else {"after": last.get(part.into)}
            sent.append({"id": part.id, "into": part.into, "html": part.html, **place})
        last[part.into] = part.id
    gone = [one for one in shown.parts if one not in now.parts]
    if not sent and not gone and page.title == shown.title:
        return now, None
    return now, {"title": page.title, "parts": sent, "gone": gone}


def _staying(before: Iterable[Part], after: Iterable[Part]) -> set[str]:
    """Return the parts that stay where they are, as far as the order has not changed."""
    old, new = _by_place(before), _by_place(after)
    found: set[str] = set()
    for place in old.keys() & new.keys():
        both = {*old[place]} & {*new[place]}
        kept = [one for one in old[place] if one in both]
        wanted = [one for one in new[place] if one in both]
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(kept, wanted, strict=True))
        found.update(one for one, _ in alike)
    return found


def _by_place(parts: Iterable[Part]) -> dict[str, list[str]]:
    """Return the ids of parts by what holds them."""
    places: dict[str, list[str]] = {}
    for part in parts:
        places.setdefault(part.into, []).append(part.id)
    return places
