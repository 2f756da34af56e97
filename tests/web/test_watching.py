"""Runs that are watched on the page while they are under way."""

import re
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import rule
from tests.web.browser import PHONE, Page, Windows, assert_usable, expect
from tests.web.demo_runs import new_project, prepare_demo, start_run
from tests.web.visits import (
    RUN_MS,
    answer,
    expect_end,
    hide,
    open_run,
    own_port,
    served,
    sign_in,
    unhide,
)

pytestmark = pytest.mark.web

MARKUP = "<img src=x onerror=alert(1)>"
SLOW = 0.4


def assert_passed(page: Page) -> None:
    expect_end(page, "PASS")


def test_a_run_is_watched_to_its_pass(machine: Machine, windows: Windows, tmp_path: Path) -> None:
    prepare_demo(machine, seconds=(SLOW,))
    with served(machine, windows) as server:
        page = windows.open()
        sign_in(page, machine, server)
        run = start_run(machine, new_project(tmp_path, "basket"))
        page.get_by_role("link", name=re.compile("shopping_basket")).first.click()
        expect(page.locator("#turn-1")).to_be_visible()
        assert_passed(page)
        expect(page.locator("#head .badges")).to_contain_text("proven")
        # Two rounds: the gate did not agree with the first PASS of the tester.
        gate = page.locator("#turns > li").filter(has=page.get_by_role("heading", name="tests"))
        expect(gate.filter(has_text="failed").first).to_contain_text("round 1")
        expect(gate.first).to_contain_text("passed")
        assert run in page.url


def test_a_turn_opens_to_all_there_is_of_it(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    prepare_demo(machine)
    with served(machine, windows) as server:
        page = windows.open()
        sign_in(page, machine, server)
        run = start_run(machine, new_project(tmp_path, "basket"))
        open_run(page, server, run)
        assert_passed(page)
        turn = page.locator("#turns > li", has_text="programmer").last
        turn.locator("summary").first.click()
        expect(turn).to_contain_text("PROGRAMMER_SUMMARY")
        expect(turn.locator(".diff-added").first).to_be_visible()
        turn.get_by_text("Prompt", exact=True).click()
        expect(turn).to_contain_text("ROUND: 1")


def test_names_and_texts_with_markup_are_shown_and_never_run(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    bad = rule(
        "programmer",
        f"PROGRAMMER_SUMMARY:\n{MARKUP}</details></li><script>alert(2)</script>",
        write=f'[{{ path = "{MARKUP}.txt", content = "{MARKUP}" }}]',
        cycle="1",
    )
    prepare_demo(machine, bad)
    project = new_project(tmp_path, "<b>basket", f"# Task\n{MARKUP} shopping_basket\n")
    with served(machine, windows) as server:
        page = windows.open()
        page.on("dialog", lambda dialog: windows.complaints.append(dialog.message))
        sign_in(page, machine, server)
        run = start_run(machine, project)
        expect(page.get_by_role("link", name=MARKUP).first).to_be_visible()
        open_run(page, server, run)
        turn = page.locator("#turns > li").filter(
            has=page.get_by_role("heading", name="programmer")
        )
        turn.last.locator("summary").first.click()
        expect(turn.last).to_contain_text(f"{MARKUP}.txt")
        expect(turn.last).to_contain_text("</details></li><script>alert(2)</script>")
        assert page.locator("main img, main script, main b b").count() == 0


def test_the_page_survives_the_end_of_the_server_and_misses_nothing(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    prepare_demo(machine, asking=["analyst"])
    windows.forgive("ERR_")
    page = windows.open()
    port = str(own_port())
    with machine.server("--port", port) as server:
        sign_in(page, machine, server)
        run = start_run(machine, new_project(tmp_path, "basket"))
        open_run(page, server, run)
        expect(page.locator("#need")).to_contain_text("asks you")
        server.kill()
    expect(page.locator("#connection")).to_contain_text("No connection")
    expect(page.locator("#need")).to_contain_text("asks you")
    with served(machine, windows, "--port", port):
        expect(page.locator("#connection")).to_be_empty()
        answer(page)
        assert_passed(page)
        expect(page.locator("#turn-1")).to_be_visible()


def test_the_verdict_is_on_the_page_though_the_server_ends_with_the_run(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    prepare_demo(machine, asking=["analyst"])
    windows.forgive("ERR_")
    everything, page = windows.open(), windows.open()
    run = start_run(machine, new_project(tmp_path, "basket"))
    for one in (everything, page):
        told = machine.cao("dashboard", "--no-open").stdout
        (link,) = re.findall(r"http://\S+#\S+", told)
        one.goto(link)
        expect(one.locator("#needs-rows")).to_contain_text("asks you")
    page.goto(f"{link.partition('/dashboard')[0]}/dashboard/runs/{run}")
    answer(page)
    expect(page.locator("#connection")).to_contain_text("The server has ended", timeout=RUN_MS)
    expect_end(page, "PASS")
    expect(everything.locator("#done-rows")).to_contain_text("PASS")


def test_a_hidden_tab_gives_up_its_stream_and_returns_without_a_gap(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    prepare_demo(machine, asking=["analyst"])
    with served(machine, windows) as server:
        page, other = windows.open(), windows.open()
        sign_in(page, machine, server)
        sign_in(other, machine, server)
        run = start_run(machine, new_project(tmp_path, "basket"))
        for one in (page, other):
            open_run(one, server, run)
            expect(one.locator("#need")).to_contain_text("asks you")
        with page.expect_event("requestfailed", lambda one: "/dashboard/stream" in one.url):
            hide(page)
        answer(other)
        assert_passed(other)
        expect(page.locator("#need")).to_contain_text("asks you")
        unhide(page)
        assert_passed(page)
        assert page.locator("#turns > li").count() == other.locator("#turns > li").count()


def test_a_run_that_is_not_there_is_said_and_leads_to_all_runs(
    machine: Machine, windows: Windows
) -> None:
    windows.forgive("the server responded with a status of 404")
    with served(machine, windows) as server:
        page = windows.open()
        sign_in(page, machine, server)
        page.goto(f"{server.url}/dashboard/nosuch")
        expect(page.locator("main")).to_contain_text("There is no page '/dashboard/nosuch'")
        page.goto(f"{server.url}/dashboard/runs/20200101-000000-abcd")
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        expect(page.locator("main")).to_contain_text("There is no run '20200101-000000-abcd'.")
        assert_usable(page)
        page.get_by_role("link", name="All runs").click()
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()


def scrolled(page: Page) -> tuple[float, float]:
    """Return how far the picture of the turns is scrolled, and how far it can be."""
    left, most = page.locator(".timeline-scroll").evaluate(
        "one => [one.scrollLeft, one.scrollWidth - one.clientWidth]"
    )
    return left, most


def test_on_a_phone_the_turns_come_first_and_the_picture_shows_the_last(
    machine: Machine, windows: Windows, tmp_path: Path
) -> None:
    prepare_demo(machine)
    with served(machine, windows) as server:
        page = windows.open(PHONE)
        sign_in(page, machine, server)
        run = start_run(machine, new_project(tmp_path, "basket"))
        open_run(page, server, run)
        assert_passed(page)
        order = ("#turns-frame", "#picture", "#agents", "#plan")
        tops = [(page.locator(part).bounding_box() or {})["y"] for part in order]
        assert tops == sorted(tops)
        left, most = scrolled(page)
        assert most > 0
        assert left >= most - 2
        page.locator(".timeline-scroll").evaluate("one => one.scrollTo(0, 0)")
        hide(page)
        unhide(page)
        assert_passed(page)
        assert scrolled(page)[0] == 0
