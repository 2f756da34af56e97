"""HTML from values: nothing from outside breaks out of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.show.markup import joined, tag, text
from tests.show.reading import Elements

HOSTILE = st.one_of(
    st.text(),
    st.sampled_from(
        ["<script>", "</p>", "<!--", "-->", "&lt;", "\"'>", "]]>", "\x00", "\u202e", "\ud800", "\r"]
    ),
)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_only_the_elements_of_the_writer_are_there(one: str, two: str, name: str) -> None:
    page = tag("div", one, tag("b", two, title=name), joined([one, two], ", "))
    read = Elements(page)
    assert [element for element, _ in read.found] == ["div", "b"]
    assert [list(attributes) for _, attributes in read.found] == [[], ["title"]]
    assert page.count("<") == len(["<div>", "<b>", "</b>", "</div>"])


@given(st.text(st.characters(exclude_categories=["C"])))
def test_what_people_can_see_is_shown_as_it_is(value: str) -> None:
    assert Elements(text(value)).written == value


@pytest.mark.parametrize("unseen", ["\x1b", "\x00", "\x9b", "\u202e", "\u2066", "\ud800", "\r"])
def test_what_nobody_sees_is_shown_as_something_strange(unseen: str) -> None:
    assert text(f"a{unseen}b") == "a\ufffdb"


def test_html_is_not_escaped_twice_and_an_attribute_may_stand_alone() -> None:
    assert tag("p", tag("b", "<")) == "<p><b>&lt;</b></p>"
    field = tag("input", disabled=True, checked=False, value=None, name="a")
    assert field == '<input disabled name="a">'


ELSEWHERE = ("javascript:alert(1)", "//evil.example/x", "https://evil.example", "data:text/html,x",
             "/\\evil.example", " /x", "relative", "/a b")  # fmt: skip


@pytest.mark.parametrize("name", ["href", "src", "action", "formaction"])
def test_an_address_leads_nowhere_else(name: str) -> None:
    for address in ELSEWHERE:
        with pytest.raises(ValueError, match="address"):
            tag("p", **{name: address})
    for address in ("/", "/dashboard/runs/x?step=3#turn-1", "#turn-1", ""):
        assert f'{name}="{address}"' in tag("p", **{name: address})


@pytest.mark.parametrize("name", ["onclick", "style", "srcdoc", "a b", "x>"])
def test_an_attribute_that_would_be_code(name: str) -> None:
    with pytest.raises(ValueError, match="attribute"):
        tag("p", **{name: "x"})


@pytest.mark.parametrize("name", ["script", "style", "iframe", "object", "embed", "p><b", ""])
def test_an_element_that_would_be_code(name: str) -> None:
    with pytest.raises(ValueError, match="element"):
        tag(name)
