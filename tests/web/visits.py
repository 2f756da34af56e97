"""Coming to the page as its users do."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import SystemRandom

import httpx

from cli_agent_orchestrator.hosting.user import make_token
from cli_agent_orchestrator.settings.config import state_folder
from tests.e2e.conftest import Machine, Server
from tests.web.browser import Page, Windows, expect

CHOICES = ["1  Yes", "2  No"]
"""What built-in agents offer; the last of them is drawn last."""
RUN_MS = 120_000
"""How long a whole run may take on a busy machine."""
LEFT_ALONE = range(20_000, 32_000)
"""Ports that the system gives to nobody who has not asked for them by their number."""


@contextmanager
def served(machine: Machine, windows: Windows, *words: str) -> Iterator[Server]:
    """Run a server; windows are closed before it ends, of which they would complain."""
    with machine.server(*words) as server:
        try:
            yield server
        finally:
            windows.shut()


def own_port() -> int:
    """Return a port for a server that is ended and started again; nobody takes it in between."""
    for port in SystemRandom().sample(LEFT_ALONE, 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("there is no free port")


def new_link(machine: Machine, server: Server) -> str:
    """Return a link that signs somebody in, once, as `cao dashboard` makes it."""
    answer = httpx.post(
        f"{server.url}/dashboard/links",
        headers={"Authorization": f"Bearer {make_token(state_folder(machine.env))}"},
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


def expect_end(page: Page, words: str) -> None:
    """Wait until the run that is shown has ended as expected."""
    expect(page.locator("#head .badges")).to_contain_text(words, timeout=RUN_MS)


def answer(page: Page) -> None:
    """Answer the question that is shown by its first choice, and see that it is taken."""
    assert press_choice(page) == 200
    expect(page.locator("#said")).to_have_text("The question is answered.")


def press_choice(page: Page) -> int:
    """Press the first choice once all of them are there, and return the status of the answer."""
    choices = page.locator("#need .buttons").first.get_by_role("button")
    # Before that it is another question, and what is pressed is refused.
    expect(choices).to_have_text(CHOICES)
    with page.expect_response("**/answer") as told:
        choices.first.click()
    status: int = told.value.status
    return status


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
