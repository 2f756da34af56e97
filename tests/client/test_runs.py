"""The runs of a server, as the client lists, starts, follows and steers them."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core.models import NewTerminal, Step, TerminalStatus
from cli_agent_orchestrator.errors import (
    ApiRefused,
    StepTimeout,
    UsageError,
)
from cli_agent_orchestrator.events import (
    RunEvent,
    ServerChosen,
    TurnEnded,
    to_line,
)
from tests.server.run_rig import EVENTS, NOON, RUN, Rig
from tests.server.running import TOKEN, WAIT_SECONDS, RunningApi


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def runs(rig: Rig) -> Iterator[ApiClient]:
    with rig.served() as url, ApiClient(url, token=TOKEN) as client:
        yield client


def test_a_turn_that_is_not_there_is_not_taken_for_the_run(rig: Rig, runs: ApiClient) -> None:
    rig.happen(*EVENTS)
    with pytest.raises(ApiRefused, match="no turn '9'; there are: 1") as caught:
        runs.get_turn(RUN, 9)
    assert "has no run" not in str(caught.value)


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

    def test_paths_are_meant_from_the_current_folder(
        self, rig: Rig, runs: ApiClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(rig.project.parent)
        runs.start_run(Path("task.md"), wd="project")
        ((request, _),) = rig.launcher.asked
        assert request.options == {
            "WD": str(rig.project),
            "PROMPT_FILE": str(rig.project.parent / "task.md"),
        }

    def test_a_text_that_is_the_name_of_a_file_is_not_taken_for_the_task(
        self, rig: Rig, runs: ApiClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(rig.project)
        (rig.project / "task.md").write_text("do it")
        with pytest.raises(UsageError, match=r"task\.md.* is the name of a file.* pathlib\.Path"):
            runs.start_run("task.md", wd=".")
        assert rig.launcher.asked == []


class TestEvents:
    def test_a_run_under_way_is_followed_until_another_thread_ends_it(
        self, rig: Rig, runs: ApiClient
    ) -> None:
        read: list[RunEvent] = []
        began = threading.Event()

        def follow() -> None:
            for event in runs.run_events(RUN):
                read.append(event)
                began.set()

        with rig.folder.locked():
            rig.happen(EVENTS[0])
            reader = threading.Thread(target=follow)
            reader.start()
            assert began.wait(WAIT_SECONDS)
            runs.close_events()
            reader.join(WAIT_SECONDS)
        assert not reader.is_alive()
        assert len(read) == 1

    def test_what_is_no_event_is_left_out(self) -> None:
        later = '{"seq": 1, "at": 1.0, "type": "moved_to_mars"}'
        lines = (later, "no json", "[" * 100_000, to_line(EVENTS[2]))
        text = "".join(f"data: {line}\n\n" for line in lines)
        stream = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, text=text)
        with ApiClient(transport=httpx.MockTransport(lambda _: stream)) as client:
            (event,) = client.run_events(RUN)
        assert isinstance(event, TurnEnded)


class TestSteer:
    def test_a_question_is_answered_with_a_key(self, rig: Rig, runs: ApiClient) -> None:
        rig.happen(ServerChosen(NOON, "http://127.0.0.1:9", "named", True), EVENTS[0])
        rig.terminals.add("a1", "cao-1")
        rig.terminals.change("a1", TerminalStatus.WAITING_USER_ANSWER)
        with rig.folder.locked():
            told = runs.answer_question(RUN, "Enter", role="analyst")
        assert told == {"heard": True, "text": "The question of analyst is answered."}
        assert rig.terminals.pressed == [("a1", "Enter")]


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

    @pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
    def test_what_is_no_number_is_not_sent(self, client: ApiClient, seconds: float) -> None:
        with pytest.raises(UsageError, match="cannot be sent"):
            client.run_step("tester", "what is it?", timeout=seconds)

    def test_why_it_failed_is_told_without_the_route(
        self, server: RunningApi, client: ApiClient
    ) -> None:
        server.service.failure = StepTimeout("codex", "no answer within 5 s")
        with pytest.raises(ApiRefused, match="no answer within 5 s") as caught:
            client.run_step("tester", "what is it?")
        assert caught.value.status_code == 504
        assert "run-step" not in str(caught.value)


def test_nothing_is_sent_that_was_not_given() -> None:
    bodies: list[object] = []

    def note(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json={})

    with ApiClient(transport=httpx.MockTransport(note)) as client:
        client.hint(RUN, "é")
        client.start_run(wd="/p")
    assert bodies == [{"text": "é"}, {"wd": "/p", "settings": {}, "replace_terminals": False}]
