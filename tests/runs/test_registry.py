"""Which runs there are, from what their folders hold."""

import json
import os
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.events import (
    AgentsStarting,
    AgentStarted,
    CheckBegan,
    CheckEnded,
    FilesChanged,
    NotConverging,
    Paused,
    RunBegan,
    RunEnded,
    RunEvent,
    ServerChosen,
    TurnBegan,
    TurnEnded,
    Unpaused,
    Warned,
)
from cli_agent_orchestrator.runs.record import (
    Fate,
    RunRecord,
    RunStatus,
    SavedSetting,
    SavedTree,
    forget_agents,
    one_line,
    read_record,
    resumed_record,
    write_record,
)
from cli_agent_orchestrator.runs.recorder import after_event
from cli_agent_orchestrator.runs.view import find_live_run, find_run, list_runs, read_run
from cli_agent_orchestrator.settings.layout import (
    RECORD_FILE,
    RUNS_FOLDER,
    STATE_NAME,
    STATE_VERSION,
    run_folder,
)
from tests.runs.views import NOON, RUN

AGENTS = {"terminals": {"tester": "t"}}
STARTED = AgentStarted(NOON, "tester", "t")
RUN_BEGAN = RunBegan(NOON, "cao-1", {"tester": "t"}, {}, "/a")
CIRCLE = NotConverging(NOON, "Not converging: F1 is open.")


TESTED = TurnEnded(NOON, "tester", 1, 1, 5, "passed", "PASS", 2.0, "")
PROVEN = CheckEnded(
    NOON, "proof", 1, 6, "passed", "PASS", 2.0, "", why="proven: 3 tests", proven=True
)


def changed(count: int, *, allowed: bool = True) -> FilesChanged:
    """Say that the programmer has changed so many files."""
    return FilesChanged(NOON, "programmer", 1, 3, ("a.py",)[:count], count, 4, 2, allowed=allowed)


RECORD = RunRecord(RUN, "/p", "/p/.tmp/s.json", "do it\n\nmore", "do it", NOON)


def save(state: Path, record: RunRecord) -> Folder:
    folder = run_folder(state, record.id)
    folder.make()
    write_record(folder, record)
    return folder


def ended(state: Path, name: str, wd: str = "/p", at: float = NOON) -> None:
    save(state, replace(RECORD, id=name, wd=wd, started=at, status=RunStatus.PASS))


OWN: dict[str, object] = {"version": STATE_VERSION, "final_status": "RUNNING"}


def test_a_run_is_found_by_its_process_while_it_is_at_work(tmp_path: Path) -> None:
    folder = save(tmp_path, replace(RECORD, pid=4711))
    assert find_live_run(tmp_path, pid=4711) == ""
    with folder.locked():
        assert find_live_run(tmp_path, pid=4711) == RUN
        assert find_live_run(tmp_path, pid=4712) == ""


class TestWhatIsSaved:
    """Whether a run that ended without a verdict can be resumed is decided in one place."""

    @pytest.mark.parametrize(
        ("number", "saved", "words"),
        [
            (0, None, "not begun"),
            (1, None, "gone"),
            (1, {**OWN, "version": 1}, "gone"),
            (0, OWN, ""),
            (1, OWN, ""),
            (1, {**OWN, "final_status": "PASS"}, ""),
        ],
    )
    def test_it_is_what_the_state_file_says(
        self, tmp_path: Path, number: int, saved: dict[str, object] | None, words: str
    ) -> None:
        if saved is not None:
            run_folder(tmp_path, RUN).replace(STATE_NAME, json.dumps(saved).encode())
        for status in (RunStatus.RUNNING, RunStatus.STOPPED, RunStatus.FAILED):
            found = read_run(save(tmp_path, replace(RECORD, status=status, round=number)))
            usual = "interrupted" if status is RunStatus.RUNNING else status.word
            assert (found.words, found.is_unfinished) == (words or usual, not words)


class TestRecord:
    @pytest.mark.parametrize(
        ("events", "fields"),
        [
            (
                [ServerChosen(NOON, "http://me:secret@localhost:1", "x")],
                {"api": "http://localhost:1"},
            ),
            ([ServerChosen(NOON, "http://[x", "x")], {"api": ""}),
            ([AgentsStarting(NOON, {"tester": "codex"})], {"providers": {"tester": "codex"}}),
            ([TurnBegan(NOON, "tester", 2, 1, 9, "t", "codex")], {"round": 2, "role": "tester"}),
            ([RunEnded(NOON, "PASS", 2, 0)], {"status": RunStatus.PASS, "ended": NOON}),
            ([RunEnded(NOON, "RUNNING", 1, 129)], {"status": RunStatus.STOPPED}),
            ([RunEnded(NOON, "RUNNING", 1, 130)], {"status": RunStatus.STOPPED}),
            ([RunEnded(NOON, "RUNNING", 0, 3, "no")], {"status": RunStatus.FAILED, "reason": "no"}),
            ([RunEnded(NOON, "RUNNING", 1, 3, to_resume="x")], {"to_resume": "x"}),
            ([Paused(NOON)], {"status": RunStatus.PAUSED}),
            ([Paused(NOON), Unpaused(NOON)], {"status": RunStatus.RUNNING}),
            ([CheckBegan(NOON, "gate", 2, 9, "make")], {"round": 2, "role": "gate"}),
            ([Warned(NOON, "odd")], {"status": RunStatus.RUNNING}),
            ([STARTED], AGENTS),
            # It has not begun: its agents are ended.
            ([STARTED, RunEnded(NOON, "RUNNING", 0, 2, "no agent")], {"terminals": {}}),
            ([RUN_BEGAN], {**AGENTS, "session_name": "cao-1"}),
            ([RUN_BEGAN, RunEnded(NOON, "PASS", 1, 0)], {"terminals": {}, "session_name": ""}),
            (
                [RUN_BEGAN, RunEnded(NOON, "PASS", 1, 0, session_left="cao-1")],
                {**AGENTS, "session_name": "cao-1"},
            ),
            ([CIRCLE], {"stalled": "F1 is open."}),
            ([CIRCLE, TurnBegan(NOON, "tester", 1, 1, 9, "t", "codex")], {"stalled": CIRCLE.why}),
            ([CIRCLE, CheckBegan(NOON, "gate", 1, 9, "make")], {"stalled": CIRCLE.why}),
            ([CIRCLE, changed(1)], {"stalled": ""}),
            ([changed(1), CIRCLE], {"stalled": CIRCLE.why}),
            ([CIRCLE, changed(0)], {"stalled": CIRCLE.why}),
            ([CIRCLE, changed(1, allowed=False)], {"stalled": CIRCLE.why}),
            ([CIRCLE, RunEnded(NOON, "FAIL", 1, 1)], {"stalled": CIRCLE.why}),
            ([CIRCLE, RunEnded(NOON, "RUNNING", 1, 130)], {"stalled": CIRCLE.why}),
            ([CIRCLE, RunEnded(NOON, "PASS", 1, 0)], {"stalled": ""}),
        ],
    )
    def test_it_follows_the_events(self, events: list[RunEvent], fields: dict[str, object]) -> None:
        record = RECORD
        for event in events:
            record = after_event(record, event)
        assert {name: getattr(record, name) for name in fields} == fields

    def test_a_run_that_could_not_be_resumed_still_has_its_agents(self) -> None:
        began = after_event(RECORD, RUN_BEGAN)
        resumed = resumed_record(replace(began, to_resume="x"), replace(RECORD, pid=7), NOON)
        assert resumed.to_resume == ""
        failed = after_event(resumed, RunEnded(NOON, "RUNNING", 0, 3, "an agent is lost"))
        assert (failed.session_name, failed.terminals) == ("cao-1", {"tester": "t"})
        assert (failed.status, failed.pid) == (RunStatus.FAILED, 7)

    def test_a_resumed_run_keeps_when_and_with_what_it_began(self) -> None:
        kept, changed = SavedSetting("3", "option"), SavedSetting("9", "environment")
        before = replace(RECORD, settings={"MAX_ROUNDS": kept, "POLL_SECONDS": kept, "FLOW": kept})
        now = replace(
            RECORD,
            started=NOON + 9,
            settings={
                "MAX_ROUNDS": SavedSetting("3", "default"),
                "POLL_SECONDS": changed,
                "FLOW": SavedSetting("9", "file"),
            },
        )
        resumed = resumed_record(before, now, NOON)
        assert (resumed.started, resumed.paused_seconds) == (NOON, 9)
        assert resumed_record(before, now, NOON + 99).paused_seconds == 0
        assert resumed.settings == {"MAX_ROUNDS": kept, "POLL_SECONDS": changed, "FLOW": kept}

    @pytest.mark.parametrize(
        "text",
        [
            *("", "x", "[]", "[" * 100_000, "{}", '{"version": 1}'),
            '{"id": "x", "version": 9, "wd": "/p", "status": "PASS"}',
        ],
    )
    def test_what_is_no_record_is_none(self, tmp_path: Path, text: str) -> None:
        folder = save(tmp_path, RECORD)
        (folder.path / RECORD_FILE).write_text(text)
        assert read_record(folder) is None

    def test_odd_fields_are_left_out(self, tmp_path: Path) -> None:
        folder = save(tmp_path, RECORD)
        path = folder.path / RECORD_FILE
        data = json.loads(path.read_text())
        names = set(data) - {"version", "wd", "status"}
        odd = {name: [1e300, {"a": None}] for name in names}
        path.write_text(json.dumps({**data, **odd, "id": "../../etc"}))
        record = read_record(folder)
        assert record is not None
        assert record.id == RUN
        assert record.providers == {}

    def test_a_task_has_one_line(self) -> None:
        assert one_line("\n a\n b\n\nc") == "a b"
        assert len(one_line("word " * 100)) <= 200
        assert one_line("## Fix the sum ##\nIt is 3.") == "Fix the sum"
        assert one_line("#1 is not fixed\nyet") == "#1 is not fixed yet"
        assert one_line("#") == "#"
        assert one_line("x" * 201) == "x" * 198 + " …"
        assert one_line("x" * 200) == "x" * 200


class TestList:
    def test_the_newest_come_first(self, tmp_path: Path) -> None:
        ended(tmp_path, "20261115-084037-aaaa", at=NOON)
        ended(tmp_path, "20261115-084037-bbbb", at=NOON + 1)
        assert [run.id[-4:] for run in list_runs(tmp_path)] == ["bbbb", "aaaa"]
        assert list_runs(tmp_path / "none") == []

    @pytest.mark.parametrize(
        ("told", "status"),
        [
            ((TESTED,), RunStatus.PASS),
            ((TESTED, changed(2)), RunStatus.PASS),
            ((structs.replace(TESTED, outcome="rounds_used_up"),), RunStatus.FAIL),
            ((structs.replace(TESTED, outcome="approved"),), RunStatus.INTERRUPTED),
            ((structs.replace(TESTED, outcome="cleared"), PROVEN), RunStatus.PASS),
        ],
    )
    def test_one_that_was_killed_stands_as_it_was_judged(
        self, tmp_path: Path, told: tuple[RunEvent, ...], status: RunStatus
    ) -> None:
        record = replace(RECORD, session_name="cao-x", terminals={"tester": "a1b2c3d4"})
        for event in told:
            record = after_event(record, event)
        folder = save(tmp_path, record)
        with folder.locked():
            assert read_run(folder).status is RunStatus.RUNNING
        found = read_run(folder)
        assert found.status is status
        assert found.terminals == record.terminals
        assert (found.ended is None) is (status is RunStatus.INTERRUPTED)
        assert (found.proof, found.proven) == (
            (PROVEN.why, True) if PROVEN in told else ("", False)
        )
        save(tmp_path, resumed_record(record, RECORD, NOON))
        assert read_run(folder).status is RunStatus.INTERRUPTED

    def test_what_is_no_run_folder_is_not_listed(self, tmp_path: Path) -> None:
        ended(tmp_path, RUN)
        runs = tmp_path / RUNS_FOLDER
        for name in ("other", ".new-20261115-084037-aaaa", "..."):
            (runs / name).mkdir()
        (runs / "20261115-084037-file").touch()
        (runs / "20261115-084037-link").symlink_to(runs / RUN)
        os.mkfifo(runs / "20261115-084037-pipe")
        assert [run.id for run in list_runs(tmp_path)] == [RUN]

    def test_a_state_folder_that_others_can_write_is_refused(self, tmp_path: Path) -> None:
        ended(tmp_path, RUN)
        tmp_path.chmod(0o777)
        with pytest.raises(UsageError, match="can be written by others"):
            list_runs(tmp_path)
        with pytest.raises(UsageError, match="can be written by others"):
            find_run(tmp_path, RUN, Path("/"))


def test_agents_that_were_ended_are_forgotten_unless_somebody_is_at_work(tmp_path: Path) -> None:
    folder = save(tmp_path, replace(RECORD, terminals={"tester": "t"}, session_name="s"))
    with folder.locked():
        forget_agents(folder)
    assert read_run(folder).has_agents
    forget_agents(folder)
    assert not read_run(folder).has_agents


@pytest.mark.parametrize(
    ("status", "delivered", "earlier", "words"),
    [
        (RunStatus.PASS, Fate.NOT_YET, Fate.NOT_YET, "PASS"),
        (RunStatus.PASS, Fate.REQUESTED, Fate.NOT_YET, "PASS"),
        (RunStatus.PASS, Fate.APPLIED, Fate.NOT_YET, "PASS, applied"),
        (RunStatus.PASS, Fate.DISCARDED, Fate.APPLIED, "PASS, applied"),
        (RunStatus.PASS, Fate.DISCARDED, Fate.REQUESTED, "PASS, discarded"),
        (RunStatus.PASS, Fate.DISCARDED, Fate.NOT_YET, "PASS, discarded"),
        (RunStatus.STOPPED, Fate.DISCARDED, Fate.NOT_YET, "discarded"),
    ],
)
def test_work_that_was_applied_stays_so_when_its_tree_is_removed(
    tmp_path: Path, status: RunStatus, delivered: Fate, earlier: Fate, words: str
) -> None:
    tree = SavedTree("/t", branch="cao/1", base="a", tip="b", delivered=delivered, earlier=earlier)
    found = read_run(save(tmp_path, replace(RECORD, status=status, tree=tree)))
    assert found.words == words
    assert found.discarded is words.endswith("discarded")
    assert found.is_unfinished is False
    assert found.applied is (Fate.APPLIED in (delivered, earlier))
    assert found.waiting == ("cao/1" if delivered is Fate.NOT_YET else "")
