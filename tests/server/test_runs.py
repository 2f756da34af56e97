"""The routes of runs: what the run folders hold, and how runs are started."""

import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from msgspec import structs
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import (
    MESSAGE_LIMIT,
    Asked,
    Choice,
    Question,
    TerminalStatus,
)
from cli_agent_orchestrator.errors import RunError
from cli_agent_orchestrator.events import (
    AgentStarted,
    AskDeclined,
    HintTaken,
    RunBegan,
    RunEnded,
    RunEvent,
    ServerChosen,
    StopAsked,
)
from cli_agent_orchestrator.pipeline.requests import (
    Answered,
    Hint,
    Pause,
    Request,
    SentRequest,
    Set,
    Skip,
    Unpause,
    read_lines,
)
from cli_agent_orchestrator.runs.record import write_record
from cli_agent_orchestrator.runs.usage import note_records
from cli_agent_orchestrator.server.routes import RunBody, RunDetailBody, RunTurnTextBody
from cli_agent_orchestrator.settings.layout import (
    CONTROL_FILE,
    EVENTS_FILE,
    SNAPSHOTS_FOLDER,
    STATE_NAME,
    STATE_VERSION,
    turns_folder,
)
from cli_agent_orchestrator.work.snapshots import Snapshots
from tests.server.run_rig import EVENTS, NOON, RUN, Answering, Rig
from tests.server.running import WAIT_SECONDS
from tests.usage.lines import codex_head, codex_usage, usage_record


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def http(rig: Rig) -> Iterator[httpx.Client]:
    with rig.client() as client:
        yield client


def sse(lines: Iterator[str]) -> Iterator[dict[str, object]]:
    """Yield the data of events."""
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def test_runs_are_listed_and_shown_as_documented(rig: Rig, http: httpx.Client) -> None:
    rig.happen(*EVENTS)
    (listed,) = http.get("/runs").json()
    assert (listed["id"], listed["status"]) == (RUN, "PASS")
    msgspec.convert(listed, RunBody)
    shown = http.get(f"/runs/{RUN}").json()
    msgspec.convert(shown, RunDetailBody)
    assert shown["settings"] == {"MAX_ROUNDS": {"value": "3", "source": "option"}}
    assert [turn["role"] for turn in shown["turns"]] == ["analyst"]
    assert http.get("/runs/k3f9").json() == shown


def test_a_turn_has_its_reply_its_screen_its_tokens_and_what_it_changed(
    rig: Rig, http: httpx.Client
) -> None:
    rig.happen(*EVENTS)
    # A record that leads elsewhere leads nowhere.
    (rig.project / "001-analyst.md").write_text("secret")
    write_record(rig.folder, replace(rig.record, id="../../etc"))
    turn = http.get(f"/runs/{RUN}/turns/1").json()
    (rig.project / "001-analyst.md").unlink()
    assert (turn["outcome"], turn["prompt"]) == ("delivered", None)
    for name in ("reply", "screen", "usage", "diff", "files"):
        assert turn[name] is None
    kept = turns_folder(rig.folder)
    kept.create("001-analyst.md", "the reply ✓".encode())
    kept.create("001-analyst.txt", "› done ✓".encode())
    record = rig.state / "rollout-1.jsonl"
    call = usage_record(NOON + 1, "r1", codex_usage(1003, 503, 103, 13))
    record.write_bytes(codex_head() + b"\n" + call + b"\n")
    note_records(rig.folder, "a1", [str(record)])
    snapshots = Snapshots(rig.folder.path / SNAPSHOTS_FOLDER, rig.project, None, os.environ)
    snapshots.take(0, "start")
    (rig.project / "a.txt").write_bytes(b"caf\xe9\n")
    (rig.project / "b\udcff").write_bytes(b"\0")
    snapshots.take(1, "analyst")
    turn = http.get(f"/runs/{RUN}/turns/1").json()
    msgspec.convert(turn, RunTurnTextBody)
    assert (turn["reply"], turn["screen"]) == ("the reply ✓", "› done ✓")
    used = {"input": 1003, "cached_input": 503, "output": 103, "reasoning": 13}
    assert turn["usage"] == used
    assert "+caf�\n" in turn["diff"]
    assert turn["files"] == [
        {"path": "a.txt", "status": "A", "added": 1, "removed": 0},
        {"path": "b?", "status": "A", "added": -1, "removed": -1},
    ]
    assert http.get(f"/runs/{RUN}/turns/2").status_code == 404
    assert http.get(f"/runs/{RUN}/turns/x").status_code == 422


def test_there_is_no_other_run(http: httpx.Client) -> None:
    for name in ("..%2F..%2Fetc", "zzzz", "%00", ".new-" + RUN, "*"):
        for rest in ("", "/events", "/turns/1"):
            assert http.get(f"/runs/{name}{rest}").status_code == 404


class TestEvents:
    @pytest.mark.parametrize(
        ("last", "left"), [("", [1, 2, 3, 4]), ("3", [4]), ("4", []), ("x", [1, 2, 3, 4])]
    )
    def test_an_ended_run_is_told_as_a_whole_or_what_was_missed_of_it(
        self, rig: Rig, http: httpx.Client, last: str, left: list[int]
    ) -> None:
        rig.happen(*EVENTS)
        answer = http.get(f"/runs/{RUN}/events", headers={"Last-Event-ID": last})
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert [event["seq"] for event in sse(iter(answer.text.splitlines()))] == left
        assert ("event: turn_began" in answer.text) is ("id: 2" in answer.text) is (2 in left)

    def test_a_run_under_way_is_followed(self, rig: Rig, http: httpx.Client) -> None:
        with rig.folder.locked():
            rig.happen(EVENTS[0])
            with http.stream("GET", f"/runs/{RUN}/events") as answer:
                events = sse(answer.iter_lines())
                assert next(events)["type"] == "run_began"
                rig.happen(EVENTS[1])
                assert next(events)["type"] == "turn_began"
                rig.happen(EVENTS[3])
                assert next(events)["type"] == "run_ended"
                assert list(events) == []

    def test_whoever_hangs_up_is_forgotten(self, rig: Rig) -> None:
        with rig.folder.locked(), rig.client() as http:
            rig.happen(EVENTS[0])
            with http.stream("GET", f"/runs/{RUN}/events") as answer:
                assert next(sse(answer.iter_lines()))["type"] == "run_began"
            for thread in threading.enumerate():
                if thread.name == "run-events":
                    thread.join(WAIT_SECONDS)
                    assert not thread.is_alive()

    def test_a_log_that_cannot_be_read_ends_it(self, rig: Rig, http: httpx.Client) -> None:
        (rig.folder.path / EVENTS_FILE).symlink_to("/etc/passwd")
        answer = http.get(f"/runs/{RUN}/events")
        assert answer.status_code == 200
        # A comment keeps the connection alive on a busy machine.
        assert [line for line in answer.text.split("\n") if line and line[0] != ":"] == []


class TestStart:
    def test_a_run_is_started_by_what_was_asked(self, rig: Rig, http: httpx.Client) -> None:
        body = {
            "wd": str(rig.project),
            "task": "do it",
            "settings": {"MAX_ROUNDS": "3", "WD": "/elsewhere"},
            "resume": False,
            "replace_terminals": True,
        }
        answer = http.post("/runs", json=body)
        assert answer.status_code == 201, answer.text
        assert answer.json()["id"] == RUN
        ((request, folder),) = rig.launcher.asked
        assert folder == rig.project
        assert request.options == {
            "WD": str(rig.project),
            "PROMPT": "do it",
            "MAX_ROUNDS": "3",
            "RESUME": "0",
        }
        assert request.replace_terminals

    def test_a_task_may_be_in_a_file_and_a_folder_begin_at_home_and_why_it_did_not_is_told(
        self, rig: Rig, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(rig.project.parent))
        body = {"wd": f"~/{rig.project.name}", "task_file": "task.md"}
        assert http.post("/runs", json=body).status_code == 201
        ((request, _),) = rig.launcher.asked
        assert request.options == {"WD": str(rig.project), "PROMPT_FILE": "task.md"}
        assert not request.replace_terminals
        rig.launcher.problem = RunError("another run")
        answer = http.post("/runs", json=body)
        assert (answer.status_code, answer.json()["detail"]) == (409, "another run")

    def test_what_cannot_be_is_refused(self, rig: Rig, http: httpx.Client) -> None:
        cases: list[tuple[dict[str, object], int]] = [
            ({"wd": "relative"}, 400),
            ({"wd": "/nonexistent"}, 400),
            ({"wd": "/" + "x" * 256}, 400),
            ({"task": " \n"}, 400),
            ({"settings": {"PATH": "/x"}}, 400),
            ({"settings": {"MAX_ROUNDS": 3}}, 422),
            ({"wd": None}, 422),
            ({"task": "x" * (MESSAGE_LIMIT + 1)}, 413),
        ]
        for change, code in cases:
            answer = http.post("/runs", json={"wd": str(rig.project), "task": "x", **change})
            assert answer.status_code == code, answer.text
        assert rig.launcher.asked == []


class TestSteer:
    @pytest.mark.parametrize(
        ("do", "body", "request_"),
        [
            ("pause", None, Pause()),
            ("resume", None, Unpause()),
            ("skip", None, Skip()),
            ("skip", {"role": "r", "round": 2, "cycle": 3}, Skip("r", 2, 3)),
            ("hint", {"text": "Mind the tabs.", "role": None}, Hint(None, "Mind the tabs.")),
            ("set", {"name": "max_rounds", "value": "12"}, Set("max_rounds", "12")),
        ],
    )
    def test_a_run_hears_what_is_asked(
        self, rig: Rig, http: httpx.Client, do: str, body: object, request_: Request
    ) -> None:
        def answer(ask: SentRequest) -> RunEvent:
            return HintTaken(NOON, "", "any answer will do", ask.id)

        with Answering(rig, answer) as run:
            told = http.post(f"/runs/{RUN}/{do}", json=body)
        assert told.status_code == 200, told.text
        msgspec.convert(told.json(), Asked)
        assert run.requests == [request_]

    def test_a_stop_is_over_when_the_run_is(self, rig: Rig, http: httpx.Client) -> None:
        def end(ask: SentRequest) -> RunEvent:
            rig.happen(StopAsked(NOON, ask.id))
            return RunEnded(NOON, "RUNNING", 1, 130)

        with Answering(rig, end):
            told = http.post(f"/runs/{RUN}/stop")
        assert (told.status_code, told.json()["heard"]) == (200, True)
        assert "stopped and saved" in told.json()["text"]

    def test_what_the_run_declines_is_a_conflict_and_what_it_hears_late_is_queued(
        self, rig: Rig, http: httpx.Client
    ) -> None:
        with Answering(rig, lambda ask: AskDeclined(NOON, "skip", "no review", ask.id)):
            told = http.post(f"/runs/{RUN}/skip")
        assert (told.status_code, told.json()["detail"]) == (409, "no review")
        with rig.folder.locked(), rig.client(patience=0.01) as hasty:
            told = hasty.post(f"/runs/{RUN}/pause")
        assert (told.status_code, told.json()["heard"]) == (202, False)

    def test_a_killed_run_is_resumed_as_a_process_of_its_own(
        self, rig: Rig, http: httpx.Client
    ) -> None:
        assert http.post(f"/runs/{RUN}/resume").status_code == 409
        state = {"version": STATE_VERSION, "final_status": "RUNNING"}
        rig.folder.replace(STATE_NAME, json.dumps(state).encode())
        assert http.post(f"/runs/{RUN}/resume").status_code == 200
        ((request, folder),) = rig.launcher.asked
        assert folder == rig.project
        assert request.options == {
            "WD": str(rig.project),
            "STATE_FILE": rig.record.state_file,
            "RESUME": "1",
        }

    def test_what_cannot_be_is_refused_and_not_written(self, rig: Rig, http: httpx.Client) -> None:
        rig.happen(EVENTS[0])
        with rig.folder.locked():
            for path, body, code in (
                ("zzzz/pause", None, 404),
                (f"{RUN}/dance", None, 422),
                (f"{RUN}/hint", {}, 422),
                (f"{RUN}/hint", {"text": " "}, 400),
                (f"{RUN}/hint", {"text": "x" * 70_000}, 400),
                (f"{RUN}/hint", {"text": "x", "role": "cook"}, 400),
                (f"{RUN}/set", {"name": "gates", "value": "rm"}, 400),
            ):
                told = http.post(f"/runs/{path}", json=body)
                assert told.status_code == code, told.text
        assert rig.folder.status(CONTROL_FILE) is None


WAITING = TerminalStatus.WAITING_USER_ANSWER
AGENTS = {"analyst": "a1", "programmer": "b2", "tester": "c3"}
STARTED = RunBegan(NOON, "cao-1", AGENTS, dict.fromkeys(AGENTS, "codex"), "/a")


class TestAnswer:
    """A question of an agent is answered in its own terminal."""

    @pytest.fixture
    def live(self, rig: Rig) -> Iterator[Rig]:
        """A run under way; its agents are here, and nobody asks anything."""
        rig.happen(ServerChosen(NOON, "http://127.0.0.1:9", "named", True), STARTED)
        for terminal_id in AGENTS.values():
            rig.terminals.add(terminal_id, "cao-1")
        with rig.folder.locked():
            yield rig

    def test_the_one_who_asks_is_answered(self, live: Rig, http: httpx.Client) -> None:
        live.terminals.change("b2", WAITING)
        live.terminals.asked = Question("May I?", (), "f00d")
        stale = http.post(f"/runs/{RUN}/answer", json={"text": "Enter", "question": "0ld"})
        assert (stale.status_code, live.terminals.pressed) == (409, [])
        told = http.post(f"/runs/{RUN}/answer", json={"text": "Enter", "question": "f00d"})
        assert told.status_code == 200, told.text
        msgspec.convert(told.json(), Asked)
        assert told.json() == {"heard": True, "text": "The question of programmer is answered."}
        assert live.terminals.pressed == [("b2", "Enter")]
        live.terminals.is_answered = False
        told = http.post(f"/runs/{RUN}/answer", json={"text": "Enter"})
        assert (told.status_code, told.json()["heard"]) == (202, False)
        assert "programmer asks still" in told.json()["text"]

    @pytest.mark.parametrize(
        ("route", "key", "text"),
        [
            (f"/runs/{RUN}/answer", "Enter", "Yes, always"),
            ("/terminals/b2/answer", "Escape", "Escape"),
        ],
    )
    def test_the_run_is_told_what_was_answered(
        self, live: Rig, http: httpx.Client, route: str, key: str, text: str
    ) -> None:
        live.terminals.add("b2", f"cao-{RUN}")
        live.happen(structs.replace(STARTED, session_name=f"cao-{RUN}"))
        live.terminals.change("b2", WAITING)
        choices = (Choice("Enter", "Yes, always"), Choice("Escape", " "))
        live.terminals.asked = Question("May I?", choices, "f00d")
        told = http.post(route, json={"text": key, "key": key})
        assert told.status_code == 200, told.text
        # A key that changes nothing is no answer.
        live.terminals.is_answered = False
        assert http.post(route, json={"text": key, "key": key}).status_code == 202
        ((ask, _),) = read_lines(live.folder.read(CONTROL_FILE), 0)
        assert ask is not None
        assert ask.request == Answered("programmer", text)

    def test_of_several_who_ask_one_must_be_named(self, live: Rig, http: httpx.Client) -> None:
        for terminal_id in ("b2", "c3"):
            live.terminals.change(terminal_id, WAITING)
        told = http.post(f"/runs/{RUN}/answer", json={"text": "Enter"})
        assert told.status_code == 409
        assert told.json()["detail"].endswith("which role is meant: programmer, tester")
        assert live.terminals.pressed == []
        body = {"text": "Escape", "role": "tester"}
        assert http.post(f"/runs/{RUN}/answer", json=body).status_code == 200
        assert live.terminals.pressed == [("c3", "Escape")]

    def test_agents_may_be_those_of_another_session_not_there_yet_or_the_first_to_be_started(
        self, rig: Rig, http: httpx.Client
    ) -> None:
        def told() -> tuple[int, str]:
            with rig.folder.locked():
                answer = http.post(f"/runs/{RUN}/answer", json={"text": "Enter"})
            return answer.status_code, answer.json().get("detail", "")

        assert told() == (409, f"the run {RUN} has no agents yet")
        rig.happen(AgentStarted(NOON, "analyst", "a1"))
        rig.terminals.add("a1", "cao-1")
        rig.terminals.change("a1", WAITING)
        assert told() == (200, "")
        rig.happen(STARTED)
        rig.terminals.add("b2", "cao-of-somebody-else")
        rig.terminals.change("a1", TerminalStatus.IDLE)
        rig.terminals.change("b2", WAITING)
        assert "programmer is not there" in told()[1]
        assert rig.terminals.pressed == [("a1", "Enter")]

    def test_what_cannot_be_is_refused(self, live: Rig, http: httpx.Client) -> None:
        live.terminals.change("b2", WAITING)
        for body, code in (
            ({"text": "x" * 51}, 422),
            ({"text": "yes, do it"}, 400),
            ({"text": "Enter", "role": "cook"}, 400),
        ):
            assert http.post(f"/runs/{RUN}/answer", json=body).status_code == code
        assert live.terminals.pressed == []


def test_every_field_of_a_run_is_named_on_the_page_about_the_server() -> None:
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
    told = page.partition("A run is told as JSON: ")[2].partition("\n\n")[0]
    fields = {part.name for part in msgspec.structs.fields(RunBody)}
    assert fields - set(re.findall("`(.*?)`", told)) == set()
