"""Who comes to the page, by which way, and what they see without it."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import Machine
from tests.web.browser import Windows, assert_usable, expect
from tests.web.visits import new_link, own_port, served, sign_in

pytestmark = pytest.mark.web

NOT_SIGNED_IN = "Failed to load resource: the server responded with a status of 401"


def test_a_link_signs_in_and_leaves_nothing_in_the_address(
    machine: Machine, windows: Windows
) -> None:
    with served(machine, windows) as server:
        page = windows.open()
        link = new_link(machine, server)
        page.goto(link)
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
        assert page.url == f"{server.url}/dashboard"
        code = link.partition("#")[2]
        assert code not in page.content()
        page.go_back()
        assert code not in page.url


def test_without_signing_in_there_is_nothing_to_see(machine: Machine, windows: Windows) -> None:
    with served(machine, windows) as server:
        windows.forgive(NOT_SIGNED_IN)
        page = windows.open()
        page.goto(f"{server.url}/dashboard")
        expect(page.get_by_role("heading", name="Not signed in")).to_be_visible()
        assert_usable(page)


def test_whoever_takes_the_port_learns_nothing_that_is_of_use_later(
    machine: Machine, windows: Windows
) -> None:
    windows.forgive("")
    keys: list[str] = []
    port = own_port()
    with machine.server("--port", str(port)) as server:
        page = windows.open()
        page.route("**/dashboard/sign-in", lambda route: _note_key(route, keys))
        sign_in(page, machine, server)
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    with impostor(port) as heard:
        # The page asks whoever is there, again and again.
        page.wait_for_function(
            "() => performance.getEntriesByName(location.origin + "
            "'/dashboard/stream?path=%2Fdashboard').length > 1"
        )
        sent = heard[-1]
    assert len(keys) == 1
    assert keys[0] not in str(heard)
    assert "X-CAO-Proof" in str(heard)
    with served(machine, windows, "--port", str(port)):
        expect(page.locator("#connection")).to_be_empty()
        answer = httpx.get(f"{server.url}/runs", headers=sent, trust_env=False)
        assert answer.status_code == 401


def _note_key(route: Any, keys: list[str]) -> None:
    answer = route.fetch()
    if route.request.method == "POST":
        keys.append(answer.json()["key"])
    route.fulfill(response=answer)


NO_MATTER_WHAT = ("application/json", b'{"challenge": "chosen by somebody else"}')


@contextmanager
def impostor(port: int) -> Iterator[list[dict[str, str]]]:
    """Take a port, answer anything, and yield the headers that are sent there."""
    heard: list[dict[str, str]] = []

    class Impostor(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(dict(self.headers))
            kind, body = NO_MATTER_WHAT
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Be silent."""

    with ThreadingHTTPServer(("127.0.0.1", port), Impostor) as other:
        thread = Thread(target=other.serve_forever)
        thread.start()
        yield heard
        other.shutdown()
        thread.join()


def test_who_has_signed_in_stays_so_when_the_server_is_started_anew(
    machine: Machine, windows: Windows
) -> None:
    windows.forgive("ERR_")
    port = str(own_port())
    with machine.server("--port", port) as server:
        page = windows.open()
        sign_in(page, machine, server)
    with served(machine, windows, "--port", port):
        page.goto(f"{server.url}/dashboard")
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()


def test_a_server_that_wants_no_token_wants_no_link(machine: Machine, windows: Windows) -> None:
    with served(machine, windows, "--no-auth") as server:
        page = windows.open()
        page.goto(f"{server.url}/dashboard")
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
