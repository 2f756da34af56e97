"""Text of others on a page of Markdown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from cli_agent_orchestrator._internal.cli.markdown import (
    cell,
    escape,
    fenced,
    folded,
    shown_folder,
    without_places,
)

HOME = Path("/home/ada")
NASTY = (
    "<script>alert(1)</script> ![i](http://evil/x.png) [l](http://evil) <b>bold</b> *e* __s__ `c` "
    "www.evil.org http://evil.org a|b ~~no~~ &lt; @ada </details> | # heading"
)
NASTY_LINES = f"{NASTY}\n\n# Heading\n\n````\n</details>\n```\n{NASTY}\n> quote\n- [ ] box\n---\n"


def markup_of(page: str) -> set[str]:
    """Return what becomes of a page when it is shown, but for the texts."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    blocks = parser.parse(page)
    tokens = [*blocks, *(child for block in blocks for child in block.children or ())]
    return {token.type for token in tokens} - {"text", "softbreak", "inline"}


def test_a_text_in_a_line_is_no_markup() -> None:
    # Nothing in code means anything.
    plain = {"paragraph_open", "paragraph_close", "code_inline"}
    assert markup_of(f"By {escape(NASTY_LINES)}") <= plain
    assert "http\\://evil" in escape(NASTY)
    assert "www\\.evil" in escape(NASTY)
    assert "\\@ada" in escape(NASTY)


def test_a_text_in_a_line_has_no_more_marks_than_it_needs() -> None:
    assert escape("analyst_review of\n  main.py: 3 + 4") == "analyst_review of main.py: 3 + 4"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("FAIL: `make a | b && [x]` ended | so", r"FAIL: `make a | b && [x]` ended \| so"),
        ("`a` and `b`", "`a` and `b`"),
        ("half ` of it", r"half \` of it"),
        ("`a` and ` half", r"`a` and \` half"),
        ("``a ` b``", r"\`\`a \` b\`\`"),
        ("a\\`b`", r"a\\`b`"),
        ("` `", r"\` \`"),
        ("~/shop and ~/b", "~/shop and ~/b"),
        ("~a x~/b `c`~/d", r"\~a x\~/b `c`\~/d"),
    ],
)
def test_code_in_a_line_stays_as_it_is(text: str, shown: str) -> None:
    assert escape(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("`make test` ended", "`make test` ended"),
        ("`a | b` ended", r"\`a \| b\` ended"),
        (r"`a\|b`", r"\`a\\\|b\`"),
    ],
)
def test_a_cell_is_not_ended_by_code_in_it(text: str, shown: str) -> None:
    assert cell(text) == shown
    row = MarkdownIt("commonmark").enable("table").render(f"| a | b |\n|---|---|\n| {shown} | 2 |")
    assert row.count("<td>") == 2
    assert "<td>2</td>" in row


@given(st.text(alphabet="`|\\<>[]()*a \n!&~/"))
def test_whatever_a_text_is_at_most_code_becomes_of_it(text: str) -> None:
    plain = {"paragraph_open", "paragraph_close", "code_inline", "text_special"}
    assert markup_of(f"By {escape(text)} then") <= plain
    page = f"| a | b |\n|---|---|\n| {cell(text)} | 2 |"
    assert MarkdownIt("commonmark").enable("table").render(page).count("<td>") == 2


@pytest.mark.parametrize(
    ("text", "fence"), [("a", "```"), ("`a` ``b``", "```"), ("```", "````"), ("`````", "``````")]
)
def test_a_block_ends_where_its_text_does(text: str, fence: str) -> None:
    assert fenced(text) == f"{fence}text\n{text}\n{fence}"
    assert markup_of(fenced(f"{text}\n{NASTY_LINES}")) == {"fence"}


def test_a_part_is_folded_below_its_title() -> None:
    page = folded("All turns", "| a |")
    assert page == "<details>\n<summary>All turns</summary>\n\n| a |\n\n</details>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ada/shop/a.py", "a.py"),
        ("in /home/ada/shop, and", "in ., and"),
        ("/home/ada/shop.old", "~/shop.old"),
        ("/home/ada/shop2/a", "~/shop2/a"),
        ("/home/ada/other, /home/ada", "~/other, ~"),
        ("/mnt/home/ada/shop/a", "/mnt/home/ada/shop/a"),
        ("/home/adam", "/home/adam"),
    ],
)
def test_a_path_begins_in_the_project_or_at_home(text: str, shown: str) -> None:
    assert without_places(text, ["/home/ada/shop", ""], HOME) == shown


def test_a_project_may_have_a_short_path_and_the_root_is_none() -> None:
    assert without_places("/w/a.py in /w", ["/w"], HOME) == "a.py in ."
    assert without_places("/w/a.py in /", ["/"], Path("/")) == "/w/a.py in /"


@pytest.mark.parametrize(
    ("wd", "shown"), [("/home/ada/shop", "~/shop"), ("/srv/shop", "shop"), ("/", "/")]
)
def test_a_project_is_named_by_its_place_at_home_or_its_name(wd: str, shown: str) -> None:
    assert shown_folder(wd, HOME) == shown
