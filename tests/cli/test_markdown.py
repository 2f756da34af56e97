"""Text of others on a page of Markdown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from cli_agent_orchestrator._internal.cli.markdown import (
    cell,
    escape,
    fenced,
    folded,
)

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
