"""The runs of a server, as the client lists, starts, follows and steers them."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core.models import NewTerminal, Step, TerminalStatus
from cli_agent_orchestrator.errors import (
    ApiRefused,
    ConfigError,
    StepTimeout,
    UsageError,
)
from cli_agent_orchestrator.events import (
    AskDeclined,
    HintTaken,
    PauseAsked,
    ReviewSkipped,
    RunEnded,
    RunEvent,
    ServerChosen,
    SettingChanged,
    StopAsked,
    TurnEnded,
    Unpaused,
    to_line,
)
from cli_agent_orchestrator.pipeline.steering import (
    Ask,
    Hint,
    Pause,
    Set,
    Skip,
    Stop,
    Unpause,
    Wish,
)
from cli_agent_orchestrator.pipeline.task import with_heading
from tests.server.run_rig import EVENTS, NOON, RUN, Answering, Rig
from tests.server.running import TOKEN, WAIT_SECONDS, RunningApi


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def runs(rig: Rig) -> Iterator[ApiClient]:
    with rig.served() as url, ApiClient(url, token=TOKEN) as client:
        yield client


def test_runs_are_listed_and_shown(rig: Rig, runs: ApiClient) -> None:
    rig.happen(*EVENTS)
    (listed,) = runs.list_runs()
    assert (listed["id"], listed["status"]) == (RUN, "PASS")
    shown = runs.get_run("k3f9")
    assert [turn["role"] for turn in shown["turns"]] == ["analyst"]
    turn = runs.get_turn(RUN, 1)
    assert (turn["outcome"], turn["reply"]) == ("delivered", None)


def test_a_run_that_is_not_there_is_refused(runs: ApiClient) -> None:
    with pytest.raises(ApiRefused, match="no run 'zzzz'; `cao runs` lists") as caught:
        runs.get_run("zzzz")
    assert caught.value.status_code == 404


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
            "PROMPT": with_heading("do it"),
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

    def test_a_task_may_be_left_out(self, rig: Rig, runs: ApiClient) -> None:
        runs.start_run(wd=rig.project)
        ((request, _),) = rig.launcher.asked
        assert request.options == {"WD": str(rig.project)}

    def test_an_unknown_setting_is_told_before_anything_is_sent(
        self, rig: Rig, runs: ApiClient
    ) -> None:
        with pytest.raises(ConfigError, match=r"max_round in start_run .*did you mean max_rounds"):
            runs.start_run("do it", wd=rig.project, max_round=3)
        assert rig.launcher.asked == []

    def test_why_it_did_not_begin_is_told(self, rig: Rig, runs: ApiClient) -> None:
        object.__setattr__(rig.launcher, "problem", UsageError("no task"))
        with pytest.raises(ApiRefused, match="no task") as caught:
            runs.start_run("x", wd=rig.project)
        assert caught.value.status_code == 400


class TestEvents:
    def test_an_ended_run_is_told_as_a_whole(self, rig: Rig, runs: ApiClient) -> None:
        rig.happen(*EVENTS)
        told = list(runs.run_events(RUN))
        assert [type(event) for event in told] == [type(event) for event in EVENTS]
        assert [event.seq for event in told] == [1, 2, 3, 4]
        assert [event.seq for event in runs.run_events(RUN, after=told[1].seq)] == [3, 4]

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

    def test_the_run_must_be_there(self, runs: ApiClient) -> None:
        with pytest.raises(ApiRefused) as caught:
            next(runs.run_events("zzzz"))
        assert caught.value.status_code == 404

    def test_what_is_no_event_is_left_out(self) -> None:
        later = '{"seq": 1, "at": 1.0, "type": "moved_to_mars"}'
        lines = (later, "no json", "[" * 100_000, to_line(EVENTS[2]))
        text = "".join(f"data: {line}\n\n" for line in lines)
        stream = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, text=text)
        with ApiClient(transport=httpx.MockTransport(lambda _: stream)) as client:
            (event,) = client.run_events(RUN)
        assert isinstance(event, TurnEnded)


STEERED: list[
    tuple[Callable[[ApiClient], dict[str, object]], Wish, Callable[[Ask], RunEvent], str]
] = [
    (
        lambda client: client.pause_run("k3f9"),
        Pause(),
        lambda ask: PauseAsked(NOON, ask.id),
        "pauses",
    ),
    (
        lambda client: client.resume_run("k3f9"),
        Unpause(),
        lambda ask: Unpaused(NOON, ask.id),
        "goes on",
    ),
    (
        lambda client: client.skip_review("k3f9"),
        Skip(),
        lambda ask: ReviewSkipped(NOON, "peer", 1, 1, ask.id),
        "peer skipped",
    ),
    (
        lambda client: client.hint("k3f9", "Mind the tabs.", role="tester"),
        Hint("tester", "Mind the tabs."),
        lambda ask: HintTaken(NOON, "tester", "Mind the tabs.", ask.id),
        "next prompt of tester",
    ),
    (
        lambda client: client.hint("k3f9", "Mind the tabs."),
        Hint(None, "Mind the tabs."),
        lambda ask: HintTaken(NOON, "", "Mind the tabs.", ask.id),
        "next prompt.",
    ),
    (
        lambda client: client.change_setting("k3f9", "max_rounds", 12),
        Set("max_rounds", "12"),
        lambda ask: SettingChanged(NOON, "MAX_ROUNDS", "12", "8", ask.id),
        "max_rounds is 12 now",
    ),
]


class TestSteer:
    @pytest.mark.parametrize(("ask", "wish", "answer", "words"), STEERED)
    def test_a_run_hears_what_is_asked(
        self,
        rig: Rig,
        runs: ApiClient,
        ask: Callable[[ApiClient], dict[str, object]],
        wish: Wish,
        answer: Callable[[Ask], RunEvent],
        words: str,
    ) -> None:
        with Answering(rig, answer) as run:
            told = ask(runs)
        assert run.wishes == [wish]
        assert told["heard"] is True
        assert words in str(told["text"])

    def test_a_stop_is_over_when_the_run_is(self, rig: Rig, runs: ApiClient) -> None:
        def end(ask: Ask) -> RunEvent:
            rig.happen(StopAsked(NOON, ask.id))
            return RunEnded(NOON, "RUNNING", 1, 130)

        with Answering(rig, end) as run:
            told = runs.stop_run(RUN)
        assert run.wishes == [Stop()]
        assert "stopped and saved" in told["text"]

    def test_what_is_not_heard_in_time_is_no_error(self, rig: Rig) -> None:
        with (
            rig.folder.locked(),
            rig.served(patience=0.01) as url,
            ApiClient(url, token=TOKEN) as client,
        ):
            assert client.pause_run(RUN)["heard"] is False

    def test_what_the_run_declines_is_refused(self, rig: Rig, runs: ApiClient) -> None:
        with (
            Answering(rig, lambda ask: AskDeclined(NOON, "skip", "no review", ask.id)),
            pytest.raises(ApiRefused, match="no review") as caught,
        ):
            runs.skip_review(RUN)
        assert (caught.value.status_code, caught.value.detail) == (409, "no review")

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

    @pytest.mark.parametrize("seconds", [0, -1e300, 1e300])
    def test_a_time_that_cannot_be_is_refused(self, client: ApiClient, seconds: float) -> None:
        with pytest.raises(ApiRefused) as caught:
            client.run_step("tester", "what is it?", timeout=seconds)
        assert caught.value.status_code == 422

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
