"""A run as its record and its events tell it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import StateError
from cli_agent_orchestrator.events import (
    CheckBegan,
    CheckEnded,
    EventKind,
    FilesChanged,
    HandoffEvent,
    HintTaken,
    NotConverging,
    PauseAsked,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    TurnBegan,
    TurnEnded,
    Unpaused,
    Warned,
)
from cli_agent_orchestrator.runs.record import RunStatus, SavedSetting
from cli_agent_orchestrator.runs.recorder import EventLog
from cli_agent_orchestrator.runs.view import fold, read_run, view_run
from cli_agent_orchestrator.settings.layout import run_folder
from tests.runs.kept_runs import RUN, change_record, make_run
from tests.runs.views import NOON, a_run, a_turn, turns_of

BEGAN = TurnBegan(NOON, "analyst", 1, 1, 1, "a1", "codex")
ENDED = TurnEnded(NOON + 9, "analyst", 1, 1, 1, "delivered", "summary received", 8.0, "/x")
CHECK = CheckBegan(NOON, "gate", 2, 3, "make test")
CHECKED = CheckEnded(NOON + 9, "gate", 2, 3, "failed", "FAIL; exit code 1", 9.0, "/x")
STOPPED = RunEnded(NOON + 18, "RUNNING", 1, 143)
RESUMED = RunOpened(NOON + 900, RUN, "/w", resumed=True)
AGAIN = replace(BEGAN, sequence=2, at=NOON + 901)
ASKS = HandoffEvent(
    NOON,
    EventKind.WAITING_FOR_PERSON,
    "t1",
    "programmer",
    status=TerminalStatus.WAITING_USER_ANSWER,
    question="May I run `make`?",
)


class TestTurns:
    def test_they_come_from_events(self) -> None:
        second = replace(BEGAN, sequence=2, role="analyst_review", at=NOON + 10)
        done, under_way = turns_of([BEGAN, Warned(NOON, "odd"), ENDED, second])
        times = {"began": NOON, "ended": NOON + 9, "seconds": 8.0}
        assert done == a_turn(1, verdict="", **times)
        assert (under_way.role, under_way.ended, under_way.outcome) == ("analyst_review", None, "")

    def test_one_that_was_begun_again_is_one(self) -> None:
        (turn,) = turns_of([BEGAN, replace(BEGAN, at=NOON + 5), ENDED])
        assert (turn.began, turn.ended) == (NOON, NOON + 9)

    @pytest.mark.parametrize("began", [BEGAN, CHECK])
    def test_one_is_broken_off_where_its_run_ends(self, began: TurnBegan | CheckBegan) -> None:
        again = replace(began, sequence=4, at=NOON + 901)
        turn, under_way = turns_of([began, STOPPED, RESUMED, again])
        assert (turn.ended, turn.seconds, turn.outcome) == (NOON + 18, 18.0, "")
        assert under_way.ended is None

    def test_one_that_was_under_way_when_its_run_was_killed_is_broken_off(self) -> None:
        told: list[RunEvent] = [BEGAN, Warned(NOON + 7, "odd")]
        (at_work,), (killed,) = turns_of(told), turns_of(told, RunStatus.STOPPED)
        assert at_work.ended is None
        assert (killed.ended, killed.seconds) == (NOON + 7, 7.0)
        assert turns_of([*told, RESUMED]) == [killed]

    def test_one_that_was_broken_off_and_begun_again_worked_both_times(self) -> None:
        events: list[RunEvent] = [BEGAN, STOPPED, RESUMED, replace(AGAIN, sequence=1)]
        (turn,) = turns_of(events)
        assert (turn.began, turn.ended) == (NOON, None)
        (turn,) = turns_of([*events, replace(STOPPED, at=NOON + 910)])
        assert (turn.ended, turn.seconds) == (NOON + 910, 18.0 + 9.0)

    def test_the_command_of_a_gate_is_one(self) -> None:
        cases: list[list[RunEvent]] = [[CHECK, CHECKED], [CHECKED]]
        for events in cases:
            (turn,) = turns_of(events)
            assert turn.is_gate
            assert (turn.role, turn.round, turn.cycle, turn.reviewed) == ("gate", 2, 1, False)
            assert (turn.outcome, turn.seconds, turn.ended) == ("failed", 9.0, NOON + 9)


def test_a_run_is_what_its_events_tell() -> None:
    changed = FilesChanged(NOON, "programmer", 1, 1, ("a\nb.py",), 1, 3, 1)
    assert "\n" not in changed.words
    hint = HintTaken(NOON, "tester", "look at b")
    proofs = [
        replace(CHECKED, gate="proof", sequence=number, why=f"proof {number}", log=f"/l/{number}")
        for number in (4, 5)
    ]
    run = fold(
        a_run(),
        [
            RunBegan(NOON, "s", {}, {}, "/x", reviewers=("critic",)),
            BEGAN,
            ENDED,
            changed,
            hint,
            Warned(NOON, "odd"),
            Warned(NOON, ".git/config", "repository"),
            Warned(NOON, "odd"),
            Warned(NOON, ".git/config", "repository"),
            *(NotConverging(NOON, text) for text in ("Not converging: x", "y", "x")),
            *proofs,
        ],
    )
    assert [turn.role for turn in run.turns] == ["analyst", "proof", "proof"]
    assert (run.changes, run.acts, run.reviewers) == ((changed,), (hint,), ("critic",))
    assert (run.warnings, run.repository) == (("odd", ".git/config"), (".git/config",))
    assert (run.stalls, run.gate_logs) == (("x", "y"), "/l")
    assert run.proof_check == proofs[1]
    assert fold(a_run(), []) == a_run()


def test_what_the_agent_that_asks_wants_to_know_is_told_as_long_as_it_asks() -> None:
    asked = [
        replace(ASKS, question="an earlier one"),
        ASKS,
        replace(ASKS, kind=EventKind.STATUS, question="none"),
        replace(ASKS, role="tester", question="of another"),
    ]
    assert fold(a_run(asking="programmer"), asked).question == ASKS.question
    assert fold(a_run(asking=""), asked).question == ""
    ended = a_run(asking="programmer", status=RunStatus.STOPPED)
    assert fold(ended, asked).question == ""


def test_a_run_pauses_when_its_turn_is_over() -> None:
    paused = a_run(status=RunStatus.PAUSED)
    assert fold(a_run(), [PauseAsked(NOON)]).is_pausing
    assert not fold(a_run(), [PauseAsked(NOON), Unpaused(NOON)]).is_pausing
    assert not fold(paused, [PauseAsked(NOON)]).is_pausing


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return make_run(tmp_path / "state", tmp_path, events=(BEGAN, ENDED))


def test_no_turn_of_a_run_that_was_killed_is_at_work(folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(StateError):
        view_run(run_folder(tmp_path, RUN))
    assert [turn.outcome for turn in view_run(folder).turns] == ["delivered"]
    assert read_run(folder).turns == ()
    change_record(folder, status=RunStatus.RUNNING)
    log = EventLog(folder)
    log.append(AGAIN)
    log.close()
    with folder.locked():
        assert view_run(folder).turns[-1].ended is None
    killed = view_run(folder)
    assert (killed.status, killed.turns[-1].ended) == (RunStatus.INTERRUPTED, AGAIN.at)


def test_the_most_rounds_are_those_that_were_set_last(folder: Folder) -> None:
    # What Python does not even read, since it takes so long, is among the others.
    for value, most in (("9", 9), ("9" * 5000, 0), ("²", 0), ("-1", 0), ("", 0)):
        change_record(folder, settings={"MAX_ROUNDS": SavedSetting(value, "cao set")})
        assert view_run(folder).max_rounds == most
