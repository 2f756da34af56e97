"""Runs for the views, as plain or as hostile as a test wants them."""

import re
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import fields, replace

from cli_agent_orchestrator.core.models import Terminal, TerminalStatus
from cli_agent_orchestrator.page.words import Page, RunOnPage
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.runs.record import SavedSetting
from cli_agent_orchestrator.runs.view import RunView
from tests.runs.views import NOON, RUN, a_run, a_turn
from tests.show.reading import Elements

HOSTILE = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "</li></ul><h1>",
            "<!--",
            "\"'>",
            "../../etc",
            "a/b?c#d",
            "\x00\x1b[31m",
            "\u202e",
            "\ud800",
            "x" * 5000,
            "two\nlines",
        ]
    ),
)


# Any: fields of a run, or of its page
def a_page(run: RunView | None = None, **changes: Any) -> RunOnPage:
    """Return the page of a run with two turns, whose second is under way if the run is live."""
    run = run or a_run()
    broken_off = None if run.is_live else NOON - 390
    told: dict[str, Any] = {
        "turns": (a_turn(1), a_turn(2, role="programmer", outcome="", ended=broken_off)),
        "reviewers": ("analyst_review", "programmer_review"),
        "settings": {"MAX_ROUNDS": SavedSetting("8", "option")},
        "course": packaged_flow("loop").stages,
        **changes,
    }
    own = {part.name for part in fields(RunOnPage)} & told.keys()
    of_run = {name: value for name, value in told.items() if name not in own}
    return RunOnPage(replace(run, **of_run), **{name: told[name] for name in own})


# Any: fields of a dataclass
def a_terminal(**changes: Any) -> Terminal:
    terminal = Terminal(
        id="p1",
        name="programmer-1",
        provider="claude_code",
        session_name=f"cao-{RUN}",
        agent_profile="programmer",
        working_directory="/home/ada/shop",
        status=TerminalStatus.PROCESSING,
        last_active="2023-11-14T22:13:20+00:00",
    )
    return replace(terminal, **changes)


def written(page: Page) -> str:
    """Return all that a page says."""
    return " ".join(Elements(part.html).written for part in page.parts)


def part_of(page: Page, number: str) -> Elements:
    """Return one part of a page."""
    return Elements(next(part.html for part in page.parts if part.id == number))


def is_of_this_server(address: str) -> bool:
    """Does an address lead to our own server, whatever a browser makes of it?"""
    return re.match(r"/(?:dashboard|runs|terminals)(?:[/?#]|\Z)|/\Z", address) is not None


def check_page(page: Page) -> None:
    """Is a page as it must be, whatever its data is?

    Each part is one element with its own id, in something that stands before it; headings, labels
    and addresses are in order, and nothing but our own elements is there.
    """
    ids: list[str] = ["main"]
    level = 0
    for part in page.parts:
        read = Elements(part.html)
        assert read.is_closed, part.id
        assert read.found[0][1].get("id") == part.id
        assert part.into in ids, f"{part.id} stands before {part.into}"
        ids += [number for _, attributes in read.found if (number := attributes.get("id"))]
        assert not read.names & {"script", "style", "iframe", "img"}
        labeled = {attributes.get("for") for attributes in read.of("label")}
        for name, attributes in read.found:
            assert not any(key.startswith("on") or key == "style" for key in attributes)
            if name in ("input", "select", "textarea") and attributes.get("type") != "hidden":
                assert attributes["id"] in labeled
            for key in ("href", "data-post", "data-fragment"):
                assert is_of_this_server(attributes.get(key) or "/"), attributes[key]
            if name == "h1":
                level = 1
    assert level == 1
    assert len(ids) == len(set(ids)), "an id stands twice"
