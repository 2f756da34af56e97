"""A real browser: windows that must stay silent, and what axe finds in them.

Playwright is imported when a window is opened: it is there only where `make test-web` put it.
"""

import importlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(__file__).parents[2] / ".cache/web/node_modules/axe-core/axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]
PATIENCE_MS = 20_000

# Any: the types of playwright are there only where it is installed
Page = Any
Api = Any


@dataclass(frozen=True, slots=True)
class Look:
    """How somebody looks at a page."""

    width: int
    scheme: str
    """`light` or `dark`."""

    @property
    def size(self) -> dict[str, int]:
        return {"width": self.width, "height": 844}


DESK, DESK_DARK = Look(1280, "light"), Look(1280, "dark")
PHONE, PHONE_DARK = Look(390, "light"), Look(390, "dark")
LOOKS = (DESK, DESK_DARK, PHONE, PHONE_DARK)


def find_chromium() -> str | None:
    """Return the program of a browser; CHROMIUM in the environment names another one."""
    named = os.environ.get("CHROMIUM")
    return next(filter(None, map(shutil.which, [named] if named else NAMES)), None)


def missing() -> str:
    """Return what is not there of all that tests of the page need; nothing if all is."""
    there = {
        "playwright": find_spec("playwright") is not None,
        "Chromium": find_chromium() is not None,
        "axe-core": AXE.exists(),
    }
    return ", ".join(name for name, is_there in there.items() if not is_there)


@contextmanager
def started_browser() -> Iterator[Any]:
    """Run a browser until the end of the block; see `missing`."""
    api: Api = importlib.import_module("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium())
        yield browser
        browser.close()


def expect(what: Any) -> Any:
    """Return what can be expected of a page or a locator; it waits until it is so."""
    api: Api = importlib.import_module("playwright.sync_api")
    api.expect.set_options(timeout=PATIENCE_MS)
    return api.expect(what)


@dataclass
class Windows:
    """Windows of one test, each of a person of its own: nothing is shared between them."""

    browser: Any
    complaints: list[str] = field(default_factory=list)
    """What consoles, scripts and requests to strangers gave cause for."""
    _forgiven: list[str] = field(default_factory=list)
    _contexts: list[Any] = field(default_factory=list)

    def open(self, look: Look = DESK, *, scripts: bool = True) -> Page:
        """Open an empty window."""
        context = self.browser.new_context(
            viewport=look.size,
            color_scheme=look.scheme,
            reduced_motion="reduce",
            java_script_enabled=scripts,
        )
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        return self.another_tab(context)

    def another_tab(self, context: Any) -> Page:
        """Open a tab for somebody who has one already: `another_tab(page.context)`."""
        page = context.new_page()
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", self._on_request)
        return page

    def forgive(self, words: str) -> None:
        """Take no offence at complaints with words in them, such as of a server that is killed."""
        self._forgiven.append(words)

    def shut(self) -> None:
        """Close all windows."""
        while self._contexts:
            self._contexts.pop().close()

    def close(self) -> None:
        """Close all windows; what they gave cause for fails the test."""
        self.shut()
        left = [one for one in self.complaints if not any(word in one for word in self._forgiven)]
        assert not left, "\n".join(left)

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} ({message.location['url']})")

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "file:", "data:", "blob:")):
            self.complaints.append(f"a stranger is asked: {request.url}")


def look_at(page: Page, look: Look) -> None:
    """Look at a page in another size and other colours."""
    page.set_viewport_size(look.size)
    page.emulate_media(color_scheme=look.scheme)


def assert_usable(page: Page) -> None:
    """Assert that all can use a page: axe finds nothing, and nothing is wider than the window."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    for look in LOOKS:
        look_at(page, look)
        found = axe_findings(page)
        assert not found, (look, found)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= look.width, f"{width} pixels wide"
    look_at(page, DESK)


def axe_findings(page: Page) -> list[tuple[str, list[str]]]:
    """Return which rules are broken, and where; axe must be in the page already."""
    found = page.evaluate("tags => axe.run(document, {runOnly: tags})", TAGS)
    return [
        (one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found["violations"]
    ]
