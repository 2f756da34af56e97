"""The tests of the page notice what they are there for."""

import os
import subprocess
import sys

import pytest

from tests.web.browser import (
    DESK_DARK,
    PHONE,
    Windows,
    assert_no_sideways_scroll,
    assert_usable,
    look_at,
)

pytestmark = pytest.mark.web

GOOD = """<!doctype html><html lang="en"><title>A page</title>
<main><h1>A page</h1><p>with words on it</p></main></html>"""


def test_a_page_that_all_can_use_is_clean(windows: Windows) -> None:
    page = windows.open()
    page.set_content(GOOD)
    assert_usable(page)


@pytest.mark.parametrize(
    "bad",
    [
        GOOD.replace("words on it", "<button></button>"),
        GOOD.replace(' lang="en"', ""),
        GOOD.replace(
            "<title>",
            "<style>@media (prefers-color-scheme: dark)"
            "{ body { color: #333; background: #111 } }</style><title>",
        ),
    ],
    ids=["a button without a name", "no language", "too dark in the dark"],
)
def test_what_keeps_people_from_using_a_page_is_noticed(windows: Windows, bad: str) -> None:
    page = windows.open()
    page.set_content(bad)
    with pytest.raises(AssertionError):
        assert_usable(page)


def test_a_page_wider_than_a_phone_is_noticed(windows: Windows) -> None:
    page = windows.open(PHONE)
    page.set_content("<pre>" + "x" * 200)
    with pytest.raises(AssertionError, match="pixels wide"):
        assert_no_sideways_scroll(page)


def test_colours_and_size_are_those_that_were_asked_for(windows: Windows) -> None:
    page = windows.open()
    look_at(page, DESK_DARK)
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    look_at(page, PHONE)
    assert page.evaluate("innerWidth") == 390


THROW = """() => new Promise(done => setTimeout(() => {
    setTimeout(done);
    throw new Error("thrown");
}))"""


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("() => console.error('it broke')", "error: it broke"),
        (THROW, "error: thrown"),
        ("() => fetch('http://stranger.invalid/').catch(() => 0)", "a stranger is asked"),
    ],
)
def test_what_a_page_should_not_do_is_noticed(
    windows: Windows, script: str, complaint: str
) -> None:
    page = windows.open()
    page.set_content(GOOD)
    page.evaluate(script)
    assert any(complaint in one for one in windows.complaints)
    windows.forgive("")


@pytest.mark.parametrize(("words", "code"), [(["-m", "web"], 1), ([], 0)])
def test_who_asks_for_these_tests_is_told_when_they_cannot_be_run(
    words: list[str], code: int
) -> None:
    test = f"{__file__}::{test_a_page_that_all_can_use_is_clean.__name__}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *words, test],
        env={**os.environ, "CHROMIUM": "/nowhere/chromium"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "there is no Chromium: make test-web" in done.stdout
