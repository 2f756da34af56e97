"""Who comes to the page, by which way, and what they see without it."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest

from tests.e2e.conftest import Machine
from tests.web.browser import Windows, expect
from tests.web.visits import own_port, served, sign_in

pytestmark = pytest.mark.web


def test_another_program_that_takes_the_port_is_sent_no_key(
    machine: Machine, windows: Windows
) -> None:
    windows.forgive("")
    port = own_port()
    with machine.server("--port", str(port)) as server:
        page = windows.open()
        sign_in(page, machine, server)
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    # Another server of the user, which answers for itself, is of no use to the other program.
    with machine.server() as elsewhere, impostor(port, elsewhere.url) as heard:
        expect(page.get_by_role("heading", name="Not signed in")).to_be_visible()
        assert any("/dashboard/proof" in line for line in heard)
        assert "authorization" not in str(heard).lower()
        assert page.evaluate("localStorage.getItem('cao-key')") not in str(heard)
    with served(machine, windows, "--port", str(port)):
        page.reload()
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()


@contextmanager
def impostor(port: int, url: str) -> Iterator[list[str]]:
    """Take a port, answer as the server at `url` does, and yield what is sent there."""
    heard: list[str] = []

    class Impostor(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(f"{self.path} {self.headers}")
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(httpx.get(f"{url}{self.path}", trust_env=False).content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Impostor) as other:
        thread = Thread(target=other.serve_forever)
        thread.start()
        try:
            yield heard
        finally:
            other.shutdown()
            thread.join()


def test_a_server_that_wants_no_token_wants_no_link(machine: Machine, windows: Windows) -> None:
    with served(machine, windows, "--no-auth") as server:
        page = windows.open()
        page.goto(f"{server.url}/dashboard")
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
