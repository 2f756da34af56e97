"""All that can be opened and done at runs and agents, used, and looked at by axe while it is open.

`test_acting` has what is done most; here is the rest.
"""

import re

import pytest

from cli_agent_orchestrator.settings.layout import state_folder
from tests.e2e.runs import rule
from tests.web.browser import Page, assert_usable, expect
from tests.web.conftest import Demo
from tests.web.visits import RUN_MS, Visit

pytestmark = pytest.mark.web

REVISE = "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- code, test, risk: see the comment"
LOOKS_FIRST = rule(
    "programmer_review", REVISE, round="1", cycle="1", misbehave='{ ask = "May I look?" }'
)
"""The second reviewer asks something, so that the run waits."""


@pytest.fixture
def reviewed(demo: Demo) -> Visit:
    """A run whose second reviewer asks something, and the page of it."""
    visit = demo(LOOKS_FIRST)
    visit.start()
    asked = expect(visit.page.locator("#need"))
    asked.to_contain_text("programmer_review asks", timeout=RUN_MS)
    return visit


def opened(page: Page, part: str) -> Page:
    """Open what is folded, and return it."""
    found = page.locator(part)
    found.locator("summary").first.click()
    return found


def test_a_run_is_steered_by_its_forms(reviewed: Visit) -> None:
    page, said = reviewed.page, reviewed.page.locator("#said")
    hint = opened(page, "#hint")
    hint.get_by_label("Hint").fill("Mind the <tabs>.")
    hint.get_by_label("For").select_option("tester")
    rounds = opened(page, "#rounds")
    assert_usable(page)
    hint.get_by_role("button", name="Send the hint").click()
    expect(said).to_have_text("The hint will be in the next prompt of tester.")
    expect(hint.get_by_label("Hint")).to_have_value("")
    rounds.get_by_label("Rounds at most").fill("7")
    rounds.get_by_role("button", name="Set").click()
    expect(said).to_contain_text("max_rounds is 7 now")
    expect(page.locator("#head")).to_contain_text("of 7")
    page.get_by_role("button", name="Skip this review").click()
    expect(page.locator("#sure")).to_be_visible()
    assert_usable(page)
    page.locator("#sure-yes").click()
    expect(said).to_contain_text("programmer_review skipped in round 1")
    tester = page.locator("#turns > li").filter(has=page.get_by_role("heading", name="tester"))
    expect(tester.first).to_contain_text("round 1")
    (prompt,) = state_folder(reviewed.machine.env).glob("runs/20*/turns/*-tester-prompt.md")
    assert "Mind the <tabs>." in prompt.read_text(encoding="utf-8")


def test_an_agent_is_looked_at_and_spoken_to(reviewed: Visit) -> None:
    page = reviewed.page
    page.goto(f"{page.url}/agents/analyst")
    before = opened(page, "#scrollback")
    expect(before).to_contain_text("ANALYST_SUMMARY")
    replay = opened(page, "#replay")
    step = replay.get_by_text(re.compile(r"^Step \d+ of \d+"))
    expect(step).to_be_visible()
    replay.get_by_role("button", name="The first step").click()
    expect(step).to_contain_text("Step 1 of")
    expect(replay.get_by_role("button", name="Back 1 step")).to_be_disabled()
    replay.get_by_role("button", name="On 1 step").click()
    expect(step).to_contain_text("Step 2 of")
    replay.get_by_role("button", name="The last step").click()
    expect(replay.get_by_role("button", name="On 1 step")).to_be_disabled()
    expect(replay.locator("#replay-box")).to_contain_text("ANALYST_SUMMARY")
    assert_usable(page)
    message = page.locator("#message")
    message.get_by_label("Say something to it").fill("Are you there?")
    with page.expect_response("**/input") as told:
        message.get_by_role("button", name="Send").click()
    assert told.value.ok, told.value.text()
    expect(message.get_by_label("Say something to it")).to_have_value("")
    expect(page.locator("#said")).to_have_text("Sent to the analyst.")
    expect(page.locator("#screen")).to_contain_text("Are you there?")
