"""The HTML report in a real browser: from a file, with scripts and without."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.show.report_html import report_page
from cli_agent_orchestrator.show.report_text import title_of
from tests.show.test_report import FULL
from tests.web.browser import LOOKS, PHONE, Look, Windows, assert_usable, expect

pytestmark = pytest.mark.web

STEPS = {"tester": ["\x1b[31mno\x1b[0m", "\x1b[1;32myes\x1b[0m " + "x" * 200]}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "run.html"
    path.write_text(report_page(FULL, "Made by cao.", STEPS), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_it_can_be_read_and_opened_without_scripts(file: str, windows: Windows, look: Look) -> None:
    page = windows.open(look, scripts=False)
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
