"""Every route that the page about the server lists can be asked for by a method of the client."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args
from urllib.parse import unquote

import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.server.routes import OPERATIONS, Verb

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
ROW_PATTERN = r"(?m)^\| (`(?:GET|POST|DELETE) .*?) \| "
ROUTE_PATTERN = r"`(?:(GET|POST|DELETE) )?(/[^`?]*)[^`]*`"

CALLS: dict[str, Callable[[ApiClient], object]] = {
    # What a method is given is what stands in the route.
    "GET /health": lambda client: client.health(),
    "POST /sessions": lambda client: client.create_session("tester"),
    "GET /sessions": lambda client: client.list_sessions(),
    "GET /sessions/{name}": lambda client: client.get_session("{name}"),
    "DELETE /sessions/{name}": lambda client: client.delete_session("{name}"),
    "POST /sessions/{name}/terminals": lambda client: client.create_terminal("{name}", "tester"),
    "GET /sessions/{name}/terminals": lambda client: client.list_terminals("{name}"),
    "GET /terminals/{id}": lambda client: client.get_terminal("{id}"),
    "GET /terminals/{id}/explain": lambda client: client.explain("{id}"),
    "POST /terminals/{id}/input": lambda client: client.send_input("{id}", "do it"),
    "POST /terminals/run-step": lambda client: client.run_step("tester", "do it"),
    "POST /terminals/{id}/key": lambda client: client.press_key("{id}", "Enter"),
    "GET /terminals/{id}/question": lambda client: client.get_question("{id}"),
    "POST /terminals/{id}/answer": lambda client: client.answer_agent("{id}", "1"),
    "GET /terminals/{id}/output": lambda client: client.get_output("{id}"),
    "GET /terminals/{id}/working-directory": lambda client: client.get_working_directory("{id}"),
    "POST /terminals/{id}/exit": lambda client: client.exit_terminal("{id}"),
    "DELETE /terminals/{id}": lambda client: client.delete_terminal("{id}"),
    "GET /events": lambda client: list(client.events()),
    "GET /runs": lambda client: client.list_runs(),
    "GET /runs/{id}": lambda client: client.get_run("{id}"),
    "GET /runs/{id}/turns/{n}": lambda client: client.get_turn("{id}", 7),
    "GET /runs/{id}/events": lambda client: list(client.run_events("{id}")),
    "POST /runs": lambda client: client.start_run("do it", wd="."),
    "POST /runs/{id}/pause": lambda client: client.pause_run("{id}"),
    "POST /runs/{id}/resume": lambda client: client.resume_run("{id}"),
    "POST /runs/{id}/stop": lambda client: client.stop_run("{id}"),
    "POST /runs/{id}/skip": lambda client: client.skip_review("{id}"),
    "POST /runs/{id}/hint": lambda client: client.hint("{id}", "Mind the tabs."),
    "POST /runs/{id}/set": lambda client: client.change_setting("{id}", "max_rounds", 12),
    "POST /runs/{id}/answer": lambda client: client.answer_question("{id}", "1"),
}


def routes_of(page: str) -> Iterator[str]:
    """Yield the routes of a table; one that has only its end shares all else with the one before.

    `POST /runs/{id}/pause`, `/stop` are two.
    """
    for row in re.findall(ROW_PATTERN, page):
        method, path = "", ""
        for named, found in re.findall(ROUTE_PATTERN, row):
            path = found if named else path.rpartition("/")[0] + found
            method = named or method
            yield f"{method} {path}"


LISTED = list(routes_of(PAGE.read_text(encoding="utf-8")))


def test_the_page_lists_every_route() -> None:
    offered = {
        f"{operation.method} {operation.path}".replace("{do}", do)
        .replace("{terminal_id}", "{id}")
        .replace("{run}", "{id}")
        .replace("{sequence}", "{n}")
        for operation in OPERATIONS
        for do in (get_args(Verb) if "{do}" in operation.path else ("",))
    }
    assert sorted(LISTED) == sorted(offered)


def test_every_route_has_a_method() -> None:
    assert sorted(LISTED) == sorted(CALLS)


@pytest.mark.parametrize("route", CALLS)
def test_a_method_asks_for_its_route(route: str) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {unquote(request.url.path)}")
        if request.url.path.endswith("/events"):
            return httpx.Response(200, headers={"Content-Type": "text/event-stream"})
        has_list = route in ("GET /sessions", "GET /sessions/{name}/terminals", "GET /runs")
        return httpx.Response(200, json=[] if has_list else {})

    with ApiClient(transport=httpx.MockTransport(answer)) as client:
        CALLS[route](client)
    assert asked[-1] == route.replace("{n}", "7")
