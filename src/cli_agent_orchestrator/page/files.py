"""The files of the page that are the same for everybody: the shell, scripts, styles, the icon."""

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from ..errors import NotFound
from ..show import markup
from ..show.markup import color_rules

SHELL = "shell.html"
SCREEN_COLORS = "screen.css"
"""The colors of terminals: so many rules that they are computed, and in no file."""
# app.js   page.css
NAME_PATTERN = r"[a-z]{1,30}\.(?:js|css|svg)"
TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "html": "text/html; charset=utf-8",
}
FOLDERS = (Path(__file__).with_name("static"), Path(markup.__file__).parent)
"""Where they lie: those of the page, and those that it has in common with reports."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is sent."""

    body: bytes
    media_type: str
    etag: str
    """Changes with what is in it, so that a browser need not fetch again what it has."""


@cache
def shell() -> PageFile:
    """Return the page without anything in it, which is the same for all its addresses."""
    return _read(FOLDERS[0] / SHELL, "html")


@cache
def page_file(name: str) -> PageFile:
    """Return what the shell refers to."""
    if name == SCREEN_COLORS:
        return _sent(color_rules().encode(), "css")
    wanted = re.fullmatch(NAME_PATTERN, name, re.ASCII)
    for folder in FOLDERS if wanted else ():
        if (folder / name).is_file():
            return _read(folder / name, name.rpartition(".")[2])
    raise NotFound("file", name[:100], [])


def _read(path: Path, kind: str) -> PageFile:
    return _sent(path.read_bytes(), kind)


def _sent(body: bytes, kind: str) -> PageFile:
    return PageFile(body, TYPES[kind], f'"{sha256(body).hexdigest()[:32]}"')
