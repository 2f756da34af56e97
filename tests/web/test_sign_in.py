"""Who comes to the page, by which way, and what they see without it."""

import re

import pytest

from tests.e2e.conftest import Machine
from tests.web.browser import Windows, assert_usable, expect
from tests.web.visits import new_link, served, sign_in

pytestmark = pytest.mark.web

USED = "Failed to load resource: the server responded with a status of 403"
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


def test_a_link_that_was_used_says_how_to_get_a_new_one(machine: Machine, windows: Windows) -> None:
    with served(machine, windows) as server:
        link = new_link(machine, server)
        windows.open().goto(link)
        windows.forgive(USED)
        second = windows.open()
        second.goto(link)
        expect(second.get_by_role("heading", name="Not signed in")).to_be_visible()
        expect(second.locator("main code")).to_have_text("cao dashboard")
        expect(second.locator("main")).not_to_contain_text("`")
        assert_usable(second)


def test_without_signing_in_there_is_nothing_to_see(machine: Machine, windows: Windows) -> None:
    with served(machine, windows) as server:
        windows.forgive(NOT_SIGNED_IN)
        page = windows.open()
        page.goto(f"{server.url}/dashboard")
        expect(page.get_by_role("heading", name="Not signed in")).to_be_visible()
        assert_usable(page)


def test_neither_the_cookie_nor_the_key_is_enough_alone(machine: Machine, windows: Windows) -> None:
    with served(machine, windows) as server:
        windows.forgive(NOT_SIGNED_IN)
        page = windows.open()
        sign_in(page, machine, server)
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        key = page.evaluate("Object.values(localStorage)[0]")
        assert key not in cookie["value"]
        ask = "key => fetch('/runs', {headers: key ? {'X-CAO-Key': key} : {}}).then(a => a.status)"
        assert page.evaluate(ask, key) == 200
        assert page.evaluate(ask, "") == 401
        page.context.clear_cookies()
        assert page.evaluate(ask, key) == 401


def test_who_has_signed_in_stays_so_when_the_server_is_started_anew(
    machine: Machine, windows: Windows
) -> None:
    windows.forgive("ERR_")
    with machine.server() as server:
        page = windows.open()
        sign_in(page, machine, server)
    port = re.findall(r":(\d+)", server.url)[0]
    with served(machine, windows, "--port", port):
        page.goto(f"{server.url}/dashboard")
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()


def test_a_server_that_wants_no_token_wants_no_link(machine: Machine, windows: Windows) -> None:
    with served(machine, windows, "--no-auth") as server:
        page = windows.open()
        page.goto(f"{server.url}/dashboard")
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
