"""Coming to the page as its users do."""

import httpx

from cli_agent_orchestrator._internal.discovery import known_tokens
from tests.e2e.conftest import Machine, Server
from tests.web.browser import Page


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
