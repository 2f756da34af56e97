"""What the client sends of runs and steps, and which of their events it reads."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.events import TurnEnded, to_line
from tests.server.run_rig import EVENTS, RUN

Body = dict[str, Any]  # Any: JSON
Bodies = list[Body]


@pytest.fixture
def bodies() -> Bodies:
    return []


@pytest.fixture
def client(bodies: Bodies) -> ApiClient:
    """A client whose requests are noted."""

    def note(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json={})

    return ApiClient(transport=httpx.MockTransport(note), working_directory="/home/ada/shop")


def test_settings_have_the_names_of_the_settings_file(client: ApiClient, bodies: Bodies) -> None:
    client.start_run(
        "do it", wd="/p", replace_terminals=True, max_rounds=3, resume=False, flow=None
    )
    client.start_run(wd="/p")
    sent = {"MAX_ROUNDS": "3", "RESUME": "false"}
    assert bodies == [
        {"wd": "/p", "task": "do it", "settings": sent, "replace_terminals": True},
        {"wd": "/p", "settings": {}, "replace_terminals": False},
    ]


def test_paths_are_meant_from_the_current_folder_and_no_text_is_taken_for_one(
    client: ApiClient, bodies: Bodies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    client.start_run(Path("task.md"), wd="project")
    assert bodies[0]["wd"] == str(tmp_path / "project")
    assert bodies[0]["task_file"] == str(tmp_path / "task.md")
    (tmp_path / "task.md").write_text("do it")
    with pytest.raises(UsageError, match=r"task\.md.* is the name of a file.* pathlib\.Path"):
        client.start_run("task.md", wd=".")
    assert len(bodies) == 1


def test_a_step_and_a_hint_have_what_was_given_and_no_more(
    client: ApiClient, bodies: Bodies
) -> None:
    client.hint(RUN, "é")
    client.run_step("tester", "what is it?")
    client.permissions = "ask"
    more: dict[str, Any] = {
        "provider": "scripted",
        "session_name": "shop",
        "timeout": 5,
        "teardown": False,
    }
    client.run_step("tester", "what is it?", **more)
    step = {"agent": "tester", "prompt": "what is it?", "working_directory": "/home/ada/shop"}
    assert bodies == [
        {"text": "é"},
        {**step, "provider": "codex", "timeout": 600.0, "teardown": True},
        {**step, **more, "permissions": "ask"},
    ]
    for seconds in (float("inf"), float("nan")):
        with pytest.raises(UsageError, match="cannot be sent"):
            client.run_step("tester", "what is it?", timeout=seconds)


def test_what_is_no_event_is_left_out() -> None:
    later = '{"seq": 1, "at": 1.0, "type": "moved_to_mars"}'
    lines = (later, "no json", "[" * 100_000, to_line(EVENTS[2]))
    text = "".join(f"data: {line}\n\n" for line in lines)
    stream = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, text=text)
    with ApiClient(transport=httpx.MockTransport(lambda _: stream)) as client:
        (event,) = client.run_events(RUN)
    assert isinstance(event, TurnEnded)
