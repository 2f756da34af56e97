"""The tests of the page notice what they are there for."""

import pytest

from tests.web.browser import Windows, assert_usable

pytestmark = pytest.mark.web

GOOD = """<!doctype html><html lang="en"><title>A page</title>
<main><h1>A page</h1><p>with words on it</p></main></html>"""
TOO_DARK = "@media (prefers-color-scheme: dark) { body { color: #333; background: #111 } }"


@pytest.mark.parametrize(
    ("good", "bad"),
    [("<title>", f"<style>{TOO_DARK}</style><title>"), ("<p>", "<pre>" + "x" * 200)],
    ids=["too dark in the dark", "wider than a phone"],
)
def test_what_keeps_people_from_using_a_page_is_noticed(
    windows: Windows, good: str, bad: str
) -> None:
    page = windows.open()
    page.set_content(GOOD.replace(good, bad))
    with pytest.raises(AssertionError):
        assert_usable(page)
    page.set_content(GOOD)
    assert_usable(page)


THROW = """() => new Promise(done => setTimeout(() => {
    setTimeout(done);
    throw new Error("thrown");
}))"""


def test_what_a_page_should_not_do_is_noticed(windows: Windows) -> None:
    page = windows.open()
    page.set_content(GOOD)
    for script, complaint in (
        ("() => console.error('it broke')", "error: it broke"),
        (THROW, "error: thrown"),
        ("() => fetch('http://stranger.invalid/').catch(() => 0)", "a stranger is asked"),
    ):
        page.evaluate(script)
        assert any(complaint in one for one in windows.complaints)
    windows.forgive("")
