"""A run as one HTML file, in a real browser, with scripts and without."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.show.report_html import report_page
from cli_agent_orchestrator.show.report_text import title_of
from tests.e2e.conftest import Machine
from tests.show.test_report import FULL
from tests.web.browser import PHONE, Windows, assert_usable, expect
from tests.web.demo_runs import new_project, prepare_demo

pytestmark = pytest.mark.web

STEPS = {"tester": ["\x1b[31mno\x1b[0m", "\x1b[1;32myes\x1b[0m " + "x" * 200]}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "run.html"
    path.write_text(report_page(FULL, "Made by cao.", STEPS), encoding="utf-8")
    return path.as_uri()


def test_it_can_be_read_and_opened_without_scripts(file: str, windows: Windows) -> None:
    page = windows.open(PHONE, scripts=False)
    page.goto(file)
    expect(page.get_by_role("heading", level=1)).to_have_text(title_of(FULL))
    reply = page.get_by_text("it is done", exact=True)
    expect(reply).to_be_hidden()
    page.get_by_role("heading", name="1. analyst").click()
    expect(reply).to_be_visible()


def test_everybody_can_use_it(file: str, windows: Windows) -> None:
    page = windows.open(PHONE)
    page.goto(file)
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert_usable(page)


def test_the_report_of_the_demo_has_its_whole_course(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    prepare_demo(machine)
    project = new_project(tmp_path, "basket")
    machine.cao("run", "task.md", "--end-agents", folder=project, code=0)
    told = machine.cao("report", "--format", "html", folder=project, code=0)
    report = tmp_path / "report.html"
    report.write_text(told.stdout, encoding="utf-8")
    page = windows.open(scripts=False)
    page.goto(report.as_uri())
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    main = page.locator("body")
    for words in ("PASS", "proven", "shopping_basket", "programmer_review", "round 2"):
        expect(main).to_contain_text(words, ignore_case=True)
    expect(page.get_by_role("img").first).to_be_visible()
    expect(page.locator(".diff-added").first).to_be_attached()
    folded = page.locator("details").filter(has_text="PROGRAMMER_SUMMARY").first
    folded.locator("summary").first.click()
    expect(folded).to_have_attribute("open", "")
    page = windows.open()
    page.goto(report.as_uri())
    hidden = "one => one.scrollWidth - one.clientWidth"
    assert page.locator(".timeline-scroll").evaluate(hidden) == 0, "all turns are seen at once"
