"""What people do most on the page: answer a question, and start a run."""

import re

import pytest

from tests.web.browser import expect
from tests.web.conftest import Demo
from tests.web.demo_runs import new_project, start_run
from tests.web.visits import answer, open_run

pytestmark = pytest.mark.web


def test_a_permission_question_is_answered_by_one_press(demo: Demo) -> None:
    visit = demo(asking=["programmer"])
    page = visit.page
    run = start_run(visit.machine, new_project(visit.folder, "basket"))
    needs = page.locator("#needs")
    expect(needs).to_contain_text("The programmer asks")
    needs.get_by_role("link", name="Answer").click()
    expect(page.locator("#need")).to_contain_text("Run: make clean")
    expect(page.locator(".screen").first).to_contain_text("Run: make clean")
    answer(page)
    expect(page.locator("#need")).to_be_hidden()
    open_run(page, visit.server, run)
    expect(page.locator("#acts")).to_contain_text("answered what the programmer asked: Yes")
    visit.expect_end("PASS")


def test_a_run_is_started_from_a_form_that_says_what_is_wrong_and_keeps_what_was_typed(
    demo: Demo,
) -> None:
    visit = demo()
    visit.windows.forgive("the server responded with a status of 4")
    page = visit.page
    project = new_project(visit.folder, "basket")
    page.get_by_role("link", name="New run").first.click()
    task, folder = page.get_by_label("Task"), page.get_by_label("Project folder")
    start = page.get_by_role("button", name="Start the run")
    task.fill("Let the basket know a discount.\n\nIn plain words.")
    folder.fill("/nowhere/at/all")
    page.get_by_label("Agent", exact=True).select_option("scripted")
    start.click()
    expect(page.get_by_role("alert")).to_contain_text("Project folder: '/nowhere/at/all'")
    expect(page.locator("#said")).to_be_empty()
    expect(start).to_be_enabled()
    expect(task).to_have_value("Let the basket know a discount.\n\nIn plain words.")
    folder.fill(str(project))
    start.click()
    page.wait_for_url(re.compile(r"/dashboard/runs/\d{8}-"))
    visit.expect_end("PASS")
