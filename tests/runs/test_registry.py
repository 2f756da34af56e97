"""Which runs there are, from what their folders hold."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import NotFound, UsageError
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
    RunOpened,
    ServerChosen,
    TurnBegan,
    TurnEnded,
    Unpaused,
    Warned,
)
from cli_agent_orchestrator.runs.event_log import EventLog
from cli_agent_orchestrator.runs.record import (
    Fate,
    RunRecord,
    RunStatus,
    SavedSetting,
    SavedTree,
    after_event,
    forget_agents,
    one_line,
    read_record,
    resumed_record,
    without_secrets,
    write_record,
)
from cli_agent_orchestrator.runs.view import (
    RunView,
    choose_run_to_resume,
    find_run,
    list_runs,
    read_run,
    run_of_process,
)
from cli_agent_orchestrator.settings.layout import (
    EVENTS_FILE,
    RECORD_FILE,
    RUNS_FOLDER,
    STATE_NAME,
    STATE_VERSION,
    run_folder,
)
from tests.runs.views import a_run

NOON = 1_700_000_000.0
RUN = "20261115-084037-k3f9"
CIRCLE = NotConverging(NOON, "Not converging: F1 is open.")


TESTED = TurnEnded(NOON, "tester", 1, 1, 5, "passed", "PASS", 2.0, "")
PROVEN = CheckEnded(
    NOON, "proof", 1, 6, "passed", "PASS", 2.0, "", why="proven: 3 tests", proven=True
)
ENDED = RunEnded(NOON, "PASS", 1, 0)


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
    assert run_of_process(tmp_path, 4711) == ""
    with folder.locked():
        assert run_of_process(tmp_path, 4711) == RUN
        assert run_of_process(tmp_path, 4712) == ""


class TestWhatIsSaved:
    """Whether a run that ended without a verdict can be resumed is decided in one place."""

    @pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.STOPPED, RunStatus.FAILED])
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
        self,
        tmp_path: Path,
        status: RunStatus,
        number: int,
        saved: dict[str, object] | None,
        words: str,
    ) -> None:
        folder = save(tmp_path, replace(RECORD, status=status, round=number))
        if saved is not None:
            folder.replace(STATE_NAME, json.dumps(saved).encode())
        found = read_run(folder)
        usual = "interrupted" if status is RunStatus.RUNNING else status.word
        assert (found.words, found.is_unfinished) == (words or usual, not words)


class TestRecord:
    def test_it_is_the_same_after_a_trip_through_its_file(self, tmp_path: Path) -> None:
        record = replace(
            RECORD,
            settings={"MAX_ROUNDS": SavedSetting("3", "option")},
            providers={"analyst": "codex"},
            terminals={"analyst": "a1"},
            ended=NOON + 1,
            exit_code=3,
            pid=7,
            stalled="F1 is open.",
        )
        assert read_record(save(tmp_path, record)) == record

    @pytest.mark.parametrize(
        ("events", "fields"),
        [
            (
                [ServerChosen(NOON, "http://me:secret@localhost:1", "x")],
                {"api": "http://localhost:1"},
            ),
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

    def test_agents_are_known_as_long_as_they_are_there(self) -> None:
        began = after_event(RECORD, RunBegan(NOON, "cao-1", {"tester": "t"}, {}, "/a"))
        left = after_event(began, RunEnded(NOON, "PASS", 1, 0, session_left="cao-1"))
        gone = after_event(began, RunEnded(NOON, "PASS", 1, 0))
        assert (left.session_name, left.terminals) == ("cao-1", {"tester": "t"})
        assert (gone.session_name, gone.terminals) == ("", {})

    def test_a_run_that_did_not_begin_has_ended_the_agents_it_started(self) -> None:
        started = after_event(RECORD, AgentStarted(NOON, "tester", "t"))
        assert started.terminals == {"tester": "t"}
        failed = after_event(started, RunEnded(NOON, "RUNNING", 0, 2, "no agent"))
        assert failed.terminals == {}

    def test_a_run_that_could_not_be_resumed_still_has_its_agents(self) -> None:
        began = after_event(RECORD, RunBegan(NOON, "cao-1", {"tester": "t"}, {}, "/a"))
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
        assert resumed.started == NOON
        assert resumed.settings == {"MAX_ROUNDS": kept, "POLL_SECONDS": changed, "FLOW": kept}

    @pytest.mark.parametrize(
        "text", ["", "x", "[]", "[" * 100_000, "{}", '{"version": 1}', '{"version": 9, "wd": "/p"}']
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

    def test_an_address_that_is_none_is_nothing(self) -> None:
        assert without_secrets("http://[x") == ""


class TestList:
    def test_the_newest_come_first(self, tmp_path: Path) -> None:
        ended(tmp_path, "20261115-084037-aaaa", at=NOON)
        ended(tmp_path, "20261115-084037-bbbb", at=NOON + 1)
        assert [run.id[-4:] for run in list_runs(tmp_path)] == ["bbbb", "aaaa"]

    def test_there_may_be_none(self, tmp_path: Path) -> None:
        assert list_runs(tmp_path / "none") == []

    def test_a_run_that_nobody_holds_was_interrupted(self, tmp_path: Path) -> None:
        folder = save(tmp_path, RECORD)
        with folder.locked():
            assert read_run(folder).status is RunStatus.RUNNING
        assert read_run(folder).status is RunStatus.INTERRUPTED

    @pytest.mark.parametrize(
        ("told", "status"),
        [
            ((TESTED, ENDED), RunStatus.PASS),
            ((TESTED, ENDED, Warned(NOON, "The record is out of date.")), RunStatus.PASS),
            ((TESTED, changed(2)), RunStatus.PASS),
            ((replace(TESTED, outcome="rounds_used_up"),), RunStatus.FAIL),
            ((replace(TESTED, outcome="approved"),), RunStatus.INTERRUPTED),
            ((TESTED, RunOpened(NOON, RUN, "/p", resumed=True)), RunStatus.INTERRUPTED),
            ((replace(TESTED, outcome="cleared"), PROVEN), RunStatus.PASS),
            ((PROVEN, TurnBegan(NOON, "analyst", 2, 1, 7, "t", "codex")), RunStatus.INTERRUPTED),
            ((RunEnded(NOON, "RUNNING", 1, 3, "no tmux"),), RunStatus.FAILED),
            ((RunEnded(NOON, "RUNNING", 1, 130, "Ctrl-C"),), RunStatus.STOPPED),
        ],
    )
    def test_what_a_run_told_last_counts_if_its_record_does_not_say_it(
        self, tmp_path: Path, told: tuple[RunEvent, ...], status: RunStatus
    ) -> None:
        folder = save(tmp_path, RECORD)
        log = EventLog(folder)
        for event in (TurnBegan(NOON, "tester", 1, 1, 5, "t", "codex"), *told):
            log.append(event)
        log.close()
        with (folder.path / EVENTS_FILE).open("a") as file:
            file.write('{"type": "turn_be')  # what a killed process may leave
        with folder.locked():
            assert read_run(folder).status is RunStatus.RUNNING
        found = read_run(folder)
        assert found.status is status
        assert (found.ended is None) is (status is RunStatus.INTERRUPTED)
        is_proven = PROVEN in told and status.is_verdict
        assert (found.proof, found.proven) == (PROVEN.why if is_proven else "", is_proven)

    def test_the_agents_of_a_run_that_ended_without_a_word_are_still_there(
        self, tmp_path: Path
    ) -> None:
        agents = {"tester": "a1b2c3d4"}
        folder = save(tmp_path, replace(RECORD, session_name="cao-x", terminals=agents))
        log = EventLog(folder)
        log.append(TESTED)
        log.close()
        assert read_run(folder).terminals == agents

    def test_a_record_that_cannot_be_read_hides_no_run(self, tmp_path: Path) -> None:
        folder = save(tmp_path, RECORD)
        (folder.path / RECORD_FILE).write_text("rubbish")
        (run,) = list_runs(tmp_path)
        assert (run.id, run.status) == (RUN, RunStatus.INTERRUPTED)

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


class TestFind:
    @pytest.fixture
    def state(self, tmp_path: Path) -> Path:
        ended(tmp_path, "20261115-084037-aaaa", "/p")
        ended(tmp_path, "20261115-084038-abcd", "/p")
        ended(tmp_path, "20261116-084037-aaaa", "/q")
        return tmp_path

    @pytest.mark.parametrize("text", ["20261116-084037-aaaa", "20261116", "abcd"])
    def test_by_id_by_its_beginning_and_by_its_end(self, state: Path, text: str) -> None:
        assert text in find_run(state, text, Path("/")).id

    def test_what_fits_several_lists_them(self, state: Path) -> None:
        with pytest.raises(
            UsageError, match=r"(?s)fits several.*084037-aaaa.*084037-aaaa"
        ) as error:
            find_run(state, "aaaa", Path("/"))
        assert "abcd" not in str(error.value)

    @pytest.mark.parametrize("text", ["zzzz", "0840", "../..", "20269999-000000-aaaa", "\x1b[2J"])
    def test_what_fits_none_lists_what_there_is(self, state: Path, text: str) -> None:
        with pytest.raises(NotFound, match=r"20261116-084037-aaaa \(PASS, /q\)"):
            find_run(state, text, Path("/"))

    def test_a_run_in_a_work_tree_is_named_by_its_project(self, tmp_path: Path) -> None:
        record = replace(RECORD, wd="/tree", project="/p", status=RunStatus.FAILED)
        save(tmp_path, record)
        with pytest.raises(NotFound, match=rf"{RUN} \(not begun, /p\)"):
            find_run(tmp_path, "zzzz", Path("/"))

    def test_without_a_text_it_is_the_last_one_of_this_folder(self, state: Path) -> None:
        assert find_run(state, None, Path("/q/inner")).id == "20261116-084037-aaaa"

    def test_a_folder_above_that_of_a_run_is_its_folder_too(self, tmp_path: Path) -> None:
        ended(tmp_path, "20261115-084037-aaaa", "/p/inner")
        assert find_run(tmp_path, None, Path("/p")).id == "20261115-084037-aaaa"

    def test_the_one_that_runs_comes_before_the_last_one(self, state: Path) -> None:
        record = replace(RECORD, id="20261101-000000-live", started=NOON - 9)
        with save(state, record).locked():
            assert find_run(state, None, Path("/p")).id == "20261101-000000-live"
            assert find_run(state, None, Path("/elsewhere")).id == "20261101-000000-live"

    def test_elsewhere_without_a_text_there_is_none(self, state: Path) -> None:
        for to_look in (False, True):
            with pytest.raises(UsageError, match="this folder; name one of: 2026"):
                find_run(state, None, Path("/elsewhere"), to_look=to_look)

    def test_who_only_looks_may_mean_the_only_one_elsewhere(self, tmp_path: Path) -> None:
        ended(tmp_path, "20261115-084037-aaaa", "/p")
        found = find_run(tmp_path, None, Path("/elsewhere"), to_look=True)
        assert found.id == "20261115-084037-aaaa"
        with pytest.raises(UsageError, match="this folder; name one of: 2026"):
            find_run(tmp_path, None, Path("/elsewhere"))

    @pytest.mark.parametrize(
        ("text", "words"), [(None, "no run yet"), ("k3f9", "no run 'k3f9'; there are: none")]
    )
    def test_where_there_is_none_that_is_said(
        self, tmp_path: Path, text: str | None, words: str
    ) -> None:
        with pytest.raises(UsageError, match=words):
            find_run(tmp_path, text, Path("/"))


def test_agents_that_were_ended_are_forgotten_unless_somebody_is_at_work(tmp_path: Path) -> None:
    folder = save(tmp_path, replace(RECORD, terminals={"tester": "t"}, session_name="s"))
    with folder.locked():
        forget_agents(folder)
    assert read_run(folder).has_agents
    forget_agents(folder)
    assert not read_run(folder).has_agents


@pytest.mark.parametrize(
    ("status", "words"), [(RunStatus.PASS, "PASS, discarded"), (RunStatus.STOPPED, "discarded")]
)
def test_a_run_whose_work_was_discarded_says_so(
    tmp_path: Path, status: RunStatus, words: str
) -> None:
    tree = SavedTree("/t", "cao/1", "a", "a", delivered=Fate.DISCARDED)
    found = read_run(save(tmp_path, replace(RECORD, status=status, tree=tree)))
    assert (found.words, found.is_unfinished) == (words, False)


@pytest.mark.parametrize(
    ("delivered", "earlier", "words", "discarded"),
    [
        (Fate.NOT_YET, Fate.NOT_YET, "PASS", False),
        (Fate.REQUESTED, Fate.NOT_YET, "PASS", False),
        (Fate.APPLIED, Fate.NOT_YET, "PASS, applied", False),
        (Fate.DISCARDED, Fate.APPLIED, "PASS, applied", False),
        (Fate.DISCARDED, Fate.REQUESTED, "PASS, discarded", True),
        (Fate.DISCARDED, Fate.NOT_YET, "PASS, discarded", True),
    ],
)
def test_work_that_was_applied_stays_so_when_its_tree_is_removed(
    tmp_path: Path, delivered: Fate, earlier: Fate, words: str, discarded: bool
) -> None:
    tree = SavedTree("/t", "cao/1", "a", "b", delivered=delivered, earlier=earlier)
    found = read_run(save(tmp_path, replace(RECORD, status=RunStatus.PASS, tree=tree)))
    assert (found.words, found.discarded, found.is_unfinished) == (words, discarded, False)
    assert found.applied is (Fate.APPLIED in (delivered, earlier))
    assert found.waiting == ("cao/1" if delivered is Fate.NOT_YET else "")


class TestWhichIsResumed:
    """`cao resume` without a name."""

    def runs(self, *statuses: RunStatus) -> list[RunView]:
        """Return runs of one folder, the newest first."""
        return [
            a_run(id=f"r{number}", wd="/p", status=status, ended=NOON)
            for number, status in enumerate(statuses)
        ]

    @pytest.mark.parametrize("newer", [RunStatus.FAIL, RunStatus.PASS])
    def test_it_is_the_last_that_can_go_on(self, newer: RunStatus) -> None:
        runs = self.runs(newer, RunStatus.STOPPED, RunStatus.FAILED)
        assert choose_run_to_resume(runs, None, Path("/p")).id == "r1"

    def test_one_that_did_not_begin_is_passed_over(self) -> None:
        newer, older = self.runs(RunStatus.FAILED, RunStatus.STOPPED)
        runs = [replace(newer, unsaved=True), older]
        assert choose_run_to_resume(runs, None, Path("/p")).id == "r1"
        assert choose_run_to_resume(runs, "r0", Path("/p")).id == "r0"

    def test_one_that_is_paused_comes_first(self) -> None:
        runs = self.runs(RunStatus.STOPPED, RunStatus.PAUSED)
        assert choose_run_to_resume(runs, None, Path("/p")).id == "r1"

    def test_if_none_can_go_on_it_is_the_last(self) -> None:
        runs = self.runs(RunStatus.FAIL, RunStatus.PASS)
        assert choose_run_to_resume(runs, None, Path("/p")).id == "r0"
