"""Every view, for everybody: small and large, light and dark, by keyboard and by ear."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import rule
from tests.web.browser import Page, Windows, assert_usable, expect
from tests.web.demo_runs import new_project, prepare_demo, start_run
from tests.web.visits import expect_end, open_run, served, sign_in

pytestmark = pytest.mark.web

ASKS = rule("programmer", contains='"ASK FIRST"', misbehave='{ ask = "Run: make clean" }')


@dataclass(frozen=True, slots=True)
class Shown:
    """A page that is signed in, and what there is to see."""

    page: Page
    url: str
    done: str
    """A run that has passed."""
    asking: str
    """A run whose programmer asks something."""


@pytest.fixture
def shown(machine: Machine, windows: Windows, tmp_path: Path) -> Iterator[Shown]:
    prepare_demo(machine, ASKS)
    with served(machine, windows) as server:
        page = windows.open()
        sign_in(page, machine, server)
        done = start_run(machine, new_project(tmp_path, "basket"))
        open_run(page, server, done)
        expect_end(page, "PASS")
        task = "# Task\nASK FIRST before the shopping_basket is touched.\n"
        asking = start_run(machine, new_project(tmp_path, "shop", task))
        open_run(page, server, asking)
        expect(page.locator("#need")).to_contain_text("asks you")
        yield Shown(page, server.url, done, asking)


def test_every_view_is_for_everybody(shown: Shown) -> None:
    page = shown.page
    assert_usable(page)
    for path, text in (
        ("", "needs you"),
        ("/new", "Start the run"),
        (f"/runs/{shown.asking}/agents/programmer", "asks you"),
        (f"/runs/{shown.done}/agents/programmer", "programmer"),
        (f"/runs/{shown.done}", "PASS"),
    ):
        page.goto(f"{shown.url}/dashboard{path}")
        expect(page.locator("main")).to_contain_text(text, ignore_case=True)
        assert_usable(page)


def test_an_open_turn_is_for_everybody(shown: Shown) -> None:
    page = shown.page
    page.goto(f"{shown.url}/dashboard/runs/{shown.done}")
    for number in (1, 6, 12):
        turn = page.locator(f"#turn-{number}")
        turn.locator("summary").first.click()
        expect(turn.locator(".turn")).to_be_visible()
    assert_usable(page)


def test_all_can_be_reached_with_the_keyboard(shown: Shown) -> None:
    page = shown.page
    page.goto(f"{shown.url}/dashboard/runs/{shown.asking}")
    expect(page.locator("#need")).to_contain_text("asks you")
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim().slice(0, 20)"))
    assert {"Skip to the content", "1  Yes", "Stop the run", "Give a hint", "programmer"} <= reached
