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
    return tag("pre", cut_text(written), class_=kind)


def cut_text(written: str, first: int = FIRST_LINES, last: int = LAST_LINES) -> str:
    """Return a text of at most so many lines, with one in the middle that says what is left out.

    >>> cut_text("a\\nb\\nc\\nd", 1, 1)
    'a\\n… 2 lines are not shown …\\nd'
    """
    lines = written.strip("\n").split("\n")
    left = len(lines) - first - last
    if left > 0:
        word = "line is" if left == 1 else "lines are"
        lines[first : first + left] = [f"… {left:,} {word} not shown …"]
    return "\n".join(map(_shortened, lines))


def _shortened(line: str) -> str:
    more = len(line) - LONGEST_LINE
    return line if more <= 0 else f"{line[:LONGEST_LINE]}… {more:,} more characters"
