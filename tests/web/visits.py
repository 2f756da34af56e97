"""Coming to the page as its users do."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from cli_agent_orchestrator._internal.discovery import known_tokens
from tests.e2e.conftest import Machine, Server
from tests.web.browser import Page, Windows


@contextmanager
def served(machine: Machine, windows: Windows, *words: str) -> Iterator[Server]:
    """Run a server; windows are closed before it ends, of which they would complain."""
    with machine.server(*words) as server:
        try:
            yield server
        finally:
            windows.shut()


def new_link(machine: Machine, server: Server) -> str:
    """Return a link that signs somebody in, once, as `cao dashboard` makes it."""
    answer = httpx.post(
        f"{server.url}/dashboard/links",
        headers={"Authorization": f"Bearer {next(known_tokens(machine.env))}"},
        trust_env=False,
    )
    path: str = answer.raise_for_status().json()["path"]
    return server.url + path


def sign_in(page: Page, machine: Machine, server: Server) -> None:
    """Come by a link, and wait until all runs are shown."""
    page.goto(new_link(machine, server))
    page.wait_for_url(f"{server.url}/dashboard")


def open_run(page: Page, server: Server, run: str) -> None:
    """Go to the page of a run, and wait until it is shown."""
    page.goto(f"{server.url}/dashboard/runs/{run}")
    page.locator("#head").wait_for()


def answer(page: Page) -> None:
    """Press the first choice of the question that is shown."""
    page.locator("#need").get_by_role("button").first.click()


def hide(page: Page) -> None:
    """Let a page believe that its tab is hidden; headless browsers show all of them."""
    _set_hidden(page, "true")


def unhide(page: Page) -> None:
    _set_hidden(page, "false")


def _set_hidden(page: Page, hidden: str) -> None:
    page.evaluate(
        f"""() => {{
            Object.defineProperty(document, "hidden", {{ value: {hidden}, configurable: true }});
            document.dispatchEvent(new Event("visibilitychange"));
        }}"""
    )
