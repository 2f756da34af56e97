"""What is kept of a run in its folder, and what happens when that cannot be."""

import threading
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from cli_agent_orchestrator.errors import RunLocked, StateError, UsageError
from cli_agent_orchestrator.events import RunEnded, RunEvent, TurnBegan, Warned
from cli_agent_orchestrator.runs.record import RunRecord, RunStatus, read_events, read_record
from cli_agent_orchestrator.runs.recorder import Recorder
from cli_agent_orchestrator.runs.view import list_runs
from cli_agent_orchestrator.settings.layout import RUNS_FOLDER, run_folder
from tests.runs.kept_runs import narrow_disk
from tests.runs.views import NOON, RUN

RECORD = RunRecord(RUN, "/p", "/p/.tmp/s.json", "do it", "do it", NOON)
BEGAN = TurnBegan(NOON, "tester", 2, 1, 9, "t", "codex")
ENDED = RunEnded(NOON, "PASS", 2, 0)


def test_threads_that_tell_at_once_are_told_one_after_the_other(tmp_path: Path) -> None:
    told: list[RunEvent] = []
    kept = Recorder(tmp_path, told.append)
    kept.start(RECORD, resumed=False)
    gate = threading.Barrier(8)

    def tell(name: int) -> None:
        gate.wait(60)
        for number in range(50):
            kept.tell(Warned(NOON, f"{name}/{number}"))

    threads = [threading.Thread(target=tell, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    kept.close()
    assert [event.seq for event in told] == list(range(1, 401))
    assert read_events(run_folder(tmp_path, RUN)) == told


def test_the_time_between_an_end_and_a_resume_is_none_that_a_run_took(tmp_path: Path) -> None:
    # The second time it was killed.
    told: list[RunEvent] = [structs.replace(ENDED, at=NOON + 5), Warned(NOON + 1005, "x")]
    for number, event in enumerate([*told, structs.replace(ENDED, at=NOON + 2005)]):
        kept = Recorder(tmp_path)
        kept.start(replace(RECORD, started=NOON + 1000 * number), resumed=number > 0)
        kept.take(event)
        kept.close()
    (run,) = list_runs(tmp_path)
    assert run.spent(NOON + 2005) == 15.0


def test_a_run_whose_folder_another_holds_does_not_go_on(tmp_path: Path) -> None:
    first = Recorder(tmp_path)
    first.start(RECORD, resumed=False)
    second = Recorder(tmp_path)
    with pytest.raises(RunLocked, match=f"another command is at work on the run {RUN}"):
        second.start(replace(RECORD, task="another"), resumed=True)
    second.take(ENDED)
    assert second.folder is None
    second.close()
    assert read_events(run_folder(tmp_path, RUN)) == []
    first.close()
    kept = read_record(run_folder(tmp_path, RUN))
    assert kept is not None
    assert kept.task == RECORD.task


def test_a_run_that_was_removed_is_not_held_and_not_resumed(tmp_path: Path) -> None:
    kept = Recorder(tmp_path)
    with pytest.raises(RunLocked, match="is removed"):
        kept.hold(RUN)
    run_folder(tmp_path, RUN).make()
    with pytest.raises(RunLocked, match="is removed"):
        kept.start(RECORD, resumed=True)
    kept.close()


def test_a_run_does_not_begin_where_it_can_have_no_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / RUNS_FOLDER).write_text("in the way")
    with pytest.raises(StateError, match="not a folder"):
        Recorder(tmp_path).start(RECORD, resumed=False)
    (tmp_path / RUNS_FOLDER).unlink()
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match="can be written by others"):
        Recorder(tmp_path).start(RECORD, resumed=False)
    assert list(tmp_path.iterdir()) == []


def test_a_run_goes_on_when_its_folder_is_taken_away_and_says_so_once(tmp_path: Path) -> None:
    kept = Recorder(tmp_path)
    kept.start(RECORD, resumed=False)
    folder = run_folder(tmp_path, RUN)
    folder.path.rename(tmp_path / "moved")
    folder.path.write_text("in the way")
    kept.take(BEGAN)
    kept.take(ENDED)
    (trouble,) = kept.pop_troubles()
    assert "out of date" in trouble
    kept.close()


def test_a_disk_that_was_full_for_a_while_loses_only_what_did_not_fit(tmp_path: Path) -> None:
    first = Recorder(tmp_path)
    first.start(RECORD, resumed=False)
    first.take(Warned(NOON, "before"))
    first.close()
    kept = Recorder(tmp_path)
    kept.start(RECORD, resumed=True)
    with narrow_disk(100):
        assert [kept.take(Warned(NOON, "lost")).seq for _ in range(5)] == [2, 3, 4, 5, 6]
        assert kept.pop_troubles()
    kept.take(Warned(NOON, "after"))
    kept.take(ENDED)
    kept.close()
    events = read_events(run_folder(tmp_path, RUN))
    texts = [event.text for event in events if isinstance(event, Warned)]
    assert texts == ["before", "after"]
    assert [event.seq for event in events] == [1, 7, 8]
    (run,) = list_runs(tmp_path)
    assert run.status is RunStatus.PASS
