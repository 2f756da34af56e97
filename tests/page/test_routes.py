"""The page over real HTTP: its files, its streams, and what it passes on to runs."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection

import httpx
import pytest

from cli_agent_orchestrator.events import CheckBegan, HintTaken, RunBegan, TurnBegan
from cli_agent_orchestrator.page.sign_in import server_proof
from cli_agent_orchestrator.pipeline.requests import Hint, SentRequest
from tests.page.rig import Browser, PageRig, signed_in
from tests.server.run_rig import EVENTS, NOON, RUN, Answering
from tests.server.running import TOKEN, WAIT_SECONDS

HEAVIEST = 120_000
"""Bytes of all that a browser fetches which was never here, data apart."""


def told(ask: SentRequest) -> HintTaken:
    assert isinstance(ask.request, Hint)
    return HintTaken(NOON, ask.request.role or "", ask.request.text, ask.id)


def test_files_have_their_types_and_are_fetched_again_only_if_they_changed(rig: PageRig) -> None:
    with rig.served() as url, Browser(url) as browser:
        for name, kind in (
            ("app.js", "text/javascript; charset=utf-8"),
            ("icon.svg", "image/svg+xml"),
        ):
            path = f"/dashboard/static/{name}"
            answer = browser.get(path)
            assert answer.headers["content-type"] == kind
            assert answer.headers["cache-control"] == "no-cache"
            again = browser.get(path, headers={"If-None-Match": answer.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            other = browser.get(path, headers={"If-None-Match": '"x"'})
            assert other.content == answer.content
        assert browser.get("/dashboard").headers["content-type"] == "text/html; charset=utf-8"


def test_a_server_proves_its_key_for_its_own_port_alone(rig: PageRig) -> None:
    """Another user's program, at a port that was ours, could ask us and pass the answer on."""
    with rig.served() as url, signed_in(url) as browser:
        host = {"Host": "127.0.0.1:1"}
        answer = browser.get("/dashboard/proof?expiry=9&nonce=n", headers=host)
        assert browser.port == httpx.URL(url).port
    assert answer.json() == {"proof": server_proof(TOKEN, 9, browser.port, "n")}


def test_all_that_the_shell_names_is_there_and_light(rig: PageRig) -> None:
    with rig.served() as url, Browser(url) as browser:
        shell = browser.get("/dashboard").text
        names = re.findall(r'(?:href|src)="(/[^"]*)"', shell)
        assert "/dashboard/static/app.js" in names
        answers = {name: browser.get(name) for name in names}
        assert {answer.status_code for answer in answers.values()} == {200}
        files = [one.content for name, one in answers.items() if "/static/" in name]
        assert len(shell.encode()) + sum(map(len, files)) <= HEAVIEST
        assert "style=" not in shell
        assert not re.search(r"<script(?! type=\"module\" src=)", shell)


NO_FILES = (
    *("", "../routes.py", "..%2froutes.py", "..%5croutes.py", "app.js/", "app.js%00", "%ff.js"),
    *("%2fetc%2fpasswd", "markup.py", "App.js", "a" * 5000 + ".js", "nothing.css"),
)


def test_no_name_leads_elsewhere(rig: PageRig) -> None:
    with rig.served() as url:
        for name in NO_FILES:
            connection = HTTPConnection(httpx.URL(url).host, httpx.URL(url).port, WAIT_SECONDS)
            with closing(connection):
                # As it is: other clients would make it neat before they send it.
                connection.request("GET", f"/dashboard/static/{name}")
                assert connection.getresponse().status in (401, 404, 422), name


@pytest.fixture
def running(rig: PageRig) -> Iterator[Browser]:
    with rig.served() as url, signed_in(url) as browser:
        yield browser


def test_browsers_are_led_to_the_page_and_nobody_else(rig: PageRig) -> None:
    with rig.served() as url, Browser(url) as browser:
        answer = browser.http.get("/", headers={"Accept": "text/html,*/*;q=0.8"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
        assert browser.http.get("/").status_code == 404


def test_a_fragment_is_html_that_nobody_keeps_and_may_not_be_there(running: Browser) -> None:
    answer = running.get("/dashboard/fragment", params={"path": "/dashboard/more"})
    assert answer.text == "<p>&lt;more&gt;</p>"
    assert answer.headers["cache-control"] == "no-store"
    assert running.get("/dashboard/fragment", params={"path": "/x"}).status_code == 404
    answer = running.get("/dashboard/stream", params={"path": "/dashboard/runs/none"})
    assert (answer.status_code, "no page" in answer.json()["detail"]) == (404, True)


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


def test_a_tab_is_sent_how_all_stood_when_the_server_ended(rig: PageRig) -> None:
    rig.happen(*EVENTS[:2])
    with ExitStack() as opened:
        with rig.served() as url:
            browser = opened.enter_context(signed_in(url))
            updates = opened.enter_context(browser.updates())
            assert "PASS" not in next(updates)["parts"][-1]["html"]
            rig.happen(*EVENTS[2:])
        assert "PASS" in [*updates][-1]["parts"][-1]["html"]


COMMENT = {"turn": 1, "path": "a.py", "line": 7, "text": "Why?"}
COMMENTS = f"/dashboard/runs/{RUN}/comments"


def test_a_comment_becomes_a_hint_for_the_author_or_is_refused(rig: PageRig) -> None:
    rig.happen(*EVENTS[:3])
    refused: dict[int, dict[str, object]] = {
        404: {"turn": 9},
        422: {"side": "left"},
        400: {"text": "x" * 9000},
    }
    with rig.served() as url, signed_in(url) as browser, Answering(rig, told) as run:
        for status, change in refused.items():
            assert browser.post(COMMENTS, {**COMMENT, **change}).status_code == status
        assert browser.post(COMMENTS, {**COMMENT, "text": " \n"}).status_code == 422
        answer = browser.post(
            COMMENTS, {**COMMENT, "path": "a\nb", "side": "old", "code": "x" * 600}
        )
        text = "The hint will be in the next prompt of analyst."
        assert answer.json() == {"heard": True, "text": text}
        said = f"About 'a\\nb':7, as it was before turn 1:\n    {'x' * 300}\nWhy?"
        assert run.requests == [Hint("analyst", said)]


def test_a_comment_on_what_others_changed_is_for_the_author_whose_work_they_judge(
    rig: PageRig,
) -> None:
    roles = ("analyst", "peer_analyst", "programmer", "tester")
    turns = [
        TurnBegan(NOON, role, 1, 1, number, "t1", "scripted")
        for number, role in enumerate(roles, 2)
    ]
    began = RunBegan(NOON, "cao-1", {}, dict.fromkeys(roles, "scripted"), "/a")
    first, last = (CheckBegan(NOON, "tests", 1, number, "make test") for number in (1, 6))
    rig.happen(began, first, *turns, last)
    with rig.served() as url, signed_in(url) as browser, Answering(rig, told) as run:
        for number in range(1, 7):
            assert browser.post(COMMENTS, {**COMMENT, "turn": number}).status_code == 200
        authors = ["analyst"] * 3 + ["programmer"] * 3
        assert [request.role for request in run.requests if isinstance(request, Hint)] == authors
