"""The rules of a turn, one by one: its first step, the wait, when its file is complete."""

from itertools import product
from math import inf
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import FileChange, TerminalStatus
from cli_agent_orchestrator.handoff.wait import (
    Action,
    End,
    FileState,
    KeepWaiting,
    Observation,
    Sent,
    Signature,
    TurnEnd,
    Wait,
    advance,
    file_missing_in,
    first_step,
    reminder_for,
)
from cli_agent_orchestrator.settings.config import HandoffRules

IDLE = TerminalStatus.IDLE
COMPLETED = TerminalStatus.COMPLETED
PROCESSING = TerminalStatus.PROCESSING
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR

RULES = HandoffRules(poll_seconds=2, response_timeout=100, idle_grace=30, strict=True)

Seen = tuple[float, TerminalStatus | None] | tuple[float, TerminalStatus | None, str]


def after(*seen: Seen, rules: HandoffRules = RULES, old_error: bool = False) -> tuple[Wait, Action]:
    """Return what comes of a row of observations; all but the last must mean to look again."""
    wait = Wait.begin(0, rules, old_error)
    action: Action = KeepWaiting(0)
    for time, status, *response in seen:
        assert isinstance(action, KeepWaiting), f"the wait was over before {time}"
        wait, action = advance(wait, Observation(time, status, *response or (None,)), rules)
    return wait, action


@pytest.mark.parametrize("status", [*TerminalStatus, None])
def test_the_turn_of_an_agent_whose_folder_is_gone_ends_as_soon_as_it_is_at_rest(
    status: TerminalStatus | None,
) -> None:
    wait, gone = Wait.begin(0, RULES, old_error=True), Observation(1, status, None, True)
    action = advance(wait, gone, RULES)[1]
    if status in (IDLE, COMPLETED, ERROR):
        assert action == TurnEnd(End.FOLDER_LOST)
    else:
        assert isinstance(action, KeepWaiting)
    read_before = Observation(1, IDLE, "text", folder_gone=True)
    assert advance(wait, read_before, RULES)[1] == TurnEnd(End.ACCEPTED, "text")


def test_a_question_at_the_last_moment_is_no_timeout() -> None:
    _, action = after((99, PROCESSING), (101, WAITING))
    assert isinstance(action, KeepWaiting)


@pytest.mark.parametrize(
    ("seen", "by"),
    [
        ([(29.0, IDLE)], 30),
        ([(1.0, PROCESSING), (5.0, IDLE), (34.0, IDLE)], 35),
        ([(99.0, PROCESSING)], 100),
    ],
    ids=["guard", "grace", "timeout"],
)
def test_the_next_look_is_no_later_than_what_it_is_for(seen: list[Seen], by: float) -> None:
    assert after(*seen)[1] == KeepWaiting(by)


def test_looking_without_a_pause_is_not_possible() -> None:
    action = after((10, PROCESSING), rules=replace(RULES, poll_seconds=0))[1]
    assert isinstance(action, KeepWaiting)
    assert action.by > 10


def test_a_question_goes_on_while_the_server_is_silent() -> None:
    silent: list[Seen] = [(20, WAITING), (30, None), (60, None), (120, PROCESSING)]
    assert after(*silent, (199, PROCESSING))[1] == KeepWaiting(200)
    assert after(*silent, (200, PROCESSING))[1] == TurnEnd(End.TIMEOUT)


def test_without_an_answer_it_asks_again_ever_later() -> None:
    assert after((10, None))[1] == KeepWaiting(10.25)
    assert after((10, None), (10.25, None))[1] == KeepWaiting(10.75)
    assert after((10, None), (10.25, PROCESSING), (12, None))[1] == KeepWaiting(12.25)


def test_five_minutes_without_an_answer_are_enough() -> None:
    assert after((10, None), (309, None))[1] == KeepWaiting(309.5)
    assert after((10, None), (309.9, None))[1] == KeepWaiting(310)
    assert after((10, None), (310, None))[1] == TurnEnd(End.NO_ANSWER, seconds=300)


def test_an_answer_begins_the_five_minutes_anew() -> None:
    assert after((10, None), (50, PROCESSING), (52, None), (320, None))[1] == KeepWaiting(320.5)


def test_time_without_an_answer_is_not_rest() -> None:
    away: list[Seen] = [(1, PROCESSING), (2, IDLE), (4, None), (64, IDLE)]
    assert after(*away)[1] == KeepWaiting(66)
    assert after(*away, (91.9, IDLE))[1] == KeepWaiting(92)
    assert after(*away, (92, IDLE))[1] == TurnEnd(End.FILE_MISSING, seconds=30)


def test_silence_shows_nothing_about_the_agent() -> None:
    wait, action = after((1, None), (40, IDLE))
    assert not wait.started
    assert isinstance(action, KeepWaiting)
    assert action.warning


@pytest.mark.parametrize(
    ("seen", "action"),
    [
        ([(10, ERROR)], KeepWaiting(12)),
        ([(29, ERROR)], KeepWaiting(30)),
        ([(10, ERROR), (30, ERROR)], TurnEnd(End.ERROR)),
        ([(1, ERROR), (2, PROCESSING), (3, ERROR)], TurnEnd(End.ERROR)),
    ],
)
def test_an_old_error_counts_after_the_grace_or_after_any_work(
    seen: list[Seen], action: Action
) -> None:
    assert after(*seen, old_error=True)[1] == action


@pytest.mark.parametrize(
    ("seen", "left"),
    [
        ([(1, PROCESSING)], None),
        ([(1, PROCESSING), (2, IDLE)], None),
        ([(1, PROCESSING), (2, IDLE), (7, IDLE)], 25),
        ([(1, PROCESSING), (2, IDLE), (7, IDLE), (8, None)], None),
        ([(1, PROCESSING), (2, IDLE), (7, IDLE), (8, PROCESSING)], None),
        ([(1, IDLE), (7, IDLE)], None),
    ],
)
def test_it_is_known_when_a_file_will_count_as_missing(seen: list[Seen], left: int | None) -> None:
    assert file_missing_in(after(*seen)[0], RULES) == left


HALF: Signature = (1, 10, 100)
WHOLE: Signature = (1, 20, 200)
CLOSED, WRITING, TOUCHED = FileChange.CLOSED, FileChange.WRITING, FileChange.TOUCHED

Step = FileChange | tuple[Signature | None, float]
CASES: dict[str, tuple[list[Step], float]] = {
    # what is reported, or seen at a look and when; from when on it is complete
    "it is not there": ([(None, 5)], inf),
    "it was closed": ([CLOSED, (WHOLE, 5)], 5),
    "it stayed the same for a while": ([(WHOLE, 5), (WHOLE, 6)], 7),
    "it grew": ([(HALF, 5), (WHOLE, 6)], 8),
    "it was closed between two looks": ([(HALF, 5), CLOSED, (HALF, 6)], 5),
    "a closing counts for the look after it": ([(HALF, 5), CLOSED, (HALF, 6), (WHOLE, 7)], 9),
    "a writer has it open": ([WRITING, (HALF, 5), (HALF, 7)], 15),
    "its writer closed it": ([WRITING, (HALF, 5), CLOSED, (WHOLE, 6)], 6),
    "a writer came after the closing": ([CLOSED, WRITING, (HALF, 5)], 15),
    "a writer came after it was complete": ([CLOSED, (HALF, 5), WRITING, (WHOLE, 6)], 16),
    "that writer changed nothing": ([CLOSED, (WHOLE, 5), WRITING, (WHOLE, 6)], 5),
    "a touch is no closing": ([TOUCHED, (WHOLE, 5)], 7),
    "it vanished": ([CLOSED, (WHOLE, 5), (None, 6)], inf),
    "its closing went with it": ([CLOSED, (None, 5), (WHOLE, 6)], 8),
    "it vanished and came back": ([CLOSED, (WHOLE, 5), (None, 6), (WHOLE, 7)], 9),
}


@pytest.mark.parametrize("name", CASES)
def test_a_file_is_complete_when_it_was_closed_or_has_not_changed(name: str) -> None:
    steps, complete_at = CASES[name]
    state = FileState(unchanged_seconds=2)
    for step in steps:
        state = state.on_event(step) if isinstance(step, FileChange) else state.on_look(*step)
    assert state.complete_at == complete_at


@pytest.mark.parametrize(
    ("status", "responded", "knows_keys"),
    list(product(TerminalStatus, (True, False), (True, False))),
)
def test_the_first_step_of_a_turn(
    status: TerminalStatus, responded: bool, knows_keys: bool
) -> None:
    steps = {sent: first_step(sent, status, responded, knows_keys) for sent in Sent}
    assert steps[Sent.NO] == "send"
    if status is ERROR:
        assert {steps[sent] for sent in Sent if sent is not Sent.NO} == {"ask_again"}
        return
    is_found_by_a_look = responded or status in (PROCESSING, WAITING)
    by_a_look = "wait" if is_found_by_a_look else "ask_again"
    assert steps[Sent.YES] == "wait"
    assert steps[Sent.FAILED] is by_a_look
    assert steps[Sent.MAYBE] is ("send" if knows_keys and not responded else by_a_look)


def test_the_usual_reminder_quotes_the_path_for_a_shell() -> None:
    text = reminder_for(Path("/it's here/analyst_summary.md"))
    assert text.startswith("Your reply to the task above has not arrived")
    assert "\nRESPONSE FILE INSTRUCTION\nDo not start the task again." in text
    assert "\ncat > '/it'\"'\"'s here/analyst_summary.md' <<'CAO_RESPONSE_END'\n" in text
    assert text.endswith("\n<your complete final response>\nCAO_RESPONSE_END\n")


def test_the_words_that_are_saved_stay_the_same() -> None:
    assert [*Sent] == ["no", "maybe", "yes", "failed"]
