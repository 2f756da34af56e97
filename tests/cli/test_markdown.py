"""Text of others on a page of Markdown."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from cli_agent_orchestrator.core.markdown import cell, escape, fenced, harmless

NASTY = (
    "<script>alert(1)</script> ![i](http://evil/x.png) [l](http://evil) <b>bold</b> *e* __s__ `c` "
    "www.evil.org http://evil.org a|b ~~no~~ &lt; @ada </details> | # heading"
)
NASTY_LINES = f"{NASTY}\n\n# Heading\n\n````\n</details>\n```\n{NASTY}\n> quote\n- [ ] box\n---\n"

PLAIN = {"paragraph_open", "paragraph_close", "code_inline"}


def markup_of(page: str) -> set[str]:
    """Return what becomes of a page when it is shown, but for the texts."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    blocks = parser.parse(page)
    tokens = [*blocks, *(child for block in blocks for child in block.children or ())]
    return {token.type for token in tokens} - {"text", "softbreak", "inline"}


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
        ("analyst_review of\n  main.py: 3 + 4", "analyst_review of main.py: 3 + 4"),
        ("See (#12), 1.5 or @ada.", "See `(#12`), 1.5 or `@ada`."),
        ("`a`@ada`b`", "`a`\u200b`@ada`\u200b`b`"),
        ("http://evil.org or www.evil.org", "`http://evil.org` or `www.evil.org`"),
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


@given(st.text(alphabet="`|\\<>[]()*a \n!&~/") | st.just(NASTY_LINES))
def test_whatever_a_text_is_at_most_code_becomes_of_it(text: str) -> None:
    assert markup_of(f"By {escape(text)} then") <= {*PLAIN, "text_special"}
    page = f"| a | b |\n|---|---|\n| {cell(text)} | 2 |"
    assert MarkdownIt("commonmark").enable("table").render(page).count("<td>") == 2


# What GitHub looks for in a page that is rendered, outside of code.
TRIGGERS = (
    *("@ada", "@acme/team", "#12", "acme/shop#12", "GH-3", "gh-3", "fixes #12", "closes: acme/x#1"),
    *("1b4f0e9851971998e732078544c96b36c3d01ced", "1b4f0e9", "acme/shop@1b4f0e9", "GHSA-a1b2-c3d4"),
    *("https://evil.com", "HTTP://evil.com", "www.evil.com", "_www.evil.com_", "WWW.evil.com"),
    *("mailto:a@evil.com", "xmpp:a@evil.com/x", "a@evil.com", "a@-evil.com", "ftp://evil.com"),
)
APPLIED = re.compile(
    r"@[\w-]|#\d|://|www\.\w|(?<![^\W_])(gh-\d|ghsa-|[0-9a-f]{7,40}(?![^\W_]))", re.IGNORECASE
)
BESIDE = st.text(alphabet="`|\\ _*.,(~a1[<", max_size=4)


def texts_of(page: str) -> str:
    """Return what a page shows that is not code."""
    blocks = MarkdownIt("commonmark").enable("table").parse(page)
    inside = [child for block in blocks for child in block.children or ()]
    return "".join("\0" if one.type == "code_inline" else one.content for one in inside)


@given(st.lists(st.tuples(BESIDE, st.sampled_from(TRIGGERS), BESIDE), min_size=1, max_size=3))
def test_nothing_in_a_text_is_a_link_or_a_mention(parts: list[tuple[str, str, str]]) -> None:
    text = "".join(map("".join, parts))
    assert markup_of(escape(text)) <= {*PLAIN, "text_special"}
    assert not APPLIED.search(texts_of(escape(text)))
    assert not APPLIED.search(texts_of(f"| a | b |\n|---|---|\n| {cell(text)} | 2 |"))
    assert not APPLIED.search(texts_of(harmless(" ".join(text.split()))))


@pytest.mark.parametrize("text", ["1. a", "12) a", "- a", "+ a", "-", "1.", "---", "- - -", "* a"])
def test_no_text_begins_a_list_or_a_rule(text: str) -> None:
    for shown in (escape(text), harmless(text), harmless(f"    {text}")):
        assert markup_of(shown) <= PLAIN, shown
        assert markup_of(f"- {shown}") <= markup_of("- a") | PLAIN, shown
    assert texts_of(escape(text)) == text


@pytest.mark.parametrize(
    ("text", "fence"), [("a", "```"), ("`a` ``b``", "```"), ("```", "````"), ("`````", "``````")]
)
def test_a_block_ends_where_its_text_does(text: str, fence: str) -> None:
    assert fenced(text) == f"{fence}text\n{text}\n{fence}"
    assert markup_of(fenced(f"{text}\n{NASTY_LINES}")) == {"fence"}
