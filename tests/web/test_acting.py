"""What people do on the page: answer, steer, comment, start."""

import re
from pathlib import Path

import pytest

from cli_agent_orchestrator.settings.config import state_folder
from tests.e2e.conftest import Machine
from tests.e2e.runs import rule
from tests.web.browser import Windows, expect
from tests.web.demo_runs import new_project, prepare_demo, start_run
from tests.web.visits import answer, expect_end, hide, open_run, press_choice, served, sign_in

pytestmark = pytest.mark.web

REFUSED = "Failed to load resource: the server responded with a status of 409"
REVISE = "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- code, test, risk: see the comment"


def prompts_of(machine: Machine, text: str) -> list[str]:
    """Return which prompts of a run hold a text."""
    found = state_folder(machine.env).glob("runs/20*/turns/*-prompt.md")
    return sorted(path.name for path in found if text in path.read_text(encoding="utf-8"))


def test_a_permission_question_is_answered_by_one_press(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    prepare_demo(machine, asking=["programmer"])
    with served(machine, windows) as server:
        page = windows.open()
        sign_in(page, machine, server)
        run = start_run(machine, new_project(tmp_path, "basket"))
        needs = page.locator("#needs")
        expect(needs).to_contain_text("The programmer asks")
        needs.get_by_role("link", name="Answer").click()
        expect(page.locator("#need")).to_contain_text("Run: make clean")
        expect(page.locator(".screen").first).to_contain_text("Run: make clean")
        answer(page)
        expect(page.locator("#need")).to_be_hidden()
        open_run(page, server, run)
        expect(page.locator("#acts")).to_contain_text("answered what the programmer asked: Yes")
        expect_end(page, "PASS")


def test_of_two_who_answer_one_question_the_second_is_told(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    prepare_demo(machine, asking=["analyst", "programmer"])
    windows.forgive(REFUSED)
    with served(machine, windows) as server:
        run = start_run(machine, new_project(tmp_path, "basket"))
        first, second = windows.open(), windows.open()
        for page in (first, second):
            sign_in(page, machine, server)
            open_run(page, server, run)
            expect(page.locator("#need")).to_contain_text("analyst asks you")
        hide(second)  # what it shows stays as it is
        answer(first)
        expect(first.locator("#need")).to_contain_text("programmer asks you")
        assert press_choice(second) == 409
        expect(second.locator("#said")).to_contain_text(re.compile("answered|not asked any more"))
        # Nothing was typed: the question that came up since then is still there.
        expect(first.locator("#need")).to_contain_text("programmer asks you")
        answer(first)
        expect_end(first, "PASS")


def test_a_comment_at_a_line_becomes_a_hint_to_its_author(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    waits = rule(
        "programmer_review", REVISE, round="1", cycle="1", misbehave='{ ask = "May I look?" }'
    )
    prepare_demo(machine, waits)
    project = new_project(tmp_path, "basket")
    with served(machine, windows) as server:
        page = windows.open()
        sign_in(page, machine, server)
        run = start_run(machine, project)
        open_run(page, server, run)
        expect(page.locator("#need")).to_contain_text("programmer_review asks you")
        turn = page.locator("#turns > li").filter(
            has=page.get_by_role("heading", name="programmer", exact=True)
        )
        turn.locator("summary").first.click()
        line = turn.get_by_role("button", name=re.compile("^Comment on line"))
        line.first.click()
        box = turn.get_by_label("Comment for the author of this line")
        expect(box).to_be_focused()
        box.fill("Say why in <b>one</b> line.")
        turn.get_by_role("button", name="Send").click()
        expect(page.locator("#said")).to_contain_text("next prompt")
        answer(page)
        expect_end(page, "PASS")
    told = prompts_of(machine, "Say why in <b>one</b> line.")
    assert [re.sub(r"^\d+-", "", name) for name in told[:1]] == ["programmer-prompt.md"]
    assert len(told) == 1


def test_a_run_is_paused_and_goes_on_and_is_stopped(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    prepare_demo(machine, asking=["analyst", "programmer"])
    with served(machine, windows) as server:
        page = windows.open()
        sign_in(page, machine, server)
        run = start_run(machine, new_project(tmp_path, "basket"))
        open_run(page, server, run)
        expect(page.locator("#need")).to_contain_text("analyst asks you")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#said")).to_contain_text("pauses")
        answer(page)
        expect(page.locator("#head .badges")).to_contain_text("paused")
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#need")).to_contain_text("programmer asks you")
        page.get_by_role("button", name="Stop").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(page.locator("#need")).to_contain_text("programmer asks you")
        page.get_by_role("button", name="Stop").click()
        dialog.get_by_role("button", name="Stop the run").click()
        expect(page.locator("#head .badges")).to_contain_text("stopped")


def test_a_run_is_started_from_the_page(machine: Machine, windows: Windows, tmp_path: Path) -> None:
    prepare_demo(machine)
    project = new_project(tmp_path, "basket")
    with served(machine, windows) as server:
        page = windows.open()
        sign_in(page, machine, server)
        page.get_by_role("link", name="New run").first.click()
        page.get_by_label("Task").fill("Let the basket know a discount.\n\nIn plain words.")
        page.get_by_label("Project folder").fill(str(project))
        page.get_by_label("Agent", exact=True).select_option("scripted")
        page.get_by_role("button", name="Start the run").click()
        page.wait_for_url(re.compile(r"/dashboard/runs/\d{8}-"))
        expect_end(page, "PASS")


def test_a_form_that_is_wrong_says_why_and_keeps_what_was_typed(
    machine: Machine, windows: Windows
) -> None:
    windows.forgive("the server responded with a status of 4")
    with served(machine, windows) as server:
        page = windows.open()
        sign_in(page, machine, server)
        page.goto(f"{server.url}/dashboard/new")
        page.get_by_label("Task").fill("# Task\nDo it.")
        page.get_by_label("Project folder").fill("/nowhere/at/all")
        page.get_by_label("Agent", exact=True).select_option("scripted")
        page.get_by_role("button", name="Start the run").click()
        problem = page.get_by_role("alert")
        expect(problem).to_contain_text("Project folder: '/nowhere/at/all'")
        expect(page.locator("#said")).to_be_empty()
        expect(page.get_by_role("button", name="Start the run")).to_be_enabled()
        expect(page.get_by_label("Task")).to_have_value("# Task\nDo it.")
