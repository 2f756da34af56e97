"""HTML from values: nothing from outside breaks out of it."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.show.markup import Markup, joined, tag, text

HOSTILE = st.one_of(
    st.text(),
    st.sampled_from(
        ["<script>", "</p>", "<!--", "-->", "&lt;", "\"'>", "]]>", "\x00", "\u202e", "\ud800", "\r"]
    ),
)


class Reader(HTMLParser):
    """Notes which elements a text has, and what is written in them."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.written = ""
        self.other: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.written += data

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    def handle_decl(self, decl: str) -> None:
        self.other.append(decl)

    def handle_pi(self, data: str) -> None:
        self.other.append(data)

    def unknown_decl(self, data: str) -> None:
        self.other.append(data)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_only_the_elements_of_the_writer_are_there(one: str, two: str, name: str) -> None:
    page = tag("div", one, tag("b", two, title=name), joined([one, two], ", "))

    read = Reader(page)

    assert read.elements[0] == ("div", [])
    assert [element for element, _ in read.elements] == ["div", "b"]
    assert [key for key, _ in read.elements[1][1]] == ["title"]
    assert not read.other


@given(st.text(st.characters(exclude_categories=["C"])))
def test_what_people_can_see_is_shown_as_it_is(value: str) -> None:
    assert Reader(text(value)).written == value


@pytest.mark.parametrize("unseen", ["\x1b", "\x00", "\x9b", "\u202e", "\u2066", "\ud800", "\r"])
def test_what_nobody_sees_is_shown_as_something_strange(unseen: str) -> None:
    assert text(f"a{unseen}b") == "a\ufffdb"


def test_html_is_not_escaped_twice() -> None:
    assert tag("p", tag("b", "<")) == "<p><b>&lt;</b></p>"
    assert isinstance(tag("p"), Markup)


def test_an_attribute_is_left_out_or_stands_alone() -> None:
    assert tag("input", disabled=True, checked=False, value=None, name="a") == (
        '<input disabled name="a">'
    )


def test_numbers_are_written_shortly() -> None:
    assert tag("rect", x=1.50, y=2) == '<rect x="1.5" y="2"></rect>'


@pytest.mark.parametrize("name", ["viewBox", "data_role", "aria_label", "class_", "for_"])
def test_names_of_attributes(name: str) -> None:
    assert f' {name.rstrip("_").replace("_", "-")}="x"' in tag("p", **{name: "x"})


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "//evil.example/x",
        "https://evil.example",
        "data:text/html,x",
        "/\\evil.example",
        " /x",
        "relative",
        "/a b",
    ],
)
def test_an_address_leads_nowhere_else(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        tag("a", "x", href=address)


@pytest.mark.parametrize("name", ["href", "src", "action", "formaction"])
def test_every_attribute_that_leads_somewhere_is_looked_at(name: str) -> None:
    with pytest.raises(ValueError, match="somebody else"):
        tag("p", **{name: "https://evil.example"})


@pytest.mark.parametrize("address", ["/", "/dashboard/runs/x?step=3#turn-1", "#turn-1", ""])
def test_an_address_of_ours(address: str) -> None:
    assert f'href="{address}"' in tag("a", "x", href=address)


@pytest.mark.parametrize("name", ["onclick", "style", "srcdoc", "a b", "x>"])
def test_an_attribute_that_would_be_code(name: str) -> None:
    with pytest.raises(ValueError, match="attribute"):
        tag("p", **{name: "x"})


@pytest.mark.parametrize("name", ["script", "style", "iframe", "object", "embed", "p><b", ""])
def test_an_element_that_would_be_code(name: str) -> None:
    with pytest.raises(ValueError, match="element"):
        tag(name)


def test_nothing_stands_inside_of_a_void_element() -> None:
    with pytest.raises(ValueError, match="inside"):
        tag("br", "x")
