"""Who sees what of the page: cookies, keys, links and strangers, over real HTTP."""

import logging
import subprocess

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Route

from cli_agent_orchestrator.page.app import is_open
from cli_agent_orchestrator.page.sign_in import (
    LINK_SECONDS,
    SIGNED_IN_SECONDS,
    PageSecret,
    request_words,
    signature,
)
from tests.page.rig import Browser, PageRig, free_port, link, signed_in
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


def test_data_needs_cookie_and_key_together(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser:
        cookies = browser.http.cookies
        with (
            Browser(url) as stranger,
            Browser(url, cookies=cookies) as cookie_only,
            Browser(url, key=browser.key) as key_only,
            Browser(url, cookies=cookies, key="0" * 64) as wrong_key,
            signed_in(url) as other,
        ):
            with Browser(url, cookies=cookies, key=other.key) as mixed:
                for path in DATA:
                    for one in (stranger, cookie_only, key_only, wrong_key, mixed):
                        assert one.get(path).status_code == 401, path
            for path in DATA:
                if "stream" not in path:
                    assert browser.get(path).status_code == 200, path
            with browser.updates() as updates:
                assert next(updates)["title"] == "Runs"


def test_a_wrong_token_is_not_made_good_by_a_cookie(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser:
        headers = {**browser.headers("/runs"), "Authorization": "Bearer wrong"}
        assert browser.http.get("/runs", headers=headers).status_code == 401


def test_two_proofs_are_none(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser:
        headers = [*browser.headers("/runs").items()] * 2
        assert browser.http.get("/runs", headers=headers).status_code == 401


def test_a_link_signs_in_once(rig: PageRig) -> None:
    with rig.served() as url, Browser(url) as first, Browser(url) as second:
        code = link(url)
        assert first.sign_in(code) == 200
        assert second.sign_in(code) == 403
        assert second.sign_in("made up") == 403
        assert not second.http.cookies
        answer = second.http.post("/dashboard/sign-in", json={"code": code})
        assert "`cao dashboard`" in answer.json()["detail"]


def test_a_link_is_over_after_five_minutes_and_a_browser_after_thirty_days(rig: PageRig) -> None:
    with rig.served() as url, Browser(url) as browser:
        late, in_time = link(url), link(url)
        assert browser.sign_in(in_time) == 200
        rig.clock.ahead = LINK_SECONDS + 1
        with Browser(url) as other:
            assert other.sign_in(late) == 403
        assert browser.get("/runs").status_code == 200
        rig.clock.ahead = SIGNED_IN_SECONDS + 1
        assert browser.get("/runs").status_code == 401


def test_only_who_has_the_token_gets_links(rig: PageRig) -> None:
    """Else somebody who has signed in could make that last for ever."""
    with rig.served() as url, signed_in(url) as browser, Browser(url) as stranger:
        assert stranger.post("/dashboard/links", {}).status_code == 401
        for path in ("/dashboard/links", "/dashboard/links%0a"):
            assert browser.post(path, {}).status_code == 401


def test_a_proof_is_of_one_request_at_one_server(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser:
        proof = browser.headers("/runs")
        assert browser.http.get("/runs", headers=proof).status_code == 200
        for path in ("/sessions", "/runs?x=1", "/openapi.json"):
            assert browser.http.get(path, headers=proof).status_code == 401, path
        assert browser.http.post("/runs", headers=proof, json={"wd": "/"}).status_code == 401
        port = browser.http.base_url.port
        for host in (f"localhost:{port}", "127.0.0.1", f"127.0.0.1:{port + 1 if port else 0}"):
            answer = browser.http.get("/runs", headers={**proof, "Host": host})
            assert answer.status_code == 401, host


def test_whoever_has_the_port_in_between_can_do_nothing_later_with_what_he_was_sent(
    rig: PageRig,
) -> None:
    """Another user may take it while our server is not there, and the open page asks him."""
    port = free_port()
    with rig.served(port=port) as url, signed_in(url) as browser:
        sent = {**browser.headers("/runs"), "Cookie": cookie_header(browser)}
        assert browser.key not in str(sent)
    with rig.served(port=port) as url:
        assert httpx.get(f"{url}/runs", headers=sent, trust_env=False).status_code == 401


def test_whoever_has_another_port_cannot_pass_on_what_he_was_sent(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser:
        other = f"127.0.0.1:{free_port()}"
        challenge = browser.http.get("/dashboard/challenge").json()["challenge"]
        words = request_words(challenge, other, "GET", "/runs")
        headers = {"X-CAO-Proof": signature(browser.key, words), "Host": other}
        assert browser.http.get("/runs", headers=headers).status_code == 401


def cookie_header(browser: Browser) -> str:
    return "; ".join(f"{name}={value}" for name, value in browser.http.cookies.items())


def test_the_cookie_is_kept_from_scripts_and_other_sites(rig: PageRig) -> None:
    with rig.served() as url, Browser(url) as browser:
        answer = browser.http.post("/dashboard/sign-in", json={"code": link(url)})
        name, _, rest = answer.headers["set-cookie"].partition("=")
        assert name == PageSecret(TOKEN).cookie_name
        attributes = {one.strip() for one in rest.split(";")[1:]}
        assert attributes == {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"}
        assert answer.headers["cache-control"] == "no-store"


def test_a_server_that_is_started_again_knows_who_has_signed_in(rig: PageRig) -> None:
    port = free_port()
    with rig.served(port=port) as url, signed_in(url) as browser:
        cookies, key = browser.http.cookies, browser.key
    with rig.served(port=port) as url, Browser(url, cookies=cookies, key=key) as browser:
        assert browser.get("/runs").status_code == 200
    with (
        rig.served(port=port, secret="another-token-0123") as url,
        Browser(url, cookies=cookies, key=key) as browser,
    ):
        assert browser.get("/runs").status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
def test_other_names_and_pages_get_neither_data_nor_shell(
    rig: PageRig, headers: dict[str, str], status: int
) -> None:
    with rig.served() as url, signed_in(url) as browser:
        for path in ("/runs", "/dashboard", "/dashboard/static/app.js"):
            answer = browser.http.get(path, headers={**browser.headers(path), **headers})
            assert answer.status_code == status, path


def test_a_page_elsewhere_may_lead_to_ours_and_put_it_into_no_frame(rig: PageRig) -> None:
    led = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    with rig.served() as url, signed_in(url) as browser:
        for path, place, status in (
            ("/dashboard", "document", 200),
            ("/dashboard", "iframe", 403),
            ("/runs", "document", 403),
            ("/dashboard/fragment?path=/dashboard/more", "document", 403),
        ):
            headers = {**browser.headers(path), **led, "Sec-Fetch-Dest": place}
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
        secrets = [code, TOKEN, browser.key, *dict(browser.http.cookies).values()]
    assert all(secrets)
    assert len(secrets) == 4
    # What the client of this test says is not the server's.
    logged = [one.getMessage() for one in caplog.records if not one.name.startswith("http")]
    written = "".join((*logged, *capfd.readouterr(), listed))
    assert not [one for one in secrets if one in written]


@given(st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"]), st.text())
def test_nothing_but_the_shell_and_its_files_is_open(method: str, rest: str) -> None:
    for path in (rest, f"/{rest}", f"/dashboard/{rest}", f"/dashboard/stream/{rest}"):
        if is_open(method, path):
            assert method == "GET"
            assert path in {"/", "/dashboard"} or path.startswith("/dashboard/")
            assert path not in {"/dashboard/stream", "/dashboard/fragment"}


def test_whoever_adds_what_the_page_asks_for_decides_if_it_is_open(rig: PageRig) -> None:
    with rig.served():
        assert rig.app is not None
        routes = [route for route in rig.app.routes if isinstance(route, Route)]
    paths = {route.path for route in routes if "GET" in (route.methods or ())}
    asked = {path for path in paths if path.startswith("/dashboard")}
    closed = {"/dashboard/stream", "/dashboard/fragment"}
    assert asked - closed == {
        "/dashboard", "/dashboard/static/{name:path}", "/dashboard/challenge",
        "/dashboard/{rest:path}",
    }  # fmt: skip
    assert not any(is_open("GET", path) for path in closed)


def test_what_holds_data_is_not_open() -> None:
    assert not is_open("GET", "/dashboard/stream")
    assert not is_open("GET", "/dashboard/fragment")
    assert not is_open("POST", "/dashboard/links")
    assert not is_open("POST", "/dashboard/runs/x/comments")
    assert not is_open("POST", "/dashboard")
    assert is_open("POST", "/dashboard/sign-in")
    assert is_open("GET", "/dashboard/runs/a\nb")
