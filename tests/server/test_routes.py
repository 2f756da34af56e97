"""The routes that existing clients use, and ours beyond them."""

from dataclasses import replace

import httpx
import msgspec
import pytest

from cli_agent_orchestrator import __version__
from cli_agent_orchestrator.core.models import (
    Choice,
    NewTerminal,
    OutputMode,
    Question,
    Step,
    TerminalStatus,
)
from cli_agent_orchestrator.errors import StepFailed, StepTimeout
from cli_agent_orchestrator.server import schemas
from tests.server.running import RunningApi


def test_health_names_service_version_and_features(http: httpx.Client) -> None:
    assert http.get("/health").json() == {
        "status": "ok",
        "service": "cli-agent-orchestrator",
        "version": __version__,
        "features": [
            *("input-body", "events", "explain", "permissions", "run-step", "runs", "roles")
        ],
    }


def test_a_session_is_created_from_query_parameters(api: RunningApi, http: httpx.Client) -> None:
    answer = http.post(
        "/sessions",
        params={
            "provider": "claude_code",
            "agent_profile": "tester",
            "session_name": "shop",
            "working_directory": "/tmp",
        },
    )
    assert answer.status_code == 201
    assert answer.json()["session_name"] == "cao-shop"
    assert api.service.created == [NewTerminal("claude_code", "tester", "/tmp")]


def test_name_and_folder_of_a_session_may_be_left_out(api: RunningApi, http: httpx.Client) -> None:
    answer = http.post("/sessions", params={"provider": "codex", "agent_profile": "tester"})
    assert answer.status_code == 201
    assert api.service.created == [NewTerminal("codex", "tester", None)]


@pytest.mark.parametrize("path", ["/sessions", "/sessions/cao-shop/terminals"])
def test_permissions_travel_with_the_request(
    api: RunningApi, http: httpx.Client, path: str
) -> None:
    api.service.add(session_name="cao-shop")
    params = {"provider": "codex", "agent_profile": "tester", "permissions": "full"}
    answer = http.post(path, params=params)
    assert answer.json()["permissions"] == "full"
    assert api.service.created == [NewTerminal("codex", "tester", None, "full")]


@pytest.mark.parametrize("path", ["/sessions", "/sessions/cao-shop/terminals"])
def test_a_role_travels_with_the_request(api: RunningApi, http: httpx.Client, path: str) -> None:
    api.service.add(session_name="cao-shop")
    params = {"provider": "codex", "agent_profile": "peer_system_analyst", "role": "analyst_review"}
    assert http.post(path, params=params).json()["role"] == "analyst_review"
    assert [new.role for new in api.service.created] == ["analyst_review"]


@pytest.mark.parametrize("path", ["/sessions", "/sessions/cao-shop/terminals"])
def test_the_number_of_a_run_travels_with_the_request(
    api: RunningApi, http: httpx.Client, path: str
) -> None:
    api.service.add(session_name="cao-shop")
    params = {"provider": "codex", "agent_profile": "tester"}
    for number in ("0", "999"):
        assert http.post(path, params={**params, "run_index": number}).status_code == 201
    for odd in ("-1", "1000", "x", ""):
        assert http.post(path, params={**params, "run_index": odd}).status_code == 422
    assert [new.run_index for new in api.service.created] == [0, 999]


@pytest.mark.parametrize("path", ["/sessions", "/sessions/cao-shop/terminals"])
def test_whether_a_terminal_is_recorded_travels_with_the_request(
    api: RunningApi, http: httpx.Client, path: str
) -> None:
    api.service.add(session_name="cao-shop")
    params = {"provider": "codex", "agent_profile": "tester"}
    for word in ({}, {"record": "true"}, {"record": "false"}):
        assert http.post(path, params={**params, **word}).status_code == 201
    assert http.post(path, params={**params, "record": "often"}).status_code == 422
    assert [new.record for new in api.service.created] == [False, True, False]


@pytest.mark.parametrize("role", ["", "a b", "x:y", "a.b", "é", "x" * 65, "a\n"])
def test_a_role_that_could_not_name_a_window_is_refused(
    api: RunningApi, http: httpx.Client, role: str
) -> None:
    params = {"provider": "codex", "agent_profile": "tester", "role": role}
    assert http.post("/sessions", params=params).status_code == 422
    assert api.service.created == []


def test_permissions_that_do_not_exist_are_refused(api: RunningApi, http: httpx.Client) -> None:
    params = {"provider": "codex", "agent_profile": "tester", "permissions": "root"}
    refused = http.post("/sessions", params=params)
    assert refused.status_code == 422
    assert "'workspace', 'full' or 'ask'" in refused.json()["detail"]
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


@pytest.mark.parametrize(
    "body",
    [
        {},
        {**STEP, "prompt": None},
        {**STEP, "timeout": 0},
        {**STEP, "timeout": 1e9},
        {**STEP, "permissions": "root"},
        {**STEP, "agent": "x" * 201},
        [],
    ],
)
def test_a_step_that_cannot_be_meant_is_refused(
    api: RunningApi, http: httpx.Client, body: object
) -> None:
    assert http.post("/terminals/run-step", json=body).status_code == 422
    assert api.service.steps == []


@pytest.mark.parametrize(
    ("failure", "code"),
    [(StepFailed("codex", "it has died"), 502), (StepTimeout("codex", "it works on"), 504)],
)
def test_a_step_without_an_answer_says_why(
    api: RunningApi, http: httpx.Client, failure: StepFailed, code: int
) -> None:
    api.service.failure = failure
    answer = http.post("/terminals/run-step", json=STEP)
    assert (answer.status_code, answer.json()["detail"]) == (code, str(failure))


def test_a_terminal_is_added_to_a_session(api: RunningApi, http: httpx.Client) -> None:
    api.service.add(session_name="cao-shop")
    answer = http.post(
        "/sessions/cao-shop/terminals", params={"provider": "codex", "agent_profile": "tester"}
    )
    assert answer.status_code == 201
    assert [t["id"] for t in http.get("/sessions/cao-shop/terminals").json()] == [
        "a1b2c3d4",
        answer.json()["id"],
    ]


def test_sessions_are_listed_with_their_terminals(api: RunningApi, http: httpx.Client) -> None:
    api.service.add("one", "cao-a")
    api.service.add("two", "cao-b")
    listed = http.get("/sessions").json()
    assert [(s["name"], [t["id"] for t in s["terminals"]]) for s in listed] == [
        ("cao-a", ["one"]),
        ("cao-b", ["two"]),
    ]
    assert http.get("/sessions/cao-b").json() == listed[1]


def test_deleting_a_session_ends_its_terminals(api: RunningApi, http: httpx.Client) -> None:
    api.service.add("one", "cao-a")
    api.service.add("two", "cao-a")
    assert http.delete("/sessions/cao-a").json() == {"success": True}
    assert api.service.ended == ["one", "two"]


def test_a_terminal_shows_all_its_fields(api: RunningApi, http: httpx.Client) -> None:
    terminal = replace(api.service.add(), status=TerminalStatus.ERROR, alive=False, exit_code=137)
    api.service.known[terminal.id] = terminal
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
        "permissions": None,
        "role": None,
        "created_at": None,
    }


@pytest.mark.parametrize(
    ("query", "mode"), [("", "full"), ("?mode=last", "last"), ("?mode=screen", "screen")]
)
def test_output_is_read_in_each_mode(
    api: RunningApi, http: httpx.Client, query: str, mode: str
) -> None:
    api.service.add()
    api.service.outputs = {mode: f"the {mode} output" for mode in OutputMode}
    api.service.kept_records = ["/home/ada/record.jsonl"]
    answer = http.get(f"/terminals/a1b2c3d4/output{query}").json()
    records = ["/home/ada/record.jsonl"]
    assert answer == {"output": f"the {mode} output", "mode": mode, "records": records}


def test_output_with_half_a_character_is_still_an_answer(
    api: RunningApi, http: httpx.Client
) -> None:
    api.service.add()
    api.service.outputs = {OutputMode.FULL: "before \udc80 after"}
    assert http.get("/terminals/a1b2c3d4/output").json()["output"] == "before ? after"


def test_a_key_is_pressed(api: RunningApi, http: httpx.Client) -> None:
    api.service.add()
    answer = http.post("/terminals/a1b2c3d4/key", params={"key": "Escape"})
    assert answer.json() == {"success": True}
    assert api.service.pressed == [("a1b2c3d4", "Escape")]


def test_an_unknown_key_is_refused_with_the_known_ones(api: RunningApi, http: httpx.Client) -> None:
    api.service.add()
    answer = http.post("/terminals/a1b2c3d4/key", params={"key": "C-z"})
    assert answer.status_code == 400
    assert answer.json() == {"detail": "unknown key 'C-z'; there are: Enter, Escape"}


def test_a_question_is_told_with_its_choices(api: RunningApi, http: httpx.Client) -> None:
    api.service.add()
    assert http.get("/terminals/a1b2c3d4/question").json() == {"question": None}
    api.service.asked = Question("May I?", (Choice("1", "Yes"), Choice("2", "No")), "f00d")
    answer = http.get("/terminals/a1b2c3d4/question")
    msgspec.convert(answer.json(), schemas.AskingBody)
    choices = [{"key": "1", "label": "Yes"}, {"key": "2", "label": "No"}]
    assert answer.json() == {
        "question": {"text": "May I?", "choices": choices, "fingerprint": "f00d"}
    }
    assert http.get("/terminals/nobody/question").status_code == 404


@pytest.mark.parametrize(
    ("body", "code", "pressed"),
    [
        ({"key": "Enter"}, 200, True),
        ({"key": "Enter", "question": "f00d"}, 200, True),
        ({"key": "Enter", "question": None}, 200, True),
        ({"key": "Enter", "question": "0ld"}, 409, False),
        ({"key": "Enter", "question": ""}, 409, False),
        ({"key": "C-z"}, 400, False),
        ({"question": "f00d"}, 422, False),
        ({"key": "Enter", "question": 1}, 422, False),
        ({"key": "Enter", "question": "f" * 101}, 422, False),
        ({"key": "Enter", "more": "x" * 70_000}, 413, False),
    ],
)
def test_a_question_is_answered(
    api: RunningApi, http: httpx.Client, body: object, code: int, pressed: bool
) -> None:
    api.service.add()
    api.service.asked = Question("May I?", (), "f00d")
    answer = http.post("/terminals/a1b2c3d4/answer", json=body)
    assert answer.status_code == code, answer.text
    assert bool(api.service.pressed) == pressed


@pytest.mark.parametrize(
    ("is_answered", "code", "text"),
    [
        (True, 200, "The question is answered."),
        (False, 202, "The key was pressed; the agent asks still, or again."),
    ],
)
def test_whether_it_is_answered_is_told(
    api: RunningApi, http: httpx.Client, is_answered: bool, code: int, text: str
) -> None:
    api.service.add()
    api.service.is_answered = is_answered
    answer = http.post("/terminals/a1b2c3d4/answer", json={"key": "Enter"})
    msgspec.convert(answer.json(), schemas.AnsweredBody)
    assert (answer.status_code, answer.json()) == (code, {"answered": is_answered, "text": text})


def test_the_working_directory_is_told(api: RunningApi, http: httpx.Client) -> None:
    api.service.add()
    answer = http.get("/terminals/a1b2c3d4/working-directory").json()
    assert answer == {"working_directory": "/home/ada/shop"}


def test_a_status_is_explained_by_its_evidence(api: RunningApi, http: httpx.Client) -> None:
    terminal = api.service.add()
    answer = http.get("/terminals/a1b2c3d4/explain").json()
    assert answer["terminal_id"] == "a1b2c3d4"
    assert (answer["status"], answer["reason"]) == ("idle", "the title says so")
    title, screen = answer["evidence"]
    assert title.pop("age") > 0
    assert title == {
        "source": "title",
        "status": "idle",
        "detail": "⠋ shop",
        "at": terminal.last_active,
        "found": False,
    }
    assert screen["status"] is None


@pytest.mark.parametrize(("method", "path"), [("POST", "/exit"), ("DELETE", "")])
def test_a_terminal_is_ended(api: RunningApi, http: httpx.Client, method: str, path: str) -> None:
    api.service.add()
    answer = http.request(method, f"/terminals/a1b2c3d4{path}")
    assert (answer.status_code, answer.json()) == (200, {"success": True})
    assert api.service.ended == ["a1b2c3d4"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/health", schemas.HealthBody),
        ("/sessions", list[schemas.SessionBody]),
        ("/sessions/cao-shop", schemas.SessionBody),
        ("/sessions/cao-shop/terminals", list[schemas.TerminalBody]),
        ("/terminals/a1b2c3d4", schemas.TerminalBody),
        ("/terminals/a1b2c3d4/output", schemas.OutputBody),
        ("/terminals/a1b2c3d4/explain", schemas.ExplanationBody),
        ("/terminals/a1b2c3d4/working-directory", schemas.FolderBody),
        ("/terminals/no-such", schemas.ProblemBody),
    ],
)
def test_answers_are_as_documented(
    api: RunningApi, http: httpx.Client, path: str, body: type[msgspec.Struct]
) -> None:
    api.service.add()
    msgspec.json.decode(http.get(path).content, type=body)


def test_answers_are_not_kept_and_not_sniffed(http: httpx.Client) -> None:
    headers = http.get("/health").headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
