"""What the script of the page does with each thing that a view can hold, and that nothing is lost.

The view is a part that a test writes; what is posted is answered by the test, too.
"""

import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli_agent_orchestrator.errors import NotFound, UsageError
from cli_agent_orchestrator.page.app import page_file
from cli_agent_orchestrator.page.stream import PageContext
from cli_agent_orchestrator.page.words import Page, Part
from cli_agent_orchestrator.show.markup import Child, Markup, joined, tag
from tests.page.rig import ChangingRig
from tests.web.browser import Page as Tab
from tests.web.browser import Windows, assert_usable, expect

pytestmark = pytest.mark.web

NOWHERE = "/dashboard/runs/nowhere"
SLOW = re.compile(r"/fragment\?path=.*slow")
BROKEN = "/dashboard/runs/broken"
# In an array that scripts may fill: the page allows no style that is written into it.
SMALL_BOX = """() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("#box { width: 90px; height: 60px; overflow: auto; white-space: pre }");
    document.adoptedStyleSheets = [sheet];
}"""


class Stage(ChangingRig):
    """A server whose page holds what a test puts there."""

    inner: Child = None

    def put(self, *inner: Child) -> None:
        """Show something in place of what is there; `shown` waits for it."""
        self.inner = joined(one for one in inner if one is not None)
        self.change()

    def watched(self, path: str, context: PageContext) -> AsyncGenerator[Page, None]:
        if path == NOWHERE:
            raise NotFound("run", "nowhere", [])
        return broken() if path == BROKEN else self.pages(context)

    def page(self) -> Page:
        html = tag("section", tag("h1", f"Number {self.number}"), self.inner, id="part")
        return Page("Stage", (Part("part", html),))

    async def fragment(self, path: str, context: PageContext) -> Markup:
        ways = (button(name, data_fragment=f"/dashboard/{name}") for name in ("slow", "fast"))
        return tag("div", tag("p", f"this is {path}", id="fetched"), joined(ways))


async def broken() -> AsyncGenerator[Page, None]:
    """Be a page that cannot be made."""
    raise UsageError("its folder cannot be read")
    yield


def button(words: str, **more: Child) -> Markup:
    return tag("button", words, type="button", **more)


class Posts:
    """What a tab posts under /posted, kept until it is answered."""

    def __init__(self, tab: Tab) -> None:
        self._routes: list[Any] = []  # Any: see `Page`
        tab.route("**/posted/*", lambda route: self._routes.append(route))
        self._tab = tab

    @contextmanager
    def expected(self) -> Iterator[None]:
        """Wait until something that the block does has been posted."""
        with self._tab.expect_request("**/posted/*"):
            yield
        roundtrip(self._tab)

    def bodies(self, path: str) -> list[Any]:  # Any: JSON
        """Return what was posted to a path so far."""
        requests = [route.request for route in self._routes]
        return [one.post_data_json for one in requests if one.url.endswith(f"/posted/{path}")]

    def answer(self, status: int = 200, **fields: str) -> None:
        """Answer what was posted last."""
        self._routes[-1].fulfill(status=status, json=fields)


@pytest.fixture
def rig(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def stage(rig: Stage) -> Stage:
    return rig


def shown(tab: Tab, stage: Stage, *inner: Child) -> None:
    """Put something into the page, and wait until it is shown."""
    stage.put(*inner)
    expect(tab.locator("h1")).to_have_text(f"Number {stage.number}")


def answered(tab: Tab, **fields: str) -> None:
    """Answer whatever is posted at once."""
    tab.route("**/posted/*", lambda route: route.fulfill(json=fields))


def roundtrip(tab: Tab) -> None:
    """Ask the server for something after all that has been asked so far."""
    tab.evaluate("() => fetch('/dashboard/static/icon.svg').then(answer => answer.text())")


# Acting


def test_a_double_press_posts_once(tab: Tab, stage: Stage) -> None:
    posts = Posts(tab)
    shown(tab, stage, button("Go", data_post="/posted/go"))
    with posts.expected():
        tab.get_by_role("button", name="Go").dblclick()
    posts.answer(text="Gone.")
    expect(tab.locator("#said")).to_have_text("Gone.")
    roundtrip(tab)
    assert posts.bodies("go") == [{}]
    with posts.expected():
        tab.get_by_role("button", name="Go").click()
    posts.answer(text="Gone again.")
    expect(tab.locator("#said")).to_have_text("Gone again.")


def test_that_the_server_takes_its_time_is_said(tab: Tab, stage: Stage) -> None:
    posts = Posts(tab)
    tab.clock.install()
    shown(tab, stage, button("Go", data_post="/posted/go"))
    with posts.expected():
        tab.get_by_role("button", name="Go").click()
    expect(tab.locator("#said")).to_be_empty()
    tab.clock.run_for(5_000)
    expect(tab.locator("#said")).to_have_text("The server has not answered yet …")
    posts.answer(text="Gone.")
    expect(tab.locator("#said")).to_have_text("Gone.")
    tab.clock.run_for(5_000)
    expect(tab.locator("#said")).to_have_text("Gone.")


def test_who_is_not_signed_in_any_more_learns_it_when_acting(
    tab: Tab, stage: Stage, windows: Windows
) -> None:
    windows.forgive("status of 401")
    tab.route("**/posted/*", lambda route: route.fulfill(status=401, json={"detail": "no key"}))
    shown(tab, stage, button("Go", data_post="/posted/go"))
    tab.get_by_role("button", name="Go").click()
    expect(tab.get_by_role("heading", name="Not signed in")).to_be_visible()
    expect(tab.locator("#said")).to_have_text("no key")


def test_what_is_refused_is_said_and_can_be_tried_again(
    tab: Tab, stage: Stage, windows: Windows
) -> None:
    windows.forgive("status of 409")
    tab.route("**/posted/*", lambda route: route.fulfill(status=409, json={"detail": "not now"}))
    shown(tab, stage, button("Go", data_post="/posted/go"))
    for _ in range(2):
        with tab.expect_response("**/posted/go"):
            tab.get_by_role("button", name="Go").click()
        expect(tab.locator("#said")).to_have_text("not now")
        expect(tab.locator("#said")).to_have_class(re.compile("problem"))


def test_what_cannot_be_asked_for_any_more_is_not_asked_about_either(
    tab: Tab, stage: Stage
) -> None:
    posts = Posts(tab)

    def skip(cycle: int) -> Markup:
        return button(
            "Skip",
            data_post="/posted/skip",
            data_body=f'{{"cycle": {cycle}}}',
            data_confirm="Sure?",
        )

    shown(tab, stage, skip(1))
    tab.get_by_role("button", name="Skip").click()
    shown(tab, stage, tag("p", "something else"), skip(1))
    expect(tab.locator("#sure")).to_be_visible()
    shown(tab, stage, skip(2))
    expect(tab.locator("#sure")).to_be_hidden()
    roundtrip(tab)
    assert posts.bodies("skip") == []
    tab.get_by_role("button", name="Skip").click()
    with posts.expected():
        tab.locator("#sure-yes").click()
    posts.answer(text="Gone.")
    assert posts.bodies("skip") == [{"cycle": 2}]


def test_the_way_out_has_the_focus_when_something_is_to_be_confirmed(
    tab: Tab, stage: Stage
) -> None:
    answered(tab, text="Gone.")
    shown(tab, stage, button("Go", data_post="/posted/go", data_confirm="Really?"))
    for way_out in ("Enter", "Escape"):
        tab.get_by_role("button", name="Go").click()
        expect(tab.locator("#sure-text")).to_have_text("Really?")
        expect(tab.locator("#sure-no")).to_be_focused()
        tab.keyboard.press(way_out)
        expect(tab.locator("#sure")).to_be_hidden()
        expect(tab.get_by_role("button", name="Go")).to_be_focused()
        expect(tab.locator("#said")).to_be_empty()
    # What was answered last time is forgotten.
    tab.get_by_role("button", name="Go").click()
    with tab.expect_request("**/posted/go"):
        tab.locator("#sure-yes").click()
    expect(tab.locator("#said")).to_have_text("Gone.")


def test_the_page_to_go_to_is_made_of_the_answer_whatever_is_in_it(tab: Tab, stage: Stage) -> None:
    answered(tab, id="a/b?c#d")
    then = button("Go", data_post="/posted/go", data_then="/dashboard/runs/{id}")
    shown(tab, stage, then)
    tab.get_by_role("button", name="Go").click()
    tab.wait_for_url(re.compile(r"/dashboard/runs/a%2Fb%3Fc%23d$"))


def test_fields_that_were_left_empty_are_not_posted(tab: Tab, stage: Stage) -> None:
    posts = Posts(tab)
    fields = [
        tag("label", name, tag("input", name=name, value=value))
        for name, value in (
            ("task", "do it"),
            ("folder", ""),
            ("settings.FLOW", "solo"),
            ("settings.GATES", ""),
        )
    ]
    send = tag("button", "Send", type="submit")
    form = tag("form", *fields, send, data_post="/posted/form", data_body=json.dumps({"n": 1}))
    shown(tab, stage, form)
    with posts.expected():
        tab.get_by_role("button", name="Send").click()
    assert posts.bodies("form") == [{"n": 1, "task": "do it", "settings": {"FLOW": "solo"}}]
    posts.answer(text="Sent.")
    expect(tab.locator("#said")).to_have_text("Sent.")


def test_what_is_said_stays_for_its_own_time(tab: Tab, stage: Stage, url: str) -> None:
    source = bytes(page_file("app.js").body).decode()
    (found,) = re.findall(r"SAID_MS = ([\d_]+);", source)
    lasting = int(found)
    said = tab.locator("#said")
    tab.clock.install()
    tab.goto(f"{url}/dashboard")
    stage.put(button("Go", data_post="/posted/go"))
    for text in ("First.", "Second."):
        answered(tab, text=text)
        tab.get_by_role("button", name="Go").click()
        expect(said).to_have_text(text)
        tab.clock.run_for(lasting * 2 // 3)
    # The time of the first is over, that of the second is not.
    expect(said).to_have_text("Second.")
    tab.clock.run_for(lasting)
    expect(said).to_be_empty()


# Being signed in, and keeping up


def test_a_connection_that_is_silent_for_too_long_is_given_up(
    tab: Tab, stage: Stage, url: str
) -> None:
    (found,) = re.findall(r"QUIET_MS = ([\d_]+);", bytes(page_file("app.js").body).decode())
    tab.clock.install()
    dead: list[Any] = []  # Any: see `Page`
    tab.route("**/dashboard/stream*", lambda route: dead.append(route))
    with tab.expect_request("**/dashboard/stream*"):
        tab.goto(f"{url}/dashboard")
    connection = tab.locator("#connection")
    tab.clock.run_for(int(found) * 2 // 3)
    roundtrip(tab)
    expect(connection).to_be_empty()
    tab.clock.run_for(int(found) // 3 + 1)
    expect(connection).to_contain_text("No connection to the server")
    tab.unroute("**/dashboard/stream*")
    tab.clock.run_for(1000)
    expect(tab.locator("h1")).to_have_text(f"Number {stage.number}")
    expect(connection).to_be_empty()


# Showing


def test_of_two_pieces_the_one_that_was_asked_for_last_is_shown(tab: Tab, stage: Stage) -> None:
    held: list[Any] = []  # Any: see `Page`
    tab.route(SLOW, lambda route: held.append(route))
    shown(
        tab,
        stage,
        tag(
            "details",
            tag("summary", "More"),
            tag("div", data_into=True),
            data_fragment="/dashboard/first",
        ),
    )
    tab.locator("summary").click()
    expect(tab.locator("#fetched")).to_have_text("this is /dashboard/first")
    with tab.expect_request(SLOW):
        tab.get_by_role("button", name="slow").click()
    tab.get_by_role("button", name="fast").click()
    expect(tab.locator("#fetched")).to_have_text("this is /dashboard/fast")
    with tab.expect_event("requestfinished", lambda one: "slow" in one.url):
        held[0].continue_()
    roundtrip(tab)
    expect(tab.locator("#fetched")).to_have_text("this is /dashboard/fast")


def test_a_new_version_is_scrolled_as_the_old_one_was(tab: Tab, stage: Stage) -> None:
    text = "\n".join(f"{number} {'x' * 200}" for number in range(100))
    shown(tab, stage, tag("div", text, tabindex=0, id="box"))
    tab.evaluate(SMALL_BOX)
    box = tab.locator("#box")
    box.evaluate("one => one.scrollTo(70, 300)")
    shown(tab, stage, tag("div", f"{text}\nmore", tabindex=0, id="box"))
    assert box.evaluate("one => [one.scrollLeft, one.scrollTop]") == [70, 300]


def test_focus_and_choice_stay_when_a_part_is_replaced(tab: Tab, stage: Stage) -> None:
    def view(words: str) -> tuple[Markup, ...]:
        options = joined(tag("option", one, value=one, selected=one == "a") for one in "abc")
        ticked = tag("label", "Tick", tag("input", type="checkbox", name="tick"))
        chosen = tag("label", "Choose", tag("select", options, name="choose"))
        rounds = tag("label", "Rounds", tag("input", name="rounds", value=words))
        return button("First"), button(words), chosen, ticked, rounds

    shown(tab, stage, *view("Second"))
    tab.get_by_label("Choose").select_option("c")
    tab.get_by_label("Tick").check()
    tab.get_by_role("button", name="Second").focus()
    shown(tab, stage, *view("Another"))
    expect(tab.get_by_role("button", name="Another")).to_be_focused()
    expect(tab.get_by_label("Choose")).to_have_value("c")
    expect(tab.get_by_label("Tick")).to_be_checked()
    # What nobody has changed follows the server.
    expect(tab.get_by_label("Rounds")).to_have_value("Another")


def test_an_address_with_a_turn_leads_to_it_once(tab: Tab, stage: Stage, url: str) -> None:
    def view(words: str) -> Markup:
        rows = (tag("li", f"{words} {number}", id=f"turn-{number}") for number in range(200))
        return tag("ol", joined(rows))

    shown(tab, stage, view("turn"))
    tab.goto(f"{url}/dashboard/new#turn-150")
    expect(tab.locator("#turn-150")).to_be_in_viewport()
    expect(tab.locator("#turn-1")).not_to_be_in_viewport()
    tab.evaluate("() => scrollTo(0, 0)")
    shown(tab, stage, view("again"))
    expect(tab.locator("#turn-150")).not_to_be_in_viewport()


@pytest.mark.parametrize(("path", "name"), [("", "Runs"), ("/new", "New run")])
def test_the_present_page_is_marked_among_the_pages(
    tab: Tab, url: str, path: str, name: str
) -> None:
    tab.goto(f"{url}/dashboard{path}")
    expect(tab.locator("nav a[aria-current=page]")).to_have_text([name])


# What goes wrong


def test_what_is_not_there_is_said_once_and_leads_to_all_runs(
    tab: Tab, url: str, windows: Windows
) -> None:
    windows.forgive("status of 404")
    asked: list[str] = []
    tab.on("request", lambda one: asked.append(one.url) if "/stream" in one.url else None)
    tab.clock.install()
    tab.goto(url + NOWHERE)
    expect(tab.get_by_role("heading", name="Not found")).to_be_visible()
    expect(tab.locator("main")).to_contain_text("no run 'nowhere'")
    asked_before = [one for one in asked if "nowhere" in one]
    tab.clock.run_for(10_000)
    roundtrip(tab)
    assert [one for one in asked if "nowhere" in one] == asked_before
    expect(tab.locator("#connection")).to_be_empty()
    assert_usable(tab)
    tab.get_by_role("link", name="All runs").click()
    tab.wait_for_url(f"{url}/dashboard")


def test_a_page_that_cannot_be_made_says_why(tab: Tab, url: str) -> None:
    tab.goto(url + BROKEN)
    expect(tab.locator("body")).to_contain_text("its folder cannot be read")
