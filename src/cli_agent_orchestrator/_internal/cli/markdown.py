"""Text of others on a page of Markdown: it is shown, and never becomes markup."""

import re
from collections.abc import Sequence
from pathlib import Path

from cli_agent_orchestrator._internal.pipeline.patches import MARKUP_PATTERN, fence_of

# "`make test`": a pair of single marks with something between them
CODE_PATTERN = r"(?<!`)(?P<code>`[^`]*[^`\s][^`]*`)(?!`)"
NEVER = r"(?!)"
NOT_IN_PATH = r"(?<![\w./-])"
END_OF_PATH = r"(?![\w-]|\.\w)"


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
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"


def without_places(text: str, folders: Sequence[str], home: Path, state: Path | None = None) -> str:
    """Return a page for others: paths begin in its folders, and the home folder is `~`.

    The state folder is named as such, wherever it is.

    >>> without_places("/home/ada/shop/a.py, /home/ada/x", ["/home/ada/shop"], Path("/home/ada"))
    'a.py, ~/x'
    """
    own = ((folder, "", ".") for folder in folders)
    kept = (str(state or ""), "(state folder)/", "(state folder)")
    for folder, inside, itself in (*own, kept, (str(home), "~/", "~")):
        if len(folder) > 1:
            place = NOT_IN_PATH + re.escape(folder)
            text = re.sub(f"{place}/", inside, text)
            text = re.sub(f"{place}{END_OF_PATH}", itself, text)
    return text


def shown_folder(wd: str, home: Path) -> str:
    """Return how a project is named to others: below the home folder, else by its name alone."""
    path = Path(wd)
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else path.name or wd
