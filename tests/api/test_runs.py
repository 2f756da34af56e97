"""The routes of runs: what the run folders hold, and how runs are started."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from cli_agent_orchestrator.api.app import create_app, serve_runs
from cli_agent_orchestrator.api.schemas import RunBody, RunDetailBody, RunTurnTextBody
from cli_agent_orchestrator.api.serving import BackgroundServer, serve
from cli_agent_orchestrator.errors import RunError, UsageError
from cli_agent_orchestrator.events import (
    OnRunEvent,
    RunBegan,
    RunEnded,
    RunEvent,
    TurnBegan,
    TurnEnded,
    tell_nobody,
)
from cli_agent_orchestrator.layout import archive_folder, run_folder
from cli_agent_orchestrator.plain_files import Folder
from cli_agent_orchestrator.runs.event_log import EventLog
from cli_agent_orchestrator.runs.launch import Launched, Launcher, LaunchRequest
from cli_agent_orchestrator.runs.run_record import (
    RunRecord,
    SavedSetting,
    write_record,
)
from cli_agent_orchestrator.runs.service import RunService
from cli_agent_orchestrator.runs.standing import after_event
from tests.api.running import TOKEN, WAIT_SECONDS
from tests.fakes import FakeService

NOON = 1_700_000_000.0
RUN = "20261115-084037-k3f9"
EVENTS: tuple[RunEvent, ...] = (
    RunBegan(NOON, "cao-1", {"analyst": "a1"}, {"analyst": "codex"}, "/a"),
    TurnBegan(NOON, "analyst", 1, 1, 1, "a1", "codex"),
    TurnEnded(NOON + 5, "analyst", 1, 1, 1, "delivered", "summary received", 4.0, "/a/1"),
    RunEnded(NOON + 9, "PASS", 1, 0),
)


class FakeLauncher(Launcher):
    """Starts nothing, and notes what it was asked to."""

    asked: list[tuple[LaunchRequest, Path]]
    problem: Exception | None

    def __init__(self) -> None:
        super().__init__((), {})
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "problem", None)

    def launch(
        self, request: LaunchRequest, folder: Path, on_event: OnRunEvent = tell_nobody
    ) -> Launched:
        if self.problem is not None:
            raise self.problem
        self.asked.append((request, folder))
        return Launched(RUN, 1, str(folder))


class Rig:
    """A state folder with a run in it, and a server that serves it."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.project = folder / "project"
        self.project.mkdir()
        self.launcher = FakeLauncher()
        self.folder = run_folder(self.state, RUN)
        self.record = RunRecord(
            id=RUN,
            wd=str(self.project),
            state_file=str(self.project / "state.json"),
            archive=RUN,
            task="do it",
            task_line="do it",
            started=NOON,
            settings={"MAX_ROUNDS": SavedSetting("3", "option")},
        )
        self.folder.make()
        write_record(self.folder, self.record)

    def happen(self, *events: RunEvent) -> None:
        log = EventLog(self.folder)
        for event in events:
            self.record = after_event(self.record, event)
            write_record(self.folder, self.record)
            log.append(event)
        log.close()

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        async def main(ready, stop) -> None:  # type: ignore[no-untyped-def]
            app = create_app(FakeService(), token=TOKEN, heartbeat=0.05)
            serve_runs(app, RunService(self.state, self.launcher))
            await serve(app, "127.0.0.1", 0, ready=ready, stop=stop)

        server = BackgroundServer(main)
        url = f"http://127.0.0.1:{server.start()}"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        try:
            with httpx.Client(
                base_url=url, headers=headers, timeout=WAIT_SECONDS, trust_env=False
            ) as client:
                yield client
        finally:
            server.stop()


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


def test_a_turn_has_its_prompt_and_its_reply(rig: Rig, http: httpx.Client) -> None:
    rig.happen(*EVENTS)
    kept = archive_folder(rig.project, RUN)
    kept.create("001-analyst.md", "the reply ✓".encode())
    turn = http.get(f"/runs/{RUN}/turns/1").json()
    msgspec.convert(turn, RunTurnTextBody)
    assert (turn["reply"], turn["prompt"], turn["outcome"]) == ("the reply ✓", None, "delivered")
    assert http.get(f"/runs/{RUN}/turns/2").status_code == 404
    assert http.get(f"/runs/{RUN}/turns/x").status_code == 422


@pytest.mark.parametrize("name", ["..%2F..%2Fetc", "zzzz", "%00", ".new-" + RUN, "*"])
@pytest.mark.parametrize("rest", ["", "/events", "/turns/1"])
def test_there_is_no_other_run(http: httpx.Client, name: str, rest: str) -> None:
    assert http.get(f"/runs/{name}{rest}").status_code == 404


def test_a_record_that_leads_elsewhere_leads_nowhere(rig: Rig, http: httpx.Client) -> None:
    rig.happen(*EVENTS)
    (rig.project / "001-analyst.md").write_text("secret")
    write_record(rig.folder, replace(rig.record, id="../../etc", archive=".."))
    assert http.get(f"/runs/{RUN}").json()["id"] == RUN
    assert http.get(f"/runs/{RUN}/turns/1").json()["reply"] is None


@pytest.mark.parametrize("path", ["/runs", f"/runs/{RUN}", f"/runs/{RUN}/events"])
def test_a_token_is_needed(http: httpx.Client, path: str) -> None:
    assert http.get(path, headers={"Authorization": ""}).status_code == 401


class TestEvents:
    def test_an_ended_run_is_told_as_a_whole(self, rig: Rig, http: httpx.Client) -> None:
        rig.happen(*EVENTS)
        answer = http.get(f"/runs/{RUN}/events")
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = list(sse(iter(answer.text.splitlines())))
        assert [event["seq"] for event in events] == [1, 2, 3, 4]
        assert "event: turn_began" in answer.text
        assert "id: 2" in answer.text

    @pytest.mark.parametrize(("last", "left"), [("3", [4]), ("4", []), ("x", [1, 2, 3, 4])])
    def test_what_was_missed_is_told(
        self, rig: Rig, http: httpx.Client, last: str, left: list[int]
    ) -> None:
        rig.happen(*EVENTS)
        answer = http.get(f"/runs/{RUN}/events", headers={"Last-Event-ID": last})
        assert [event["seq"] for event in sse(iter(answer.text.splitlines()))] == left

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


class TestStart:
    def test_a_run_is_started_by_what_was_asked(self, rig: Rig, http: httpx.Client) -> None:
        body = {
            "wd": str(rig.project),
            "task": "do it",
            "settings": {"MAX_ROUNDS": "3"},
            "resume": False,
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

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"wd": "relative"}, 400),
            ({"wd": "/nonexistent"}, 400),
            ({"settings": {"PATH": "/x"}}, 400),
            ({"settings": {"MAX_ROUNDS": 3}}, 422),
            ({"wd": None}, 422),
        ],
    )
    def test_what_cannot_be_is_refused(
        self, rig: Rig, http: httpx.Client, change: dict[str, object], code: int
    ) -> None:
        answer = http.post("/runs", json={"wd": str(rig.project), "task": "x", **change})
        assert answer.status_code == code
        assert rig.launcher.asked == []

    @pytest.mark.parametrize(
        ("problem", "code"), [(UsageError("no task"), 400), (RunError("another run"), 409)]
    )
    def test_why_it_did_not_begin_is_told(
        self, rig: Rig, http: httpx.Client, problem: Exception, code: int
    ) -> None:
        object.__setattr__(rig.launcher, "problem", problem)
        answer = http.post("/runs", json={"wd": str(rig.project), "task": "x"})
        assert (answer.status_code, answer.json()["detail"]) == (code, str(problem))


def test_folders_of_runs_are_private(rig: Rig) -> None:
    assert isinstance(rig.folder, Folder)
    assert rig.folder.private
