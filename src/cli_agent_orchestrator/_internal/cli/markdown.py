"""Text of others on a page of Markdown: it is shown, and never becomes markup."""

import re
from pathlib import Path

# What begins a link, an image, HTML, code, emphasis, a cell, an entity, a mention.
MARKUP_PATTERN = r"[\\`*\[\]<>|~&@#$]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?i:(?<=\bwww)\.)"
FENCE_PATTERN = r"`{3,}"
NOT_IN_PATH = r"(?<![\w./-])"
END_OF_PATH = r"(?![\w-]|\.\w)"


def escape(text: str) -> str:
    """Return a text for a place in a line, where nothing of it means anything to Markdown.

    >>> escape("<b> of analyst_review | [x](http://y)")
    '\\\\<b\\\\> of analyst_review \\\\| \\\\[x\\\\](http\\\\://y)'
    """
    return re.sub(MARKUP_PATTERN, r"\\\g<0>", " ".join(text.split()))


def fenced(text: str) -> str:
    """Return a text of many lines as it is, in a block that it cannot end."""
    longest = max((len(fence) for fence in re.findall(FENCE_PATTERN, text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def folded(title: str, text: str) -> str:
    """Return a part of a page that is opened when it is wanted."""
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"


def without_places(text: str, wd: str, home: Path) -> str:
    """Return a page for others: paths begin in the project, and the home folder is `~`.

    >>> without_places("/home/ada/shop/a.py, /home/ada/x", "/home/ada/shop", Path("/home/ada"))
    'a.py, ~/x'
    """
    for folder, inside, itself in ((wd, "", "."), (str(home), "~/", "~")):
        if len(folder) > 1:
            place = NOT_IN_PATH + re.escape(folder)
            text = re.sub(f"{place}/", inside, text)
            text = re.sub(f"{place}{END_OF_PATH}", itself, text)
    return text


def shown_folder(wd: str, home: Path) -> str:
    """Return how a project is named to others: below the home folder, else by its name alone."""
    path = Path(wd)
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else path.name or wd
