"""Texts of any length on a page: beginning and end, and between them how much is not shown."""

from cli_agent_orchestrator._internal.html.markup import Markup, tag

FIRST_LINES = 300
LAST_LINES = 100
LONGEST_LINE = 2000
"""Characters."""


def long_text(written: str, kind: str = "text") -> Markup:
    """Return a text as it is written; `kind` is a class: `text`, `screen`.

    >>> long_text("a < b")
    '<pre class="text">a &lt; b</pre>'
    """
    lines = written.strip("\n").split("\n")
    left = len(lines) - FIRST_LINES - LAST_LINES
    if left <= 0:
        return _pre(lines, kind)
    word = "line is" if left == 1 else "lines are"
    cut = tag("p", f"… {left:,} {word} not shown …", class_="cut")
    whole = (_pre(lines[:FIRST_LINES], kind), cut, _pre(lines[-LAST_LINES:], kind))
    return tag("div", *whole, class_="long-text")


def _pre(lines: list[str], kind: str) -> Markup:
    return tag("pre", "\n".join(map(_shortened, lines)), class_=kind)


def _shortened(line: str) -> str:
    more = len(line) - LONGEST_LINE
    return line if more <= 0 else f"{line[:LONGEST_LINE]}… {more:,} more characters"
