"""Text of others on a page of Markdown: it is shown, and never becomes markup."""

import html
import re

from cli_agent_orchestrator._internal.pipeline.patches import (
    LINK_PATTERN,
    MARKUP_PATTERN,
    PIECE,
    START_PATTERN,
    fence_of,
)

# "`make test`": a pair of single marks with something between them
CODE_PATTERN = r"(?<!`)(?P<code>`[^`]*[^`\s][^`]*`)(?!`)"
# A whole word in which something would become a link or a mention, without the comma after it
LINKED_PATTERN = (
    rf"(?<!{PIECE})(?={PIECE}*?(?:{LINK_PATTERN}))(?P<link>{PIECE}*(?![.,;:!?)\]]){PIECE})"
)
PLAIN_PATTERN = f"{LINKED_PATTERN}|(?P<list>{START_PATTERN})|{MARKUP_PATTERN}"
GAP = "\u200b"
"""Has no width: marks of code on both sides of it are not taken for one mark."""


def escape(text: str) -> str:
    """Return a text for a place in a line, where nothing of it means anything to Markdown.

    Code stays code: inside of it nothing means anything, and marks would be shown. What a site
    makes links and mentions of becomes code, since it does so when all marks are gone.

    >>> escape("<b> of analyst_review | [x](http://y), @ada")
    '\\\\<b\\\\> of analyst_review \\\\| `[x](http://y`), `@ada`'
    >>> escape("`a | b` or c | d")
    '`a | b` or c \\\\| d'
    """
    return _escaped(text, is_cell=False)


def cell(text: str) -> str:
    """Return a text for a cell of a table, which ends at a `|` in code, too."""
    return _escaped(text, is_cell=True)


def _escaped(text: str, *, is_cell: bool) -> str:
    def mark(found: re.Match[str]) -> str:
        code = found["code"]
        if code is None:
            return _marked(found)
        ends_cell = is_cell and re.search(r"[|\\]", code)
        return re.sub(PLAIN_PATTERN, _marked, code) if ends_cell else code

    return re.sub(f"{CODE_PATTERN}|{PLAIN_PATTERN}", mark, " ".join(text.split()))


def _marked(found: re.Match[str]) -> str:
    """Return a word as code, a number as none of a list, and a mark as none."""
    if found["link"] is None:
        return f"{found[0]}\\" if found["list"] is not None else f"\\{found[0]}"
    start, end = found.span()
    before, after = found.string[start - 1 : start], found.string[end : end + 1]
    return f"{GAP if before == '`' else ''}`{found[0]}`{GAP if after == '`' else ''}"


def fenced(text: str) -> str:
    """Return a text of many lines as it is, in a block that it cannot end."""
    fence = fence_of(text)
    return f"{fence}text\n{text}\n{fence}"


def folded(title: str, text: str) -> str:
    """Return a part of a page that is opened when it is wanted."""
    return f"<details>\n<summary>{html.escape(title)}</summary>\n\n{text}\n\n</details>"
