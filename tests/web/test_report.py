"""A run as one HTML file, read where no script runs and nothing can be fetched."""

from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.web.browser import DESK, Page, Windows, expect, look_at
from tests.web.demo_runs import new_project, prepare_demo

pytestmark = pytest.mark.web


def report_of(machine: Machine, folder: Path) -> Path:
    """Run the demo to its end, and write its report."""
    prepare_demo(machine)
    project = new_project(folder, "basket")
    ran = machine.cao("run", "task.md", "--end-agents", folder=project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = machine.cao("report", "--format", "html", folder=project)
    assert told.returncode == 0, told.stderr
    file = folder / "report.html"
    file.write_text(told.stdout, encoding="utf-8")
    return file


def shown(windows: Windows, file: Path, *, scripts: bool) -> Page:
    page = windows.open(scripts=scripts)
    page.goto(file.as_uri())
    return page


def test_it_is_read_without_scripts(machine: Machine, windows: Windows, tmp_path: Path) -> None:
    page = shown(windows, report_of(machine, tmp_path), scripts=False)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    main = page.locator("body")
    for words in ("PASS", "proven", "shopping_basket", "programmer_review", "round 2"):
        expect(main).to_contain_text(words, ignore_case=True)
    expect(page.get_by_role("img").first).to_be_visible()
    expect(page.locator(".diff-added").first).to_be_attached()
    folded = page.locator("details").filter(has_text="PROGRAMMER_SUMMARY").first
    folded.locator("summary").first.click()
    expect(folded).to_have_attribute("open", "")


def test_the_whole_course_of_the_demo_is_seen_at_once(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    page = shown(windows, report_of(machine, tmp_path), scripts=True)
    look_at(page, DESK)
    hidden = "one => one.scrollWidth - one.clientWidth"
    assert page.locator(".timeline-scroll").evaluate(hidden) == 0
