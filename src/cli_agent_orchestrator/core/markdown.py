"""Text of others on a page of Markdown: it is shown, and never becomes markup."""

import html
import re
from collections.abc import Sequence

from .secrets import CUT, cut_before_secret
from .text import CONTROLS, DIRECTIONS, HALVES, SEPARATORS

LONGEST_LINE = 300
# What begins a link, an image, HTML, code, emphasis, a cell, an entity; the ~ of a path ends
# nothing that another has begun.
MARKUP_PATTERN = r"[\\`*\[\]<>|&@#$]|~(?!/)|(?<=\S)~|(?<![^\W_])_|_(?![^\W_])"
# Where a mark is due in a text that would begin a list or a rule: 1. and - and ---
START_PATTERN = r"\A(?:\d{1,9}(?=[.)](?:\s|\Z))|(?=[-+](?:\s|\Z)|--+\Z))"
# Of a word that can be code wherever it stands
PIECE = r"[^\s`|\\]"
# What becomes a link, a mention or a reference after Markdown is rendered: no backslash helps.
LINK_PATTERN = (
    rf"@{PIECE}|#\d|://|(?i:www)\.{PIECE}|(?<![^\W_])(?i:gh-\d|ghsa-"
    r"|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?![^\W_]))"
)
# ```
FENCE_PATTERN = r"`{3,}"


def excerpt(patches: Sequence[str], most_each: int, most: int, command: str) -> str:
    """Return the first lines of each patch, and of all; at the end the command for the rest."""
    shown: list[str] = []
    room, left = most, 0
    for patch in patches:
        lines = patch.strip("\n").split("\n") if patch.strip("\n") else []
        taken = lines[: min(most_each, room)]
        for line in taken:
            cut = cut_before_secret(line, LONGEST_LINE)
            shown.append(re.sub(f"[{CONTROLS}{SEPARATORS}{DIRECTIONS}{HALVES}]", "�", cut))
        shown += [CUT] if taken and len(taken) < len(lines) else []
        room, left = room - len(taken), left + len(lines) - len(taken)
    if left:
        where = f": {command}" if command else ""
        shown.append(f"{CUT} {left} more line{'' if left == 1 else 's'}{where}")
    return "\n".join(shown)


def fence_of(text: str) -> str:
    longest = max((len(fence) for fence in re.findall(FENCE_PATTERN, text)), default=2)
    return "`" * (longest + 1)


def harmless(text: str) -> str:
    """Return a text for a place in a line of a page: as code, if Markdown would make more of it."""
    if not re.search(rf"{MARKUP_PATTERN}|{LINK_PATTERN}|{START_PATTERN}|\A\s", text):
        return text
    marks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{marks}{room}{text}{room}{marks}"


def block_of(patch: str) -> str:
    fence = fence_of(patch)
    return f"{fence}diff\n{patch}\n{fence}"


# "`make test`": a pair of single marks with something between them
CODE_PATTERN = r"(?<!`)(?P<code>`[^`]*[^`\s][^`]*`)(?!`)"
# A whole word in which something would become a link or a mention, without the comma after it
LINKED_PATTERN = (
    rf"(?<!{PIECE})(?={PIECE}*?(?:{LINK_PATTERN}))(?P<link>{PIECE}*(?![.,;:!?)\]]){PIECE})"
)
PLAIN_PATTERN = f"{LINKED_PATTERN}|(?P<list>{START_PATTERN})|{MARKUP_PATTERN}"
GAP = "\u200b"
"""Has no width: marks of code on both sides of it are not taken for one mark."""


def escape(text: str, *, is_cell: bool = False) -> str:
    """Return a text for a place in a line, where nothing of it means anything to Markdown.

    Code stays code: inside of it nothing means anything, and marks would be shown. What a site
    makes links and mentions of becomes code, since it does so when all marks are gone. A cell of a
    table ends at a `|` in code, too.
    """

    def mark(found: re.Match[str]) -> str:
        code = found["code"]
        if code is None:
            return _marked(found)
        ends_cell = is_cell and re.search(r"[|\\]", code)
        return re.sub(PLAIN_PATTERN, _marked, code) if ends_cell else code

    return re.sub(f"{CODE_PATTERN}|{PLAIN_PATTERN}", mark, " ".join(text.split()))


def cell(text: str) -> str:
    return escape(text, is_cell=True)


def _marked(found: re.Match[str]) -> str:
    if found["link"] is None:
        return f"{found[0]}\\" if found["list"] is not None else f"\\{found[0]}"
    start, end = found.span()
    before, after = found.string[start - 1 : start], found.string[end : end + 1]
    return f"{GAP if before == '`' else ''}`{found[0]}`{GAP if after == '`' else ''}"


def fenced(text: str) -> str:
    fence = fence_of(text)
    return f"{fence}text\n{text}\n{fence}"


def folded(title: str, text: str) -> str:
    return f"<details>\n<summary>{html.escape(title)}</summary>\n\n{text}\n\n</details>"
