"""Coming to the page as its users do."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

import httpx

from cli_agent_orchestrator.hosting.user import make_token
from cli_agent_orchestrator.settings.layout import state_folder
from tests.e2e.conftest import Machine, Server
from tests.page.rig import link
from tests.web.browser import DESK, Look, Page, Windows, expect
from tests.web.demo_runs import new_project, start_run

CHOICES = ["1  Yes", "2  No"]
"""What built-in agents offer; the last of them is drawn last."""
RUN_MS = 120_000
"""How long a whole run may take on a busy machine."""
LEFT_ALONE = range(20_000, 32_000)
"""Ports that the system gives to nobody who has not asked for them by their number."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A person who is signed in at the page of a server."""

    machine: Machine
    windows: Windows
    folder: Path
    server: Server
    page: Page

    def start(self, name: str = "basket", task: str = "") -> str:
        """Start a run of the demo's project and open its page."""
        run = start_run(self.machine, new_project(self.folder, name, task))
        open_run(self.page, self.server, run)
        return run

    def expect_end(self, words: str) -> None:
        expect_end(self.page, words)


@contextmanager
def visiting(
    machine: Machine, windows: Windows, folder: Path, *words: str, look: Look = DESK
) -> Iterator[Visit]:
    """Run a server, sign in there, and see all runs."""
    with served(machine, windows, *words) as server:
        page = windows.open(look)
        sign_in(page, machine, server)
        yield Visit(machine, windows, folder, server, page)


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


def signed_in(windows: Windows, url: str) -> Page:
    """Open a window at the page of a rig."""
    page = windows.open()
    page.goto(f"{url}/dashboard/sign-in#{link(url)}")
    page.wait_for_url(f"{url}/dashboard")
    expect(page.locator("h1")).to_have_text("Number 0")
    return page


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
