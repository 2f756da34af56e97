"""HTML that nothing from outside can break out of.

    tag("p", "by ", tag("b", name), class_="author")

Text becomes HTML in one place, here: whatever is no `Markup` is escaped, and there is no other way
to a `Markup` than `tag`, `joined` and `text`. So a page can only be as its writer has put it
together, whatever the names, replies and screens in it say.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from html import escape

from ..core.text import CONTROLS, DIRECTIONS, HALVES, is_plain

# div, h1, font-face; with a capital letter only in SVG: linearGradient
NAME_PATTERN = r"[a-z][a-zA-Z0-9]*(?:-[a-z0-9]+)*"
# /dashboard/runs/x?step=3, #turn-3, and no //host
OWN_ADDRESS_PATTERN = r"(?:/(?!/)[^\s\\]*)?(?:#[^\s\\]*)?"
ADDRESSES = frozenset({"href", "src", "action", "formaction"})
FORBIDDEN = frozenset({"style", "srcdoc"})
"""What the page's own rules forbid, so that it would be ignored there."""
RUNS_CODE = "on"
"""Begins the names of attributes that are code."""
VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
RAW = frozenset({"script", "style", "iframe", "object", "embed"})
"""What is not text inside, so that escaping would not help; a page of ours needs none of them."""
UNSEEN_PATTERN = f"[{CONTROLS}{DIRECTIONS}{HALVES}]"
REPLACEMENT = "\ufffd"


class Markup(str):
    """HTML that is as its writer meant it."""

    __slots__ = ()


Child = str | None
"""What can stand inside: HTML as it is, other text escaped, nothing for None."""
Attribute = str | int | float | bool | None
"""True stands for the name alone, False and None for no attribute."""


def text(value: str) -> Markup:
    """Return a text as HTML; characters that nobody sees, or that turn a text round, are shown.

    >>> text("<b> & \\x1b")
    '&lt;b&gt; &amp; \ufffd'
    """
    # A screen has hundreds of texts, several times a second.
    seen = value if is_plain(value) else re.sub(UNSEEN_PATTERN, REPLACEMENT, value)
    return Markup(escape(seen, quote=True))


def joined(parts: Iterable[Child], between: str = "") -> Markup:
    """Return parts one after another, with a text between them."""
    return Markup(_inner(between).join(_inner(part) for part in parts if part is not None))


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """Return an element.

    Names of attributes are written with `_` for `-`, and with one at the end where Python has the
    word: `class_`, `for_`, `data_role`, `aria_label`. An address may only lead to this server.

    >>> tag("a", "1 < 2", href="/dashboard", class_="x", hidden=True, id=None)
    '<a href="/dashboard" class="x" hidden>1 &lt; 2</a>'
    """
    _check_element(name)
    opened = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        if children:
            raise ValueError(f"nothing can stand inside of {name}")
        return Markup(f"<{name}{opened}>")
    return Markup(f"<{name}{opened}>{joined(children)}</{name}>")


def _inner(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Markup) else text(child)


@lru_cache(maxsize=256)
def _check_element(name: str) -> None:
    if not re.fullmatch(NAME_PATTERN, name) or name in RAW:
        raise ValueError(f"no element of ours: {name!r}")


@lru_cache(maxsize=256)
def _attribute_name(key: str) -> str:
    # In SVG some names have capital letters: viewBox.
    name = key.rstrip("_").replace("_", "-")
    is_code = name.startswith(RUNS_CODE) or name in FORBIDDEN
    if not re.fullmatch(NAME_PATTERN, name) or is_code:
        raise ValueError(f"no attribute of ours: {name!r}")
    return name


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = _attribute_name(key)
    if value is True:
        return f" {name}"
    written = f"{value:g}" if isinstance(value, float) else str(value)
    if name in ADDRESSES and not re.fullmatch(OWN_ADDRESS_PATTERN, written):
        raise ValueError(f"an address of somebody else: {written!r}")
    return f' {name}="{text(written)}"'
