"""The page over real HTTP: its files, its streams, and what it passes on to runs."""

import re
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.events import CheckBegan, HintTaken, RunBegan, TurnBegan
from cli_agent_orchestrator.page.app import FOLDERS, page_file
from cli_agent_orchestrator.pipeline.steering import Ask, Hint
from tests.page.rig import GIVES_UP, Browser, PageRig, signed_in
from tests.server.run_rig import EVENTS, NOON, RUN, Answering
from tests.server.running import WAIT_SECONDS

OTHER = "20261115-084038-k3fa"
HEAVIEST = 120_000
"""Bytes of all that a browser fetches which was never here, data apart."""


def told(ask: Ask) -> HintTaken:
    assert isinstance(ask.wish, Hint)
    return HintTaken(NOON, ask.wish.role or "", ask.wish.text, ask.id)


def test_files_have_their_types_and_are_fetched_again_only_if_they_changed(rig: PageRig) -> None:
    with rig.served() as url, Browser(url) as browser:
        for name, kind in (
            ("app.js", "text/javascript; charset=utf-8"),
            ("shell.css", "text/css; charset=utf-8"),
            ("icon.svg", "image/svg+xml"),
        ):
            answer = browser.get(f"/dashboard/static/{name}")
            assert answer.headers["content-type"] == kind
            assert answer.headers["cache-control"] == "no-cache"
            known = {"If-None-Match": answer.headers["etag"]}
            again = browser.http.get(f"/dashboard/static/{name}", headers=known)
            assert (again.status_code, again.content) == (304, b"")
            assert (
                browser.http.get(
                    f"/dashboard/static/{name}", headers={"If-None-Match": '"x"'}
                ).content
                == answer.content
            )
        assert browser.get("/dashboard").headers["content-type"] == "text/html; charset=utf-8"


def test_all_that_the_shell_names_is_there(rig: PageRig) -> None:
    with rig.served() as url, Browser(url) as browser:
        shell = browser.get("/dashboard").text
        names = re.findall(r'(?:href|src)="(/[^"]*)"', shell)
        assert "/dashboard/static/app.js" in names
        for name in names:
            assert browser.get(name).status_code == 200, name
        assert "style=" not in shell
        assert not re.search(r"<script(?! type=\"module\" src=)", shell)


def test_the_page_is_light(rig: PageRig) -> None:
    with rig.served() as url, Browser(url) as browser:
        shell = browser.get("/dashboard")
        names = re.findall(r'(?:href|src)="(/dashboard/static/[^"]*)"', shell.text)
        files = [browser.get(name).content for name in names]
    assert len(shell.content) + sum(map(len, files)) <= HEAVIEST


@pytest.mark.parametrize(
    "name",
    [
        "", "..", "../routes.py", "..%2froutes.py", "%2e%2e/routes.py", "..%5croutes.py", "app.js/",
        "app.js%00", "/etc/passwd", "%2fetc%2fpasswd", "markup.py",
        "App.js", "app.js.css/../app.js", "static", "a" * 5000 + ".js", "a" * 300 + ".js",
        "nothing.css", "%ff.js", "__init__.py",
    ],
)  # fmt: skip
def test_no_name_leads_elsewhere(rig: PageRig, name: str) -> None:
    with rig.served() as url:
        connection = HTTPConnection(httpx.URL(url).host, httpx.URL(url).port, WAIT_SECONDS)
        with closing(connection):
            # As it is: other clients would make it neat before they send it.
            connection.request("GET", f"/dashboard/static/{name}")
            assert connection.getresponse().status in (401, 404, 422)


@given(st.text())
def test_no_text_is_the_name_of_a_file_that_is_not_ours(name: str) -> None:
    try:
        page_file(name)
    except NotFound:
        return
    assert any((folder / name).is_file() for folder in FOLDERS)
    assert "/" not in name


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(path=st.text(max_size=300).map(lambda text: quote(text, safe="/%")))
def test_every_address_gets_an_answer(path: str, running: tuple[str, Browser]) -> None:
    url, browser = running
    for before in ("/", "/dashboard/", "/dashboard/static/", "/dashboard/runs/"):
        address = httpx.URL(url).copy_with(raw_path=f"{before}{path}".encode())
        answer = browser.http.get(address, headers=browser.headers(address))
        assert answer.status_code in (200, 303, 404, 405, 422), path


@pytest.fixture
def running(rig: PageRig):  # type: ignore[no-untyped-def]
    with rig.served() as url, signed_in(url) as browser:
        yield url, browser


def test_browsers_are_led_to_the_page_and_nobody_else(rig: PageRig) -> None:
    with rig.served() as url, Browser(url) as browser:
        answer = browser.http.get("/", headers={"Accept": "text/html,*/*;q=0.8"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
        assert browser.http.get("/").status_code == 404


def test_a_page_that_is_not_there_is_not_found(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser:
        answer = browser.get("/dashboard/stream", params={"path": "/dashboard/runs/none"})
        assert answer.status_code == 404
        assert "no page" in answer.json()["detail"]
        assert browser.get("/dashboard/fragment", params={"path": "/x"}).status_code == 404


def test_a_fragment_is_html_that_nobody_keeps(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser:
        answer = browser.get("/dashboard/fragment", params={"path": "/dashboard/more"})
        assert answer.text == "<p>&lt;more&gt;</p>"
        assert answer.headers["cache-control"] == "no-store"


def test_a_tab_is_told_what_happens_in_a_run(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser, browser.updates() as updates:
        first = next(updates)
        assert [part["id"] for part in first["parts"]] == ["runs", RUN]
        with rig.folder.locked():
            rig.happen(*EVENTS[:2])
            while "running" not in next(updates)["parts"][-1]["html"]:
                pass
            rig.happen(*EVENTS[2:])
        while "PASS" not in (update := next(updates))["parts"][-1]["html"]:
            pass
        assert [part["id"] for part in update["parts"]] == [RUN]
        assert "after" not in update["parts"][0]


def test_many_tabs_are_made_one_page_and_none_when_they_are_closed(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser, ExitStack() as tabs:
        assert rig.context is not None
        news = rig.context.news
        assert news.is_at_rest
        streams = [tabs.enter_context(browser.updates()) for _ in range(20)]
        for updates in streams:
            assert next(updates)["title"] == "Runs"
        assert len(rig.made) == 1
        rig.happen(EVENTS[-1])
        for updates in streams:
            assert "PASS" in next(updates)["parts"][-1]["html"]
        # Both files of the run tell of it, and there may be a look in between.
        assert len(rig.made) <= 5
        tabs.close()
        rig.wait_until(lambda: news.is_at_rest)
        with browser.updates() as updates:
            assert "PASS" in next(updates)["parts"][-1]["html"]


def test_a_page_that_cannot_go_on_says_why(rig: PageRig) -> None:
    with rig.served() as url, signed_in(url) as browser:
        for _ in range(2):
            with browser.updates(GIVES_UP) as updates:
                assert [*updates] == [
                    {"title": "", "parts": [], "gone": []},
                    {"problem": "no run 'x'; there are: none"},
                ]


def test_streams_end_with_the_server_and_come_again(rig: PageRig) -> None:
    with ExitStack() as opened:
        with rig.served() as url:
            browser = opened.enter_context(signed_in(url))
            updates = opened.enter_context(browser.updates())
            assert next(updates)["title"] == "Runs"
        assert [*updates] == []


def test_a_tab_is_sent_how_all_stood_when_the_server_ended(rig: PageRig) -> None:
    rig.happen(*EVENTS[:2])
    with ExitStack() as opened:
        with rig.served() as url:
            browser = opened.enter_context(signed_in(url))
            updates = opened.enter_context(browser.updates())
            assert "PASS" not in next(updates)["parts"][-1]["html"]
            rig.happen(*EVENTS[2:])
        assert "PASS" in [*updates][-1]["parts"][-1]["html"]


def test_a_comment_becomes_a_hint_for_the_author(rig: PageRig) -> None:
    rig.happen(*EVENTS[:3])
    body = {"turn": 1, "path": "a.py", "line": 7, "side": "new", "code": "x = 1", "text": "Why?"}
    with rig.served() as url, signed_in(url) as browser, Answering(rig, told) as run:
        answer = browser.post(f"/dashboard/runs/{RUN}/comments", body)
        assert answer.json() == {
            "heard": True, "text": "The hint will be in the next prompt of analyst."
        }  # fmt: skip
        assert run.wishes == [Hint("analyst", "About a.py:7, as turn 1 left it:\n    x = 1\nWhy?")]


def test_a_comment_on_what_others_changed_is_for_the_author_whose_work_they_judge(
    rig: PageRig,
) -> None:
    roles = ("analyst", "peer_analyst", "programmer", "tester")
    turns = [
        TurnBegan(NOON, role, 1, 1, number, "t1", "scripted")
        for number, role in enumerate(roles, 1)
    ]
    began = RunBegan(NOON, "cao-1", {}, dict.fromkeys(roles, "scripted"), "/a")
    rig.happen(began, *turns, CheckBegan(NOON, "tests", 1, 5, "make test"))
    body = {"path": "a.py", "line": 7, "text": "Why?"}
    with rig.served() as url, signed_in(url) as browser, Answering(rig, told) as run:
        for number in range(1, 6):
            asked = {**body, "turn": number}
            assert browser.post(f"/dashboard/runs/{RUN}/comments", asked).status_code == 200
        authors = ["analyst", "analyst", "programmer", "programmer", "programmer"]
        assert [wish.role for wish in run.wishes if isinstance(wish, Hint)] == authors


def test_a_comment_on_what_a_gate_changed_before_all_work_is_for_the_first_author(
    rig: PageRig,
) -> None:
    rig.happen(EVENTS[0], CheckBegan(NOON, "tests", 1, 1, "make test"))
    body = {"turn": 1, "path": "a.py", "line": 7, "text": "Why?"}
    with rig.served() as url, signed_in(url) as browser, Answering(rig, told) as run:
        assert browser.post(f"/dashboard/runs/{RUN}/comments", body).status_code == 200
        assert run.wishes == [Hint("analyst", "About a.py:7, as turn 1 left it:\nWhy?")]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"turn": 9}, 404),
        ({"turn": "x"}, 422),
        ({"line": -1}, 422),
        ({"side": "left"}, 422),
        ({"text": " \n"}, 422),
        ({"code": "x" * 10_001}, 422),
        ({"text": "x" * 9000}, 400),
        ({"text": "x" * 70_000}, 413),
    ],
)
def test_a_comment_that_cannot_be_right_is_refused(
    rig: PageRig, change: dict[str, object], status: int
) -> None:
    rig.happen(*EVENTS[:3])
    body = {"turn": 1, "path": "a.py", "line": 7, "text": "Why?", **change}
    with rig.served() as url, signed_in(url) as browser, Answering(rig, told):
        assert browser.post(f"/dashboard/runs/{RUN}/comments", body).status_code == status
