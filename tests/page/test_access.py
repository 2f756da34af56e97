"""Who sees what of the page: keys, links and strangers, over real HTTP."""

import logging
import subprocess

import pytest
from starlette.routing import Route

from cli_agent_orchestrator.page.app import is_open
from cli_agent_orchestrator.page.sign_in import LINK_SECONDS, SIGNED_IN_SECONDS, new_key
from tests.page.rig import Browser, PageRig, link, signed_in
from tests.server.running import TOKEN

DATA = ["/runs", "/sessions", "/openapi.json", "/dashboard/stream?path=/dashboard",
        "/dashboard/fragment?path=/dashboard/more"]  # fmt: skip
OPEN = ["/dashboard", "/dashboard/new", "/dashboard/runs/x", "/dashboard/runs/x/agents/y",
        "/dashboard/sign-in", "/dashboard/nosuch", "/dashboard/static/app.js"]  # fmt: skip


def test_the_shell_is_open_and_the_same_for_everybody(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser, Browser(url) as stranger:
        for path in OPEN:
            assert stranger.get(path).status_code == 200, path
            assert stranger.get(path).content == browser.get(path).content
        assert stranger.get("/dashboard").content == stranger.get("/dashboard/runs/x").content


def test_data_needs_the_key(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser:
        with Browser(url) as stranger, Browser(url, key=new_key("wrong", 9e9)) as wrong:
            for path in DATA:
                for one in (stranger, wrong):
                    assert one.get(path).status_code == 401, path
        twice = [*browser.headers.items()] * 2
        assert browser.http.get("/runs", headers=twice).status_code == 401
        for path in DATA:
            if "stream" not in path:
                assert browser.get(path).status_code == 200, path
        with browser.updates() as updates:
            assert next(updates)["title"] == "Runs"


def test_a_link_signs_in_once_within_five_minutes_and_for_thirty_days(rig: PageRig) -> None:
    with rig.served() as url, Browser(url) as browser, Browser(url) as other:
        code, late = link(url), link(url)
        assert browser.sign_in(code) == 200
        assert other.sign_in(code) == other.sign_in("made up") == 403
        rig.clock.ahead = LINK_SECONDS + 1
        assert other.sign_in(late) == 403
        assert not other.key
        answer = other.http.post("/dashboard/sign-in", json={"code": code})
        assert "`cao dashboard`" in answer.json()["detail"]
        assert browser.get("/runs").status_code == 200
        rig.clock.ahead = SIGNED_IN_SECONDS + 1
        assert browser.get("/runs").status_code == 401


def test_only_who_has_the_token_gets_links(rig: PageRig) -> None:
    """Else somebody who has signed in could make that last for ever."""
    with rig.served() as url, signed_in(url) as browser, Browser(url) as stranger:
        assert stranger.post("/dashboard/links", {}).status_code == 401
        for path in ("/dashboard/links", "/dashboard/links%0a"):
            assert browser.post(path, {}).status_code == 401
        key = browser.key
    rig.secret = "another-token-0123"
    with rig.served() as url, Browser(url, key=key) as browser:
        assert browser.get("/runs").status_code == 401


def test_other_names_and_pages_get_neither_data_nor_shell(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser:
        for name, value, status in (
            ("Host", "evil.example", 421),
            ("Origin", "http://evil.example", 403),
            ("Sec-Fetch-Site", "cross-site", 403),
            ("Sec-Fetch-Site", "same-origin", 200),
        ):
            for path in ("/runs", "/dashboard", "/dashboard/static/app.js"):
                answer = browser.get(path, headers={name: value})
                assert answer.status_code == status, (path, value)


def test_a_page_elsewhere_may_lead_to_ours_and_put_it_into_no_frame(rig: PageRig) -> None:
    led = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    with rig.served() as url, signed_in(url) as browser:
        for path, place, status in (
            ("/dashboard", "document", 200),
            ("/dashboard", "iframe", 403),
            ("/runs", "document", 403),
            ("/dashboard/fragment?path=/dashboard/more", "document", 403),
        ):
            headers = {**browser.headers, **led, "Sec-Fetch-Dest": place}
            assert browser.http.get(path, headers=headers).status_code == status, path
        headers = {**led, "Sec-Fetch-Dest": "document", "Content-Type": "application/json"}
        answer = browser.http.post("/dashboard/sign-in", headers=headers, content=b"{}")
        assert answer.status_code == 403


def test_a_server_without_a_token_shows_the_page_to_everybody(rig: PageRig) -> None:
    rig.token = None
    with rig.served() as url, Browser(url) as stranger, stranger.updates() as updates:
        assert next(updates)["title"] == "Runs"


FORBIDS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Word for word: each of them keeps something out."""


def test_every_page_forbids_what_it_does_not_need(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser:
        for path in (*OPEN, "/dashboard/fragment?path=/dashboard/more"):
            headers = browser.get(path).headers
            assert {name: headers.get(name) for name in FORBIDS} == FORBIDS, path


def test_what_is_secret_is_in_no_log_and_no_process_list(
    rig: PageRig, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG), rig.served() as url, Browser(url) as browser:
        code = link(url)
        browser.http.post("/dashboard/sign-in", json={"code": {"not": code}})
        browser.http.post("/dashboard/sign-in", content=code.encode())
        browser.sign_in(code)
        with Browser(url) as other:
            other.sign_in(code)
        browser.get("/runs")
        with browser.updates() as updates:
            next(updates)
        listed = subprocess.run(["ps", "-ef"], capture_output=True, text=True, check=True).stdout
        secrets = [code, TOKEN, browser.key]
    assert all(secrets)
    # What the client of this test says is not the server's.
    logged = [one.getMessage() for one in caplog.records if not one.name.startswith("http")]
    written = "".join((*logged, *capfd.readouterr(), listed))
    assert not [one for one in secrets if one in written]


def test_whoever_adds_what_the_page_asks_for_decides_if_it_is_open(rig: PageRig) -> None:
    with rig.served():
        assert rig.mounted is not None
        routes = [route for route in rig.mounted.routes if isinstance(route, Route)]
    paths = {route.path for route in routes if "GET" in (route.methods or ())}
    asked = {path for path in paths if path.startswith("/dashboard")}
    closed = {"/dashboard/stream", "/dashboard/fragment"}
    assert is_open("POST", "/dashboard/sign-in")
    assert not is_open("POST", "/dashboard/links")
    assert not is_open("POST", "/dashboard/runs/x/comments")
    assert asked - closed == {
        "/dashboard", "/dashboard/static/{name:path}", "/dashboard/proof", "/dashboard/{rest:path}",
    }  # fmt: skip
    assert not any(is_open("GET", path) for path in closed | {"/runs", "/dashboardx", "/\n"})
    assert not any(is_open(method, "/dashboard") for method in ("HEAD", "PUT", "OPTIONS"))
