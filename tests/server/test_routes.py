"""The routes that existing clients use, and ours beyond them."""

import re

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from cli_agent_orchestrator import __version__
from cli_agent_orchestrator.core.models import (
    Choice,
    NewTerminal,
    Question,
    Step,
    TerminalStatus,
)
from cli_agent_orchestrator.server.routes import AskingBody
from tests.server.running import RunningApi


def test_health_names_service_version_and_features(http: httpx.Client) -> None:
    answer = http.get("/health")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json() == {
        "status": "ok",
        "service": "cli-agent-orchestrator",
        "version": __version__,
        "features": [
            *("input-body", "events", "explain", "permissions", "run-step", "runs", "roles")
        ],
    }


NEW = {"provider": "codex", "agent_profile": "tester"}


@pytest.mark.parametrize("path", ["/sessions", "/sessions/cao-shop/terminals"])
def test_a_terminal_is_made_as_the_query_says(
    api: RunningApi, http: httpx.Client, path: str
) -> None:
    api.service.add(session_name="cao-shop")
    assert http.post(path, params=NEW).status_code == 201
    more = {
        "working_directory": "/tmp",
        "permissions": "full",
        "role": "analyst_review",
        "run_index": "0",
        "record": "true",
        "session_name": "shop",
    }
    answer = http.post(path, params={**NEW, **more})
    assert (answer.status_code, answer.json()["session_name"]) == (201, "cao-shop")
    assert api.service.created == [
        NewTerminal("codex", "tester"),
        NewTerminal(
            *("codex", "tester", "/tmp", "full"), role="analyst_review", run_index=0, record=True
        ),
    ]


def test_what_a_terminal_cannot_be_is_refused(api: RunningApi, http: httpx.Client) -> None:
    for odd in (
        {"run_index": "-1"},
        {"run_index": "1000"},
        {"record": "often"},
        {"permissions": "root"},
        {"provider": "x" * 201},
        *({"role": role} for role in ("", "x:y", "é", "x" * 65, "a\n")),
    ):
        assert http.post("/sessions", params={**NEW, **odd}).status_code == 422, odd
    assert api.service.created == []


STEP = {"provider": "codex", "agent": "tester", "prompt": "what is it?"}


def test_a_step_is_asked_for_in_one_request(api: RunningApi, http: httpx.Client) -> None:
    answer = http.post("/terminals/run-step", json=STEP)
    assert answer.status_code == 200
    assert answer.json() == {
        "terminal_id": "0badcafe",
        "last_message": "done",
        "status": "completed",
        "replayed": False,
    }
    more = {"working_directory": "/tmp", "session_name": "shop", "timeout": 5, "teardown": False}
    http.post("/terminals/run-step", json={**STEP, **more, "permissions": "ask", "other": 1})
    assert api.service.steps == [
        Step(NewTerminal("codex", "tester"), "what is it?"),
        Step(
            NewTerminal("codex", "tester", "/tmp", "ask"),
            "what is it?",
            session_name="shop",
            seconds=5,
            keep=True,
        ),
    ]


def test_a_step_that_cannot_be_meant_is_refused(api: RunningApi, http: httpx.Client) -> None:
    for body in ({}, {**STEP, "prompt": None}, {**STEP, "timeout": 0}, {**STEP, "timeout": 1e9}):
        assert http.post("/terminals/run-step", json=body).status_code == 422, body
    assert api.service.steps == []


def test_sessions_are_listed_with_their_terminals(api: RunningApi, http: httpx.Client) -> None:
    api.service.add("one", "cao-a")
    api.service.add("two", "cao-b")
    listed = http.get("/sessions").json()
    assert [(s["name"], [t["id"] for t in s["terminals"]]) for s in listed] == [
        ("cao-a", ["one"]),
        ("cao-b", ["two"]),
    ]
    assert http.get("/sessions/cao-b").json() == listed[1]
    assert http.get("/sessions/cao-b/terminals").json() == listed[1]["terminals"]
    assert http.delete("/sessions/cao-a").json() == {"success": True}
    assert api.service.ended == ["one"]


def test_a_terminal_shows_all_its_fields(api: RunningApi, http: httpx.Client) -> None:
    terminal = replace(api.service.add(), status=TerminalStatus.ERROR, alive=False, exit_code=137)
    api.service.known[terminal.id] = terminal
    folder = http.get("/terminals/a1b2c3d4/working-directory").json()
    assert folder == {"working_directory": "/home/ada/shop"}
    assert http.get("/terminals/a1b2c3d4").json() == {
        "id": "a1b2c3d4",
        "name": "programmer-1",
        "provider": "codex",
        "session_name": "cao-shop",
        "agent_profile": "programmer",
        "working_directory": "/home/ada/shop",
        "status": "error",
        "last_active": "2023-11-14T22:13:20.500000+00:00",
        "alive": False,
        "exit_code": 137,
        "action": "",
        "wakes": "",
        "permissions": None,
        "role": None,
        "created_at": None,
    }


def test_a_question_is_told_with_its_choices(api: RunningApi, http: httpx.Client) -> None:
    api.service.add()
    assert http.get("/terminals/a1b2c3d4/question").json() == {"question": None}
    api.service.asked = Question("May I?", (Choice("1", "Yes"), Choice("2", "No")), "f00d")
    answer = http.get("/terminals/a1b2c3d4/question")
    msgspec.convert(answer.json(), AskingBody)
    choices = [{"key": "1", "label": "Yes"}, {"key": "2", "label": "No"}]
    asked = {"text": "May I?", "choices": choices, "fingerprint": "f00d", "advice": ""}
    assert answer.json() == {"question": asked}
    assert http.get("/terminals/nobody/question").status_code == 404


def test_a_question_is_answered(api: RunningApi, http: httpx.Client) -> None:
    api.service.add()
    api.service.asked = Question("May I?", (), "f00d")
    for body, code in (
        ({"key": "Enter", "question": "0ld"}, 409),
        ({"key": "Enter", "question": ""}, 409),
        ({"key": "C-z"}, 400),
        ({"question": "f00d"}, 422),
    ):
        answer = http.post("/terminals/a1b2c3d4/answer", json=body)
        assert (answer.status_code, api.service.pressed) == (code, []), answer.text
    for body in ({"key": "Enter"}, {"key": "Enter", "question": "f00d"}):
        assert http.post("/terminals/a1b2c3d4/answer", json=body).status_code == 200
    assert len(api.service.pressed) == 2


def test_the_document_that_is_served_explains_everything_and_leads_nowhere_else(
    http: httpx.Client,
) -> None:
    """What it names in all is in tests/contract."""
    answer = http.get("/openapi.json")
    document = answer.json()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["summary"]
            needs_token = bool(operation.get("security", document["security"]))
            assert needs_token is (path != "/health")
    schemas = document["components"]["schemas"]
    for name, field in (("Terminal", "exit_code"), ("RunDetailBody", "paused_seconds")):
        assert schemas[name]["properties"][field]["description"]
    assert "#/$defs" not in answer.text
    assert set(re.findall(r"#/components/schemas/(\w+)", answer.text)) <= schemas.keys()
