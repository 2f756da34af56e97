"""All that can be opened and done at runs and agents, used, and looked at by axe while it is open.

`test_acting` has what is done most; here is the rest.
"""

import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.page import follow as following
from cli_agent_orchestrator.page.all_runs import MOST_DONE
from cli_agent_orchestrator.page.stream import PageContext
from cli_agent_orchestrator.page.words import Page as ShownPage
from cli_agent_orchestrator.runs.record import write_record
from cli_agent_orchestrator.settings.config import state_folder
from cli_agent_orchestrator.settings.layout import run_folder
from cli_agent_orchestrator.show.markup import Markup
from tests.e2e.conftest import Machine
from tests.e2e.runs import rule
from tests.page.rig import PageRig, link
from tests.server.run_rig import EVENTS
from tests.web.browser import DESK, Page, Windows, assert_usable, expect, look_at
from tests.web.demo_runs import new_project, prepare_demo, start_run
from tests.web.visits import answer, expect_end, open_run, served, sign_in

pytestmark = pytest.mark.web

REVISE = "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- code, test, risk: not yet"
LOOKS_FIRST = rule(
    "programmer_review", REVISE, round="1", cycle="1", misbehave='{ ask = "May I look?" }'
)
OLDER = 3


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A run whose second reviewer asks something, so that it waits, and the page of it."""

    page: Page
    url: str
    project: Path


@pytest.fixture
def reviewed(machine: Machine, windows: Windows, tmp_path: Path) -> Iterator[Reviewed]:
    prepare_demo(machine, LOOKS_FIRST)
    project = new_project(tmp_path, "basket")
    with served(machine, windows) as server:
        page = windows.open()
        sign_in(page, machine, server)
        run = start_run(machine, project)
        open_run(page, server, run)
        expect(page.locator("#need")).to_contain_text("programmer_review asks", timeout=60_000)
        yield Reviewed(page, f"{server.url}/dashboard/runs/{run}", project)


def assert_usable_open(page: Page) -> None:
    """Look at a page in all sizes, and go back to that in which it is used."""
    assert_usable(page)
    look_at(page, DESK)


def opened(page: Page, part: str) -> Page:
    """Open what is folded, and return it."""
    found = page.locator(part)
    found.locator("summary").first.click()
    return found


def test_a_run_is_steered_by_its_forms(reviewed: Reviewed, machine: Machine) -> None:
    page, said = reviewed.page, reviewed.page.locator("#said")
    hint = opened(page, "#hint")
    hint.get_by_label("Hint").fill("Mind the <tabs>.")
    hint.get_by_label("For").select_option("tester")
    rounds = opened(page, "#rounds")
    assert_usable_open(page)
    hint.get_by_role("button", name="Send the hint").click()
    expect(said).to_have_text("The hint will be in the next prompt of tester.")
    expect(hint.get_by_label("Hint")).to_have_value("")
    rounds.get_by_label("Rounds at most").fill("7")
    rounds.get_by_role("button", name="Set").click()
    expect(said).to_contain_text("max_rounds is 7 now")
    expect(page.locator("#head")).to_contain_text("of 7")
    page.get_by_role("button", name="Skip this review").click()
    expect(page.locator("#sure")).to_be_visible()
    assert_usable_open(page)
    page.locator("#sure-yes").click()
    expect(said).to_contain_text("programmer_review skipped in round 1")
    tester = page.locator("#turns > li").filter(has=page.get_by_role("heading", name="tester"))
    expect(tester.first).to_contain_text("round 1")
    (prompt,) = state_folder(machine.env).glob("runs/20*/turns/*-tester-prompt.md")
    assert "Mind the <tabs>." in prompt.read_text(encoding="utf-8")


def test_a_line_is_commented_on_by_everybody(reviewed: Reviewed) -> None:
    page = reviewed.page
    turn = page.locator("#turns > li").filter(
        has=page.get_by_role("heading", name="programmer", exact=True)
    )
    turn.locator("summary").first.click()
    turn.get_by_role("button", name=re.compile("^Comment on line")).first.click()
    expect(turn.get_by_label("Comment for the author of this line")).to_be_focused()
    assert_usable_open(page)


def test_an_agent_is_looked_at_and_spoken_to(reviewed: Reviewed) -> None:
    page = reviewed.page
    page.goto(f"{reviewed.url}/agents/analyst")
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
    assert_usable_open(page)
    message = page.locator("#message")
    message.get_by_label("Say something to it").fill("Are you there?")
    with page.expect_response("**/input") as told:
        message.get_by_role("button", name="Send").click()
    assert told.value.ok, told.value.text()
    expect(message.get_by_label("Say something to it")).to_have_value("")
    expect(page.locator("#said")).to_have_text("Sent to the analyst.")
    expect(page.locator("#screen")).to_contain_text("Are you there?")


def test_a_paused_run_is_for_everybody(reviewed: Reviewed) -> None:
    page = reviewed.page
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#said")).to_contain_text("pauses")
    answer(page)
    expect(page.locator("#head .badges")).to_contain_text("paused")
    assert_usable_open(page)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#said")).to_have_text("The run goes on.")
    expect_end(page, "PASS")


def test_a_run_that_fails_says_so_to_everybody_and_then_vanishes(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    prepare_demo(machine)
    machine.env["MAX_ROUNDS"] = "1"
    with served(machine, windows) as server:
        page = windows.open()
        sign_in(page, machine, server)
        run = start_run(machine, new_project(tmp_path, "basket"))
        open_run(page, server, run)
        expect_end(page, "FAIL")
        expect(page.locator("#head .badges")).not_to_contain_text("PASS")
        expect(page.locator("#turns")).to_contain_text("failed")
        expect(page).to_have_title(re.compile("FAIL"))
        assert_usable_open(page)
        page.goto(f"{server.url}/dashboard")
        expect(page.locator("#main")).to_contain_text("FAIL")
        assert_usable_open(page)
        open_run(page, server, run)
        done = machine.cao("clean", "--older-than", "0", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        expect(page.get_by_role("alert")).to_contain_text("not there any more")
        assert_usable_open(page)


class ManyRuns(PageRig):
    """A server with more runs than its page shows at once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.happen(*EVENTS)
        for number in range(1, MOST_DONE + OLDER):
            folder_of_it = run_folder(self.state, f"20261115-0840{number:02d}-aaaa")
            folder_of_it.make()
            write_record(folder_of_it, replace(self.record, id=folder_of_it.path.name))

    def watched(self, path: str, context: PageContext) -> AsyncGenerator[ShownPage, None]:
        return following.watched(path, context)

    async def fragment(self, path: str, context: PageContext) -> Markup:
        return await following.fragment(path, context)


def test_older_runs_are_fetched_when_they_are_asked_for(windows: Windows, tmp_path: Path) -> None:
    with ManyRuns(tmp_path).served() as url:
        page = windows.open()
        page.goto(f"{url}/dashboard/sign-in#{link(url)}")
        expect(page.locator("#done-rows > li")).to_have_count(MOST_DONE)
        older = opened(page, "#older")
        expect(older.locator("summary").first).to_have_text(f"Show {OLDER} older runs")
        expect(older.locator("li.run")).to_have_count(OLDER)
        assert_usable(page)
        windows.shut()
