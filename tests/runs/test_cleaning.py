"""What of ended runs can be removed, and what never is."""

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import asdict, replace

from cli_agent_orchestrator.errors import ApiRefused
from cli_agent_orchestrator.runs.deliver import (
    KnownRun,
    end_agents,
    end_unlisted,
    known_runs,
    listed_names,
    plan_cleanup,
    remove_folder,
)
from cli_agent_orchestrator.runs.record import (
    Fate,
    RunRecord,
    RunStatus,
    SavedSetting,
    SavedTree,
    read_record,
    write_record,
)
from cli_agent_orchestrator.runs.view import RunView, is_saved_as
from cli_agent_orchestrator.settings.layout import (
    DRAFT_PREFIX,
    RECORD_FILE,
    RUNS_FOLDER,
    STATE_NAME,
    STATE_VERSION,
    run_folder,
    worktree_folder,
)
from tests.runs.fakes import FakeServer
from tests.runs.views import NOON, RUN

OTHER = "20261115-084037-aaaa"


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    """A run that has passed, with two agents left."""
    project = tmp_path / "project"
    project.mkdir()
    return RunRecord(
        id=RUN,
        wd=str(project),
        state_file=str(project / "state.json"),
        task="do it",
        task_line="do it",
        started=NOON,
        ended=NOON,
        status=RunStatus.PASS,
        session_name="cao-1",
        terminals={"analyst": "a1", "tester": "t1"},
    )


def save(tmp_path: Path, record: RunRecord) -> Path:
    state = tmp_path / "state"
    folder = run_folder(state, record.id)
    folder.make()
    write_record(folder, record)
    return state


def save_state(state: Path, status: str = "RUNNING") -> None:
    data = {"version": STATE_VERSION, "final_status": status}
    run_folder(state, RUN).replace(STATE_NAME, json.dumps(data).encode())


def server_with(**sessions: str) -> FakeServer:
    """Return a server with these terminals, each in its session."""
    return FakeServer(terminals={one: {"session_name": name} for one, name in sessions.items()})


class TestPlan:
    def known(self, record: RunRecord, *, in_use: bool = False) -> KnownRun:
        return KnownRun(RunView(**asdict(record)), in_use)

    def test_agents_of_ended_runs_and_folders_of_those_that_ended_long_ago(
        self, record: RunRecord
    ) -> None:
        run = self.known(replace(record, started=NOON - 9))
        plan = plan_cleanup([run], NOON + 1)
        assert (plan.agents, plan.folders) == ((run,), (run,))
        assert plan_cleanup([run], NOON).folders == ()

    def test_nothing_of_a_run_in_use_and_no_agent_that_it_has_too(self, record: RunRecord) -> None:
        used = [
            record,
            replace(record, id=OTHER, session_name="cao-2", terminals={"tester": "t1"}),
            replace(record, id=OTHER, terminals={"tester": "new"}),
        ]
        for one in used:
            runs = [self.known(record), self.known(one, in_use=True)]
            assert not plan_cleanup(runs if one.id == OTHER else runs[1:], NOON + 1)

    def test_agents_of_the_state_folder_and_of_the_server_that_is_named(
        self, record: RunRecord
    ) -> None:
        there = replace(record, settings={"API": SavedSetting("http://there", "option")})
        assert not plan_cleanup([self.known(there)], NOON + 1)
        assert plan_cleanup([self.known(there)], NOON + 1, "http://there").agents
        assert not plan_cleanup([self.known(there)], NOON + 1, "http://elsewhere")
        assert plan_cleanup([self.known(record)], NOON + 1, "http://there").agents


class TestInUse:
    @pytest.mark.parametrize(
        "status", [RunStatus.RUNNING, RunStatus.STOPPED, RunStatus.FAILED, RunStatus.PAUSED]
    )
    def test_what_can_be_resumed_is_in_use_unless_it_was_discarded(
        self, tmp_path: Path, record: RunRecord, status: RunStatus
    ) -> None:
        discarded = SavedTree("/t", branch="cao/x", base="a", tip="a", delivered=Fate.DISCARDED)
        for tree in (None, discarded):
            state = save(tmp_path, replace(record, status=status, tree=tree))
            save_state(state)
            (run,) = known_runs(state, os.environ)
            assert run.in_use is (tree is None)

    def test_a_run_that_holds_its_lock_is_in_use(self, tmp_path: Path, record: RunRecord) -> None:
        state = save(tmp_path, record)
        with run_folder(state, RUN).locked():
            (run,) = known_runs(state, os.environ)
            assert run.in_use
            assert end_agents(server_with(a1="cao-1"), state, RUN) == 0
            assert remove_folder(state, RUN, os.environ) == "another command is at work on it"

    def test_a_state_that_is_over_or_gone_waits_for_nobody(
        self, tmp_path: Path, record: RunRecord
    ) -> None:
        state = save(tmp_path, record)
        folder = run_folder(state, RUN)
        assert not is_saved_as(folder)
        save_state(state, "PASS")
        assert not is_saved_as(folder)
        save_state(state)
        assert is_saved_as(folder)
        folder.replace(STATE_NAME, b"rubbish")
        assert is_saved_as(folder)


class TestUnreadable:
    @pytest.fixture
    def state(self, tmp_path: Path, record: RunRecord) -> Path:
        state = save(tmp_path, record)
        (run_folder(state, RUN).path / RECORD_FILE).write_text("rubbish", encoding="utf-8")
        return state

    def test_it_is_as_old_as_its_folder_and_goes(self, state: Path) -> None:
        began = 1_000_000.0
        os.utime(run_folder(state, RUN).path, (began, began))
        (run,) = known_runs(state, os.environ)
        assert (run.record.wd, run.in_use, run.record.words) == ("", False, "gone")
        assert plan_cleanup([run], began).folders == ()
        assert plan_cleanup([run], began + 1).folders == (run,)
        assert not remove_folder(state, RUN, os.environ)

    def test_one_at_work_or_with_a_work_tree_stays(self, state: Path) -> None:
        with run_folder(state, RUN).locked():
            (run,) = known_runs(state, os.environ)
            assert run.in_use
        worktree_folder(state, RUN).mkdir(parents=True)
        (run,) = known_runs(state, os.environ)
        assert plan_cleanup([run], 1e12).waiting == (run,)
        assert remove_folder(state, RUN, os.environ) == "its work tree is still there"


class TestUnlisted:
    def test_a_run_is_listed_if_its_folder_tells_anything(
        self, tmp_path: Path, record: RunRecord
    ) -> None:
        state = save(tmp_path, record)
        run_folder(state, OTHER).make()
        run_folder(state, f"{DRAFT_PREFIX}20261115-084037-made").make()
        gone = "20261115-084037-gone"
        names = [RUN, OTHER, "20261115-084037-made", gone]
        assert [name for name in names if name not in listed_names(state)] == [OTHER, gone]
        with run_folder(state, OTHER).locked():
            assert OTHER in listed_names(state)

    def test_only_agents_of_the_session_are_ended(self) -> None:
        server = server_with(a1=f"cao-{RUN}", t1="cao-of-somebody-else")
        assert end_unlisted(server, RUN, ["a1", "t1", "gone"]) == 1
        assert server.exited == ["a1"]


class TestDoing:
    @pytest.mark.parametrize(
        ("session", "sessions", "exited"),
        [
            ("cao-1", {"a1": "cao-1", "t1": "cao-of-somebody-else"}, ["a1"]),
            ("cao-1", {"a1": "cao-1", "t1": "cao-1"}, ["a1", "t1"]),
            # It never began.
            ("", {"a1": f"cao-{RUN}", "t1": "cao-of-somebody-else"}, ["a1"]),
        ],
    )
    def test_agents_are_ended_that_are_of_the_run(
        self,
        tmp_path: Path,
        record: RunRecord,
        session: str,
        sessions: dict[str, str],
        exited: list[str],
    ) -> None:
        status = RunStatus.PASS if session else RunStatus.RUNNING
        state = save(tmp_path, replace(record, session_name=session, status=status))
        server = server_with(**sessions)
        # The dead are removed and not counted.
        server.terminals["t1"]["alive"] = False
        assert end_agents(server, state, RUN) == 1
        assert sorted(server.exited) == exited
        after = read_record(run_folder(state, RUN))
        assert after is not None
        assert after.terminals == {}

    def test_agents_that_could_not_be_asked_for_are_not_forgotten(
        self, tmp_path: Path, record: RunRecord
    ) -> None:
        state = save(tmp_path, record)
        server = server_with(a1="cao-1")
        server.down = ApiRefused("GET", "/terminals", 503, "not now")
        with pytest.raises(ApiRefused):
            end_agents(server, state, RUN)
        after = read_record(run_folder(state, RUN))
        assert after is not None
        assert after.terminals == record.terminals

    def test_a_run_that_was_resumed_since_keeps_its_agents(
        self, tmp_path: Path, record: RunRecord
    ) -> None:
        state = save(tmp_path, replace(record, status=RunStatus.STOPPED))
        save_state(state)
        server = server_with(a1="cao-1")
        assert end_agents(server, state, RUN) == 0
        assert remove_folder(state, RUN, os.environ) == "it can be resumed"
        assert server.exited == []

    @pytest.mark.parametrize("name", ["..", ".", "", "other", "../state", DRAFT_PREFIX + ".."])
    def test_nothing_but_run_folders_is_removed(
        self, tmp_path: Path, record: RunRecord, name: str
    ) -> None:
        state = save(tmp_path, record)
        (state / RUNS_FOLDER / "other").mkdir()
        assert remove_folder(state, name, os.environ)
        assert not remove_folder(state, RUN, os.environ)
        assert [path.name for path in (state / RUNS_FOLDER).iterdir()] == ["other"]

    def test_drafts_that_nobody_makes_any_more_are_left(self, tmp_path: Path) -> None:
        mine, left = (run_folder(tmp_path, f"{DRAFT_PREFIX}{name}") for name in (RUN, OTHER))
        mine.make()
        left.make()
        (tmp_path / RUNS_FOLDER / f"{DRAFT_PREFIX}20261115-084037-link").symlink_to(tmp_path)
        with mine.locked():
            (run,) = plan_cleanup(known_runs(tmp_path, os.environ), 1e12).folders
            assert run.record.id == left.parts[-1]
            assert remove_folder(tmp_path, mine.parts[-1], os.environ)
        assert not remove_folder(tmp_path, left.parts[-1], os.environ)
