"""What a tab is sent, applied as `app.js` does it, makes the page; and nothing is sent twice."""

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.page.stream import Update, update_of
from cli_agent_orchestrator.page.words import Page, Part
from cli_agent_orchestrator.show.markup import Markup, tag

PLACES = ("main", "box", "list")


class Tab:
    """The elements of a page as a browser has them: ids by what holds them, and their HTML."""

    def __init__(self) -> None:
        self.shown: Page | None = None
        self.places: dict[str, list[str]] = {"main": []}
        self.html: dict[str, str] = {}
        self.title = ""

    def take(self, page: Page) -> Update | None:
        update = update_of(self.shown, page)
        self.shown = page
        if update is not None:
            self.title = update["title"]
            for one in update["gone"]:
                self._remove(one)
            for part in update["parts"]:
                self._show(part)
        return update

    def _show(self, part: Update) -> None:
        one = part["id"]
        if "after" in part:
            self._remove(one)
            place = self.places[part["into"]]
            after = part["after"]
            place.insert(0 if after is None else place.index(after) + 1, one)
        else:
            assert one in self.places[part["into"]]
            self._empty(one)
        self.html[one] = part["html"]
        for held in PLACES[1:]:
            if f' id="{held}"' in part["html"]:
                self.places[held] = []

    def _remove(self, one: str) -> None:
        self._empty(one)
        self.html.pop(one, None)
        for ids in self.places.values():
            if one in ids:
                ids.remove(one)

    def _empty(self, one: str) -> None:
        """What stands in an element goes with it."""
        for held in PLACES[1:]:
            if f' id="{held}"' in self.html.get(one, ""):
                for inner in self.places.pop(held, []):
                    self._empty(inner)
                    self.html.pop(inner, None)


def part(number: str, words: str, into: str = "main", holds: str = "") -> Part:
    inner: Markup | None = tag("ol", id=holds) if holds else None
    return Part(number, tag("div", words, inner, id=number), into)


words = st.sampled_from(["a", "b", ' id="list"'])


@st.composite
def pages(draw: st.DrawFn) -> Page:
    """Draw a page whose parts come, go, change, move, and hold each other."""
    ids = draw(st.permutations([f"p{number}" for number in range(6)]))
    parts = [part("outer", draw(words), holds="box"), part("inner", draw(words), "box", "list")]
    for number in ids[: draw(st.integers(0, 6))]:
        parts.append(part(number, draw(words), draw(st.sampled_from(PLACES))))
    return Page(draw(st.sampled_from(["One", "Two"])), tuple(parts))


@given(st.lists(pages(), max_size=6))
def test_a_tab_shows_the_page_whatever_it_showed_before(following: list[Page]) -> None:
    tab = Tab()
    for page in following:
        tab.take(page)
        assert tab.take(page) is None
        assert tab.title == page.title
        assert tab.html == {one.id: one.html for one in page.parts}
        for place in PLACES:
            assert tab.places[place] == [one.id for one in page.parts if one.into == place]


def test_a_text_that_looks_like_an_id_holds_nothing() -> None:
    inner = part("row", "x", "list")
    box = part("box", ' id="list"', holds="list")
    shown = Page("", (box, inner, part("z", "")))
    update = update_of(shown, Page("", (box, inner, part("z", ' id="list"'))))
    assert update is not None
    assert [one["id"] for one in update["parts"]] == ["z"]
