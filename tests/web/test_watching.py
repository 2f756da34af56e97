"""Runs that are watched on the page while they are under way."""

import re

import pytest

from tests.e2e.runs import rule
from tests.web.browser import PHONE, Page, expect
from tests.web.conftest import Demo
from tests.web.demo_runs import new_project, start_run
from tests.web.visits import hide, open_run, unhide

pytestmark = pytest.mark.web

MARKUP = "<img src=x onerror=alert(1)>"
SLOW = 0.4


def test_a_run_is_watched_to_its_pass_and_a_turn_opens_to_all_there_is_of_it(demo: Demo) -> None:
    visit = demo(seconds=SLOW)
    page = visit.page
    run = start_run(visit.machine, new_project(visit.folder, "basket"))
    page.get_by_role("link", name=re.compile("shopping_basket")).first.click()
    expect(page.locator("#turn-1")).to_be_visible()
    visit.expect_end("PASS")
    expect(page.locator("#head .badges")).to_contain_text("proven")
    # Two rounds: the gate did not agree with the first PASS of the tester.
    gate = page.locator("#turns > li").filter(has=page.get_by_role("heading", name="tests"))
    expect(gate.filter(has_text="failed").first).to_contain_text("round 1")
    expect(gate.first).to_contain_text("passed")
    assert run in page.url
    turn = page.locator("#turns > li", has_text="programmer").last
    turn.locator("summary").first.click()
    expect(turn).to_contain_text("PROGRAMMER_SUMMARY")
    expect(turn.locator(".diff-added").first).to_be_visible()
    turn.get_by_text("Prompt", exact=True).click()
    expect(turn).to_contain_text("ROUND: 1")


def test_names_and_texts_with_markup_are_shown_and_never_run(demo: Demo) -> None:
    bad = rule(
        "programmer",
        f"PROGRAMMER_SUMMARY:\n{MARKUP}</details></li><script>alert(2)</script>",
        write=f'[{{ path = "{MARKUP}.txt", content = "{MARKUP}" }}]',
        cycle="1",
    )
    visit = demo(bad)
    page = visit.page
    page.on("dialog", lambda dialog: visit.windows.complaints.append(dialog.message))
    task = f"# Task\n{MARKUP} shopping_basket\n"
    run = start_run(visit.machine, new_project(visit.folder, "<b>basket", task))
    expect(page.get_by_role("link", name=MARKUP).first).to_be_visible()
    open_run(page, visit.server, run)
    turn = page.locator("#turns > li").filter(has=page.get_by_role("heading", name="programmer"))
    turn.last.locator("summary").first.click()
    expect(turn.last).to_contain_text(f"{MARKUP}.txt")
    expect(turn.last).to_contain_text("</details></li><script>alert(2)</script>")
    assert page.locator("main img, main script, main b b").count() == 0


def scrolled(page: Page) -> tuple[float, float]:
    """Return how far the picture of the turns is scrolled, and how far it can be."""
    left, most = page.locator(".timeline-scroll").evaluate(
        "one => [one.scrollLeft, one.scrollWidth - one.clientWidth]"
    )
    return left, most


def test_on_a_phone_the_turns_come_first_and_the_picture_shows_the_last(demo: Demo) -> None:
    visit = demo(look=PHONE)
    page = visit.page
    visit.start()
    visit.expect_end("PASS")
    order = ("#turns-frame", "#picture", "#agents", "#plan")
    tops = [(page.locator(part).bounding_box() or {})["y"] for part in order]
    assert tops == sorted(tops)
    left, most = scrolled(page)
    assert most > 0
    assert left >= most - 2
    page.locator(".timeline-scroll").evaluate("one => one.scrollTo(0, 0)")
    hide(page)
    unhide(page)
    visit.expect_end("PASS")
    assert scrolled(page)[0] == 0
