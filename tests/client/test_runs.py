"""The runs of a server, as the client lists, starts, follows and steers them."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core.models import NewTerminal, Step
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.events import TurnEnded, to_line
from tests.server.run_rig import EVENTS, RUN, Rig
from tests.server.running import TOKEN, RunningApi


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def runs(rig: Rig) -> Iterator[ApiClient]:
    with rig.served() as url, ApiClient(url, token=TOKEN) as client:
        yield client


class TestStart:
    def test_settings_have_the_names_of_the_settings_file(self, rig: Rig, runs: ApiClient) -> None:
        begun = runs.start_run(
            "do it",
            wd=rig.project,
            provider="scripted",
            max_rounds=3,
            resume=False,
            replace_terminals=True,
            flow=None,
        )
        assert begun["id"] == RUN
        ((request, folder),) = rig.launcher.asked
        assert folder == rig.project
        assert request.options == {
            "WD": str(rig.project),
            "PROMPT": "do it",
            "PROVIDER": "scripted",
            "MAX_ROUNDS": "3",
            "RESUME": "false",
        }
        assert request.replace_terminals

    def test_paths_are_meant_from_the_current_folder_and_no_text_is_taken_for_one(
        self, rig: Rig, runs: ApiClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(rig.project.parent)
        runs.start_run(Path("task.md"), wd="project")
        ((request, _),) = rig.launcher.asked
        assert request.options == {
            "WD": str(rig.project),
            "PROMPT_FILE": str(rig.project.parent / "task.md"),
        }
        (rig.project.parent / "task.md").write_text("do it")
        with pytest.raises(UsageError, match=r"task\.md.* is the name of a file.* pathlib\.Path"):
            runs.start_run("task.md", wd=".")
        assert len(rig.launcher.asked) == 1


class TestEvents:
    def test_what_is_no_event_is_left_out(self) -> None:
        later = '{"seq": 1, "at": 1.0, "type": "moved_to_mars"}'
        lines = (later, "no json", "[" * 100_000, to_line(EVENTS[2]))
        text = "".join(f"data: {line}\n\n" for line in lines)
        stream = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, text=text)
        with ApiClient(transport=httpx.MockTransport(lambda _: stream)) as client:
            (event,) = client.run_events(RUN)
        assert isinstance(event, TurnEnded)


class TestStep:
    def test_a_step_is_one_request(self, server: RunningApi, client: ApiClient) -> None:
        done = client.run_step("tester", "what is it?")
        assert (done["last_message"], done["status"]) == ("done", "completed")
        client.permissions = "ask"
        client.run_step(
            "tester",
            "and now?",
            provider="scripted",
            session_name="shop",
            timeout=5,
            teardown=False,
        )
        folder = "/home/ada/shop"
        assert server.service.steps == [
            Step(NewTerminal("codex", "tester", folder), "what is it?"),
            Step(
                NewTerminal("scripted", "tester", folder, "ask"),
                "and now?",
                session_name="shop",
                seconds=5,
                keep=True,
            ),
        ]
        for seconds in (float("inf"), float("nan")):
            with pytest.raises(UsageError, match="cannot be sent"):
                client.run_step("tester", "what is it?", timeout=seconds)


def test_nothing_is_sent_that_was_not_given() -> None:
    bodies: list[object] = []

    def note(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json={})

    with ApiClient(transport=httpx.MockTransport(note)) as client:
        client.hint(RUN, "é")
        client.start_run(wd="/p")
    assert bodies == [{"text": "é"}, {"wd": "/p", "settings": {}, "replace_terminals": False}]
