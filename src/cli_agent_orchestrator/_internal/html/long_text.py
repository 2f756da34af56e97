"""Texts of any length on a page: beginning and end, and between them how much is not shown."""

from collections.abc import Callable

from cli_agent_orchestrator._internal.html.markup import Markup, tag
from cli_agent_orchestrator._internal.masking import CUT, before_mask

FIRST_LINES = 300
LAST_LINES = 100
LONGEST_LINE = 2000
"""Characters."""


class CutText(str):
    """A text that is cut, and not cut again."""

    __slots__ = ()


def long_text(written: str, kind: str = "text") -> Markup:
    """Return a text as it is written; `kind` is a class: `text`, `screen`.

    >>> long_text("a < b")
    '<pre class="text">a &lt; b</pre>'
    """
    shown = written if isinstance(written, CutText) else cut_text(written)
    return tag("pre", shown, class_=kind)


def cut_text(
    written: str,
    first: int = FIRST_LINES,
    last: int = LAST_LINES,
    place: Callable[[str, int], int] = before_mask,
) -> CutText:
    """Return a text of at most so many lines, with one in the middle that says what is left out.

    `place` says where a line is cut that is to have at most so many characters.

    >>> cut_text("a\\nb\\nc\\nd", 1, 1)
    'a\\n… 2 lines are not shown …\\nd'
    """
    lines = written.strip("\n").split("\n")
    left = len(lines) - first - last
    if left > 0:
        word = "line is" if left == 1 else "lines are"
        lines[first : first + left] = [f"… {left:,} {word} not shown …"]
    return CutText("\n".join(_shortened(line, place(line, LONGEST_LINE)) for line in lines))


def _shortened(line: str, at: int) -> str:
    more = len(line) - at
    return f"{line[:at]}{CUT} {more:,} more characters" if more else line
