"""What can be asked of a run, and what its answers mean."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from cli_agent_orchestrator.core import codec
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import NotSteerable, UnknownName, UsageError
from cli_agent_orchestrator.events import (
    Answer,
    AskDeclined,
    HintTaken,
    PauseAsked,
    ReviewSkipped,
    RunEnded,
    RunEvent,
    SettingChanged,
    Unpaused,
)
from cli_agent_orchestrator.pipeline.steering import Ask, Heard, Hint, Pause, Set, Skip, Stop, Wish
from cli_agent_orchestrator.runs.control import (
    QUEUED,
    Asked,
    Listener,
    ask_run,
    check_wish,
    options_to_resume,
    pass_on,
    read_answer,
)
from cli_agent_orchestrator.runs.event_log import EventLog
from cli_agent_orchestrator.runs.record import RunRecord, RunStatus, SavedTree, write_record
from cli_agent_orchestrator.settings.layout import (
    CONTROL_FILE,
    STATE_NAME,
    STATE_VERSION,
    run_folder,
)
from tests.runs.views import a_run

RUN = a_run(wd="/p", round=1, providers={"analyst": "codex"})
GOOD: tuple[Wish, ...] = (
    Pause(), Stop(), Skip(), Hint(None, "x"), Hint("analyst", "x"), Set("max_rounds", "3"),
)  # fmt: skip


@pytest.mark.parametrize("wish", GOOD)
@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.PAUSED])
def test_a_run_under_way_can_be_asked(wish: Wish, status: RunStatus) -> None:
    check_wish(replace(RUN, status=status), wish)


@pytest.mark.parametrize("wish", GOOD)
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
def test_of_one_that_has_ended_it_is_said_how(status: RunStatus, said: str, wish: Wish) -> None:
    with pytest.raises(NotSteerable, match=said):
        check_wish(replace(RUN, status=status), wish)


def test_a_role_that_is_not_in_the_run_is_named_with_those_that_are() -> None:
    with pytest.raises(UnknownName, match="analyst"):
        check_wish(RUN, Hint("cook", "x"))
    check_wish(replace(RUN, providers={}), Hint("cook", "x"))  # the run itself will say


def test_what_keys_wish_is_not_passed_on_to_a_run_that_is_over_or_to_another_folder(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "runs" / RUN.id
    folder.mkdir(parents=True)
    with pytest.raises(NotSteerable, match="process is gone"):
        pass_on(tmp_path, RUN.id, Pause())
    for name in ("", "..", f"../runs/{RUN.id}"):
        with pytest.raises(NotSteerable, match="no ID"):
            pass_on(tmp_path, name, Pause())
    assert not (folder / CONTROL_FILE).exists()


@pytest.mark.parametrize("change", [Set("gate", "x"), Set("max_rounds", "0")])
def test_a_setting_is_checked(change: Set) -> None:
    with pytest.raises(UsageError):
        check_wish(RUN, change)


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        (None, Asked(False, QUEUED)),
        (PauseAsked(1.0), Asked(True, "The run pauses when the present turn has ended.")),
        (Unpaused(1.0), Asked(True, "The run goes on.")),
        (HintTaken(1.0, "", "x"), Asked(True, "The hint will be in the next prompt.")),
        (
            HintTaken(1.0, "tester", "x"),
            Asked(True, "The hint will be in the next prompt of tester."),
        ),
        (
            SettingChanged(1.0, "MAX_ROUNDS", "3", "8"),
            Asked(True, "max_rounds is 3 now; it was 8. It counts from the next turn on."),
        ),
        (
            ReviewSkipped(1.0, "analyst_review", 1, 2),
            Asked(
                True,
                "The run goes on: analyst_review skipped in round 1, cycle 2: "
                "it counts as approved.",
            ),
        ),
        (
            AskDeclined(1.0, "pause", "the run is paused already"),
            Asked(True, "Nothing to do: the run is paused already."),
        ),
    ],
)
def test_each_answer_means_something(told: Answer | None, asked: Asked) -> None:
    assert read_answer(told) == asked


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


@contextmanager
def answering(folder: Folder, answers: Callable[[Ask], list[RunEvent]]) -> Iterator[None]:
    """A run that has ended once, lives again, and answers every ask in the same way."""
    log = EventLog(folder)
    log.append(RunEnded(1.0, "RUNNING", 1, 3))

    def hear(heard: Heard) -> None:
        assert heard.ask is not None
        for event in answers(heard.ask):
            log.append(event)

    try:
        with Listener(folder, 0, hear, pytest.fail):
            yield
    finally:
        log.close()


class TestAnswers:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Folder:
        folder = run_folder(tmp_path, RUN.id)
        folder.make()
        return folder

    def test_what_the_run_told_before_is_none(self, folder: Folder) -> None:
        with answering(folder, lambda ask: [PauseAsked(2.0, ask.id)]):
            assert ask_run(folder, Pause()).text.startswith("The run pauses")

    def test_what_it_says_to_somebody_else_is_none(self, folder: Folder) -> None:
        with answering(
            folder,
            lambda ask: [AskDeclined(2.0, "skip", "no review", "other"), PauseAsked(2.0, ask.id)],
        ):
            assert ask_run(folder, Pause()).text.startswith("The run pauses")

    def test_a_place_where_nothing_can_be_asked_is_named(self, folder: Folder) -> None:
        os.mkfifo(folder.path / CONTROL_FILE)
        with pytest.raises(NotSteerable, match=f"{CONTROL_FILE} cannot be written: it is a pipe"):
            ask_run(folder, Pause())

    def test_a_run_that_ends_before_it_hears_says_no(self, folder: Folder) -> None:
        with (
            answering(folder, lambda _: [RunEnded(2.0, "PASS", 1, 0)]),
            pytest.raises(NotSteerable, match="ended with PASS before"),
        ):
            ask_run(folder, Pause())


def test_every_answer_names_its_ask() -> None:
    assert all("ask" in kind.__slots__ for kind in get_args(Answer))


@pytest.mark.parametrize("in_tree", [False, True])
def test_a_run_that_was_killed_after_it_had_passed_is_not_resumed(
    tmp_path: Path, in_tree: bool
) -> None:
    folder = run_folder(tmp_path, RUN.id)
    folder.make()
    folder.replace(STATE_NAME, codec.encode({"version": STATE_VERSION, "final_status": "PASS"}))
    tree = SavedTree("/t", "cao/x", "a", "a") if in_tree else None
    record = RunRecord(RUN.id, str(tmp_path), tree=tree)
    write_record(folder, record)
    with pytest.raises(NotSteerable, match="it has passed, and was ended just then") as caught:
        options_to_resume(replace(RUN, status=RunStatus.INTERRUPTED), folder)
    assert ("cao apply" in str(caught.value)) is in_tree
