"""Text of others on a page of Markdown: it is shown, and never becomes markup."""

import html
import re

from cli_agent_orchestrator._internal.pipeline.patches import MARKUP_PATTERN, fence_of

# "`make test`": a pair of single marks with something between them
CODE_PATTERN = r"(?<!`)(?P<code>`[^`]*[^`\s][^`]*`)(?!`)"
NEVER = r"(?!)"


def escape(text: str) -> str:
    """Return a text for a place in a line, where nothing of it means anything to Markdown.

    Code stays code: inside of it nothing means anything, and marks would be shown.

    >>> escape("<b> of analyst_review | [x](http://y)")
    '\\\\<b\\\\> of analyst_review \\\\| \\\\[x\\\\](http\\\\://y)'
    >>> escape("`a | b` or c | d")
    '`a | b` or c \\\\| d'
    """
    return _escaped(text, NEVER)


def cell(text: str) -> str:
    """Return a text for a cell of a table, which ends at a `|` in code, too."""
    return _escaped(text, r"[|\\]")


def _escaped(text: str, not_in_code: str) -> str:
    def mark(found: re.Match[str]) -> str:
        code = found["code"]
        if code is None:
            return f"\\{found[0]}"
        return re.sub(MARKUP_PATTERN, r"\\\g<0>", code) if re.search(not_in_code, code) else code

    return re.sub(f"{CODE_PATTERN}|{MARKUP_PATTERN}", mark, " ".join(text.split()))


def fenced(text: str) -> str:
    """Return a text of many lines as it is, in a block that it cannot end."""
    fence = fence_of(text)
    return f"{fence}text\n{text}\n{fence}"


def folded(title: str, text: str) -> str:
    """Return a part of a page that is opened when it is wanted."""
    return f"<details>\n<summary>{html.escape(title)}</summary>\n\n{text}\n\n</details>"
