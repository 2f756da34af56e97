"""Every view, for everybody: small and large, light and dark, by keyboard and by ear."""

import pytest

from tests.e2e.runs import rule
from tests.web.browser import assert_usable, expect
from tests.web.conftest import Demo

pytestmark = pytest.mark.web

ASKS = rule("programmer", contains='"ASK FIRST"', misbehave='{ ask = "Run: make clean" }')


def test_every_view_is_for_everybody_and_all_can_be_reached_with_the_keyboard(demo: Demo) -> None:
    visit = demo(ASKS)
    page, home = visit.page, f"{visit.server.url}/dashboard"
    done = visit.start()
    visit.expect_end("PASS")
    task = "# Task\nASK FIRST before the shopping_basket is touched.\n"
    asking = visit.start("shop", task)
    expect(page.locator("#need")).to_contain_text("asks you")
    assert_usable(page)
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim().slice(0, 20)"))
    assert {"Skip to the content", "1  Yes", "Stop the run", "Give a hint", "programmer"} <= reached
    for path, text in (
        ("", "needs you"),
        ("/new", "Start the run"),
        (f"/runs/{asking}/agents/programmer", "asks you"),
        (f"/runs/{done}/agents/programmer", "programmer"),
        (f"/runs/{done}", "PASS"),
    ):
        page.goto(f"{home}{path}")
        expect(page.locator("main")).to_contain_text(text, ignore_case=True)
        assert_usable(page)
    for number in (1, 6, 12):
        turn = page.locator(f"#turn-{number}")
        turn.locator("summary").first.click()
        expect(turn.locator(".turn")).to_be_visible()
    assert_usable(page)
