"""What can be asked of a run, the control file in which that is written, and the answers.

The files are real, and watched as a run watches them.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core import codec
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import NotSteerable, UsageError
from cli_agent_orchestrator.events import (
    Answer,
    AskDeclined,
    PauseAsked,
    RunEnded,
)
from cli_agent_orchestrator.pipeline.requests import (
    Hint,
    Pause,
    Request,
    SentRequest,
    Set,
    Skip,
    Stop,
    Unpause,
    to_line,
)
from cli_agent_orchestrator.runs.control import (
    Listener,
    ask_run,
    check_request,
    options_to_resume,
    pass_on,
    read_answer,
    write_request,
)
from cli_agent_orchestrator.runs.record import (
    Fate,
    RunRecord,
    RunStatus,
    SavedSetting,
    SavedTree,
    write_record,
)
from cli_agent_orchestrator.runs.recorder import EventLog
from cli_agent_orchestrator.runs.view import RunView
from cli_agent_orchestrator.settings.layout import CONTROL_FILE, STATE_NAME, STATE_VERSION
from tests.runs.kept_runs import narrow_disk
from tests.runs.views import a_run

RUN = a_run(wd="/p", round=1, providers={"analyst": "codex"})
GOOD: tuple[Request, ...] = (
    Pause(), Stop(), Skip(), Hint(None, "x"), Hint("analyst", "x"), Set("max_rounds", "3"),
)  # fmt: skip
TREE = SavedTree("/t", branch="cao/x", base="a", tip="a")
WAIT_SECONDS = 60.0


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (RunStatus.PASS, "has ended with PASS"),
        (RunStatus.FAIL, "has ended with FAIL"),
        (RunStatus.INTERRUPTED, "process is gone; `cao resume 20261115-084037-k3f9`"),
        (RunStatus.STOPPED, "was stopped; `cao resume"),
        (RunStatus.FAILED, "was stopped by an error; `cao resume"),
    ],
)
def test_of_one_that_has_ended_it_is_said_how(status: RunStatus, said: str) -> None:
    for request in GOOD:
        with pytest.raises(NotSteerable, match=said):
            check_request(replace(RUN, status=status), request)


@pytest.mark.parametrize("change", [Set("gate", "x"), Set("max_rounds", "0")])
def test_a_setting_is_checked(change: Set) -> None:
    with pytest.raises(UsageError):
        check_request(RUN, change)


def test_what_keys_wish_is_not_passed_on_to_a_run_that_is_over_or_to_another_folder(
    folder: Folder,
) -> None:
    with pytest.raises(NotSteerable, match="process is gone"):
        pass_on(folder.root, RUN.id, Pause())
    for name in ("", "..", f"../runs/{RUN.id}"):
        with pytest.raises(NotSteerable, match="no ID"):
            pass_on(folder.root, name, Pause())
    assert not (folder.path / CONTROL_FILE).exists()


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (AskDeclined(1.0, "skip", "no review is due"), "no review is due"),
        (RunEnded(1.0, "PASS", 1, 0), "ended with PASS before it heard"),
        (RunEnded(1.0, "RUNNING", 1, 3), "ended before it heard"),
    ],
)
def test_what_is_not_done_is_raised(told: Answer | RunEnded, said: str) -> None:
    with pytest.raises(NotSteerable, match=said):
        read_answer(told)


def test_only_what_the_run_says_from_now_on_and_to_this_request_is_an_answer(
    folder: Folder,
) -> None:
    log = EventLog(folder)
    log.append(RunEnded(1.0, "RUNNING", 1, 3))

    def hear(ask: SentRequest, end: int) -> None:
        log.append(AskDeclined(2.0, "skip", "no review", "other"))
        log.append(PauseAsked(2.0, ask.id))

    with Listener(folder, 0, hear, pytest.fail):
        assert ask_run(folder, Pause()).text.startswith("The run pauses")
    log.close()


class TestResuming:
    """With which options a run goes on, or why it does not."""

    def interrupted(self, folder: Folder, status: str, tree: SavedTree | None) -> RunView:
        state = {"version": STATE_VERSION, "final_status": status}
        folder.replace(STATE_NAME, codec.encode(state))
        return replace(RUN, status=RunStatus.INTERRUPTED, wd="/t", tree=tree, project="/p")

    @pytest.mark.parametrize("tree", [None, TREE])
    def test_one_that_was_killed_after_it_had_passed_is_not_resumed(
        self, folder: Folder, tree: SavedTree | None
    ) -> None:
        run = self.interrupted(folder, "PASS", tree)
        with pytest.raises(NotSteerable, match="it has passed, and was ended just then") as caught:
            options_to_resume(run, folder)
        assert ("cao apply" in str(caught.value)) is (tree is not None)

    def test_one_in_a_work_tree_is_resumed_from_the_users_own_folder(self, folder: Folder) -> None:
        options = options_to_resume(self.interrupted(folder, "RUNNING", TREE), folder)
        assert options == {"WD": "/p", "WORKSPACE": "worktree", "RESUME": "1"}

    def test_only_with_more_rounds_and_what_was_not_discarded(self, folder: Folder) -> None:
        run = replace(RUN, status=RunStatus.FAIL, round=3)
        with pytest.raises(UsageError, match="has had 3 rounds already"):
            options_to_resume(run, folder, "3")
        discarded = replace(run, tree=replace(TREE, delivered=Fate.DISCARDED))
        with pytest.raises(NotSteerable, match="discarded, so it cannot be resumed"):
            options_to_resume(discarded, folder, "9")


def ask(folder: Folder, request: Request) -> SentRequest:
    return write_request(folder, request)


def size(folder: Folder) -> int:
    return (folder.path / CONTROL_FILE).stat().st_size


class Run:
    """Hears as a run does."""

    def __init__(self) -> None:
        self._heard: SimpleQueue[tuple[SentRequest, int]] = SimpleQueue()
        self._warned: SimpleQueue[str] = SimpleQueue()
        self.warn = self._warned.put

    def hear(self, ask: SentRequest, end: int) -> None:
        self._heard.put((ask, end))

    def next(self) -> tuple[SentRequest, int]:
        return self._heard.get(timeout=WAIT_SECONDS)

    def next_ask(self) -> SentRequest:
        return self.next()[0]

    def next_warning(self) -> str:
        return self._warned.get(timeout=WAIT_SECONDS)

    @property
    def is_quiet(self) -> bool:
        return self._heard.empty() and self._warned.empty()


@contextmanager
def listening(folder: Folder, position: int = 0) -> Iterator[Run]:
    run = Run()
    with Listener(folder, position, run.hear, run.warn):
        yield run
    assert "control" not in [thread.name for thread in threading.enumerate()]


class TestWriting:
    def test_asks_are_lines_with_id_and_time_for_the_owner_alone(self, folder: Folder) -> None:
        first, second = ask(folder, Pause()), ask(folder, Hint("tester", "a\nb"))
        path = folder.path / CONTROL_FILE
        lines = filter(None, path.read_text(encoding="utf-8").splitlines())
        assert [*lines] == [to_line(first), to_line(second)]
        assert first.id != second.id
        assert 0 < first.at <= second.at
        assert path.stat().st_mode & 0o777 == 0o600

    def test_many_at_once_do_not_run_into_each_other(self, folder: Folder) -> None:
        text = "x" * 5000
        threads = [threading.Thread(target=ask, args=(folder, Hint(None, text))) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with listening(folder) as run:
            heard = [run.next() for _ in threads]
        assert all(one.request == Hint(None, text) for one, _ in heard)

    @pytest.mark.parametrize("kind", ["link", "pipe", "hard link", "folder"])
    def test_nothing_but_a_plain_file_is_written_to(self, folder: Folder, kind: str) -> None:
        path, other = folder.path / CONTROL_FILE, folder.path / "other"
        other.touch()
        match kind:
            case "link":
                path.symlink_to(other)
            case "pipe":
                os.mkfifo(path)
            case "hard link":
                path.hardlink_to(other)
            case "folder":
                path.mkdir()
        with pytest.raises(NotSteerable, match="cannot be written"):
            ask(folder, Pause())
        assert other.read_bytes() == b""

    def test_what_did_not_fit_on_the_disk_is_not_said_to_be_asked(self, folder: Folder) -> None:
        with narrow_disk(20), pytest.raises(NotSteerable, match="written: No space left on device"):
            ask(folder, Pause())
        assert size(folder) == 20
        new = ask(folder, Skip())
        with listening(folder) as run:
            assert run.next_ask() == new


def test_only_a_person_lets_a_pass_require_less(folder: Folder) -> None:
    settings = {"PROOF": SavedSetting("require", "option")}
    write_record(folder, RunRecord(RUN.id, "/p", settings=settings))
    with pytest.raises(NotSteerable, match="only a person"):
        ask_run(folder, Set("proof", "report"), 0.0)
    assert not (folder.path / CONTROL_FILE).exists()
    assert not ask_run(folder, Set("proof", "require"), 0.0).heard
    assert not ask_run(folder, Set("proof", "report"), 0.0, agreed=True).heard


class TestListening:
    def test_what_was_asked_before_and_what_is_asked_now_is_heard_in_order(
        self, folder: Folder
    ) -> None:
        before = ask(folder, Pause())
        with listening(folder) as run:
            assert not run.is_quiet, "it is heard before anything else is done"
            assert run.next() == (before, size(folder))
            now = ask(folder, Unpause())
            assert run.next() == (now, size(folder))
        assert run.is_quiet

    def test_what_was_heeded_is_not_heard_again(self, folder: Folder) -> None:
        ask(folder, Pause())
        heeded = size(folder)
        new = ask(folder, Skip())
        with listening(folder, heeded) as run:
            assert run.next() == (new, size(folder))
        assert run.is_quiet

    def test_what_is_no_file_is_said_once(self, folder: Folder) -> None:
        (folder.path / CONTROL_FILE).mkdir()
        with listening(folder) as run:
            assert "nothing can be asked of the run" in run.next_warning()
