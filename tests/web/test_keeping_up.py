"""What the script of the page does, in a real browser, with a page that a test changes."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.events import HintTaken, PauseAsked, RunEvent
from cli_agent_orchestrator.page.sign_in import SIGNED_IN_SECONDS
from cli_agent_orchestrator.page.stream import PageContext
from cli_agent_orchestrator.page.words import Page, Part
from cli_agent_orchestrator.pipeline.requests import Hint, SentRequest
from cli_agent_orchestrator.show.markup import Markup, joined, tag
from tests.page.rig import ChangingRig, link
from tests.server.run_rig import EVENTS, NOON, RUN, Answering
from tests.web.browser import Page as Tab
from tests.web.browser import Windows, assert_usable, expect
from tests.web.visits import hide, own_port, signed_in, unhide

pytestmark = pytest.mark.web

TURN = f"/dashboard/runs/{RUN}/turns/1"
ITEMS = range(5)


class Showcase(ChangingRig):
    """A server whose page has all that a script has to do with."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.turn = TURN
        """What is fetched when the part is opened."""
        self.extra = False
        """Is there one part more?"""
        self.happen(*EVENTS[:3])

    def order(self) -> list[str]:
        """Return the items in their present order; one of them is missing now and then."""
        shown = [one for one in ITEMS if one != self.number % 7]
        return [str(one) for one in sorted(shown, key=lambda one: one * (self.number + 1) % 5)]

    def page(self) -> Page:
        items = (Part(f"i{one}", tag("li", one, id=f"i{one}"), "list") for one in self.order())
        outer = Part("outer", tag("ol", str(self.number // 3), id="list"))
        extra = [Part("extra", tag("button", "Extra", id="extra"))] if self.extra else []
        return Page(f"Page {self.number}", (Part("box", self._box()), outer, *items, *extra))

    def _box(self) -> Markup:
        field = tag("textarea", name="text", id="hint-text", required=True)
        hint = tag("button", "Send", type="submit")
        pause = tag(
            "button", "Pause", type="button", data_post=f"/runs/{RUN}/pause", data_confirm="Sure?"
        )
        return tag(
            "section",
            tag("h1", f"Number {self.number}"),
            tag(
                "details",
                tag("summary", "More"),
                tag("div", data_into=True),
                data_fragment=self.turn,
                id="more",
            ),
            tag("form", tag("label", "Hint", field), hint, data_post=f"/runs/{RUN}/hint"),
            pause,
            id="box",
        )

    async def fragment(self, path: str, context: PageContext) -> Markup:
        def line(side: str) -> Markup:
            where = {"data_path": "a.py", "data_line": "7", "data_side": side}
            number = tag("button", side, type="button", data_comment=True, **where)
            code = tag("code", f"{'+' if side == 'new' else '-'}x = <1>", class_="diff-text")
            return tag("div", number, code, class_="diff-line")

        again = tag("button", "Again", type="button", data_fragment=TURN)
        fetched = tag("p", f"fetched at {self.number}", id="fetched")
        return joined([fetched, line("new"), line("old"), again])


def answered(ask: SentRequest) -> RunEvent:
    match ask.request:
        case Hint(role, text):
            return HintTaken(NOON, role or "", text, ask.id)
    return PauseAsked(NOON, ask.id)


@pytest.fixture
def rig(tmp_path: Path) -> Showcase:
    return Showcase(tmp_path)


@pytest.fixture
def show(rig: Showcase) -> Showcase:
    return rig


def expect_change(tab: Tab, show: Showcase) -> None:
    """Change the page, and wait until it is shown."""
    show.change()
    expect(tab.locator("h1")).to_have_text(f"Number {show.number}")
    expect(tab).to_have_title(f"Page {show.number} · cao")
    expect(tab.locator("#list > li")).to_have_text(show.order())


def test_parts_come_go_and_change_their_order(tab: Tab, show: Showcase) -> None:
    for _ in range(10):
        expect_change(tab, show)


def test_what_is_typed_and_opened_stays_when_a_part_is_replaced(tab: Tab, show: Showcase) -> None:
    tab.locator("summary").click()
    expect(tab.locator("#fetched")).to_have_text("fetched at 0")
    tab.locator("#hint-text").fill("half a thought")
    tab.locator("#hint-text").evaluate("field => field.setSelectionRange(3, 5)")
    for _ in range(3):
        expect_change(tab, show)
        assert tab.locator("#hint-text").input_value() == "half a thought"
        place = "() => [document.activeElement.id, document.activeElement.selectionStart]"
        assert tab.evaluate(place) == ["hint-text", 3]
        expect(tab.locator("#fetched")).to_have_text("fetched at 0")
    again = tab.get_by_role("button", name="Again")
    again.focus()
    tab.keyboard.press("Enter")
    expect(tab.locator("#fetched")).to_have_text("fetched at 3")
    expect(again).to_be_focused()


def test_a_comment_is_written_at_a_line_while_the_page_changes(tab: Tab, show: Showcase) -> None:
    form = tab.locator("form.comment")
    with Answering(show, answered) as run:
        tab.locator("summary").click()
        for side in ("new", "old"):
            tab.get_by_role("button", name=side).click()
            tab.keyboard.type("Why <b>?")
            expect_change(tab, show)
            expect(form.locator("textarea")).to_be_focused()
            form.get_by_role("button", name="Send").click()
            expect(form).to_have_count(0)
            expect(tab.get_by_role("button", name=side)).to_be_focused()
            said = "The hint will be in the next prompt of analyst."
            expect(tab.locator("#said")).to_have_text(said)
        assert run.requests == [
            Hint("analyst", f"About a.py:7, {when} turn 1{left}:\n    x = <1>\nWhy <b>?")
            for when, left in (("as", " left it"), ("as it was before", ""))
        ]
        tab.get_by_role("button", name="new").click()
        tab.keyboard.press("Escape")
        expect(form).to_have_count(0)


def test_a_comment_that_is_being_written_is_not_replaced_by_what_is_newer(
    tab: Tab, show: Showcase
) -> None:
    tab.locator("summary").click()
    tab.get_by_role("button", name="new").click()
    tab.keyboard.type("half a thought")
    show.turn = f"{TURN}?newer"
    expect_change(tab, show)
    # What would be fetched for the new version would be there before this.
    tab.evaluate("() => fetch('/dashboard/static/icon.svg').then(answer => answer.text())")
    expect(tab.locator("form.comment textarea")).to_have_value("half a thought")
    expect(tab.locator("#fetched")).to_have_text("fetched at 0")
    tab.keyboard.press("Escape")
    show.turn = f"{TURN}?newest"
    expect_change(tab, show)
    expect(tab.locator("#fetched")).to_have_text("fetched at 2")


def test_who_acts_before_the_page_has_noticed_a_new_server_is_heard(
    windows: Windows, show: Showcase
) -> None:
    windows.forgive("401")
    port = own_port()
    with show.served(port=port) as url:
        tab = signed_in(windows, url)
        hide(tab)
        show.wait_until(lambda: not show.tabs)
    with show.served(port=port), Answering(show, answered) as run:
        tab.locator("#hint-text").fill("Mind the tabs.")
        tab.get_by_role("button", name="Send").click()
        expect(tab.locator("#said")).to_have_text("The hint will be in the next prompt.")
        assert run.requests == [Hint(None, "Mind the tabs.")]
        windows.shut()


def test_focus_in_a_part_that_goes_is_not_lost(tab: Tab, show: Showcase) -> None:
    show.extra = True
    expect_change(tab, show)
    tab.locator("#extra").focus()
    show.extra = False
    expect_change(tab, show)
    expect(tab.locator("main")).to_be_focused()


def test_a_server_that_goes_away_is_said_and_comes_back(windows: Windows, show: Showcase) -> None:
    windows.forgive("ERR_")
    port = own_port()
    with show.served(port=port) as url:
        tab = signed_in(windows, url)
        tab.locator("#hint-text").fill("half a thought")
    expect(tab.locator("#connection")).to_contain_text("The server has ended")
    expect(tab.locator("h1")).to_have_text("Number 0")
    tab.get_by_role("button", name="Send").click()
    expect(tab.locator("#said")).to_contain_text("The server cannot be reached")
    show.number = 4
    with show.served(port=port):
        expect(tab.locator("#connection")).to_be_empty()
        expect(tab.locator("h1")).to_have_text("Number 4")
        expect(tab.locator("#list > li")).to_have_text(show.order())
        expect(tab.locator("#hint-text")).to_have_value("half a thought")


def test_a_hidden_tab_asks_for_nothing_and_catches_up(tab: Tab, show: Showcase) -> None:
    hide(tab)
    show.wait_until(lambda: not show.tabs)
    show.number += 1
    unhide(tab)
    expect(tab.locator("h1")).to_have_text("Number 1")


def test_who_is_not_signed_in_is_told_how_and_another_tab_signs_both_in(
    url: str, show: Showcase, windows: Windows
) -> None:
    windows.forgive("401")
    windows.forgive("403")
    tab = windows.open()
    tab.goto(f"{url}/dashboard")
    expect(tab.locator("h1")).to_have_text("Not signed in")
    expect(tab.locator("main code")).to_have_text("cao dashboard")
    assert_usable(tab)
    other = windows.another_tab(tab.context)
    code = link(url)
    other.goto(f"{url}/dashboard/sign-in#{code}")
    for one in (other, tab):
        expect(one.locator("h1")).to_have_text("Number 0")
    assert code not in other.content() + other.url
    other.go_back()
    assert code not in other.url
    stranger = windows.open()
    stranger.goto(f"{url}/dashboard/sign-in#{code}")
    expect(stranger.locator("main")).to_contain_text("does not work any more")
    expect(stranger.locator("main code")).to_have_text("cao dashboard")
    show.clock.ahead = SIGNED_IN_SECONDS + 1
    tab.reload()
    expect(tab.locator("h1")).to_have_text("Not signed in")


def test_a_file_leads_a_browser_to_the_page(url: str, windows: Windows, tmp_path: Path) -> None:
    """As `cao dashboard` does it: the code is in no list of processes."""
    way = tmp_path / "way.html"
    lead = tag("meta", http_equiv="refresh", content=f"0;url={url}/dashboard/sign-in#{link(url)}")
    way.write_text(f"<!doctype html>{lead}", encoding="utf-8")
    tab = windows.open()
    tab.goto(way.as_uri())
    expect(tab.locator("h1")).to_have_text("Number 0")
